"""The attention kernels against public implementations, where those are installed.

Each test sets the public code up so that both compute the same function; what that takes is said
in the test.
"""

import math
from functools import partial
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from formwright.ops.attention import kernels

pytestmark = pytest.mark.oracle

WIDTH, HEADS = 32, 4
HEAD = WIDTH // HEADS


def heads(x: Tensor) -> Tensor:
    return x.unflatten(-1, (HEADS, HEAD)).transpose(1, 2)  # (b, h, n, d)


def joined(x: Tensor) -> Tensor:
    return x.transpose(1, 2).flatten(2)  # (b, n, width)


def draw(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def same_with_gradient(mine: Tensor, theirs: Tensor, given: list[Tensor]) -> None:
    torch.testing.assert_close(mine, theirs, rtol=1e-5, atol=2e-6)
    weight = draw(*mine.shape, seed=9)
    grads = [
        torch.autograd.grad((out * weight).sum(), given, retain_graph=True)
        for out in (mine, theirs)
    ]
    torch.testing.assert_close(*grads, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("masked", [False, True])
def test_longformer_with_an_odd_window_is_the_one_of_transformers(masked: bool) -> None:
    """Their window 2c means |i - j| <= c, which is our window 2c + 1."""
    longformer = pytest.importorskip("transformers.models.longformer.modeling_longformer")
    from transformers import LongformerConfig

    config = LongformerConfig(
        hidden_size=WIDTH,
        num_attention_heads=HEADS,
        attention_window=[8],
        attention_probs_dropout_prob=0.0,
    )
    torch.manual_seed(0)
    theirs, n = longformer.LongformerSelfAttention(config, 0), 48
    x = draw(2, n, WIDTH).requires_grad_()
    real = torch.arange(n) < torch.tensor([[n], [n - 13 if masked else n]])
    q, k, v = (heads(layer(x)) for layer in (theirs.query, theirs.key, theirs.value))
    mine = joined(kernels.longformer_attention(q, k, v, window=9, mask=real))
    out = theirs(
        x,
        attention_mask=torch.where(real, 0.0, -10000.0),
        is_index_masked=~real,
        is_index_global_attn=torch.zeros(2, n, dtype=torch.bool),
        is_global_attn=False,
    )[0]
    same_with_gradient(mine * real[..., None], out * real[..., None], [x])


def test_longformer_with_global_tokens_is_the_one_of_transformers() -> None:
    """Global rows use the second set of projections; a global token is seen through the first."""
    longformer = pytest.importorskip("transformers.models.longformer.modeling_longformer")
    from transformers import LongformerConfig

    config = LongformerConfig(
        hidden_size=WIDTH,
        num_attention_heads=HEADS,
        attention_window=[8],
        attention_probs_dropout_prob=0.0,
    )
    torch.manual_seed(0)
    theirs, n = longformer.LongformerSelfAttention(config, 0).eval(), 48
    x = draw(2, n, WIDTH).requires_grad_()
    is_global = (torch.arange(n) < 2).expand(2, n)
    q, k, v = (heads(layer(x)) for layer in (theirs.query, theirs.key, theirs.value))
    own = (theirs.query_global, theirs.key_global, theirs.value_global)
    first, second, third = (heads(layer(x)) for layer in own)
    mine = kernels.longformer_attention(
        q, k, v, window=9, global_tokens=2, global_qkv=(first, second, third)
    )
    out = theirs(
        x,
        attention_mask=torch.where(is_global, 10000.0, 0.0),
        is_index_masked=torch.zeros(2, n, dtype=torch.bool),
        is_index_global_attn=is_global,
        is_global_attn=True,
    )[0]
    same_with_gradient(joined(mine), out, [x])


def test_bigbird_is_the_one_of_transformers_on_the_plan_that_it_draws() -> None:
    """In train mode (eval replaces the plan), at a length where it repeats no block."""
    big_bird = pytest.importorskip("transformers.models.big_bird.modeling_big_bird")
    from transformers import BigBirdConfig

    n, block = 128, 8
    config = BigBirdConfig(
        hidden_size=WIDTH,
        num_attention_heads=HEADS,
        block_size=block,
        num_random_blocks=3,
        max_position_embeddings=n,
        attention_probs_dropout_prob=0.0,
    )
    torch.manual_seed(0)
    theirs = big_bird.BigBirdBlockSparseAttention(config, seed=0).train()
    x = draw(2, n, WIDTH).requires_grad_()
    masks = big_bird.BigBirdModel.create_masks_for_block_sparse_attn(torch.ones(2, n), block)
    blocked, band, rows, columns = masks
    out, weights = theirs(x, band, rows, columns, blocked, blocked)

    seen = weights[0].unflatten(1, (-1, block)).unflatten(3, (-1, block)).sum((2, 4)) > 0
    plan = [
        [
            sorted(set(row.nonzero().flatten().tolist()) - {0, 15, i, i + 1, i + 2})
            for i, row in enumerate(head[1:-1])
        ]
        for head in seen
    ]
    q, k, v = (heads(layer(x)) for layer in (theirs.query, theirs.key, theirs.value))
    mine = kernels.bigbird_attention(q, k, v, block=block, plan=torch.tensor(plan))
    same_with_gradient(joined(mine), out, [x])


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("hashes", [1, 2])
def test_reformer_with_two_chunks_is_the_one_of_transformers(causal: bool, hashes: int) -> None:
    """With two chunks every key is visible, so it does not matter how either side hashes."""
    reformer = pytest.importorskip("transformers.models.reformer.modeling_reformer")
    from transformers import ReformerConfig

    n = 16
    config = ReformerConfig(
        hidden_size=WIDTH,
        num_attention_heads=HEADS,
        attention_head_size=HEAD,
        lsh_attn_chunk_length=8,
        num_hashes=hashes,
        num_buckets=2,
        is_decoder=causal,
        lsh_attention_probs_dropout_prob=0.0,
        hash_seed=0,
    )
    torch.manual_seed(0)
    theirs = reformer.LSHSelfAttention(config)
    x = draw(2, n, WIDTH).requires_grad_()
    rotations = kernels.lsh_rotations(HEAD, 2, torch.Generator().manual_seed(1), hashes=hashes)
    mine = kernels.reformer_attention(
        heads(theirs.query_key(x)),
        heads(theirs.value(x)),
        rotations=rotations,
        chunk_length=8,
        causal=causal,
    )
    if hashes == 1:
        same_with_gradient(joined(mine), theirs(x).hidden_states, [x])
    else:  # their rounds look back into each other, so some keys are counted more often
        assert theirs(x).hidden_states.shape == joined(mine).shape


def test_performer_relu_is_the_generalised_attention_of_performer_pytorch() -> None:
    performer = pytest.importorskip("performer_pytorch.performer_pytorch")
    q, k, v = (draw(2, HEADS, 30, HEAD, seed=seed).requires_grad_() for seed in range(3))
    features = partial(performer.generalized_kernel, projection_matrix=None, normalize_data=False)
    theirs = performer.linear_attention(features(q), features(k), v)
    same_with_gradient(kernels.performer_relu_attention(q, k, v), theirs, [q, k, v])


def test_linear_is_the_generalised_attention_of_performer_pytorch_with_elu() -> None:
    performer = pytest.importorskip("performer_pytorch.performer_pytorch")
    q, k, v = (draw(2, HEADS, 30, HEAD, seed=seed).requires_grad_() for seed in range(3))
    features = partial(
        performer.generalized_kernel,
        projection_matrix=None,
        normalize_data=False,
        kernel_fn=lambda x: F.elu(x) + 1,
        kernel_epsilon=0.0,
    )
    theirs = performer.linear_attention(features(q), features(k), v)
    same_with_gradient(kernels.linear_attention(q, k, v, eps=0.0), theirs, [q, k, v])


def test_favor_is_the_softmax_kernel_of_performer_pytorch() -> None:
    """They stop the gradient at the maximum, which is exact only if nothing is added to it."""
    performer = pytest.importorskip("performer_pytorch.performer_pytorch")
    q, k, v = (draw(2, HEADS, 30, HEAD, seed=seed).requires_grad_() for seed in range(3))
    drawn = kernels.orthogonal_features(24, HEAD, torch.Generator().manual_seed(0))

    def both(eps: float) -> tuple[Tensor, Tensor]:
        features = partial(performer.softmax_kernel, projection_matrix=drawn, eps=eps)
        q_features, k_features = features(q, is_query=True), features(k, is_query=False)
        theirs = performer.linear_attention(q_features, k_features, v)
        return kernels.performer_favor_attention(q, k, v, projection=drawn, eps=eps), theirs

    same_with_gradient(*both(0.0), [q, k, v])
    torch.testing.assert_close(*both(1e-6), rtol=1e-5, atol=2e-6)


def test_linformer_is_the_one_of_the_linformer_package() -> None:
    """Two projections with the same values: sharing them there would also make V equal to K."""
    linformer = pytest.importorskip("linformer")
    n, slots = 30, 6
    torch.manual_seed(0)
    theirs = linformer.LinformerSelfAttention(WIDTH, n, k=slots, heads=HEADS)
    table = draw(n, slots) / math.sqrt(n)
    with torch.no_grad():
        theirs.proj_k.copy_(table)
        theirs.proj_v.copy_(table)
        theirs.to_out.bias.zero_()
    x = draw(2, n, WIDTH).requires_grad_()
    q, k, v = (heads(layer(x)) for layer in (theirs.to_q, theirs.to_k, theirs.to_v))
    mine = kernels.linformer_attention(q, k, v, key_projection=table, value_projection=table)
    same_with_gradient(theirs.to_out(joined(mine)), theirs(x), [x])

    slotted = [
        heads(layer(kernels.project_length(x, table))) for layer in (theirs.to_k, theirs.to_v)
    ]
    early = kernels.slot_attention(q, slotted[0], slotted[1])
    same_with_gradient(early, mine, [x])


@pytest.mark.parametrize("causal", [False, True])
def test_local_is_the_one_of_the_local_attention_package(causal: bool) -> None:
    """Without looking around, without rotary positions, at a multiple of the window."""
    local_attention = pytest.importorskip("local_attention")
    theirs: Any = local_attention.LocalAttention(
        6, look_backward=0, look_forward=0, causal=causal, dropout=0.0
    )
    q, k, v = (draw(2, HEADS, 30, HEAD, seed=seed).requires_grad_() for seed in range(3))
    mine = kernels.local_attention(q, k, v, block=6, causal=causal)
    same_with_gradient(mine, theirs(q, k, v), [q, k, v])


def test_this_file_would_notice_a_wrong_block() -> None:
    q, k, v = (draw(1, HEADS, 30, HEAD, seed=seed).requires_grad_() for seed in range(3))
    one, other = (kernels.local_attention(q, k, v, block=block) for block in (6, 5))
    with pytest.raises(AssertionError):
        same_with_gradient(one, other, [q, k, v])
