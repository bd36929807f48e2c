"""What the search cost: time, processor time, an estimate of the energy, trials by outcome."""

from collections.abc import Sequence
from typing import NamedTuple

from formwright.report.html import Safe, joined, row_html, table_html, tag
from formwright.report.material import Material
from formwright.report.section import section
from formwright.report.words import duration, figure, plural, stage
from formwright.trial import (
    CONTROL,
    CROSSING,
    FINAL,
    FOUND,
    MUTATION,
    PREDICTED,
    PROMOTED,
    RANDOM,
    RIVAL,
    SEED,
    Trial,
)

# What a core of a processor takes under load, between laptops and old servers. Nothing here was
# measured, which is why both ends are said.
WATTS = (4.0, 15.0)
_WORDS = {
    SEED: "made by hand",
    FOUND: "found by another search",
    CONTROL: "random control",
    RANDOM: "drawn by the strategy",
    FINAL: "finals",
    RIVAL: "trainings of rivals made by hand",
    MUTATION: "mutations",
    CROSSING: "crossings",
    PROMOTED: "carried on from an earlier stage",
    PREDICTED: "chosen by a model of what was seen",
    "": "of the strategy",
}


class Stage(NamedTuple):
    """Trials that were evaluated alike."""

    name: str
    done: int
    failed: int
    repeated: int  # took over the values of an earlier one
    open: int
    seconds: float


class CostInfo(NamedTuple):
    """What a search took."""

    worked: float  # seconds by the clock, in all sessions
    trials: float  # seconds of trials, those that ran side by side added up
    processor: float  # seconds of processors
    counted: bool  # False: it is not known what share of a processor the trials got
    watt_hours: tuple[float, float]
    stages: list[Stage]
    origins: list[tuple[str, int]]
    steps: int  # training steps of all trials


def cost_info(material: Material) -> CostInfo | None:
    """None where nothing was tried."""
    if not material.trials:
        return None
    shares = [t.values["processor_share"] for t in material.trials if _shared(t)]
    mean = sum(shares) / len(shares) if shares else 1.0
    processor = sum(
        trial.seconds * min(1.0, trial.values.get("processor_share", mean))
        for trial in material.trials
    )
    low, high = (processor / 3600 * watts for watts in WATTS)
    origins: dict[str, int] = {}
    for trial in material.trials:
        words = _WORDS.get(trial.origin, trial.origin)
        origins[words] = origins.get(words, 0) + 1
    return CostInfo(
        material.worked,
        sum(trial.seconds for trial in material.trials),
        processor,
        bool(shares),
        (low, high),
        _stages(material.trials),
        sorted(origins.items(), key=lambda pair: -pair[1]),
        _steps(material.trials),
    )


@section("cost", "What the search cost")
def cost_html(material: Material) -> Safe | None:
    """The section."""
    info = cost_info(material)
    if info is None:
        return None
    low, high = info.watt_hours
    steps = f"; {info.steps:,} training steps in all" if info.steps else ""
    energy = (
        f"Energy was not measured. An estimate: at {WATTS[0]:g} to {WATTS[1]:g} watts for a busy "
        f"core, {figure(low, 2)} to {figure(high, 2)} watt-hours, cooling and the rest of the "
        "machine not counted."
    )
    pairs = [
        ("by the clock, all sessions", duration(info.worked)),
        ("trials, added up", duration(info.trials)),
        ("processor time", duration(info.processor) + ("" if info.counted else " at most")),
        ("how trials came about", ", ".join(f"{count:,} {name}" for name, count in info.origins)),
    ]
    rows = [
        row_html(
            stage.name,
            [
                f"{stage.done:,}",
                f"{stage.failed:,}",
                f"{stage.repeated:,}",
                f"{stage.open:,}",
                duration(stage.seconds),
            ],
        )
        for stage in info.stages
    ]
    total = len(material.trials)
    return joined(
        [
            tag("p", f"{plural(total, 'trial')} in {duration(info.worked)}{steps}. {energy}"),
            tag("dl", [(tag("dt", n), tag("dd", v)) for n, v in pairs if v], class_="pairs"),
            tag("h3", "Trials by outcome"),
            table_html(("", "done", "failed", "repeats of earlier ones", "open", "time"), rows),
        ]
    )


def _shared(trial: Trial) -> bool:
    return trial.values.get("processor_share", 0.0) > 0


def _stages(trials: Sequence[Trial]) -> list[Stage]:
    rungs: dict[int, list[Trial]] = {}
    for trial in trials:
        rungs.setdefault(trial.rung, []).append(trial)
    return [
        Stage(
            _stage_name(here, alone=len(rungs) == 1),
            sum(trial.done and trial.original is None for trial in here),
            sum(trial.state == "failed" for trial in here),
            sum(trial.done and trial.original is not None for trial in here),
            sum(not trial.finished for trial in here),
            sum(trial.seconds for trial in here),
        )
        for _, here in sorted(rungs.items())
    ]


def _stage_name(trials: Sequence[Trial], *, alone: bool) -> str:
    steps = {trial.steps for trial in trials if trial.steps}
    told = f", {min(steps):,} steps" if len(steps) == 1 else ""
    return f"{'trials' if alone and not trials[0].final else stage(trials[0].rung)}{told}"


def _steps(trials: Sequence[Trial]) -> int:
    """Training steps; a trial that goes on from another has taken those after it only."""
    total = 0
    for trial in trials:
        taken = trial.values.get("steps", trial.steps if trial.done else None)
        if not taken or trial.original is not None:
            continue
        before = 0.0
        if trial.continues is not None and 0 <= trial.continues < len(trials):
            earlier = trials[trial.continues]
            before = earlier.values.get("steps", earlier.steps or 0) or 0
        total += max(0, round(taken - before)) * round(trial.values.get("seeds", 1))
    return total
