"""What Finding Fast Transformers came to, in words and figures."""

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from formwright.cost import compare
from formwright.recipes.fft_search import Finding
from formwright.recipes.headline import champion
from formwright.study import Study
from formwright.study.outcome import Outcome
from formwright.trial import Trial

if TYPE_CHECKING:
    from formwright.recipes.fft import Fft


def compared(recipe: "Fft", study: Study, outcome: Outcome, found: list[Finding]) -> Outcome:
    """Say which of what was found is fastest without losing more than is accepted."""
    quality, cost = study.objectives
    assert outcome.baseline is not None
    base = outcome.baseline
    bar = base.values[quality.name] + quality.sign * recipe.accept
    lowered = replace(base, values={**base.values, quality.name: bar})
    pairs = [
        (trial, finding)
        for trial in study.trials
        for finding in found
        if trial.done and finding.method in trial.details.get("methods", ())
    ]
    searched = [trial for trial, _ in pairs]
    facts: dict[str, float] = {}
    for trial, finding in pairs:
        facts |= _facts(trial, finding, base.values, quality.name, cost.name)
    chosen = champion(searched, lowered, quality, cost)
    if chosen is None:
        anew = "" if recipe.start else ", trained anew,"
        headline = (
            f"Nothing that was found is cheaper than the {base.name} and{anew} within "
            f"{recipe.accept:g} of its {quality.name} ({base.values[quality.name]:.4g})."
        )
        return replace(outcome, headline=headline, chosen=None, facts=facts)
    share = chosen.values[cost.name] / base.values[cost.name]
    words = f"takes {share:.2f} times the {cost.name} of"
    if recipe.target is not None:
        ours: Any = study.space.resolve(chosen.decisions)
        ratio = compare(
            ours, recipe.baseline[1], recipe.target, seconds=6 * recipe.seconds, precision=0.01
        )
        speed = {
            "speedup": 1 / ratio.ratio,
            "speedup_low": 1 / ratio.high,
            "speedup_high": 1 / ratio.low,
        }
        facts = {**speed, **facts}  # what counts most first
        words = (
            f"is {facts['speedup']:.2f} times as fast (95 %: {facts['speedup_low']:.2f} to "
            f"{facts['speedup_high']:.2f}) as"
        )
    inherited = f"{chosen.values[f'inherited_{quality.name}']:.4g} with inherited weights"
    if not recipe.start:
        inherited += f" and {chosen.values[quality.name]:.4g} with new ones"
    headline = (
        f"What {chosen.note} found, trial {chosen.number}, {words} the {base.name}, at "
        f"{quality.name} {inherited}, against {base.values[quality.name]:.4g}."
    )
    return replace(outcome, headline=headline, chosen=chosen.number, facts=facts)


def _facts(trial: Trial, finding: Finding, base: Any, quality: str, cost: str) -> dict[str, float]:
    name = finding.method
    return {
        f"{name}_times_cheaper": base[cost] / trial.values[cost],
        f"{name}_{quality}": finding.scores[quality],
        f"{name}_r_{quality}": trial.values[quality],
        f"{name}_price": finding.price,
    }
