"""Recorded learning curves as search problems: members are the rows, and a look costs training.

The tables are NAS-Bench-NLP (https://arxiv.org/abs/2006.07116) and one of our own, recorded by
training members of a space to the end. A table knows only its rows, so the space is the rows: a
change leads to a row with a similar encoding.
"""

import gzip
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import log
from pathlib import Path
from random import Random
from typing import Any

import numpy as np

from formwright.arch import parse
from formwright.arch.counting import count
from formwright.errors import FormatError
from formwright.space import Countable, Crossable, Decisions, Encodable, Enumerable

Array = np.ndarray[Any, np.dtype[np.float64]]
_FEW = 6  # values of a decision that may be unlike options
_NEAR = 4.0  # a change leads this many rows away in the mean, by distance


class Rows(Countable, Enumerable, Encodable, Crossable):
    """The rows of a table as a space.

    Args:
        columns: What each number of an encoding means.
        encoded: One row for each member.
        name: What it is called.
    """

    def __init__(self, columns: Sequence[str], encoded: Array, name: str) -> None:
        super().__init__()
        self._columns, self.encoded, self.name = list(columns), encoded, name
        apart = np.abs(encoded[:, None] - encoded[None]).sum(axis=2)
        self.nearest = np.argsort(
            apart, axis=1, kind="stable"
        )  # of each row, itself not always first

    def draw(self, rng: Random) -> Decisions:
        return {"row": rng.randrange(len(self.encoded))}

    def change(self, parent: Decisions, rng: Random, rate: float | None = None) -> Decisions:
        others = [int(i) for i in self.nearest[parent["row"]] if i != parent["row"]]
        return {"row": others[min(int(rng.expovariate(1 / _NEAR)), len(others) - 1)]}

    def blend(self, a: Decisions, b: Decisions, rng: Random) -> Decisions:
        both = self.encoded[[a["row"], b["row"]]]
        mixed = np.array([both[rng.randrange(2), i] for i in range(both.shape[1])])
        return {"row": self.row_like(mixed, [a["row"], b["row"]])}

    def row_like(self, vector: Array, without: Sequence[int]) -> int:
        """The row closest to an encoding, of those not named."""
        apart = np.abs(self.encoded - vector).sum(axis=1)
        if len(without) < len(apart):
            apart[list(without)] = np.inf
        return int(apart.argmin())

    def columns(self) -> list[str]:
        return self._columns

    def encode(self, decisions: Decisions) -> Array:
        return self.encoded[decisions["row"]]

    def size(self) -> int:
        return len(self.encoded)

    def members(self) -> Iterator[Decisions]:
        return ({"row": i} for i in range(len(self.encoded)))

    def resolve(self, decisions: Decisions) -> Any:
        return decisions

    def to_data(self) -> dict[str, Any]:
        return {"columns": self._columns, "encoded": self.encoded.tolist(), "name": self.name}

    @classmethod
    def from_data(cls, data: Mapping[str, Any]) -> "Rows":
        return cls(data["columns"], np.array(data["encoded"]), data["name"])


@dataclass(frozen=True)
class CurveTable:
    """Learning curves of the members of a space.

    Args:
        name: What it is called.
        space: Its rows.
        steps: When the curves were looked at, rising.
        curves: Losses (rows, seeds, looks).
        price: What one step of each row costs; 1 in the mean.
        latency: What each row costs to use.
        ends: What each row is worth in the end, (rows, seeds).
        full: Steps of a whole training.
        members: Decisions of each row.
        slopes: Fall of the training loss per doubling, (rows, seeds, looks), where it is known.
        sizes: Parameters of each row without those of embeddings, where they are known.
    """

    name: str
    space: Rows
    steps: Array
    curves: Array
    price: Array
    latency: Array
    ends: Array
    full: int
    members: Sequence[Mapping[str, Any]] = ()
    slopes: Array | None = None
    sizes: Array | None = None

    @property
    def truth(self) -> Array:
        """What each row is worth in the end, the mean of its seeds."""
        return np.asarray(self.ends.mean(axis=1))

    def loss(self, row: int, seed: int, steps: float) -> float:
        """The loss after so many steps, straight between two looks by the logarithm of steps."""
        if steps >= self.full:
            return float(self.ends[row, seed % self.ends.shape[1]])
        curve = self.curves[row, seed % self.curves.shape[1]]
        return float(np.interp(np.log(steps), np.log(self.steps), curve))

    def values(self, row: int, seed: int, steps: float) -> dict[str, float]:
        """What a trial of so many steps measures."""
        found = {"loss": self.loss(row, seed, steps), "latency": float(self.latency[row])}
        if self.slopes is not None:
            curve = self.slopes[row, seed % self.curves.shape[1]]
            found["slope"] = float(np.interp(np.log(steps), np.log(self.steps), curve))
        if self.sizes is not None:
            found["decoder_params"] = float(self.sizes[row])
        return found

    def row_like(self, decisions: Mapping[str, Any], without: Sequence[int]) -> int:
        """The row most like some decisions, of those not named."""
        wide = {
            name: np.ptp(
                [m[name] for m in self.members if isinstance(m.get(name), int | float)] or [0]
            )
            for name in decisions
        }

        def apart(member: Mapping[str, Any]) -> float:
            total = 0.0
            for name, value in decisions.items():
                other = member.get(name)
                numbers = isinstance(value, int | float) and isinstance(other, int | float)
                total += abs(value - other) / (wide[name] or 1.0) if numbers else value != other
            return total

        left = [i for i in range(len(self.members)) if i not in without] or range(len(self.members))
        return min(left, key=lambda i: apart(self.members[i]))

    def part(self, rows: Sequence[int] | Array) -> "CurveTable":
        """Some of its rows."""
        rows = np.asarray(rows)
        space = Rows(self.space.columns(), self.space.encoded[rows], self.space.name)
        return replace(
            self,
            space=space,
            curves=self.curves[rows],
            price=self.price[rows] / self.price[rows].mean(),
            latency=self.latency[rows],
            ends=self.ends[rows],
            members=[self.members[i] for i in rows],
            slopes=None if self.slopes is None else self.slopes[rows],
            sizes=None if self.sizes is None else self.sizes[rows],
        )


# --- NAS-Bench-NLP ----------------------------------------------------------------------------

_OPS = (
    "linear",
    "activation_sigm",
    "activation_tanh",
    "activation_leaky_relu",
    "elementwise_sum",
    "elementwise_prod",
    "blend",
)


def nlp_table(data: Path) -> CurveTable:
    """Recurrent cells, by counts of what they are made of; validation loss after each epoch."""
    with gzip.open(data / "nas_bench_nlp" / "wikitext2_logs.jsonl.gz", "rt") as file:
        rows = [json.loads(line) for line in file]
    rows = [row for row in rows if len(row["val_losses"]) == 50]
    counts = [_cell_counts(json.loads(row["recepie"])) for row in rows]
    columns, encoded = encode_plain(counts)
    train = np.array([row["train_losses"] for row in rows])
    epochs = np.arange(1.0, 51.0)
    half = np.stack([np.interp(np.log(epochs / 2), np.log(epochs), row) for row in train])
    return CurveTable(
        "nas-bench-nlp",
        Rows(columns, encoded, "nas-bench-nlp"),
        epochs,
        np.array([[row["val_losses"]] for row in rows], dtype=float),
        np.ones(len(rows)),
        np.array([np.median(row["wall_times"]) for row in rows]),
        np.array([[row["val_losses"][-1]] for row in rows], dtype=float),
        50,
        counts,
        (half - train)[:, None],
    )


def _cell_counts(cell: Mapping[str, Any]) -> dict[str, Any]:
    """What a cell is made of."""
    deep: dict[str, int] = {}

    def depth(name: str) -> int:
        if name in cell and name not in deep:
            deep[name] = 0  # should it lead back to itself
            deep[name] = 1 + max(depth(source) for source in cell[name]["input"])
        return deep.get(name, 0)

    found: dict[str, Any] = {op: sum(node["op"] == op for node in cell.values()) for op in _OPS}
    found["depth"] = max(depth(name) for name in cell)
    found["states"] = sum(name.startswith("h_new") for name in cell)
    for source in ("x", "h_prev"):
        found[f"reads {source}"] = sum(
            any(name.startswith(source) for name in node["input"]) for node in cell.values()
        )
    found["last"] = cell["h_new_0"]["op"]
    return found


# --- our own ------------------------------------------------------------------------------------


def own_table(path: Path) -> CurveTable:
    """Models of the open space: bits per byte along a constant rate, and after a falling one.

    The file holds ``models``, each with ``decisions``, ``latency`` in milliseconds and ``curves``,
    one for each seed: ``steps`` and ``bits_per_byte`` of the looks, ``final``, ``step_seconds``
    and, where they were kept, ``losses`` of training as means of 20 steps. The end is in ``final``;
    the rate falls over the last 30 % of the steps, so a whole training has 1 / 0.7 times as many
    as the last look.
    """
    try:
        models = json.loads(path.read_text(encoding="utf-8"))["models"]
        seeds = min(len(model["curves"]) for model in models)
        curves = [model["curves"][:seeds] for model in models]
        steps = np.array(curves[0][0]["steps"], dtype=float)
        columns, encoded = encode_plain([model["decisions"] or {} for model in models])
        price = np.array([np.mean([c["step_seconds"] for c in each]) for each in curves])
        found = CurveTable(
            "our curves",
            Rows(columns, encoded, "our curves"),
            steps,
            np.array([[_padded(c["bits_per_byte"], len(steps)) for c in e] for e in curves]),
            price / price.mean(),
            np.array([model["latency"] for model in models], dtype=float),
            np.array([[_number(c["final"]) for c in each] for each in curves]),
            round(float(steps[-1]) / 0.7),
            [model["decisions"] or {} for model in models],
            sizes=np.array([size_of(model["notation"]) for model in models], dtype=float),
        )
        same = all(c["steps"] == curves[0][0]["steps"] for e in curves for c in e if c["final"])
    except (KeyError, IndexError, TypeError, ValueError) as error:
        raise FormatError(f"{path} is no table of learning curves: {error!r}.") from None
    if not same:
        raise FormatError(f"{path}: the curves were not all looked at after the same steps.")
    if all("losses" in curve for each in curves for curve in each):
        # looks are in bits, losses in nats
        fall = [[_falls(c["losses"], steps) / log(2) for c in each] for each in curves]
        found = replace(found, slopes=np.array(fall))
    return found


def size_of(notation: str) -> int:
    """Parameters of an architecture without those of its embeddings."""
    return count(parse(notation)).non_embedding


def _padded(looks: Sequence[float], count: int) -> list[float]:
    """A training that broke off has no number from there on."""
    return [*looks, *[float("nan")] * (count - len(looks))]


def _number(value: float | None) -> float:
    return float("inf") if value is None else value


def _falls(losses: Sequence[float], steps: Array, every: int = 20) -> Array:
    """Fall of the training loss from half of the steps to all of them."""
    middle = np.log(np.arange(len(losses)) * every + every / 2)
    late = np.interp(np.log(steps), middle, losses)
    return np.asarray(np.interp(np.log(steps / 2), middle, losses) - late)


def encode_plain(decisions: Sequence[Mapping[str, Any]]) -> tuple[list[str], Array]:
    """Decisions as vectors, whatever their space: numbers from 0 to 1, and whether in play.

    What has few values gets a column for each, too: a number may be one of unlike options.
    """
    columns: list[str] = []
    parts: list[list[float]] = []
    for name in dict.fromkeys(name for row in decisions for name in row):
        values = [row.get(name) for row in decisions]
        given = [value for value in values if value is not None]
        numbers = all(isinstance(value, int | float) for value in given)
        if numbers:
            low, high = min(given), max(given)
            columns += [name, f"{name} in play"]
            parts.append([0.0 if v is None else (v - low) / ((high - low) or 1.0) for v in values])
            parts.append([float(v is not None) for v in values])
        words = sorted({json.dumps(value) for value in given})
        if not numbers or 2 < len(words) <= _FEW:
            columns += [f"{name}={word}" for word in words]
            parts += [[float(json.dumps(value) == word) for value in values] for word in words]
    return columns, np.array(parts).T


# --- made up ------------------------------------------------------------------------------------


def crossing_table(rows: int = 200, seeds: int = 3, noise: float = 0.01) -> CurveTable:
    """Made up: large members learn slowly and end low, small ones the other way round.

    Loss is an offset plus a power of the steps; the more layers and the wider, the lower the
    offset and the later the fall. What an option does is drawn once.
    """
    rng = np.random.default_rng(7)
    sizes, kinds, flags = rng.integers(0, 11, (rows, 2)), rng.integers(0, 3, rows), (0, 1)
    members = [
        {"width": int(w), "depth": int(d), "kind": "abc"[k], "gate": int(g), "conv": int(c)}
        for (w, d), k, g, c in zip(
            sizes, kinds, rng.choice(flags, rows), rng.choice(flags, rows), strict=True
        )
    ]
    columns, encoded = encode_plain(members)
    effects = {  # on where it ends, on how late it falls
        "width": (-0.35, 0.6),
        "depth": (-0.3, 0.9),
        'kind="a"': (0.0, 0.5),
        'kind="b"': (-0.1, -0.2),
        'kind="c"': (0.05, 0.0),
        "gate": (-0.12, 0.1),
        "conv": (-0.05, -0.6),
    }
    ends, late = (encoded @ np.array([effects.get(c, (0, 0))[i] for c in columns]) for i in (0, 1))
    steps = np.round(np.geomspace(30, 3000, 20))
    clean = 1.6 + ends[:, None] + np.exp(late)[:, None] * 8.0 * steps**-0.45
    clean += 0.03 * rng.standard_normal((rows, 1))
    noisy = clean[:, None] + noise * rng.standard_normal((rows, seeds, len(steps)))
    size = np.exp((sizes * np.array([0.12, 0.1])).sum(axis=1))
    return CurveTable(
        "made up",
        Rows(columns, encoded, "made up"),
        steps,
        noisy,
        size / size.mean(),
        size,
        noisy[:, :, -1],
        3000,
        members,
        sizes=size * 1e5,
    )
