"""Studies with a supernet in their folder, made by hand: what one-shot recipes leave behind."""

import math
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

from tests.report.material import material

from formwright.arch import Architecture, Attention, Stack, notation
from formwright.arch.frame import Classify, Frame, LanguageModel
from formwright.arch.layer import Parallel, Residual
from formwright.arch.mechanism import Linformer, Local, Performer, Softmax
from formwright.arch.style import style
from formwright.report.material import Material
from formwright.space import SomeOf, TreeSpace, space_data
from formwright.space.order import order_space
from formwright.study.outcome import Baseline, Outcome
from formwright.trace import Trace
from formwright.trial import Objective, Trial

TWO = (Objective("bits_per_byte"), Objective("latency"))
SLOTS, STEPS = 12, 40


def lines(folder: Path, kind: str, rows: list[Any]) -> None:
    """Add to the trace of a folder, as the program writes it, but do not wait for the disk."""
    with patch("os.fsync"):
        for row in rows:
            Trace(folder).add(kind, **row)


def gates(folder: Path, rows: list[Any]) -> None:
    """Gates by step, from rows of one decision each."""
    steps: dict[int, dict[str, Any]] = {}
    for row in rows:
        steps.setdefault(row["step"], {})[row["name"]] = row["values"]
    lines(folder, "gates", [{"step": step, "values": values} for step, values in steps.items()])


def written(folder: Path, space: TreeSpace) -> None:
    Trace(folder).add("space", space=space_data(space))


def order(slots: int = SLOTS) -> TreeSpace:
    """Attention, feed-forward or nothing."""
    family = style("transformer_xl", 64)
    return order_space(family, Frame(256, 64, LanguageModel()), slots=slots, letters="sfi")


def share(slot: int, step: int, slots: int = SLOTS) -> list[float]:
    """Attention ever likelier in the first slots, feed-forward in the last."""
    lean = step / STEPS * (4 - 8 * slot / (slots - 1))
    scores = [math.exp(lean), math.exp(0.3), math.exp(-abs(lean) / 3)]
    return [round(s / sum(scores), 6) for s in scores]


def searched(folder: Path, slots: int = SLOTS, **changes: Any) -> Material:
    """The study of a PAR search."""
    space, supernet = order(slots), folder / "supernet"
    written(supernet, space)
    rows = [
        {"step": 20 * step, "name": f"layer{slot}", "values": share(slot, step, slots)}
        for step in range(1, STEPS + 1)
        for slot in range(slots)
    ]
    gates(supernet, rows)
    best = {
        f"layer{i}": max(range(3), key=share(i, STEPS, slots).__getitem__) for i in range(slots)
    }
    plain = {f"layer{i}": i % 2 for i in range(slots)}
    trials = [
        Trial(0, best, state="done", values={"bits_per_byte": 2.1, "latency": 3.0},
              origin="found", note="found by the supernet", seconds=3.0),
        Trial(1, plain, state="done", values={"bits_per_byte": 2.2, "latency": 4.0},
              origin="control", seconds=3.0),
    ]  # fmt: skip
    base = notation(space.resolve(plain))
    values = {"bits_per_byte": 2.15, "latency": 4.1}
    outcome = Outcome(Baseline(f"plain order (sf)x{slots // 2}", base, "b", values), "Faster.", 0)
    notations = {t.number: notation(space.resolve(t.decisions)) for t in trials}
    fixed = {"space": space, "folder": folder, "outcome": outcome, "notations": notations}
    return material(trials, TWO, **(fixed | changes))


def priced(folder: Path) -> Material:
    """The same, and what options cost."""
    found = searched(folder)
    rows = {f"layer{i}": [0.06, 0.02, 0.0] for i in range(SLOTS)}
    lines(folder / "supernet", "prices", [{"values": rows}])
    return found


def competed(folder: Path) -> Material:
    """The same by two methods: the gates of ``b`` fall to nothing, those of ``a`` to a half."""
    found = priced(folder)
    supernet = folder / "supernet"
    for method, end in (("a", 0.5), ("b", 0.0)):
        place = supernet / method / "price-2"
        written(place, order())
        rows = [
            {"step": step, "name": "layer0", "values": [1 - (1 - end) * step / 9, 0.0, 0.0]}
            for step in range(10)
        ]
        gates(place, rows)
        data = {"method": method, "price": 2.0, "folder": f"supernet/{method}/price-2"}
        lines(supernet, "found", [data])
    methods = (["a"], ["c", "b"])
    trials = [
        replace(t, details={"methods": names})
        for t, names in zip(found.trials, methods, strict=True)
    ]
    return replace(found, trials=trials)


KINDS = (Local(4), Performer(), Linformer(8), Softmax())


def heads() -> TreeSpace:
    """Some of single heads of several kinds, two of each."""
    options = tuple(Attention(1, kind, key=8) for kind in KINDS for _ in range(2))
    mix = Parallel((Attention(1),), join="mean").replace(branches=(SomeOf("heads", options),))
    family = style("lra", 32)
    arch = Architecture(
        Stack((Residual(mix),)), family.backbone, frame=Frame(9, 16, Classify(4, pool="cls"))
    )
    return TreeSpace(arch)


def pruned(folder: Path) -> Material:
    """The study of a DARTFormer search that dropped one head after the other."""
    supernet = folder / "supernet"
    written(supernet, heads())
    gone = (0, 4, 1, 5, 2, 7)
    rows = []
    for stage in range(len(gone) + 1):
        alive = [i for i in range(8) if i not in gone[:stage]]
        scores = {str(i): round((10 - gone.index(i)) / 100 if i in gone else 0.2, 3) for i in alive}
        rows.append(
            {
                "stage": stage,
                "alive": {"heads": alive},
                "scores": {"heads": scores} if stage < len(gone) else {},
                "words": f"{len(alive)} heads are alive",
            }
        )
    lines(supernet, "stage", rows)
    found = searched(folder / "other")
    trials = list(found.trials)
    return material(trials, TWO, folder=folder, space=found.space, notations=found.notations)
