"""ListOps: work out nested lists of MIN, MAX, MED and SM, as in the Long Range Arena.

Papers: Nangia and Bowman 2018, https://arxiv.org/abs/1804.06028; Tay et al. 2020,
https://arxiv.org/abs/2011.04006
A node is an operator with probability 1/4 (below the deepest level never) and a digit otherwise;
an operator has 2 to ``args`` arguments. MED truncates, SM is the sum modulo 10. Lists whose number
of tokens lies strictly between the two limits are kept, each once.
Differs from the paper: trees grow level by level, many at once, instead of one by one; the
distribution is the same. Validation and test come from seeds of their own.
"""

from dataclasses import dataclass
from functools import partial

import numpy as np

from formwright.arch.frame import Classify, Frame
from formwright.errors import InputError
from formwright.tasks.base import Task
from formwright.tasks.batching import draw
from formwright.tasks.cache import Stored, cached, small_dtype
from formwright.tasks.examples import Classification, pool_of
from formwright.tasks.guide import Guide, option
from formwright.tasks.registry import Options, task
from formwright.tasks.splits import Later, Split, generated, stored_split
from formwright.tasks.text import Symbols

# 0 is padding, 1 to 10 the digits, then the openers and the closing bracket, 16 is unused (the
# arena's symbol for unknown words).
SYMBOLS = [str(digit) for digit in range(10)] + ["[MIN", "[MAX", "[MED", "[SM", "]"]
VOCAB = len(SYMBOLS) + 2
_CLOSER = 15
_OPERATOR_CHANCE = 0.25
_SEEDS = {"train": 1, "valid": 2, "test": 3}
_VERSION = 1  # of the generator: part of the cache's key
_AT_ONCE = 4096  # trees that grow side by side


@dataclass(frozen=True, kw_only=True)
class ListOpsOptions(Options):
    """Sizes of the lists and of the splits."""

    max_depth: int = option(10, "How deep lists are nested at most.")
    max_args: int = option(10, "Arguments of an operator at most.")
    min_length: int = option(500, "Lists have more tokens than this.")
    max_length: int = option(2000, "Lists have fewer tokens than this.")
    operator_root: bool = option(False, "Whether every list begins with an operator.")
    train: int = option(96_000, "Training rows.")
    valid: int = option(2_000, "Validation rows.")
    test: int = option(2_000, "Test rows.")
    pool: str = option("mean", "How a list becomes one vector: mean, cls, first or last.")


@dataclass(frozen=True, kw_only=True)
class TinyOptions(ListOpsOptions):
    """Short lists that a small model learns in a minute or two."""

    max_depth: int = 4
    max_args: int = 4
    min_length: int = 5
    max_length: int = 30
    operator_root: bool = True
    train: int = 8_000
    valid: int = 1_000
    test: int = 1_000


_GUIDE = Guide({"accuracy": "Share of right answers."})


@task(
    "listops",
    "nested lists to work out, 500 to 2,000 tokens (Long Range Arena)",
    ListOpsOptions,
    guide=_GUIDE,
)
@task("listops-tiny", "the same with 6 to 29 tokens, for quick runs", TinyOptions, guide=_GUIDE)
def listops(name: str, options: ListOpsOptions) -> Task:
    """ListOps with the given sizes."""
    _check(options)
    frame = Frame(VOCAB, options.max_length, Classify(10, pool=pool_of(options.pool)))
    splits = {s: Later(getattr(options, s), partial(made_split, options, s)) for s in _SEEDS}
    digits = [str(digit) for digit in range(10)]
    made = ListOps(name, frame, "accuracy", splits, generated(), digits)
    made.tokenizer = Symbols(VOCAB, SYMBOLS)
    return made


class ListOps(Classification):
    """Lists with their values."""

    def _examples(self) -> list[dict[str, str]]:
        data = self.split("valid")
        column = data.columns["tokens"]
        return [
            {"text": show(column[row]), "label": str(int(np.asarray(data.targets)[row]))}
            for row in range(min(3, len(data)))
        ]


def evaluate(text: str) -> int:
    """The value of a list such as ``[MAX 2 9 [MIN 4 7 ] 0 ]``.

    The round brackets of the original files are passed over, and the arena's X closes as ] does.
    """
    stack: list[tuple[str, list[int]]] = [("", [])]
    for symbol in text.replace("(", " ").replace(")", " ").split():
        if symbol in ("]", "X") and len(stack) > 1:
            operator, values = stack.pop()
            if not values:
                raise InputError(f"{operator} ] is an operator without arguments.")
            stack[-1][1].append(_apply(operator, values))
        elif symbol in SYMBOLS[10:14]:
            stack.append((symbol, []))
        elif symbol in SYMBOLS[:10]:
            stack[-1][1].append(int(symbol))
        else:
            raise InputError(f"{symbol!r} cannot stand there; known are {' '.join(SYMBOLS)}.")
    if len(stack) != 1 or len(stack[0][1]) != 1:
        raise InputError("A list has one operator around all others, and closes every bracket.")
    return stack[0][1][0]


def show(numbers: np.ndarray) -> str:
    """Tokens as text."""
    return " ".join(SYMBOLS[number - 1] for number in numbers)


def _apply(operator: str, values: list[int]) -> int:
    if operator == "[MIN":
        return min(values)
    if operator == "[MAX":
        return max(values)
    if operator == "[SM":
        return sum(values) % 10
    ordered, half = sorted(values), len(values) // 2
    return ordered[half] if len(values) % 2 else (ordered[half - 1] + ordered[half]) // 2


# --- the generator ----------------------------------------------------------------------


@dataclass(frozen=True)
class _Level:
    """All nodes of one depth, of many trees; children stand in the next level in order."""

    tree: np.ndarray  # which tree a node belongs to
    symbol: np.ndarray  # 0-9 a digit, 10-13 an operator
    children: np.ndarray  # how many; 0 for digits


def grow(
    random: np.random.Generator, trees: int, options: ListOpsOptions
) -> tuple[list[np.ndarray], np.ndarray]:
    """Grow trees; give the tokens and the value of each whose length is allowed."""
    levels: list[_Level] = []
    sizes = np.zeros(trees, np.int64)
    tree = np.arange(trees)
    for depth in range(1, options.max_depth + 1):
        inner = random.random(len(tree)) <= _OPERATOR_CHANCE
        if depth == 1 and options.operator_root:
            inner[:] = True
        if depth == options.max_depth:
            inner[:] = False
        symbol = np.where(
            inner, 10 + random.integers(4, size=len(tree)), random.integers(10, size=len(tree))
        )
        count = np.where(inner, random.integers(2, options.max_args + 1, size=len(tree)), 0)
        levels.append(_Level(tree, symbol, count))
        sizes += np.bincount(tree, np.where(inner, 2, 1), trees).astype(np.int64)
        # children of a tree that is already too long need not be grown
        count = np.where(sizes[tree] < options.max_length, count, 0)
        levels[-1] = _Level(tree, symbol, count)
        tree = np.repeat(tree, count)
        if not len(tree):
            break
    kept = (options.min_length < sizes) & (sizes < options.max_length)
    return _written(_only(levels, kept), sizes[kept])


def _only(levels: list[_Level], kept: np.ndarray) -> list[_Level]:
    number = np.cumsum(kept) - 1
    found = []
    for level in levels:
        here = kept[level.tree]
        found.append(_Level(number[level.tree[here]], level.symbol[here], level.children[here]))
    return [level for level in found if len(level.tree)]


def _written(levels: list[_Level], sizes: np.ndarray) -> tuple[list[np.ndarray], np.ndarray]:
    """Tokens in reading order and values, worked out from the deepest level up."""
    if not levels:
        return [], np.empty(0, np.int64)
    values, spans = [], []  # of each node: its value, and the tokens it takes
    value, span = np.empty(0, np.int64), np.empty(0, np.int64)
    for level in reversed(levels):
        inner = level.children > 0
        below_value, below_span = value, span
        value, span = level.symbol.copy(), np.ones(len(level.tree), np.int64)
        if inner.any():
            starts = np.concatenate(([0], np.cumsum(level.children[inner])[:-1]))
            value[inner] = _values(level.symbol[inner], below_value, starts, level.children[inner])
            span[inner] = 2 + np.add.reduceat(below_span, starts)
        values.append(value)
        spans.append(span)
    spans.reverse()
    ends = np.cumsum(sizes)
    tokens = np.zeros(int(ends[-1]), np.uint8)
    place = ends - sizes  # where each node of the level begins
    for depth, level in enumerate(levels):
        tokens[place] = level.symbol + 1
        inner = level.children > 0
        if not inner.any():
            break
        tokens[place[inner] + spans[depth][inner] - 1] = _CLOSER
        # a child begins where its elder sibling ends, the first one behind the operator
        counts, below = level.children[inner], spans[depth + 1]
        before = np.cumsum(below) - below
        first = np.concatenate(([0], np.cumsum(counts)[:-1]))
        place = np.repeat(place[inner] + 1 - before[first], counts) + before
    return np.split(tokens, ends[:-1]), values[-1]


def _values(
    symbols: np.ndarray, below: np.ndarray, starts: np.ndarray, counts: np.ndarray
) -> np.ndarray:
    owner = np.repeat(np.arange(len(counts)), counts)
    ordered = below[np.lexsort((below, owner))]
    low, high = ordered[starts + (counts - 1) // 2], ordered[starts + counts // 2]
    options = (
        np.minimum.reduceat(below, starts),
        np.maximum.reduceat(below, starts),
        (low + high) // 2,
        np.add.reduceat(below, starts) % 10,
    )
    return np.choose(symbols - 10, options)


# --- splits -----------------------------------------------------------------------------


def made_split(options: ListOpsOptions, split: str) -> Split:
    """A split, generated or found in the cache."""
    fields = (field for field in ListOpsOptions.__dataclass_fields__ if field != "pool")
    settings = {field: getattr(options, field) for field in fields}
    settings |= {"split": split, "version": _VERSION}
    return stored_split(cached("listops", settings, lambda: _stored(options, split)), split)


def _stored(options: ListOpsOptions, split: str) -> Stored:
    seen: set[bytes] = set()
    if split != "valid":  # training never shows what is measured
        for other in ("valid",) if split == "test" else ("valid", "test"):
            column = made_split(options, other).columns["tokens"]
            seen |= {bytes(column[row]) for row in range(len(column))}
    rows, labels = generate(options, split, seen)
    stored = Stored()
    stored.add(f"{split}/tokens", rows, small_dtype(VOCAB))
    stored.arrays[f"{split}/targets"] = np.array(labels, np.int64)
    return stored


def generate(
    options: ListOpsOptions, split: str, seen: set[bytes]
) -> tuple[list[np.ndarray], list[int]]:
    """As many different lists as the split has, none of them in ``seen``."""
    rows: list[np.ndarray] = []
    labels: list[int] = []
    wanted, idle, turn = getattr(options, split), 0, 0
    while len(rows) < wanted:
        before = len(rows)
        found, values = grow(draw(_SEEDS[split], turn), _AT_ONCE, options)
        for row, value in zip(found, values.tolist(), strict=True):
            key = row.tobytes()
            if key not in seen and len(rows) < wanted:
                seen.add(key)
                rows.append(row.copy())
                labels.append(value)
        turn += 1
        idle = 0 if len(rows) > before else idle + 1
        if idle > 50:
            raise InputError(
                f"Only {len(rows)} of {wanted} different lists were found for {split}: there are "
                "hardly more of that size. Allow longer or deeper lists, or ask for fewer."
            )
    return rows, labels


def _check(options: ListOpsOptions) -> None:
    if options.max_args < 2 or options.max_depth < 1:
        raise InputError("listops needs max_args of at least 2 and max_depth of at least 1.")
    if options.max_length - options.min_length < 2:
        raise InputError(
            f"No length lies between {options.min_length} and {options.max_length}; "
            "make max_length larger."
        )
    for split in _SEEDS:
        if getattr(options, split) < 1:
            raise InputError(f"listops needs at least one row for {split}.")
