"""Chains of blocks: attention, feed-forward and convolution in any order, one width in each block.

Paper: NAS-BERT, Xu et al. 2021, https://arxiv.org/abs/2105.14444. 24 layers in 4 blocks; a layer is
attention (M), a feed-forward (F) or a separable convolution over 3, 5 or 7 tokens (S3, S5, S7),
each in five widths, or nothing, which stands at the end of a block only.

A block is written as its width and its layers: ``384 S3 M F``.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from itertools import islice, product
from random import Random
from typing import Any

from formwright.arch.architecture import Architecture, Encoder
from formwright.arch.attention import Attention
from formwright.arch.codec import from_data, to_data
from formwright.arch.conv import SeparableConv
from formwright.arch.frame import Embedding, Features, Frame, MaskedLM
from formwright.arch.layer import FeedForward, Identity, Layer, LayerNorm, Linear, Residual, Stack
from formwright.arch.position import Learned
from formwright.errors import FormatError, SpecError
from formwright.space.choice import OneOf, Repeat, stack_of
from formwright.space.constraint import Constraint
from formwright.space.part import Decisions
from formwright.space.registry import published_space, space_kind
from formwright.space.space import Countable, Enumerable, Invertible
from formwright.space.tree import TreeSpace

PAPER = "https://arxiv.org/abs/2105.14444"
FRAME = Frame(vocab=30_522, length=512, head=MaskedLM(transform=False))
KINDS = ("M", "F", "S3", "S5", "S7")
_NORM = LayerNorm(eps=1e-12)
_UNITS = 2  # separable convolutions of one S; only then do the published FLOPs agree


_MOST = 100  # blocks, layers of a block, kinds of layers


@dataclass(frozen=True)
class Links:
    """What chains are made of.

    Args:
        blocks: How many, each of one width.
        layers: Of a block, at most; at least one.
        widths: Channels that a block may have, rising.
        kinds: Operators, as ``M``, ``F`` and ``S`` with a kernel.
        head: Channels of one head.
        expand: Inner width of feed-forwards over the width.
        embedding: Size of the embedding, with a map behind it; that of the first block when 0.
    """

    blocks: int = 4
    layers: int = 6
    widths: tuple[int, ...] = (128, 192, 256, 384, 512)
    kinds: tuple[str, ...] = KINDS
    head: int = 64
    expand: int = 4
    embedding: int = 0

    def __post_init__(self) -> None:
        if self.blocks < 1 or self.layers < 1:
            raise SpecError(
                f"{self.blocks} blocks of {self.layers} layers are no chain; give at least one of "
                "each."
            )
        if max(self.blocks, self.layers, len(self.kinds)) > _MOST:
            raise SpecError(
                f"{self.blocks} blocks of {self.layers} layers of {len(self.kinds)} kinds are more "
                f"than a chain can have: at most {_MOST} of each."
            )
        if not self.widths or list(self.widths) != sorted(set(self.widths)):
            raise SpecError(f"widths={self.widths} must be rising numbers.")
        wrong = [width for width in self.widths if width % self.head]
        if wrong and "M" in self.kinds:
            raise SpecError(f"Width {wrong[0]} cannot be cut into heads of {self.head} channels.")
        for kind in self.kinds:
            if kind not in ("M", "F") and not (kind[:1] == "S" and kind[1:].isdecimal()):
                raise SpecError(f"{kind!r} is no layer of a chain; use M, F, or S3, S5 and so on.")

    @property
    def candidates(self) -> int:
        """Operations that a layer may be, nothing among them: 26 in the paper."""
        return len(self.kinds) * len(self.widths) + 1

    @property
    def per_block(self) -> int:
        """Blocks that there are: 97,650 in the paper."""
        kinds = len(self.kinds)
        return len(self.widths) * sum(kinds**length for length in range(1, self.layers + 1))

    def paths(self) -> Iterator[str]:
        """Every block, written."""
        for width in self.widths:
            for length in range(1, self.layers + 1):
                for words in product(self.kinds, repeat=length):
                    yield f"{width} {' '.join(words)}"

    def read(self, path: str) -> tuple[int, tuple[str, ...]]:
        """Width and layers of a block."""
        first, *words = path.split()
        known = first.isdecimal() and int(first) in self.widths and set(words) <= set(self.kinds)
        if not known or not 1 <= len(words) <= self.layers:
            raise SpecError(
                f"{path!r} is no block of this chain: a width of {', '.join(map(str, self.widths))}"
                f", then 1 to {self.layers} of {' '.join(self.kinds)}."
            )
        return int(first), tuple(words)

    def operator(self, word: str, width: int, like: Layer) -> Layer:
        """The operator that a word stands for, in a width; all but its sizes as another's."""
        if word == "M":
            return like.replace(heads=width // self.head)
        if word == "F":
            return like.replace(inner=self.expand * width)
        return SeparableConv(int(word[1:]), units=_UNITS)


@published_space("nas-bert", PAPER)
def nas_bert(frame: Frame = FRAME) -> "ChainSpace":
    """NAS-BERT: 24 layers in 4 blocks, 26 candidates each, five widths."""
    backbone = Encoder(512, Embedding(norm=_NORM), position=Learned(), norm=None, init="bert")
    return ChainSpace(Architecture(Stack(), backbone, frame=frame), Links(), name="nas-bert")


@space_kind("chain")
class ChainSpace(Countable, Enumerable, Invertible):
    """Models made of blocks. A decision, ``block0`` and so on, is a block as it is written.

    Args:
        base: Backbone and frame of all members; its own layers, where it has any, say what
            residual branches look like, post-norm otherwise.
        links: What blocks are made of.
        constraints: What members must satisfy as well.
        name: What to call it in messages and reports.
    """

    def __init__(
        self,
        base: Architecture,
        links: Links,
        constraints: Sequence[Constraint] = (),
        name: str = "chain",
    ) -> None:
        super().__init__(constraints)
        self.base, self.links, self.name = base, links, name

    @property
    def names(self) -> tuple[str, ...]:
        """Its decisions."""
        return tuple(f"block{number}" for number in range(self.links.blocks))

    @cached_property
    def branches(self) -> dict[str, Residual]:
        """What attention, feed-forward and convolution look like: as the base has them."""
        own = [layer for layer in self.base.layers.layers if isinstance(layer, Residual)]
        plain = own[0] if own else Residual(Identity(), place="post", norm=_NORM)
        found = {"M": plain.replace(inner=Attention(1)), "F": plain.replace(inner=FeedForward(1))}
        for layer in reversed(own):
            if isinstance(layer.inner, Attention):
                free = {"key": None, "value": None, "kv_heads": None}
                found["M"] = layer.replace(inner=layer.inner.replace(**free))
            elif isinstance(layer.inner, FeedForward):
                found["F"] = layer
        return found

    def draw(self, rng: Random) -> Decisions:
        return {name: self._block(rng) for name in self.names}

    def change(self, parent: Decisions, rng: Random, rate: float | None = None) -> Decisions:
        child = dict(parent)
        while child == dict(parent):
            chosen = [n for n in self.names if rate is not None and rng.random() < rate]
            for name in chosen or [rng.choice(self.names)]:
                child[name] = self._changed(str(parent[name]), rng)
        return child

    def resolve(self, decisions: Decisions) -> Architecture:
        blocks = [self.links.read(str(decisions[name])) for name in self.names]
        first = width = blocks[0][0]
        layers: list[Layer] = []
        for own, words in blocks:
            if own != width:
                layers.append(Linear(own))
            layers += [self.layer(word, own) for word in words]
            width = own
        embedding = self.base.backbone.embedding
        size = self.links.embedding
        embedding = embedding.replace(size=size if size and size != first else None)
        reads_words = self.base.frame is not None and self.base.frame.head.NAME in ("lm", "mlm")
        if reads_words and not embedding.fits_output(first, width):
            layers.append(Linear(first))
        backbone = self.base.backbone.replace(width=first, embedding=embedding)
        return Architecture(Stack(tuple(layers)), backbone, frame=self.base.frame).check()

    def layer(self, word: str, width: int) -> Residual:
        """A residual branch around an operator."""
        branch = self.branches.get(word, self.branches["M"])
        return branch.replace(inner=self.links.operator(word, width, branch.inner))

    def decisions_of(self, member: Any) -> Decisions | None:
        """Read back only where blocks cannot be told apart otherwise: by trying to cut evenly."""
        found = self._read_back(member) if isinstance(member, Architecture) else None
        return found if found is not None and self.resolve(found) == member else None

    def block_space(self) -> TreeSpace:
        """One block between maps from and to the width of the base, as an ordinary tree.

        It is what the supernet of a block is made from: see ``block_decisions``.
        """
        wide = self.base.backbone.width
        options = tuple(
            stack_of(
                Linear(width),
                Repeat(
                    f"depth{width}",
                    OneOf(f"op{width}_", tuple(self.layer(k, width) for k in self.links.kinds)),
                    1,
                    self.links.layers,
                ),
                Linear(wide),
            )
            for width in self.links.widths
        )
        length = 512 if self.base.frame is None else self.base.frame.length
        frame = Frame(vocab=2, length=length, head=Features())  # words do not enter here
        backbone = self.base.backbone.replace(embedding=Embedding())
        declared = Architecture(stack_of(OneOf("width", options)), backbone, frame=frame)
        return TreeSpace(declared, name=f"{self.name} block")

    def block_decisions(self, path: str) -> dict[str, int]:
        """The decisions of ``block_space`` that a block stands for."""
        width, words = self.links.read(path)
        found = {"width": self.links.widths.index(width), f"depth{width}": len(words)}
        kinds = self.links.kinds
        return found | {f"op{width}_{i}": kinds.index(word) for i, word in enumerate(words)}

    def size(self) -> int:
        return self.links.per_block**self.links.blocks

    def members(self) -> Iterator[Decisions]:
        for paths in product(*(self.links.paths() for _ in self.names)):
            found = dict(zip(self.names, paths, strict=True))
            if self.violation(found) == 0:
                yield found

    def for_frame(self, frame: Frame) -> "ChainSpace":
        return ChainSpace(self.base.replace(frame=frame), self.links, self.constraints, self.name)

    def outline(self) -> str:
        links = self.links
        return (
            f"{self.name}: {self.size():.3g} members, {links.blocks} blocks of 1 to {links.layers} "
            f"layers ({' '.join(links.kinds)}) in {', '.join(map(str, links.widths))} channels"
        )

    def to_data(self) -> dict[str, Any]:
        return {"name": self.name, "base": to_data(self.base), "links": asdict(self.links)}

    @classmethod
    def from_data(cls, data: Mapping[str, Any]) -> "ChainSpace":
        base, links = from_data(data.get("base"), "base"), data.get("links")
        if not isinstance(base, Architecture) or not isinstance(links, Mapping):
            raise FormatError(
                '"base" must hold an architecture and "links" what blocks are made of.'
            )
        told: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in links.items()}
        usual = vars(Links())
        for key, value in told.items():
            if type(value) is not type(usual.get(key)) or not _small(value):
                raise FormatError(f"This chain is damaged: {key} cannot be {value!r:.60}.")
        try:
            return cls(base, Links(**told), name=str(data.get("name")))
        except TypeError as error:
            raise FormatError(f"This chain is damaged: {error}.") from None

    def _block(self, rng: Random) -> str:
        """One of all blocks, each as likely as any other."""
        links, kinds = self.links, len(self.links.kinds)
        lengths = range(1, links.layers + 1)
        (length,) = rng.choices(lengths, [kinds**n for n in lengths])
        words = rng.choices(links.kinds, k=length)
        return f"{rng.choice(links.widths)} {' '.join(words)}"

    def _changed(self, path: str, rng: Random) -> str:
        """Another width, another layer, one more or one fewer."""
        links = self.links
        width, words = links.read(path)
        row = list(words)
        match rng.choice(("width", "layer", "more", "fewer")):
            case "width" if len(links.widths) > 1:
                width = rng.choice([w for w in links.widths if w != width])
            case "more" if len(row) < links.layers:
                row.insert(rng.randrange(len(row) + 1), rng.choice(links.kinds))
            case "fewer" if len(row) > 1:
                row.pop(rng.randrange(len(row)))
            case _:
                place = rng.randrange(len(row))
                others = [kind for kind in links.kinds if kind != row[place]] or [row[place]]
                row[place] = rng.choice(others)
        return f"{width} {' '.join(row)}"

    def _read_back(self, member: Architecture) -> Decisions | None:
        """Blocks of a member: cut where its width changes, then as full as they can be."""
        runs: list[tuple[int, list[str]]] = [(member.backbone.width, [])]
        for layer in member.layers.layers:
            if isinstance(layer, Linear):
                runs.append((layer.out, []))
                continue
            width = runs[-1][0]
            word = next((k for k in self.links.kinds if self.layer(k, width) == layer), None)
            if word is None:
                return None
            runs[-1][1].append(word)
        found = _dealt([run for run in runs if run[1]], self.links)
        return None if found is None else dict(zip(self.names, found, strict=True))


def _dealt(runs: Sequence[tuple[int, list[str]]], links: Links) -> list[str] | None:
    """Runs of one width each, dealt out to exactly as many blocks as there are."""
    needed = [-(-len(words) // links.layers) for _, words in runs]
    spare = links.blocks - sum(needed)
    found: list[str] = []
    for (width, words), blocks in zip(runs, needed, strict=True):
        more = min(spare, len(words) - blocks)
        spare -= more
        count, rest = blocks + more, iter(words)
        sizes = [len(words) // count + (i < len(words) % count) for i in range(count)]
        found += [f"{width} {' '.join(islice(rest, size))}" for size in sizes]
    return found if spare == 0 and len(found) == links.blocks else None


def _small(value: Any) -> bool:
    """Whether numbers, also those in a list, are of a size that a chain can have."""
    if isinstance(value, tuple):
        return len(value) <= 1000 and all(isinstance(v, str) or _small(v) for v in value)
    return type(value) is int and 0 <= value < 1 << 20
