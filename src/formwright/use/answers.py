"""What a model says to one text."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any


class Answer(ABC):
    """An answer: a few named values, and words for people."""

    def to_data(self) -> dict[str, Any]:
        """Plain values, for JSON or the columns of a table."""
        return asdict(self)  # type: ignore[call-overload]

    @abstractmethod
    def __str__(self) -> str: ...


@dataclass(frozen=True)
class Label(Answer):
    """A class.

    Args:
        label: Its name.
        probability: How sure the model is.
        likeliest: Probability of the first few classes, the likeliest first.
    """

    label: str
    probability: float
    likeliest: Mapping[str, float]

    def to_data(self) -> dict[str, Any]:
        return {"label": self.label, "probability": round(self.probability, 6)}

    def __str__(self) -> str:
        return f"{self.label} ({self.probability:.3f})"


@dataclass(frozen=True)
class Number(Answer):
    """A number, of a model that was trained on numbers."""

    value: float

    def __str__(self) -> str:
        return f"{self.value:.6g}"


@dataclass(frozen=True)
class Tags(Answer):
    """A tag for each word; words beyond what the model reads have none."""

    words: tuple[str, ...]
    tags: tuple[str, ...]

    def to_data(self) -> dict[str, Any]:
        return {"words": list(self.words), "tags": list(self.tags)}

    def __str__(self) -> str:
        return " ".join(f"{word}/{tag}" for word, tag in zip(self.words, self.tags, strict=False))


@dataclass(frozen=True)
class Written(Answer):
    """Text that a model wrote: a continuation, a translation, hidden words filled in."""

    text: str

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True)
class Passage(Answer):
    """Where the answer to a question stands.

    Args:
        answer: The words; empty where the text does not say.
        start: Character of the text at which they begin ...
        end: ... and before which they end.
        probability: How sure the model is.
    """

    answer: str
    start: int
    end: int
    probability: float

    def __str__(self) -> str:
        return self.answer or "(not in the text)"


@dataclass(frozen=True)
class Vector(Answer):
    """A text as a vector."""

    values: tuple[float, ...]

    def to_data(self) -> dict[str, Any]:
        return {"vector": list(self.values)}

    def __str__(self) -> str:
        return " ".join(f"{value:.5g}" for value in self.values)
