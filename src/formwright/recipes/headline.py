"""What a search has found, in words: the best member against the baseline."""

from dataclasses import replace

from formwright.arch import Architecture, parse
from formwright.cost import compare
from formwright.recipes.session import Session
from formwright.study import Study
from formwright.study.outcome import Baseline, Outcome
from formwright.trial import Objective, Trial

# What an architecture takes: no quality when made small.
_DEAR = ("latency", "flops", "params", "memory", "decoder_params", "latency_ratio", "seconds")


def is_cost(objective: Objective) -> bool:
    """Whether it says what an architecture takes, not how good it is."""
    return objective.direction == "min" and objective.name in _DEAR


def conclude(session: Session) -> Outcome:
    """Find the member of the front that beats the baseline by most, and say by how much."""
    study, outcome = session.study, Outcome(session.outcome.baseline)
    baseline = _like(study, outcome.baseline)
    quality, cost = headline_objectives(study)
    if cost is None:
        return _best_alone(study, outcome, quality)
    chosen = champion(study.front, baseline, quality, cost) if baseline is not None else None
    if baseline is None or chosen is None:
        return replace(outcome, headline=_no_champion(study, baseline, quality))
    times = baseline.values[cost.name] / chosen.values[cost.name]
    facts = {"times": times}
    words = f"cheaper, {1 / times:.2f} times the {cost.name} of"
    if cost.name == "latency":
        session.say("measuring the best against the baseline once more")
        facts, words = paired(session, chosen, parse(baseline.notation))
    ours, theirs = chosen.values[quality.name], baseline.values[quality.name]
    steps = chosen.values.get("steps")
    after = f" after {steps:.0f} training steps each" if steps else ""
    headline = (
        f"Trial {chosen.number} is {words} {baseline.name}, at {quality.name} {ours:.4g} "
        f"against {theirs:.4g}{after}."
    )
    return replace(outcome, headline=headline, chosen=chosen.number, facts=facts)


def _like(study: Study, baseline: Baseline | None) -> Baseline | None:
    """The baseline as it was evaluated on the rung that the front is of."""
    front = study.front
    return baseline.at(front[0].rung) if baseline is not None and front else baseline


def headline_objectives(study: Study) -> tuple[Objective, Objective | None]:
    """The objective that stands for quality, and the one that stands for cost."""
    given = study.objectives
    quality = next((o for o in given if not is_cost(o)), given[0])
    others = [o for o in given if o is not quality]
    return quality, next((o for o in others if is_cost(o)), others[0] if others else None)


def champion(
    front: list[Trial], baseline: Baseline, quality: Objective, cost: Objective | None
) -> Trial | None:
    """The cheapest trial that is at least as good as the baseline, if it is cheaper at all."""
    if cost is None or not {quality.name, cost.name} <= set(baseline.values):
        return None
    bar, price = (o.sign * baseline.values[o.name] for o in (quality, cost))
    good = [
        trial
        for trial in front
        if quality.sign * trial.values[quality.name] <= bar
        and cost.sign * trial.values[cost.name] < price
    ]
    return min(good, key=lambda t: cost.sign * t.values[cost.name], default=None)


def paired(
    session: Session, chosen: Trial, baseline: Architecture, seconds: float = 6.0
) -> tuple[dict[str, float], str]:
    """Measure the two against each other once more, longer than in the search."""
    ours: Architecture = session.study.member(chosen)
    found = compare(ours, baseline, session.target, seconds=seconds, precision=0.01)
    facts = {
        "speedup": 1 / found.ratio,
        "speedup_low": 1 / found.high,
        "speedup_high": 1 / found.low,
    }
    faster = facts["speedup"] >= 1
    words = (
        f"{facts['speedup']:.2f} times {'faster' if faster else 'as fast'} (95 %: "
        f"{facts['speedup_low']:.2f} to {facts['speedup_high']:.2f}) {'than' if faster else 'as'}"
    )
    return facts, words


def _best_alone(study: Study, outcome: Outcome, quality: Objective) -> Outcome:
    """The best trial where nothing but quality counts."""
    front, baseline = study.front, _like(study, outcome.baseline)
    if not front or baseline is None or quality.name not in baseline.values:
        return replace(outcome, headline=_no_champion(study, baseline, quality))
    best = min(front, key=lambda t: quality.sign * t.values[quality.name])
    ours, theirs = best.values[quality.name], baseline.values[quality.name]
    if quality.sign * ours >= quality.sign * theirs:
        return replace(outcome, headline=_no_champion(study, baseline, quality))
    headline = (
        f"Trial {best.number} has {quality.name} {ours:.4g} against {theirs:.4g} of "
        f"{baseline.name}."
    )
    return replace(outcome, headline=headline, chosen=best.number)


def _no_champion(study: Study, baseline: Baseline | None, quality: Objective) -> str:
    front = study.front
    if not front:
        return _no_front(study)
    best = min(front, key=lambda t: quality.sign * t.values[quality.name])
    value = best.values[quality.name]
    if baseline is None or quality.name not in baseline.values:
        return f"The best {quality.name} found is {value:.4g}, by trial {best.number}."
    theirs = baseline.values[quality.name]
    if quality.sign * value <= quality.sign * theirs:
        return (
            f"Trial {best.number} has {quality.name} {value:.4g} against {theirs:.4g} of "
            f"{baseline.name}, at a higher cost; nothing is as good and cheaper yet."
        )
    return (
        f"Nothing reached the {quality.name} of {baseline.name} ({theirs:.4g}) yet; the best is "
        f"{value:.4g}, by trial {best.number}."
    )


def _no_front(study: Study) -> str:
    done = [trial for trial in study.trials if trial.done]
    if not done:
        return "No trial has succeeded; see the reasons in the report."
    for name, most in study.rules.limits.items():
        least = min(trial.values[name] for trial in done if name in trial.values)
        if least > most:
            return (
                f"No trial keeps {name} at most {most:g}; the least found is {least:.4g}. Raise "
                "the limit, or search a space of smaller models."
            )
    return "No trial has reached the last stage yet; give the search a larger budget."
