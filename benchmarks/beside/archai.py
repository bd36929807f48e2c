"""archai: what a candidate costs.

Both search the same members: depth and width for all, an inner size for each layer (heads too in
ours, for all in theirs; neither count depends on them). Small models are the rival's best case: it
builds each candidate, we only count it. Objectives are decoder parameters (more is better) and all
parameters (fewer is better). archai is given its faster way, in which no weights are drawn. It then
leaves the output layer untied and takes it for part of the decoder, so its counts are too large by
vocabulary times width and what it finds cannot be held against ours; what it costs can.
``counts_of_each`` says how many drawn members both count alike, with that layer taken off.
"""

import argparse
import tempfile
import time
from collections.abc import Callable
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

from rival import Rival, RivalError

from formwright.arch import Architecture, Attention, FeedForward, Residual
from formwright.arch.counting import count
from formwright.arch.frame import Frame, LanguageModel
from formwright.arch.style import style
from formwright.cost import Meter, Target
from formwright.estimate import Proxies
from formwright.execute import Serial
from formwright.space import OneOf, Repeat, Span, TreeSpace
from formwright.space.choice import stack_of
from formwright.study import Study, run
from formwright.trial import Objective

SPACE: dict[str, Any] = {
    "depth": [1, 6],
    "width": [128, 512, 64],
    "inner": [128, 2048, 64],
    "heads": [2, 4, 8],
    "vocab": 10_000,
    "length": 128,
}
WARMING = 1000  # a seed whose figures are not kept
OBJECTIVES = (Objective("decoder_params", "max"), Objective("params"))


def measured(
    rival: Rival, asked: argparse.Namespace, known: dict[str, Any], keep: Callable[..., None]
) -> None:
    """All seeds, in turns; what is known is not measured again."""
    versions, _ = rival.ask("begin")
    keep(versions=versions, space=SPACE)
    start, children, rounds = (10, 10, 3) if asked.short else (40, 40, 4)
    rows = list(known.get("seeds", []))
    for seed in range(len(rows), asked.seeds):
        rows.append(_seed(rival, seed, start, children, rounds))
        keep(seeds=rows)
    if "counts_of_each" not in known:
        keep(counts_of_each=_agreeing(rival, 4 if asked.short else 12))
    timed = list(known.get("latency", {}).get("rows", []))
    try:
        _latency(rival, WARMING)  # the first export of a process imports the exporter
        for seed in range(len(timed), 1 if asked.short else asked.seeds):
            timed.append(_latency(rival, seed))
            keep(latency={"error": "", "rows": timed})
    except RivalError as error:
        keep(latency={"error": str(error), "rows": timed})


@cache
def known_space() -> TreeSpace:
    """The same members as the rival's."""
    family = style("gpt2")
    attention, feedforward = family.letters["s"], family.letters["f"]
    assert isinstance(attention, Residual)
    assert isinstance(feedforward, Residual)
    assert isinstance(attention.inner, Attention)
    assert isinstance(feedforward.inner, FeedForward)
    heads = OneOf("heads", tuple(SPACE["heads"]))
    unit = (
        attention.replace(inner=attention.inner.replace(heads=heads)),
        feedforward.replace(inner=feedforward.inner.replace(inner=Span("inner", *SPACE["inner"]))),
    )
    frame = Frame(vocab=SPACE["vocab"], length=SPACE["length"], head=LanguageModel())
    layers = stack_of(Repeat("depth", unit, *SPACE["depth"]))
    backbone = family.backbone.replace(width=Span("width", *SPACE["width"]))
    return TreeSpace(Architecture(layers, backbone, frame=frame), name="archai")


def _seed(rival: Rival, seed: int, start: int, children: int, rounds: int) -> dict[str, Any]:
    given = {"given": SPACE, "seed": seed}
    drawn, drawing = rival.ask("draw", **given, number=20)
    found, searching = rival.ask("search", **given, start=start, children=children, rounds=rounds)
    began = time.process_time()
    for number in range(10 * children):
        count(known_space().resolve(known_space().sample(Random(f"{seed}/{number}"))))
    counting = (time.process_time() - began) / (10 * children)
    began = time.process_time()
    ours = searched("lts", seed, found["candidates"], start=start, children=children)
    spent = time.process_time() - began
    return {
        "seed": seed,
        "candidates": found["candidates"],
        "ms": {"archai": 1e3 * searching / found["candidates"], "ours": 1e3 * spent / ours},
        "ms_drawn_and_counted": {"archai": 1e3 * drawing / len(drawn), "ours": 1e3 * counting},
    }


def searched(name: str, seed: int, number: int, **options: Any) -> int:
    """Our search, with its record on the disk; how many candidates it looked at."""
    with tempfile.TemporaryDirectory() as folder:
        study = Study.create(
            Path(folder) / "study",
            space=known_space(),
            objectives=OBJECTIVES,
            strategy=name,
            options=options,
            seed=seed,
        )
        run(study, Serial(Proxies(("decoder_params", "params"))), trials=number)
        found = len(study.trials)
        study.close()
    return found


def _agreeing(rival: Rival, number: int) -> dict[str, int]:
    """How many drawn members of theirs have the same counts in ours, as they are and tied."""
    drawn, _ = rival.ask("draw", given=SPACE, seed=100, number=number)
    found = {"members": len(drawn), "same": 0, "same_when_tied": 0}
    for row in drawn:
        counted = count(known_space().resolve(_decisions(row)))
        ours, head = (counted.non_embedding, counted.params), SPACE["vocab"] * row["width"]
        found["same"] += ours == (row["decoder"], row["params"])
        found["same_when_tied"] += ours == (row["decoder"] - head, row["params"] - head)
    return found


def _decisions(row: dict[str, Any]) -> dict[str, Any]:
    """A member of theirs as decisions of ours."""
    each = {
        f"{name}{i}": value
        for i in range(row["depth"])
        for name, value in (("heads", row["heads"]), ("inner", row["inner"][i]))
    }
    return {"depth": row["depth"], "width": row["width"], **each}


def _latency(rival: Rival, seed: int) -> dict[str, Any]:
    """Processor seconds to measure one member by ONNX Runtime, export and all.

    Theirs with one inner size for all layers: its export of ``gpt2-flex`` fails on this torch.
    """
    meter = Meter(Target(runtime="onnx", length=SPACE["length"]))
    found, theirs = rival.ask("latency", given=SPACE, seed=seed, trials=5)
    config = found["config"]
    row = {"depth": config["n_layer"], "width": config["d_model"], "heads": config["n_head"]}
    inner = [config["d_inner"]] * row["depth"]
    arch = known_space().resolve(_decisions({**row, "inner": inner}))
    began = time.process_time()
    ours = meter.measure(arch, seconds=0.5)
    return {
        "seed": seed,
        "seconds": {"archai": theirs, "ours": time.process_time() - began},
        "ms": {"archai": 1e3 * found["seconds"], "ours": ours.own_ms},
    }
