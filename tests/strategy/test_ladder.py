"""The ladder: what is going to be best goes on, and not what leads now."""

from collections.abc import Sequence
from typing import Any

import pytest

from formwright.errors import InputError
from formwright.space import OneOf, TreeSpace
from formwright.strategy.blackbox import make_strategy
from formwright.strategy.blackbox.ladder import Ladder
from formwright.strategy.forecast import CAPACITY, forecast
from formwright.trial import SEED, Objective, Proposal, Trial

LOSS = Objective("loss")
FAST, SLOW = 1, 2
SPACE = TreeSpace(
    (OneOf("kind", (FAST, SLOW)), OneOf("a", tuple(range(12))), OneOf("b", tuple(range(12)))),
    name="toy",
)


def value(kind: int, steps: int) -> tuple[float, float]:
    """Loss and its fall per doubling: the fast ones lead at first."""
    power, start = (0.05, 2.6) if kind == FAST else (0.3, 7.5)
    loss = start * steps**-power
    return loss, loss * (2**power - 1)


def tried(number: int, proposal: Proposal, steps: int) -> Trial:
    loss, slope = value(int(proposal.decisions["kind"]), steps)
    loss += 0.001 * int(proposal.decisions["a"])
    found = {"loss": loss, "slope": slope, "size": 1.0 + int(proposal.decisions["b"])}
    return Trial.of(number, proposal, state="done", values=found)


def searched(name: str, trials: int, **options: Any) -> list[Trial]:
    made = make_strategy(name, SPACE, [LOSS], 1, **options)
    history: list[Trial] = []
    for number in range(trials):
        proposal = made.ask(number)
        assert proposal is not None
        trial = tried(number, proposal, proposal.steps or 60)
        history.append(trial)
        made.tell(trial)
    return history


def test_a_slow_starter_that_is_going_to_win_goes_on() -> None:
    """Where promotion looks at values alone, it never does."""
    ladder = searched("ladder", 30, stages=(60, 180), target=2000, capacity=0.0)
    staged = searched("staged", 30, rungs=2, steps=60, eta=3)
    assert value(FAST, 60) < value(SLOW, 60)
    assert value(SLOW, 2000) < value(FAST, 2000)
    promoted = [t for t in ladder if t.rung == 1]
    assert promoted
    assert all(t.decisions["kind"] == SLOW for t in promoted[-3:])
    assert all(t.decisions["kind"] == FAST for t in staged if t.rung == 1)


def test_seeds_come_first_and_each_once() -> None:
    seeds = [{"kind": SLOW, "a": 1, "b": 2}, {"kind": FAST, "a": 3, "b": 4}]
    history = searched("ladder", 6, stages=(60, 180), seeds=seeds)
    assert [dict(t.decisions) for t in history[:2]] == seeds
    assert [t.origin for t in history].count(SEED) == 2


def priced(trials: int, seeds: Sequence[dict[str, int]]) -> list[Trial]:
    """A search for two objectives in a space whose cheap members, with a small ``b``, are poor."""
    made = make_strategy(
        "ladder", SPACE, [LOSS, Objective("size")], 3, stages=(60, 180), seeds=seeds
    )
    history: list[Trial] = []
    for number in range(trials):
        proposal = made.ask(number)
        assert proposal is not None
        a, b = int(proposal.decisions["a"]), int(proposal.decisions["b"])
        values = {"loss": 1.0 + 0.4 * max(0, 6 - b) + 0.01 * a, "size": 1.0 + b}
        history.append(Trial.of(number, proposal, state="done", values=values))
        made.tell(history[-1])
    return history


def test_what_cannot_keep_up_with_the_hand_designed_does_not_go_on_however_cheap() -> None:
    byhand = {"kind": FAST, "a": 5, "b": 10}
    longer = [t for t in priced(40, [byhand]) if t.rung == 1]
    assert len(longer) >= 8
    assert all(t.values["loss"] <= 1.05 * 1.05 for t in longer[2:])
    assert min(t.values["size"] for t in longer) < 11, "and what is cheaper goes on"
    assert any(t.values["loss"] > 1.2 for t in priced(40, []) if t.rung == 1), "as it did without"


def test_the_bar_is_that_of_seeds_within_the_limits() -> None:
    """Else a search under a limit would be held against what the limit forbids."""
    seeds = [{"kind": FAST, "a": 0, "b": 11}, {"kind": FAST, "a": 0, "b": 3}]
    limited = {"stages": (60, 180), "seeds": seeds, "limits": {"size": 5.0}}
    made = make_strategy("ladder", SPACE, [LOSS], 3, **limited)
    assert isinstance(made, Ladder)
    for number, loss in enumerate((1.0, 2.0)):
        proposal = made.ask(number)
        assert proposal is not None
        values = {"loss": loss, "size": 1.0 + int(proposal.decisions["b"])}
        made.tell(Trial.of(number, proposal, state="done", values=values))
    assert made.bars == {60: 2.0}


def test_where_stages_disagree_more_go_on() -> None:
    """The second stage turns the order of the first round."""

    def share(sign: float) -> float:
        made = make_strategy("ladder", SPACE, [LOSS], 2, stages=(60, 180), capacity=0.0)
        promoted = 0
        for number in range(80):
            proposal = made.ask(number)
            assert proposal is not None
            a, b = int(proposal.decisions["a"]), int(proposal.decisions["b"])
            loss = 1 + a + b / 100 if proposal.rung == 0 else 1 + sign * (a + b / 100) + 20
            values = {"loss": loss}
            made.tell(Trial.of(number, proposal, state="done", values=values))
            promoted += proposal.rung
        return promoted / 80

    assert share(-1.0) > share(1.0)


@pytest.mark.parametrize(
    "options", [{"stages": ()}, {"stages": (60, 60)}, {"eta": 0.5}, {"inner": "ladder"}]
)
def test_what_makes_no_ladder_is_refused(options: dict[str, Any]) -> None:
    with pytest.raises(InputError, match="make no ladder"):
        make_strategy("ladder", SPACE, [LOSS], **options)


def test_a_forecast_moves_towards_what_still_learns_and_what_is_larger() -> None:
    def trial(**values: float) -> Trial:
        return Trial(0, {}, state="done", steps=100, values={"loss": 2.0, **values})

    def end(found: Trial, objective: Objective = LOSS) -> float:
        return forecast(found, objective, 1600, CAPACITY)

    flat = end(trial(slope=0.0, decoder_params=1e5))
    assert flat == pytest.approx(2.0)
    assert end(trial(slope=0.5, decoder_params=1e5)) < flat
    assert end(trial(slope=0.0, decoder_params=1e6)) < flat
    assert forecast(trial(slope=0.5), LOSS, 100, CAPACITY) == 2.0, "nothing is left"
    right = Objective("accuracy", "max")
    assert end(trial(slope=0.5, accuracy=0.6, decoder_params=1e5), right) > 0.6
    assert end(trial(slope=9.0, accuracy=0.999), right) <= 1.0
