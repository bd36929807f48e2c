"""Sentences with a tag for each word: on lines, in lists, or in a table of words."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

from formwright.errors import InputError
from formwright.tasks.files import fill_splits, read_lines, suffix_of
from formwright.tasks.tables import Table, need_column, read_table

_LISTS = (".jsonl", ".ndjson", ".json", ".parquet")
_LINES = (".conllu", ".conll", ".txt", ".tsv", ".bio", ".iob", ".iob2", ".ner", ".pos")
SUFFIXES = (*_LINES, *_LISTS, ".csv")
WORDS = ("tokens", "words", "forms", "token", "word", "form")
TAGS = (
    "ner_tags", "pos_tags", "tags", "ner_tag", "tag", "ner", "labels", "label", "upos", "pos_tag",
    "pos",
)  # fmt: skip
SENTENCES = ("sentence", "sentence #", "sentence_id", "sentence_idx", "sent_id", "sent")
_COLUMNS = ("ID", "FORM", "LEMMA", "UPOS", "XPOS", "FEATS", "HEAD", "DEPREL", "DEPS", "MISC")
_ENDLESS = 1000  # words of a file that seems to hold one sentence alone


@dataclass(frozen=True)
class Sentence:
    """Words and their tags."""

    words: tuple[str, ...]
    tags: tuple[str, ...]
    where: str


Sentences = dict[str, list[Sentence]]


@dataclass(frozen=True)
class Places:
    """Where words, tags and the marks of sentences stand, as far as the user says it."""

    word: str | None = None
    tag: str | None = None
    sentence: str | None = None


def sentence_of(words: list[Any], tags: list[Any], where: str) -> Sentence:
    """A sentence from two lists, which must agree."""
    if len(words) != len(tags):
        raise InputError(f"{where} has {len(words)} words and {len(tags)} tags.")
    return Sentence(tuple(map(str, words)), tuple(map(str, tags)), where)


def with_splits(known: Sentences) -> Sentences:
    """Check tags, and cut from the training sentences what is missing."""
    tags = {tag for sentence in known["train"] for tag in sentence.tags}
    for split in ("valid", "test"):
        for sentence in known.get(split, ()):
            for found in sentence.tags:
                if found not in tags:
                    raise InputError(
                        f"{sentence.where} has the tag {found!r}, which training never shows."
                    )
    return fill_splits(known, lambda s: "\0".join((*s.words, *s.tags)))


def read_sentences(path: Path, places: Places) -> tuple[list[Sentence], tuple[str, ...]]:
    """The sentences of a file, and notes on how it was read."""
    notes: tuple[str, ...] = ()
    if suffix_of(path) in (*_LISTS, ".csv"):
        given = [name for name in (places.word, places.tag, places.sentence) if name]
        table = read_table(path, known=[*WORDS, *TAGS, *SENTENCES, *given])
        notes = table.notes
        found = (_from_rows if suffix_of(path) == ".csv" else _from_lists)(table, places)
    else:
        found = _from_lines(path, places)
    sentences = [sentence for sentence in found if sentence.words]
    if not sentences:
        raise InputError(f"{path} holds no sentences.")
    if len(sentences) == 1 and len(sentences[0].words) > _ENDLESS:
        raise InputError(
            f"{path.name} holds one sentence of {len(sentences[0].words):,} words; an empty line "
            "should stand behind each sentence."
        )
    return sentences, notes


# --- tables -----------------------------------------------------------------------------


def _from_lists(table: Table, places: Places) -> Iterator[Sentence]:
    """One sentence in each row: a list of words and a list of tags."""
    word = need_column(table, places.word, WORDS, "word", others=("column",))
    column = need_column(table, places.tag, TAGS, "column", [word])
    for number, row in enumerate(table.rows):
        words, tags = row.get(word), row.get(column)
        if not isinstance(words, list) or not isinstance(tags, list):
            raise InputError(f"{table.where(number)}: {word} and {column} should be two lists.")
        yield sentence_of(words, tags, table.where(number))


def _from_rows(table: Table, places: Places) -> Iterator[Sentence]:
    """One word in each row; a column that changes, or is empty between changes, marks sentences."""
    word = need_column(table, places.word, WORDS, "word", others=("column", "sentence"))
    column = need_column(table, places.tag, TAGS, "column", [word], ("sentence",))
    mark = need_column(table, places.sentence, SENTENCES, "sentence", [word, column])
    last, marks = "", []
    for number, row in enumerate(table.rows):
        last = row[mark].strip() or last
        marks.append(last)
        for what, name in (("word", word), ("tag", column)):
            if not row[name].strip():
                raise InputError(f"{table.where(number)} has no {what}.")
    for _, group in groupby(range(len(marks)), key=lambda number: marks[number]):
        numbers = list(group)
        words = [table.rows[number][word].strip() for number in numbers]
        tags = [table.rows[number][column].strip() for number in numbers]
        yield sentence_of(words, tags, f"the sentence at {table.where(numbers[0])}")


# --- lines ------------------------------------------------------------------------------


def _from_lines(path: Path, places: Places) -> Iterator[Sentence]:
    """One word on each line; an empty line ends a sentence."""
    treebank = suffix_of(path) == ".conllu"
    word = _column(places.word, 1 if treebank else 0)
    column = _column(places.tag, 3 if treebank else -1)
    words: list[str] = []
    tags: list[str] = []
    begin = 0
    for number, line in enumerate((*read_lines(path), ""), 1):
        cells = line.split("\t") if "\t" in line else line.split()
        if not line.strip():
            yield sentence_of(words, tags, f"the sentence at line {begin} of {path.name}")
            words, tags = [], []
        elif _is_word(line, cells, treebank):
            _check_cells(cells, word, column, f"line {number} of {path.name}")
            if number == 1 and cells[word].lower() in WORDS and cells[column].lower() in TAGS:
                continue  # a header
            begin = begin if words else number
            words.append(cells[word])
            tags.append(cells[column])


def _check_cells(cells: list[str], word: int, column: int, where: str) -> None:
    if len(cells) < 2 or max(word, column) >= len(cells):
        last = f"in column {column + 1}" if column >= 0 else "in the last one"
        raise InputError(
            f"{where} has {len(cells)} columns, separated by spaces or tabs; words should stand "
            f"in column {word + 1} and tags {last}."
        )
    for what, place in (("word", word), ("tag", column)):
        if not cells[place].strip():
            raise InputError(f"{where} has no {what}.")


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
