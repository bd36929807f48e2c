"""Longformer attention: each token sees a window around itself, a few tokens see all, O(length).

Paper: "Longformer", Beltagy et al. 2020, https://arxiv.org/abs/2004.05150
Differs from the paper: as in the Long Range Arena code the window holds ``window`` keys, so an even
one reaches one key further to the right; the paper's w + 1 keys are ``window=w + 1``. Global tokens
are the first ones. The Long Range Arena code computes a dense masked score matrix and has no
global token by default; here a chunk of rows meets its three neighbouring chunks of keys.
"""

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from formwright.arch import Attention, Longformer, Site
from formwright.ops.attention.base import MechanismOp, Sight
from formwright.ops.attention.kernels.shared import (
    Part,
    attend,
    attend_parts,
    bias_from,
    key_bias,
    pad_mask,
    pad_positions,
    require_positive,
    sliding_windows,
)
from formwright.ops.base import Builder, Context, operator

# b batch, h head, n position, d query/key size per head, e value size per head
# c rows per chunk, g chunks, span keys that a chunk can reach (2 c when causal, else 3 c)

# Below this many rows per chunk the fused kernel spends its time on overhead.
SMALLEST_CHUNK = 32


def longformer_attention(
    q: Float[Tensor, "b h n d"],
    k: Float[Tensor, "b h n d"],
    v: Float[Tensor, "b h n e"],
    *,
    mask: Bool[Tensor, "b n"] | None = None,
    causal: bool = False,
    window: int = 512,
    global_tokens: int = 0,
    global_qkv: tuple[Tensor, Tensor, Tensor] | None = None,
) -> Float[Tensor, "b h n e"]:
    """Token i sees token j iff -(w - w // 2 - 1) <= j - i <= w // 2, or one of them is global.

    The first ``global_tokens`` tokens see everything, with ``global_qkv`` (the paper's second set
    of projections, shaped as q, k, v) when given, and are seen by everything through k and v.
    """
    require_positive(window=window)
    n = q.shape[2]
    globals_ = min(global_tokens, n)
    left = min(window - window // 2 - 1, n - 1)
    right = 0 if causal else min(window // 2, n - 1)
    out = _banded(q, k, v, mask, (left, right), globals_)
    if not globals_:
        return out

    q_global, k_global, v_global = (q, k, v) if global_qkv is None else global_qkv
    q_global = q_global[:, :, :globals_]
    top = attend(q_global, k_global, v_global, mask=mask, causal=causal)
    return torch.cat([top, out[:, :, globals_:]], dim=2)


def _banded(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    mask: Tensor | None,
    reach: tuple[int, int],
    globals_: int,
) -> Tensor:
    """Every row over its band, plus the global columns outside of it."""
    n = q.shape[2]
    left, right = reach
    # Half a window per chunk measured fastest: few wasted keys, large enough products.
    chunk = min(max(left, right, SMALLEST_CHUNK), n)
    fill = -n % chunk
    behind = chunk if left and n > chunk else 0
    ahead = chunk if right and n > chunk else 0
    blocks = 1 + (behind > 0) + (ahead > 0)

    keys, values = (
        sliding_windows(pad_positions(x, behind, fill + ahead), blocks=blocks, step=chunk)
        for x in (k, v)
    )  # (b g, h, span, d)
    real = _window_mask(q, mask, globals_, (behind, fill + ahead), (blocks, chunk))

    row = torch.arange(chunk, device=q.device)[:, None]
    column = torch.arange(blocks * chunk, device=q.device) - behind
    band = (column >= row - left) & (column <= row + right)  # (c, span)
    band_bias = bias_from(band if real is None else band & real, q.dtype)

    parts = [Part(keys, values, band_bias.expand(keys.shape[0], 1, -1, -1))]
    if globals_:
        seen = key_bias(None if mask is None else mask[:, :globals_], q.dtype)
        parts.append(Part(k[:, :, :globals_], v[:, :, :globals_], seen))
    return attend_parts(pad_positions(q, 0, fill), parts)[:, :, :n]


def _window_mask(
    q: Tensor,
    mask: Tensor | None,
    globals_: int,
    padding: tuple[int, int],
    windows: tuple[int, int],
) -> Tensor | None:
    """Which keys of each window are real and not already seen as global, (b g, 1, 1, span)."""
    real = pad_mask(mask, q, *padding)
    if globals_:
        if real is None:
            real = torch.ones(q.shape[0], q.shape[2], dtype=torch.bool, device=q.device)
        local = torch.arange(real.shape[1], device=q.device) >= padding[0] + globals_
        real = real & local
    if real is None:
        return None
    blocks, step = windows
    return real.unfold(1, blocks * step, step).flatten(0, 1)[:, None, None]


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
        window, tokens = self.node.window, self.node.global_tokens
        own = self._global(sight.x) if tokens else None
        return longformer_attention(
            q, k, v, window=window, global_tokens=tokens, global_qkv=own, **sight.told
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
