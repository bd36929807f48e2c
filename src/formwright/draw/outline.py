"""What a drawing needs to know of an architecture, as data. Nothing here knows of pixels.

Repeated stretches are folded exactly as ``writer.notation`` prints them, because the fold is
read from what it prints.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Literal, NamedTuple, get_args

from formwright.arch import Architecture, Encoder, Layer, Parallel, Residual, Site, Stack
from formwright.arch.graph.cell import Cell, PlacedBlock
from formwright.arch.writer import letter_of, notation, short
from formwright.draw.words import embedding_words, head_words, norm_words, position_words, words

Kind = Literal["attention", "cross-attention", "feed-forward", "convolution", "parallel", "other"]
KINDS: tuple[Kind, ...] = get_args(Kind)
Place = Literal["", "pre", "post", "after", "bare"]  # of the norm; "" outside any residual

_KIND_OF: dict[str, Kind] = {
    "s": "attention",
    "m": "cross-attention",
    "f": "feed-forward",
    "c": "convolution",
    "p": "parallel",
}
_STACK_NAMES = {"encoder": "encoder, reads the source", "decoder": "decoder, writes the target"}
_TOKEN = re.compile(r"\(|\)x(\d+)|[a-z]\d*")
_PLACE_WORDS = {"pre": "pre-norm", "post": "post-norm", "after": "norm after", "bare": "no norm"}


@dataclass(frozen=True)
class Block:
    """One layer: its words, its sizes, and what stands inside it, if anything.

    ``branches`` side by side; a single one is a series. ``place`` and ``norm`` are those of the
    residual branch around the layer.
    """

    kind: Kind
    letter: str
    title: str
    facts: tuple[str, ...]
    size: int
    place: Place = ""
    norm: str = ""
    branches: tuple["Run", ...] = ()

    @property
    def wrapping(self) -> str:
        """The residual branch in words; empty where there is none."""
        if not self.place:
            return ""
        return f"residual, {_PLACE_WORDS[self.place]}" + (f" ({self.norm})" if self.norm else "")

    @property
    def is_plain(self) -> bool:
        """Whether nobody expects a residual branch around it: a map, a norm, an identity.

        Cells have theirs inside.
        """
        return self.letter == "k" or (self.letter in "lni" and not self.branches)

    def said(self, common: str | None) -> tuple[str, ...]:
        """The facts, and the wrapping where it is not what the whole drawing has in common.

        ``None``: the block stands inside another, where no wrapping is expected.
        """
        if common is None:
            return (*self.facts, self.wrapping) if self.place else self.facts
        if self.place:
            return self.facts if self.wrapping == common else (*self.facts, self.wrapping)
        return self.facts if self.is_plain else (*self.facts, "no residual")

    def count(self) -> int:
        """Layers at or inside it that hold no other."""
        return sum(run.count() for run in self.branches) or 1

    def reads_source(self) -> bool:
        """Whether the encoder's output comes in here."""
        if self.branches:
            return any(block.reads_source() for run in self.branches for block in run.blocks())
        return self.kind == "cross-attention"


@dataclass(frozen=True)
class Run:
    """Parts one after the other, the whole of it ``times`` over.

    As one of the branches of a block: that many equal branches.
    """

    parts: tuple["Piece", ...]
    times: int = 1

    def blocks(self) -> Iterator[Block]:
        """Every block that is drawn, each once."""
        for part in self.parts:
            if isinstance(part, Run):
                yield from part.blocks()
            else:
                yield part

    def cells(self) -> Iterator[Block]:
        """Every layer as often as it occurs."""
        for _ in range(self.times):
            for part in self.parts:
                if isinstance(part, Run):
                    yield from part.cells()
                else:
                    yield part

    def count(self) -> int:
        """Innermost layers in it, repeats included."""
        return self.times * sum(part.count() for part in self.parts)


Piece = Block | Run


class Fact(NamedTuple):
    """A line about something outside the stacks: ``positions``, ``("rotary",)``."""

    label: str
    facts: tuple[str, ...]


@dataclass(frozen=True)
class StackOutline:
    """One stack of layers."""

    name: str
    run: Run
    wrapping: str  # what every residual branch has in common; empty when they differ
    norm: str  # after the last layer; empty without
    depth: int

    def cells(self) -> list[Block]:
        """Every layer in order."""
        return list(self.run.cells())


@dataclass(frozen=True)
class Outline:
    """An architecture as a drawing sees it."""

    notation: str
    family: str
    width: int
    entrance: tuple[Fact, ...]
    stacks: tuple[StackOutline, ...]
    exit: Fact
    facts: tuple[str, ...] = field(default=())  # "width 512", "32 layers", ...

    @property
    def heading(self) -> str:
        """One line that says what this is."""
        return ", ".join((self.family, *self.facts))

    @property
    def wrapping(self) -> str:
        """What every residual branch of every stack has in common; empty when they differ."""
        found = {stack.wrapping for stack in self.stacks}
        return found.pop() if len(found) == 1 else ""


def outline(arch: Architecture) -> Outline:
    """The outline of an architecture; parts that do not fit raise ``ShapeError``."""
    backbone, frame = arch.check().backbone, arch.frame
    folds = _printed_folds(arch)
    norm = norm_words(backbone.norm) if backbone.norm is not None else ""
    stacks = []
    for (name, stack, site), fold in zip(arch.stacks(), folds, strict=True):
        run = _run(fold, [_block(layer, place) for layer, place in stack.placed(site)])
        title = _STACK_NAMES.get(name, backbone.NAME)
        stacks.append(StackOutline(title, run, _common(run), norm, len(stack.layers)))
    depth = " + ".join(str(stack.depth) for stack in stacks)
    facts = [f"width {backbone.width}", f"{depth} layer{'s' * (depth != '1')}"]
    if frame is not None:
        facts.append(f"up to {frame.length:,} tokens")
    family = "encoder-decoder" if arch.encoder is not None else backbone.NAME
    entrance = (
        Fact("embedding", embedding_words(backbone, frame)),
        Fact("positions", position_words(backbone)),
    )
    leave = Fact("head", head_words(backbone, frame))
    return Outline(
        short(arch), family, backbone.width, entrance, tuple(stacks), leave, tuple(facts)
    )


# --- layers ------------------------------------------------------------------------------


def _block(layer: Layer, site: Site) -> Block:
    if isinstance(layer, Residual):
        return _wrapped(layer, site)
    title, facts, size = words(layer, site)
    branches = _branches(layer, site)
    inside = [block.size for run in branches for block in run.blocks()]
    letter = letter_of(layer)
    kind = _KIND_OF.get(letter, "other")
    return Block(kind, letter, title, facts, max([size, *inside]), branches=branches)


def _wrapped(layer: Residual, site: Site) -> Block:
    block = _block(layer.inner, site)
    if block.place:  # a branch around a branch
        block = replace(block, title="series of 1", branches=(Run((block,)),), facts=())
    if layer.pad and layer.inner.out_width(site) != site.width:
        block = replace(block, facts=(*block.facts, f"padded to {site.width}"))
    if layer.norm is None:
        return replace(block, place="bare", norm="")
    return replace(block, place=layer.place, norm=norm_words(layer.norm))


def _branches(layer: Layer, site: Site) -> tuple[Run, ...]:
    if isinstance(layer, Stack):
        return (_series(layer, site),) if layer.layers else ()
    if isinstance(layer, Parallel):
        runs = [_series(branch, site) for branch in layer.branches]
        return _counted(runs, ordered=layer.join == "concat")
    if isinstance(layer, Cell):
        placed = enumerate(layer.plan(site).blocks, start=1)
        return tuple(Run((_state(number, block),)) for number, block in placed)
    children = [child for _, child in layer.children() if isinstance(child, Layer)]
    return tuple(_series(child, site) for child in children)  # a kind not known here


def _state(number: int, placed: PlacedBlock) -> Block:
    """A block of a cell: the state it makes, and of which states."""
    sides = []
    for said, layer, site, _ in placed.branches:
        side = _block(layer, site)
        facts = [*side.facts, f"of {'normed ' * said.norm}state {said.input}"]
        if said.activation != "none":
            facts.append(said.activation.replace("_", " "))
        sides.append(Run((replace(side, facts=tuple(facts)),)))
    how = f": {placed.combine}" if len(sides) > 1 else ""
    title = f"state {number}{how}"
    return Block("parallel", "p", title, (), placed.width, branches=tuple(sides))


def _series(layer: Layer, site: Site) -> Run:
    """A branch as a run: a stack is opened, anything else stands alone."""
    if not isinstance(layer, Stack):
        return Run((_block(layer, site),))
    blocks = [_block(inner, place) for inner, place in layer.placed(site)]
    (fold,) = _printed_folds(Architecture(layer, Encoder(1)))
    return _run(fold, blocks)


def _counted(runs: list[Run], *, ordered: bool) -> tuple[Run, ...]:
    """Equal branches once, with their number; where order matters only neighbours are joined."""
    counted: list[Run] = []
    for run in runs:
        single = Run(run.parts) if run.times == 1 else Run((run,))
        pool = counted[-1:] if ordered else counted
        same = next((c for c in pool if c.parts == single.parts), None)
        if same is None:
            counted.append(single)
        else:
            counted[counted.index(same)] = replace(same, times=same.times + 1)
    return tuple(counted)


def _common(run: Run) -> str:
    found = {block.wrapping for block in run.blocks() if block.place}
    return found.pop() if len(found) == 1 else ""


# --- folding -----------------------------------------------------------------------------

Fold = list["tuple[Fold, int] | None"]  # one None per layer, (inner, times) per bracket


def _printed_folds(arch: Architecture) -> list[Fold]:
    """How notation folds each stack. Only names, brackets and ``|`` stand before ``where``."""
    text = notation(arch)
    end = min(at for at in (text.find(" where "), text.find(" in ")) if at >= 0)
    return [_read_fold(part) for part in text[:end].split(" | ")]


def _read_fold(text: str) -> Fold:
    if text == "()":
        return []
    open_folds: list[Fold] = [[]]
    for token in _TOKEN.finditer(text):
        if token.group() == "(":
            open_folds.append([])
        elif token.group(1):
            inner = open_folds.pop()
            open_folds[-1].append((inner, int(token.group(1))))
        else:
            open_folds[-1].append(None)
    return open_folds[0]


def _run(fold: Fold, blocks: list[Block]) -> Run:
    return Run(_placed(fold, iter(blocks)))


def _placed(fold: Fold, blocks: Iterator[Block]) -> tuple[Piece, ...]:
    """The fold with the layers in it, taken in order."""
    parts: list[Piece] = []
    for item in fold:
        if item is None:
            parts.append(next(blocks))
        else:
            inner, times = item
            repeats = [_placed(inner, blocks) for _ in range(times)]
            parts.append(Run(_alike(repeats), times))
    return tuple(parts)


def _alike(repeats: list[tuple[Piece, ...]]) -> tuple[Piece, ...]:
    """What all repeats share. Equal layers may stand at different widths: then the facts that
    differ are left unsaid."""
    first = repeats[0]
    if all(repeat == first for repeat in repeats):
        return first
    return tuple(_shared(list(parts)) for parts in zip(*repeats, strict=True))


def _shared(parts: list[Piece]) -> Piece:
    first = parts[0]
    if isinstance(first, Run):
        return Run(_alike([part.parts for part in parts if isinstance(part, Run)]), first.times)
    blocks = [part for part in parts if isinstance(part, Block)]
    facts = tuple(f for f in first.facts if all(f in block.facts for block in blocks))
    return replace(first, facts=facts)
