"""The space of the Evolved Transformer: the blocks of a cell, and how many cells there are.

Paper: So et al. 2019, https://arxiv.org/abs/1901.11117. Every field of every block is a decision;
all cells of a stack are alike.
Inferred: the list of layers is not printed in full; this one gives the printed size of the space.
Differs from the paper: a stack may also stand alone. A decoder alone has the cells of the paper's
language model, which attend to nothing but the stream.
"""

import hashlib
from bisect import bisect
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import count
from random import Random
from typing import Any

from formwright.arch.architecture import Architecture, Backbone, Decoder, Seq2Seq
from formwright.arch.codec import canonical, from_data, to_data
from formwright.arch.conv import Conv, ReducedConv, SeparableConv
from formwright.arch.frame import Embedding, Frame, LanguageModel
from formwright.arch.graph import genes
from formwright.arch.graph.cell import Block, Branch, Cell, Combiner, Dead
from formwright.arch.graph.form import cell_text
from formwright.arch.layer import GLU, ActivationKind, Identity, Layer, Stack
from formwright.arch.site import Site
from formwright.arch.style import Style, usual_heads
from formwright.arch.writer import write
from formwright.errors import FormatError, ShapeError, SpecError
from formwright.space.choice import Choice, OneOf, Span
from formwright.space.constraint import Constraint
from formwright.space.part import Decisions
from formwright.space.registry import published_space, space_kind
from formwright.space.space import Comparable, changed_decisions
from formwright.space.tree import TreeSpace

PAPER = "https://arxiv.org/abs/1901.11117"
FRAME = Frame(vocab=33_288, length=256, head=LanguageModel())
HEADS = (4, 8, 16)
BLOCKS = (6, 8)  # of a cell of the encoder, of the decoder
MOST_CELLS = 6
_TRIES = 20  # changes that may not fit before the blocks that do not are drawn anew


@dataclass(frozen=True, kw_only=True)
class Vocabulary:
    """What a gene may say: each field of a branch, and the combiner of a block."""

    layers: tuple[Layer | Dead, ...]
    norms: tuple[bool, ...] = (True, False)
    widths: tuple[int, ...] = tuple(range(1, 11))
    activations: tuple[ActivationKind, ...] = ("silu", "relu", "leaky_relu", "none")
    combiners: tuple[Combiner, ...] = ("add", "concat", "multiply")


def vocabulary(source_heads: int | None = None) -> Vocabulary:
    """The 25 layers of the paper; with ``source_heads`` also attention to the encoder."""
    layers: list[Layer | Dead] = [
        *(Conv(kernel) for kernel in (1, 3)),
        *(SeparableConv(kernel) for kernel in (3, 5, 7, 9, 11)),
        *(ReducedConv(k, reduction) for k in (3, 5, 7, 15) for reduction in (1, 4, 16)),
        *(genes.attention(heads) for heads in HEADS),
        GLU(),
        Identity(),
        Dead(),
    ]
    if source_heads is not None:
        layers.append(genes.attention(source_heads, source=True))
    return Vocabulary(layers=tuple(layers))


@published_space("evolved", PAPER)
def evolved(family: Style | None = None, frame: Frame = FRAME) -> "CellSpace":
    """Evolved Transformer: cells of 6 and 8 blocks for translators; one stack for other models.

    Args:
        family: Whose backbone it is; the paper's translator of 512 channels when not given.
        frame: Vocabulary, length and head, from the task.
    """
    plain = Seq2Seq(512, Embedding(scale=True), norm=genes.NORM, init="fan")
    backbone = plain if family is None else family.backbone
    heads = min(HEADS, key=lambda known: abs(known - usual_heads(backbone.width)))
    if isinstance(backbone, Seq2Seq):
        encoder = cells("encoder", vocabulary(), BLOCKS[0])
        declared = (*encoder, *cells("decoder", vocabulary(heads), BLOCKS[1]))
    else:
        declared = cells("stack", vocabulary(), BLOCKS[isinstance(backbone, Decoder)])
    return CellSpace(declared, transformer(backbone, frame, heads), name="evolved")


def cells(name: str, words: Vocabulary, blocks: int, **fields: Any) -> tuple[Any, ...]:
    """A stack with everything open: its cell, and how many of them there are.

    Args:
        name: What its decisions begin with.
        words: What may be said in a block.
        blocks: How many blocks a cell has.
        fields: Other fields of the cell; its norm is the paper's.
    """

    def branch(side: str, number: int) -> Branch:
        said: dict[str, Sequence[Any]] = {
            "input": range(number),
            "layer": words.layers,
            "norm": words.norms,
            "width": words.widths,
            "activation": words.activations,
        }
        fields = {
            field: OneOf(f"{name}_{side}_{field}{number}", tuple(options))
            for field, options in said.items()
        }
        return Branch(0, Dead()).replace(**fields)

    def block(number: int) -> Block:
        combine = OneOf(f"{name}_combine{number}", words.combiners)
        return Block(branch("left", number), branch("right", number)).replace(combine=combine)

    written = tuple(block(number) for number in range(1, blocks + 1))
    return Cell(written, **{"norm": genes.NORM, **fields}), Span(f"{name}_cells", 1, MOST_CELLS)


def transformer(backbone: Backbone, frame: Frame | None, heads: int) -> Architecture:
    """The Transformer as cells, which a search begins with."""
    reading = Stack((genes.transformer_encoder(heads),) * MOST_CELLS)
    if not isinstance(backbone, Seq2Seq):
        return Architecture(reading, backbone, frame=frame)
    writing = Stack((genes.transformer_decoder(heads),) * MOST_CELLS)
    return Architecture(writing, backbone, reading, frame)


@space_kind("cells")
class CellSpace(TreeSpace, Comparable):
    """Models of equal cells; whatever is drawn fits.

    The size is that of all that can be written, like the published one, also of what does not fit.

    Args:
        declared: What ``cells`` gives: for the one stack, or for encoder and decoder.
        base: A Transformer of cells. All members share its backbone and frame.
        constraints: What members must satisfy as well.
        name: What to call it in messages and reports.
    """

    def __init__(
        self,
        declared: Any,
        base: Architecture,
        constraints: Sequence[Constraint] = (),
        name: str = "cells",
    ) -> None:
        super().__init__(declared, constraints, name)
        self.base = base.check()
        position = base.backbone.position
        if position is not None and position.same_heads:
            raise SpecError(
                f"{position.NAME} positions need equal heads in all layers, and cells of the space "
                f"{name!r} differ in theirs; take a backbone with other positions."
            )

    def for_frame(self, frame: Frame) -> "CellSpace":
        return CellSpace(self.declared, self.base.bind(frame), self.constraints, self.name)

    def draw(self, rng: Random) -> Decisions:
        return self._fitting(super().draw(rng), rng)

    def change(self, parent: Decisions, rng: Random, rate: float | None = None) -> Decisions:
        before = canonical(self.resolve(parent))
        for tries in count():
            child = super().change(parent, rng, rate)
            if tries >= _TRIES:
                child = self._fitting(child, rng)
            if not self._misfit(child) and canonical(self.resolve(child)) != before:
                return child
        raise AssertionError  # the count has no end

    def blend(self, a: Decisions, b: Decisions, rng: Random) -> Decisions:
        return self._fitting(super().blend(a, b, rng), rng)

    def resolve(self, decisions: Decisions) -> Architecture:
        made = super().resolve(decisions)
        stacks = [Stack((cell,) * many) for cell, many in zip(made[::2], made[1::2], strict=True)]
        return self.base.replace(layers=stacks[-1], encoder=stacks[0] if stacks[1:] else None)

    def decisions_of(self, member: Any) -> Decisions | None:
        if not isinstance(member, Architecture):
            return None
        stacks = [stack for stack in (member.encoder, member.layers) if stack and stack.layers]
        made = tuple(part for stack in stacks for part in (stack.layers[0], len(stack.layers)))
        found = super().decisions_of(made)
        return found if found is not None and self.resolve(found) == member else None

    def members(self) -> Iterator[Decisions]:
        return (found for found in super().members() if not self._misfit(found))

    def explain(self, parent: Decisions, child: Decisions) -> str:
        return ", ".join(changed_decisions(self._said(parent), self._said(child)))

    def fingerprint(self, decisions: Decisions) -> str:
        made = self.root.build(decisions)
        texts = (
            f"{many}\n{cell_text(cell)}" for cell, many in zip(made[::2], made[1::2], strict=True)
        )
        return hashlib.sha256("\n".join(texts).encode()).hexdigest()[:16]

    def option_words(self) -> dict[str, list[str]]:
        return {
            name: [write(option) for option in getattr(choice.choice, "options", ())]
            for name, choice in self.choices.items()
            if not choice.numeric
        }

    def seeds(self) -> dict[str, Decisions]:
        """What a search may begin with, and the cells that the paper's search found."""
        heads = self.base.self_attentions()[0].heads
        reading = (genes.evolved_encoder(heads), 3)
        writing = (genes.evolved_decoder(heads, source=self.base.encoder is not None), 4)
        one = writing if isinstance(self.base.backbone, Decoder) else reading
        found = (one,) if self.base.encoder is None else (reading, writing)
        plain = [(stack.layers[0], len(stack.layers)) for _, stack, _ in self.base.stacks()]
        return {"transformer": self._written(plain), "evolved": self._written(found)}

    def to_data(self) -> dict[str, Any]:
        return {**super().to_data(), "base": to_data(self.base)}

    @classmethod
    def from_data(cls, data: Mapping[str, Any]) -> "CellSpace":
        plain, base = TreeSpace.from_data(data), from_data(data.get("base"), "base")
        if not isinstance(base, Architecture):
            raise FormatError('"base" must hold the architecture that the space is made around.')
        return cls(plain.declared, base, name=plain.name)

    def _fitting(self, decisions: Decisions, rng: Random) -> Decisions:
        """The same with other blocks in place of those that do not fit."""
        found = dict(decisions)
        while names := self._misfit(found):
            found |= {name: self.choices[name].draw(found, rng.randrange) for name in names}
        return found

    def _misfit(self, decisions: Decisions) -> list[str]:
        """The decisions about the first block that does not fit; none where all do."""
        made = self.root.build(decisions)[::2]
        for cell, (_, _, site), names in zip(made, self.base.stacks(), self._blocks, strict=True):
            first = bisect(range(1, len(names) + 1), False, key=partial(_misfits, cell, site))
            if first < len(names):
                return names[first]
        return []

    @cached_property
    def _blocks(self) -> list[list[list[str]]]:
        """The decisions about each block of each stack."""
        stacks = [cell.blocks for cell in self.declared[::2]]
        return [[_names(block) for block in blocks] for blocks in stacks]

    def _said(self, decisions: Decisions) -> dict[str, str]:
        """What was decided, in words."""
        words = self.option_words()
        return {n: words[n][value] if n in words else value for n, value in decisions.items()}

    def _written(self, stacks: Sequence[tuple[Any, int]]) -> Decisions:
        """The decisions that lead to these cells, each with its number, in as many blocks."""
        blocks = [len(cell.blocks) for cell in self.declared[::2]]
        long = [(genes.lengthened(c, b), many) for (c, many), b in zip(stacks, blocks, strict=True)]
        found = super().decisions_of(tuple(part for pair in long for part in pair))
        assert found is not None
        return found


def _names(block: Block) -> list[str]:
    return [part.name for _, part in block.walk() if isinstance(part, Choice)]


def _misfits(cell: Cell, site: Site, blocks: int) -> bool:
    """Whether something does not fit among the first blocks of a cell."""
    try:
        cell.replace(blocks=cell.blocks[:blocks]).plan(site)
    except ShapeError:
        return True
    return False
