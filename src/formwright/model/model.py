"""The whole model: entrance, stacks of layers, head, built from an architecture.

b batch, n token, m source token, w width
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from formwright.arch import Architecture
from formwright.arch.architecture import Seq2Seq, placed_attentions
from formwright.arch.frame import Match, Seat
from formwright.arch.layer import Stack
from formwright.arch.position import Learned, Sinusoid
from formwright.arch.site import Site
from formwright.errors import InputError
from formwright.model.embedding import EmbeddingModule
from formwright.model.heads import build_head
from formwright.ops.base import Builder, Context, operator_class
from formwright.ops.past import Past


class Model(nn.Module):
    """An architecture as a torch module. Use ``build`` to make one with initial weights."""

    def __init__(self, arch: Architecture, builder: Builder | None = None) -> None:
        super().__init__()
        arch.check()
        if arch.frame is None:
            raise InputError("An architecture without a frame cannot be built; bind it to a task.")
        builder = builder or Builder()
        self.arch, self.frame = arch, arch.frame
        backbone = arch.backbone
        width, vocab = backbone.width, self.frame.vocab
        self.embedding = EmbeddingModule(backbone.embedding, vocab, width, builder)
        self.absolute = self._absolute(arch)
        self.stacks, self.norms = nn.ModuleDict(), nn.ModuleDict()
        self.positions = nn.ModuleDict()
        for name, stack, site in arch.stacks():
            self.stacks[name] = builder.build(stack, site)
            if backbone.norm is not None:
                self.norms[name] = builder.build(backbone.norm, site.at(stack.out_width(site)))
            if backbone.position is not None and self.absolute is None:
                self.positions[name] = self._relative(arch, stack, site)
        seat = Seat(backbone.embedding, vocab, width, arch.out_width)
        self.head = build_head(self.frame.head, seat)

    @staticmethod
    def _absolute(arch: Architecture) -> Any:
        position = arch.backbone.position
        if not isinstance(position, Sinusoid | Learned):
            return None
        size = arch.backbone.embedding.stream(arch.backbone.width)
        site = Site(width=size, longest=arch.longest)
        return operator_class(position)(position, site, size, None)

    @staticmethod
    def _relative(arch: Architecture, stack: Stack, site: Site) -> Any:
        position = arch.backbone.position
        assert position is not None
        sharing = (
            (attention, place)
            for attention, place in placed_attentions(stack, site)
            if attention.sees(position)
        )
        attention, place = next(sharing, (None, site))
        return operator_class(position)(position, place, place.width, attention)

    def forward(
        self,
        tokens: Tensor,
        mask: Tensor | None = None,
        *,
        segments: Tensor | None = None,
        source: Tensor | None = None,
        source_mask: Tensor | None = None,
        other: Tensor | None = None,
        other_mask: Tensor | None = None,
        past: Past | None = None,
    ) -> Tensor:
        """The head's answer.

        Args:
            tokens: (b, n) symbols; in an encoder-decoder those of the target so far.
            mask: (b, n) True where a token is real; None when all are.
            segments: (b, n) which of two texts a token belongs to (BERT).
            source: (b, m) symbols the encoder reads, with ``source_mask``.
            other: (b, n') the second text of a match head, with ``other_mask``.
            past: What earlier calls remember; it is extended by this one.
        """
        x, ctx = self.enter(
            tokens,
            mask,
            segments=segments,
            source=source,
            source_mask=source_mask,
            other=other,
            other_mask=other_mask,
            past=past,
        )
        return self.answer(self.run(x, ctx), ctx)

    def features(
        self,
        tokens: Tensor,
        mask: Tensor | None = None,
        *,
        segments: Tensor | None = None,
        source: Tensor | None = None,
        source_mask: Tensor | None = None,
        encoded: Tensor | None = None,
        past: Past | None = None,
    ) -> tuple[Tensor, Tensor | None]:
        """Vectors after the last layer (b, n, w), and the mask that goes with them.

        ``encoded`` is what ``encode`` gave, where the source was read before.
        """
        if encoded is None:
            encoded = self._encoded(source, source_mask)
        ctx = Context(mask=mask, source=encoded, source_mask=source_mask, past=past)
        x = self.run(self._enter(tokens, segments, ctx), ctx)
        return self.finish(x, ctx), ctx.mask

    def encode(self, source: Tensor, mask: Tensor | None = None) -> Tensor:
        """The encoder's output (b, m, w), for models that have one."""
        x, ctx = self.read(source, mask)
        return self.finish(self.run(x, ctx), ctx)

    # --- from layer to layer --------------------------------------------------------------

    def enter(
        self,
        tokens: Tensor,
        mask: Tensor | None = None,
        *,
        segments: Tensor | None = None,
        source: Tensor | None = None,
        source_mask: Tensor | None = None,
        other: Tensor | None = None,
        other_mask: Tensor | None = None,
        past: Past | None = None,
    ) -> tuple[Tensor, Context]:
        """The stream before the first layer (b, n, w), and all that layers see besides it.

        Takes what ``forward`` takes. ``answer(run(x, ctx), ctx)`` is then the forward pass, and
        ``run`` may be called for some layers at a time, also on a stream from elsewhere.
        """
        if isinstance(self.frame.head, Match):
            tokens, mask = _paired(tokens, mask, other, other_mask)
        encoded = self._encoded(source, source_mask)
        ctx = Context(mask=mask, source=encoded, source_mask=source_mask, past=past)
        return self._enter(tokens, segments, ctx), ctx

    def read(self, source: Tensor, mask: Tensor | None = None) -> tuple[Tensor, Context]:
        """As ``enter``, for the encoder of an encoder-decoder."""
        ctx = Context(mask=mask)
        return self._enter(source, None, ctx), ctx

    def run(self, x: Tensor, ctx: Context, start: int = 0, stop: int | None = None) -> Tensor:
        """The stream after the layers from ``start`` to before ``stop``, or to the last.

        Layers count as in the architecture's stack; open places of a supernet count as one.
        """
        name, count = self._stack(ctx), self.depth(ctx)
        stop = count if stop is None else stop
        if not 0 <= start <= stop <= count:
            raise InputError(
                f"Layers {start} to {stop} cannot be run: there are {count}. Give two numbers from "
                f"0 to {count}, the smaller one first."
            )
        ctx.position = self.positions[name] if len(self.positions) else None
        return self.stacks[name](x, ctx, start, stop)

    def depth(self, ctx: Context) -> int:
        """How many layers a pass goes through."""
        stack: Any = self.stacks[self._stack(ctx)]
        return len(stack.layers)

    def hidden(self, x: Tensor, ctx: Context, layers: Sequence[int] | None = None) -> list[Tensor]:
        """The stream before each of some layers; by default before all, and after the last.

        Runs no further than it must. The number of all layers stands for the end of the stack,
        before the last norm.
        """
        if layers is None:
            layers = range(self.depth(ctx) + 1)
        found: dict[int, Tensor] = {}
        at = 0
        for index in sorted(set(layers)):
            found[index] = x = self.run(x, ctx, at, index)
            at = index
        return [found[index] for index in layers]

    def finish(self, x: Tensor, ctx: Context) -> Tensor:
        """The stream after the last layer as the head takes it; a memory is moved on."""
        name = self._stack(ctx)
        if name in self.norms:
            x = self.norms[name](x, ctx)
        if ctx.past is not None:
            ctx.past.advance(ctx.mask, x.shape[0], x.shape[1])
        return x

    def answer(self, x: Tensor, ctx: Context) -> Tensor:
        """The head's answer to the stream after the last layer."""
        return self.head(self.finish(x, ctx), ctx.mask, self.embedding)

    def loss(self, tokens: Tensor, targets: Tensor, **inputs: Any) -> Tensor:
        """Negative log-likelihood of each target (b, n); only for heads that score symbols."""
        x, _ = self.features(tokens, **inputs)
        return self.loss_at(x.flatten(0, 1), targets.flatten()).view_as(targets)

    def loss_at(self, x: Tensor, targets: Tensor) -> Tensor:
        """The same for vectors (k, w) that ``features`` gave and their targets (k,)."""
        head: Any = self.head
        found: Tensor = head.loss(x, targets, self.embedding)
        return found

    def _enter(self, tokens: Tensor, segments: Tensor | None, ctx: Context) -> Tensor:
        x = self.embedding.look_up(tokens)
        cls = getattr(self.head, "cls", None)
        if cls is not None:  # a learned vector in front, real where the first token is
            x = torch.cat((cls.expand(x.shape[0], 1, -1).to(x.dtype), x), dim=1)
            if ctx.mask is not None:
                ctx.mask = torch.cat((ctx.mask[:, :1], ctx.mask), dim=1)
        if self.absolute is not None:
            x = self.absolute.embed(x, ctx.offset)
        return self.embedding.finish(x, segments)

    def _encoded(self, source: Tensor | None, mask: Tensor | None) -> Tensor | None:
        """What the decoder reads of a source; nothing where there is no encoder."""
        if not isinstance(self.arch.backbone, Seq2Seq):
            return None
        if source is None:
            raise InputError("This model translates: give it source=..., what to read.")
        return self.encode(source, mask)

    def _stack(self, ctx: Context) -> str:
        """The stack of a pass: the encoder is the one that sees no source."""
        if not isinstance(self.arch.backbone, Seq2Seq):
            return "layers"
        return "encoder" if ctx.source is None else "decoder"


def _paired(
    tokens: Tensor, mask: Tensor | None, other: Tensor | None, other_mask: Tensor | None
) -> tuple[Tensor, Tensor | None]:
    """Both texts of a pair in one batch, the shorter ones padded."""
    if other is None:
        raise InputError("This model compares two texts: give it other=..., the second one.")
    longest = max(tokens.shape[1], other.shape[1])
    if mask is None and other_mask is None and tokens.shape == other.shape:
        return torch.cat((tokens, other)), None

    def padded(x: Tensor, real: Tensor | None) -> tuple[Tensor, Tensor]:
        real = torch.ones_like(x, dtype=torch.bool) if real is None else real
        missing = longest - x.shape[1]
        return nn.functional.pad(x, (0, missing)), nn.functional.pad(real, (0, missing))

    (a, a_mask), (b, b_mask) = padded(tokens, mask), padded(other, other_mask)
    return torch.cat((a, b)), torch.cat((a_mask, b_mask))
