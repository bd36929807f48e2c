"""One tag for each word: CoNLL-U treebanks, files with one word and its tags on a line, and tables
with a word, or a list of words and one of tags, in each row.

Words that training shows rarely are read by their looks (capitals, digits, last letters), so that
a model from scratch can guess at new ones. With subword tokenisers the first piece carries the tag.
"""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor

from formwright.arch.frame import Tag
from formwright.errors import InputError
from formwright.tasks import metrics, notes
from formwright.tasks.base import IGNORED, Batch, Task
from formwright.tasks.cache import Ragged, Stored, cached, small_dtype
from formwright.tasks.examples import ExampleTask, restored, token_loss
from formwright.tasks.files import FILES_VERSION, find_splits
from formwright.tasks.guide import FROM_FILES, PACKED, Column, Guide, option
from formwright.tasks.records import longest_of
from formwright.tasks.registry import task
from formwright.tasks.sentences import (
    SENTENCES,
    SUFFIXES,
    TAGS,
    WORDS,
    Places,
    Sentence,
    Sentences,
    read_sentences,
    with_splits,
)
from formwright.tasks.splits import Split, summary, with_notes
from formwright.tasks.text import TOKENIZERS, TextOptions, Tokenizer, make_tokenizer


@dataclass(frozen=True, kw_only=True)
class TagOptions(TextOptions):
    """``column`` is a name such as UPOS in CoNLL-U, or a number from 1 (-1 is the last)."""

    tokenizer: str = option("shapes", TOKENIZERS)
    column: str | None = option(None, "Where tags stand: UPOS, a name, a number; -1 is the last.")
    word_column: str | None = option(None, "Where words stand: FORM, a name, or a number from 1.")
    sentence_column: str | None = option(None, "In csv: the column that tells sentences apart.")
    metric: str | None = option(None, "What counts most, of the metrics below.")


_GUIDE = Guide(
    metrics={
        "accuracy": "Share of right tags.",
        "macro_f1": "Mean F1 of the tags: rare ones count as much as common ones.",
        "entity_f1": "F1 of whole entities, as seqeval has it; for BIO, IOB2, IOBES, BILOU.",
    },
    formats={
        "conll, txt, tsv": "A word and its tag on a line, an empty line behind a sentence.",
        "conllu": "A treebank; UPOS is learnt unless column=XPOS or another is given.",
        "jsonl, json": "An object for each sentence: a list of words and one of tags.",
        "parquet": "The same lists; needs pyarrow.",
        "csv": "A row for each word, with a column that tells sentences apart.",
        **PACKED,
    },
    columns=(
        Column("word", "Words: the first column, FORM, or a list of words.", WORDS),
        Column("column", "Tags: the last column, UPOS, or a list of tags.", TAGS),
        Column("sentence", "In csv: changes with each sentence, or is empty inside.", SENTENCES),
    ),
    splits=FROM_FILES,
    files={
        "names.conll": "Ada B-PER\nsleeps O\n\nBonn B-LOC\nsleeps O\n\nAda B-PER\nLee I-PER\n"
        "sees O\nBonn B-LOC\n"
    },
    example="tag:names.conll",
    default="entity_f1 where tags are O and B-..., I-... and the like; else accuracy",
)


@task(
    "tag",
    "a tag for each word: CoNLL-U, or one word and its tags on a line",
    TagOptions,
    "PATH",
    _GUIDE,
)
def tag(path: str, name: str, options: TagOptions) -> Task:
    """Tagging of the user's sentences."""
    sources = find_splits(Path(path).expanduser(), SUFFIXES, options.valid, options.test)
    places = Places(options.word_column, options.column, options.sentence_column)

    def build() -> Stored:
        found = {split: read_sentences(file, places) for split, file in sources.paths.items()}
        known = with_splits({split: sentences for split, (sentences, _) in found.items()})
        told = [note for _, notes in found.values() for note in notes]
        return with_notes(prepare(known, options), told)

    known = settings(options) | {"sources": sources.digest}
    stored = cached("tag", known, build)
    return from_stored(name, stored, sources.words, options.metric)


def settings(options: TagOptions) -> dict[str, Any]:
    """What of the options decides the prepared data."""
    columns = [options.word_column, options.column, options.sentence_column]
    return options.settings(
        length=options.length, columns=columns, texts="kept", files_version=FILES_VERSION
    )


def from_stored(name: str, stored: Stored, words: str, metric: str | None = None) -> Task:
    """The task on prepared data."""
    labels = stored.meta["labels"]
    usual = "entity_f1" if metrics.marks_entities(labels) else "accuracy"
    return restored(Tagging, name, Tag(len(labels)), metric or usual, stored, words)


class Tagging(ExampleTask):
    """A tag for each scored token. Targets are kept with one added; 0 is not scored."""

    KIND = "tag"
    METRICS = ("accuracy", "macro_f1")

    def _known_metrics(self) -> tuple[str, ...]:
        named = metrics.marks_entities(self.labels)
        return (*self.METRICS, "entity_f1") if named else self.METRICS

    def _loss(self, answers: Tensor, batch: Batch) -> Tensor:
        return token_loss(answers, batch)

    def _read(self, answers: Tensor, batch: Batch) -> list[np.ndarray]:
        found = answers.argmax(dim=-1).cpu().numpy()
        scored = (batch.targets != IGNORED).cpu().numpy()
        return [row[real] for row, real in zip(found, scored, strict=True)]

    def _measure(self, pairs: list[tuple[Any, Batch]], data: Split) -> dict[str, float]:
        found = np.concatenate([row for rows, _ in pairs for row in rows])
        wanted = np.concatenate([b.targets[b.targets != IGNORED].numpy() for _, b in pairs])
        result = {
            "accuracy": metrics.accuracy(found, wanted),
            "macro_f1": metrics.macro_f1(found, wanted, len(self.labels)),
        }
        if "entity_f1" in self._known_metrics():
            result["entity_f1"] = metrics.entity_f1(*self._told(pairs))
        return self._with_own(result, lambda: self._told(pairs))

    def _told(self, pairs: list[tuple[Any, Batch]]) -> tuple[list[list[str]], list[list[str]]]:
        def names(row: np.ndarray) -> list[str]:
            return [self.labels[number] for number in row]

        wanted = [row[row != IGNORED].numpy() for _, batch in pairs for row in batch.targets]
        return [names(row) for rows, _ in pairs for row in rows], [names(row) for row in wanted]

    def texts(self, split: str) -> list[list[str]] | None:
        """The words of each row, uncut; None where symbols were generated."""
        kept = self.split(split).texts.get("words")
        return None if kept is None else [json.loads(kept.text(row)) for row in range(len(kept))]

    def _label_summary(self) -> Any:
        return self._counts(self.split(self._shown))

    def _counts(self, data: Split) -> dict[str, int]:
        assert isinstance(data.targets, Ragged)
        counts = np.bincount(data.targets.values, minlength=len(self.labels) + 1)[1:]
        return {label: int(n) for label, n in zip(self.labels, counts, strict=True)}

    def _label_cautions(self, ready: Mapping[str, Split]) -> list[str]:
        counts = {name: self._counts(part) for name, part in ready.items()}
        # rare tags are in the nature of language; one that stands nearly everywhere is not
        told = notes.uneven(counts["train"], self.metric, "words", rarest=False)
        return [*(told if self.metric == "accuracy" else []), *notes.unseen(counts)]


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
    sizes = (len(tokens) for rows in encoded.values() for tokens, _ in rows)
    longest = longest_of(sizes, options)
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
