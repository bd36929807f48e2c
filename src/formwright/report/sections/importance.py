"""What the search learned: which decisions move which objective.

A ridge regression is fitted to the encoded trials; then the columns of one decision are shuffled
among the trials, and half the rise of its squared error is the share of the variance that is due to
that decision (permutation importance, https://doi.org/10.1023/A:1010933404324; half, because a
shuffled value errs by the variance of two draws).
Decisions that differ only in their number (``heads0``, ``heads1``) are shuffled together.
Trials of a search are not drawn evenly, so this describes where it looked, not the whole space.
"""

import re
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from formwright.report.html import Safe, joined, table_html, tag
from formwright.report.material import Material, thinned
from formwright.report.section import section
from formwright.report.words import plural, readable
from formwright.space import Encodable
from formwright.statistics import Ridge
from formwright.strategy.features import Features

Array = np.ndarray[Any, np.dtype[np.float64]]
# n trials, c columns of the encoding, t objectives

_TRIALS = 800  # more tell no more
_FEWEST = 20  # trials below which nothing is said
_SHUFFLES = 4
_SHOWN = 14
_COLUMN = re.compile(r"^(?P<name>.*?)(?P<number>\d*)(?P<rest>=.*| in play|\[\d+\])?$", re.DOTALL)


class ImportanceInfo(NamedTuple):
    """How much each group of decisions matters.

    Args:
        groups: Names of the groups, the one that matters most in all first.
        sizes: How many decisions each has.
        shares: (groups, objectives) share of the variance that is due to it.
        trends: (groups, objectives) correlation of the group's mean with the objective; 0 where
            the group has no order.
        explained: How much of each objective's variance the fit explains, left-out trials asked.
        trials: How many were looked at.
    """

    groups: list[str]
    sizes: list[int]
    shares: Array
    trends: Array
    explained: list[float]
    trials: int


def importance_info(material: Material) -> ImportanceInfo | None:
    """Fit, shuffle, compare; None where there is too little to learn from."""
    space, trials = material.space, thinned(material.compared, _TRIALS)
    if not isinstance(space, Encodable) or len(trials) < _FEWEST:
        return None
    encoded = np.array([space.encode(trial.decisions) for trial in trials])
    values = np.array([[t.values[o.name] for o in material.objectives] for t in trials])
    return _measured(space.columns(), encoded, values)


def _measured(columns: Sequence[str], encoded: Array, values: Array) -> ImportanceInfo | None:
    groups = grouped(columns)
    features = Features(columns)
    spread = values.std(axis=0)
    targets = (values - values.mean(axis=0)) / np.where(spread > 0, spread, 1.0)
    fit = Ridge(features(encoded), targets)

    def error(inputs: Array) -> Array:
        return ((fit.mean(fit.project(features(inputs))) - targets) ** 2).mean(axis=0)

    rng, plain = np.random.default_rng(0), error(encoded)
    shares = np.zeros((len(groups), values.shape[1]))
    trends = np.zeros_like(shares)
    for row, members in enumerate(groups.values()):
        for _ in range(_SHUFFLES):
            shuffled = encoded.copy()
            shuffled[:, members] = encoded[rng.permutation(len(encoded))][:, members]
            shares[row] += (error(shuffled) - plain) / (2 * _SHUFFLES)
        trends[row] = _trend(columns, encoded, members, targets)
    shares = np.maximum(shares, 0.0)
    order = np.argsort(-shares.sum(axis=1), kind="stable")
    names = list(groups)
    return ImportanceInfo(
        groups=[names[i] for i in order],
        sizes=[_decisions(columns, groups[names[i]]) for i in order],
        shares=shares[order],
        trends=trends[order],
        explained=[
            float(max(0.0, 1 - e**2)) if s > 0 else 0.0
            for e, s in zip(fit.error, spread, strict=True)
        ],
        trials=len(encoded),
    )


def grouped(columns: Sequence[str]) -> dict[str, list[int]]:
    """Columns of an encoding by the decision they belong to, numbers at its end left off."""
    groups: dict[str, list[int]] = {}
    for i, column in enumerate(columns):
        found = _COLUMN.match(column)
        groups.setdefault(found["name"] or column if found else column, []).append(i)
    return groups


def _decisions(columns: Sequence[str], members: list[int]) -> int:
    found = (_COLUMN.match(columns[i]) for i in members)
    return len({match["number"] for match in found if match})


def _trend(columns: Sequence[str], encoded: Array, members: list[int], targets: Array) -> Array:
    """Correlation of a group's mean with each target; 0 where it has no order."""
    ordered = [i for i in members if not re.search(r"=|\]$| in play$", columns[i])]
    if not ordered:
        return np.zeros(targets.shape[1])
    total = encoded[:, ordered].mean(axis=1)
    spread = total.std()
    if spread < 1e-12:
        return np.zeros(targets.shape[1])
    return ((total - total.mean()) / spread) @ targets / len(targets)


@section("learned", "What the search learned")
def importance_html(material: Material) -> Safe | None:
    """The section."""
    info = importance_info(material)
    if info is None or not info.groups or not (info.shares > 0.001).any():
        return None
    shown = min(_SHOWN, len(info.groups))
    heads: list[object] = ["decision"]
    for objective, explained in zip(material.objectives, info.explained, strict=True):
        fit = tag("small", f"{explained:.0%} explained")
        heads.append([readable(objective.name), tag("br"), fit])
    largest = max(float(info.shares.max()), 1e-9)
    rows = []
    for i in range(shown):
        size = tag("small", f" in {info.sizes[i]} places") if info.sizes[i] > 1 else None
        cells = [_cell(info, i, j, largest) for j in range(len(material.objectives))]
        rows.append(tag("tr", tag("th", info.groups[i], size, scope="row"), cells))
    said = (
        f"Which decisions matter: the share of an objective's variance that is due to each, by a "
        f"model fitted to {plural(info.trials, 'trial')}. An arrow says whether a larger value "
        "goes with a larger (\u2197) or smaller (\u2198) objective."
    )
    return joined([tag("p", said, class_="quiet"), table_html(heads, rows, "figures bars")])


def _cell(info: ImportanceInfo, row: int, column: int, largest: float) -> Safe:
    share, trend = float(info.shares[row, column]), float(info.trends[row, column])
    arrow = "" if abs(trend) < 0.15 else "\u2197" if trend > 0 else "\u2198"
    width = f"{100 * share / largest:.1f}"
    bar = tag("svg", tag("rect", width=width, height=8, rx=1), class_="bar", viewBox="0 0 100 8",
              preserveAspectRatio="none", aria_hidden="true")  # fmt: skip
    return tag("td", tag("span", f"{share:.1%}", tag("i", arrow)), bar)
