"""Small operators as slices of large ones: which rows and columns of which tensor.

Both are built from their nodes at their places; the small one's tensors are the first rows and
columns of the large one's. Where an axis is made of several factors, as that of queries is of heads
and their channels, it is the first of each. A rule names the axes of an operator's tensors:

    {"query": "(heads key) stream", "out": "stream (heads value)"}

One rule serves every size that may be open: those of the operator itself and the width of the
stream around it. So a space decides what a narrower stream means for attention: a plain number of
heads stays and each head is cut; ``heads=Derived("width", 1 / 64)`` keeps the first heads whole.
"""

import math
import re
from collections.abc import Callable, Iterator, Mapping
from fnmatch import fnmatch
from typing import Any, NamedTuple

from torch import Tensor, nn

from formwright.arch.attention import Attention
from formwright.arch.conv import DepthwiseConv, ReducedConv
from formwright.arch.frame import (
    Classify,
    Embedding,
    Features,
    LanguageModel,
    MaskedLM,
    Match,
    Span,
    Tag,
)
from formwright.arch.graph.cell import Cell
from formwright.arch.graph.formula import Formula
from formwright.arch.graph.program import Program
from formwright.arch.layer import GLU, FeedForward, LayerNorm, Parallel, PrimerNorm, RMSNorm
from formwright.arch.node import Node
from formwright.arch.position import Learned
from formwright.arch.site import Site
from formwright.errors import SpecError
from formwright.supernet.node import OpenNorm

At = tuple[Node, Site]  # what a module was built from, and where
Sizes = Mapping[str, int | tuple[int, ...]]  # of factors; several numbers where one is cut apart
Axis = tuple[tuple[str, int], ...]  # the factors of an axis: what each is, and its size
Factors = tuple[tuple[int, ...], ...]  # only the sizes, axis by axis

_RULES: dict[type[Node], tuple[Mapping[str, str], Callable[[Any, Site], Sizes]]] = {}
_AT = "at"


def slicing(
    node_class: type[Node], axes: Mapping[str, str]
) -> Callable[[Callable[[Any, Site], Sizes]], Callable[[Any, Site], Sizes]]:
    """Register what the axes of an operator's tensors are made of, and the sizes of the factors.

    Args:
        node_class: The operator's node.
        axes: Name of a tensor, without ``.weight`` or ``.bias`` and perhaps with ``*``, to its axes
            in order, factors of one axis in brackets. What is not named has plain axes. A vector
            has the first axis only.
    """

    def register(sizes: Callable[[Any, Site], Sizes]) -> Callable[[Any, Site], Sizes]:
        _RULES[node_class] = axes, sizes
        return sizes

    return register


def remember(module: nn.Module, node: Node, site: Site) -> None:
    """Let a module know what it was built from, and where."""
    module.__dict__[_AT] = node, site


def origin(module: nn.Module) -> At | None:
    """What a module was built from, if it knows."""
    found: At | None = module.__dict__.get(_AT)
    return found


def axes_of(name: str, tensor: Tensor, at: At | None) -> tuple[Axis, ...]:
    """The axes of an operator's tensor."""
    rule = _RULES.get(type(at[0])) if at is not None else None
    patterns = rule[0] if rule is not None else {}
    stem = re.sub(r"(^|\.)(weight|bias)$", "", name)
    found = next((axes for key, axes in patterns.items() if fnmatch(stem, key)), None)
    if at is None or rule is None or found is None:
        return tuple((("", size),) for size in tensor.shape)
    known = rule[1](*at)
    words = [match[0].strip("()").split() for match in re.finditer(r"\([^)]*\)|\S+", found)]
    return tuple(
        tuple((word, part) for word in axis for part in _parts(known.get(word, size)))
        for axis, size in zip(words, tensor.shape, strict=False)
    )


class Owned(NamedTuple):
    """A tensor of a model, seen from the operator that it belongs to."""

    name: str  # in the model
    tensor: Tensor
    at: At | None  # where the operator stands
    own: str  # the tensor's name in the operator

    @property
    def axes(self) -> tuple[Axis, ...]:
        """What its axes are made of."""
        return axes_of(self.own, self.tensor, self.at)


def owned(model: nn.Module) -> Iterator[Owned]:
    """Every weight and buffer, with the innermost module around it that knows what it is."""
    places = _places(model)
    for name, tensor in _tensors(model):
        path = name.rpartition(".")[0]
        while path and path not in places:
            path = path.rpartition(".")[0]
        own = name.removeprefix(f"{path}.") if path else name
        yield Owned(name, tensor, places.get(path), own)


class Slices:
    """How the tensors of a small module are cut out of those of a large one of the same form."""

    def __init__(self, large: nn.Module, small: nn.Module) -> None:
        places = _places(large)
        for path, (node, site) in _places(small).items():
            same = path in places and places[path][1].width == site.width
            if not same and (why := _in_one_piece(node)):
                raise SpecError(f"{node.NAME} cannot be sliced: {why}. {_ADVICE}")
        whole = {found.name: found for found in owned(large)}
        self._cuts: list[tuple[str, Factors, Factors]] = []
        for found in owned(small):
            if found.name not in whole:
                raise SpecError(
                    f"{found.name} is there in a small size but not in the largest, so there is "
                    f"nothing to slice. {_ADVICE}"
                )
            of, left = whole[found.name].axes, found.axes
            _check(found, of, left)
            self._cuts.append((found.name, _plain(of), _plain(left)))

    def __call__(self, large: nn.Module) -> dict[str, Tensor]:
        """The weights and buffers of the small module: views of the large one's where they can."""
        whole = dict(_tensors(large))
        return {name: cut(whole[name], of, left) for name, of, left in self._cuts}


_ADVICE = "Fix the decision it follows from: Supernet(space, fixed={name: value})."


def _in_one_piece(node: Node) -> str:
    """Why the first channels of the stream are not enough for a layer; empty where they are."""
    concat = (isinstance(node, Parallel) and node.join == "concat") or (
        isinstance(node, Cell) and any(block.combine == "concat" for block in node.blocks)
    )
    if concat:
        return "it lays streams side by side, and the first channels would be those of one"
    if isinstance(node, Program | ReducedConv):
        return "its weights are dealt out anew in each width"
    return ""


def _check(small: Owned, whole: tuple[Axis, ...], kept: tuple[Axis, ...]) -> None:
    name = small.own if small.at is None else f"{small.at[0].NAME} cannot be sliced: {small.own}"
    for of, left in zip(whole, kept, strict=True):
        if len(of) != len(left):
            raise SpecError(f"{name} has two halves, so no size may be odd. {_ADVICE}")
        for (what, most), (_, size) in zip(of, left, strict=True):
            if size > most:
                raise SpecError(
                    f"{name} needs {size} {what or 'channels'} where the largest has {most}. "
                    f"{_ADVICE}"
                )


def cut(x: Tensor, whole: Factors, kept: Factors) -> Tensor:
    """The first of each factor along each axis."""
    for axis, (of, left) in enumerate(zip(whole, kept, strict=True)):
        if of == left:
            continue
        if of[1:] == left[1:]:
            x = x.narrow(axis, 0, math.prod(left))
            continue
        x = x.unflatten(axis, of)
        for inner, size in enumerate(left):
            x = x.narrow(axis + inner, 0, size)
        x = x.flatten(axis, axis + len(left) - 1)
    return x


def _plain(axes: tuple[Axis, ...]) -> Factors:
    return tuple(tuple(size for _, size in axis) for axis in axes)


def _parts(size: int | tuple[int, ...]) -> tuple[int, ...]:
    return (size,) if isinstance(size, int) else size


def _places(model: nn.Module) -> dict[str, At]:
    """What modules were built from, by their path."""
    return {path: at for path, module in model.named_modules() if (at := origin(module))}


def _tensors(module: nn.Module) -> Iterator[tuple[str, Tensor]]:
    yield from module.named_parameters()
    yield from module.named_buffers()


# --- the rules ------------------------------------------------------------------------------


def _no_sizes(node: Any, site: Site) -> Sizes:
    return {}


@slicing(
    Attention,
    {
        "query": "(heads key) stream",
        "key": "(groups key) stream",
        "value": "(groups value) stream",
        "query_norm": "key",
        "key_norm": "key",
        "query_conv": "(heads key) taps",
        "key_conv": "(groups key) taps",
        "value_conv": "(groups value) taps",
        "solo": "(heads key) (heads key)",
        "out": "stream (heads value)",
        "position.project": "(heads key) waves",
        "position.content": "heads key",
        "position.distance": "heads key",
        "position": "buckets heads",
        "mechanism.projection": "features key",
    },
)
def _attention(node: Attention, site: Site) -> Sizes:
    key, waves = node.key_size(site.width), site.width
    turned = site.position is not None and site.position.turns and node.sees(site.position)
    return {
        "heads": node.heads,
        "groups": node.groups,
        "key": _halves(key) if turned else key,  # pairs that are turned stay pairs
        "value": node.value_size(site.width),
        "waves": _halves(waves),  # sines, then cosines
    }


@slicing(Formula, {"projections.*": "(heads key) stream", "out": "stream (heads key)"})
def _formula(node: Formula, site: Site) -> Sizes:
    return {"heads": node.heads, "key": node.key_size(site.width)}


@slicing(GLU, {"map": "(halves out) stream"})
def _glu(node: GLU, site: Site) -> Sizes:
    return {"halves": 2, "out": node.out_width(site)}


@slicing(Match, {"cls": "size", "maps.maps.0": "hidden (texts stream)"})
def _match(node: Match, site: Site) -> Sizes:
    return {"texts": 2, "stream": site.width}


def _halves(size: int) -> int | tuple[int, int]:
    return size if size % 2 else (2, size // 2)


_OUTPUT = {
    "output.tables.*": "symbols size",
    "output.projections.*": "size stream",
    "output.cluster_weight": "clusters size",
}
_PLAIN_AXES: dict[type[Node], Mapping[str, str]] = {
    FeedForward: {"up": "inner stream", "gate": "inner stream", "down": "stream inner"},
    **{norm: {"": "stream"} for norm in (LayerNorm, RMSNorm, PrimerNorm, OpenNorm)},
    DepthwiseConv: {"": "stream taps"},
    Learned: {"": "positions size"},
    Embedding: {"tables.*": "symbols size", "projections.*": "stream size", "segments": "two size"},
    LanguageModel: _OUTPUT,
    MaskedLM: {**_OUTPUT, "dense": "stream stream", "norm": "stream"},
    Classify: {"cls": "size", "maps.maps.0": "hidden stream"},
    Features: {"pooler": "stream stream"},
    Tag: {"map": "tags stream"},
    Span: {"map": "ends stream"},
}
_RULES |= {node_class: (axes, _no_sizes) for node_class, axes in _PLAIN_AXES.items()}
