"""Rivals that need no network: whoever is served by one of them should hear it from us.

Texts with classes: TF-IDF with logistic regression. Tags: the most frequent tag of each word.
Running text: the best of three compressors. All learn from the training split alone.
"""

import bz2
import lzma
import math
import warnings
import zlib
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from time import perf_counter

import numpy as np
import torch
from torch import Tensor

from formwright.estimate.tfidf import (
    Sparse,
    Terms,
    TfIdf,
    beside,
    dense_column,
    difference,
    overlap,
    pieces_of_words,
    words_and_pairs,
)
from formwright.tasks.base import Task
from formwright.tasks.batching import draw
from formwright.tasks.cache import Ragged
from formwright.tasks.examples import Classification
from formwright.tasks.lm import LanguageTask
from formwright.tasks.tag import Tagging
from formwright.tasks.text import Bytes

_TERMS = 100_000  # columns at most, words and pieces together
_WEIGHTS = 8_000_000  # columns x classes at most
_LETTERS = 32_000_000  # of training texts at most; of more, rows by chance
_PIECED = 4_000_000  # letters up to which pieces of words are looked at too
_WORK = 80_000_000  # letters x classes up to which they are
_PENALTIES = (1.0, 0.25, 0.0625, 0.015625)  # on half the squared weights, beside a sum of losses
_ROUNDS = 12  # of L-BFGS for each penalty, from where the one before ended
_LAST_ROUNDS = 16
_HELD_OUT = 10  # every so many-th training row chooses the penalty
_SEED = 31
_SUFFIX = 4  # letters
_RARE = 10  # words seen at most so often tell what unknown words are like
_TIMED = 50  # rows whose time is taken
_MEASURED = 300_000  # bytes of validation text that are compressed
_CONTEXT = 4_000_000  # bytes of training text before them, for xz
_BLOCK = 900_000  # bytes that bzip2 sorts at once
_WINDOW = 32_768  # bytes that gzip looks back

Texts = Sequence[str] | Sequence[tuple[str, str]]


@dataclass(frozen=True)
class PlainResult:
    """How well something without a network does.

    Args:
        name: What it is.
        values: The task's metrics on validation, ``fit_seconds``, and ``example_ms`` for one row
            (of running text: for as many symbols as a model reads at once).
    """

    name: str
    values: Mapping[str, float]


def plain_rival(task: Task) -> PlainResult | None:
    """What does the task without a network, fitted and measured; None where nothing is known."""
    if isinstance(task, Classification) and task.labels:
        return _classified(task)
    if isinstance(task, Tagging):
        return _tagged(task)
    if isinstance(task, LanguageTask):
        return _compressed(task)
    return None


# --- classes ----------------------------------------------------------------------------


@dataclass(frozen=True)
class Linear:
    """TF-IDF with logistic regression.

    Args:
        parts: Words and pairs; and pieces of words, unless there is much text.
        weights: (columns, classes); the last column is always 1.
    """

    parts: tuple[TfIdf, ...]
    weights: Tensor

    def scores(self, texts: Texts) -> Tensor:
        """(texts, classes), before the softmax."""
        return _matrix(_features(self.parts, texts)) @ self.weights


def fit_linear(texts: Texts, targets: np.ndarray, classes: int) -> Linear:
    """Learn from texts, or pairs of texts, and the class of each.

    Long texts are read by words and pairs alone, which serve them as well in much less time.
    """
    order = draw(_SEED).permutation(len(texts))
    rows = order[: _enough(texts, order)]
    chosen, wanted = [texts[row] for row in rows], torch.from_numpy(targets[rows])
    each = [side for text in chosen for side in _sides(text)]
    wide = 4 if isinstance(chosen[0], tuple) else 1  # blocks that use the same terms
    kinds = _terms(each, classes)
    most = max(1, min(_TERMS, _WEIGHTS // classes) // (len(kinds) * wide))
    parts = tuple(TfIdf.fit(terms, each, most) for terms in kinds)
    x = _features(parts, chosen)
    held, known = np.arange(len(rows))[::_HELD_OUT], np.arange(len(rows)) % _HELD_OUT != 0
    if not known.any():
        return Linear(parts, _fit(x, wanted, _zeros(x, classes), _PENALTIES[0], _LAST_ROUNDS))
    start, penalty = _choose(
        (x.chosen(np.flatnonzero(known)), wanted[known]), (x.chosen(held), wanted[held]), classes
    )
    return Linear(parts, _fit(x, wanted, start, penalty, _LAST_ROUNDS))


def _classified(task: Classification) -> PlainResult | None:
    train, valid = task.texts("train"), task.texts("valid")
    if train is None or valid is None:
        return None
    begin = perf_counter()
    model = fit_linear(train, np.array(task.split("train").targets), len(task.labels))
    seconds = perf_counter() - begin
    scores = model.scores(valid)
    wanted = torch.from_numpy(np.array(task.split("valid").targets))
    loss = float(torch.nn.functional.cross_entropy(scores, wanted))
    values = {"loss": loss, **task.judge(scores.argmax(dim=1).numpy())}
    each = _milliseconds(lambda row: model.scores(valid[row : row + 1]), len(valid))
    times = {"fit_seconds": seconds, "example_ms": each}
    return PlainResult("TF-IDF with logistic regression", values | times)


def _choose(
    known: tuple[Sparse, Tensor], held: tuple[Sparse, Tensor], classes: int
) -> tuple[Tensor, float]:
    """The penalty that does best on rows held out, and the weights that it gave."""
    weights, others = _zeros(known[0], classes), _matrix(held[0])
    best = (-1.0, weights, _PENALTIES[0])
    for penalty in _PENALTIES:
        weights = _fit(*known, weights, penalty, _ROUNDS)
        right = float(((others @ weights).argmax(dim=1) == held[1]).float().mean())
        if right > best[0]:
            best = (right, weights, penalty)
    return best[1], best[2]


def _fit(x: Sparse, wanted: Tensor, start: Tensor, penalty: float, rounds: int) -> Tensor:
    """Weights of the smallest mean loss with its penalty, by L-BFGS; gradients are written out."""
    forth, back = _matrix(x), _matrix(x.turned())
    weights, rows = start.clone(), torch.arange(len(wanted))
    decay = penalty / len(wanted)
    optimiser = torch.optim.LBFGS(
        [weights], max_iter=rounds, history_size=5, line_search_fn="strong_wolfe"
    )

    def loss() -> float:
        logs = (forth @ weights).log_softmax(dim=1)
        found = -logs[rows, wanted].mean() + decay / 2 * weights.square().sum()
        error = logs.exp_()
        error[rows, wanted] -= 1
        weights.grad = (back @ error.div_(len(wanted))).add_(weights, alpha=decay)
        return float(found)

    optimiser.step(loss)
    return weights


def _zeros(x: Sparse, classes: int) -> Tensor:
    return torch.zeros(x.shape[1], classes)


def _matrix(x: Sparse) -> Tensor:
    with warnings.catch_warnings():  # torch calls the layout new
        warnings.filterwarnings("ignore", message=".*[Ss]parse.*")
        return torch.sparse_csr_tensor(
            torch.from_numpy(x.offsets),
            torch.from_numpy(x.columns),
            torch.from_numpy(x.values.astype(np.float32)),
            x.shape,
        )


def _features(parts: tuple[TfIdf, ...], texts: Texts) -> Sparse:
    """One row for each text or pair; of pairs both sides, what they share and what they do not."""
    ones = dense_column(np.ones(len(texts)))
    first = [part([_sides(text)[0] for text in texts]) for part in parts]
    if not isinstance(texts[0], tuple):
        return beside(*first, ones)
    second = [part([_sides(text)[1] for text in texts]) for part in parts]
    shared = [overlap(*two) for two in zip(first, second, strict=True)]
    apart = [difference(*two) for two in zip(first, second, strict=True)]
    alike = [dense_column(part.totals) for part in shared]
    return beside(*first, *second, *shared, *apart, *alike, ones)


def _terms(texts: Sequence[str], classes: int) -> tuple[Terms, ...]:
    letters = sum(map(len, texts))
    few = letters <= _PIECED and letters * classes <= _WORK
    return (words_and_pairs, pieces_of_words) if few else (words_and_pairs,)


def _sides(text: str | tuple[str, str]) -> tuple[str, ...]:
    return text if isinstance(text, tuple) else (text,)


def _enough(texts: Texts, order: np.ndarray) -> int:
    """How many rows may be read, in this order."""
    letters = np.cumsum([sum(map(len, _sides(texts[row]))) for row in order])
    return max(1, int((letters <= _LETTERS).sum()))


# --- tags -------------------------------------------------------------------------------


@dataclass(frozen=True)
class Tagger:
    """The most frequent tag of each word; of unknown words that of the longest ending known."""

    words: Mapping[str, int]
    endings: Mapping[str, int]
    usual: int

    def tag(self, words: Sequence[str]) -> np.ndarray:
        """The tag of each word."""
        return np.array([self._one(word) for word in words], np.int64)

    def _one(self, word: str) -> int:
        if word in self.words:
            return self.words[word]
        known = (self.endings[end] for end in _endings(word) if end in self.endings)
        return next(known, self.usual)


def fit_tagger(sentences: Sequence[Sequence[str]], tags: Sequence[np.ndarray]) -> Tagger:
    """Count the tags of words; of rare words also those of their endings."""
    words: dict[str, Counter[int]] = defaultdict(Counter)
    for sentence, found in zip(sentences, tags, strict=True):
        for word, tag in zip(sentence, found.tolist(), strict=True):
            words[word][tag] += 1
    endings: dict[str, Counter[int]] = defaultdict(Counter)
    usual: Counter[int] = Counter()
    for word, counts in words.items():
        usual.update(counts)
        if counts.total() <= _RARE:
            for end in _endings(word):
                endings[end].update(counts)
    return Tagger(_commonest(words), _commonest(endings), _most(usual))


def _tagged(task: Tagging) -> PlainResult | None:
    train, valid = task.texts("train"), task.texts("valid")
    if train is None or valid is None:
        return None
    begin = perf_counter()
    tags = _tags(task, "train")
    model = fit_tagger(_cut(train, tags), tags)
    seconds = perf_counter() - begin
    rows = _cut(valid, _tags(task, "valid"))
    values = task.judge([model.tag(words) for words in rows])
    each = _milliseconds(lambda row: model.tag(rows[row]), len(rows))
    times = {"fit_seconds": seconds, "example_ms": each}
    return PlainResult("most frequent tag", values | times)


def _tags(task: Tagging, split: str) -> list[np.ndarray]:
    """The tags of each row that are scored; they are kept with one added, 0 for none."""
    targets = task.split(split).targets
    assert isinstance(targets, Ragged)
    rows = (targets[row].astype(np.int64) for row in range(len(targets)))
    return [row[row > 0] - 1 for row in rows]


def _cut(sentences: list[list[str]], tags: list[np.ndarray]) -> list[list[str]]:
    """The words that are scored: a task reads the beginning of a long sentence."""
    return [words[: len(found)] for words, found in zip(sentences, tags, strict=True)]


def _endings(word: str) -> list[str]:
    """The last letters, most of them first."""
    return [word[-size:] for size in range(min(_SUFFIX, len(word)), 0, -1)]


def _commonest(counts: Mapping[str, Counter[int]]) -> dict[str, int]:
    return {name: _most(found) for name, found in counts.items()}


def _most(counts: Counter[int]) -> int:
    """The most frequent; the smallest number of equals."""
    return min(counts, key=lambda tag: (-counts[tag], tag))


# --- running text -----------------------------------------------------------------------


@dataclass(frozen=True)
class Compressor:
    """A compressor, and how much text before the one that counts is of use to it."""

    name: str
    context: int
    pack: Callable[[bytes], bytes]


def _xz(text: bytes) -> bytes:
    filters = [{"id": lzma.FILTER_LZMA2, "preset": 6, "dict_size": 2**23}]
    return lzma.compress(text, lzma.FORMAT_RAW, filters=filters)


COMPRESSORS = (
    Compressor("xz", _CONTEXT, _xz),
    Compressor("bzip2", _BLOCK - _MEASURED, bz2.compress),
    Compressor("gzip", _WINDOW, lambda text: zlib.compress(text, 9)),
)


def _compressed(task: LanguageTask) -> PlainResult | None:
    """The compressor that adds the fewest bytes for validation text behind training text."""
    stream = task.stream("valid")
    symbols = min(len(stream), math.ceil(_MEASURED * _symbols_per_byte(task, "valid")))
    text = _bytes(task, stream[:symbols])
    train = task.stream("train")
    last = math.ceil(_CONTEXT * _symbols_per_byte(task, "train"))
    before = _bytes(task, train[max(0, len(train) - last) :])
    tried = [(*_added(packer, before, text), packer.name) for packer in COMPRESSORS]
    size, fit, speed, name = min(tried)
    values = task.values(8 * size * math.log(2) / symbols, "valid")
    each = 1000 * task.length * len(text) / symbols / speed
    return PlainResult(name, values | {"fit_seconds": fit, "example_ms": each})


def _added(packer: Compressor, before: bytes, text: bytes) -> tuple[int, float, float]:
    """Bytes that the text adds to what stands before it; seconds for that; bytes a second."""
    context = before[-packer.context :]
    begin = perf_counter()
    alone = len(packer.pack(context))
    middle = perf_counter()
    both = len(packer.pack(context + text))
    speed = len(context + text) / (perf_counter() - middle)
    return max(1, both - alone), middle - begin, speed


def _bytes(task: LanguageTask, symbols: np.ndarray) -> bytes:
    """The text that symbols stand for; to tell it is to tell them."""
    if isinstance(task.tokenizer, Bytes):
        return (symbols - task.tokenizer.first).astype(np.uint8).tobytes()
    return task.tokenizer.decode(symbols.tolist()).encode()


def _symbols_per_byte(task: LanguageTask, split: str) -> float:
    return len(task.stream(split)) / max(1, task.meta["bytes"][split])


# --- time -------------------------------------------------------------------------------


def _milliseconds(answer: Callable[[int], object], rows: int) -> float:
    """The median time of an answer to a single row."""
    times = []
    for row in range(min(_TIMED, rows)):
        begin = perf_counter()
        answer(row)
        times.append(perf_counter() - begin)
    return 1000 * float(np.median(times))
