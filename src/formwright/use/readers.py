"""A text as a model reads it, and the numbers that come out as an answer, kind by kind.

Whatever is done to a text here is what its task does to its own rows, by the same functions.

b batch, n token, c class
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from formwright.errors import InputError
from formwright.model import Model
from formwright.model.heads import pooled
from formwright.tasks.reading import Kind, Reading
from formwright.tasks.records import joined, numbers_of
from formwright.tasks.span import best_spans
from formwright.tasks.tag import pieces_of
from formwright.tasks.text import WORD
from formwright.tasks.translate import greedy, until
from formwright.use.answers import Answer, Label, Number, Passage, Tags, Vector, Written

_LIKELIEST = 5  # classes that are told with their probability
Row = Any  # a text, two texts, or a list of words


@dataclass(frozen=True)
class Example:
    """One row as a model reads it.

    Args:
        columns: Symbols of each input.
        begins: Where the second of two texts in one begins.
        about: What the reader has to remember to put the answer into words.
    """

    columns: Mapping[str, list[int]]
    begins: int | None = None
    about: Any = None

    @property
    def length(self) -> int:
        """Of the longest input."""
        return max(map(len, self.columns.values()))


class Reader(ABC):
    """Rows in, answers out, for one kind of model.

    Args:
        reading: How texts become symbols.
    """

    asks = "a text"  # what a row is

    def __init__(self, reading: Reading) -> None:
        self.reading, self.tokenizer = reading, reading.tokenizer

    @abstractmethod
    def example(self, row: Row) -> Example:
        """A row in symbols."""

    @abstractmethod
    def answers(
        self, model: Model, inputs: dict[str, Tensor], rows: Sequence[Example]
    ) -> list[Answer]:
        """What a model says to rows, padded and on its device."""

    def text(self, row: Row) -> str:
        """A row that is one text."""
        if not isinstance(row, str):
            raise self.wrong(row)
        return row

    def two(self, row: Row) -> tuple[str, str]:
        """A row that is two texts."""
        if (
            isinstance(row, str)
            or not isinstance(row, Sequence)
            or len(row) != 2
            or not all(isinstance(part, str) for part in row)
        ):
            raise self.wrong(row)
        return row[0], row[1]

    def wrong(self, row: Row) -> InputError:
        """What to raise."""
        return InputError(f"This model takes {self.asks}; {str(row)[:80]!r} is not.")


class ClassReader(Reader):
    """A class or a number for a text, or for two that are read in one."""

    def __init__(self, reading: Reading) -> None:
        super().__init__(reading)
        self.asks = "two texts" if reading.pair else "a text"

    def example(self, row: Row) -> Example:
        pair = self.reading.pair
        texts = self.two(row) if pair else (self.text(row),)
        numbers = numbers_of(self.tokenizer, texts)
        whole, begins = joined(self.tokenizer, numbers, self.reading.length)
        return Example({"tokens": whole}, begins if pair else None)

    def answers(
        self, model: Model, inputs: dict[str, Tensor], rows: Sequence[Example]
    ) -> list[Answer]:
        scores = model(**inputs).float()  # (b, c)
        if not self.reading.labels:
            return [Number(value) for value in scores.squeeze(-1).tolist()]
        labels = self.reading.labels
        best = scores.softmax(dim=-1).topk(min(_LIKELIEST, len(labels)), dim=-1)
        return [
            Label(
                labels[places[0]],
                chances[0],
                dict(zip([labels[place] for place in places], chances, strict=True)),
            )
            for places, chances in zip(best.indices.tolist(), best.values.tolist(), strict=True)
        ]


class MatchReader(ClassReader):
    """Whether two texts belong together, each read by itself."""

    def __init__(self, reading: Reading) -> None:
        super().__init__(reading)
        self.asks = "two texts"

    def example(self, row: Row) -> Example:
        first, second = numbers_of(self.tokenizer, self.two(row))
        longest = self.reading.length
        return Example({"tokens": first[:longest], "other": second[:longest]})


class TagReader(Reader):
    """A tag for each word of a text, or of a list of words."""

    asks = "a text or a list of words"

    def example(self, row: Row) -> Example:
        words = [m.group() for m in WORD.finditer(row)] if isinstance(row, str) else row
        if not isinstance(words, Sequence) or not all(isinstance(word, str) for word in words):
            raise self.wrong(row)
        pieces = pieces_of(self.tokenizer, words) or [[self.tokenizer.specials.get("unknown", 0)]]
        firsts, tokens = [], list[int]()
        for part in pieces:
            firsts.append(len(tokens))
            tokens += part
        longest = self.reading.length
        kept = [place for place in firsts if place < longest]
        return Example({"tokens": tokens[:longest]}, about=(tuple(words), kept))

    def answers(
        self, model: Model, inputs: dict[str, Tensor], rows: Sequence[Example]
    ) -> list[Answer]:
        found = model(**inputs).argmax(dim=-1).tolist()  # (b, n)
        labels = self.reading.labels
        answers: list[Answer] = []
        for row, tags in zip(rows, found, strict=True):
            words, firsts = row.about
            named = tuple(labels[tags[place]] for place in firsts)
            answers.append(Tags(words, named[: len(words)]))
        return answers


class SpanReader(Reader):
    """Where in a text the answer to a question stands: rows are a question and a text."""

    asks = "a question and a text"

    def example(self, row: Row) -> Example:
        question, context = self.two(row)
        longest = self.reading.length
        asked = self.tokenizer.encode(question)[: max(1, longest // 2)]
        numbers, spans = self.tokenizer.encode_spans(context)
        room = max(1, longest - len(self.tokenizer.join(asked, [])[0]))
        tokens, begins = self.tokenizer.join(asked, numbers[:room])
        return Example({"tokens": tokens}, begins, about=(context, spans[:room]))

    def answers(
        self, model: Model, inputs: dict[str, Tensor], rows: Sequence[Example]
    ) -> list[Answer]:
        scores = model(**inputs).float()  # (b, n, 2)
        texts = _behind(inputs["tokens"], rows)
        found, chances = best_spans(scores, texts)
        return [
            self._passage(row, first, last, chance)
            for row, (first, last), chance in zip(
                rows, found.tolist(), chances.tolist(), strict=True
            )
        ]

    def _passage(self, row: Example, first: int, last: int, chance: float) -> Passage:
        context, spans = row.about
        begins = row.begins or 0
        if first < begins or last - begins >= len(spans):
            return Passage("", 0, 0, chance)
        start, end = spans[first - begins][0], spans[last - begins][1]
        return Passage(context[start:end], start, end, chance)


class TranslationReader(Reader):
    """A text in another language."""

    def example(self, row: Row) -> Example:
        numbers = self.tokenizer.encode(self.text(row))[: self.reading.length - 1]
        return Example({"source": [*numbers, self.tokenizer.specials["end"]]})

    def answers(
        self, model: Model, inputs: dict[str, Tensor], rows: Sequence[Example]
    ) -> list[Answer]:
        marks = self.tokenizer.specials
        source = inputs["source"]
        most = min(self.reading.length, 2 * source.shape[1] + 10)
        found = greedy(
            model, source, inputs.get("source_mask"), (marks["begin"], marks["end"]), most
        )
        return [Written(self.tokenizer.decode(until(row, marks["end"]))) for row in found.tolist()]


class MaskReader(Reader):
    """Hidden words of a text, filled in: ``<mask>`` or ``[MASK]`` stands for one."""

    asks = "a text with <mask> in it"

    def example(self, row: Row) -> Example:
        parts = self.text(row).replace("[MASK]", "<mask>").split("<mask>")
        if len(parts) < 2 or "mask" not in self.tokenizer.specials:
            raise self.wrong(row)
        tokens = self.tokenizer.encode(parts[0])
        for part in parts[1:]:
            tokens += [self.tokenizer.specials["mask"], *self.tokenizer.encode(part)]
        whole, _ = joined(self.tokenizer, [tokens], self.reading.length)
        return Example({"tokens": whole})

    def answers(
        self, model: Model, inputs: dict[str, Tensor], rows: Sequence[Example]
    ) -> list[Answer]:
        scores = model(**inputs).float()  # (b, n, v)
        scores[..., list(self.tokenizer.specials.values())] = float("-inf")  # no words
        found = scores.argmax(dim=-1)
        tokens, mask = inputs["tokens"], self.tokenizer.specials["mask"]
        filled = torch.where(tokens == mask, found, tokens).tolist()
        return [
            Written(self.tokenizer.decode(numbers[: row.length]))
            for row, numbers in zip(rows, filled, strict=True)
        ]


class VectorReader(Reader):
    """A text as one vector, as sentence-transformers makes it."""

    def example(self, row: Row) -> Example:
        numbers = numbers_of(self.tokenizer, (self.text(row),))
        return Example({"tokens": joined(self.tokenizer, numbers, self.reading.length)[0]})

    def answers(
        self, model: Model, inputs: dict[str, Tensor], rows: Sequence[Example]
    ) -> list[Answer]:
        x, mask = model.features(inputs["tokens"], inputs.get("mask"))
        found = pooled(x, mask, self.reading.pool).float()
        if self.reading.normalise:
            found = torch.nn.functional.normalize(found, dim=-1)
        return [Vector(tuple(row)) for row in found.tolist()]


READERS: dict[Kind, type[Reader]] = {
    "classify": ClassReader,
    "match": MatchReader,
    "tag": TagReader,
    "span": SpanReader,
    "translate": TranslationReader,
    "mlm": MaskReader,
    "vectors": VectorReader,
}


def padded(rows: Sequence[Example], pad: int) -> dict[str, Tensor]:
    """Rows as the inputs of a model; masks are left out where nothing is padded."""
    inputs: dict[str, Tensor] = {}
    for name in rows[0].columns:
        column = [row.columns[name] for row in rows]
        longest = max(map(len, column))
        values = np.full((len(column), longest), pad, np.int64)
        for place, row in enumerate(column):
            values[place, : len(row)] = row
        inputs[name] = torch.from_numpy(values)
        if any(len(row) < longest for row in column):
            ends = np.array([[len(row)] for row in column])
            mask = "mask" if name == "tokens" else f"{name}_mask"
            inputs[mask] = torch.from_numpy(np.arange(longest) < ends)
    if rows[0].begins is not None:
        inputs["segments"] = _behind(inputs["tokens"], rows).long()
    return inputs


def _behind(tokens: Tensor, rows: Sequence[Example]) -> Tensor:
    """Which places (b, n) belong to the second text."""
    begins = torch.tensor([[row.begins or 0] for row in rows], device=tokens.device)
    return torch.arange(tokens.shape[1], device=tokens.device) >= begins
