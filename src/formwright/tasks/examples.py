"""Tasks made of examples: texts with a class, a number, or a tag for each token.

b batch, n token, c class
"""

from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, ClassVar, TypeVar, cast

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from formwright.arch.frame import Frame, Head, Match, PoolKind
from formwright.arch.style import Style, style
from formwright.errors import InputError
from formwright.model import Model
from formwright.ops.past import Past
from formwright.statistics import pearson, spearman
from formwright.tasks import metrics, notes
from formwright.tasks.base import (
    IGNORED,
    Batch,
    BatchSampler,
    Task,
    device_of,
    length_summary,
    missing_split,
)
from formwright.tasks.batching import BucketSampler, in_order
from formwright.tasks.cache import Ragged, Stored
from formwright.tasks.reading import Kind, Reading
from formwright.tasks.registry import Metric
from formwright.tasks.splits import About, Lazy, Split, stored_split
from formwright.tasks.text import Symbols, Tokenizer, restore

_POOLS = ("mean", "cls", "first", "last")
Made = TypeVar("Made", bound="ExampleTask")


class ExampleTask(Task):
    """Examples in splits, bucketed by length; kinds of tasks add loss and metric.

    ``labels`` are the names of classes or tags, where there are some; ``METRICS`` are what users
    may choose from.
    """

    KIND: ClassVar[Kind]
    METRICS: ClassVar[tuple[str, ...]] = ()
    _own: Metric | None = None  # a metric of the user's

    def __init__(
        self,
        name: str,
        frame: Frame,
        metric: str,
        splits: Mapping[str, Lazy],
        about: About,
        labels: Sequence[str] = (),
    ) -> None:
        self.name, self.frame, self.metric = name, frame, metric
        self.about, self.labels = about, list(labels)
        self.tokenizer: Tokenizer = Symbols(frame.vocab)  # of generated data
        self._splits = dict(splits)
        # generating a large training split takes a while: descriptions then look at another
        self._shown = "train" if isinstance(self._splits["train"], Split) else "valid"
        self._check_metric()

    def _known_metrics(self) -> tuple[str, ...]:
        """What the task can be measured by; nothing where users cannot choose."""
        return self.METRICS

    def _check_metric(self) -> None:
        known = self._known_metrics()
        if known and self.metric not in known:
            raise InputError(
                f"{self.name} cannot be measured by {self.metric!r}; use one of {', '.join(known)}."
            )

    def measure_by(self, own: Metric) -> None:
        """Let a function of the user's be the metric that counts."""
        self._own = own
        self.metric = getattr(own, "__name__", type(own).__name__).strip("<>")
        self.higher_is_better = bool(getattr(own, "higher_is_better", True))

    def split(self, name: str) -> Split:
        """The examples of a split, made when they are first asked for."""
        if name not in self._splits:
            raise missing_split(self.name, name, self._splits)
        found = self._splits[name]
        if not isinstance(found, Split):
            found = self._splits[name] = found.make()
        return found

    def reading(self) -> Reading:
        pair = any(isinstance(s, Split) and s.firsts is not None for s in self._splits.values())
        return Reading(
            "match" if isinstance(self.frame.head, Match) else self.KIND,
            self.tokenizer,
            self.frame.length,
            tuple(self.labels),
            pair=pair,
            task=self.name,
            metric=self.metric,
        )

    # --- batches ------------------------------------------------------------------------

    def sampler(self, *, batch_tokens: int, seed: int, memory: int = 0) -> BatchSampler:
        data = self.split("train")
        budget = self.check_budget(batch_tokens)
        return BucketSampler(data.lengths, budget, seed, partial(self.collate, data))

    def batches(self, split: str = "valid", *, batch_tokens: int) -> Iterator[Batch]:
        """Short examples first; ``rows`` of a batch says which they are."""
        return self._chosen(split, batch_tokens, None)

    def _chosen(self, split: str, batch_tokens: int, limit: int | None) -> Iterator[Batch]:
        if split not in ("valid", "test"):
            raise missing_split(self.name, split, self._splits)
        data = self.split(split)
        groups = list(in_order(data.lengths, self.check_budget(batch_tokens)))
        if limit is not None and limit < len(groups):  # the first would be the short ones only
            groups = [groups[place * len(groups) // limit] for place in range(limit)]
        return (self.collate(data, rows) for rows in groups)

    def collate(self, data: Split, rows: np.ndarray, step: int = 0) -> Batch:
        """A batch of these rows."""
        inputs: dict[str, Tensor] = {}
        real, places = 0, 0
        for name, column in data.columns.items():
            values, known = column.padded(rows, 0)
            inputs[name] = torch.from_numpy(values)
            if not known.all():
                inputs["mask" if name == "tokens" else f"{name}_mask"] = torch.from_numpy(known)
            real, places = real + int(known.sum()), places + known.size
            if name == "tokens" and data.firsts is not None:
                second = np.arange(known.shape[1]) >= data.firsts[rows][:, None]
                inputs["segments"] = torch.from_numpy(second.astype(np.int64))
        if "other" in data.columns:  # the model fills both up to the longer
            places = 2 * len(rows) * max(inputs["tokens"].shape[1], inputs["other"].shape[1])
        targets, count = self._targets(data, rows)
        return Batch(inputs, targets, count, real, 1 - real / places, rows=rows)

    def _targets(self, data: Split, rows: np.ndarray) -> tuple[Tensor, int]:
        if isinstance(data.targets, Ragged):
            values, real = data.targets.padded(rows, 0)
            # kept with one added, so that 0 says "not scored" in any unsigned type
            found = np.where(real & (values > 0), values - 1, IGNORED)
            return torch.from_numpy(found), int((found != IGNORED).sum())
        return torch.from_numpy(np.array(data.targets[rows])), len(rows)

    # --- loss and score -----------------------------------------------------------------

    def loss(self, model: Model, batch: Batch, past: Past | None = None) -> Tensor:
        return self._loss(self._answers(model, batch), batch)

    def predictions(self, model: Model, batch: Batch) -> Any:
        return self._read(self._answers(model, batch), batch)

    def _answers(self, model: Model, batch: Batch) -> Tensor:
        found: Tensor = model(**batch.inputs)
        return found

    @abstractmethod
    def _loss(self, answers: Tensor, batch: Batch) -> Tensor: ...

    @abstractmethod
    def _read(self, answers: Tensor, batch: Batch) -> Any: ...

    @abstractmethod
    def _measure(self, pairs: list[tuple[Any, Batch]], data: Split) -> dict[str, float]:
        """Metrics from what was read off each batch."""

    def _with_own(
        self, found: dict[str, float], told: Callable[[], tuple[list[Any], list[Any]]]
    ) -> dict[str, float]:
        """Metrics with that of the user's, if there is one.

        ``told`` gives answers, and what was wanted, row by row in the words of the user's files.
        """
        if self._own is None:
            return found
        return found | {self.metric: metrics.judged(self._own, self.metric, *told())}

    def judge(self, answers: Any, split: str = "valid") -> dict[str, float]:
        """The metrics of answers that no model gave, one for each row in the split's order."""
        data = self.split(split)
        rows = np.arange(len(data))
        targets, count = self._targets(data, rows)
        return self._measure([(answers, Batch({}, targets, count, 0, 0.0, rows=rows))], data)

    def _score(
        self, model: Model, split: str, batches: Iterable[Batch], memory: int | Past | None
    ) -> dict[str, float]:
        device, total, count = device_of(model), 0.0, 0
        pairs = []
        for batch in batches:
            moved = batch.to(device)
            answers = self._answers(model, moved)
            total += float(self._loss(answers, moved)) * batch.count
            count += batch.count
            pairs.append((self._read(answers, moved), batch))
        return {"loss": total / max(1, count), **self._measure(pairs, self.split(split))}

    # --- description --------------------------------------------------------------------

    def style(self, width: int) -> Style:
        any_split = next(iter(self._splits.values()))
        two = isinstance(any_split, Split) and any_split.firsts is not None
        return encoder_style(width, segments=two)

    def describe(self) -> dict[str, Any]:
        lengths = self.split(self._shown).lengths
        generated = ["labels and lengths are those of the validation rows"]
        return {
            "name": self.name,
            "metric": self.metric,
            "rows": {name: len(split) for name, split in self._splits.items()},
            "labels": self._label_summary(),
            "lengths": length_summary(lengths.max(axis=1)),
            "examples": self.about.examples or self._examples(),
            "vocabulary": self.frame.vocab,
            "longest": self.frame.length,
            "tokenizer": self.about.tokenizer,
            "split": self.about.split,
            "truncated": self.about.truncated,
            "notes": [
                *self.about.notes,
                *self.cautions(),
                *(generated if self._shown == "valid" else []),
            ],
        }

    def cautions(self) -> list[str]:
        """What a user should know before they believe a number; nothing of generated data."""
        ready = {name: part for name, part in self._splits.items() if isinstance(part, Split)}
        if "train" not in ready or not self.about.examples:
            return []
        rows = {name: len(part) for name, part in ready.items()}
        sizes = {name: part.lengths.max(axis=1) for name, part in ready.items()}
        longest = {name: int(size.max()) for name, size in sizes.items()}
        over = {name: int((size > longest["train"]).sum()) for name, size in sizes.items()}
        return [
            *notes.cut(self.about.truncated, rows, self.frame.length),
            *notes.longer(longest, over),
            *self._label_cautions(ready),
        ]

    def _label_cautions(self, ready: Mapping[str, Split]) -> list[str]:
        """What is to be said about the labels of the splits that there are."""
        return []

    def _label_summary(self) -> Any:
        return None

    def _examples(self) -> list[dict[str, Any]]:
        """The first rows, as symbols; kinds that can show more do."""
        data = self.split(self._shown)
        return [
            {name: " ".join(map(str, column[row])) for name, column in data.columns.items()}
            | {"label": self._shown_target(data, row)}
            for row in range(min(3, len(data)))
        ]

    def _shown_target(self, data: Split, row: int) -> str:
        if isinstance(data.targets, Ragged):
            return " ".join(str(int(target) - 1) for target in data.targets[row])
        return str(data.targets[row])


def encoder_style(width: int, *, segments: bool = False) -> Style:
    """A pre-norm encoder as in the Long Range Arena: it learns from scratch without much care."""
    made = style("lra", width)
    if not segments:
        return made
    embedding = made.backbone.embedding.replace(segments=2)
    return Style(made.backbone.replace(embedding=embedding), made.letters)


class Classification(ExampleTask):
    """One class, or one number where there are no labels, for each text or pair of texts."""

    KIND = "classify"
    METRICS = ("accuracy", "macro_f1", "matthews")
    TWO_METRICS = (*METRICS, "f1")  # of two classes
    NUMBER_METRICS = ("spearman", "pearson", "mse")

    def _known_metrics(self) -> tuple[str, ...]:
        if not self.labels:
            return self.NUMBER_METRICS
        return self.TWO_METRICS if len(self.labels) == 2 else self.METRICS

    def _check_metric(self) -> None:
        super()._check_metric()
        self.higher_is_better = self.metric != "mse"

    def _loss(self, answers: Tensor, batch: Batch) -> Tensor:
        if self.labels:
            return F.cross_entropy(answers.float(), batch.targets)
        return F.mse_loss(answers.squeeze(-1).float(), batch.targets.float())

    def _read(self, answers: Tensor, batch: Batch) -> np.ndarray:
        found = answers.argmax(dim=-1) if self.labels else answers.squeeze(-1).float()
        return found.cpu().numpy()

    def _measure(self, pairs: list[tuple[Any, Batch]], data: Split) -> dict[str, float]:
        found = np.concatenate([answer for answer, _ in pairs])
        wanted = np.concatenate([batch.targets.numpy() for _, batch in pairs])
        result = self._class_scores(found, wanted) if self.labels else _number_scores(found, wanted)
        return self._with_own(result, lambda: (self._named(found), self._named(wanted)))

    def _class_scores(self, found: np.ndarray, wanted: np.ndarray) -> dict[str, float]:
        classes = len(self.labels)
        result = {
            "accuracy": metrics.accuracy(found, wanted),
            "macro_f1": metrics.macro_f1(found, wanted, classes),
            "matthews": metrics.matthews(found, wanted, classes),
        }
        return result | ({"f1": metrics.binary_f1(found, wanted)} if classes == 2 else {})

    def _named(self, values: np.ndarray) -> list[Any]:
        """Classes by name; amounts as they are."""
        return [self.labels[value] for value in values] if self.labels else values.tolist()

    def texts(self, split: str) -> list[str] | list[tuple[str, str]] | None:
        """What the user wrote, uncut, row by row; None where symbols were generated."""
        kept = self.split(split).texts
        if "0" not in kept:
            return None
        rows = range(len(kept["0"]))
        if "1" not in kept:
            return [kept["0"].text(row) for row in rows]
        return [(kept["0"].text(row), kept["1"].text(row)) for row in rows]

    def _label_summary(self) -> Any:
        values = np.asarray(self.split(self._shown).targets)
        if not self.labels:
            spread = (values.min(), values.mean(), values.max())
            return dict(zip(("min", "mean", "max"), map(float, spread), strict=True))
        return self._counts(self.split(self._shown))

    def _counts(self, data: Split) -> dict[str, int]:
        counts = np.bincount(np.asarray(data.targets), minlength=len(self.labels))
        return {label: int(n) for label, n in zip(self.labels, counts, strict=True)}

    def _label_cautions(self, ready: Mapping[str, Split]) -> list[str]:
        if not self.labels:
            return []
        counts = {name: self._counts(part) for name, part in ready.items()}
        return [*notes.uneven(counts["train"], self.metric), *notes.unseen(counts)]


def _number_scores(found: np.ndarray, wanted: np.ndarray) -> dict[str, float]:
    return {
        "spearman": spearman(found, wanted),
        "pearson": pearson(found, wanted),
        "mse": float(np.mean((found - wanted) ** 2)),
    }


def token_loss(answers: Tensor, batch: Batch) -> Tensor:
    """The mean cross-entropy over the tokens that are scored."""
    scores, targets = answers.flatten(0, 1).float(), batch.targets.flatten()
    total = F.cross_entropy(scores, targets, ignore_index=IGNORED, reduction="sum")
    return total / max(1, batch.count)


def pool_of(name: str) -> PoolKind:
    """How a text becomes one vector."""
    if name not in _POOLS:
        raise InputError(f"pool is one of {', '.join(_POOLS)}, not {name!r}.")
    return cast(PoolKind, name)


def restored(
    kind: type[Made],
    name: str,
    head: Head,
    metric: str,
    stored: Stored,
    words: str,
    columns: tuple[str, ...] = ("tokens",),
) -> Made:
    """A task on prepared data.

    Args:
        kind: Which.
        name: As the user wrote it.
        head: What answers.
        metric: What counts most.
        stored: The data, with what ``summary`` gave.
        words: How it was split.
        columns: What the model reads.
    """
    meta = stored.meta
    frame = Frame(meta["vocab"], meta["length"], head)
    splits = {split: stored_split(stored, split, columns) for split in meta["splits"]}
    told = {key: meta[key] for key in ("tokenizer", "truncated", "examples", "notes")}
    about = About(split=words, **told)
    made = kind(name, frame, metric, splits, about, meta.get("labels", ()))
    made.tokenizer = restore(meta["state"])
    return made
