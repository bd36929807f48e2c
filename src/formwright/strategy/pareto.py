"""Comparing by several costs at once: fronts, crowding, hypervolume, hull.

Every function takes costs, an array with one row per point and one column per objective, smaller
always better. Rows with NaN or infinity never dominate and are never part of a front.
Crowding: Deb et al. 2002, https://doi.org/10.1109/4235.996017
"""

from functools import reduce
from typing import Any

import numpy as np

from formwright.errors import InputError

Array = np.ndarray[Any, np.dtype[np.float64]]
Mask = np.ndarray[Any, np.dtype[np.bool_]]
Ints = np.ndarray[Any, np.dtype[np.int64]]
# n points, m objectives

_RAYS = 256  # directions that stand in for the volume of three costs and more


def pareto_mask(costs: Array) -> Mask:
    """Which rows no other row dominates; of equal rows all or none."""
    finite = np.isfinite(costs).all(axis=1)
    mask = np.zeros(len(costs), dtype=bool)
    if finite.any():
        mask[finite] = _mask(costs[finite])
    return mask


def ranks(costs: Array, enough: int | None = None) -> Ints:
    """The front each row belongs to: 0 for the best; rows not finite come last of all.

    Args:
        costs: One row per point.
        enough: Stop once so many rows are ranked; the others share the next rank.
    """
    found = np.full(len(costs), -1)
    left = np.flatnonzero(np.isfinite(costs).all(axis=1))
    rank, enough = 0, len(costs) if enough is None else enough
    ranked = 0
    while len(left) and ranked < enough:
        mask = _mask(costs[left])
        found[left[mask]] = rank
        ranked += int(mask.sum())
        left, rank = left[~mask], rank + 1
    found[left] = rank
    found[~np.isfinite(costs).all(axis=1)] = rank + 1
    return found


def crowding(costs: Array) -> Array:
    """How much room each row of one front has: inf at the ends, else the sides of its box."""
    count, objectives = costs.shape
    room = np.zeros(count)
    for column in range(objectives):
        order = np.argsort(costs[:, column], kind="stable")
        values = costs[order, column]
        extent = values[-1] - values[0] if count else 0.0
        room[order[[0, -1]] if count else order] = np.inf
        if extent > 0:
            room[order[1:-1]] += (values[2:] - values[:-2]) / extent
    return room


def order_by_rank(costs: Array, violation: Array | None = None, enough: int | None = None) -> Ints:
    """Row numbers from best to worst: by front, within a front by room.

    Args:
        costs: One row per point.
        violation: How far each row is from being allowed; rows at 0 come before all others, and
            those come by how little they miss it.
        enough: How many rows the caller will look at.
    """
    allowed = np.arange(len(costs)) if violation is None else np.flatnonzero(violation <= 0)
    rank = ranks(costs[allowed], enough)
    room = np.zeros(len(allowed))
    for front in range(int(rank.max(initial=-1)) + 1):
        members = np.flatnonzero(rank == front)
        if np.isfinite(costs[allowed[members]]).all():
            room[members] = crowding(costs[allowed[members]])
    order = allowed[np.lexsort((-room, rank))]
    if violation is None:
        return order
    missed = np.flatnonzero(violation > 0)
    return np.concatenate([order, missed[np.argsort(violation[missed], kind="stable")]])


def hypervolume(costs: Array, reference: Array) -> float:
    """The volume that rows dominate within ``reference``, exactly.

    Sorted sweeps over the last objective: n log n for two objectives, and a factor n for each
    further one.
    """
    reference = np.asarray(reference, dtype=float)
    if costs.ndim != 2 or costs.shape[1] != len(reference):
        raise InputError(
            f"costs of shape {costs.shape} do not fit a reference of {len(reference)} numbers; "
            "give one column per objective."
        )
    inside = np.isfinite(costs).all(axis=1) & (costs < reference).all(axis=1)
    return _volume(costs[inside], reference) if inside.any() else 0.0


def hypervolume_gains(costs: Array, candidates: Array, reference: Array) -> Array:
    """How much each candidate alone would add to the hypervolume of two costs."""
    inside = np.isfinite(costs).all(axis=1) & (costs < reference).all(axis=1)
    stairs = costs[inside][_mask(costs[inside])] if inside.any() else costs[:0]
    stairs = stairs[np.argsort(stairs[:, 0], kind="stable")]
    left = np.concatenate([[-np.inf], stairs[:, 0]])  # steps: from, to, and how high above
    right = np.concatenate([stairs[:, 0], [reference[0]]])
    ceiling = np.concatenate([[reference[1]], stairs[:, 1]])
    wide = np.maximum(0.0, right - np.maximum(left, candidates[:, :1]))
    high = np.maximum(0.0, ceiling - candidates[:, 1:2])
    return (wide * high).sum(axis=1)


def expected_gains(
    costs: Array, candidates: Array, rng: np.random.Generator, margin: float = 0.1
) -> Array:
    """What each candidate adds to the volume of the front of costs, to choose the best by.

    The reference lies a margin beyond the worst of the front. With two costs the gain is exact,
    otherwise a mean over random rays (Zhang and Golovin 2020, https://arxiv.org/abs/2006.04655).
    A candidate that adds nothing has a score below 0: by how much it misses the front.
    """
    front = costs[pareto_mask(costs)]
    both = np.concatenate([front, candidates])
    low, high = both.min(axis=0), (front if len(front) else candidates).max(axis=0)
    extent = np.where(high - low > 1e-12, high - low, 1.0)
    front, rows = (front - low) / extent, (candidates - low) / extent
    reference = np.full(rows.shape[1], 1.0 + margin)
    if rows.shape[1] == 2:
        gains = hypervolume_gains(front, rows, reference)
    else:
        rays = np.abs(rng.standard_normal((_RAYS, rows.shape[1])))
        rays /= np.linalg.norm(rays, axis=1, keepdims=True)
        held = _reach(front, reference, rays).max(axis=0, initial=0.0)
        gains = np.maximum(_reach(rows, reference, rays) - held, 0.0).mean(axis=1)
    if not len(front):
        return gains
    columns = (np.subtract.outer(rows[:, j], front[:, j]) for j in range(rows.shape[1]))
    missed = reduce(np.minimum, columns).max(axis=1)
    return np.where(gains > 0, gains, -np.abs(missed))


def _reach(rows: Array, reference: Array, rays: Array) -> Array:
    """The volume under how far along each ray from the reference a row dominates, (n, rays)."""
    along = ((reference - rows)[:, None] / rays).min(axis=2)
    return np.maximum(along, 0.0) ** len(reference)


def lower_hull(costs: Array) -> Mask:
    """Which rows of two costs are corners of the lower left convex hull.

    These are the points that are best for some weighting of the two costs.
    """
    if costs.shape[1] != 2:
        raise InputError(f"the lower hull is for two objectives, not {costs.shape[1]}.")
    front = np.flatnonzero(pareto_mask(costs))
    hull: list[int] = []
    for i in front[np.lexsort((costs[front, 1], costs[front, 0]))]:
        if hull and (costs[hull[-1]] == costs[i]).all():
            continue
        while len(hull) > 1 and _turn(costs[hull[-2]], costs[hull[-1]], costs[i]) <= 0:
            hull.pop()
        hull.append(int(i))
    mask = np.zeros(len(costs), dtype=bool)
    mask[hull] = True
    return mask


def _turn(a: Array, b: Array, c: Array) -> float:
    """Above 0 for a turn to the left on the way from a by b to c."""
    return float((b[0] - a[0]) * (c[1] - a[1]) - (b[1] - a[1]) * (c[0] - a[0]))


def _mask(costs: Array) -> Mask:
    """The front of finite rows."""
    if costs.shape[1] == 1:
        return costs[:, 0] == costs[:, 0].min()
    order = np.lexsort(costs.T[::-1])  # by the first cost, ties by the next
    rows = costs[order]
    new = np.ones(len(rows), dtype=bool)
    new[1:] = (rows[1:] != rows[:-1]).any(axis=1)
    unique = rows[new]
    best = _mask_of_two(unique) if costs.shape[1] == 2 else _mask_of_many(unique)
    mask = np.empty(len(rows), dtype=bool)
    mask[order] = best[np.cumsum(new) - 1]
    return mask


def _mask_of_two(rows: Array) -> Mask:
    """Sorted different rows: the front is where the second cost falls below all before."""
    mask = np.ones(len(rows), dtype=bool)
    mask[1:] = rows[1:, 1] < np.minimum.accumulate(rows[:-1, 1])
    return mask


def _mask_of_many(rows: Array) -> Mask:
    """Sorted different rows: none is dominated by a later one, so cull from the first on."""
    left, front = np.arange(len(rows)), []
    while len(left):
        first, left = left[0], left[1:]
        front.append(first)
        left = left[(rows[left] < rows[first]).any(axis=1)]
    mask = np.zeros(len(rows), dtype=bool)
    mask[front] = True
    return mask


def _volume(costs: Array, reference: Array) -> float:
    """Rows that all lie within the reference."""
    if len(reference) == 1:
        return float(reference[0] - costs.min())
    if len(reference) == 2:
        rows = costs[_mask(costs)]
        rows = rows[np.argsort(rows[:, 0], kind="stable")]
        ends = np.append(rows[1:, 0], reference[0])
        return float(((ends - rows[:, 0]) * (reference[1] - rows[:, 1])).sum())
    rows = costs[_mask(costs)]
    rows = rows[np.argsort(rows[:, -1], kind="stable")]
    thick = np.diff(np.append(rows[:, -1], reference[-1]))
    slices = (
        _volume(rows[: i + 1, :-1], reference[:-1]) * thick[i]
        for i in range(len(rows))
        if thick[i] > 0
    )
    return float(sum(slices))
