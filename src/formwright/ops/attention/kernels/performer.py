"""Performer attention: softmax weights replaced by products of positive features, O(length).

Paper: "Rethinking Attention with Performers", Choromanski et al. 2020,
https://arxiv.org/abs/2009.14794
Differs from the paper: ``performer_relu_attention`` is the Long Range Arena default (generalised
attention, relu(x) + 1e-3, neither projection nor scaling); ``performer_favor_attention`` is the
paper's FAVOR+, with the Long Range Arena stabiliser (1e-6 is added after subtracting the maximum)
and the projection given by the caller, who decides when to redraw it. Neither code masks padding;
``mask=None`` gives that, a mask hides padded keys. The causal form leaves the maximum over key
positions out, because the future would leak through it.
"""

import math
from typing import Any, Literal

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.autograd import Function

from formwright.arch import Attention, Performer, Site
from formwright.ops.attention.base import MechanismOp, Sight, drawn
from formwright.ops.attention.kernels.linear import feature_attention, mapped_attention
from formwright.ops.attention.kernels.shared import MASKED
from formwright.ops.base import Builder, Context, operator

# b batch, h head, n position, d query/key size per head, e value size per head, m features

Maximum = Literal["none", "feature", "position"]


def performer_relu_attention(
    q: Float[Tensor, "b h n d"],
    k: Float[Tensor, "b h n d"],
    v: Float[Tensor, "b h n e"],
    *,
    mask: Bool[Tensor, "b n"] | None = None,
    causal: bool = False,
    eps: float = 1e-3,
) -> Float[Tensor, "b h n e"]:
    """Normalised attention with phi(x) = relu(x) + eps."""

    # F.relu keeps its result for backward; F.threshold does not, so eps can be added in place.
    def phi(x: Tensor) -> Tensor:
        return F.threshold(x, 0.0, 0.0).add_(eps)

    return mapped_attention(q, k, v, phi, mask=mask, causal=causal)


def performer_favor_attention(
    q: Float[Tensor, "b h n d"],
    k: Float[Tensor, "b h n d"],
    v: Float[Tensor, "b h n e"],
    *,
    projection: Float[Tensor, "m d"],
    mask: Bool[Tensor, "b n"] | None = None,
    causal: bool = False,
    eps: float = 1e-6,
) -> Float[Tensor, "b h n e"]:
    """Normalised attention with phi(x) = m^-1/2 (exp(W x' - |x'|^2 / 2 - max) + eps).

    x' = x d^-1/4; the maximum is over features for queries, over features and positions for keys.
    """
    # The factor m^-1/2 cancels between numerator and denominator, so it is left out.
    q_features = _favor_features(q, projection, eps, "feature", None)
    k_features = _favor_features(k, projection, eps, "none" if causal else "position", mask)
    return feature_attention(q_features, k_features, v, mask=mask, causal=causal)


def _favor_features(
    x: Tensor, projection: Tensor, eps: float, maximum_over: Maximum, mask: Tensor | None
) -> Tensor:
    features: Tensor = _FavorFeatures.apply(  # type: ignore[no-untyped-call]
        x, projection, eps, maximum_over, mask
    )[0]
    return features


class _FavorFeatures(Function):
    """exp(W x' - |x'|^2 / 2 - max) + eps in one buffer, forward and backward.

    These are the largest tensors of FAVOR+. Building them step by step spends more time on
    fetching fresh memory than on computing.
    """

    @staticmethod
    def forward(
        x: Tensor,
        projection: Tensor,
        eps: float,
        maximum_over: Maximum,
        mask: Tensor | None,
    ) -> tuple[Tensor, Tensor | None]:
        d = x.shape[-1]
        scores = x @ (projection.mT * d**-0.25)  # (b, h, n, m)
        shift = torch.linalg.vecdot(x, x).unsqueeze(-1) * (0.5 * d**-0.5)  # (b, h, n, 1)
        where = None
        if maximum_over == "feature":
            shift += scores.amax(-1, keepdim=True)
        elif maximum_over == "position":
            largest, where = _largest(scores, mask)
            shift += largest
        return scores.sub_(shift).exp_().add_(eps), where

    @staticmethod
    def setup_context(
        ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor | None]
    ) -> None:
        x, projection, ctx.eps, ctx.maximum_over, _ = inputs
        if output[1] is not None:
            ctx.mark_non_differentiable(output[1])
        ctx.save_for_backward(x, projection, *output)

    @staticmethod
    def backward(
        ctx: Any, grad: Tensor, _: Tensor | None
    ) -> tuple[Tensor, Tensor | None, None, None, None]:
        x, projection, features, where = ctx.saved_tensors
        d = x.shape[-1]
        slope = (features - ctx.eps).mul_(grad)  # (b, h, n, m)
        total = slope.sum(-1, keepdim=True)  # (b, h, n, 1), minus the gradient of the shift
        if ctx.maximum_over == "feature":
            slope.scatter_add_(-1, features.argmax(-1, keepdim=True), -total)
        elif ctx.maximum_over == "position":
            slope.flatten(2).scatter_add_(-1, where, -total.sum(2))
        grad_x = (slope @ (projection * d**-0.25)).addcmul_(x, total, value=-(d**-0.5))
        grad_projection = None
        if ctx.needs_input_grad[1]:
            grad_projection = torch.einsum("bhnm,bhnd->md", slope, x) * d**-0.25
        return grad_x, grad_projection, None, None, None


def _largest(
    scores: Float[Tensor, "b h n m"], mask: Bool[Tensor, "b n"] | None
) -> tuple[Float[Tensor, "b h 1 1"], Int[Tensor, "b h 1"]]:
    """Maximum over the features of all real positions, and where it is among the n m scores."""
    rows = scores.amax(-1)  # (b, h, n)
    if mask is not None:
        rows = rows.masked_fill(~mask[:, None], MASKED)
    largest, row = rows.max(-1, keepdim=True)  # (b, h, 1)
    picked = scores.take_along_dim(row.unsqueeze(-1), 2).squeeze(2)  # (b, h, m)
    where = row * scores.shape[-1] + picked.argmax(-1, keepdim=True)
    return largest.unsqueeze(-1), where


def orthogonal_features(
    features: int,
    d: int,
    generator: torch.Generator,
    *,
    lengths: Literal["chi", "sqrt"] = "chi",
    dtype: torch.dtype = torch.float32,
) -> Float[Tensor, "m d"]:
    """Draw gaussian-like rows that are orthogonal within each group of d.

    ``lengths`` is "chi" for the lengths of independent gaussian rows (the unbiased estimator and
    the Long Range Arena choice) or "sqrt" for sqrt(d) everywhere.
    """
    groups = -(-features // d)
    gaussian = torch.randn(groups, d, d, generator=generator, dtype=torch.float64)
    rows = torch.linalg.qr(gaussian).Q.mT.reshape(-1, d)[:features]
    if lengths == "chi":
        norms = torch.randn(features, d, generator=generator, dtype=torch.float64).norm(dim=1)
    else:
        norms = torch.full((features,), math.sqrt(d), dtype=torch.float64)
    return (rows * norms[:, None]).to(dtype)


@operator(Performer)
class PerformerOp(MechanismOp):
    """ReLU features, or random ones that stand for the softmax.

    Differs from the paper: random features are drawn once, when the layer is built, and saved with
    the weights; they are not redrawn while training.
    """

    projection: Tensor | None

    def __init__(self, node: Performer, attention: Attention, site: Site, builder: Builder) -> None:
        super().__init__(node, attention, site, builder)
        projection = None
        if node.kernel == "favor":
            key = attention.key_size(site.width)
            projection = drawn(lambda g: orthogonal_features(node.random_features, key, g))
        self.register_buffer("projection", projection)

    def forward(self, q: Tensor, k: Tensor, v: Tensor, sight: Sight, ctx: Context) -> Tensor:
        mask = self.real_keys(sight)
        if self.projection is None:
            return performer_relu_attention(q, k, v, mask=mask, causal=sight.causal)
        features = self.projection.to(q.dtype)
        return performer_favor_attention(
            q, k, v, projection=features, mask=mask, causal=sight.causal
        )
