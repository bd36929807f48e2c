"""The course of a search that trains: a plan, short trials in stages, finals, a verdict.

Each phase goes on where it was cut short. What is decided on the way is kept beside the record:
the rivals, what a step costs, one plan for every budget the search was given, who enters which
finals.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from formwright.arch import Architecture, arch_id, notation, parse
from formwright.estimate.plain import plain_rival
from formwright.estimate.training import known_task
from formwright.recipes.finals import (
    Forecast,
    as_rival,
    best_rivals,
    entered,
    finalists,
    prospects,
    rival_proposal,
)
from formwright.recipes.headline import is_cost
from formwright.recipes.plan import COOLED, PILOT, Plan, counted, loaded, longest, planned, reserve
from formwright.recipes.rivals import Rival, rivals_for
from formwright.recipes.samples import samples
from formwright.recipes.session import BEST, Session
from formwright.recipes.verdict import instead, verdict
from formwright.strategy.belief import belief
from formwright.study.outcome import Outcome
from formwright.train.pace import step_seconds
from formwright.trial import FINAL_RUNG, Proposal, Trial

if TYPE_CHECKING:
    from formwright.recipes.usual import UsualSearch

_TRIED = 0.4  # of the time for trials: what rivals may take
_PAIRS = 3  # models trained at two lengths, below which nothing is said of their order
_LOOKING = 1.15  # what looks at the validation set and measurements add to the finals
_OVER = 0.1  # of the budget: what finals may end late before it is said
_SHORTER = 0.7  # of the planned length: below it, there are fewer finalists instead


@dataclass(frozen=True)
class Course:
    """A usual search that trains, phase by phase.

    Args:
        recipe: What to search, for what and for how long.
    """

    recipe: "UsualSearch"

    # --- the plan -----------------------------------------------------------------------

    def plan(self, session: Session) -> None:
        """Decide how the budget is spent, and say so; again where it was raised."""
        known = session.recall("plans") if session.has("plans") else []
        if known and (known[-1]["seconds"], known[-1].get("asked")) == self._asked:
            return
        self.rivals(session)
        made = self._planned(session, known)
        about = {"asked": self._asked[1], "capacity": self.recipe.capacity}
        session.keep("plans", [*known, {**made.to_data(), **about}])
        for line in (*self._restricted(session), *made.lines):
            session.say(line)

    def _restricted(self, session: Session) -> list[str]:
        """What the search is restricted to."""
        recipe, space = self.recipe, session.study.space
        members = space.outline().splitlines()[0]
        limits = (
            ("ms", recipe.max_latency), ("parameters", recipe.max_params),
            ("FLOPs", recipe.max_flops),
        )  # fmt: skip
        most = "".join(f", at most {limit:,g} {unit}" for unit, limit in limits if limit)
        shown = f"; all its ranges: formwright spaces {recipe.space} --task '{recipe.task}'"
        wide = "" if recipe.width == type(recipe).width else f" --width {recipe.width}"
        return [f"space {members}{most}{shown}{wide}" if recipe.own_space is None else members]

    @property
    def _asked(self) -> tuple[float | None, int | None]:
        return self.recipe.seconds, self.recipe.trials

    def _planned(self, session: Session, known: Sequence[dict[str, Any]]) -> Plan:
        recipe, rivals = self.recipe, self.rivals(session)
        by_hand = recipe.stages
        if recipe.seconds is None:
            stages = by_hand or recipe.usual_stages
            return counted(recipe.trials or 1, stages, recipe.workers, rivals=len(rivals))
        pace, _ = session.kept("pace", lambda: self._pace(rivals[0].arch))
        made = planned(
            recipe.seconds, recipe.workers, pace, rivals=len(rivals), spent=session.spent()
        )
        if known and not by_hand:  # what was tried stays comparable with what is to come
            first = known[0]["stages"][0]
            made = replace(made, stages=_grown(first, made.stages[-1]))
        return replace(made, stages=by_hand) if by_hand else made

    def _pace(self, arch: Architecture) -> tuple[float, float]:
        task = known_task(self.recipe.task)
        return step_seconds(arch, task, self.recipe.training)

    def rivals(self, session: Session) -> list[Rival]:
        """The hand-designed models, each as large as the limits allow."""
        kept = session.kept("rivals", lambda: self._rivals(session))
        return [Rival(row["name"], parse(row["arch"])) for row in kept]

    def _rivals(self, session: Session) -> list[dict[str, str]]:
        recipe = self.recipe
        found = rivals_for(
            known_task(recipe.task), recipe.width, own=recipe.baseline, fits=recipe.fits()
        )
        return [{"name": rival.name, "arch": notation(rival.arch)} for rival in found]

    # --- short trials -------------------------------------------------------------------

    def search(self, session: Session) -> None:
        """Try what the strategy proposes, until what is left is for the finals."""
        recipe, plan = self.recipe, current_plan(session)
        if session.has(f"finals-{_round(session)}"):
            return
        seconds = None
        if plan.search is not None:
            seconds = session.study.state.seconds + plan.search - session.spent()
        rung = len(plan.stages) - 1 if recipe.staged else 0
        steps = plan.stages[-1] if recipe.staged else recipe.alone(plan.stages)
        tried = self.rivals(session)[: self._affordable(session, plan)]
        rivals = [rival_proposal(rival, rung, steps) for rival in tried]
        how: dict[str, Any] = {
            "options": recipe.ladder(
                session.study.strategy_name, plan.stages, plan.steps, self.rivals(session)
            ),
            "first": rivals,
        }
        estimator = recipe.make_estimator(plan.stages)
        left = None if plan.search is None else max(1.0, plan.search - session.spent())
        session.on_phase("search", left, recipe.trials and recipe.trials + len(rivals))
        session.run(estimator, trials=recipe.trials, seconds=seconds, **how)
        if not any(trial.done and not trial.rival for trial in session.study.trials):
            session.say("the time for trials was over before one had ended; a few more are tried")
            session.run(estimator, trials=plan.finalists, **how)

    def _affordable(self, session: Session, plan: Plan) -> int:
        """How many rivals there is time to try: on a busy machine few."""
        if plan.seconds is None or plan.search is None:
            return len(self.rivals(session))
        seconds, share = session.recall("pace")
        each = plan.stages[-1] * (1 + COOLED) * seconds / max(0.1, share) / plan.workers
        return max(1, int(_TRIED * plan.search / each))

    # --- finals -------------------------------------------------------------------------

    def finals(self, session: Session) -> None:
        """Train the finalists and the best rivals alike, to the end."""
        plan, round_ = current_plan(session), _round(session)
        chosen = session.kept(f"finals-{round_}", lambda: self._chosen(session, plan))
        proposals = self._entered(session, chosen, round_)
        if proposals:
            names = f"{len(proposals)} models, {chosen['steps']:,} steps each"
            session.say(f"finals: {names}")
            left = None if plan.seconds is None else max(1.0, plan.seconds - session.spent())
            session.on_phase("finals", left, len(proposals))
            session.run(self.recipe.make_final_estimator(plan), trials=0, first=proposals)

    def _entered(self, session: Session, chosen: dict[str, Any], round_: int) -> list[Proposal]:
        """Proposals of those whose finals are not over."""
        trials = session.study.trials
        over = {t.parents for t in trials if t.rung == FINAL_RUNG + round_ and t.finished}
        numbers = [number for number in chosen["trials"] if (number,) not in over]
        known = self._by_arch(session)
        return [entered(as_rival(trials[n], known), chosen["steps"], round_) for n in numbers]

    def _by_arch(self, session: Session) -> dict[str, Rival]:
        """The rivals by their architecture, those too for which there was no time."""
        return {arch_id(rival.arch): rival for rival in self.rivals(session)}

    def _chosen(self, session: Session, plan: Plan) -> dict[str, Any]:
        """Who enters, the dearest first, and for how many steps."""
        study, known = session.study, self._by_arch(session)
        foreseen = self._forecast(session, plan)
        trials = [as_rival(trial, known) for trial in study.trials]
        rivals = best_rivals(trials, plan.rivals, foreseen, study.objectives[0])
        bar = foreseen(rivals[0]) if rivals else None
        members = finalists(study, plan.finalists, foreseen, bar, apart=known)
        share = self._share_now(session, plan)
        steps = self._length(session, plan, [*members, *rivals], share)
        while steps < _SHORTER * plan.steps and len(members) > 1:
            members.remove(max(members[1:], key=lambda trial: _step(trial, plan)))
            steps = self._length(session, plan, [*members, *rivals], share)
        self._warn(session, plan, steps, [*members, *rivals], share)
        # dear ones first, by counts: the order must not depend on a clock
        order = sorted([*members, *rivals], key=lambda trial: -trial.values.get("flops", 0.0))
        return {"trials": list(dict.fromkeys(t.number for t in order)), "steps": steps}

    def _share_now(self, session: Session, plan: Plan) -> float:
        """The share of a processor that training gets just now: others may have come since."""
        return 1.0 if plan.seconds is None else self._pace(self.rivals(session)[0].arch)[1]

    def _length(self, session: Session, plan: Plan, entrants: Sequence[Trial], share: float) -> int:
        """Steps that all of them can be trained for in the time that is left."""
        if plan.seconds is None:
            return plan.steps
        left = plan.seconds - session.spent() - reserve(session.recipe.workers)
        paces = _paces(plan, entrants, share)
        return max(plan.stages[-1], longest(left, session.recipe.workers, paces))

    def _warn(
        self, session: Session, plan: Plan, steps: int, entrants: Sequence[Trial], share: float
    ) -> None:
        """Say so where even the shortest finals take longer than the time that is left."""
        if plan.seconds is None:
            return
        needed = steps * loaded(session.recipe.workers, _paces(plan, entrants, share))
        over = session.spent() + reserve(session.recipe.workers) + needed - plan.seconds
        if over > _OVER * plan.seconds:
            session.say(
                f"the finals will end about {over:.0f} s after the budget: training gets "
                f"{share:.2f} of a processor just now, and less than {steps:,} steps would say "
                "nothing beside the trials"
            )

    def _forecast(self, session: Session, plan: Plan) -> Forecast:
        study = session.study
        return prospects(study.trials, study.objectives, plan.steps, self.recipe.capacity)

    # --- the end ------------------------------------------------------------------------

    def conclude(self, session: Session) -> None:
        """Say what the finals show."""
        if session.concluded:
            return
        outcome = verdict(session, FINAL_RUNG + _round(session))
        notes = [*outcome.notes, *_without(session, outcome)]
        notes += [*self._plain(session, outcome), *_believed(session)]
        outcome = replace(outcome, notes=(*notes, *_share(session)))
        session.conclude(outcome)
        best = session.folder / BEST
        if best.is_dir():
            session.keep("samples", samples(best, known_task(self.recipe.task)))

    def _plain(self, session: Session, outcome: Outcome) -> list[str]:
        """What needs no network, where it is as good."""
        task = known_task(self.recipe.task)
        found = session.kept("plain", lambda: _plain_data(task))
        name = task.metric
        if not found or outcome.chosen is None or name not in found["values"]:
            return []
        sign, value = task.objective.sign, found["values"][name]
        ours = session.study.trials[outcome.chosen].values.get(name)
        said = f"{found['name']}, without a network, has {name} {value:.4g}"
        if ours is not None and sign * value <= sign * ours:
            return [f"{said}: at least as good as the model found here."]
        return [f"{said}."]


def current_plan(session: Session) -> Plan:
    """The plan of the budget that is spent now."""
    return Plan.from_data(session.recall("plans")[-1])


def _round(session: Session) -> int:
    return len(session.recall("plans")) - 1


def _grown(first: int, last: int) -> tuple[int, ...]:
    """Stages from a given first one up to about a last one."""
    stages = [first]
    while stages[-1] * 3 <= last * 1.5:
        stages.append(stages[-1] * 3)
    return tuple(stages)


def _paces(plan: Plan, entrants: Sequence[Trial], share: float) -> list[float]:
    """Seconds that each takes for a step of the finals, pilots, seeds and looks included."""
    often = plan.seeds + (PILOT * len(plan.rates) if len(plan.rates) > 1 else 0.0)
    return [_LOOKING * often * _step(trial, plan, share) for trial in entrants] or [1.0]


def _step(trial: Trial, plan: Plan, share: float = 1.0) -> float:
    """Seconds of one training step of a trial, at the share of a processor that it gets.

    That is the lesser of what it got when it was tried, beside others, and what there is just now.
    """
    taken = trial.values.get("step_seconds", plan.step_seconds)
    return taken / min(1.0, max(0.05, min(share, trial.values.get("processor_share", 1.0))))


def _plain_data(task: Any) -> dict[str, Any]:
    found = plain_rival(task)
    return {} if found is None else {"name": found.name, "values": dict(found.values)}


def _without(session: Session, outcome: Outcome) -> list[str]:
    """What the best rival would come to without a search, all the time for its training."""
    seconds, quality = current_plan(session).seconds, session.study.objectives[0]
    rung = FINAL_RUNG + _round(session)
    finals = [trial for trial in session.study.trials if trial.rung == rung and trial.done]
    rivals = [trial for trial in finals if trial.rival]
    if seconds is None or outcome.chosen is None or not rivals or is_cost(quality):
        return []
    best = min(rivals, key=lambda trial: quality.sign * trial.values[quality.name])
    reached = instead(best, quality, seconds)
    if reached is None:
        return []
    taken = session.study.trials[outcome.chosen].values[quality.name]
    better = quality.sign * reached < quality.sign * taken
    return [
        f"Without a search, {best.note} trained for all of the budget by one process would come to "
        f"{quality.name} of about {reached:.4g} by its pace: {'better' if better else 'no better'} "
        "than the model to take."
    ]


def _believed(session: Session) -> list[str]:
    """How far short trials can be believed, in a sentence."""
    study = session.study
    found = [row for row in belief(study.trials, study.objectives[0]) if row.pairs >= _PAIRS]
    if not found:
        return ["Too few models were trained twice to say how far short trials can be believed."]
    row = max(found, key=lambda row: (row.other, -row.rung))
    steps = {t.rung: t.steps for t in study.trials if t.steps}
    return [
        f"Short trials are to be believed to {row.correlation:.2f} (95 %: {row.low:.2f} to "
        f"{row.high:.2f}): how alike {steps[row.rung]:,} and {steps[row.other]:,} steps rank the "
        f"same {row.pairs} models, where 1 is the same order."
    ]


def _share(session: Session) -> list[str]:
    """What share of a processor the search got, where it was not all."""
    shares = [
        trial.values["processor_share"]
        for trial in session.study.trials
        if "processor_share" in trial.values
    ]
    if not shares:
        return []
    mean = sum(shares) / len(shares)
    return [f"Training got {mean:.2f} of a processor for each of its processes."]
