"""What an operator is, how it is found, and what it may look at while it runs.

An operator is the torch module of one node of the language. Its file registers it; ``Builder``
turns a node and the place it stands in into a module.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

import torch
from jaxtyping import Float
from torch import Tensor, nn

from formwright.arch import Node, Site
from formwright.ops.past import Past
from formwright.registry import Declared

OperatorType = TypeVar("OperatorType", bound=type[nn.Module])

# By the name of the node: every file of this room, and plug-ins.
operators: Declared[Any] = Declared("operator", "formwright.ops", "formwright.ops")


@dataclass
class Context:
    """What a layer may look at besides its input, in one forward pass.

    b batch, n new tokens, m tokens of the encoder's output
    """

    mask: Tensor | None = None  # (b, n) True where a token is real, None when all are
    source: Tensor | None = None  # (b, m, width) the encoder's output
    source_mask: Tensor | None = None  # (b, m)
    past: Past | None = None  # what earlier calls left behind
    position: nn.Module | None = None  # the stack's own part of the positions
    tables: dict[Any, Tensor] = field(default_factory=dict)  # made once, used by all layers

    @property
    def offset(self) -> int:
        """How many tokens came before this call."""
        return self.past.seen if self.past is not None else 0

    def table(self, key: Any, make: Callable[[], Tensor]) -> Tensor:
        """A tensor that all layers of this pass share, made by whoever asks first."""
        if torch.compiler.is_exporting():  # sizes are symbols then, which cannot be looked up
            return make()
        if key not in self.tables:
            self.tables[key] = make()
        return self.tables[key]


class Operator(nn.Module):
    """A layer: a stream in, a stream out."""

    def forward(self, x: Float[Tensor, "b n width"], ctx: Context) -> Float[Tensor, "b n out"]:
        """Map the stream; ``ctx`` holds masks, memory and positions."""
        raise NotImplementedError


@dataclass
class Builder:
    """Builds operators. A supernet builds with a subclass that knows what open nodes become.

    Args:
        dropout: On the result of every residual branch, inside feed-forwards, on embeddings.
        attention_dropout: On attention weights.
    """

    dropout: float = 0.0
    attention_dropout: float = 0.0
    _slots: int = 0

    def build(self, node: Node, site: Site) -> Any:
        """The module of a node at a place."""
        return operator_class(node)(node, site, self)

    def slot(self) -> int:
        """A number of its own for each module that remembers something between calls."""
        self._slots += 1
        return self._slots - 1


def operator(node_class: type[Node]) -> Callable[[OperatorType], OperatorType]:
    """Register the module that implements a node."""
    return operators(node_class.NAME)


def operator_class(node: Node) -> type[Any]:
    """The module class of a node."""
    return operators.get(node.NAME)


def masked(x: Float[Tensor, "b n width"], ctx: Context) -> Float[Tensor, "b n width"]:
    """The stream with padding set to zero, so that neighbours cannot see it."""
    return x if ctx.mask is None else x * ctx.mask.unsqueeze(-1).to(x.dtype)
