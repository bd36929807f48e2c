"""What DARTFormer's supernets hold, and what its full-depth models are chosen from.

Paper: Brown et al. 2022, https://arxiv.org/abs/2210.00641

blocks      one layer, the mean of nine attention blocks of all heads (algorithm 1, one-shot)
heads       one layer, the mean of nine times as many single-head blocks (algorithm 2)
layers      full depth, nine blocks in each layer (algorithm 3)
layer_wise  full-depth models with one mechanism per layer, homogeneous ones among them
mixed       full-depth models whose layers are all the same mean of mechanisms

Sizes of the paper go by its three tasks.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import Any, Literal

from formwright.arch import (
    Architecture,
    Attention,
    Classify,
    Encoder,
    FeedForward,
    Frame,
    Match,
    Parallel,
    Residual,
)
from formwright.arch.mechanism import (
    BigBird,
    LinearTransformer,
    Linformer,
    Local,
    Longformer,
    Mechanism,
    Performer,
    Reformer,
    Softmax,
    Sparse,
    Synthesizer,
)
from formwright.space.choice import OneOf, SomeOf, stack_of
from formwright.space.part import Decisions
from formwright.space.registry import published_space
from formwright.space.tree import TreeSpace
from formwright.zoo import dartformer as published

PAPER = "https://arxiv.org/abs/2210.00641"
PaperTask = Literal["listops", "text", "matching"]
Variant = Literal["best", "prune", "layers", "oneshot"]  # algorithms 1, 2 and 3, and one-shot
_TRIES = 100  # draws for each random mix, after which there are not so many

# Algorithm 3 takes away one block per layer at a time; the decisions are called after the layers.
BLOCKS, HEADS, LAYER = "blocks", "heads", "layer"

# The mechanisms with ranges that fit texts of about thirty tokens, as their papers have them: the
# arena's Reformer, for one, is far worse than the published one (0.265 against 0.382 on lists). All
# differ from dense attention there but BigBird, which sees six blocks: up to 32 tokens have no more
# than four of eight.
TINY: Mapping[str, Mechanism] = {
    "bigbird": BigBird(block=8, random_blocks=1),
    "linear": LinearTransformer(),
    "linformer": Linformer(slots=16),
    "local": Local(block=8),
    "longformer": Longformer(window=13),
    "performer": Performer(),
    "reformer": Reformer(chunk=8, buckets=4),
    "sparse": Sparse(block=8, summary=2),
    "synthesizer": Synthesizer(rank=8),
}


def all_heads(kinds: Mapping[str, Mechanism], heads: int) -> tuple[tuple[str, Attention], ...]:
    """A block of so many heads for each mechanism."""
    found = []
    for name, kind in kinds.items():
        block = Attention(heads, kind, bias=False)
        if isinstance(kind, Reformer):
            block = block.replace(query_key="shared", project_out=not kind.lra)
        found.append((name, block))
    return tuple(found)


def _seeing_all(block: Attention) -> Attention:
    """The same, where the first vector of a text sees the whole of it."""
    kind = block.kind
    return block.replace(kind=kind.replace(lra=True)) if isinstance(kind, Sparse) else block


@dataclass(frozen=True, kw_only=True)
class Encoders:
    """What all members have in common.

    Args:
        backbone: Entrance, positions and last norm.
        frame: The task's; see ``Frame``.
        blocks: Each mechanism with its block of all heads.
        inner: Width inside the feed-forwards.
        layers: Depth of the final models.
    """

    backbone: Encoder
    frame: Frame
    blocks: tuple[tuple[str, Attention], ...]
    inner: int
    layers: int

    @classmethod
    def published(cls, task: PaperTask) -> "Encoders":
        """The sizes of the paper for one of its tasks."""
        setting = published.TASKS[task]
        blocks = tuple(
            (name, published.attention(task, name, setting.heads)) for name in published.MECHANISMS
        )
        backbone = Encoder(setting.width, norm=published.NORM, init="lra")
        frame = Frame(setting.vocab, setting.length, setting.head)
        return cls(
            backbone=backbone,
            frame=frame,
            blocks=blocks,
            inner=setting.inner,
            layers=setting.layers,
        )

    @classmethod
    def tiny(cls, frame: Frame, heads: int) -> "Encoders":
        """Two layers of width 32, for texts of about thirty tokens."""
        backbone = Encoder(32, norm=published.NORM, init="lra")
        blocks = all_heads(TINY, heads)
        made = cls(backbone=backbone, frame=frame, blocks=blocks, inner=64, layers=2)
        return made.for_frame(frame)

    def for_frame(self, frame: Frame) -> "Encoders":
        """The same for a task, its head with hidden layers in the proportions of the paper.

        The vector that is read stays the one that the task names, such as ``pool=cls``. Where it is
        the first, Sparse attention, which is causal, gets the arena's rule for it: else it would
        see nothing but itself.
        """
        head, blocks = frame.head, self.blocks
        if isinstance(head, Classify | Match) and head.pool in ("cls", "first"):
            blocks = tuple((name, _seeing_all(block)) for name, block in blocks)
        if isinstance(head, Classify):
            head = head.replace(hidden=(self.inner,))
        elif isinstance(head, Match):
            head = head.replace(hidden=(self.inner, self.inner // 2))
        return replace(self, frame=frame.replace(head=head), blocks=blocks)

    @property
    def kinds(self) -> tuple[str, ...]:
        """The mechanisms by name."""
        return tuple(name for name, _ in self.blocks)

    @property
    def heads(self) -> int:
        """Heads of a block."""
        return self.blocks[0][1].heads

    # --- supernets ----------------------------------------------------------------------

    def block_space(self) -> TreeSpace:
        """One layer with every mechanism side by side."""
        return self._space("dartformer-blocks", self._layer(BLOCKS, self._all_heads()))

    def head_space(self) -> TreeSpace:
        """One layer with as many single heads of every mechanism as a block has."""
        options = tuple(b for name in self.kinds for b in (self.part(name, 1),) * self.heads)
        return self._space("dartformer-heads", self._layer(HEADS, options))

    def layers_space(self) -> TreeSpace:
        """Full depth with every mechanism side by side in each layer."""
        rows = (self._layer(f"{LAYER}{i}", self._all_heads()) for i in range(self.layers))
        return self._space("dartformer-layers", *rows)

    # --- final models -------------------------------------------------------------------

    def layer_wise(self) -> TreeSpace:
        """A mechanism for each layer."""
        rows = (
            (self._residual(OneOf(f"{LAYER}{i}", self._all_heads())), self._feed())
            for i in range(self.layers)
        )
        return self._space("dartformer-layer-wise", *rows)

    def mixed(self) -> TreeSpace:
        """So many heads of each mechanism, averaged, the same in every layer."""
        row = tuple(
            OneOf(name, ((), *(self.part(name, n) for n in range(1, self.heads + 1))))
            for name in self.kinds
        )
        mean = Parallel((self.blocks[0][1],)).replace(branches=row, join="mean")
        return self._space(
            "dartformer-mixed", *((self._residual(mean), self._feed()),) * self.layers
        )

    def part(self, name: str, heads: int) -> Any:
        """Some heads of a mechanism, each as large as one of its whole block.

        Where a Reformer's head is always as wide as the stream, each is a block of its own.
        """
        whole = dict(self.blocks)[name]
        if heads == whole.heads:
            return whole
        if isinstance(whole.kind, Reformer) and whole.kind.lra:
            single = whole.replace(heads=1)
            return single if heads == 1 else (single,) * heads
        return whole.replace(heads=heads, key=whole.key_size(self.backbone.width))

    def full(self) -> Architecture:
        """The same encoder with plain softmax attention: the hand-designed rival."""
        layer = (self._residual(Attention(self.heads, Softmax(), bias=False)), self._feed())
        found: Architecture = self._space("full", *(layer,) * self.layers).resolve({})
        return found

    def homogeneous(self, kind: str, *, mixed: bool) -> Decisions:
        """The decisions of the model with one mechanism, in one of the two spaces."""
        if mixed:
            return {name: self.heads if name == kind else 0 for name in self.kinds}
        return {f"{LAYER}{i}": self.kinds.index(kind) for i in range(self.layers)}

    def mix(self, kept: Sequence[str]) -> Decisions:
        """The decisions of the mix that has one head for each name."""
        return {name: list(kept).count(name) for name in self.kinds}

    # --- what is left of a supernet -----------------------------------------------------

    def words(self, variant: Variant) -> tuple[str, ...]:
        """The mechanism of each option of a supernet: of blocks one each, of heads many."""
        if variant != "prune":
            return self.kinds
        return tuple(kind for kind in self.kinds for _ in range(self.heads))

    def left(self, variant: Variant, alive: Mapping[str, Sequence[int]]) -> Decisions:
        """The decisions of the full-depth model that the options left stand for."""
        if variant == "layers":
            return {name: options[0] for name, options in alive.items()}
        ((_, options),) = alive.items()
        if variant == "best":
            return self.homogeneous(self.kinds[options[0]], mixed=False)
        names = [self.words(variant)[option] for option in options]
        each = self.heads // len(names)
        return self.mix([name for name in names for _ in range(each)])

    def described(self, variant: Variant, left: Decisions) -> str:
        """The same in words."""
        if variant in ("prune", "oneshot"):
            return ", ".join(f"{kind} x{left[kind]}" for kind in self.kinds if left[kind])
        kinds = [self.kinds[option] for option in left.values()]
        return kinds[0] if variant == "best" else "-".join(kinds)

    def random_mixes(self, rng: Random, number: int, known: Sequence[Decisions]) -> list[Decisions]:
        """Mixes of as many heads drawn from all, as pruning at random would leave."""
        pool = [kind for kind in self.kinds for _ in range(self.heads)]
        drawn: list[Decisions] = []
        for _ in range(_TRIES * number):
            decisions = self.mix(rng.sample(pool, self.heads))
            if decisions not in (*known, *drawn):
                drawn.append(decisions)
            if len(drawn) == number:
                break
        return drawn

    # --- parts --------------------------------------------------------------------------

    def _all_heads(self) -> tuple[Attention, ...]:
        return tuple(block for _, block in self.blocks)

    def _layer(self, name: str, options: tuple[Attention, ...]) -> tuple[Any, ...]:
        some = SomeOf(name, options, least=1)
        mean = Parallel((self.blocks[0][1],)).replace(branches=(some,), join="mean")
        return self._residual(mean), self._feed()

    def _residual(self, inner: Any) -> Residual:
        return Residual(self.blocks[0][1], norm=published.NORM).replace(inner=inner)

    def _feed(self) -> Residual:
        return Residual(FeedForward(self.inner, "gelu_tanh"), norm=published.NORM)

    def _space(self, name: str, *rows: tuple[Any, ...]) -> TreeSpace:
        layers = stack_of(*(layer for row in rows for layer in row))
        return TreeSpace(Architecture(layers, self.backbone, frame=self.frame), name=name)


def _named(make: Callable[[Encoders], TreeSpace]) -> Callable[..., TreeSpace]:
    """One of the spaces with the sizes that were published for ListOps, for any frame."""

    def space(frame: Frame | None = None) -> TreeSpace:
        encoders = Encoders.published("listops")
        return make(encoders if frame is None else encoders.for_frame(frame))

    space.__doc__ = f"DARTFormer: {make.__doc__}"
    return space


for _name, _make in {
    "blocks": Encoders.block_space,
    "heads": Encoders.head_space,
    "layers": Encoders.layers_space,
    "layer-wise": Encoders.layer_wise,
    "mixed": Encoders.mixed,
}.items():
    published_space(f"dartformer-{_name}", PAPER)(_named(_make))
