"""The laws that every black-box strategy must obey: a test case for plug-in authors to subclass.

from formwright.testing import StrategyTestCase

class TestMine(StrategyTestCase):
    name = "mine"                        # as registered with @strategy("mine")
    options = {"population": 8}
"""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from formwright.space import Maybe, OneOf, Repeat, SomeOf, Span, TreeSpace
from formwright.strategy.blackbox import Strategy, make_strategy
from formwright.trial import Objective, Proposal, Trial, key_of

_ASKED = 45
_MIXED = (Objective("error", "min"), Objective("speed", "max"), Objective("size", "min"))


class StrategyTestCase:
    """Tests one strategy on a toy space with every kind of choice."""

    name: ClassVar[str]
    options: ClassVar[Mapping[str, Any]] = {}

    def test_resuming_from_history_continues_the_same_search(self) -> None:
        for objectives in (_MIXED[:1], _MIXED[:2], _MIXED):
            history = run(self.made(objectives), _ASKED)
            for cut in (0, 1, 13, 40):
                resumed = self.made(objectives)
                resumed.tell_all(history[:cut])
                assert run(resumed, _ASKED, history[:cut]) == history

    def test_asking_twice_gives_the_same_and_seeds_differ(self) -> None:
        search = self.made(_MIXED)
        history = run(search, 20)
        assert search.ask(20) == search.ask(20)
        if self.name != "grid":
            assert run(self.made(_MIXED, seed=1), 20) != history

    def test_every_proposal_lies_in_the_space_and_none_is_a_repeat(self) -> None:
        history = run(self.made(_MIXED[:2]), _ASKED)
        space = toy_space()
        assert all(space.contains(space.resolve(trial.decisions)) for trial in history)
        begun = [key_of(trial.decisions) for trial in history if trial.continues is None]
        assert len(set(begun)) == len(begun)

    def test_failed_trials_are_survived_and_never_become_parents(self) -> None:
        for every in (1, 2, 3):
            history = run(self.made(_MIXED[:2]), _ASKED, fail=every)
            failed = {trial.number for trial in history if not trial.done}
            assert failed
            assert not failed & {n for trial in history for n in trial.parents}

    def test_values_that_are_not_finite_are_survived(self) -> None:
        search = self.made(_MIXED[:2])
        for number in range(_ASKED):
            proposal = search.ask(number)
            assert proposal is not None
            values = dict(toy_values(proposal.decisions))
            if number % 3 == 0:
                values["error"] = float("nan") if number % 2 else float("-inf")
            search.tell(finished(number, proposal, values))
        assert len(search.trials) == _ASKED - len(range(0, _ASKED, 3))

    def test_what_is_pending_is_not_proposed_again(self) -> None:
        for told in (0, 30):
            search = self.made(_MIXED[:2])
            run(search, told)
            pending: list[Trial] = []
            for number in range(told, told + 8):
                proposal = search.ask(number, pending)
                assert proposal is not None
                pending.append(finished(number, proposal, {}, "running"))
            known = [(key_of(trial.decisions), trial.rung) for trial in pending]
            assert len(set(known)) == len(known)

    def test_a_small_space_is_searched_to_its_end(self) -> None:
        space = TreeSpace((OneOf("a", (1, 2, 3)), OneOf("b", (1, 2))), name="six")
        search = make_strategy(self.name, space, _MIXED[:1], 0, **self.options)
        tried = set()
        for number in range(40):
            proposal = search.ask(number)
            if proposal is None:
                break
            tried.add(key_of(proposal.decisions))
            error = float(proposal.decisions["a"] * proposal.decisions["b"])
            search.tell(finished(number, proposal, {"error": error}))
        assert len(tried) == 6

    def test_limits_on_measured_values_are_kept_to(self) -> None:
        # Most members are above the limit, and the better ones more often: a strategy that follows
        # what it is told must go where the limit holds; one that does not must not fail.
        wrong_way = (Objective("error", "max"),)
        free, kept, other = (
            [run(self.made(wanted, seed, **limits), _ASKED) for seed in (0, 1, 2)]
            for wanted, limits in (
                (_MIXED[:1], {}),
                (_MIXED[:1], {"limits": {"size": 3.0}}),
                (wrong_way, {}),
            )
        )
        assert all(len(history) == _ASKED for history in kept)
        learns = _decided(free) != _decided(other)
        fewer = _too_large(free) - _too_large(kept)
        assert fewer > 0 if learns else fewer >= 0

    # --- what the tests are made of -----------------------------------------------------

    def made(self, objectives: Sequence[Objective], seed: int = 0, **more: Any) -> Strategy:
        """A fresh instance on the toy space."""
        return make_strategy(self.name, toy_space(), objectives, seed, **self.options, **more)


def _decided(histories: Sequence[Sequence[Trial]]) -> list[tuple[Mapping[str, Any], int]]:
    return [(trial.decisions, trial.rung) for history in histories for trial in history]


def _too_large(histories: Sequence[Sequence[Trial]]) -> int:
    """Trials above the limit on size, after a beginning that may be drawn at random."""
    late = (trial for history in histories for trial in history[_ASKED // 3 :])
    return sum(trial.values["size"] > 3.0 for trial in late)


def toy_space() -> TreeSpace:
    """About a hundred million members with every kind of choice in them."""
    unit = (OneOf("heads", (1, 2, 4, 8)), OneOf("kind", ("conv", "attention", "none")))
    declared = (
        OneOf("width", (16, 32, 64, 128)),
        Repeat("depth", unit, 1, 6),
        Span("inner", 32, 512, 32, above=1.7, of="width"),
        (SomeOf("extras", ("norm", "bias", "gate", "skip"), 1, 2),),
        (Maybe("pooling", "pool"),),
    )
    return TreeSpace(declared, name="toy")


def toy_values(decisions: Mapping[str, Any]) -> dict[str, float]:
    """Error, speed and size of a member: they pull in different directions, as real ones do."""
    kinds = [decisions[f"kind{i}"] for i in range(decisions["depth"])]
    heads = [decisions[f"heads{i}"] for i in range(decisions["depth"])]
    work = decisions["width"] * (1 + sum(kind < 2 for kind in kinds)) + decisions["inner"]
    useful = sum((2, 3, 0)[kind] for kind in kinds) + 0.1 * sum(heads)
    error = 10.0 / (1.0 + useful) + 40.0 / decisions["width"] + 20.0 / decisions["inner"]
    error += 0.3 * (1 not in decisions["extras"]) + 0.2 * (1 - decisions["pooling"])
    return {"error": error, "speed": 1000.0 / work, "size": work / 100.0}


def finished(
    number: int, proposal: Proposal, values: Mapping[str, float], state: Any = "done"
) -> Trial:
    """The trial that became of a proposal."""
    return Trial.of(number, proposal, state=state, values=values)


def run(
    search: Strategy, upto: int, told: Sequence[Trial] = (), fail: int | None = None
) -> list[Trial]:
    """Go on with a search up to a number of trials; every ``fail``-th fails."""
    history = list(told)
    for number in range(len(told), upto):
        proposal = search.ask(number)
        if proposal is None:
            break
        failed = fail is not None and number % fail == 0
        values = {} if failed else toy_values(proposal.decisions)
        history.append(finished(number, proposal, values, "failed" if failed else "done"))
        search.tell(history[-1])
    return history
