"""What an operator is, how it is found, and what it may look at while it runs.

An operator is the torch module of one node of the language. Its file registers it; ``Builder``
turns a node and the place it stands in into a module.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from importlib import import_module
from pkgutil import walk_packages
from typing import Any, TypeVar

import torch
from jaxtyping import Float
from torch import Tensor, nn

from formwright.arch.node import Node, load_plugins
from formwright.arch.site import Site
from formwright.errors import SpecError, UnknownName
from formwright.ops.past import Past

OperatorType = TypeVar("OperatorType", bound=type[nn.Module])

_OPERATORS: dict[type[Node], type[nn.Module]] = {}
_LOADED = False


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

    def register(cls: OperatorType) -> OperatorType:
        if node_class in _OPERATORS:
            taken = _OPERATORS[node_class].__module__
            raise SpecError(f"Node {node_class.NAME!r} is already implemented by {taken}.")
        _OPERATORS[node_class] = cls
        return cls

    return register


def operator_class(node: Node | type[Node]) -> type[nn.Module]:
    """The module class of a node."""
    load_operators()
    wanted = node if isinstance(node, type) else type(node)
    if wanted not in _OPERATORS:
        raise UnknownName("operator", wanted.NAME, (n.NAME for n in _OPERATORS))
    return _OPERATORS[wanted]


def operators() -> dict[type[Node], type[nn.Module]]:
    """Every registered operator by its node class."""
    load_operators()
    return dict(_OPERATORS)


def load_operators() -> None:
    """Import every file of this room, and the plug-ins that installed packages announce."""
    global _LOADED  # noqa: PLW0603  # import state is process-wide by nature
    if _LOADED:
        return
    _LOADED = True
    package = import_module("formwright.ops")
    for module in walk_packages(package.__path__, "formwright.ops."):
        import_module(module.name)
    load_plugins()


def masked(x: Float[Tensor, "b n width"], ctx: Context) -> Float[Tensor, "b n width"]:
    """The stream with padding set to zero, so that neighbours cannot see it."""
    return x if ctx.mask is None else x * ctx.mask.unsqueeze(-1).to(x.dtype)


def ones_like_tokens(x: Tensor) -> Tensor:
    """A mask in which every token of a stream is real."""
    return torch.ones(x.shape[:2], dtype=torch.bool, device=x.device)
