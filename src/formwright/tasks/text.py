"""Text to symbols: bytes, characters and words. Trained and ready-made subwords are in subword.py.

A task says which special symbols it needs (``pad``, ``begin``, ...); they take the first numbers,
so bytes with padding are byte + 1 (257 symbols, as in the Long Range Arena) and bytes without any
are the byte itself.
"""

import hashlib
import os
import re
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from formwright.errors import InputError
from formwright.files import read_json
from formwright.tasks.guide import option
from formwright.tasks.registry import Options

WORD = re.compile(r"<[^<>\s]+>|\w+(?:['\u2019]\w+)*|[^\w\s]")
_PIECES = re.compile(r"\n|[^\s]+")  # a line's end counts as a word where text runs on
_TASK, _LARGEST = "task.json", 1_000_000_000  # beside a model; bytes
_SEVERAL = 1000  # words that must remain before rare ones are given up
USUAL_WORDS = 20_000
TOKENIZERS = "bytes, chars, words, words:N, spaces, shapes, bpe:N, wordpiece:N or PATH."

Spans = list[tuple[int, int]]


class Tokenizer(ABC):
    """Turns text into numbers and back.

    Attributes:
        spec: How a user asks for it.
        vocab: Different numbers, special ones included.
        specials: Number of each special symbol.
    """

    spec: str
    vocab: int
    specials: dict[str, int]

    @abstractmethod
    def encode_spans(self, text: str) -> tuple[list[int], Spans]:
        """Numbers, and for each which characters of the text it stands for."""

    @abstractmethod
    def decode(self, numbers: Iterable[int]) -> str:
        """Text again, as far as the numbers hold it; special symbols are left out."""

    @abstractmethod
    def state(self) -> dict[str, Any]:
        """All that ``restore`` needs, as plain JSON."""

    def encode(self, text: str) -> list[int]:
        """The numbers of a text."""
        return self.encode_spans(text)[0]

    def join(self, first: Sequence[int], second: Sequence[int] | None) -> tuple[list[int], int]:
        """One or two texts as a model reads them in one, and where the second begins."""
        if second is None:
            return list(first), len(first)
        return [*first, self.specials["separate"], *second], len(first) + 1

    def begun(self, numbers: Sequence[int]) -> list[int]:
        """A text that is to be continued, with what stands before every text."""
        return list(numbers)

    @property
    def pad(self) -> int:
        """What fills a batch up; no model sees it."""
        return self.specials.get("pad", 0)


class Bytes(Tokenizer):
    """Every byte of the UTF-8 text is a symbol."""

    def __init__(self, specials: Sequence[str]) -> None:
        self.spec = "bytes"
        self.specials = {name: place for place, name in enumerate(specials)}
        self.first = len(self.specials)
        self.vocab = self.first + 256

    def encode(self, text: str) -> list[int]:
        return [byte + self.first for byte in text.encode()]

    def encode_spans(self, text: str) -> tuple[list[int], Spans]:
        spans = [(at, at + 1) for at, letter in enumerate(text) for _ in letter.encode()]
        return self.encode(text), spans

    def decode(self, numbers: Iterable[int]) -> str:
        return bytes(n - self.first for n in numbers if n >= self.first).decode(errors="replace")

    def state(self) -> dict[str, Any]:
        return {"kind": "bytes", "specials": list(self.specials)}


class _Table(Tokenizer):
    """Symbols from a list; whatever is not in it is unknown."""

    joint = ""

    def __init__(self, spec: str, symbols: Sequence[str], specials: Sequence[str]) -> None:
        self.spec = spec
        self.symbols = list(symbols)
        names = [*specials, *(() if "unknown" in specials else ("unknown",))]
        self.specials = {name: place for place, name in enumerate(names)}
        self.numbers = {symbol: n for n, symbol in enumerate(self.symbols, len(names))}
        self.vocab = len(names) + len(self.symbols)

    def number(self, symbol: str) -> int:
        """The number of a symbol."""
        return self.numbers.get(symbol, self.specials["unknown"])

    def decode(self, numbers: Iterable[int]) -> str:
        return self.joint.join(self.words(numbers))

    def words(self, numbers: Iterable[int]) -> list[str]:
        """The symbols of these numbers, ``<unknown>`` among them."""
        first, unknown = len(self.specials), self.specials["unknown"]
        return [
            "<unknown>" if n == unknown else self.symbols[n - first]
            for n in numbers
            if n >= first or n == unknown
        ]

    def state(self) -> dict[str, Any]:
        return {
            "kind": type(self).__name__.lower(),
            "spec": self.spec,
            "symbols": self.symbols,
            "specials": list(self.specials),
        }


class Characters(_Table):
    """Every character is a symbol."""

    def encode(self, text: str) -> list[int]:
        return [self.number(letter) for letter in text]

    def encode_spans(self, text: str) -> tuple[list[int], Spans]:
        return self.encode(text), [(at, at + 1) for at in range(len(text))]


class Words(_Table):
    """Words and punctuation marks in lower case."""

    joint = " "
    pattern = WORD

    def encode_spans(self, text: str) -> tuple[list[int], Spans]:
        found = list(self.pattern.finditer(text))
        return [self.number(self.form(m.group())) for m in found], [m.span() for m in found]

    @staticmethod
    def form(word: str) -> str:
        """A word as it stands in the table."""
        return word.lower()


class Pieces(Words):
    """What stands between spaces, as it is, and the ends of lines: how benchmarks count words."""

    pattern = _PIECES

    @staticmethod
    def form(word: str) -> str:
        return word


class Shapes(Pieces):
    """Words as they are; rare ones by their looks: capitals, digits, hyphens and the last letters.

    The idea is that of the word signatures in Petrov et al. 2006,
    https://aclanthology.org/P06-1055
    """

    def number(self, symbol: str) -> int:
        for form in (symbol, *looks(symbol)):
            if form in self.numbers:
                return self.numbers[form]
        return self.specials["unknown"]


def looks(word: str) -> list[str]:
    """What a rare word looks like, from the most to the least telling."""
    case = "C" if word[:1].isupper() else "c"
    case += "A" if len(word) > 1 and word.isupper() else ""
    marks = ("d" if any(c.isdigit() for c in word) else "") + ("-" if "-" in word else "")
    ends = [word[-size:].lower() for size in (3, 2, 1) if len(word) > size]
    return [f"\0{case}{marks}~{end}" for end in ends] + [f"\0{case}{marks}"]


class Symbols(Tokenizer):
    """Symbols of generated data, written between spaces: by their names, or as numbers.

    Args:
        vocab: How many there are.
        names: Of the symbols from ``first`` on, where they have some.
        first: Number of the first symbol that has a name.
        specials: Number of each special symbol.
    """

    def __init__(
        self,
        vocab: int,
        names: Sequence[str] = (),
        first: int = 1,
        specials: Mapping[str, int] | None = None,
    ) -> None:
        self.spec, self.vocab, self.names, self.first = "symbols", vocab, list(names), first
        self.specials = dict(specials or {"pad": 0})
        self.numbers = {name: first + place for place, name in enumerate(self.names)}

    def encode_spans(self, text: str) -> tuple[list[int], Spans]:
        found = list(_PIECES.finditer(text))
        return [self._number(m.group()) for m in found], [m.span() for m in found]

    def _number(self, symbol: str) -> int:
        if symbol in self.numbers:
            return self.numbers[symbol]
        if not self.names and symbol.isdecimal() and int(symbol) < self.vocab:
            return int(symbol)
        known = " ".join(self.names) or f"numbers below {self.vocab}"
        raise InputError(f"{symbol!r} is no symbol of this task; use {known}, between spaces.")

    def decode(self, numbers: Iterable[int]) -> str:
        special = set(self.specials.values())
        return " ".join(self._name(n) for n in numbers if n not in special)

    def _name(self, number: int) -> str:
        place = number - self.first
        return self.names[place] if 0 <= place < len(self.names) else str(number)

    def state(self) -> dict[str, Any]:
        return {
            "kind": "symbols",
            "vocab": self.vocab,
            "names": self.names,
            "first": self.first,
            "specials": self.specials,
        }


_TABLES: dict[str, type[_Table]] = {
    kind.__name__.lower(): kind for kind in (Characters, Words, Pieces, Shapes)
}


def make_tokenizer(
    spec: str, texts: Iterable[str], specials: Sequence[str], *, running: bool = False
) -> Tokenizer:
    """The tokeniser that ``spec`` asks for, learnt from ``texts`` where it needs learning.

    Args:
        spec: ``bytes``; ``chars``; ``words``, ``words:N`` (the N commonest); ``spaces`` (what
            stands between spaces, as it is); ``shapes`` (the same, rare words by their looks);
            ``bpe:N``; ``wordpiece:N``; a folder or file with a ready-made tokeniser; or the folder
            of a model, for its own.
        texts: Training texts.
        specials: Special symbols the task needs.
        running: Running text, as for language models: words are what stands between spaces.
    """
    kind, _, size = spec.partition(":")
    if kind == "bytes":
        return Bytes(specials)
    if kind == "chars":
        seen = Counter(letter for text in texts for letter in set(text))
        return Characters(spec, sorted(seen), specials)
    if kind in ("words", "spaces", "shapes"):
        most = _number(spec, size) if size else None
        plain = Pieces if running or kind == "spaces" else Words
        words = Shapes if kind == "shapes" else plain
        return words(spec, _common(words, texts, most, keep_all=running), specials)
    if os.path.isfile(f"{spec}/{_TASK}"):
        return _of_model(spec, specials)
    from formwright.tasks import subword  # noqa: PLC0415  # loads a large library

    if kind in ("bpe", "wordpiece"):
        return subword.train(kind, _number(spec, size or "8000"), texts, specials)
    return subword.from_path(spec, specials)


def _of_model(folder: str, specials: Sequence[str]) -> Tokenizer:
    """The tokeniser that a model of ours was trained with."""
    data = read_json(Path(folder) / _TASK, "what a model needs to read texts", _LARGEST)
    found = restore(data["tokenizer"])
    if missing := sorted(set(specials) - set(found.specials) - {"pad"}):
        raise InputError(
            f"{folder} reads texts without the special symbol {missing[0]!r}, which this task "
            "needs; begin with new weights, or with a model of the same kind of task."
        )
    return found


def restore(state: Mapping[str, Any]) -> Tokenizer:
    """A tokeniser from its ``state``."""
    kind = state["kind"]
    if kind == "bytes":
        return Bytes(state["specials"])
    if kind == "symbols":
        return Symbols(*(state[name] for name in ("vocab", "names", "first", "specials")))
    if kind in _TABLES:
        return _TABLES[kind](state["spec"], state["symbols"], state["specials"])
    from formwright.tasks import subword  # noqa: PLC0415  # loads a large library

    return subword.restore(state)


def fingerprint(spec: str) -> str:
    """What besides ``spec`` and the texts decides a tokeniser: ready-made files, versions."""
    if spec.partition(":")[0] in ("bytes", "chars", "words", "spaces", "shapes"):
        return ""
    if os.path.isfile(f"{spec}/{_TASK}"):
        return hashlib.sha256(Path(spec, _TASK).read_bytes()).hexdigest()
    from formwright.tasks import subword  # noqa: PLC0415  # loads a large library

    return subword.fingerprint(spec)


@dataclass(frozen=True, kw_only=True)
class TextOptions(Options):
    """How the user's text is read, and where splits besides the first one lie."""

    tokenizer: str = option("words", TOKENIZERS)
    length: int | None = option(None, "Tokens that are read at most; else as long as rows are.")
    valid: str | None = option(None, "The file of the validation rows.")
    test: str | None = option(None, "The file of the test rows.")

    def settings(self, **more: Any) -> dict[str, Any]:
        """What decides the prepared data: the tokeniser, and ``more``."""
        files = fingerprint(self.tokenizer)
        return {"version": 2, "tokenizer": self.tokenizer, "files": files, **more}


def _common(
    kind: type[Words], texts: Iterable[str], most: int | None, *, keep_all: bool
) -> list[str]:
    """The words to know. Those seen once teach the model what an unknown word is."""
    seen: Counter[str] = Counter()
    for text in texts:
        seen.update(kind.form(m.group()) for m in kind.pattern.finditer(text))
    ranked = sorted(seen, key=lambda word: (-seen[word], word))
    often = [word for word in ranked if seen[word] > 1]
    known = ranked if keep_all or len(often) < _SEVERAL else often
    if most is None and not keep_all:
        most = USUAL_WORDS
    known = known[:most]
    if issubclass(kind, Shapes):
        kept = set(known)
        shapes = Counter(
            shape for word in ranked if word not in kept or seen[word] <= 2 for shape in looks(word)
        )
        known += sorted(shape for shape, times in shapes.items() if times > 1)
    return known


def _number(spec: str, text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise InputError(
            f"The tokenizer {spec!r} should end in a number of symbols, such as bpe:8000."
        )
    return int(text)
