"""What the components of a network cost, as shares of its time: measured once, kept in a file."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from formwright.arch import Architecture
from formwright.arch.counting import count
from formwright.arch.frame import Frame
from formwright.cost import Meter, Target
from formwright.cost.components import component_times
from formwright.estimate.training import known_task
from formwright.files import write_atomically
from formwright.recipes.conduct import Say, Stop
from formwright.recipes.fft_space import Cut, Kept, prices

if TYPE_CHECKING:
    from formwright.recipes.fft import Fft


def profile(recipe: "Fft", folder: Path, *, stop: Stop, say: Say) -> dict[str, float] | None:
    """Shares of the time of the whole, measured once; None when told to stop."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "profile.json"
    known: dict[str, dict[str, float]] = {}
    if path.exists():
        known = json.loads(path.read_text(encoding="utf-8"))
    target, frame = recipe.target, known_task(recipe.task).frame
    lengths = recipe.lengths or ((target.length,) if target is not None else (frame.length,))
    for length in lengths:
        if str(length) in known:
            continue
        say(f"timing the components of the whole network at length {length}")
        measure = counted(length) if target is None else timed(target, length, recipe.seconds)
        try:
            known[str(length)] = shares_of_time(recipe.cut, frame, _heeding(measure, stop))
        except Stopped:
            return None
        write_atomically(path, json.dumps(known, indent=1).encode())
    rows = [known[str(length)] for length in lengths]
    times = {name: max(row[name] for row in rows) for name in rows[0]}
    costs = prices(recipe.cut, times)
    write_atomically(folder / "prices.json", json.dumps(costs, indent=1).encode())
    return times


class Stopped(Exception):  # not an error: somebody asked for it
    pass


def _heeding(
    measure: Callable[[Architecture], float], stop: Stop
) -> Callable[[Architecture], float]:
    """The same, but not begun when it is time to stop."""

    def heeded(arch: Architecture) -> float:
        if stop():
            raise Stopped
        return measure(arch)

    return heeded


def timed(target: Target, length: int, seconds: float) -> Callable[[Architecture], float]:
    """Times on a target, as ratios to its reference."""
    meter = Meter(target.replace(length=length))
    return lambda arch: float(meter.measure(arch, seconds=seconds, precision=0.01).ratio)


def counted(length: int) -> Callable[[Architecture], float]:
    """FLOPs in place of times."""
    return lambda arch: float(count(arch, length=length).flops)


def shares_of_time(
    cut: Cut, frame: Frame, measure: Callable[[Architecture], float]
) -> dict[str, float]:
    """The shares of ``cost.components``, and what one vertical connection takes."""
    found = component_times(cut.baseline(frame), measure)
    space, kept = cut.members(frame), cut.everything()[0]
    beside = measure(space.resolve(cut.member([kept] * cut.layers)))
    ones = {
        "close_head": (
            Kept((1,) * cut.head_parts, kept.key, kept.value, kept.inner),
            cut.head_parts,
        ),
        "close_slice": (
            Kept(kept.heads, kept.key, kept.value, (1,) * cut.inner_parts),
            cut.inner_parts,
        ),
    }
    closes = {}
    for name, (layer, parts) in ones.items():
        stacked = measure(space.resolve(cut.member([layer] * cut.layers))) if parts > 1 else beside
        number = cut.layers * max(1, parts - 1)
        closes[name] = max(0.0, stacked - beside) / found.whole / number
    return {**found.shares, **closes}
