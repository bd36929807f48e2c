"""Who enters the finals: members of different training, made comparable, those worth most first."""

from types import SimpleNamespace
from typing import Any

import pytest

from formwright.arch import arch_id, notation, parse
from formwright.recipes.finals import as_rival, best_rivals, entered, finalists, prospects
from formwright.recipes.rivals import Rival
from formwright.strategy.forecast import Foresight, forecast
from formwright.trial import RIVAL, Objective, Trial

LOSS, LATENCY, RIGHT = Objective("loss"), Objective("latency"), Objective("right", "max")


def trial(number: int, loss: float, latency: float = 1.0, arch: str = "", **more: Any) -> Trial:
    about = {"rung": 0, "steps": 100, **more}
    values = {"loss": loss, "latency": latency}
    return Trial(number, {"n": number}, arch or f"a{number}", "done", values, **about)


def study(trials: list[Trial], **limits: float) -> Any:
    rules = SimpleNamespace(limits=limits)
    return SimpleNamespace(trials=trials, objectives=(LOSS, LATENCY), rules=rules)


def as_they_are(found: Trial) -> tuple[float, ...]:
    return found.values["loss"], found.values["latency"]


BEST, CHEAP, BETWEEN, POOR = (
    trial(0, 1.0, 9.0), trial(1, 1.9, 2.0), trial(2, 1.5, 4.0), trial(3, 3.0, 1.0),
)  # fmt: skip
ALL = [BEST, CHEAP, BETWEEN, POOR]


def test_the_cheapest_that_keeps_up_with_the_rival_comes_first() -> None:
    for most in (1, 2, 3):
        found = finalists(study(ALL), most, as_they_are, bar=(2.0, 5.0))
        assert found == [CHEAP, BEST, BETWEEN][:most]


def test_under_a_limit_the_best_comes_first() -> None:
    found = finalists(study(ALL, latency=10.0), 2, as_they_are, bar=(2.0, 5.0))
    assert found == [BEST, CHEAP]


def test_where_none_keeps_up_those_within_what_forecasts_can_tell_do() -> None:
    close = [trial(0, 2.03, 3.0), trial(1, 2.01, 9.0)]
    assert finalists(study(close), 1, as_they_are, bar=(2.0, 5.0)) == [close[0]]
    far = [trial(0, 2.5, 3.0), trial(1, 2.3, 9.0)]
    assert finalists(study(far), 1, as_they_are, bar=(2.0, 5.0)) == [far[1]]


def test_a_rival_that_the_search_tried_itself_is_a_rival_and_not_found() -> None:
    """There was no time to try it as one, and the strategy begins with what people write."""
    by_hand = Rival("by hand", parse("csf in llama(64)"))
    known = {arch_id(by_hand.arch): by_hand}
    short = trial(5, 1.4, 3.0, arch=arch_id(by_hand.arch))
    longer = trial(6, 0.9, 3.0, arch=arch_id(by_hand.arch), rung=1, steps=300)
    seen = [as_rival(each, known) for each in (*ALL, short, longer)]
    assert seen[:4] == ALL
    assert [each.number for each in best_rivals(seen, 2, as_they_are, LOSS)] == [6]
    assert finalists(study([*ALL, short, longer]), 4, as_they_are, apart=known)[0] not in seen[4:]
    proposal = entered(seen[-1], 900, 0)
    assert proposal.origin == RIVAL
    assert (proposal.note, proposal.parents) == ("by hand", (6,))
    assert proposal.decisions == {"rival": notation(by_hand.arch)}


def test_of_rivals_that_are_expected_to_be_level_the_best_so_far_enters() -> None:
    """On text8 the first listed entered, 2.785 bits so far, and not the one with 2.504."""
    slow, good, poor = (
        Trial(i, {"rival": str(i)}, f"r{i}", "done", {"loss": loss}, steps=100, origin=RIVAL)
        for i, loss in enumerate((2.785, 2.504, 3.413))
    )
    ends = {0: 2.10, 1: 2.08, 2: 2.9}

    def foreseen(found: Trial) -> tuple[float, ...]:
        return (ends[found.number],)

    assert best_rivals([slow, good, poor], 1, foreseen, LOSS) == [good]
    assert best_rivals([slow, good, poor], 3, foreseen, LOSS) == [good, slow, poor]


def test_models_trained_to_two_lengths_make_lengths_comparable() -> None:
    """All models halve their loss from 100 to 400 steps, which no forecast here knows of."""
    twice = [
        trial(2 * i + later, loss / (2 if later else 1), arch=f"m{i}", steps=100 + 300 * later)
        for i, loss in enumerate((4.0, 5.0, 6.0))
        for later in (0, 1)
    ]
    short = trial(9, 4.4)
    plain = Foresight(LOSS, 400, 0.0)
    assert plain(short) == pytest.approx(4.4)
    taught = plain.taught([*twice, short])
    assert 2.2 < taught(short) < 2.8, "nearly half: a few models do not prove it"
    assert taught(twice[1]) == twice[1].values["loss"], "the longest are as they are"
    foreseen = prospects([*twice, short], (LOSS, LATENCY), 400, 0.0)
    assert foreseen(short) == (pytest.approx(taught(short)), 1.0)


def test_shares_that_are_right_are_compared_by_what_is_wrong() -> None:
    def right(number: int, arch: str, share: float, steps: int) -> Trial:
        return Trial(number, {}, arch, "done", {"right": share}, steps=steps)

    twice = [right(0, "a", 0.8, 100), right(1, "a", 0.9, 400)]
    taught = Foresight(RIGHT, 400, 0.0).taught(twice)
    assert 0.6 < taught(right(2, "b", 0.6, 100)) < 0.8
    assert taught(right(3, "c", 1.0, 100)) <= 1.0


def test_what_no_error_can_be_told_of_stays_as_it_is() -> None:
    negative = trial(0, -3.0)
    assert Foresight(LOSS, 400, 0.0).taught([negative])(negative) == forecast(
        negative, LOSS, 400, 0.0
    )
