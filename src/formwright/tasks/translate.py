"""Translation: an encoder reads the source, a decoder writes the target.

``copy`` and ``reverse`` are generated; ``translate:SRC,TGT`` reads two files that agree line by
line. Source and target share one vocabulary. BLEU compares words and punctuation marks in lower
case, whatever the tokeniser; it is not the BLEU of a published table.

b batch, n target token, m source token, v symbol
"""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
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
from formwright.tasks.examples import (
    ExampleTask,
    Split,
    generated,
    restored,
    stored_split,
    summary,
    token_loss,
)
from formwright.tasks.files import Sources, fill_splits, find_splits, read_lines
from formwright.tasks.records import longest_of
from formwright.tasks.registry import Options, task
from formwright.tasks.text import Symbols, TextOptions, Words, make_tokenizer

_SPECIALS = ("pad", "unknown", "begin", "end")
_BEGIN, _END = 2, 3  # of the generated tasks
_SEEDS = {"train": 31, "valid": 32, "test": 33}


@dataclass(frozen=True, kw_only=True)
class CopyOptions(Options):
    """Symbols, tokens of a row at most, and rows of each split."""

    symbols: int = 16
    length: int = 16
    train: int = 10_000
    valid: int = 500
    test: int = 500


@task("copy", "write the source again", CopyOptions)
def copy(name: str, options: CopyOptions) -> Task:
    """The target is the source."""
    return _generated(name, options, backwards=False)


@task("reverse", "write the source from its end", CopyOptions)
def reverse(name: str, options: CopyOptions) -> Task:
    """The target is the source, backwards."""
    return _generated(name, options, backwards=True)


@task("translate", "two files that agree line by line", TextOptions, "SRC,TGT")
def translate(paths: str, name: str, options: TextOptions) -> Task:
    """Translation between the user's files; ``valid`` and ``test`` are pairs of files too."""
    source, target = _two(paths, "translate:SRC,TGT")
    sides = []
    for place, path in enumerate((source, target)):
        given = [_two(w, "SRC,TGT")[place] if w else None for w in (options.valid, options.test)]
        sides.append(find_splits(Path(path).expanduser(), (), *given))
    if set(sides[0].paths) != set(sides[1].paths):
        found = [", ".join(side.paths) for side in sides]
        raise InputError(
            f"{source} has the splits {found[0]}, but {target} has {found[1]}. "
            "Both languages need the same splits."
        )
    settings = options.settings(length=options.length, sources=[side.digest for side in sides])
    stored = cached("translate", settings, lambda: prepare(_read(sides), options))
    return from_stored(name, stored, sides[0].words)


def from_stored(name: str, stored: Stored, words: str) -> Task:
    """The task on prepared data."""
    columns = ("source", "tokens")
    return restored(Translation, name, LanguageModel(), "bleu", stored, words, columns)


# --- the task ---------------------------------------------------------------------------


class Translation(ExampleTask):
    """Targets are kept with one added, as tags are."""

    KIND = "translate"

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
        self, model: Model, split: str, batches: Iterable[Batch], memory: int | None
    ) -> dict[str, float]:
        batches = list(batches)
        result = super()._score(model, split, batches, memory)
        result["perplexity"] = metrics.perplexity(result["loss"])
        data, device = self.split(split), device_of(model)
        ours: list[list[str]] = []
        theirs: list[list[str]] = []
        for batch in batches:
            assert batch.rows is not None
            ours += [self.words(found) for found in self.predictions(model, batch.to(device))]
            theirs += [self.reference(data, int(row)) for row in batch.rows]
        same = [a == b for a, b in zip(ours, theirs, strict=True)]
        return result | {"bleu": metrics.bleu(ours, theirs), "exact": float(np.mean(same))}

    def words(self, numbers: list[int]) -> list[str]:
        """A translation as BLEU compares it."""
        if isinstance(self.tokenizer, Symbols):
            return [str(number) for number in numbers]
        if isinstance(self.tokenizer, Words):
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
    made = Translation(name, frame, "accuracy", splits, generated())
    made.tokenizer = Symbols(frame.vocab, specials={"pad": 0, "begin": _BEGIN, "end": _END})
    return made


Lines = dict[str, list[tuple[str, str]]]


def _two(text: str, form: str) -> tuple[str, str]:
    first, comma, second = text.partition(",")
    if not (first.strip() and comma and second.strip()):
        raise InputError(f"Two files are needed, written {form}; {text!r} is not.")
    return first.strip(), second.strip()


def _read(sides: list[Sources]) -> Lines:
    known: Lines = {}
    for split, path in sides[0].paths.items():
        other = sides[1].paths[split]
        left, right = read_lines(path), read_lines(other)
        if len(left) != len(right):
            raise InputError(
                f"{path.name} has {len(left)} lines and {other.name} {len(right)}; they should "
                "agree line by line."
            )
        for number, pair in enumerate(zip(left, right, strict=True), 1):
            for file, line in zip((path, other), pair, strict=True):
                if not line.strip():
                    raise InputError(f"row {number} of {file.name} has no text.")
        known[split] = list(zip(left, right, strict=True))
    return fill_splits(known, "\0".join)


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
    longest = longest_of((1 + max(map(len, pair)) for pair in encoded["train"]), options)
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
