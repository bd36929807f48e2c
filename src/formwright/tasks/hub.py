"""Data sets of the Hugging Face hub, or of a local folder, through the ``datasets`` library.

What kind of task it is follows from the columns, and can be said: ``hf:glue/sst2``,
``hf:nyu-mll/glue/mrpc?kind=match``, ``hf:conll2003?column=ner_tags``.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

from formwright.errors import InputError
from formwright.tasks import classify, records, sentences, span, tag, translate
from formwright.tasks.base import Task
from formwright.tasks.cache import Stored, cached
from formwright.tasks.files import FILES_VERSION, SPLITS, fill_splits
from formwright.tasks.guide import Guide, option
from formwright.tasks.lm import LanguageTask, MaskedTask, StreamTask, encode_streams
from formwright.tasks.registry import task
from formwright.tasks.tables import Table
from formwright.tasks.text import make_tokenizer, restore

_KINDS = ("classify", "match", "tag", "span", "translate", "lm", "mlm")
_SPLIT_NAMES = {
    "train": ("train", "training"),
    "valid": ("validation", "valid", "dev", "val", "validation_matched"),
    "test": ("test", "test_matched"),
}
_TEXT_NAMES = ("text", "content", "document", "sentence")


@dataclass(frozen=True, kw_only=True)
class HubOptions(classify.ClassifyOptions):
    """Options of the kinds, and ``kind`` itself; ``language`` is SRC-TGT for translations."""

    kind: str | None = option(None, f"One of {', '.join(_KINDS)}.")
    config: str | None = option(None, "Which configuration of the data set.")
    column: str | None = option(None, "The column of the tags.")
    language: str | None = option(None, "Of translations: SRC-TGT, such as de-en.")
    tokenizer: str = option("", "As of the kind: `formwright tasks show classify`.")


_GUIDE = Guide(
    metrics={"...": "Those of its kind: `formwright tasks show classify`, for example."},
    formats={
        "NAME[/CONFIG]": "A data set of the hub, through the datasets library.",
        "PATH": "A folder that the datasets library can load.",
    },
    splits="As the data set has them; what is missing is cut from train.",
    example="hf:glue/sst2",
    default="that of its kind, which follows from the columns or is said by kind=...",
)


@task(
    "hf",
    "a data set of the Hugging Face hub or a local folder of one",
    HubOptions,
    "NAME[/CONFIG]",
    _GUIDE,
)
def hub(target: str, name: str, options: HubOptions) -> Task:
    """A data set through ``datasets``."""
    parts = _splits(_dataset(target, options.config))
    columns = list(parts["train"].column_names)
    kind = options.kind or guess_kind(columns)
    if kind not in _KINDS:
        raise InputError(f"kind is one of {', '.join(_KINDS)}, not {kind!r}.")
    words = "as the data set has it" if "valid" in parts else "what is missing is cut from train"
    return _Reader(name, target, parts, options, words).task(kind)


def guess_kind(columns: list[str]) -> str:
    """The kind of task that these columns are for."""
    names = {column.lower() for column in columns}
    if {"context", "question"} <= names and names & {"answers", "answer"}:
        return "span"
    if "translation" in names:
        return "translate"
    if "tokens" in names and any(name.endswith("tags") for name in names):
        return "tag"
    if names & {"label", "labels", "class", "category", "intent", "score", "stars"}:
        return "classify"
    if names & set(_TEXT_NAMES):
        return "lm"
    raise InputError(
        f"What kind of task is it? The data set has the columns {', '.join(columns)}. "
        f"Say kind=... ({', '.join(_KINDS)}) and the columns, such as text=... and label=..."
    )


@dataclass(frozen=True)
class _Reader:
    """A loaded data set and what the user wants of it."""

    name: str
    target: str
    parts: dict[str, Any]
    options: HubOptions
    words: str

    def task(self, kind: str) -> Task:
        make: dict[str, Callable[[], Task]] = {
            "classify": partial(self._classify, pair=False),
            "match": partial(self._classify, pair=True),
            "tag": self._tag,
            "span": self._span,
            "translate": self._translate,
            "lm": partial(self._streams, LanguageTask),
            "mlm": partial(self._streams, MaskedTask, "mask"),
        }
        return make[kind]()

    def _cached(self, kind: str, settings: dict[str, Any], build: Any) -> Stored:
        prints = {split: str(part._fingerprint) for split, part in self.parts.items()}
        return cached(f"hf-{kind}", {**settings, "target": self.target, "sets": prints}, build)

    def _with(self, tokenizer: str) -> HubOptions:
        return replace(self.options, tokenizer=self.options.tokenizer or tokenizer)

    # --- one method for each kind -------------------------------------------------------

    def _records(self, options: HubOptions, *, pair: bool) -> records.Records:
        known = {}
        for split, part in self.parts.items():
            names = _class_names(part, options.label_column)
            rows = [_named(dict(row), names) for row in part]
            if all(row is None for row in rows):
                continue  # a test split whose labels are kept secret
            table = Table(
                Path(f"{self.target}/{split}"),
                list(part.column_names),
                [row if row is not None else {} for row in rows],
                tuple(f"row {n + 1} of {split}" for n in range(len(rows))),
            )
            known[split] = classify.to_records(table, options, pair=pair)
        return classify.with_splits(known, options)

    def _classify(self, *, pair: bool) -> Task:
        options = self._with("words")
        stored = self._cached(
            "match" if pair else "classify",
            classify.settings(options),
            lambda: records.prepare(self._records(options, pair=pair), options, pair=pair),
        )
        return classify.from_stored(self.name, stored, options, self.words, pair=pair)

    def _tag(self) -> Task:
        options = tag.TagOptions(
            tokenizer=self.options.tokenizer or "shapes",
            length=self.options.length,
            column=self.options.column,
        )

        def build() -> Stored:
            known = {split: _sentences(part, options) for split, part in self.parts.items()}
            return tag.prepare(sentences.with_splits(known), options)

        stored = self._cached("tag", tag.settings(options), build)
        return tag.from_stored(self.name, stored, self.words, self.options.metric)

    def _span(self) -> Task:
        options = self._with("words")

        def build() -> Stored:
            known = {
                split: [
                    span.question_of(dict(row), f"row {n} of {split}")
                    for n, row in enumerate(part, 1)
                ]
                for split, part in self.parts.items()
            }
            return span.prepare(span.with_splits(known), options)

        settings = options.settings(length=options.length, files_version=FILES_VERSION)
        stored = self._cached("span", settings, build)
        return span.from_stored(self.name, stored, self.words, options.metric)

    def _translate(self) -> Task:
        options = self._with("words")
        first = self.parts["train"][0]["translation"]
        languages = tuple((self.options.language or "-".join(sorted(first))).split("-"))
        if len(languages) != 2 or not set(languages) <= set(first):
            raise InputError(f"language is SRC-TGT, of {', '.join(sorted(first))}.")
        source, target = languages
        settings = options.settings(
            length=options.length, language=languages, files_version=FILES_VERSION
        )

        def build() -> Stored:
            known = {
                split: [(row["translation"][source], row["translation"][target]) for row in part]
                for split, part in self.parts.items()
            }
            return translate.prepare(fill_splits(known, "\0".join), options)

        stored = self._cached("translate", settings, build)
        return translate.from_stored(self.name, stored, self.words, options.metric)

    def _streams(self, kind: type[StreamTask], *specials: str) -> Task:
        options = self._with("bytes")
        columns = self.parts["train"].column_names
        usual = (name for name in _TEXT_NAMES if name in columns)
        column = options.text_column or next(usual, None)
        if column not in columns:
            raise InputError(f"there is no column {column!r}; the data set has {columns}.")
        settings = options.settings(column=column, specials=specials)

        def build() -> Stored:
            texts = {
                split: "".join(f"{row[column] or ''}\n" for row in part)
                for split, part in self.parts.items()
            }
            if "valid" not in texts:
                raise InputError(f"{self.target} has no validation split; use lm:PATH instead.")
            train = (texts["train"],)
            tokenizer = make_tokenizer(options.tokenizer, train, specials, running=True)
            return encode_streams(texts, tokenizer)

        stored = self._cached("text", settings, build)
        tokenizer = restore(stored.meta["tokenizer"])
        return kind(self.name, self.options.length, stored, tokenizer, self.words)


# --- reading ----------------------------------------------------------------------------


def _dataset(target: str, config: str | None) -> Any:
    try:
        datasets: Any = import_module("datasets")  # optional, and slow to load
    except ImportError:
        raise InputError(
            f"hf:{target} needs the datasets library. "
            "Install it with: pip install 'formwright[data]'"
        ) from None
    tries: list[tuple[str, str | None]] = [(target, config)]
    if config is None and "/" in target and not Path(target).is_dir():
        # ORG/NAME, NAME/CONFIG or ORG/NAME/CONFIG
        whole, _, last = target.rpartition("/")
        tries = [(whole, last)] if target.count("/") > 1 else [*tries, (whole, last)]
    reasons = []
    for path, name in tries:
        try:
            return datasets.load_dataset(path, name)  # code in data sets is never run
        except Exception as error:  # the library raises whatever its parts raise
            reasons.append(f"{path}{f' ({name})' if name else ''}: {str(error).splitlines()[0]}")
    raise InputError(f"hf:{target} cannot be loaded. " + "; ".join(reasons))


def _splits(found: Any) -> dict[str, Any]:
    have = {
        split: next((found[name] for name in names if name in found), None)
        for split, names in _SPLIT_NAMES.items()
    }
    if have["train"] is None or not len(have["train"]):
        raise InputError(f"The data set has no training split; it has {', '.join(found)}.")
    return {split: have[split] for split in SPLITS if have[split] is not None}


def _class_names(part: Any, column: str | None) -> tuple[str, list[str]] | None:
    """The label column and the names of its classes, where the data set knows them."""
    for name, feature in part.features.items():
        names = getattr(feature, "names", None)
        if names and (column is None or name == column):
            return name, list(names)
    return None


def _named(row: dict[str, Any], names: tuple[str, list[str]] | None) -> dict[str, Any] | None:
    """A row with its label by name; None where the label is kept secret (-1)."""
    if names is None:
        return row
    column, words = names
    value = row.get(column)
    if value == -1:
        return None
    return row | {column: words[value]} if isinstance(value, int) else row


def _sentences(part: Any, options: tag.TagOptions) -> list[sentences.Sentence]:
    columns = list(part.column_names)
    usual = [name for name in sentences.TAGS if name in columns]
    column = options.column or (usual[0] if usual else None)
    if column not in columns or "tokens" not in columns:
        raise InputError(f"there is no column {column or 'tags'!r}; the data set has {columns}.")
    feature = part.features[column]
    names = getattr(getattr(feature, "feature", None), "names", None)
    made = []
    for number, row in enumerate(part, 1):
        tags = [names[t] if names and isinstance(t, int) else str(t) for t in row[column]]
        made.append(sentences.sentence_of(row["tokens"], tags, f"row {number}"))
    return [sentence for sentence in made if sentence.words]
