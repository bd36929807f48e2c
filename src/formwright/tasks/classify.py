"""One class (or one number) for each text or pair of texts, from the user's files.

Files are csv, tsv, jsonl, json or parquet with a column for the text and one for the label, or
folders whose names are the labels (``pos/1.txt``). Two texts in a row are read as one, with a
separator between them. Labels that are not whole numbers but numbers make it a regression.
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
    FILES_VERSION,
    Sources,
    fill_splits,
    find_splits,
    read_text,
    split_of,
)
from formwright.tasks.guide import FROM_FILES, PACKED, Column, Guide, option
from formwright.tasks.records import Record, Records, is_regression, prepare
from formwright.tasks.registry import task
from formwright.tasks.tables import (
    TABLES,
    Table,
    find_column,
    need_column,
    no_column,
    read_table,
)
from formwright.tasks.text import TextOptions

HIDDEN = (128,)  # a plain sum of two vectors cannot say whether they are equal
TEXTS = ("text", "sentence", "content", "body", "review", "comment", "utterance", "tokens")
FIRSTS = ("text_a", "sentence1", "premise", "question1", "text1", "question", "query", "first")
SECONDS = (
    "text_b",
    "sentence2",
    "hypothesis",
    "question2",
    "text2",
    "sentence",
    "document",
    "second",
)
LABELS = (
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

    text_column: str | None = option(None, "The column of the text, by name or number from 1.")
    text2_column: str | None = option(None, "The column of a second text, if there are two.")
    label_column: str | None = option(None, "The column of the label, by name or number from 1.")
    metric: str | None = option(None, "What counts most, of the metrics below.")
    regression: bool | None = option(None, "Labels are amounts; found by itself if they are 1.5.")
    empty: str = option("error", "Rows without text or label: error, or skip to leave them out.")
    pool: str = option("mean", "How a text becomes one vector: mean, cls, first or last.")


FORMATS = {
    "csv, tsv": "A header and one row for each example; , ; tab or | between cells.",
    "jsonl, json": "An object for each example, one on a line or all in one list.",
    "parquet": "Needs pyarrow.",
    **PACKED,
}
METRICS = {
    "accuracy": "Share of right answers.",
    "macro_f1": "Mean F1 of the classes: rare ones count as much as common ones.",
    "matthews": "Matthews' correlation.",
    "f1": "Of the second of two classes.",
    "spearman": "Regression: correlation of ranks.",
    "pearson": "Regression: correlation.",
    "mse": "Regression: mean squared error; less is better.",
}
_GUIDE = Guide(
    metrics=METRICS,
    formats=FORMATS | {"folders": "Named by their label: pos/1.txt, neg/1.txt."},
    columns=(
        Column("text", "What is read.", TEXTS),
        Column("text2", f"A second text; the first one is then {FIRSTS[0]}, ...", SECONDS),
        Column("label", "A class, or a number.", LABELS),
    ),
    splits=FROM_FILES,
    files={"reviews.csv": "body,stars\nA joy to watch,5\nDull and long,1\nBad acting,1\n"},
    example="classify:reviews.csv?text=body&label=stars",
    default="accuracy; spearman where labels are amounts",
)


@task(
    "classify",
    "a class or a number for each text: csv, tsv, jsonl, folders",
    ClassifyOptions,
    "PATH",
    _GUIDE,
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
        lambda: _prepared(sources, options, pair=pair),
    )
    return from_stored(name, stored, options, sources.words, pair=pair)


def _prepared(sources: Sources, options: ClassifyOptions, *, pair: bool) -> Stored:
    records, notes = read_records(sources, options, pair=pair)
    return prepare(records, options, pair=pair, notes=notes)


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
        files_version=FILES_VERSION,
    )


# --- reading ----------------------------------------------------------------------------


def find_sources(path: Path, options: ClassifyOptions) -> Sources:
    """Files or folders of each split."""
    if options.empty not in ("error", "skip"):
        raise InputError(f"empty is error or skip, not {options.empty!r}.")
    folders = sorted(p for p in path.iterdir() if p.is_dir()) if path.is_dir() else []
    holds_tables = path.is_dir() and any(p.suffix and p.is_file() for p in path.iterdir())
    if not folders or (holds_tables and not any(split_of(p.name) for p in folders)):
        return find_splits(path, TABLES, options.valid, options.test)
    named = {found[0]: p for p in folders if (found := split_of(p.name)) is not None}
    if not named:
        return Sources({"train": path})  # the folders are labels
    if "train" not in named:
        raise InputError(f"{path} has no training data: there is no folder named train in it.")
    given = {"valid": options.valid, "test": options.test}
    named |= {split: Path(where).expanduser() for split, where in given.items() if where}
    return Sources({split: named[split] for split in ("train", "valid", "test") if split in named})


def read_records(
    sources: Sources, options: ClassifyOptions, *, pair: bool
) -> tuple[Records, list[str]]:
    """Rows of each split, and notes; missing splits are cut from the training rows."""
    tables = {split: open_table(path, options) for split, path in sources.paths.items()}
    known = {split: to_records(table, options, pair=pair) for split, table in tables.items()}
    notes = [note for table in tables.values() for note in table.notes]
    return with_splits(known, options), list(dict.fromkeys(notes))


def with_splits(known: Records, options: ClassifyOptions) -> Records:
    """Check labels, and cut from the training rows what is missing."""
    if not is_regression(known["train"], options):
        _check_labels(known)
    return fill_splits(known, lambda record: "\0".join((*record.texts, record.label)))


def open_table(path: Path, options: ClassifyOptions) -> Table:
    """A file of rows, or a folder of folders of texts."""
    if path.is_file():
        wanted = (options.text_column, options.text2_column, options.label_column)
        usual = (*TEXTS, *FIRSTS, *SECONDS, *LABELS)
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
    first = find_column(table, options.text_column, FIRSTS if pair else TEXTS)
    second = find_column(table, options.text2_column, ())
    if first is None or (pair and second is None):
        one = find_column(table, options.text_column, FIRSTS)
        two = second or find_column(table, None, SECONDS)
        if one is not None and two is not None:
            return [one, two]
    if pair and first is None:
        raise no_column(table, FIRSTS, ("text", "text2", "label"))
    if pair and second is None:
        raise no_column(table, SECONDS, ("text2", "label"), [first or ""])
    if first is None:
        first = need_column(table, None, TEXTS, "text", others=("label",))
    return [first] if second is None else [first, second]


def to_records(table: Table, options: ClassifyOptions, *, pair: bool = False) -> list[Record]:
    """The rows of a table as texts and labels."""
    texts = text_columns(table, options, pair=pair)
    rest = [name for name in LABELS if name not in texts]
    label = need_column(table, options.label_column, rest, "label", texts)
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
        raise InputError(
            f"All {rows} training rows have the label {only!r}; nothing to learn. "
            "Another column is said by ?label=COLUMN."
        )
    if len(names) > max(50, rows // 2):
        raise InputError(
            f"The label column has {len(names)} different values in {rows} rows, which are no "
            "classes. Say which column holds the label, as in ?label=COLUMN."
        )
    for split in ("valid", "test"):
        new = [record for record in known.get(split, ()) if record.label not in names]
        if new:
            raise InputError(
                f"{new[0].where} has the label {new[0].label!r}, which training never shows; "
                f"{len(new)} of {len(known[split])} rows of {split} have such labels."
            )
