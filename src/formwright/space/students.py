"""Students of a teacher: fewer of its layers, the first of its channels, heads and inner units.

Paper: AutoDistil, Xu et al. 2022, https://arxiv.org/abs/2201.12507. All layers of a student have
one shape; heads keep the channels that they have in the teacher, so that attention is as wide as
its heads are many, whatever the width of the stream; layer i of l is the teacher's floor(i L / l).
Differs from the paper: the teacher may be any stack of equal layers, causal ones too, and where its
embedding has a size of its own, that may be open as well. With ``which="to_last"`` every student
ends with the teacher's last layer, whose relations it learns.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

from formwright.arch.architecture import Architecture
from formwright.arch.attention import Attention
from formwright.arch.frame import Features, Frame
from formwright.arch.layer import FeedForward, Residual
from formwright.arch.style import style
from formwright.errors import InputError
from formwright.space.choice import Derived, LayerMap, OneOf, Repeat, stack_of
from formwright.space.registry import published_space
from formwright.space.tree import TreeSpace

PAPER = "https://arxiv.org/abs/2201.12507"
BERT_FRAME = Frame(vocab=30_522, length=512, head=Features(pooler=True))
_SHARED = ("width", "ratio", "heads")  # one shape for all layers


@dataclass(frozen=True)
class Grid:
    """The sizes that students may have, each rising.

    Args:
        layers: Layers, each of attention and feed-forward; no number between is left out.
        width: Channels of the stream.
        ratio: Width inside feed-forwards over that of the stream.
        heads: Of every attention.
        embedding: Of the embedding, where the teacher's has a size of its own.
    """

    layers: tuple[int, ...]
    width: tuple[int, ...]
    ratio: tuple[float, ...]
    heads: tuple[int, ...]
    embedding: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        for field in fields(self):
            values = getattr(self, field.name)
            empty = not values and field.name != "embedding"
            if empty or list(values) != sorted(set(values)) or any(v <= 0 for v in values):
                raise InputError(f"{field.name}={values} must be rising numbers above 0.")
        if self.layers != tuple(range(self.layers[0], self.layers[-1] + 1)):
            raise InputError(f"layers={self.layers} must leave no number between them out.")

    @property
    def size(self) -> int:
        """How many students there are."""
        embedding = max(1, len(self.embedding))
        rest = len(self.width) * len(self.ratio) * len(self.heads)
        return len(self.layers) * rest * embedding


# Low, high and step of the paper's table: 4 of each, 256 students.
TINY = Grid((4, 5, 6, 7), (128, 160, 192, 224), (2.0, 2.5, 3.0, 3.5), (7, 8, 9, 10))
SMALL = Grid((9, 10, 11, 12), (256, 288, 320, 352), (2.5, 3.0, 3.5, 4.0), (7, 8, 9, 10))
BASE = Grid((9, 10, 11, 12), (544, 576, 608, 640), (2.5, 3.0, 3.5, 4.0), (9, 10, 11, 12))


@published_space("autodistil-tiny", PAPER)
def tiny(frame: Frame = BERT_FRAME) -> TreeSpace:
    """AutoDistil's smallest students of BERT base: 4 to 7 layers, width 128 to 224."""
    return student_space(bert(frame), TINY, name="autodistil-tiny")


@published_space("autodistil-small", PAPER)
def small(frame: Frame = BERT_FRAME) -> TreeSpace:
    """AutoDistil's small students of BERT base: 9 to 12 layers, width 256 to 352."""
    return student_space(bert(frame), SMALL, name="autodistil-small")


@published_space("autodistil-base", PAPER)
def base(frame: Frame = BERT_FRAME) -> TreeSpace:
    """AutoDistil's largest students of BERT base: 9 to 12 layers, width 544 to 640."""
    return student_space(bert(frame), BASE, name="autodistil-base")


def bert(frame: Frame = BERT_FRAME) -> Architecture:
    """The published teacher: 12 layers of 768 channels."""
    family = style("bert")
    unit = (family.letters["s"], family.letters["f"])
    return Architecture(stack_of(*unit * 12), family.backbone, frame=frame)


def student_space(
    teacher: Architecture, grid: Grid, *, name: str = "students", which: LayerMap = "spread"
) -> TreeSpace:
    """The students that a grid of sizes makes of a teacher.

    Args:
        teacher: A stack of layers that are all alike, attention first.
        grid: The sizes; none may exceed the teacher's.
        name: What to call it.
        which: Which of the teacher's layers a student stands for, as of ``Repeat``.
    """
    attention, feedforward, depth = unit_of(teacher)
    width = teacher.backbone.width
    _check(teacher, grid)
    own, inner = attention.inner, feedforward.inner
    assert isinstance(own, Attention)
    assert isinstance(inner, FeedForward)
    heads: dict[str, Any] = {"key": own.key_size(width)}
    if own.groups == own.heads:
        heads["heads"] = OneOf("heads", grid.heads)
    unit = (
        attention.replace(inner=own.replace(**heads)),
        feedforward.replace(
            inner=inner.replace(inner=Derived("width", OneOf("ratio", grid.ratio), rounding="down"))
        ),
    )
    low, high = grid.layers[0], grid.layers[-1]
    layers = Repeat("depth", unit, low, high, _SHARED, which, None if depth == high else depth)
    backbone = teacher.backbone.replace(width=OneOf("width", grid.width))
    if grid.embedding:
        embedding = teacher.backbone.embedding.replace(size=OneOf("embedding", grid.embedding))
        backbone = backbone.replace(embedding=embedding)
    return TreeSpace(Architecture(stack_of(layers), backbone, frame=teacher.frame), name=name)


def unit_of(teacher: Architecture) -> tuple[Residual, Residual, int]:
    """The attention and the feed-forward that a teacher is made of, and how often."""
    layers = teacher.layers.layers if teacher.encoder is None else ()
    attention, feedforward = layers[:2] if len(layers) > 1 else (None, None)
    fits = (
        isinstance(attention, Residual)
        and isinstance(attention.inner, Attention)
        and isinstance(feedforward, Residual)
        and isinstance(feedforward.inner, FeedForward)
        and layers == (attention, feedforward) * (len(layers) // 2)
    )
    if not fits:
        raise InputError(
            "The teacher is no row of equal layers, each of attention and feed-forward, so that no "
            "students can be cut out of it; give a BERT, a GPT-2, a Llama, or a model alike."
        )
    assert isinstance(attention, Residual)
    assert isinstance(feedforward, Residual)
    return attention, feedforward, len(layers) // 2


def shape_of(teacher: Architecture) -> Grid:
    """The teacher's own sizes, as a grid of one student."""
    attention, feedforward, depth = unit_of(teacher)
    assert isinstance(attention.inner, Attention)
    assert isinstance(feedforward.inner, FeedForward)
    width, size = teacher.backbone.width, teacher.backbone.embedding.size
    ratio = feedforward.inner.inner / width
    embedding = () if size is None else (size,)
    return Grid((depth,), (width,), (ratio,), (attention.inner.heads,), embedding)


def shares_of(teacher: Architecture, shares: Sequence[float], *, multiple: int = 4) -> Grid:
    """Sizes that are shares of the teacher's: for teachers that no paper has cut.

    Args:
        teacher: Whose students they are to be.
        shares: From 0 to 1, rising, of width, heads and inner width alike; of layers every number
            between the least and the most.
        multiple: Channels that a width is rounded to.
    """
    whole = shape_of(teacher)
    (depth,), (width,), (ratio,), (heads,) = whole.layers, whole.width, whole.ratio, whole.heads
    turned = 2 if teacher.backbone.position is not None and teacher.backbone.position.turns else 1
    step = max(multiple, turned) if width % multiple == 0 else 1
    low, high = (max(1, round(depth * share)) for share in (shares[0], shares[-1]))
    return Grid(
        tuple(range(low, high + 1)),
        _rising(max(step, round(width * share / step) * step) for share in shares),
        tuple(sorted({ratio * share for share in shares})),
        _rising(max(1, round(heads * share)) for share in shares),
        whole.embedding,
    )


def hull(grids: Iterable[Grid]) -> Grid:
    """One grid with the sizes of several: what one supernet for all of them must hold."""
    rows = list(grids)
    layers = [n for grid in rows for n in grid.layers]
    found = {
        name: tuple(sorted({value for grid in rows for value in getattr(grid, name)}))
        for name in ("width", "ratio", "heads", "embedding")
    }
    return Grid(tuple(range(min(layers), max(layers) + 1)), **found)


def _rising(values: Iterable[int]) -> tuple[int, ...]:
    return tuple(sorted(set(values)))


def _check(teacher: Architecture, grid: Grid) -> None:
    """Refuse students that are larger than their teacher."""
    whole = shape_of(teacher)
    for name in ("layers", "width", "heads", "embedding"):
        asked, most = getattr(grid, name), getattr(whole, name)
        if asked and not most:
            raise InputError(
                "The embedding of the teacher is as wide as its stream; leave embedding=() so that "
                "those of students are, too."
            )
        if asked and asked[-1] > most[-1]:
            raise InputError(
                f"Students with {name}={asked[-1]} do not fit into a teacher that has {most[-1]}; "
                "give smaller ones."
            )
    (inner,) = (whole.ratio[0] * whole.width[0],)
    if grid.width[-1] * grid.ratio[-1] > inner + 1e-6:
        raise InputError(
            f"Students {grid.width[-1]} wide with ratio={grid.ratio[-1]:g} need "
            f"{grid.width[-1] * grid.ratio[-1]:g} inner units of the teacher's {inner:g}; give "
            "smaller ones."
        )


# Shares of a teacher's sizes for three sub-spaces, as the paper's have them: of layers, then of
# width, heads and inner width.
_PARTS: dict[str, tuple[tuple[float, float], tuple[float, ...]]] = {
    "tiny": ((1 / 3, 0.6), (0.25, 0.375, 0.5)),
    "small": ((0.5, 1.0), (0.5, 0.625, 0.75)),
    "base": ((0.5, 1.0), (0.75, 0.875, 1.0)),
}


def sub_spaces(teacher: Architecture) -> dict[str, Grid]:
    """Three grids of students for a teacher that no paper has cut, from small to as large as it."""
    (depth,) = shape_of(teacher).layers
    found = {}
    for name, (layers, shares) in _PARTS.items():
        low, high = (max(1, round(depth * share)) for share in layers)
        found[name] = replace(shares_of(teacher, shares), layers=tuple(range(low, high + 1)))
    return found
