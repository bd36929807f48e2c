"""Language modelling: the next symbol of a text (``lm``), or hidden ones (``mlm``).

b batch, n token, w width
"""

from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from formwright.arch import Frame, LanguageModel, MaskedLM, Style, style
from formwright.errors import InputError
from formwright.model import Model
from formwright.ops.past import Past
from formwright.tasks import metrics
from formwright.tasks.base import IGNORED, Batch, BatchSampler, Task, device_of, missing_split
from formwright.tasks.batching import BucketSampler, ShuffledPlan, StreamSampler, draw
from formwright.tasks.cache import Stored, cached, small_dtype
from formwright.tasks.files import (
    FILES_VERSION,
    Sources,
    find_splits,
    read_bytes,
    read_text,
    suffix_of,
)
from formwright.tasks.guide import PACKED, Column, Guide, option
from formwright.tasks.reading import Kind, Reading
from formwright.tasks.registry import task
from formwright.tasks.tables import need_column, read_table
from formwright.tasks.text import (
    TOKENIZERS,
    Bytes,
    TextOptions,
    Tokenizer,
    make_tokenizer,
    restore,
)

_ROWS = (".jsonl", ".ndjson", ".csv", ".tsv", ".parquet")
_SUFFIXES = (".txt", ".text", ".md", *_ROWS, ".tokens", ".raw")
_TEXT_NAMES = ("text", "content", "body", "sentence", "document")
_CHUNK = 1_000_000  # characters that are tokenised at once
_HIDDEN, _MASKED, _SWAPPED = 0.15, 0.8, 0.1  # shares as in BERT
_VALID_SEED = 20_201  # which tokens are hidden when measuring
_SHARE = 0.05  # of a single file for valid, and for test


@dataclass(frozen=True, kw_only=True)
class StreamOptions(TextOptions):
    """How running text is read."""

    tokenizer: str = option("bytes", TOKENIZERS)
    length: int | None = option(None, "Tokens of a segment: 256 of bytes and chars, else 128.")
    text_column: str | None = option(None, "The column of the text, in tables.")


def _guide(kind: str) -> Guide:
    return Guide(
        metrics={
            "bits_per_byte": "Of tokenizer=bytes; given for all but words. Less is better.",
            "bits_per_character": "Of tokenizer=chars. Less is better.",
            "perplexity": "Of the other tokenisers. Less is better.",
        },
        formats={
            "txt, md, raw, ...": "Running text, read as one stream.",
            "csv, tsv, jsonl, parquet": "A column of texts, one after the other.",
            **PACKED,
        },
        columns=(Column("text", "The text.", _TEXT_NAMES),),
        splits="Files named train, valid (or dev) and test, in a folder or beside the training "
        "file, or given as valid=PATH and test=PATH. Else the last 5 % of the training text are "
        "valid; of a single file the last 10 % are valid and test.",
        files={"book.txt": "It was a dark night.\nNobody came.\nThe wind was cold and loud.\n"},
        example=f"{kind}:book.txt",
        default="bits_per_byte; it follows from the tokeniser",
    )


@task(
    "lm",
    "the next symbol of a text: a file, or train/valid/test files",
    StreamOptions,
    "PATH",
    _guide("lm"),
)
def lm(path: str, name: str, options: StreamOptions) -> Task:
    """Language modelling on the user's text."""
    return LanguageTask(name, options.length, *_load(path, options, ()))


@task("mlm", "hidden symbols of a text, as BERT learns", StreamOptions, "PATH", _guide("mlm"))
def mlm(path: str, name: str, options: StreamOptions) -> Task:
    """Masked language modelling on the user's text."""
    return MaskedTask(name, options.length, *_load(path, options, ("mask",)))


# --- the tasks --------------------------------------------------------------------------


class StreamTask(Task):
    """A text for each split, as one long row of symbols."""

    KIND: ClassVar[Kind]
    higher_is_better = False

    def __init__(
        self, name: str, length: int | None, stored: Stored, tokenizer: Tokenizer, words: str
    ) -> None:
        self.name, self.tokenizer, self.words = name, tokenizer, words
        self.streams = {split: stored.arrays[split] for split in stored.meta["bytes"]}
        self.meta: Mapping[str, Any] = stored.meta
        self.length = length or (256 if tokenizer.spec in ("bytes", "chars") else 128)
        if self.length < 1:
            raise InputError(f"{name}: a length of {self.length} tokens is none.")
        self.metric = {"bytes": "bits_per_byte", "chars": "bits_per_character"}.get(
            tokenizer.spec, "perplexity"
        )
        self.frame = self._frame()
        for split, stream in self.streams.items():
            if len(stream) < 2:
                raise InputError(f"The {split} split of {name} has fewer than 2 symbols.")

    def _frame(self) -> Frame:
        return Frame(self.tokenizer.vocab, self.length, LanguageModel())

    def reading(self) -> Reading:
        return Reading(
            self.KIND, self.tokenizer, self.frame.length, task=self.name, metric=self.metric
        )

    def measured(self, split: str) -> np.ndarray:
        """All symbols of a split that may be measured on."""
        if split not in ("valid", "test"):
            raise missing_split(self.name, split, self.streams)
        return self.stream(split)

    def stream(self, split: str) -> np.ndarray:
        """All symbols of a split."""
        if split not in self.streams:
            raise missing_split(self.name, split, self.streams)
        return self.streams[split]

    @abstractmethod
    def _losses(self, model: Model, batch: Batch, past: Past | None) -> Tensor:
        """The loss of each scored symbol; others count 0 or are left out."""

    def loss(self, model: Model, batch: Batch, past: Past | None = None) -> Tensor:
        return self._losses(model, batch, past).float().sum() / max(1, batch.count)

    def predictions(self, model: Model, batch: Batch) -> np.ndarray:
        return model(**batch.inputs).argmax(dim=-1).cpu().numpy()

    def _score(
        self, model: Model, split: str, batches: Iterable[Batch], memory: int | Past | None
    ) -> dict[str, float]:
        device, past = device_of(model), None
        total, count = 0.0, 0
        for batch in batches:
            if memory and (past is None or batch.fresh):
                past = memory.emptied() if isinstance(memory, Past) else Past(memory)
            total += float(self.loss(model, batch.to(device), past)) * batch.count
            count += batch.count
        return self.values(total / max(1, count), split)

    def values(self, nats: float, split: str) -> dict[str, float]:
        """The mean loss of a symbol of a split, in every unit that it can be said in."""
        found = {"loss": nats, "perplexity": metrics.perplexity(nats)}
        if not self.tokenizer.spec.startswith("words"):  # unknown words hide what they hold
            symbols = len(self.streams[split])
            for unit, name in (("bytes", "byte"), ("characters", "character")):
                if self.meta[unit].get(split):
                    each = symbols / self.meta[unit][split]
                    found[f"bits_per_{name}"] = metrics.bits(nats) * each
        return found

    def style(self, width: int) -> Style:
        return style("gpt2", width)

    def describe(self) -> dict[str, Any]:
        length = self.length
        return {
            "name": self.name,
            "metric": self.metric,
            "rows": {split: len(stream) for split, stream in self.streams.items()},
            "labels": None,
            "lengths": {"min": length, "mean": float(length), "p95": length, "max": length},
            "examples": [{"text": text} for text in self._examples()],
            "vocabulary": self.frame.vocab,
            "longest": self.frame.length,
            "tokenizer": self.tokenizer.spec,
            "split": self.words,
            "truncated": {},
            "notes": [
                "rows are symbols: the text is read as a stream",
                *self.meta["notes"],
                *self.cautions(),
            ],
        }

    def cautions(self) -> list[str]:
        """What a user should know before they believe a number."""
        return []

    def _examples(self) -> Iterator[str]:
        stream = self.stream("train")
        for place in (0, len(stream) // 3, 2 * len(stream) // 3):
            yield self.tokenizer.decode(stream[place : place + 60].tolist())


class LanguageTask(StreamTask):
    """The next symbol."""

    KIND = "lm"

    def sampler(self, *, batch_tokens: int, seed: int, memory: int = 0) -> BatchSampler:
        stream = self.stream("train")
        budget = self.check_budget(batch_tokens)

        def make(starts: np.ndarray, length: int, fresh: bool) -> Batch:
            window = stream[starts[:, None] + np.arange(length + 1)].astype(np.int64)
            tokens, targets = torch.from_numpy(window[:, :-1]), torch.from_numpy(window[:, 1:])
            return Batch({"tokens": tokens}, targets, tokens.numel(), tokens.numel(), 0.0, fresh)

        plan = StreamSampler if memory else ShuffledPlan
        return plan(len(stream), self.length, budget, seed, make)

    def batches(self, split: str = "valid", *, batch_tokens: int) -> Iterator[Batch]:
        """Segments are cut at the same places whatever the size of a batch.

        Lanes read on from batch to batch. Where a lane ends early its row is filled up: nothing
        follows that could see the filling, so no mask is needed.
        """
        stream = self.measured(split)
        segments = -(-(len(stream) - 1) // self.length)
        lanes = max(1, min(self.check_budget(batch_tokens) // self.length, segments))
        turns = -(-segments // lanes)
        longer = segments - lanes * (turns - 1)  # lanes that have a segment in the last turn
        counts = np.where(np.arange(lanes) < longer, turns, turns - 1)
        firsts = np.cumsum(counts) - counts
        for turn in range(turns):
            starts = np.where(turn < counts, (firsts + turn) * self.length, len(stream))
            yield self._segment(stream, starts, fresh=turn == 0)

    def _segment(self, stream: np.ndarray, starts: np.ndarray, *, fresh: bool) -> Batch:
        real = np.clip(len(stream) - 1 - starts, 0, self.length)
        places = np.arange(real.max())
        known = places < real[:, None]
        at = np.minimum(starts[:, None] + places, len(stream) - 2)
        tokens = np.where(known, stream[at], 0).astype(np.int64)
        targets = np.where(known, stream[at + 1].astype(np.int64), IGNORED)
        count = int(known.sum())
        inputs = {"tokens": torch.from_numpy(tokens)}
        return Batch(inputs, torch.from_numpy(targets), count, count, 1 - count / known.size, fresh)

    def _losses(self, model: Model, batch: Batch, past: Past | None) -> Tensor:
        return model.loss(targets=batch.targets, past=past, **batch.inputs)


class MaskedTask(StreamTask):
    """Hidden symbols: 15 % of a segment, of which 80 % are masked and 10 % swapped, as in BERT.

    Paper: Devlin et al. 2018, https://arxiv.org/abs/1810.04805
    Differs from the paper: segments are cut from running text, without marks at their ends.
    """

    KIND = "mlm"

    def _frame(self) -> Frame:
        self.wanted = self.length
        self.length = min(self.length, *(len(stream) for stream in self.streams.values()))
        return Frame(self.tokenizer.vocab, self.length, MaskedLM())

    def cautions(self) -> list[str]:
        if self.length == self.wanted:
            return []
        sizes = {split: len(stream) for split, stream in self.streams.items()}
        short = min(sizes, key=lambda split: sizes[split])
        return [
            f"{short} has {self.length} symbols, so segments have no more; usual: {self.wanted}"
        ]

    def sampler(self, *, batch_tokens: int, seed: int, memory: int = 0) -> BatchSampler:
        stream = self.stream("train")
        lengths = np.full((len(stream) // self.length, 1), self.length)

        def make(rows: np.ndarray, step: int) -> Batch:
            return self._hide(stream, rows, [draw(seed, 1, step)])

        return BucketSampler(lengths, self.check_budget(batch_tokens), seed, make)

    def batches(self, split: str = "valid", *, batch_tokens: int) -> Iterator[Batch]:
        stream = self.measured(split)
        most = max(1, self.check_budget(batch_tokens) // self.length)
        everything = np.arange(len(stream) // self.length)
        for start in range(0, len(everything), most):
            rows = everything[start : start + most]
            yield self._hide(stream, rows, [draw(_VALID_SEED, int(row)) for row in rows])

    def _hide(
        self, stream: np.ndarray, rows: np.ndarray, randoms: list[np.random.Generator]
    ) -> Batch:
        """Segments with hidden tokens; one random source for all rows, or one for each."""
        window = stream[rows[:, None] * self.length + np.arange(self.length)].astype(np.int64)
        each = (len(rows) // len(randoms), self.length)
        chance, kind = (np.concatenate([r.random(each) for r in randoms]) for _ in range(2))
        first = len(self.tokenizer.specials)
        other = np.concatenate([r.integers(first, self.frame.vocab, each) for r in randoms])
        hidden = chance < _HIDDEN
        hidden[np.arange(len(rows)), chance.argmin(axis=1)] = True  # at least one in every row
        shown = np.where(kind < _MASKED, self.tokenizer.specials["mask"], window)
        shown = np.where(kind >= 1 - _SWAPPED, other, shown)
        tokens = torch.from_numpy(np.where(hidden, shown, window))
        targets = torch.from_numpy(np.where(hidden, window, IGNORED))
        return Batch({"tokens": tokens}, targets, int(hidden.sum()), window.size, 0.0, rows=rows)

    def _losses(self, model: Model, batch: Batch, past: Past | None) -> Tensor:
        x, _ = model.features(batch.inputs["tokens"])  # (b, n, w)
        targets = batch.targets.flatten()
        # the head only looks at hidden tokens; their number is known, so nothing waits for it
        places = torch.nonzero_static(targets != IGNORED, size=batch.count).squeeze(-1)
        return model.loss_at(x.flatten(0, 1)[places], targets[places])

    def style(self, width: int) -> Style:
        return style("bert", width)


# --- reading text -----------------------------------------------------------------------


def _load(
    path: str, options: StreamOptions, specials: tuple[str, ...]
) -> tuple[Stored, Tokenizer, str]:
    sources = find_splits(
        Path(path).expanduser(), _SUFFIXES, valid=options.valid, test=options.test
    )
    settings = options.settings(
        column=options.text_column,
        specials=specials,
        sources=sources.digest,
        files_version=FILES_VERSION,
    )
    stored = cached("text", settings, lambda: _prepare(sources, options, specials))
    words = "as given"
    if "valid" not in sources.paths:
        alone = "test" not in sources.paths
        words = "one file, split 90/5/5 by position" if alone else "the last 5 % are for validation"
    return stored, restore(stored.meta["tokenizer"]), words


def _prepare(sources: Sources, options: StreamOptions, specials: tuple[str, ...]) -> Stored:
    column, read = options.text_column, _raw if options.tokenizer == "bytes" else _text
    parts: dict[str, Any] = {}
    notes: dict[str, None] = {}  # each once, in order
    for split, path in sources.paths.items():
        parts[split], told = read(path, column)
        notes |= dict.fromkeys(told)
    parts = _cut(parts, b"\n" if options.tokenizer == "bytes" else "\n")
    if options.tokenizer == "bytes":
        return encode_streams(parts, Bytes(specials), tuple(notes))
    tokenizer = make_tokenizer(options.tokenizer, _chunks(parts["train"]), specials, running=True)
    return encode_streams(parts, tokenizer, tuple(notes))


def encode_streams(
    parts: Mapping[str, Any], tokenizer: Tokenizer, notes: tuple[str, ...] = ()
) -> Stored:
    """One long row of symbols for each split; bytes may be given as they are."""
    stored = Stored(meta={"tokenizer": tokenizer.state(), "notes": list(notes)})
    sizes: dict[str, dict[str, int]] = {"bytes": {}, "characters": {}}
    dtype = small_dtype(tokenizer.vocab)
    for split, part in parts.items():
        if isinstance(part, bytes):
            first = len(tokenizer.specials)
            stored.arrays[split] = (np.frombuffer(part, np.uint8).astype(np.uint16) + first).astype(
                dtype
            )
            sizes["bytes"][split] = len(part)
        else:
            numbers = [np.array(tokenizer.encode(chunk), dtype) for chunk in _chunks(part)]
            stored.arrays[split] = np.concatenate(numbers)
            sizes["bytes"][split] = len(part.encode())
            sizes["characters"][split] = len(part)
    stored.meta |= sizes
    return stored


def _raw(path: Path, column: str | None) -> tuple[bytes, tuple[str, ...]]:
    """The bytes of a text, and notes on how it was read."""
    if suffix_of(path) in _ROWS:
        text, notes = _text(path, column)
        return text.encode(), notes
    raw = read_bytes(path)
    if not raw.strip():
        raise InputError(f"{path} is empty.")
    return raw, ()


def _text(path: Path, column: str | None) -> tuple[str, tuple[str, ...]]:
    """A text, and notes on how it was read."""
    if suffix_of(path) not in _ROWS:
        return read_text(path), ()
    table = read_table(path, known=[*_TEXT_NAMES, *([column] if column else [])])
    name = need_column(table, column, _TEXT_NAMES, "text")
    return "".join(str(row.get(name) or "") + "\n" for row in table.rows), table.notes


def _cut(parts: dict[str, Any], line_end: Any) -> dict[str, Any]:
    """Missing splits from the end of the training text, at the end of a line where one is near."""
    if "valid" in parts:
        return parts
    whole = parts["train"]
    wanted = ["valid"] if "test" in parts else ["valid", "test"]
    made = dict(parts)
    edges = [int(len(whole) * (1 - _SHARE * left)) for left in range(len(wanted), 0, -1)]
    near = len(whole) // 200
    edges = [_line_end(whole, edge, near, line_end) for edge in edges] + [len(whole)]
    made["train"] = whole[: edges[0]]
    for split, low, high in zip(wanted, edges, edges[1:], strict=False):
        made[split] = whole[low:high]
    return {split: made[split] for split in ("train", "valid", "test")}


def _line_end(whole: Any, place: int, near: int, line_end: Any) -> int:
    found = int(whole.find(line_end, place, place + near))
    return place if found < 0 else found + 1


def _chunks(text: str) -> Iterator[str]:
    """Pieces of a text, cut at the ends of lines, so that no tokeniser sees too much at once."""
    start = 0
    while start < len(text):
        end = min(len(text), start + _CHUNK)
        if end < len(text):
            end = _line_end(text, end, _CHUNK, "\n")
        yield text[start:end]
        start = end
