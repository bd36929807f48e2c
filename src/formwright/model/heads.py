"""Heads: what turns the last layer's vectors into an answer. One module class per head node."""

from itertools import pairwise

import torch
from torch import Tensor, nn

from formwright.arch.frame import (
    Classify,
    Features,
    Head,
    LanguageModel,
    MaskedLM,
    Match,
    Seat,
    Span,
    Tag,
)
from formwright.model.embedding import EmbeddingModule, OutputLayer
from formwright.ops.base import operator, operator_class
from formwright.ops.feedforward.feedforward import ACTIVATIONS


class HeadModule(nn.Module):
    """Base: answers from vectors x (b, n, w); ``mask`` (b, n) says which tokens are real."""

    def forward(self, x: Tensor, mask: Tensor | None, embedding: EmbeddingModule) -> Tensor:
        """The answer."""
        raise NotImplementedError


def build_head(node: Head, seat: Seat) -> HeadModule:
    """The module of a head."""
    return operator_class(node)(node, seat)


@operator(Features)
class FeaturesHead(HeadModule):
    """The vectors themselves; ``pooled`` gives the first one through a dense map and tanh."""

    def __init__(self, node: Features, seat: Seat) -> None:
        super().__init__()
        self.pooler = nn.Linear(seat.out, seat.out) if node.pooler else None

    def forward(self, x: Tensor, mask: Tensor | None, embedding: EmbeddingModule) -> Tensor:
        return x

    def pooled(self, x: Tensor) -> Tensor:
        """One vector per text."""
        return x[:, 0] if self.pooler is None else torch.tanh(self.pooler(x[:, 0]))


@operator(LanguageModel)
class LanguageModelHead(HeadModule):
    """A score per symbol."""

    def __init__(self, node: LanguageModel, seat: Seat) -> None:
        super().__init__()
        self.output = OutputLayer(seat.embedding, seat)

    def forward(self, x: Tensor, mask: Tensor | None, embedding: EmbeddingModule) -> Tensor:
        return self.output(x, embedding)

    def loss(self, x: Tensor, targets: Tensor, embedding: EmbeddingModule) -> Tensor:
        """Negative log-likelihood of each target: x (rows, w), targets (rows,)."""
        return self.output.loss(x, targets, embedding)


@operator(MaskedLM)
class MaskedLMHead(HeadModule):
    """A score per symbol, after a dense map, an activation and a norm as in BERT."""

    def __init__(self, node: MaskedLM, seat: Seat) -> None:
        super().__init__()
        self.dense = nn.Linear(seat.out, seat.out) if node.transform else None
        self.norm = nn.LayerNorm(seat.out, eps=node.eps) if node.transform else None
        self.activation = ACTIVATIONS[node.activation]
        self.output = OutputLayer(seat.embedding, seat)

    def forward(self, x: Tensor, mask: Tensor | None, embedding: EmbeddingModule) -> Tensor:
        return self.output(self._transformed(x), embedding)

    def loss(self, x: Tensor, targets: Tensor, embedding: EmbeddingModule) -> Tensor:
        """Negative log-likelihood of each target: x (rows, w), targets (rows,)."""
        return self.output.loss(self._transformed(x), targets, embedding)

    def _transformed(self, x: Tensor) -> Tensor:
        if self.dense is None or self.norm is None:
            return x
        return self.norm(self.activation(self.dense(x)))


class _Maps(nn.Module):
    """Dense maps in a row with an activation between."""

    def __init__(self, sizes: list[int], activation: str) -> None:
        super().__init__()
        self.activation = ACTIVATIONS[activation]
        self.maps = nn.ModuleList(nn.Linear(a, b) for a, b in pairwise(sizes))

    def forward(self, x: Tensor) -> Tensor:
        for index, layer in enumerate(self.maps):
            x = layer(self.activation(x) if index else x)
        return x


class _Pooled(HeadModule):
    """Reads one vector for each text."""

    def __init__(self, node: Classify | Match, seat: Seat) -> None:
        super().__init__()
        self.pool = node.pool
        self.cls = nn.Parameter(torch.zeros(seat.stream)) if node.pool == "cls" else None
        texts, activation = (1, node.activation) if isinstance(node, Classify) else (2, "relu")
        self.maps = _Maps([texts * seat.out, *node.hidden, node.classes], activation)


@operator(Classify)
class ClassifyHead(_Pooled):
    """One of several classes for the whole text: scores (b, classes)."""

    def forward(self, x: Tensor, mask: Tensor | None, embedding: EmbeddingModule) -> Tensor:
        return self.maps(pooled(x, mask, self.pool))


@operator(Match)
class MatchHead(_Pooled):
    """Whether two texts belong together: their vectors stand one after the other in the batch."""

    def forward(self, x: Tensor, mask: Tensor | None, embedding: EmbeddingModule) -> Tensor:
        first, second = pooled(x, mask, self.pool).chunk(2)
        return self.maps(torch.cat((first, second), dim=-1))


@operator(Tag)
class TagHead(HeadModule):
    """One of several tags for each token: scores (b, n, tags)."""

    def __init__(self, node: Tag, seat: Seat) -> None:
        super().__init__()
        self.map = nn.Linear(seat.out, node.tags)

    def forward(self, x: Tensor, mask: Tensor | None, embedding: EmbeddingModule) -> Tensor:
        return self.map(x)


@operator(Span)
class SpanHead(HeadModule):
    """Scores for the beginning and the end of an answer (b, n, 2); padding gets -inf."""

    def __init__(self, node: Span, seat: Seat) -> None:
        super().__init__()
        self.map = nn.Linear(seat.out, 2)

    def forward(self, x: Tensor, mask: Tensor | None, embedding: EmbeddingModule) -> Tensor:
        scores = self.map(x)
        return scores if mask is None else scores.masked_fill(~mask.unsqueeze(-1), float("-inf"))


def pooled(x: Tensor, mask: Tensor | None, how: str) -> Tensor:
    """One vector per text (b, w)."""
    if how in ("first", "cls"):
        return x[:, 0]
    if mask is None:
        return x[:, -1] if how == "last" else x.mean(dim=1)
    if how == "last":
        places = torch.arange(x.shape[1], device=x.device).expand_as(mask)
        last = places.masked_fill(~mask, 0).amax(dim=1)
        return x[torch.arange(x.shape[0], device=x.device), last]
    weight = mask.unsqueeze(-1).to(x.dtype)
    return (x * weight).sum(dim=1) / weight.sum(dim=1).clamp(min=1)
