"""One class (or one number) for each text or pair of texts, from the user's files.

Files are csv, tsv, jsonl or json with a column for the text and one for the label, or folders
whose names are the labels (``pos/1.txt``). Two texts in a row are read as one, with a separator
between them. Labels that are not whole numbers but numbers make it a regression.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from formwright.arch.frame import Classify, Head, Match
from formwright.errors import InputError
from formwright.tasks.base import Task
from formwright.tasks.cache import Stored, cached
from formwright.tasks.examples import Classification, pool_of, restored
from formwright.tasks.files import (
    Sources,
    Table,
    fill_splits,
    find_column,
    find_splits,
    need_column,
    read_table,
    read_text,
    split_of,
)
from formwright.tasks.records import Record, Records, is_regression, prepare
from formwright.tasks.registry import task
from formwright.tasks.text import TextOptions

HIDDEN = (128,)  # a plain sum of two vectors cannot say whether they are equal
SUFFIXES = (".csv", ".tsv", ".jsonl", ".ndjson", ".json")
_TEXTS = ("text", "sentence", "content", "body", "review", "comment", "utterance", "tokens")
_FIRSTS = ("text_a", "sentence1", "premise", "question1", "text1", "question", "query", "first")
_SECONDS = (
    "text_b",
    "sentence2",
    "hypothesis",
    "question2",
    "text2",
    "sentence",
    "document",
    "second",
)
_LABELS = (
    "label",
    "labels",
    "class",
    "category",
    "target",
    "intent",
    "sentiment",
    "stars",
    "score",
)


@dataclass(frozen=True, kw_only=True)
class ClassifyOptions(TextOptions):
    """Columns, tokeniser, splits.

    ``empty="skip"`` leaves rows without text or label out instead of stopping.
    """

    text_column: str | None = None
    text2_column: str | None = None
    label_column: str | None = None
    metric: str | None = None
    regression: bool | None = None
    empty: str = "error"
    pool: str = "mean"


@task(
    "classify",
    "a class or a number for each text: csv, tsv, jsonl, folders",
    ClassifyOptions,
    "PATH",
)
def classify(path: str, name: str, options: ClassifyOptions) -> Task:
    """Classification of the user's texts."""
    return from_files(name, find_sources(Path(path).expanduser(), options), options)


def from_files(
    name: str, sources: Sources, options: ClassifyOptions, *, pair: bool = False
) -> Task:
    """The task on the user's files; ``pair`` reads two texts by themselves."""
    stored = cached(
        "match" if pair else "classify",
        settings(options) | {"sources": sources.digest},
        lambda: prepare(read_records(sources, options, pair=pair), options, pair=pair),
    )
    return from_stored(name, stored, options, sources.words, pair=pair)


def from_stored(
    name: str, stored: Stored, options: ClassifyOptions, words: str, *, pair: bool = False
) -> Task:
    """The task on prepared data."""
    classes, pool = len(stored.meta["labels"]), pool_of(options.pool)
    head: Head = Classify(max(1, classes), pool=pool)
    if pair:
        head = Match(max(1, classes), pool=pool, hidden=HIDDEN)
    metric = options.metric or ("accuracy" if classes else "spearman")
    columns = ("tokens", "other") if pair else ("tokens",)
    return restored(Classification, name, head, metric, stored, words, columns)


def settings(options: ClassifyOptions) -> dict[str, Any]:
    """What of the options decides the prepared data."""
    return options.settings(
        length=options.length,
        columns=[options.text_column, options.text2_column, options.label_column],
        regression=options.regression,
        empty=options.empty,
        texts="kept",
    )


# --- reading ----------------------------------------------------------------------------


def find_sources(path: Path, options: ClassifyOptions) -> Sources:
    """Files or folders of each split."""
    if options.empty not in ("error", "skip"):
        raise InputError(f"empty is error or skip, not {options.empty!r}.")
    folders = sorted(p for p in path.iterdir() if p.is_dir()) if path.is_dir() else []
    holds_tables = path.is_dir() and any(p.suffix and p.is_file() for p in path.iterdir())
    if not folders or (holds_tables and not any(split_of(p.name) for p in folders)):
        return find_splits(path, SUFFIXES, options.valid, options.test)
    named = {found[0]: p for p in folders if (found := split_of(p.name)) is not None}
    if not named:
        return Sources({"train": path})  # the folders are labels
    if "train" not in named:
        raise InputError(f"{path} has no training data: there is no folder named train in it.")
    given = {"valid": options.valid, "test": options.test}
    named |= {split: Path(where).expanduser() for split, where in given.items() if where}
    return Sources({split: named[split] for split in ("train", "valid", "test") if split in named})


def read_records(sources: Sources, options: ClassifyOptions, *, pair: bool) -> Records:
    """Rows of each split; missing splits are cut from the training rows."""
    known = {
        split: to_records(open_table(path, options), options, pair=pair)
        for split, path in sources.paths.items()
    }
    return with_splits(known, options)


def with_splits(known: Records, options: ClassifyOptions) -> Records:
    """Check labels, and cut from the training rows what is missing."""
    if not is_regression(known["train"], options):
        _check_labels(known)
    return fill_splits(known, lambda record: "\0".join((*record.texts, record.label)))


def open_table(path: Path, options: ClassifyOptions) -> Table:
    """A file of rows, or a folder of folders of texts."""
    if path.is_file():
        wanted = (options.text_column, options.text2_column, options.label_column)
        usual = (*_TEXTS, *_FIRSTS, *_SECONDS, *_LABELS)
        return read_table(path, known=[*usual, *(name for name in wanted if name)])
    files = sorted(p for p in path.glob("*/*") if p.is_file() and not p.name.startswith("."))
    if not files:
        raise InputError(f"{path} holds no files: expected folders of texts, one for each label.")
    texts = (read_text(file) if file.stat().st_size else "" for file in files)
    rows = [{"text": t, "label": f.parent.name} for t, f in zip(texts, files, strict=True)]
    names = tuple(str(file.relative_to(path)) for file in files)
    return Table(path, ["text", "label"], rows, names)


def text_columns(table: Table, options: ClassifyOptions, *, pair: bool = False) -> list[str]:
    """Which columns hold the text, or the two texts."""
    first = find_column(table, options.text_column, _FIRSTS if pair else _TEXTS, "text")
    second = find_column(table, options.text2_column, (), "text2")
    if first is None or (pair and second is None):
        one = find_column(table, options.text_column, _FIRSTS, "text")
        two = second or find_column(table, None, _SECONDS, "text2")
        if one is not None and two is not None:
            return [one, two]
    if pair and (first is None or second is None):
        have = ", ".join(table.columns)
        raise InputError(
            f"{table.path.name} should have two columns of text, such as text_a and text_b; it "
            f"has {have}. Say which ones, as in ?text={table.columns[0]}&text2=..."
        )
    if first is None:
        first = need_column(table, None, _TEXTS, "text")
    return [first] if second is None else [first, second]


def to_records(table: Table, options: ClassifyOptions, *, pair: bool = False) -> list[Record]:
    """The rows of a table as texts and labels."""
    texts = text_columns(table, options, pair=pair)
    rest = [name for name in _LABELS if name not in texts]
    label = need_column(table, options.label_column, rest, "label")
    made = []
    for number, row in enumerate(table.rows):
        where = table.where(number)
        found = tuple(_word(row.get(name)) for name in texts)
        value = _word(row.get(label)).strip()
        missing = "text" if not all(text.strip() for text in found) else "" if value else "label"
        if missing and options.empty != "skip":
            raise InputError(f"{where} has no {missing}. Give empty=skip to leave such rows out.")
        if not missing:
            made.append(Record(found, value, where))
    if not made:
        raise InputError(f"{table.path} has no rows with text and label.")
    return made


def _word(value: Any) -> str:
    if value is None:
        return ""
    return " ".join(map(str, value)) if isinstance(value, list) else str(value)


def _check_labels(known: Records) -> None:
    names = {record.label for record in known["train"]}
    rows = len(known["train"])
    if len(names) < 2:
        only = next(iter(names))
        raise InputError(f"All {rows} training rows have the label {only!r}; nothing to learn.")
    if len(names) > max(50, rows // 2):
        raise InputError(
            f"The label column has {len(names)} different values in {rows} rows, which are no "
            "classes. Say which column holds the label, as in ?label=COLUMN."
        )
    for split in ("valid", "test"):
        for record in known.get(split, ()):
            if record.label not in names:
                raise InputError(
                    f"{record.where} has the label {record.label!r}, which training never shows."
                )
