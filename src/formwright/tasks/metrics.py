"""Metrics in a few lines each, on numpy arrays and plain lists.

All are finite: where a formula has no value (a correlation with a constant), the answer is 0,
because a search must be able to rank it.
"""

import math
import re
import string
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import numpy as np

from formwright.errors import InputError

_CHUNK = re.compile(r"O|[BIESLU](-.+)?")
_PLAIN = {"L": "E", "U": "S"}  # how BILOU writes the end of an entity, and one of a single word
Entity = tuple[str, int, int]
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


# --- entities ---------------------------------------------------------------------------


def marks_entities(tags: Iterable[str]) -> bool:
    """Whether tags look like those of entities: BIO, IOB2, IOBES or BILOU."""
    known = set(tags)
    return any(tag[0] in "BI" for tag in known if tag) and all(map(_CHUNK.fullmatch, known))


def entities(tags: Sequence[str]) -> Iterator[Entity]:
    """The entities of a sentence: type, first and last word, as conlleval and seqeval read them.

    A word goes on with an entity if it is marked I or E, the word before is marked B or I, and
    both have the same type. Any other mark but O begins one, so that tags in no proper order,
    which models write, count as well.
    """
    type_, first, mark = "", 0, "O"
    for place, tag in enumerate((*tags, "O")):
        new, its = _PLAIN.get(tag[0], tag[0]), tag[1:].removeprefix("-")
        if mark in "BI" and new in "IE" and its == type_:
            mark = new
            continue
        if mark != "O":
            yield type_, first, place - 1
        type_, first, mark = its, place, new


def entity_f1(found: Sequence[Sequence[str]], wanted: Sequence[Sequence[str]]) -> float:
    """F1 of the entities that agree in type, first and last word, over all sentences."""
    same = ours = theirs = 0
    for one, other in zip(found, wanted, strict=True):
        a, b = set(entities(one)), set(entities(other))
        same, ours, theirs = same + len(a & b), ours + len(a), theirs + len(b)
    return 2 * same / (ours + theirs) if same else 0.0


# --- others' and the user's own ---------------------------------------------------------


def has_sacrebleu() -> bool:
    """Whether the sacrebleu library is installed."""
    return find_spec("sacrebleu") is not None


def sacrebleu(found: Sequence[str], wanted: Sequence[str], *, lowercase: bool) -> float:
    """BLEU as published tables have it, by the library of that name, 0 to 100.

    Paper: Post 2018, https://aclanthology.org/W18-6319
    """
    library: Any = import_module("sacrebleu")
    return float(library.corpus_bleu(list(found), [list(wanted)], lowercase=lowercase).score)


def judged(
    own: Callable[[list[Any], list[Any]], float], name: str, found: list[Any], wanted: list[Any]
) -> float:
    """What a metric of the user's says, if it is a number."""
    value = own(found, wanted)
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = math.nan
    if not math.isfinite(number):
        raise InputError(f"The metric {name} gave {value!r}; a search needs a finite number.")
    return number
