"""What searches at a price have shown: the cheapest of what was found that loses little enough.

Where there were finals, these alone speak; else what was found as it was judged.
"""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

from formwright.recipes.headline import champion, paired
from formwright.recipes.session import Session, as_baseline
from formwright.study.front import eligible
from formwright.study.outcome import Baseline, Outcome
from formwright.trial import Trial

if TYPE_CHECKING:
    from formwright.recipes.priced import Finding, Priced


@dataclass(frozen=True)
class Bargain:
    """A priced search that has ended.

    Args:
        recipe: The search.
        session: Its study.
    """

    recipe: "Priced"
    session: Session

    def outcome(self) -> Outcome:
        """Which of what was found is cheapest without losing more than is accepted."""
        quality, cost = self.session.study.objectives
        base, facts = self.baseline, self.facts()
        worth = base.values[quality.name]
        allowed = self.recipe.allowed(quality, worth)
        bar = worth + quality.sign * allowed
        lowered = replace(base, values={**base.values, quality.name: bar})
        trials = [last for last, _, _ in self.found]
        kept = eligible(trials, self.session.study.objectives, self.recipe.rules().limits)
        chosen = champion(kept, lowered, quality, cost)
        if chosen is None:
            anew = "" if self.recipe.continued or self.recipe.longer else ", trained anew,"
            headline = (
                f"Nothing that was found is cheaper than the {base.name} and{anew} within "
                f"{allowed:.3g} of its {quality.name} ({worth:.4g})."
            )
            return Outcome(base, headline, None if self.whole is None else self.whole.number, facts)
        share = chosen.values[cost.name] / base.values[cost.name]
        words = f"takes {share:.2f} times the {cost.name} of"
        if self.session.target is not None:
            _, whole = self.recipe.make_baseline()
            speed, words = paired(self.session, chosen, whole, 6 * self.recipe.seconds)
            facts = {**speed, **facts}  # what counts most first
            words = f"is {words}"
        first = next(first for last, first, _ in self.found if last is chosen)
        headline = (
            f"What {first.note} found, trial {chosen.number}, {words} the {base.name}, at "
            f"{quality.name} {self.values(chosen)}, against {worth:.4g}{_trained(chosen)}."
        )
        return Outcome(base, headline, chosen.number, facts, notes=self.beside(chosen))

    @cached_property
    def whole(self) -> Trial | None:
        """The whole network in the finals; None where there were none."""
        trials = self.session.study.trials
        return next((t for t in reversed(trials) if t.final and t.rival and t.done), None)

    @property
    def baseline(self) -> Baseline:
        """The whole network as it was trained last."""
        judged = self.session.measured_baseline
        if self.whole is None:
            return judged
        final = as_baseline(self.whole)
        return replace(final, rungs={**judged.rungs, **final.rungs})

    @cached_property
    def found(self) -> list[tuple[Trial, Trial, "Finding"]]:
        """What was found: as it was trained last, as it was first tried, and how it was found."""
        return [
            (last, first, finding)
            for last, first in self.recipe.last_judged(self.session)
            for finding in self.recipe.findings(self.session)
            if finding.method in first.details.get("methods", ())
        ]

    def facts(self) -> dict[str, float]:
        """Of each method: how much cheaper, and the quality with each of the weights there are."""
        quality, cost = (objective.name for objective in self.session.study.objectives)
        facts: dict[str, float] = {}
        for last, first, finding in self.found:
            name = finding.method
            facts[f"{name}_times_cheaper"] = self.baseline.values[cost] / last.values[cost]
            if last.final:
                facts[f"{name}_final_{quality}"] = last.values[quality]
            facts[f"{name}_{quality}"] = finding.scores[quality]
            facts[f"{name}_r_{quality}"] = first.values[quality]
            facts[f"{name}_price"] = finding.price
        return facts

    def values(self, chosen: Trial) -> str:
        """The quality of what was found, with each of the weights that it has."""
        quality = self.session.study.objectives[0].name
        own = f"{chosen.values[quality]:.4g}"
        if chosen.final:
            return own
        inherited = f"{chosen.values[f'inherited_{quality}']:.4g} with inherited weights"
        return inherited if self.recipe.continued else f"{inherited} and {own} with new ones"

    def beside(self, chosen: Trial) -> tuple[str, ...]:
        """The best member drawn at random that was trained as what was found."""
        quality, cost = self.session.study.objectives
        drawn = [last for last, first in self.recipe.last_judged(self.session) if first.control]
        if not drawn:
            return ()
        best = min(drawn, key=lambda trial: quality.sign * trial.values[quality.name])
        times = best.values[cost.name] / chosen.values[cost.name]
        ahead = quality.sign * (best.values[quality.name] - chosen.values[quality.name]) < 0
        return (
            f"Trial {best.number}, drawn at random, is {'better' if ahead else 'no better'}: "
            f"{quality.name} {best.values[quality.name]:.4g} at {times:.2f} times its {cost.name}.",
        )


def _trained(chosen: Trial) -> str:
    """How long it and the whole network were trained, where that was alike."""
    steps = chosen.values.get("steps")
    if not chosen.final or steps is None:
        return ""
    return f", each trained on for {steps:,.0f} steps to a rate of zero"
