"""What finals show: a claim is made only where it will survive a longer training."""

from dataclasses import replace
from typing import Any

import pytest

from formwright.recipes import verdict
from formwright.recipes.verdict import Duel, _not_held, chosen_duel, instead
from formwright.trial import FINAL, FINAL_RUNG, RIVAL, Objective, Trial

BITS, LATENCY = Objective("bits"), Objective("latency")


def final(number: int, bits: float, latency: float, slope: float = 0.0, **values: Any) -> Trial:
    found = {"bits": bits, "latency": latency, "slope": slope, **values}
    return Trial(number, {"n": number}, f"a{number}", "done", found, rung=FINAL_RUNG, origin=FINAL)


def duel(ours: Trial, theirs: Trial, cost: Objective | None = LATENCY) -> Duel:
    return Duel(ours, theirs, BITS, cost)


RIVAL_ = final(0, 2.0, 10.0, slope=0.2)


def test_better_now_and_learning_as_fast_holds() -> None:
    assert duel(final(1, 1.9, 5.0, slope=0.2), RIVAL_).holds


def test_better_now_and_overtaken_soon_does_not_hold() -> None:
    """A small model that has learnt what it can, against one that goes on."""
    early = duel(final(1, 1.9, 5.0, slope=0.0), RIVAL_)
    assert early.lead > early.level
    assert not early.holds


def test_what_other_seeds_may_take_back_does_not_hold() -> None:
    assert not duel(final(1, 1.999, 5.0, slope=0.2), RIVAL_).holds
    noisy = final(1, 1.95, 5.0, slope=0.2, seeds=2, bits_low=1.7, bits_high=2.2)
    assert not duel(noisy, RIVAL_).holds


def test_a_difference_within_what_a_thousand_examples_can_tell_is_level() -> None:
    """Of .915 and .908, of a thousand rows each, the second was better when trained again."""
    share = Objective("right", "max")

    def tagged(number: int, right: float, **more: float) -> Trial:
        values = {"right": right, "right_low": right - 0.017, "right_high": right + 0.017, **more}
        return Trial(number, {}, f"a{number}", "done", {"latency": 2.0, **values}, rung=FINAL_RUNG)

    close = Duel(tagged(1, 0.908), tagged(0, 0.915), share, LATENCY)
    assert close.taken.number == 1
    assert abs(close.lead) < close.level
    assert Duel(tagged(1, 0.94), tagged(0, 0.915), share, LATENCY).holds
    assert Duel(tagged(1, 0.890), tagged(0, 0.915), share, LATENCY).taken.number == 0


def test_the_cheapest_that_holds_is_announced_and_the_best_under_a_limit() -> None:
    best, cheap, fast = final(1, 1.5, 8.0, 0.2), final(2, 1.9, 4.0, 0.2), final(3, 2.5, 1.0, 0.2)
    duels = [duel(trial, RIVAL_) for trial in (best, cheap, fast)]
    assert chosen_duel(duels, limited=False).ours.number == 2
    assert chosen_duel(duels, limited=True).ours.number == 1


def test_one_that_is_level_and_faster_is_announced_where_none_is_better_and_faster() -> None:
    level, better = final(1, 2.001, 4.0, 0.2), final(2, 1.9, 20.0, 0.2)
    behind, late = final(3, 2.02, 1.0, 0.2), final(4, 2.0, 1.0, 0.1)  # who learns more slowly
    duels = [duel(trial, RIVAL_) for trial in (level, better, behind, late)]
    assert [each.keeps_up for each in duels] == [True, True, False, False]
    assert chosen_duel(duels, limited=False).ours is level
    assert chosen_duel(duels, limited=True).ours is better


def test_where_nothing_holds_the_best_is_taken() -> None:
    duels = [duel(final(1, 2.4, 4.0), RIVAL_), duel(final(2, 2.1, 8.0), RIVAL_)]
    assert chosen_duel(duels, limited=False).ours.number == 2


def test_the_model_to_take_is_the_rival_where_nothing_is_as_good() -> None:
    assert duel(final(1, 2.1, 4.0), RIVAL_).taken is RIVAL_
    for bits in (1.9, 2.0, 2.005):
        assert duel(final(1, bits, 4.0), RIVAL_).taken.number == 1


def test_of_two_that_are_level_the_cheaper_one_is_taken() -> None:
    assert duel(final(1, 1.999, 15.0), RIVAL_).taken is RIVAL_
    assert duel(final(1, 1.9, 15.0, slope=0.2), RIVAL_).taken.number == 1, "worth its price"
    about = final(1, 1.999, 10.1, latency_low=9.9, latency_high=10.3)
    assert duel(about, RIVAL_).taken.number == 1


def test_what_costs_more_and_will_be_overtaken_is_not_taken() -> None:
    """Found so: 1.44 against 1.463 bits at 1.5 times the latency, learning half as fast."""
    hasty = duel(final(1, 1.97, 15.0, slope=0.1), final(0, 2.0, 10.0, slope=0.2))
    assert hasty.lead > hasty.level
    assert hasty.overtaken
    assert hasty.taken.number == 0
    assert "may be ahead after four times as many steps" in _not_held(hasty, 0.67, "", "")
    assert duel(final(1, 1.97, 5.0, slope=0.1), hasty.theirs).taken.number == 1, "it is faster"
    level = duel(final(1, 2.0, 5.0, slope=0.1), hasty.theirs)
    assert "is level with" in (said := _not_held(level, 2.0, "", ""))
    assert "may be ahead" in said


def test_a_difference_in_pace_that_cannot_be_told_is_none() -> None:
    """Of eight searches the paces of two models turned six leads the wrong way, or too far."""
    theirs = final(0, 2.0, 10.0, slope=0.2, slope_error=0.05)
    unsure = duel(final(1, 1.97, 5.0, slope=0.15, slope_error=0.05), theirs)
    assert unsure.later == pytest.approx(unsure.lead)
    assert unsure.holds
    sure = duel(final(1, 1.97, 5.0, slope=0.0, slope_error=0.01), theirs)
    assert sure.later < sure.lead
    fallen = duel(final(1, 1.99, 5.0, slope=-0.1, slope_error=0.04), final(0, 2.0, 9.0, slope=0.05))
    assert fallen.later < fallen.lead, "what learns by heart is told from what learns"


def test_what_costs_as_much_within_the_interval_is_not_called_cheaper() -> None:
    level = final(1, 1.5, 9.99, 0.2, latency_low=9.8, latency_high=10.2)
    assert not duel(level, RIVAL_).cheaper
    assert duel(final(1, 1.5, 9.0, 0.2), RIVAL_).cheaper


def test_what_a_rival_would_come_to_alone_follows_its_pace() -> None:
    """Twice the steps bring 0.7 of what the last doubling did, four times 0.49 of it more."""
    rival = final(0, 2.0, 10.0, slope=0.1, steps=100.0, step_seconds=0.5)
    assert instead(rival, BITS, 50.0) is None
    assert instead(rival, BITS, 100.0) == pytest.approx(2.0 - 0.07)
    assert instead(rival, BITS, 200.0) == pytest.approx(2.0 - 0.07 - 0.049)
    assert instead(final(0, 2.0, 10.0), BITS, 200.0) is None
    share = Objective("bits", "max")
    assert instead(rival, share, 100.0) == pytest.approx(2.0 + 0.07)


def test_a_rival_is_named_by_its_note() -> None:
    rival = Trial(0, {"rival": "x"}, origin=RIVAL, note="Llama shape")
    assert rival.made_by.endswith("Llama shape")


@pytest.mark.parametrize(
    ("bits", "words"), [(1.9, "is better than"), (1.999, "is level with"), (2.1, "does not beat")]
)
def test_a_search_for_quality_alone_says_who_is_better(bits: float, words: str) -> None:
    session: Any = None  # nothing is measured
    _, said = verdict._against(session, duel(final(1, bits, 4.0), RIVAL_, cost=None))
    assert f"Trial 1 {words} " in said


def test_why_there_is_nobody_to_announce_is_told_by_what_failed() -> None:
    def failed(number: int, rung: int) -> Trial:
        return replace(final(number, 0, 0), origin="", rung=rung, state="failed", reason="slow")

    rival = replace(final(3, 2.0, 1.0), origin=RIVAL)
    tried = [failed(0, 0), replace(rival, rung=0)]
    told = "No {} came to an end; the first failed: slow"
    assert verdict._nobody(tried, FINAL_RUNG) == told.format("trial")
    assert verdict._nobody([*tried, failed(1, FINAL_RUNG), rival], FINAL_RUNG) == told.format(
        "finalist"
    )
    ended = [*tried, failed(1, FINAL_RUNG), final(2, 2.0, 9.0)]
    assert "No finalist keeps the limits" in verdict._nobody(ended, FINAL_RUNG)
