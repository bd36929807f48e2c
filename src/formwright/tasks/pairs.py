"""Do two texts belong together? Each is read by itself, by the same layers, then compared.

``pairs`` is generated and needs long range: in every document each of several speakers names a
topic once, anywhere among the filler; the first token says which speaker counts, and two documents
match if those topics are equal. The answer is read off the first vector, so what was named far away
must be carried there. ``match:PATH`` reads pairs from the user's files.
Differs from the Long Range Arena's document matching: that data may not be passed on.
"""

from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from formwright.arch.frame import Frame, Match
from formwright.errors import InputError
from formwright.tasks.base import Task
from formwright.tasks.batching import draw
from formwright.tasks.cache import Ragged
from formwright.tasks.classify import (
    FIRSTS,
    FORMATS,
    HIDDEN,
    LABELS,
    METRICS,
    SECONDS,
    ClassifyOptions,
    from_files,
)
from formwright.tasks.examples import Classification
from formwright.tasks.files import find_splits
from formwright.tasks.guide import FROM_FILES, Column, Guide, option
from formwright.tasks.registry import Options, task
from formwright.tasks.splits import Later, Split, generated
from formwright.tasks.tables import TABLES

_SEEDS = {"train": 21, "valid": 22, "test": 23}


@dataclass(frozen=True, kw_only=True)
class PairsOptions(Options):
    """Tokens of a document at most, speakers, topics, and rows of each split."""

    length: int = option(128, "Tokens of a document at most.")
    speakers: int = option(4, "Who may name a topic; one of them counts.")
    topics: int = option(4, "That can be named.")
    filler: int = option(16, "Different symbols between what counts.")
    train: int = option(20_000, "Training rows.")
    valid: int = option(1_000, "Validation rows.")
    test: int = option(1_000, "Test rows.")


@task(
    "pairs",
    "do two generated documents match? needs long range",
    PairsOptions,
    guide=Guide({"accuracy": "Share of right answers."}),
)
def pairs(name: str, options: PairsOptions) -> Task:
    """Generated pairs of documents."""
    if options.length < 8 * options.speakers or min(options.speakers, options.topics) < 2:
        raise InputError("pairs needs 2 or more speakers and topics, and length >= 8 x speakers.")
    if min(options.train, options.valid, options.test) < 1 or options.filler < 1:
        raise InputError("pairs needs at least one row in every split, and one filler symbol.")
    vocab = 1 + options.speakers * (1 + options.topics) + options.filler
    frame = Frame(vocab, options.length, Match(2, pool="first", hidden=HIDDEN))
    splits = {}
    for split, seed in _SEEDS.items():
        rows = getattr(options, split)
        splits[split] = Later(rows, partial(make_pairs, options, rows, seed))
    return Classification(name, frame, "accuracy", splits, generated(), ["different", "same"])


def make_pairs(options: PairsOptions, rows: int, seed: int) -> Split:
    """Pairs, half of which match. Both documents of a pair have the same length.

    Symbols: 0 padding; then one for each speaker (who counts), one for each topic of each
    speaker, and the filler.
    """
    random = draw(seed)
    same = random.permutation(np.arange(rows) % 2)
    # Pairs that match favour late topics, the others early ones: one document alone then tells a
    # little, without which learning hardly ever gets started.
    late = np.arange(1, options.topics + 1)
    drawn = [random.choice(options.topics, rows, p=w / w.sum()) for w in (late[::-1], late)]
    topic = np.where(same == 1, drawn[1], drawn[0])
    moved = (topic + random.integers(1, options.topics, size=rows)) % options.topics
    shortest = max(8 * options.speakers, options.length * 9 // 10)
    lengths = random.integers(shortest, options.length + 1, size=rows)
    first = _documents(random, options, topic, lengths)
    second = _documents(random, options, np.where(same == 1, topic, moved), lengths)
    return Split({"tokens": first, "other": second}, same.astype(np.int64))


def _documents(
    random: np.random.Generator, options: PairsOptions, topic: np.ndarray, lengths: np.ndarray
) -> Ragged:
    rows, speakers = len(topic), options.speakers
    named_0 = 1 + speakers
    filler_0 = named_0 + speakers * options.topics
    named = random.integers(options.topics, size=(rows, speakers))
    counts = random.integers(speakers, size=rows)
    named[np.arange(rows), counts] = topic
    text = random.integers(filler_0, filler_0 + options.filler, size=(rows, options.length))
    text[:, 0] = 1 + counts
    # every speaker has a stretch of their own, in random order, so that none is overwritten
    stretch = (lengths - 1) // speakers
    order = random.permuted(np.tile(np.arange(speakers), (rows, 1)), axis=1)
    inside = (random.random((rows, speakers)) * stretch[:, None]).astype(np.int64)
    place = 1 + order * stretch[:, None] + inside
    text[np.arange(rows)[:, None], place] = named_0 + np.arange(speakers) * options.topics + named
    kept = np.arange(options.length) < lengths[:, None]
    return Ragged(text[kept].astype(np.uint16), np.concatenate(([0], np.cumsum(lengths))))


@task(
    "match",
    "do two texts belong together? csv, tsv, jsonl with two text columns",
    ClassifyOptions,
    "PATH",
    Guide(
        metrics=METRICS,
        formats=FORMATS,
        columns=(
            Column("text", "The first text.", FIRSTS),
            Column("text2", "The second text.", SECONDS),
            Column("label", "Such as 1 for yes and 0 for no, or a number.", LABELS),
        ),
        splits=FROM_FILES,
        files={"pairs.csv": "text_a,text_b,label\nhello,hi there,1\nhello,goodbye,0\nyes,no,0\n"},
        example="match:pairs.csv",
        default="accuracy; spearman where labels are amounts",
    ),
)
def match(path: str, name: str, options: ClassifyOptions) -> Task:
    """Pairs from the user's files."""
    sources = find_splits(Path(path).expanduser(), TABLES, options.valid, options.test)
    return from_files(name, sources, options, pair=True)
