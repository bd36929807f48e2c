"""Longformer's window and global tokens as a layer; computed in ``kernels/longformer.py``."""

from torch import Tensor, nn

from formwright.arch.attention import Attention
from formwright.arch.mechanism import Longformer
from formwright.arch.site import Site
from formwright.ops.attention.base import MechanismOp, Sight
from formwright.ops.attention.kernels import longformer_attention
from formwright.ops.base import Builder, Context, operator


@operator(Longformer)
class LongformerOp(MechanismOp):
    """A window around each token; global tokens see all, through projections of their own."""

    def __init__(
        self, node: Longformer, attention: Attention, site: Site, builder: Builder
    ) -> None:
        super().__init__(node, attention, site, builder)
        key, value = attention.key_size(site.width), attention.value_size(site.width)
        sizes = (self.heads * key, self.groups * key, self.groups * value)
        built = bool(node.global_tokens) or node.lra
        self.global_projections = nn.ModuleList(
            nn.Linear(site.width, size, attention.bias) for size in sizes if built
        )

    def forward(self, q: Tensor, k: Tensor, v: Tensor, sight: Sight, ctx: Context) -> Tensor:
        return longformer_attention(
            q,
            k,
            v,
            mask=sight.keys,
            causal=sight.causal,
            window=self.node.window,
            global_tokens=self.node.global_tokens,
            global_qkv=self._global(sight.x) if self.node.global_tokens else None,
        )

    def _global(self, x: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
        assert x is not None
        q, k, v = (
            project(x).unflatten(-1, (heads, -1)).transpose(1, 2)
            for project, heads in zip(
                self.global_projections, (self.heads, self.groups, self.groups), strict=True
            )
        )
        repeats = self.heads // self.groups
        return q, k.repeat_interleave(repeats, dim=1), v.repeat_interleave(repeats, dim=1)
