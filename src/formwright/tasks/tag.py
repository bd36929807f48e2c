"""One tag for each word: CoNLL-U treebanks and files with one word and its tags on a line.

Words that training shows rarely are read by their looks (capitals, digits, last letters), so that
a model from scratch can guess at new ones. With subword tokenisers the first piece carries the tag.
"""

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor

from formwright.arch.frame import Tag
from formwright.errors import InputError
from formwright.tasks import metrics
from formwright.tasks.base import IGNORED, Batch, Task
from formwright.tasks.cache import Ragged, Stored, cached, small_dtype
from formwright.tasks.examples import ExampleTask, Split, restored, summary, token_loss
from formwright.tasks.files import Sources, fill_splits, find_splits, read_lines, suffix_of
from formwright.tasks.records import longest_of
from formwright.tasks.registry import task
from formwright.tasks.text import TextOptions, Tokenizer, make_tokenizer

_SUFFIXES = (".conllu", ".conll", ".txt", ".tsv", ".bio", ".iob", ".iob2", ".ner", ".pos")
_COLUMNS = ("ID", "FORM", "LEMMA", "UPOS", "XPOS", "FEATS", "HEAD", "DEPREL", "DEPS", "MISC")


@dataclass(frozen=True, kw_only=True)
class TagOptions(TextOptions):
    """``column`` is a name such as UPOS in CoNLL-U, or a number from 1 (-1 is the last)."""

    tokenizer: str = "shapes"
    column: str | None = None
    word_column: str | None = None


@dataclass(frozen=True)
class Sentence:
    """Words and their tags."""

    words: tuple[str, ...]
    tags: tuple[str, ...]
    where: str


Sentences = dict[str, list[Sentence]]


@task("tag", "a tag for each word: CoNLL-U, or one word and its tags on a line", TagOptions, "PATH")
def tag(path: str, name: str, options: TagOptions) -> Task:
    """Tagging of the user's sentences."""
    sources = find_splits(Path(path).expanduser(), _SUFFIXES, options.valid, options.test)
    known = settings(options) | {"sources": sources.digest}
    stored = cached("tag", known, lambda: prepare(_read(sources, options), options))
    return from_stored(name, stored, sources.words)


def settings(options: TagOptions) -> dict[str, Any]:
    """What of the options decides the prepared data."""
    columns = [options.word_column, options.column]
    return options.settings(length=options.length, columns=columns, texts="kept")


def from_stored(name: str, stored: Stored, words: str) -> Task:
    """The task on prepared data."""
    head = Tag(len(stored.meta["labels"]))
    return restored(Tagging, name, head, "accuracy", stored, words)


class Tagging(ExampleTask):
    """A tag for each scored token. Targets are kept with one added; 0 is not scored."""

    KIND = "tag"

    def _loss(self, answers: Tensor, batch: Batch) -> Tensor:
        return token_loss(answers, batch)

    def _read(self, answers: Tensor, batch: Batch) -> list[np.ndarray]:
        found = answers.argmax(dim=-1).cpu().numpy()
        scored = (batch.targets != IGNORED).cpu().numpy()
        return [row[real] for row, real in zip(found, scored, strict=True)]

    def _measure(self, pairs: list[tuple[Any, Batch]], data: Split) -> dict[str, float]:
        found = np.concatenate([row for rows, _ in pairs for row in rows])
        wanted = np.concatenate([b.targets[b.targets != IGNORED].numpy() for _, b in pairs])
        return {
            "accuracy": metrics.accuracy(found, wanted),
            "macro_f1": metrics.macro_f1(found, wanted, len(self.labels)),
        }

    def texts(self, split: str) -> list[list[str]] | None:
        """The words of each row, uncut; None where symbols were generated."""
        kept = self.split(split).texts.get("words")
        return None if kept is None else [json.loads(kept.text(row)) for row in range(len(kept))]

    def _label_summary(self) -> Any:
        targets = self.split(self._shown).targets
        assert isinstance(targets, Ragged)
        counts = np.bincount(targets.values, minlength=len(self.labels) + 1)[1:]
        return {label: int(n) for label, n in zip(self.labels, counts, strict=True)}


# --- reading ----------------------------------------------------------------------------


def _read(sources: Sources, options: TagOptions) -> Sentences:
    known = {split: read_sentences(path, options) for split, path in sources.paths.items()}
    return with_splits(known)


def with_splits(known: Sentences) -> Sentences:
    """Check tags, and cut from the training sentences what is missing."""
    tags = {t for sentence in known["train"] for t in sentence.tags}
    for split in ("valid", "test"):
        for sentence in known.get(split, ()):
            for found in sentence.tags:
                if found not in tags:
                    raise InputError(
                        f"{sentence.where} has the tag {found!r}, which training never shows."
                    )
    return fill_splits(known, lambda s: "\0".join((*s.words, *s.tags)))


def read_sentences(path: Path, options: TagOptions) -> list[Sentence]:
    """Sentences of a file; an empty line ends one."""
    treebank = suffix_of(path) == ".conllu"
    word = _column(options.word_column, 1 if treebank else 0)
    column = _column(options.column, 3 if treebank else -1)
    sentences: list[Sentence] = []
    words: list[str] = []
    tags: list[str] = []
    begin = 0

    def close() -> None:
        if words:
            where = f"the sentence at line {begin} of {path.name}"
            sentences.append(Sentence(tuple(words), tuple(tags), where))
            words.clear()
            tags.clear()

    for number, line in enumerate(read_lines(path), 1):
        cells = line.split("\t") if "\t" in line else line.split()
        if not line.strip():
            close()
        elif not _is_word(line, cells, treebank):
            continue
        else:
            if len(cells) < 2 or max(word, column) >= len(cells):
                raise InputError(
                    f"line {number} of {path.name} has {len(cells)} columns; word and tag stand "
                    f"in columns {word + 1} and {column + 1 if column >= 0 else 'last'}."
                )
            if not cells[word].strip() or not cells[column].strip():
                what = "word" if not cells[word].strip() else "tag"
                raise InputError(f"line {number} of {path.name} has no {what}.")
            begin = begin if words else number
            words.append(cells[word])
            tags.append(cells[column])
    close()
    if not sentences:
        raise InputError(f"{path} holds no sentences.")
    return sentences


def _is_word(line: str, cells: list[str], treebank: bool) -> bool:
    """Not a remark, nor (in treebanks) a contraction or a word that is only understood."""
    if treebank:
        return not line.startswith("#") and cells[0].isdecimal()
    return not line.startswith(("# ", "-DOCSTART-"))


def _column(given: str | None, usual: int) -> int:
    if given is None:
        return usual
    if given.upper() in _COLUMNS:
        return _COLUMNS.index(given.upper())
    try:
        number = int(given)
    except ValueError:
        names = ", ".join(_COLUMNS)
        raise InputError(
            f"there is no column {given!r}; use a number from 1, or one of {names}."
        ) from None
    return number - 1 if number > 0 else number


# --- preparing --------------------------------------------------------------------------


def prepare(sentences: Sentences, options: TagOptions) -> Stored:
    """Tokens and tags of every split."""
    train = sentences["train"]
    tokenizer = make_tokenizer(options.tokenizer, (" ".join(s.words) for s in train), ("pad",))
    seen = Counter(t for part in sentences.values() for s in part for t in s.tags)
    labels = sorted(seen)
    if len(labels) < 2:
        raise InputError(f"All words have the tag {labels[0]!r}; nothing to learn.")
    encoded = {
        split: [_encode(tokenizer, s, labels) for s in part] for split, part in sentences.items()
    }
    longest = longest_of((len(tokens) for tokens, _ in encoded["train"]), options)
    stored, truncated = Stored(), {}
    for split, rows in encoded.items():
        cut = [(tokens[:longest], tags[:longest]) for tokens, tags in rows]
        stored.add(f"{split}/tokens", (t for t, _ in cut), small_dtype(tokenizer.vocab))
        stored.add(f"{split}/targets", (t for _, t in cut), small_dtype(len(labels) + 1))
        # a word may hold spaces
        stored.add_texts(f"{split}/text-words", (json.dumps(s.words) for s in sentences[split]))
        truncated[split] = sum(len(tokens) > longest for tokens, _ in rows)
    examples = [{"text": " ".join(s.words), "tags": " ".join(s.tags)} for s in train[:3]]
    notes = ["only the part of a sentence that is read is scored"] * any(truncated.values())
    stored.meta = summary(tokenizer, longest, truncated, examples, notes, labels=labels)
    return stored


def _encode(
    tokenizer: Tokenizer, sentence: Sentence, labels: list[str]
) -> tuple[list[int], list[int]]:
    places = {label: place + 1 for place, label in enumerate(labels)}
    tokens: list[int] = []
    tags: list[int] = []
    for pieces, found in zip(pieces_of(tokenizer, sentence.words), sentence.tags, strict=True):
        tokens += pieces
        tags += [places[found]] + [0] * (len(pieces) - 1)
    return tokens, tags


def pieces_of(tokenizer: Tokenizer, words: Sequence[str]) -> list[list[int]]:
    """The symbols of each word of a sentence; the first of them carries the tag."""
    found = []
    for at, word in enumerate(words):
        # pieces of a word depend on the space before it in byte-level tokenisers
        spaced = f" {word}" if at and tokenizer.spec not in ("bytes", "chars") else word
        pieces = tokenizer.encode(spaced) or [tokenizer.specials.get("unknown", 0)]
        # a word of a table that holds a space is still one
        found.append(pieces[:1] if tokenizer.spec == "shapes" else pieces)
    return found
