"""Tiny generated tasks whose secret is known, to test whether a search finds what solves them.

``planted-far``: the class is the token at a fixed far place; only long range reaches it.
``planted-near``: the class is the most frequent of the first tokens; a short range is enough.
``planted-tag``: a token's tag is the sum of it and the one before it, modulo the tags.
``planted-table``: the same with a random table in place of the sum: attention fetches the token
before, and what is left is learning pairs by heart, which only feed-forwards can.
``planted-mirror``: a token's tag is the token as far from the end as it is from the beginning; only
what knows pairs of positions finds it where the model is told no positions.
``planted-sofar``: a token's tag is the most frequent token up to it; easiest for what sees the past
alone where the model is told no positions.
All read the answer off the first vector (or off each), so pooling does not give the secret away.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from formwright.arch.frame import Classify, Frame, Head, Tag
from formwright.errors import InputError
from formwright.tasks.base import Task
from formwright.tasks.batching import draw
from formwright.tasks.cache import Ragged
from formwright.tasks.examples import Classification, ExampleTask
from formwright.tasks.guide import Guide, option
from formwright.tasks.registry import Options, task
from formwright.tasks.splits import Split, generated
from formwright.tasks.tag import Tagging

_SEEDS = {"train": 11, "valid": 12, "test": 13}
_TABLE = 14  # seed of planted-table's table
Label = Callable[[np.ndarray], np.ndarray]


@dataclass(frozen=True, kw_only=True)
class PlantedOptions(Options):
    """Sizes; ``offset`` is the far place, ``block`` the number of first tokens that count."""

    length: int = option(32, "Tokens of a row.")
    symbols: int = option(4, "Different symbols, and so classes.")
    offset: int = option(24, "The far place of planted-far.")
    block: int = option(7, "The first tokens that count in planted-near.")
    train: int = option(4_000, "Training rows.")
    valid: int = option(500, "Validation rows.")
    test: int = option(500, "Test rows.")


_GUIDE = Guide({"accuracy": "Share of right answers."})


@task("planted-far", "the class is the token at a fixed far place", PlantedOptions, guide=_GUIDE)
def far(name: str, options: PlantedOptions) -> Task:
    """The token at ``offset`` is the class."""
    _check(options, options.offset)
    return _classes(name, options, lambda tokens: tokens[:, options.offset])


@task(
    "planted-near",
    "the class is the most frequent of the first tokens",
    PlantedOptions,
    guide=_GUIDE,
)
def near(name: str, options: PlantedOptions) -> Task:
    """The most frequent of the first ``block`` tokens is the class; the smallest one of equals."""
    _check(options, options.block - 1)

    def commonest(tokens: np.ndarray) -> np.ndarray:
        counts = [(tokens[:, : options.block] == s).sum(axis=1) for s in range(options.symbols)]
        return np.stack(counts, axis=1).argmax(axis=1)

    return _classes(name, options, commonest)


@task(
    "planted-tag",
    "each tag is the sum of a token and the one before it",
    PlantedOptions,
    guide=_GUIDE,
)
def tags(name: str, options: PlantedOptions) -> Task:
    """Tag i is (token i + token i-1) modulo the number of symbols; token -1 is 0."""
    _check(options, 0)

    return _tags(name, options, lambda tokens: (tokens + _before(tokens)) % options.symbols)


@task(
    "planted-table",
    "each tag is looked up by a token and the one before it",
    PlantedOptions,
    guide=_GUIDE,
)
def table(name: str, options: PlantedOptions) -> Task:
    """Tag i is drawn at random once for each pair of token i and token i-1; token -1 is 0."""
    _check(options, 0)
    drawn = draw(_TABLE).integers(options.symbols, size=(options.symbols, options.symbols))
    return _tags(name, options, lambda tokens: drawn[tokens, _before(tokens)])


@task("planted-mirror", "each tag is the token at the mirrored place", PlantedOptions, guide=_GUIDE)
def mirror(name: str, options: PlantedOptions) -> Task:
    """Tag i is the token as far from the end as i is from the beginning."""
    _check(options, 0)
    return _tags(name, options, lambda tokens: tokens[:, ::-1])


@task("planted-sofar", "each tag is the most frequent token so far", PlantedOptions, guide=_GUIDE)
def so_far(name: str, options: PlantedOptions) -> Task:
    """Tag i is the most frequent of tokens 0 to i; the smallest one of equals."""
    _check(options, 0)

    def commonest(tokens: np.ndarray) -> np.ndarray:
        counts = [(tokens == s).cumsum(axis=1) for s in range(options.symbols)]
        return np.stack(counts, axis=2).argmax(axis=2)

    return _tags(name, options, commonest)


def _before(tokens: np.ndarray) -> np.ndarray:
    return np.pad(tokens, ((0, 0), (1, 0)))[:, :-1]


def _classes(name: str, options: PlantedOptions, label: Label) -> Task:
    head = Classify(options.symbols, pool="first")
    return _made(Classification, name, options, head, lambda t: label(t).astype(np.int64))


def _tags(name: str, options: PlantedOptions, label: Label) -> Task:
    return _made(Tagging, name, options, Tag(options.symbols), lambda t: _rows(label(t) + 1))


def _made(
    kind: type[ExampleTask],
    name: str,
    options: PlantedOptions,
    head: Head,
    targets: Callable[[np.ndarray], np.ndarray | Ragged],
) -> Task:
    splits = {}
    for split, seed in _SEEDS.items():
        shape = (getattr(options, split), options.length)
        tokens = draw(seed).integers(options.symbols, size=shape)
        splits[split] = Split({"tokens": _rows(tokens + 1)}, targets(tokens))
    frame = Frame(options.symbols + 1, options.length, head)
    names = [str(symbol) for symbol in range(options.symbols)]
    return kind(name, frame, "accuracy", splits, generated(), names)


def _rows(matrix: np.ndarray) -> Ragged:
    return Ragged(matrix.reshape(-1), np.arange(len(matrix) + 1) * matrix.shape[1])


def _check(options: PlantedOptions, last: int) -> None:
    if options.symbols < 2 or not 0 <= last < options.length:
        raise InputError(
            f"A planted task needs at least 2 symbols and a length above {last}; "
            f"this one has {options.symbols} symbols and length {options.length}."
        )
    if min(options.train, options.valid, options.test) < 1:
        raise InputError("A planted task needs at least one row in every split.")
