"""Attention mechanisms as plain functions of q, k and v, and as the layers that call them.

All functions share one contract: q and k are (b, h, n, d), v is (b, h, n, e), ``mask`` is a boolean
(b, n) with True for real tokens, the result is (b, h, n, e). Any length works. Rows of padded
queries are finite but carry no meaning.
"""

from formwright.ops.attention.kernels.bigbird import bigbird_attention, random_plan
from formwright.ops.attention.kernels.linear import feature_attention, linear_attention
from formwright.ops.attention.kernels.linformer import (
    linformer_attention,
    project_length,
    slot_attention,
)
from formwright.ops.attention.kernels.local import local_attention
from formwright.ops.attention.kernels.longformer import longformer_attention
from formwright.ops.attention.kernels.performer import (
    orthogonal_features,
    performer_favor_attention,
    performer_relu_attention,
)
from formwright.ops.attention.kernels.reformer import (
    join_heads_untransposed,
    lsh_buckets,
    lsh_rotations,
    reformer_attention,
    reformer_lra_attention,
)
from formwright.ops.attention.kernels.sparse import sparse_attention, sparse_cls_attention
from formwright.ops.attention.kernels.synthesizer import synthesizer_attention

__all__ = [
    "bigbird_attention",
    "feature_attention",
    "join_heads_untransposed",
    "linear_attention",
    "linformer_attention",
    "local_attention",
    "longformer_attention",
    "lsh_buckets",
    "lsh_rotations",
    "orthogonal_features",
    "performer_favor_attention",
    "performer_relu_attention",
    "project_length",
    "random_plan",
    "reformer_attention",
    "reformer_lra_attention",
    "slot_attention",
    "sparse_attention",
    "sparse_cls_attention",
    "synthesizer_attention",
]
