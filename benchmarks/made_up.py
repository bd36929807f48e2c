"""A space for benchmarks of the search itself, in which nothing is trained."""

from typing import Any

from formwright.arch import Architecture, Attention, Decoder, FeedForward, Residual, Stack
from formwright.space import OneOf, Span, TreeSpace


def heads_and_widths(layers: int) -> TreeSpace:
    """Two decisions in each layer."""
    stack: list[Any] = []
    for i in range(layers):
        heads: Any = OneOf(f"heads{i}", (1, 2, 4, 8))
        inner: Any = Span(f"inner{i}", 64, 1024, 64)
        stack += [Residual(Attention(heads=heads)), Residual(FeedForward(inner))]
    return TreeSpace(Architecture(Stack(tuple(stack)), Decoder(64)))
