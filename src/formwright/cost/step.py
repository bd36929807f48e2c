"""What one timed run does, as a module from tensors to tensors that every runtime can take.

| phase   | decoder                                | encoder    | encoder-decoder               |
|---------|----------------------------------------|------------|-------------------------------|
| pass    | all positions, after ``past`` others   | the answer | source and target, as long    |
| prefill | all positions, scores of the last one  | -          | source and first token        |
| decode  | one position, after ``past`` others    | -          | the same, source already read |

A model with an adaptive output layer scores frequent words in a pass, as its loss does and as
its FLOPs are counted: scores of all words are what such a layer avoids.

b batch, n new token, m source token, w width
"""

from typing import Any

import torch
from torch import Tensor, nn

from formwright.arch import Architecture, Decoder, LanguageModel, Match, Seq2Seq
from formwright.arch.counting import count
from formwright.cost.target import Phase, Target
from formwright.errors import InputError
from formwright.model import Model
from formwright.ops.past import Past


class Step(nn.Module):
    """One run of a model: its new tokens, what goes with them, and what it remembers."""

    def __init__(self, model: Model, phase: Phase, beside: str, memory: Past | None) -> None:
        super().__init__()
        self.model, self.phase, self.beside = model, phase, beside
        self.slots: list[str] = []
        self.numbers: dict[str, Any] = {}
        if memory is not None:
            tensors, self.numbers = memory.to_tensors()
            self.slots = list(tensors)
        self.adaptive = phase == "pass" and bool(model.arch.backbone.embedding.clusters)
        self.adaptive = self.adaptive and isinstance(model.frame.head, LanguageModel)

    def forward(self, tokens: Tensor, *others: Tensor) -> tuple[Tensor, ...]:
        """The answer, and behind it what is remembered now.

        ``others`` are the source, its encoding or the second text, where there is one, and then
        the remembered tensors.
        """
        beside = {self.beside: others[0]} if self.beside else {}
        past = self._past(others[1:] if self.beside else others)
        if self.phase == "pass" and not self.adaptive:
            answer = self.model(tokens, past=past, **beside)
        else:
            x, _ = self.model.features(tokens, past=past, **beside)
            answer = self._answer(x)
        kept = past.to_tensors()[0].values() if past is not None else ()
        return (answer, *kept)

    def _past(self, tensors: tuple[Tensor, ...]) -> Past | None:
        if self.slots:
            return Past.from_tensors(dict(zip(self.slots, tensors, strict=True)), self.numbers)
        return Past() if self.phase == "prefill" else None

    def _answer(self, x: Tensor) -> Tensor:
        head: Any = self.model.head
        if self.adaptive:
            return head.output.frequent(x, self.model.embedding).log_softmax(dim=-1)[..., 0]
        return head(x[:, -1:], None, self.model.embedding)


def make_step(model: Model, target: Target) -> tuple[Step, tuple[Tensor, ...]]:
    """A model's step on a target, and the arguments to call it with."""
    _check(model, target)
    arch, batch = model.arch, target.batch
    frequent = (*arch.backbone.embedding.clusters, model.frame.vocab)[0]
    generator = torch.Generator().manual_seed(0)

    def words(length: int) -> Tensor:
        return torch.randint(frequent, (batch, length), generator=generator)

    translates = isinstance(arch.backbone, Seq2Seq)
    beside = ""
    others: tuple[Tensor, ...] = ()
    if isinstance(model.frame.head, Match):
        beside, others = "other", (words(target.length),)
    elif translates:
        beside, others = "source", (words(target.length),)
        if target.phase == "decode":
            with torch.inference_mode():
                beside, others = "encoded", (model.encode(others[0]),)
    new = 1 if target.phase == "decode" or (translates and target.phase == "prefill") else None
    memory = None
    if target.past:
        memory = Past()
        with torch.inference_mode():
            given = {"encoded": others[0]} if translates else {}
            model.features(words(target.past), past=memory, **given)
    step = Step(model, target.phase, beside, memory).eval()
    remembered = tuple(memory.to_tensors()[0].values()) if memory is not None else ()
    arguments = (words(new or target.length), *others, *remembered)
    return step, tuple(t.clone() for t in arguments)  # clones are no inference tensors


def flops_of(arch: Architecture, target: Target) -> int | None:
    """FLOPs of one step; None where an encoder-decoder reads and writes in different phases."""
    if target.phase != "pass" and isinstance(arch.backbone, Seq2Seq):
        return None
    counts = count(arch, batch=target.batch, length=target.new_tokens, past=target.past)
    if target.phase != "prefill":
        return counts.flops
    head = next(part.count.flops for part in counts.parts if part.name == "head")
    return counts.flops - head + head // target.length  # scores of the last position only


def _check(model: Model, target: Target) -> None:
    arch = model.arch
    if isinstance(arch.backbone, Decoder):
        remembers, writes = True, isinstance(model.frame.head, LanguageModel)
    else:
        remembers, writes = False, isinstance(arch.backbone, Seq2Seq)
    if target.phase != "pass" and not writes:
        raise InputError(
            f"phase={target.phase} writes text, but this {arch.backbone.NAME} with a "
            f"{model.frame.head.NAME} head does not; use phase=pass."
        )
    if target.past and target.phase == "pass" and not remembers:
        raise InputError(
            f"past={target.past}: only a decoder remembers earlier tokens in a pass, and this "
            f"architecture is of kind {arch.backbone.NAME}; leave past out."
        )
