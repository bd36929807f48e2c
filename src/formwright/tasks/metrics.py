"""Metrics in a few lines each, on numpy arrays and plain lists.

All are finite: where a formula has no value (a correlation with a constant), the answer is 0,
because a search must be able to rank it.
"""

import math
import re
import string
from collections import Counter
from collections.abc import Sequence

import numpy as np

_ARTICLES = re.compile(r"\b(a|an|the)\b")
_PUNCTUATION = str.maketrans("", "", string.punctuation)


def accuracy(found: np.ndarray, wanted: np.ndarray) -> float:
    """Share of right answers."""
    return float(np.mean(found == wanted)) if len(wanted) else 0.0


def confusion(found: np.ndarray, wanted: np.ndarray, classes: int) -> np.ndarray:
    """How often class ``row`` was answered by class ``column``."""
    pairs = wanted.astype(np.int64) * classes + found.astype(np.int64)
    return np.bincount(pairs, minlength=classes * classes).reshape(classes, classes)


def f1_per_class(found: np.ndarray, wanted: np.ndarray, classes: int) -> np.ndarray:
    """F1 of every class; 0 for a class that neither side ever names."""
    table = confusion(found, wanted, classes)
    right, total = np.diag(table), table.sum(axis=0) + table.sum(axis=1)
    return np.where(total > 0, 2 * right / np.maximum(total, 1), 0.0)


def macro_f1(found: np.ndarray, wanted: np.ndarray, classes: int) -> float:
    """The mean F1 of the classes that either side names."""
    named = confusion(found, wanted, classes)
    seen = (named.sum(axis=0) + named.sum(axis=1)) > 0
    scores = f1_per_class(found, wanted, classes)[seen]
    return float(scores.mean()) if len(scores) else 0.0


def binary_f1(found: np.ndarray, wanted: np.ndarray) -> float:
    """F1 of class 1 of two."""
    return float(f1_per_class(found, wanted, 2)[1])


def matthews(found: np.ndarray, wanted: np.ndarray, classes: int) -> float:
    """Matthews' correlation, for any number of classes (Gorodkin 2004)."""
    table = confusion(found, wanted, classes).astype(np.float64)
    total, right = table.sum(), np.trace(table)
    said, true = table.sum(axis=0), table.sum(axis=1)
    below = (total**2 - said @ said) * (total**2 - true @ true)
    return float((right * total - said @ true) / math.sqrt(below)) if below > 0 else 0.0


def perplexity(nats: float) -> float:
    """From the mean loss of a symbol; the largest float rather than infinity."""
    return math.exp(min(nats, 700.0))


def bits(nats: float) -> float:
    """From natural units to bits."""
    return nats / math.log(2)


def bleu(found: Sequence[Sequence[str]], wanted: Sequence[Sequence[str]], order: int = 4) -> float:
    """Corpus BLEU, 0 to 100, one reference each, without smoothing.

    Paper: Papineni et al. 2002, https://aclanthology.org/P02-1040
    """
    right, total = np.zeros(order), np.zeros(order)
    for ours, theirs in zip(found, wanted, strict=True):
        for n in range(1, order + 1):
            have, need = _grams(ours, n), _grams(theirs, n)
            right[n - 1] += sum((have & need).values())
            total[n - 1] += sum(have.values())
    if not right.all():
        return 0.0
    ours_length = sum(len(words) for words in found)
    theirs_length = sum(len(words) for words in wanted)
    brevity = min(0.0, 1 - theirs_length / ours_length)
    return 100 * math.exp(brevity + float(np.log(right / total).mean()))


def _grams(words: Sequence[str], n: int) -> Counter[tuple[str, ...]]:
    return Counter(tuple(words[i : i + n]) for i in range(len(words) - n + 1))


def normal_answer(text: str) -> str:
    """An answer without case, punctuation, articles and extra spaces, as SQuAD compares them."""
    return " ".join(_ARTICLES.sub(" ", text.lower().translate(_PUNCTUATION)).split())


def span_exact(found: str, wanted: Sequence[str]) -> float:
    """1 if the answer equals one of those wanted."""
    return float(any(normal_answer(found) == normal_answer(one) for one in wanted))


def span_f1(found: str, wanted: Sequence[str]) -> float:
    """Overlap in words with the nearest of the answers wanted."""
    return max((_overlap(normal_answer(found), normal_answer(one)) for one in wanted), default=0.0)


def _overlap(found: str, wanted: str) -> float:
    ours, theirs = found.split(), wanted.split()
    if not ours or not theirs:
        return float(ours == theirs)
    same = sum((Counter(ours) & Counter(theirs)).values())
    return 2 * same / (len(ours) + len(theirs))
