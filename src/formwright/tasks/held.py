"""Training data in two parts, for what must not be judged by what it was taught with."""

from copy import copy
from typing import Any

import numpy as np

from formwright.errors import InputError
from formwright.tasks.base import Task
from formwright.tasks.cache import Ragged
from formwright.tasks.examples import ExampleTask
from formwright.tasks.lm import StreamTask
from formwright.tasks.splits import Split


def held_out(task: Any, share: float) -> tuple[Any, Any]:
    """A task with most of its training data, and the same with the rest of them.

    Of a text the end is held out, of examples rows that are drawn once and for all.

    Args:
        task: Whose training data are divided.
        share: How much is held out.
    """
    if not 0 < share < 1:
        raise InputError(f"A share of {share} cannot be held out; give one between 0 and 1.")
    if isinstance(task, StreamTask):
        stream = task.stream("train")
        cut = round(len(stream) * (1 - share))
        return tuple(_with_text(task, part) for part in (stream[:cut], stream[cut:]))  # type: ignore[return-value]
    if isinstance(task, ExampleTask):
        data = task.split("train")
        order = np.random.default_rng(0).permutation(len(data))
        cut = round(len(order) * (1 - share))
        if not 0 < cut < len(order):
            raise InputError(f"{task.name} has {len(order)} training rows: none can be held out.")
        first, second = (_taken(data, np.sort(rows)) for rows in (order[:cut], order[cut:]))
        return _with_rows(task, first), _with_rows(task, second)
    raise InputError(
        f"{getattr(task, 'name', task)} is a task of another kind, whose training data cannot be "
        "divided; set choices.held=0."
    )


def _with_text(task: StreamTask, stream: np.ndarray) -> Task:
    if len(stream) < task.length + 2:
        raise InputError(
            f"{task.name} has too little text to hold some out: a part of {len(stream)} symbols is "
            f"shorter than a segment of {task.length}."
        )
    made = copy(task)
    made.streams = {**task.streams, "train": stream}
    return made


def _with_rows(task: ExampleTask, rows: Split) -> Task:
    made = copy(task)
    made._splits = {**task._splits, "train": rows}
    return made


def _taken(data: Split, rows: np.ndarray) -> Split:
    """Some rows of a split."""
    targets = data.targets
    return Split(
        {name: _rows(column, rows) for name, column in data.columns.items()},
        _rows(targets, rows) if isinstance(targets, Ragged) else targets[rows],
        None if data.firsts is None else data.firsts[rows],
        {name: _rows(column, rows) for name, column in data.texts.items()},
    )


def _rows(column: Ragged, rows: np.ndarray) -> Ragged:
    starts, lengths = column.offsets[rows], column.lengths[rows]
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    places = np.repeat(starts - offsets[:-1], lengths) + np.arange(offsets[-1])
    return Ragged(column.values[places], offsets)
