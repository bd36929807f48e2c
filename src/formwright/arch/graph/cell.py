"""Cells of the Evolved Transformer: blocks of two branches that read any earlier state.

State 0 is what enters the cell; block i makes state i. A branch takes a state, normalised or not,
through a layer and an activation; a block joins its two branches; what no branch reads is added
up and leaves the cell. Paper: https://arxiv.org/abs/1901.11117

Where the paper is silent, the authors' tensor2tensor code decides: a sum fills the narrower side
up with zeros on the right, a product with ones; a state is normalised once per cell, whoever
reads it; a dead branch leaves the other one alone, whatever the combiner.
Differs from the paper: a cell whose result is not as wide as its input ends in a dense map to
that width, in encoders too and after every cell (there: once, after the decoder's last); leaky
ReLU is torch's, of slope 0.01 (there: 0.2); swish is called silu; any layer may stand in a branch.
"""

from collections.abc import Iterator
from typing import Literal, NamedTuple

from formwright.arch.attention import Attention
from formwright.arch.conv import Convolution
from formwright.arch.layer import (
    ActivationKind,
    Identity,
    Layer,
    LayerNorm,
    Linear,
    Norm,
    kept_by_activation,
)
from formwright.arch.node import Node, NonNegative, Positive, field_types, node
from formwright.arch.site import Count, Load, Site
from formwright.errors import ShapeError

Combiner = Literal["add", "concat", "multiply"]


@node("dead")
class Dead(Node):
    """Stands for the layer of a branch that is not there."""


@node("branch")
class Branch(Node):
    """One side of a block.

    ``input`` is the number of an earlier state. ``width`` is that of the result, in units of the
    cell, for layers that leave it open (``conv(3)``, ``attention(8)``, ``glu``); others, such as
    ``identity``, ``feedforward(64)`` or ``linear(48)``, give the width they always give.
    """

    input: NonNegative
    layer: Layer | Dead
    norm: bool = False
    width: Positive = 2
    activation: ActivationKind = "none"

    @property
    def is_dead(self) -> bool:
        """Whether the branch gives nothing."""
        return isinstance(self.layer, Dead)

    @property
    def passes_on(self) -> bool:
        """Whether the branch gives the state itself."""
        return isinstance(self.layer, Identity) and not self.norm and self.activation == "none"


@node("block")
class Block(Node):
    """Two branches and how they are joined; at most one of them is dead."""

    left: Branch
    right: Branch = Branch(0, Dead())
    combine: Combiner = "add"

    def living(self) -> tuple[Branch, ...]:
        """The branches that give something."""
        return tuple(branch for branch in (self.left, self.right) if not branch.is_dead)


class PlacedBranch(NamedTuple):
    """A living branch with its layer at its place."""

    branch: Branch
    layer: Layer  # its output width filled in
    site: Site  # where the layer stands
    width: int  # channels of the result


class PlacedBlock(NamedTuple):
    """A block with its living branches, one or two."""

    branches: tuple[PlacedBranch, ...]
    combine: Combiner
    width: int  # channels of the state it makes


class CellPlan(NamedTuple):
    """A cell with all widths settled: what is counted and built."""

    blocks: tuple[PlacedBlock, ...]
    widths: tuple[int, ...]  # channels of every state
    ends: tuple[int, ...]  # states that no branch reads
    resized: Linear | None  # the map back to the input's width

    @property
    def width(self) -> int:
        """Channels of the sum of all ends."""
        return max(self.widths[state] for state in self.ends)

    def normed(self) -> list[int]:
        """States that some branch reads normalised."""
        living = (placed.branch for block in self.blocks for placed in block.branches)
        return sorted({branch.input for branch in living if branch.norm})


@node("cell")
class Cell(Layer):
    """Blocks that read each other's states; its result is as wide as its input.

    ``unit`` is the step of all widths in channels: half the input's width when not given, so
    that branches of 1 to 10 units have d/2 to 5d channels.
    """

    paper = "https://arxiv.org/abs/1901.11117"
    complexity = "that of its layers"

    blocks: tuple[Block, ...]
    unit: Positive | None = None
    norm: Norm = LayerNorm()

    def out_width(self, site: Site) -> int:
        self.plan(site)
        return site.width

    def plan(self, site: Site) -> CellPlan:
        """Every layer at its place; ``ShapeError`` names the block that does not fit."""
        if not self.blocks:
            raise ShapeError("cell([]) has no block; give it at least one.")
        unit = self._unit(site)
        placed: list[PlacedBlock] = []
        widths = [site.width]
        for number, block in enumerate(self.blocks, start=1):
            try:
                placed.append(_placed_block(block, widths, unit, site))
            except ShapeError as error:
                raise ShapeError(f"block {number} of {len(self.blocks)}: {error}") from None
            widths.append(placed[-1].width)
        ends = ends_of(self.blocks)
        out = max(widths[state] for state in ends)
        resized = None if out == site.width else Linear(site.width)
        return CellPlan(tuple(placed), tuple(widths), ends, resized)

    def placed(self, site: Site) -> Iterator[tuple[Layer, Site]]:
        """The layer of each living branch with the place it stands in."""
        for block in self.plan(site).blocks:
            for branch in block.branches:
                yield branch.layer, branch.site

    def count(self, site: Site, load: Load) -> Count:
        plan = self.plan(site)
        parts = [layer.count(place, load) for layer, place in self.placed(site)]
        parts += [self.norm.count(site.at(plan.widths[state]), load) for state in plan.normed()]
        if plan.resized is not None:
            parts.append(plan.resized.count(site.at(plan.width), load))
        kept = _Keeping(self.norm, site, load).of(plan)
        return Count(sum(part.params for part in parts), sum(part.flops for part in parts), kept)

    def _unit(self, site: Site) -> int:
        if self.unit is None and site.width % 2:
            raise ShapeError(
                f"a cell of {site.width} channels cannot be measured in halves of its width; "
                "give it unit=..., the channels of one step."
            )
        return self.unit or site.width // 2


def ends_of(blocks: tuple[Block, ...]) -> tuple[int, ...]:
    """The states that no living branch reads; their sum leaves the cell."""
    read = {branch.input for block in blocks for branch in block.living()}
    return tuple(state for state in range(len(blocks) + 1) if state not in read)


def has_residual_path(cell: Cell) -> bool:
    """Whether what enters the cell can leave it untouched, added to what the layers make."""
    untouched = {0}
    for number, block in enumerate(cell.blocks, start=1):
        living = block.living()
        added = block.combine == "add" or len(living) == 1
        if added and any(b.passes_on and b.input in untouched for b in living):
            untouched.add(number)
    return any(state in untouched for state in ends_of(cell.blocks))


def attends_to_source(cell: Cell) -> bool:
    """Whether a living branch looks at the encoder's output."""
    return any(
        isinstance(part, Attention) and part.over == "source"
        for block in cell.blocks
        for branch in block.living()
        for _, part in branch.walk()
    )


def simplest(cell: Cell) -> Cell:
    """The cell without what it does not use, so that equal cells look equal.

    Dead branches say nothing and stand on the right, widths that decide nothing are at their
    default, and blocks that only pass a state on are left out.
    """
    blocks = [_plain_block(block) for block in cell.blocks]
    at = 0
    while at < len(blocks):
        shorter = _without(blocks, at)
        blocks, at = (blocks, at + 1) if shorter is None else (shorter, 0)
    normed = any(branch.norm for block in blocks for branch in block.living())
    return cell.replace(blocks=tuple(blocks), norm=cell.norm if normed else LayerNorm())


def has_open_width(layer: Layer) -> bool:
    """Whether a layer takes the output width its branch asks for."""
    if isinstance(layer, Attention) and not layer.project_out:
        return False
    return "out" in field_types(type(layer)) and layer.values()["out"] is None


# --- widths ------------------------------------------------------------------------------


def _placed_block(block: Block, widths: list[int], unit: int, site: Site) -> PlacedBlock:
    sides = {"left": block.left, "right": block.right}
    placed: list[PlacedBranch] = []
    for side, branch in sides.items():
        if branch.is_dead:
            continue
        try:
            placed.append(_placed_branch(branch, widths, unit, site))
        except ShapeError as error:
            raise ShapeError(f"{side} branch: {error}") from None
    if not placed:
        raise ShapeError("both branches are dead; at most one may be.")
    channels = [branch.width for branch in placed]
    width = sum(channels) if block.combine == "concat" else max(channels)
    return PlacedBlock(tuple(placed), block.combine, width)


def _placed_branch(branch: Branch, widths: list[int], unit: int, site: Site) -> PlacedBranch:
    layer, last = branch.layer, len(widths) - 1
    assert isinstance(layer, Layer)
    if branch.input > last:
        raise ShapeError(
            f"it reads state {branch.input}, but only states 0 to {last} come before; "
            "0 is what enters the cell."
        )
    place = site.at(widths[branch.input])
    if isinstance(layer, Attention) and layer.key is None and place.width % layer.heads:
        raise ShapeError(
            f"{layer.heads} heads cannot share {place.width} channels evenly; "
            "choose heads that divide the width, or give key=..."
        )
    if has_open_width(layer):
        layer = layer.replace(out=branch.width * unit)
    return PlacedBranch(branch, layer, place, layer.out_width(place))


# --- the simplest form -------------------------------------------------------------------


def _plain_block(block: Block) -> Block:
    living = [_plain_branch(branch) for branch in block.living()]
    if len(living) == 1:
        return Block(living[0])
    return block.replace(left=living[0], right=living[1]) if living else block


def _plain_branch(branch: Branch) -> Branch:
    if isinstance(branch.layer, Layer) and not has_open_width(branch.layer):
        return branch.replace(width=2)
    return branch


def _without(blocks: list[Block], at: int) -> list[Block] | None:
    """The blocks without the one at ``at``, if it is one that only passes a state on.

    Its state must not be the only thing that keeps the other out of (or in) the sum at the end,
    nor may both be normalised: they would come to share what each had for itself.
    """
    living = blocks[at].living()
    if len(blocks) == 1 or len(living) != 1 or not living[0].passes_on:
        return None
    copy, original = at + 1, living[0].input
    rest = [*blocks[:at], *blocks[at + 1 :]]
    others = [branch for block in rest for branch in block.living()]
    copy_is_read = any(branch.input == copy for branch in others)
    original_is_read = any(branch.input == original for branch in others)
    if original_is_read and not copy_is_read:
        return None
    if {copy, original} <= {branch.input for branch in others if branch.norm}:
        return None

    def moved(branch: Branch) -> Branch:
        if branch.is_dead or branch.input < copy:
            return branch
        return branch.replace(input=original if branch.input == copy else branch.input - 1)

    return [block.replace(left=moved(block.left), right=moved(block.right)) for block in rest]


# --- what training keeps -----------------------------------------------------------------


class _Keeping:
    """Counts the numbers kept for the backward pass, each tensor once.

    States are read by several branches, and what one keeps the other need not. Convolutions
    keep a copy of their own, with zeros around it.
    """

    def __init__(self, norm: Norm, site: Site, load: Load) -> None:
        self.norm, self.site, self.load = norm, site, load
        self.tensors: dict[str, int] = {}  # name of a tensor to its channels
        self.inside = 0  # numbers that layers keep besides what they read

    def of(self, plan: CellPlan) -> int:
        states = ["entry"]
        for number, block in enumerate(plan.blocks, start=1):
            results = [
                self._branch(placed, states[placed.branch.input], f"{number}.{side}")
                for side, placed in enumerate(block.branches)
            ]
            if len(results) == 2 and block.combine == "multiply":
                for name, placed in zip(results, block.branches, strict=True):
                    filled = "" if placed.width == block.width else " filled"
                    self.tensors[name + filled] = block.width
            states.append(results[0] if len(results) == 1 else f"{number}")
        if plan.resized is not None:
            name = states[plan.ends[0]] if len(plan.ends) == 1 else "sum"
            self.tensors[name] = plan.width
        return self.inside + self.load.tokens * sum(self.tensors.values())

    def _branch(self, placed: PlacedBranch, read: str, name: str) -> str:
        """The name of the branch's result."""
        channels = placed.site.width
        if placed.branch.norm:
            if read + " normed" not in self.tensors:
                kept = self.norm.count(self.site.at(channels), self.load).kept
                self.inside += kept - self.load.tokens * channels
                self.tensors[read], self.tensors[read + " normed"] = channels, 0
            read += " normed"
        self.inside += placed.layer.count(placed.site, self.load).kept
        if placed.layer.keeps_input() and not isinstance(placed.layer, Convolution):
            self.inside -= self.load.tokens * channels
            self.tensors[read] = channels
        result, function = name, placed.branch.activation
        if isinstance(placed.layer, Identity):
            result = read
        if function == "none":
            return result
        activated = f"{name} {function}"
        self.tensors[result if kept_by_activation(function) else activated] = placed.width
        return activated
