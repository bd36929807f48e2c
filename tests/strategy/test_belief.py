"""How far short trials can be believed: the same models at several lengths."""

from formwright.statistics import spearman_interval
from formwright.strategy.belief import belief
from formwright.trial import FINAL, FINAL_RUNG, PROMOTED, Objective, Trial

LOSS = Objective("loss")


def pairs(longer: list[float]) -> list[Trial]:
    """Models that were as good as their number at first, and came to something later."""
    count = len(longer)
    short = [Trial(i, {"n": i}, state="done", values={"loss": float(i)}) for i in range(count)]
    return short + [
        Trial(
            count + i, {"n": i}, state="done", values={"loss": loss}, rung=1, continues=i,
            origin=PROMOTED,
        )
        for i, loss in enumerate(longer)
    ]  # fmt: skip


def test_the_same_order_is_believed_and_the_opposite_is_not() -> None:
    (same,) = belief(pairs([1.0, 2.0, 3.0, 4.0, 5.0]), LOSS)
    assert (same.rung, same.other, same.pairs, same.correlation) == (0, 1, 5, 1.0)
    assert same.low < 1.0
    (turned,) = belief(pairs([5.0, 4.0, 3.0, 2.0, 1.0]), LOSS)
    assert turned.correlation == -1.0


def test_finals_belong_to_the_model_that_entered_them() -> None:
    trials = pairs([1.0, 2.0, 3.0])
    for i in range(3):
        values = {"loss": float(3 - i)}
        entered = Trial(6 + i, {"n": i}, state="done", values=values, rung=FINAL_RUNG)
        trials.append(Trial(**{**vars(entered), "parents": (3 + i,), "origin": FINAL}))
    found = {(row.rung, row.other): row.correlation for row in belief(trials, LOSS)}
    assert found[(1, FINAL_RUNG)] == found[(0, FINAL_RUNG)] == -1.0


def test_an_interval_narrows_with_the_number_of_models() -> None:
    few, many = spearman_interval(0.8, 6), spearman_interval(0.8, 60)
    assert few[0] < many[0] < 0.8 < many[1] < few[1]
    assert spearman_interval(0.8, 3) == (-1.0, 1.0)
