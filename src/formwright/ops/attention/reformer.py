"""Reformer as a layer; computed in ``kernels/reformer.py``.

Differs from the paper: the hash is drawn once, when the layer is built, and saved with the
weights; layers are not reversible.
"""

from torch import Tensor

from formwright.arch.attention import Attention
from formwright.arch.mechanism import Reformer
from formwright.arch.site import Site
from formwright.ops.attention.base import MechanismOp, Sight, drawn
from formwright.ops.attention.kernels import (
    join_heads_untransposed,
    lsh_rotations,
    reformer_attention,
    reformer_lra_attention,
)
from formwright.ops.base import Builder, Context, operator


@operator(Reformer)
class ReformerOp(MechanismOp):
    """Chunks of tokens with like hashes."""

    rotations: Tensor

    def __init__(self, node: Reformer, attention: Attention, site: Site, builder: Builder) -> None:
        super().__init__(node, attention, site, builder)
        key, buckets = attention.key_size(site.width), node.bucket_count(site.longest)
        rotations = drawn(lambda g: lsh_rotations(key, buckets, g, hashes=node.hashes)[0])
        self.register_buffer("rotations", rotations)

    def forward(self, q: Tensor, k: Tensor, v: Tensor, sight: Sight, ctx: Context) -> Tensor:
        rotations = [self.rotations]
        if self.node.lra:
            return reformer_lra_attention(
                k, v, rotations=rotations, chunks=self.node.chunks, keep_padding=True
            )
        return reformer_attention(
            k,
            v,
            rotations=rotations,
            mask=sight.keys,
            causal=sight.causal,
            chunk_length=self.node.chunk,
        )

    def joined(self, mixed: Tensor, length: int) -> Tensor:
        if self.node.lra:
            return join_heads_untransposed(mixed, length)
        return super().joined(mixed, length)
