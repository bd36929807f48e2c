"""Texts as sparse rows of numbers: words, word pairs and pieces of words, weighted by TF-IDF.

A term that stands t times in a text counts (1 + ln t) x idf, where idf is
ln((1 + texts) / (1 + texts that have the term)) + 1; every row is then scaled to length 1.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise

import numpy as np

_WORD = re.compile(r"\w+")
_SHORTEST, _LONGEST = 2, 5  # letters of a piece
_REMEMBERED = 200_000  # words whose pieces are kept at hand

Terms = Callable[[str], list[str]]


# --- matrices ---------------------------------------------------------------------------


@dataclass(frozen=True)
class Sparse:
    """A matrix with few entries, in the order of rows and columns."""

    rows: np.ndarray
    columns: np.ndarray
    values: np.ndarray
    shape: tuple[int, int]

    @property
    def keys(self) -> np.ndarray:
        """The place of each entry as one number."""
        return self.rows * self.shape[1] + self.columns

    @property
    def offsets(self) -> np.ndarray:
        """(rows + 1,) where each row begins among the entries."""
        counts = np.bincount(self.rows, minlength=self.shape[0])
        return np.concatenate(([0], np.cumsum(counts)))

    @property
    def totals(self) -> np.ndarray:
        """The sum of each row."""
        return np.bincount(self.rows, self.values, minlength=self.shape[0])

    def chosen(self, rows: np.ndarray) -> "Sparse":
        """These rows, in this order."""
        starts, ends = self.offsets[rows], self.offsets[rows + 1]
        counts = ends - starts
        before = np.cumsum(counts) - counts
        entries = np.arange(counts.sum()) + np.repeat(starts - before, counts)
        renamed = np.repeat(np.arange(len(rows)), counts)
        shape = (len(rows), self.shape[1])
        return Sparse(renamed, self.columns[entries], self.values[entries], shape)

    def turned(self) -> "Sparse":
        """Rows as columns."""
        order = np.argsort(self.columns, kind="stable")
        shape = (self.shape[1], self.shape[0])
        return Sparse(self.columns[order], self.rows[order], self.values[order], shape)

    def scaled(self) -> "Sparse":
        """Every row with length 1; empty rows stay empty."""
        lengths = np.sqrt(np.bincount(self.rows, self.values**2, minlength=self.shape[0]))
        return Sparse(self.rows, self.columns, self.values / lengths[self.rows], self.shape)


def dense_column(values: np.ndarray) -> Sparse:
    """One column as a matrix."""
    rows = np.arange(len(values))
    return Sparse(rows, np.zeros_like(rows), values, (len(values), 1))


def beside(*parts: Sparse) -> Sparse:
    """Matrices side by side."""
    firsts = np.cumsum([0, *(part.shape[1] for part in parts)])
    rows = np.concatenate([part.rows for part in parts])
    moved = zip(parts, firsts[:-1], strict=True)
    columns = np.concatenate([part.columns + first for part, first in moved])
    values = np.concatenate([part.values for part in parts])
    order = np.argsort(rows, kind="stable")
    shape = (parts[0].shape[0], int(firsts[-1]))
    return Sparse(rows[order], columns[order], values[order], shape)


def overlap(one: Sparse, two: Sparse) -> Sparse:
    """Entries multiplied; only what both have remains."""
    _, here, there = np.intersect1d(one.keys, two.keys, assume_unique=True, return_indices=True)
    values = one.values[here] * two.values[there]
    return Sparse(one.rows[here], one.columns[here], values, one.shape)


def difference(one: Sparse, two: Sparse) -> Sparse:
    """How far entries are apart."""
    keys, places = np.unique(np.concatenate((one.keys, two.keys)), return_inverse=True)
    values = np.abs(np.bincount(places, np.concatenate((one.values, -two.values))))
    return Sparse(keys // one.shape[1], keys % one.shape[1], values, one.shape)


# --- terms ------------------------------------------------------------------------------


def words_and_pairs(text: str) -> list[str]:
    """Words in lower case, and each two that follow each other."""
    words = _WORD.findall(text.lower())
    return words + [f"{one} {two}" for one, two in pairwise(words)]


def pieces_of_words(text: str) -> list[str]:
    """All runs of 2 to 5 letters inside what stands between spaces, its edges marked by spaces."""
    return [piece for word in text.lower().split() for piece in _pieces(word)]


@lru_cache(maxsize=_REMEMBERED)
def _pieces(word: str) -> tuple[str, ...]:
    marked = f" {word} "
    found = []
    for size in range(_SHORTEST, _LONGEST + 1):
        found += [marked[at : at + size] for at in range(max(1, len(marked) - size + 1))]
        if size >= len(marked):
            break  # the whole word counts once
    return tuple(found)


# --- weights ----------------------------------------------------------------------------


@dataclass(frozen=True)
class TfIdf:
    """What a text has of the terms that training showed.

    Args:
        terms: Takes a text apart.
        places: Column of each term.
        weights: (columns,) how much a term counts; rare ones count more.
    """

    terms: Terms
    places: dict[str, int]
    weights: np.ndarray

    @classmethod
    def fit(cls, terms: Terms, texts: Sequence[str], most: int) -> "TfIdf":
        """Learn the ``most`` frequent terms of these texts, and in how many each stands."""
        places: dict[str, int] = {}
        found = [[places.setdefault(t, len(places)) for t in terms(text)] for text in texts]
        counts = _counts(found, len(places))
        names = list(places)
        often = np.bincount(counts.columns, counts.values, minlength=len(names))
        kept = sorted(range(len(names)), key=lambda place: (-often[place], names[place]))[:most]
        having = np.bincount(counts.columns, minlength=len(names))[kept]
        weights = np.log((1 + len(texts)) / (1 + having)) + 1
        return cls(terms, {names[place]: new for new, place in enumerate(kept)}, weights)

    def __call__(self, texts: Sequence[str]) -> Sparse:
        """One row for each text."""
        places = self.places
        found = [[places[t] for t in self.terms(text) if t in places] for text in texts]
        counts = _counts(found, len(places))
        values = (1 + np.log(counts.values)) * self.weights[counts.columns]
        return Sparse(counts.rows, counts.columns, values, counts.shape).scaled()


def _counts(found: Sequence[Sequence[int]], width: int) -> Sparse:
    """How often each row has each term."""
    rows = np.repeat(np.arange(len(found)), [len(row) for row in found])
    columns = np.array([place for row in found for place in row], np.int64)
    keys, counts = np.unique(rows * width + columns, return_counts=True)
    shape = (len(found), width)
    return Sparse(keys // max(1, width), keys % max(1, width), counts.astype(float), shape)
