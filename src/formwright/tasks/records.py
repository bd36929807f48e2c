"""Rows of text with labels, turned into numbers and kept: what ``classify`` and ``match`` share."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from formwright.errors import InputError
from formwright.tasks.cache import Stored, small_dtype
from formwright.tasks.splits import summary
from formwright.tasks.text import Tokenizer, make_tokenizer

_LONGEST = {"bytes": 1024, "chars": 1024}  # tokens read at most when the user does not say
_USUALLY_LONGEST = 512
_SHOWN = 300  # characters of an example


@dataclass(frozen=True)
class Record:
    """One row, with what to call it in messages."""

    texts: tuple[str, ...]
    label: str
    where: str


Records = dict[str, list[Record]]


def prepare(
    records: Records, options: Any, *, pair: bool = False, notes: Sequence[str] = ()
) -> Stored:
    """Tokens and labels of every split; ``pair`` keeps two texts apart."""
    rows = records["train"]
    regression = is_regression([r for part in records.values() for r in part], options)
    labels = (
        [] if regression else ordered_labels(r.label for part in records.values() for r in part)
    )
    specials = ("pad", "separate") if len(rows[0].texts) > 1 and not pair else ("pad",)
    texts = [text for record in rows for text in record.texts]
    tokenizer = make_tokenizer(options.tokenizer, texts, specials)
    encoded = {
        split: [numbers_of(tokenizer, record.texts) for record in part]
        for split, part in records.items()
    }
    every = [row for part in encoded.values() for row in part]
    if pair:
        sizes = [max(map(len, row)) for row in every]
    else:
        sizes = [len(tokenizer.join(*_two(row))[0]) for row in every]
    longest = longest_of(sizes, options)
    stored, truncated = Stored(), {}
    for split, part in records.items():
        add = _add_pairs if pair else _add_joined
        truncated[split] = add(stored, split, encoded[split], (tokenizer, longest))
        stored.arrays[f"{split}/targets"] = targets_of(part, labels)
        for place in range(len(rows[0].texts)):
            stored.add_texts(f"{split}/text-{place}", (record.texts[place] for record in part))
    examples = [_example(record) for record in rows[:3]]
    notes = [*notes, *(["labels are numbers: regression"] if regression else [])]
    stored.meta = summary(tokenizer, longest, truncated, examples, notes, labels=labels)
    return stored


def numbers_of(tokenizer: Tokenizer, texts: Iterable[str]) -> list[list[int]]:
    """Each text in symbols; an empty one is one that is unknown."""
    unknown = tokenizer.specials.get("unknown", 0)
    return [tokenizer.encode(text) or [unknown] for text in texts]


def _two(row: list[list[int]]) -> tuple[list[int], list[int] | None]:
    return row[0], row[1] if len(row) > 1 else None


def _add_pairs(
    stored: Stored, split: str, rows: list[list[list[int]]], how: tuple[Tokenizer, int]
) -> int:
    """Keep two texts side by side; gives how many rows had to be cut."""
    tokenizer, longest = how
    for place, name in enumerate(("tokens", "other")):
        cut = (row[place][:longest] for row in rows)
        stored.add(f"{split}/{name}", cut, small_dtype(tokenizer.vocab))
    return sum(max(map(len, row)) > longest for row in rows)


def _add_joined(
    stored: Stored, split: str, rows: list[list[list[int]]], how: tuple[Tokenizer, int]
) -> int:
    """Keep one text, or two in one; gives how many rows had to be cut."""
    tokenizer, longest = how
    found = [joined(tokenizer, row, longest) for row in rows]
    cut = sum(len(tokenizer.join(*_two(row))[0]) > longest for row in rows)
    stored.add(f"{split}/tokens", (whole for whole, _ in found), small_dtype(tokenizer.vocab))
    if len(rows[0]) > 1:
        stored.arrays[f"{split}/firsts"] = np.array([begins for _, begins in found], np.int64)
    return cut


def joined(tokenizer: Tokenizer, texts: list[list[int]], longest: int) -> tuple[list[int], int]:
    """One text, or two in one, as a model reads them, and where the second begins."""
    whole, begins = tokenizer.join(*_two(texts))
    if len(whole) > longest:
        whole, begins = tokenizer.join(*fit(*_two(texts), len(whole) - longest))
    return whole, begins


def fit(
    first: list[int], second: list[int] | None, over: int
) -> tuple[list[int], list[int] | None]:
    """Texts that are ``over`` tokens too long, cut at their ends, the longer one first."""
    if second is None:
        return first[: max(1, len(first) - over)], None
    room = max(2, len(first) + len(second) - over)
    half = room // 2
    if len(second) <= half:
        return first[: room - len(second)], second
    if len(first) <= room - half:
        return first, second[: room - len(first)]
    return first[: room - half], second[:half]


def longest_of(sizes: Iterable[int], options: Any) -> int:
    """Tokens of the longest input: what the user says, or the longest row up to a cap.

    ``sizes`` are those of all splits: what is measured on is never cut because training rows
    happen to be shorter. What is cut, by the cap or by the user's word, is said by ``notes.cut``.
    """
    if options.length is not None:
        if options.length < 4:
            raise InputError(f"length is {options.length}, but at least 4 tokens are needed.")
        return int(options.length)
    cap = _LONGEST.get(options.tokenizer, _USUALLY_LONGEST)
    return max(4, min(cap, max(sizes)))


def ordered_labels(labels: Iterable[str]) -> list[str]:
    """Every label once, numbers by their size, words by the alphabet."""
    names = set(labels)
    numbers = {name: _float(name) for name in names}
    if all(value is not None for value in numbers.values()):
        return sorted(names, key=lambda name: (numbers[name], name))
    return sorted(names)


def targets_of(rows: list[Record], labels: list[str]) -> np.ndarray:
    """Labels as numbers."""
    if labels:
        places = {label: place for place, label in enumerate(labels)}
        return np.array([places[record.label] for record in rows], np.int64)
    values = [(_float(record.label), record) for record in rows]
    for value, record in values:
        if value is None:
            raise InputError(f"{record.where} has the label {record.label!r}, which is no number.")
    return np.array([value for value, _ in values], np.float32)


def _example(record: Record) -> dict[str, str]:
    names = ("text",) if len(record.texts) == 1 else ("text", "text2")
    found = {name: text[:_SHOWN] for name, text in zip(names, record.texts, strict=False)}
    return found | {"label": record.label}


def is_regression(rows: Iterable[Record], options: Any) -> bool:
    """Whether labels are numbers with a fraction, or the user says so."""
    if options.regression is not None:
        return options.regression
    values = [_float(record.label) for record in rows]
    return all(v is not None for v in values) and any(v != int(v) for v in values if v is not None)


def _float(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if np.isfinite(value) else None
