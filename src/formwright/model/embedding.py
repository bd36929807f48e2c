"""Symbols to vectors, and vectors to scores per symbol, plain and adaptive.

Papers: adaptive input, Baevski and Auli 2018, https://arxiv.org/abs/1809.10853; adaptive
softmax, Grave et al. 2016, https://arxiv.org/abs/1609.04309, in the tied form of Transformer-XL.

b batch, n token, w width, v symbol
"""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from formwright.arch.frame import Embedding, Seat
from formwright.arch.site import Site
from formwright.ops.base import Builder, Context


class EmbeddingModule(nn.Module):
    """The entrance: token vectors, segments, norm, projection to the width of the layers."""

    def __init__(self, node: Embedding, vocab: int, width: int, builder: Builder) -> None:
        super().__init__()
        self.edges = [0, *node.clusters, vocab]
        self.scale = width**0.5 if node.scale else 1.0
        shapes = node.cluster_shapes(vocab, width)
        self.tables = nn.ParameterList(torch.empty(symbols, size) for symbols, size in shapes)
        self.projections = nn.ModuleList(
            nn.Linear(size, width, bias=not node.clusters)
            for _, size in shapes
            if node.is_projected(width)
        )
        stream = node.stream(width)
        self.width = width
        self.segments = nn.Parameter(torch.empty(node.segments, stream)) if node.segments else None
        site = Site(width=stream)
        self.norm = builder.build(node.norm, site) if node.norm is not None else None
        self.dropout = nn.Dropout(builder.dropout) if builder.dropout else None

    def look_up(self, tokens: Tensor) -> Tensor:
        """Token vectors (b, n, stream), before positions are added."""
        if len(self.tables) == 1:
            return F.embedding(tokens, self.tables[0]) * self.scale
        found = self.tables[0].new_zeros(*tokens.shape, self.width)
        for rank, table in enumerate(self.tables):
            low, high = self.edges[rank], self.edges[rank + 1]
            rows = ((tokens >= low) & (tokens < high)).nonzero(as_tuple=True)
            vectors = F.embedding(tokens[rows] - low, table)
            if len(self.projections):
                vectors = self.projections[rank](vectors)
            found = found.index_put(rows, vectors)
        return found * self.scale

    def finish(self, x: Tensor, segments: Tensor | None) -> Tensor:
        """After positions were added: segments, norm, dropout, projection."""
        if self.segments is not None:
            kinds = torch.zeros_like(x[..., 0], dtype=torch.long) if segments is None else segments
            x = x + F.embedding(kinds, self.segments)
        if self.norm is not None:
            x = self.norm(x, Context())
        if self.dropout is not None:
            x = self.dropout(x)
        if len(self.tables) == 1 and len(self.projections):
            x = self.projections[0](x)
        return x


class OutputLayer(nn.Module):
    """Scores per symbol. Tied weights stay with the embedding, which is passed in each call."""

    def __init__(self, node: Embedding, seat: Seat) -> None:
        super().__init__()
        self.edges = [0, *node.clusters, seat.vocab]
        shapes = node.cluster_shapes(seat.vocab, seat.width)
        projected = node.is_projected(seat.width)
        self.projected, self.vocab = projected, seat.vocab
        own = [not node.tied or seat.out != seat.width for _ in shapes]
        if node.clusters:
            own[0] = True  # Transformer-XL ties all projections but the first
        self.tables = nn.ParameterList(
            torch.empty(symbols, size) for symbols, size in shapes if not node.tied
        )
        self.projections = nn.ModuleDict(
            {
                str(i): nn.Linear(seat.out, size, bias=False)
                for i, (_, size) in enumerate(shapes)
                if projected and own[i]
            }
        )
        self.bias = nn.Parameter(torch.zeros(seat.vocab)) if node.bias else None
        clusters = len(node.clusters)
        self.cluster_weight = (
            nn.Parameter(torch.empty(clusters, shapes[0][1])) if clusters else None
        )
        self.cluster_bias = nn.Parameter(torch.zeros(clusters)) if clusters else None

    def forward(self, x: Tensor, embedding: EmbeddingModule) -> Tensor:
        """Scores of all symbols (b, n, v); adaptive ones are log-probabilities."""
        if self.cluster_weight is None:
            return self._cluster_scores(x, 0, embedding)
        head = self.frequent(x, embedding).log_softmax(dim=-1)
        shortlist = self.edges[1]
        parts = [head[..., :shortlist]]
        for rank in range(1, len(self.edges) - 1):
            tail = self._cluster_scores(x, rank, embedding).log_softmax(dim=-1)
            parts.append(head[..., shortlist + rank - 1, None] + tail)
        return torch.cat(parts, dim=-1)

    def loss(self, x: Tensor, targets: Tensor, embedding: EmbeddingModule) -> Tensor:
        """Negative log-likelihood of each target, flat: x (rows, w), targets (rows,).

        An adaptive layer computes a rare cluster only for the rows whose target lies in it.
        """
        if self.cluster_weight is None:
            return F.cross_entropy(self._cluster_scores(x, 0, embedding), targets, reduction="none")
        head = self.frequent(x, embedding).log_softmax(dim=-1)
        shortlist = self.edges[1]
        losses = head.new_zeros(len(targets))
        for rank in range(len(self.edges) - 1):
            low, high = self.edges[rank], self.edges[rank + 1]
            (rows,) = ((targets >= low) & (targets < high)).nonzero(as_tuple=True)
            if rank == 0:
                found = -head[rows, targets[rows]]
            else:
                tail = self._cluster_scores(x[rows], rank, embedding)
                found = F.cross_entropy(tail, targets[rows] - low, reduction="none")
                found = found - head[rows, shortlist + rank - 1]
            losses = losses.index_put((rows,), found)
        return losses

    def frequent(self, x: Tensor, embedding: EmbeddingModule) -> Tensor:
        """Scores of the frequent symbols and, behind them, of the clusters of rare ones."""
        scores = self._cluster_scores(x, 0, embedding)
        assert self.cluster_weight is not None
        clusters = F.linear(self._down(x, 0, embedding), self.cluster_weight, self.cluster_bias)
        return torch.cat((scores, clusters), dim=-1)

    def _cluster_scores(self, x: Tensor, rank: int, embedding: EmbeddingModule) -> Tensor:
        tables = self.tables if len(self.tables) else embedding.tables
        low, high = self.edges[rank], self.edges[rank + 1]
        bias = self.bias[low:high] if self.bias is not None else None
        return F.linear(self._down(x, rank, embedding), tables[rank], bias)

    def _down(self, x: Tensor, rank: int, embedding: EmbeddingModule) -> Tensor:
        """From the layers' width to the size of a cluster's vectors."""
        if not self.projected:
            return x
        if str(rank) in self.projections:
            return self.projections[str(rank)](x)
        projection: Any = embedding.projections[rank]
        return F.linear(x, projection.weight.t())
