"""The whole model: entrance, stacks of layers, head, built from an architecture.

b batch, n token, m source token, w width
"""

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
        if isinstance(self.frame.head, Match):
            tokens, mask = _paired(tokens, mask, other, other_mask)
        x, mask = self.features(
            tokens, mask, segments=segments, source=source, source_mask=source_mask, past=past
        )
        return self.head(x, mask, self.embedding)

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
        if isinstance(self.arch.backbone, Seq2Seq) and encoded is None:
            if source is None:
                raise InputError("This model translates: give it source=..., what to read.")
            encoded = self.encode(source, source_mask)
        name = "decoder" if encoded is not None else "layers"
        ctx = Context(mask=mask, source=encoded, source_mask=source_mask, past=past)
        x = self._enter(tokens, segments, ctx)
        x = self._through(name, x, ctx)
        if past is not None:
            past.advance(mask, tokens.shape[0], tokens.shape[1])
        return x, ctx.mask

    def encode(self, source: Tensor, mask: Tensor | None = None) -> Tensor:
        """The encoder's output (b, m, w), for models that have one."""
        ctx = Context(mask=mask)
        return self._through("encoder", self._enter(source, None, ctx), ctx)

    def loss(self, tokens: Tensor, targets: Tensor, **inputs: Any) -> Tensor:
        """Negative log-likelihood of each target (b, n); only for heads that score symbols."""
        x, _ = self.features(tokens, **inputs)
        head: Any = self.head
        found = head.loss(x.flatten(0, 1), targets.flatten(), self.embedding)
        return found.view_as(targets)

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

    def _through(self, name: str, x: Tensor, ctx: Context) -> Tensor:
        ctx.position = self.positions[name] if len(self.positions) else None
        x = self.stacks[name](x, ctx)
        return self.norms[name](x, ctx) if name in self.norms else x


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
