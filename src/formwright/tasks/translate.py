"""Translation: an encoder reads the source, a decoder writes the target.

``copy`` and ``reverse`` are generated; ``translate:SRC,TGT`` reads two files that agree line by
line, ``translate:PATH`` a table with a column for each language. Source and target share one
vocabulary. ``bleu`` compares words and punctuation marks in lower case, whatever the tokeniser;
the BLEU of published tables is ``sacrebleu``, given where that library is installed.

b batch, n target token, m source token, v symbol
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from formwright.arch import Architecture, Attention, Layer, Residual, Stack, Style, parse, style
from formwright.arch.architecture import Encoder, Seq2Seq
from formwright.arch.frame import Frame, LanguageModel
from formwright.errors import InputError, SpecError
from formwright.model import Model
from formwright.ops.past import Past
from formwright.tasks import metrics
from formwright.tasks.base import IGNORED, Batch, Task, device_of
from formwright.tasks.batching import draw
from formwright.tasks.cache import Stored, cached, small_dtype
from formwright.tasks.examples import ExampleTask, restored, token_loss
from formwright.tasks.files import FILES_VERSION, Sources
from formwright.tasks.guide import Guide, option
from formwright.tasks.parallel import (
    COLUMNS,
    FORMATS,
    SPLITS,
    Lines,
    find_parallel,
    read_parallel,
)
from formwright.tasks.records import longest_of
from formwright.tasks.registry import Options, task
from formwright.tasks.splits import Split, generated, stored_split, summary, with_notes
from formwright.tasks.text import Symbols, TextOptions, Words, make_tokenizer

_SPECIALS = ("pad", "unknown", "begin", "end")
_BEGIN, _END = 2, 3  # of the generated tasks
_SEEDS = {"train": 31, "valid": 32, "test": 33}


@dataclass(frozen=True, kw_only=True)
class CopyOptions(Options):
    """Symbols, tokens of a row at most, and rows of each split."""

    symbols: int = option(16, "Different symbols.")
    length: int = option(16, "Tokens of a row at most.")
    train: int = option(10_000, "Training rows.")
    valid: int = option(500, "Validation rows.")
    test: int = option(500, "Test rows.")
    metric: str = option("accuracy", "What counts most: accuracy or perplexity.")


_COPY = Guide(
    {
        "accuracy": "Share of right symbols, each guessed from the right ones before it.",
        "perplexity": "Of a symbol. Less is better.",
    },
    default="accuracy",
)


@task("copy", "write the source again", CopyOptions, guide=_COPY)
def copy(name: str, options: CopyOptions) -> Task:
    """The target is the source."""
    return _generated(name, options, backwards=False)


@task("reverse", "write the source from its end", CopyOptions, guide=_COPY)
def reverse(name: str, options: CopyOptions) -> Task:
    """The target is the source, backwards."""
    return _generated(name, options, backwards=True)


@dataclass(frozen=True, kw_only=True)
class TranslateOptions(TextOptions):
    """How translations are read and measured; ``valid`` and ``test`` are SRC,TGT or a table."""

    source_column: str | None = option(None, "The column of the source, in tables.")
    target_column: str | None = option(None, "The column of the target, in tables.")
    metric: str | None = option(None, "What counts most, of the metrics below.")


_GUIDE = Guide(
    metrics={
        "sacrebleu": "BLEU as published tables have it; needs the sacrebleu library.",
        "bleu": "BLEU of words in lower case, computed here.",
        "accuracy": "Share of right symbols, each guessed from the right ones before it.",
        "exact": "Share of translations that are right to the word.",
        "perplexity": "Of a symbol. Less is better.",
    },
    formats=FORMATS,
    columns=COLUMNS,
    splits=SPLITS,
    files={
        "train.de": "Hallo .\nGute Nacht .\nJa .\n",
        "train.en": "Hello .\nGood night .\nYes .\n",
    },
    example="translate:train.de,train.en",
    default="sacrebleu where it is installed, else bleu",
)


@task("translate", "two files that agree line by line", TranslateOptions, "SRC,TGT", _GUIDE)
def translate(paths: str, name: str, options: TranslateOptions) -> Task:
    """Translation between the user's files."""
    sides = find_parallel(paths, options.valid, options.test)
    settings = options.settings(
        length=options.length,
        sources=[side.digest for side in sides],
        columns=[options.source_column, options.target_column],
        files_version=FILES_VERSION,
    )
    stored = cached("translate", settings, lambda: _prepared(sides, options))
    return from_stored(name, stored, sides[0].words, options.metric)


def _prepared(sides: list[Sources], options: TranslateOptions) -> Stored:
    lines, notes = read_parallel(sides, options.source_column, options.target_column)
    return with_notes(prepare(lines, options), notes)


def from_stored(name: str, stored: Stored, words: str, metric: str | None = None) -> Task:
    """The task on prepared data."""
    installed = metrics.has_sacrebleu()
    if metric == "sacrebleu" and not installed:
        raise InputError(
            "metric=sacrebleu needs the sacrebleu library. Install it with: pip install sacrebleu"
        )
    usual = metric or ("sacrebleu" if installed else "bleu")
    columns = ("source", "tokens")
    made = restored(Translation, name, LanguageModel(), usual, stored, words, columns)
    if not installed:
        told = "bleu is computed here; pip install sacrebleu gives that of published tables too"
        made.about.notes = [*made.about.notes, told]
    elif made.is_lowercase:
        told = "sacrebleu is measured in lower case: the tokeniser knows no capitals"
        made.about.notes = [*made.about.notes, told]
    return made


# --- the task ---------------------------------------------------------------------------


class Translation(ExampleTask):
    """Targets are kept with one added, as tags are."""

    KIND = "translate"
    METRICS = ("accuracy", "exact", "bleu", "sacrebleu", "perplexity")

    def _check_metric(self) -> None:
        super()._check_metric()
        self.higher_is_better = self.metric != "perplexity"

    @property
    def is_lowercase(self) -> bool:
        """Whether the tokeniser cannot write capitals."""
        return type(self.tokenizer) is Words

    def loss(self, model: Model, batch: Batch, past: Past | None = None) -> Tensor:
        found = model.loss(targets=batch.targets, **batch.inputs)
        return found.float().sum() / max(1, batch.count)

    def predictions(self, model: Model, batch: Batch) -> list[list[int]]:
        """The likeliest symbol at each step, until the end of the text."""
        source = batch.inputs["source"]
        most = min(self.frame.length, 2 * source.shape[1] + 10)
        known = self.tokenizer.specials
        marks = known["begin"], known["end"]
        rows = greedy(model, source, batch.inputs.get("source_mask"), marks, most).tolist()
        return [until(row, known["end"]) for row in rows]

    def _loss(self, answers: Tensor, batch: Batch) -> Tensor:
        return token_loss(answers, batch)

    def _read(self, answers: Tensor, batch: Batch) -> np.ndarray:
        right = (answers.argmax(dim=-1) == batch.targets)[batch.targets != IGNORED]
        return right.cpu().numpy()

    def _measure(self, pairs: list[tuple[Any, Batch]], data: Split) -> dict[str, float]:
        return {"accuracy": float(np.concatenate([right for right, _ in pairs]).mean())}

    def _score(
        self, model: Model, split: str, batches: Iterable[Batch], memory: int | Past | None
    ) -> dict[str, float]:
        batches = list(batches)
        result = super()._score(model, split, batches, memory)
        result["perplexity"] = metrics.perplexity(result["loss"])
        data, device = self.split(split), device_of(model)
        found: list[list[int]] = []
        rows: list[int] = []
        for batch in batches:
            assert batch.rows is not None
            found += self.predictions(model, batch.to(device))
            rows += [int(row) for row in batch.rows]
        return result | self._compared(found, rows, data)

    def _compared(self, found: list[list[int]], rows: list[int], data: Split) -> dict[str, float]:
        """Metrics of whole translations."""
        ours = [self.words(numbers) for numbers in found]
        theirs = [self.reference(data, row) for row in rows]
        same = [a == b for a, b in zip(ours, theirs, strict=True)]
        result = {"bleu": metrics.bleu(ours, theirs), "exact": float(np.mean(same))}
        texts = [self.text(numbers) for numbers in found]
        wanted = [self.wanted(data, row) for row in rows]
        if not isinstance(self.tokenizer, Symbols) and metrics.has_sacrebleu():
            lower = self.is_lowercase
            result["sacrebleu"] = metrics.sacrebleu(texts, wanted, lowercase=lower)
        return self._with_own(result, lambda: (texts, wanted))

    def text(self, numbers: list[int]) -> str:
        """A translation as a person reads it."""
        if isinstance(self.tokenizer, Symbols):
            return " ".join(map(str, numbers))
        return self.tokenizer.decode(numbers)

    def wanted(self, data: Split, row: int) -> str:
        """The right translation, as the user wrote it."""
        if isinstance(self.tokenizer, Symbols):
            return " ".join(self.reference(data, row))
        return data.texts["target"].text(row)

    def words(self, numbers: list[int]) -> list[str]:
        """A translation as BLEU compares it."""
        if isinstance(self.tokenizer, Symbols):
            return [str(number) for number in numbers]
        if type(self.tokenizer) is Words:
            return self.tokenizer.words(numbers)
        return split_words(self.tokenizer.decode(numbers))

    def reference(self, data: Split, row: int) -> list[str]:
        """What should have been written."""
        if isinstance(self.tokenizer, Symbols):
            return [str(number) for number in data.columns["tokens"][row][1:]]
        return split_words(data.texts["target"].text(row))

    def style(self, width: int) -> Style:
        return style("translator", width)

    def architecture(self, text: str, width: int) -> Architecture:
        """As for any task; one stack alone is the encoder, and the decoder is like it.

        The decoder then looks at the source behind every attention over itself.
        """
        made = self.style(width)
        if "|" in text.split(" where ", maxsplit=1)[0]:
            return parse(text, defaults=made).bind(self.frame).check()
        alone = parse(text, defaults=Style(Encoder(**made.backbone.values()), made.letters))
        if not isinstance(alone.backbone, Encoder):
            return alone.bind(self.frame).check()
        backbone = Seq2Seq(**alone.backbone.values())
        decoder = Stack(tuple(x for layer in alone.layers.layers for x in _with_source(layer)))
        whole = Architecture(decoder, backbone, encoder=alone.layers, frame=self.frame)
        return whole.check()


def _with_source(layer: Layer) -> tuple[Layer, ...]:
    """A layer of the decoder, with a look at the source behind it if it is self-attention."""
    inner = layer.inner if isinstance(layer, Residual) else layer
    if not isinstance(inner, Attention) or inner.over != "self":
        return (layer,)
    look: Layer = inner.replace(over="source")
    return layer, layer.replace(inner=look) if isinstance(layer, Residual) else look


@torch.no_grad()
def greedy(
    model: Model, source: Tensor, mask: Tensor | None, marks: tuple[int, int], most: int
) -> Tensor:
    """The likeliest next symbol, again and again, until every row has ended (b, n)."""
    begin, end = marks
    encoded = model.encode(source, mask)  # (b, m, w)
    text = torch.full_like(source[:, :1], begin)
    done = torch.zeros_like(text, dtype=torch.bool)
    past: Past | None = Past()
    new = text
    for _ in range(most):
        try:
            x, _ = model.features(new, source_mask=mask, encoded=encoded, past=past)
        except SpecError:
            if past is None:
                raise
            past = None  # some layers cannot read piece by piece: they read all again
            x, _ = model.features(text, source_mask=mask, encoded=encoded)
        scores = model.head(x[:, -1:], None, model.embedding)[:, -1]  # (b, v)
        symbol = scores.argmax(dim=-1, keepdim=True)
        text = torch.cat((text, symbol), dim=1)
        new = text if past is None else symbol
        done |= symbol == end
        if bool(done.all()):
            break
    return text[:, 1:]


def until(numbers: list[int], end: int) -> list[int]:
    """What stands before the first end."""
    return numbers[: numbers.index(end)] if end in numbers else numbers


def split_words(text: str) -> list[str]:
    """Words and punctuation marks in lower case."""
    return [Words.form(found.group()) for found in Words.pattern.finditer(text)]


# --- data -------------------------------------------------------------------------------


def _generated(name: str, options: CopyOptions, *, backwards: bool) -> Task:
    if options.length < 2 or options.symbols < 2:
        raise InputError(f"{name} needs a length and symbols of at least 2.")
    if min(options.train, options.valid, options.test) < 1:
        raise InputError(f"{name} needs at least one row in every split.")
    splits = {}
    for split, seed in _SEEDS.items():
        random, rows = draw(seed), getattr(options, split)
        lengths = random.integers(max(1, options.length // 2), options.length, size=rows)
        body = [random.integers(4, 4 + options.symbols, size=n) for n in lengths]
        stored = Stored()
        kind = small_dtype(5 + options.symbols)
        stored.add(f"{split}/source", ([*row, _END] for row in body), kind)
        target = [row[::-1] if backwards else row for row in body]
        stored.add(f"{split}/tokens", ([_BEGIN, *row] for row in target), kind)
        stored.add(f"{split}/targets", ([*(row + 1), _END + 1] for row in target), kind)
        splits[split] = stored_split(stored, split, ("source", "tokens"))
    frame = Frame(4 + options.symbols, options.length, LanguageModel())
    made = Translation(name, frame, options.metric, splits, generated())
    made.tokenizer = Symbols(frame.vocab, specials={"pad": 0, "begin": _BEGIN, "end": _END})
    return made


def prepare(lines: Lines, options: Any) -> Stored:
    """Tokens of both sides, and the references as text."""
    train = lines["train"]
    tokenizer = make_tokenizer(
        options.tokenizer, (text for pair in train for text in pair), _SPECIALS
    )
    begin, end = tokenizer.specials["begin"], tokenizer.specials["end"]
    encoded = {
        split: [(tokenizer.encode(a), tokenizer.encode(b)) for a, b in pairs]
        for split, pairs in lines.items()
    }
    sizes = (1 + max(map(len, pair)) for pairs in encoded.values() for pair in pairs)
    longest = longest_of(sizes, options)
    stored, kind, truncated = Stored(), small_dtype(tokenizer.vocab + 1), {}
    for split, pairs in encoded.items():
        cut = [(a[: longest - 1], b[: longest - 1]) for a, b in pairs]
        stored.add(f"{split}/source", ([*a, end] for a, _ in cut), kind)
        stored.add(f"{split}/tokens", ([begin, *b] for _, b in cut), kind)
        stored.add(f"{split}/targets", ([n + 1 for n in (*b, end)] for _, b in cut), kind)
        stored.add_texts(f"{split}/text-target", (b for _, b in lines[split]))
        truncated[split] = sum(max(map(len, pair)) > longest - 1 for pair in pairs)
    examples = [{"source": a, "target": b} for a, b in train[:3]]
    stored.meta = summary(tokenizer, longest, truncated, examples)
    return stored
