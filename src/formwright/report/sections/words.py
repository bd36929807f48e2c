"""Which operations did well, how often each was used, and how high its confidence bound is."""

import math
from typing import NamedTuple

from formwright.report.evolution import replayed
from formwright.report.html import Safe, joined, row_html, table_html, tag
from formwright.report.material import Material
from formwright.report.section import section
from formwright.report.words import figure
from formwright.strategy.blackbox.opnas import OpNas
from formwright.strategy.ucb import arms


class WordRow(NamedTuple):
    """One operation."""

    word: str
    uses: int
    mean: float
    bound: float


def words_info(material: Material) -> list[WordRow]:
    """Every operation as the search left it, the highest bound first; none in other searches."""
    replay = list(replayed(material))  # the same strategy each time, which goes on learning
    strategy = replay[-1][0] if replay else None
    if not isinstance(strategy, OpNas):
        return []
    if not strategy.counted:
        return []
    known, bounds = arms(strategy.space.vocabulary(), strategy.counted), strategy.bounds()
    rows = [WordRow(word, arm.uses, arm.mean, bounds[word]) for word, arm in known.items()]
    return sorted(rows, key=lambda row: (-row.bound, row.word))


@section("words", "Operations")
def words_html(material: Material) -> Safe | None:
    """The section."""
    rows = words_info(material)
    if not rows:
        return None
    said = (
        "The score of an operation is the mean over members that use it, from 0 (the worst member) "
        "to 1 (the best). The bound adds what is due to operations that were hardly tried; new "
        "operations are drawn by it."
    )
    heads = ("operation", "members that use it", "mean score", "upper confidence bound")
    shown = [
        row_html(
            row.word,
            (
                f"{row.uses:,}",
                figure(row.mean, 3) if row.uses else "",
                "never tried" if math.isinf(row.bound) else figure(row.bound, 3),
            ),
        )
        for row in rows
    ]
    return joined([tag("p", said, class_="quiet"), table_html(heads, shown)])
