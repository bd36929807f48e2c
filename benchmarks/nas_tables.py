"""Measured tables as search problems: a space, objectives, and a function from member to values.

The tables are those of HW-GPT-Bench (https://arxiv.org/abs/2405.10299), NAS-Bench-BERT
(https://arxiv.org/abs/2306.08842) and NAS-Bench-NLP (https://arxiv.org/abs/2006.07116). A table
knows only its rows, so a proposal outside of it needs a rule, and each problem says which.
"""

import csv
import gzip
import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from formwright.space import OneOf, Repeat, TreeSpace
from formwright.trial import Objective

Array = np.ndarray[Any, np.dtype[np.float64]]
WIDTHS, DEPTHS, HEADS, RATIOS = (192, 384, 768), (10, 11, 12), (4, 8, 12), (2, 3, 4)


@dataclass(frozen=True)
class Problem:
    """Something to search. ``measure`` is a pure function, so rivals see the same values."""

    name: str
    space: TreeSpace
    objectives: tuple[Objective, ...]
    measure: Callable[[Mapping[str, Any]], dict[str, float]]
    facts: dict[str, Any] = field(default_factory=dict)
    table: Array | None = None  # costs of all rows, where no member can have any others


# --- HW-GPT-Bench: a network fitted to 8,000 rows answers for every member --------------


def gpt_space() -> TreeSpace:
    """The space the 10,000 rows were drawn from."""
    unit = (OneOf("heads", HEADS), OneOf("ratio", RATIOS))
    declared = (OneOf("width", WIDTHS), Repeat("depth", unit, 10, 12), OneOf("bias", (0, 1)))
    return TreeSpace(declared, name="hw-gpt-bench small")


def gpt_problem(data: Path, cache: Path, latency: str = "latency_ms_rtx2080") -> Problem:
    """Perplexity against latency on one device."""
    rows = read_rows(data / "hw_gpt_bench" / "gpt_s.csv.gz")
    inputs = np.stack([_one_hot(_gpt_decisions(row)) for row in rows])
    nets, facts = {}, {}
    for target in ("perplexity", latency):
        outputs = np.log([float(row[target]) for row in rows])
        nets[target], facts[target] = _fitted(inputs, outputs, cache / f"gpt_s_{target}.npz")

    def measure(decisions: Mapping[str, Any]) -> dict[str, float]:
        x = _one_hot(decisions)
        return {name: float(math.exp(_answer(net, x[None])[0])) for name, net in nets.items()}

    objectives = (Objective("perplexity", "min"), Objective(latency, "min"))
    return Problem(f"hw-gpt-bench {latency}", gpt_space(), objectives, measure, facts)


def _gpt_decisions(row: Mapping[str, str]) -> dict[str, int]:
    found = {"width": int(row["embed_dim"]), "depth": int(row["n_layer"]), "bias": int(row["bias"])}
    for name, column in (("heads", "n_head"), ("ratio", "mlp_ratio")):
        found |= {f"{name}{i}": int(v) for i, v in enumerate(row[column].split("-"))}
    return found


def _one_hot(decisions: Mapping[str, Any]) -> Array:
    """Not the encoding of the space, so that no rival has the oracle's own features."""
    x: list[float] = []
    for name, options in (("width", WIDTHS), ("depth", DEPTHS), ("bias", (0, 1))):
        x += [float(decisions[name] == o) for o in options]
    for i in range(12):
        for name, options in (("heads", HEADS), ("ratio", RATIOS)):
            x += [float(decisions.get(f"{name}{i}") == o) for o in options]
    return np.array(x)


def _answer(net: Mapping[str, Array], x: Array) -> Array:
    for i in range(2):
        x = np.tanh(x @ net[f"w{i}"] + net[f"b{i}"])
    return (x @ net["w2"] + net["b2"])[:, 0] * net["scale"] + net["shift"]


def _fitted(inputs: Array, outputs: Array, path: Path) -> tuple[dict[str, Array], dict[str, float]]:
    """A network of two hidden layers, from the cache or trained, and how good it is."""
    test = np.arange(len(inputs)) % 5 == 4  # rows come in random order
    if path.exists():
        net = dict(np.load(path))
    else:
        net = _trained(inputs[~test], outputs[~test])
        path.parent.mkdir(parents=True, exist_ok=True)
        np.savez(path, **net)  # type: ignore[arg-type]
    guess, truth = _answer(net, inputs[test]), outputs[test]
    left = ((guess - truth) ** 2).sum() / ((truth - truth.mean()) ** 2).sum()
    facts = {"held_out_rows": int(test.sum()), "r2": 1 - float(left), "tau": kendall(guess, truth)}
    return net, facts


def _trained(inputs: Array, outputs: Array, hidden: int = 96, epochs: int = 60) -> dict[str, Array]:
    import torch

    torch.manual_seed(0)
    shift, scale = outputs.mean(), outputs.std()
    x = torch.tensor(inputs, dtype=torch.float32)
    y = torch.tensor((outputs - shift) / scale, dtype=torch.float32)[:, None]
    layers = [
        torch.nn.Linear(a, b) for a, b in ((x.shape[1], hidden), (hidden, hidden), (hidden, 1))
    ]
    net = torch.nn.Sequential(layers[0], torch.nn.Tanh(), layers[1], torch.nn.Tanh(), layers[2])
    tuner = torch.optim.AdamW(net.parameters(), lr=3e-3, weight_decay=0.05)
    steps = epochs * math.ceil(len(x) / 128)
    plan = torch.optim.lr_scheduler.OneCycleLR(tuner, 3e-3, total_steps=steps)
    for _ in range(epochs):
        for batch in torch.randperm(len(x)).split(128):
            tuner.zero_grad()
            torch.nn.functional.mse_loss(net(x[batch]), y[batch]).backward()
            tuner.step()
            plan.step()
    found = {"shift": np.asarray(shift), "scale": np.asarray(scale)}
    for i, layer in enumerate(layers):
        found[f"w{i}"] = layer.weight.detach().double().numpy().T
        found[f"b{i}"] = layer.bias.detach().double().numpy()
    return found


# --- NAS-Bench-BERT: the nearest of 500 rows answers ------------------------------------

_LAYER: dict[str, tuple[Any, ...]] = {
    "kind": ("SA-SDP", "SA-WMA", "LT-DFT", "LT-DCT", "DSC-5", "DSC-9"),
    "heads": (2, 4),
    "inner": (512, 1024),
    "feedforwards": (1, 3),
}


def bert_problem(data: Path) -> Problem:
    """GLUE score against parameters; a member has the values of the row most like it."""
    with gzip.open(data / "nas_bench_bert" / "nas_bench_bert.jsonl.gz", "rt") as file:
        rows = [json.loads(line) for line in file]
    metrics = read_rows(data / "nas_bench_bert" / "bert_training_free_metrics.csv")
    params = {int(row["ID"]): float(row["Number of Parameters"]) for row in metrics}
    unit = tuple(
        OneOf(f"{name}_{slot}", options) for slot in "ab" for name, options in _LAYER.items()
    )
    declared = (OneOf("width", (128, 256)), Repeat("pairs", unit, 1, 2))  # two layers or four
    space = TreeSpace(declared, name="flexibert")
    encoded, values = [], []
    for row in rows:
        encoded.append(space.encode(_bert_decisions(row)))
        values.append({"glue": row["scores"]["glue"], "params": params[row["id"]]})
    known = np.stack(encoded)

    def measure(decisions: Mapping[str, Any]) -> dict[str, float]:
        return dict(values[int(np.abs(known - space.encode(decisions)).sum(1).argmin())])

    objectives = (Objective("glue", "max"), Objective("params", "min"))
    costs = np.array([(-row["glue"], row["params"]) for row in values])
    return Problem("nas-bench-bert", space, objectives, measure, {"rows": len(rows)}, costs)


def _bert_decisions(row: Mapping[str, Any]) -> dict[str, int]:
    layers = row["layers"]
    found = {"width": row["hidden_size"], "pairs": len(layers) // 2}
    for i, layer in enumerate(layers):
        end = f"_{'ab'[i % 2]}{i // 2}"
        kind = f"{layer['operation_type']}-{layer['operation_parameter']}"
        found[f"kind{end}"] = _LAYER["kind"].index(kind)
        found[f"heads{end}"] = layer["num_operation_heads"]
        found[f"inner{end}"] = layer["feed_forward_dimension"]
        found[f"feedforwards{end}"] = layer["num_feed_forward"]
    return found


# --- NAS-Bench-NLP: full learning curves, for strategies that train in rungs ------------------


def read_curves(data: Path) -> tuple[TreeSpace, Array]:
    """Recurrent cells by number, and their validation loss after each of 50 epochs."""
    with gzip.open(data / "nas_bench_nlp" / "wikitext2_logs.jsonl.gz", "rt") as file:
        rows = [json.loads(line)["val_losses"] for line in file]
    curves = np.array([row for row in rows if len(row) == 50], dtype=float)
    cells = tuple(f"cell {i}" for i in range(len(curves)))  # words: near numbers are not alike
    return TreeSpace((OneOf("cell", cells),), name="nas-bench-nlp"), curves


# --- shared ---------------------------------------------------------------------------------


def read_rows(path: Path) -> list[dict[str, str]]:
    """A table with a header, packed or not."""
    opener = gzip.open if path.suffix == ".gz" else open
    with opener(path, "rt", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def kendall(a: Array, b: Array) -> float:
    """Kendall's tau of two rankings: concordant less discordant pairs, as a share of all."""
    up = np.sign(a[:, None] - a[None]) * np.sign(b[:, None] - b[None])
    return float(up.sum() / (len(a) * (len(a) - 1)))
