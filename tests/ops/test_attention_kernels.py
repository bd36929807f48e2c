"""The attention kernels against their dense definitions, forward and gradient."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from tests.ops import dense_reference as dense
from torch import Tensor

from formwright.arch import Attention, Synthesizer
from formwright.arch.site import Site
from formwright.ops.attention.kernels import (
    bigbird_attention,
    feature_attention,
    join_heads_untransposed,
    linear_attention,
    linformer_attention,
    local_attention,
    longformer_attention,
    lsh_buckets,
    lsh_rotations,
    orthogonal_features,
    performer_favor_attention,
    performer_relu_attention,
    random_plan,
    reformer_attention,
    reformer_lra_attention,
    shared,
    sparse_attention,
    sparse_cls_attention,
    synthesizer_attention,
)
from formwright.ops.attention.kernels.reformer import _sort_by_bucket, _take_sorted, _unsort
from formwright.ops.base import Builder

# b batch, h head, n position, d query/key size per head, e value size per head

HEADS, LONGEST = 2, 64


def tensor(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float64) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=generator, dtype=torch.float64).to(dtype)


@dataclass(frozen=True)
class Case:
    """A kernel, its definition, and which tensors besides q, k and v both take."""

    kernel: Callable[..., Tensor]
    reference: Callable[..., Tensor]
    causal: bool = True
    tables: tuple[tuple[int, ...], ...] = ()
    table_scale: float = 1.0


def masked(kernel: Callable[..., Tensor], visible: Callable[[int], Tensor], **params: Any) -> Case:
    """A mechanism that is softmax attention under a pattern."""

    def reference(q: Tensor, k: Tensor, v: Tensor, *, mask: Tensor | None, causal: bool) -> Tensor:
        seen = dense.restrict(visible(q.shape[2]), mask, causal)
        return dense.softmax_attention(q, k, v, seen)

    def run(q: Tensor, k: Tensor, v: Tensor, **options: Any) -> Tensor:
        return kernel(q, k, v, **params, **options)

    return Case(run, reference, causal=kernel is not bigbird_attention)


def everything(n: int) -> Tensor:
    return torch.ones(n, n, dtype=torch.bool)


def planned_bigbird(block: int, random_blocks: int, plan_length: int | None = None) -> Case:
    def plan(n: int) -> Tensor:
        return random_plan(
            n, HEADS, seed=3, block=block, random_blocks=random_blocks, plan_length=plan_length
        )

    def run(q: Tensor, k: Tensor, v: Tensor, **options: Any) -> Tensor:
        return bigbird_attention(q, k, v, block=block, plan=plan(q.shape[2]), **options)

    case = masked(bigbird_attention, lambda n: dense.bigbird(n, block, plan(n)))
    return Case(run, case.reference, causal=False)


def featured(kernel: Callable[..., Tensor], reference: Callable[..., Tensor]) -> Case:
    def definition(q: Tensor, k: Tensor, v: Tensor, *, mask: Tensor | None, causal: bool) -> Tensor:
        return reference(q, k, v, dense.restrict(everything(q.shape[2]), mask, causal))

    return Case(kernel, definition)


def favor(features: int) -> Case:
    def run(q: Tensor, k: Tensor, v: Tensor, projection: Tensor, **options: Any) -> Tensor:
        return performer_favor_attention(q, k, v, projection=projection, **options)

    def reference(
        q: Tensor, k: Tensor, v: Tensor, projection: Tensor, *, mask: Tensor | None, causal: bool
    ) -> Tensor:
        seen = dense.restrict(everything(q.shape[2]), mask, causal)
        return dense.performer_favor(q, k, v, seen, projection=projection, mask=mask, causal=causal)

    return Case(run, reference, tables=((features, 8),))


def linformer_case() -> Case:
    def run(q: Tensor, k: Tensor, v: Tensor, first: Tensor, second: Tensor, **o: Any) -> Tensor:
        return linformer_attention(q, k, v, key_projection=first, value_projection=second, **o)

    def reference(
        q: Tensor, k: Tensor, v: Tensor, *projections: Tensor, mask: Tensor | None, causal: bool
    ) -> Tensor:
        return dense.linformer(q, k, v, (projections[0], projections[1]), mask)

    shapes = ((LONGEST, 5), (LONGEST, 5))
    return Case(run, reference, causal=False, tables=shapes, table_scale=LONGEST**-0.5)


def synthesizer_case(dot_product: bool) -> Case:
    def run(q: Tensor, k: Tensor, v: Tensor, left: Tensor, right: Tensor, **o: Any) -> Tensor:
        if not dot_product:
            return synthesizer_attention(None, None, v, left=left, right=right, **o)
        return synthesizer_attention(q, k, v, left=left, right=right, **o)

    def reference(
        q: Tensor, k: Tensor, v: Tensor, *factors: Tensor, mask: Tensor | None, causal: bool
    ) -> Tensor:
        seen = dense.restrict(everything(q.shape[2]), mask, causal)
        pair = (factors[0], factors[1])
        if not dot_product:
            return dense.synthesizer(None, None, v, pair, seen)
        return dense.synthesizer(q, k, v, pair, seen)

    return Case(run, reference, tables=((HEADS, LONGEST, 3), (HEADS, 3, LONGEST)))


def reformer_case(chunk: int, *, hashes: int = 1, within_bucket: bool = False) -> Case:
    rotations = lsh_rotations(8, (4, 2), torch.Generator().manual_seed(5), hashes=hashes)

    def run(q: Tensor, _: Tensor, v: Tensor, **options: Any) -> Tensor:
        return reformer_attention(
            q, v, rotations=rotations, chunk_length=chunk, within_bucket=within_bucket, **options
        )

    def reference(q: Tensor, _: Tensor, v: Tensor, *, mask: Tensor | None, causal: bool) -> Tensor:
        return dense.reformer(
            q, v, rotations, mask, min(chunk, q.shape[2]), causal=causal,
            within_bucket=within_bucket,
        )  # fmt: skip

    return Case(run, reference)


CASES = {
    "local": masked(local_attention, lambda n: dense.local(n, 7), block=7),
    "longformer even": masked(longformer_attention, lambda n: dense.longformer(n, 10), window=10),
    "longformer odd": masked(longformer_attention, lambda n: dense.longformer(n, 3), window=3),
    "longformer wide": masked(longformer_attention, lambda n: dense.longformer(n, 70), window=70),
    "longformer one key": masked(longformer_attention, lambda n: dense.longformer(n, 1), window=1),
    "longformer global": masked(
        longformer_attention, lambda n: dense.longformer(n, 6, 2), window=6, global_tokens=2
    ),
    "sparse": masked(
        sparse_attention,
        lambda n: dense.sparse(n, 7, 2, first_column=True),
        block=7,
        summary=2,
    ),
    "sparse as in the paper": masked(
        sparse_attention,
        lambda n: dense.sparse(n, 5, 1, first_column=False),
        block=5,
        summary=1,
        first_column=False,
    ),
    "sparse cls": masked(
        sparse_cls_attention,
        lambda n: dense.sparse(n, 7, 2, first_column=True, cls=True),
        block=7,
        summary=2,
    ),
    "sparse without summary": masked(
        sparse_attention,
        lambda n: dense.sparse(n, 7, 0, first_column=False),
        block=7,
        summary=0,
        first_column=False,
    ),
    "bigbird": planned_bigbird(4, 2),
    "bigbird planned early": planned_bigbird(4, 3, 24),
    "bigbird without random": masked(
        bigbird_attention, lambda n: dense.bigbird(n, 4, torch.full((2, n, 1), -1)), block=4
    ),
    "linear": featured(linear_attention, dense.linear),
    "performer relu": featured(performer_relu_attention, dense.performer_relu),
    "performer favor": favor(16),
    "performer favor two features": favor(2),
    "linformer": linformer_case(),
    "synthesizer": synthesizer_case(True),
    "synthesizer without dot product": synthesizer_case(False),
    "reformer": reformer_case(6),
    "reformer in buckets": reformer_case(6, within_bucket=True),
    "reformer two rounds": reformer_case(6, hashes=2),
    "reformer one chunk": reformer_case(100),
}
PATTERNS = {name: case for name, case in CASES.items() if not case.tables and name.split()[0] in {
    "local", "longformer", "sparse", "bigbird", "reformer"}}  # fmt: skip
every_case = pytest.mark.parametrize("name", CASES)
every_length = pytest.mark.parametrize("n", [1, 2, 6, 7, 28, 41])


def inputs(case: Case, n: int, *, e: int = 8, dtype: torch.dtype = torch.float64) -> list[Tensor]:
    shapes = [(2, HEADS, n, 8), (2, HEADS, n, 8), (2, HEADS, n, e), *case.tables]
    scales = [1.0] * 3 + [case.table_scale] * len(case.tables)
    made = [
        tensor(*shape, seed=seed) * scale
        for seed, (shape, scale) in enumerate(zip(shapes, scales, strict=True))
    ]
    return [x.to(dtype).requires_grad_() for x in made]


def padding(n: int) -> Tensor:
    """Real tokens of two examples: one with holes, the other with a third of padding at its end."""
    position = torch.arange(n)
    return torch.stack([position % 5 != 2, position < max(1, n - n // 3)])


def gradients(run: Callable[..., Tensor], given: list[Tensor], **options: Any) -> list[Tensor]:
    """The rows of real tokens, then the gradient of a fixed weighting of them."""
    out = run(*given, **options)
    mask = options["mask"]
    if mask is not None:
        out = out * mask[:, None, :, None]
    loss = (out * tensor(*out.shape, seed=9, dtype=out.dtype)).sum()
    found = torch.autograd.grad(loss, given, allow_unused=True)
    return [out.detach(), *(torch.zeros(()) if x is None else x for x in found)]


@pytest.mark.parametrize("padded", [False, True], ids=["full", "padded"])
@every_length
@every_case
def test_kernel_and_gradient_equal_the_dense_definition(name: str, n: int, padded: bool) -> None:
    case, mask = CASES[name], padding(n) if padded else None
    for causal in (False, True) if case.causal else (False,):
        for dtype, tolerance in ((torch.float64, 1e-12), (torch.float32, 1e-5)):
            given = inputs(case, n, dtype=dtype)
            fast = gradients(case.kernel, given, mask=mask, causal=causal)
            slow = gradients(case.reference, given, mask=mask, causal=causal)
            for mine, truth in zip(fast, slow, strict=True):
                torch.testing.assert_close(mine, truth, rtol=tolerance, atol=tolerance)


@every_case
def test_values_may_have_another_size_than_queries(name: str) -> None:
    case, n = CASES[name], 30
    given = inputs(case, n, e=5)
    fast = gradients(case.kernel, given, mask=padding(n), causal=False)
    slow = gradients(case.reference, given, mask=padding(n), causal=False)
    for mine, truth in zip(fast, slow, strict=True):
        torch.testing.assert_close(mine, truth, rtol=1e-12, atol=1e-12)


@every_case
def test_bfloat16_follows_float32(name: str) -> None:
    case, n = CASES[name], 30
    # The hash of a token flips with rounding, so both sides start from the same rounded tokens.
    rounded = [x.detach().bfloat16() for x in inputs(case, n)]
    low = case.kernel(*rounded, mask=padding(n))
    high = case.kernel(*(x.float() for x in rounded), mask=padding(n))
    real = padding(n)[:, None, :, None]
    assert low.dtype == torch.bfloat16
    if "reformer" not in name:
        torch.testing.assert_close(low.float() * real, high * real, rtol=0.1, atol=0.1)
    assert low.isfinite().all()


@every_case
def test_padding_never_reaches_real_rows(name: str) -> None:
    case, n = CASES[name], 30
    mask = padding(n)
    given = inputs(case, n)
    edited = [x.detach().clone() for x in given]
    for x in edited[:3]:
        x.masked_fill_(~mask[:, None, :, None], 7.0)
    before, after = (case.kernel(*xs, mask=mask) for xs in (given, edited))
    real = mask[:, None, :, None]
    assert after.isfinite().all()
    torch.testing.assert_close(before * real, after * real, rtol=0, atol=1e-14)


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if case.causal])
def test_a_causal_kernel_ignores_the_future(name: str) -> None:
    case, n, cut = CASES[name], 30, 17
    given = [x.detach() for x in inputs(case, n)]
    edited = [x.clone() for x in given]
    for x in edited[:3]:
        x[:, :, cut:] = -2.0
    if name.startswith("reformer"):  # hashes are compared, so who shares a chunk may change
        edited[0] = given[0]
    before, after = (case.kernel(*xs, causal=True)[:, :, :cut] for xs in (given, edited))
    torch.testing.assert_close(before, after, rtol=0, atol=1e-14)


@pytest.mark.parametrize(
    "name", ["local", "longformer even", "longformer global", "sparse", "sparse cls", "bigbird"]
)
def test_a_token_matters_exactly_where_the_pattern_says(name: str) -> None:
    """The gradient of row i reaches token j iff visible[i, j]."""
    n, case = 41, CASES[name]
    x = tensor(1, HEADS, n, 8).requires_grad_()
    out = case.kernel(x, x, x)
    rows = [torch.autograd.grad(out[:, :, i].sum(), x, retain_graph=True)[0] for i in range(n)]
    touched = torch.stack(rows, dim=2)[0].abs().sum(-1) > 0  # (h, n, n)
    # One-hot values turn the definition's output into its weights.
    values = torch.eye(n, dtype=x.dtype).expand(1, HEADS, n, n)
    weights = case.reference(x, x, values, mask=None, causal=False)[0]
    assert torch.equal(touched, weights > 0)
    assert not touched.all()


@pytest.mark.parametrize("name", ["linear", "performer relu", "performer favor", "linformer"])
def test_every_token_matters_to_mechanisms_without_a_pattern(name: str) -> None:
    n, case = 20, CASES[name]
    given = inputs(case, n)
    out = case.kernel(*given)
    for i in (0, n - 1):
        grad = torch.autograd.grad(out[:, :, i].sum(), given[2], retain_graph=True)[0]
        assert (grad.abs().sum(-1) > 0).all()


@pytest.mark.parametrize("name", PATTERNS)
def test_the_weights_of_a_row_sum_to_one(name: str) -> None:
    given = inputs(CASES[name], 41)
    given[2] = torch.ones_like(given[2])
    torch.testing.assert_close(CASES[name].kernel(*given), given[2])


@pytest.mark.parametrize("name", ["linear", "performer relu", "performer favor"])
def test_positive_features_stay_in_the_convex_hull_of_the_values(name: str) -> None:
    given = inputs(CASES[name], 41)
    out, v = CASES[name].kernel(*given), given[2]
    low, high = v.amin(2, keepdim=True), v.amax(2, keepdim=True)
    slack = 1e-6  # the eps in the denominator pulls outputs towards 0 by that much
    assert (out >= low - slack).all()
    assert (out <= high + slack).all()


def test_local_with_one_block_is_full_attention() -> None:
    q, k, v = inputs(CASES["local"], 41)
    full = F.scaled_dot_product_attention(q, k, v)
    torch.testing.assert_close(local_attention(q, k, v, block=41), full)
    torch.testing.assert_close(local_attention(q, k, v, block=1000), full)


def test_local_can_show_the_zero_keys_of_the_long_range_arena_code() -> None:
    n, block = 12, 5
    q, k, v = (x.detach() for x in inputs(CASES["local"], n))
    filled = [F.pad(x, (0, 0, 0, 3)) for x in (q, k, v)]
    truth = dense.softmax_attention(*filled, dense.local(15, block))[:, :, :n]
    mine = local_attention(q, k, v, block=block, visible_padding=True)
    torch.testing.assert_close(mine, truth)
    hidden = local_attention(q, k, v, block=block)
    torch.testing.assert_close(mine[:, :, :10], hidden[:, :, :10])
    assert not torch.allclose(mine[:, :, 10:], hidden[:, :, 10:])
    masked_too = local_attention(
        q, k, v, block=block, visible_padding=True, mask=torch.ones(2, n, dtype=torch.bool)
    )
    torch.testing.assert_close(masked_too, truth)


def test_longformer_with_a_window_of_twice_the_length_is_full_attention() -> None:
    q, k, v = inputs(CASES["local"], 41)
    full = F.scaled_dot_product_attention(q, k, v)
    torch.testing.assert_close(longformer_attention(q, k, v, window=82), full)


def test_an_even_longformer_window_reaches_one_key_further_to_the_right() -> None:
    n = 12
    q = torch.zeros(1, 1, n, n)
    weights = longformer_attention(q, q, torch.eye(n)[None, None], window=4)[0, 0]
    assert weights[5].nonzero().flatten().tolist() == [4, 5, 6, 7]


def test_longformer_global_rows_use_their_own_projections() -> None:
    q, k, v = inputs(CASES["local"], 30)
    own = [tensor(2, HEADS, 30, 8, seed=seed) for seed in (11, 12, 13)]
    out = longformer_attention(
        q, k, v, window=6, global_tokens=2, global_qkv=(own[0], own[1], own[2])
    )
    top = F.scaled_dot_product_attention(own[0], own[1], own[2])[:, :, :2]
    shared_rows = longformer_attention(q, k, v, window=6, global_tokens=2)
    torch.testing.assert_close(out[:, :, :2], top)
    torch.testing.assert_close(out[:, :, 2:], shared_rows[:, :, 2:])


def test_sparse_with_one_block_is_full_causal_attention() -> None:
    q, k, v = inputs(CASES["local"], 41)
    full = F.scaled_dot_product_attention(q, k, v, is_causal=True)
    torch.testing.assert_close(sparse_attention(q, k, v, block=41), full)
    torch.testing.assert_close(sparse_attention(q, k, v, block=500), full)


@pytest.mark.parametrize("n", [1001, 2001, 4000])
def test_inner_rows_of_bigbird_see_eight_different_blocks(n: int) -> None:
    plan = random_plan(n, 4, seed=1)
    groups = math.ceil(n / 64)
    assert plan.shape == (4, groups - 2, 3)
    for head in plan.tolist():
        for row, drawn in enumerate(head, start=1):
            fixed = {0, groups - 1, row - 1, row, row + 1}
            assert len({*fixed, *drawn}) == len(fixed) + 3
            assert len(fixed) == (4 if row in (1, groups - 2) else 5)
            assert max(drawn) < 16  # only the first 1024 positions


def test_a_bigbird_plan_depends_on_seed_and_head_only() -> None:
    plan = random_plan(1024, 8, seed=0)
    assert torch.equal(plan[:2], random_plan(1024, 2, seed=0))
    assert not torch.equal(plan, random_plan(1024, 8, seed=1))
    assert not torch.equal(plan[0], plan[1])
    free = random_plan(8192, 8, seed=0, plan_length=None)
    assert int(free.max()) == 126


def test_a_short_input_takes_the_random_blocks_that_exist() -> None:
    plan = random_plan(6 * 64, 1, seed=0)[0]
    assert plan.tolist()[1] == [4, -1, -1]  # block 2 of 6: only block 4 is left
    assert sorted(plan.tolist()[0]) == [-1, 3, 4]


def test_a_bigbird_plan_for_another_length_is_refused() -> None:
    q = torch.zeros(1, 2, 512, 8)
    with pytest.raises(ValueError, match=r"random_plan\(length=512"):
        bigbird_attention(q, q, q, plan=random_plan(1024, 2, seed=0))


def test_linformer_with_an_identity_projection_is_full_attention() -> None:
    q, k, v = inputs(CASES["local"], 30)
    identity = torch.eye(30, dtype=q.dtype)
    out = linformer_attention(q, k, v, key_projection=identity, value_projection=identity)
    torch.testing.assert_close(out, F.scaled_dot_product_attention(q, k, v))


def test_linformer_refuses_more_tokens_than_its_projection_has_rows() -> None:
    q, table = torch.zeros(1, 1, 9, 4), torch.zeros(8, 2)
    with pytest.raises(ValueError, match="9 tokens but the Linformer projection"):
        linformer_attention(q, q, q, key_projection=table, value_projection=table)


def test_synthesizer_with_zero_factors_is_full_attention() -> None:
    q, k, v = inputs(CASES["local"], 30)
    left, right = (torch.zeros(*shape, dtype=q.dtype) for shape in ((2, 64, 3), (2, 3, 64)))
    out = synthesizer_attention(q, k, v, left=left, right=right)
    torch.testing.assert_close(out, F.scaled_dot_product_attention(q, k, v))


def test_synthesizer_weights_do_not_depend_on_the_input_without_dot_product() -> None:
    left, right = tensor(2, 64, 3), tensor(2, 3, 64, seed=1)
    one, two = tensor(1, 2, 30, 8, seed=2), tensor(1, 2, 30, 8, seed=3)
    apply = [synthesizer_attention(None, None, x, left=left, right=right) for x in (one, two)]
    both = synthesizer_attention(None, None, one + two, left=left, right=right)
    torch.testing.assert_close(apply[0] + apply[1], both)


def test_favor_approaches_softmax_attention_with_many_features() -> None:
    q, k, v = (x.detach() * 0.5 for x in inputs(CASES["local"], 30))
    full = F.scaled_dot_product_attention(q, k, v)
    errors = []
    for features in (16, 4096):
        drawn = orthogonal_features(
            features, 8, torch.Generator().manual_seed(0), dtype=torch.float64
        )
        out = performer_favor_attention(q, k, v, projection=drawn)
        errors.append(float((out - full).abs().mean()))
    assert errors[1] < 0.01
    assert errors[1] < errors[0] / 5


def test_orthogonal_features_are_orthogonal_within_groups_and_have_chi_lengths() -> None:
    generator = torch.Generator().manual_seed(0)
    rows = orthogonal_features(2048, 16, generator, dtype=torch.float64)
    group = rows[16:32]
    gram = group @ group.T
    torch.testing.assert_close(gram, gram.diagonal().diag(), rtol=0, atol=1e-12)
    lengths = rows.norm(dim=1)
    assert abs(float(lengths.square().mean()) - 16) < 0.5
    assert float(lengths.std()) > 0.5
    equal = orthogonal_features(20, 16, generator, lengths="sqrt", dtype=torch.float64)
    torch.testing.assert_close(equal.norm(dim=1), torch.full((20,), 4.0, dtype=torch.float64))


def test_sorting_by_bucket_is_a_permutation_that_unsorting_undoes() -> None:
    x = tensor(2, 3, 24, 8)
    rotations = lsh_rotations(8, 6, torch.Generator().manual_seed(0), hashes=2)
    order = _sort_by_bucket(lsh_buckets(x, rotations), None)
    assert torch.equal(order.position.sort(-1).values, torch.arange(24).expand(12, 24))
    assert (order.bucket.diff(dim=-1) >= 0).all()
    led = _take_sorted(x, order, 4)[:, 0]  # the last chunk comes first once more
    torch.testing.assert_close(led[:, :4], led[:, -4:], rtol=0, atol=0)
    back = _unsort(led[:, 4:].unflatten(1, (6, 4)), order)  # (rounds, b n h, d)
    for hash_round in back:
        assert torch.equal(hash_round.view(2, 24, 3, 8).transpose(1, 2), x)


@pytest.mark.parametrize("hashes", [1, 3])
def test_lsh_with_two_chunks_is_full_shared_query_key_attention(hashes: int) -> None:
    x, v = tensor(2, 2, 20, 8), tensor(2, 2, 20, 8, seed=1)
    rotations = lsh_rotations(8, 2, torch.Generator().manual_seed(0), hashes=hashes)
    keys = x / (x.square().mean(-1, keepdim=True) + 1e-6).sqrt() / math.sqrt(8)
    scores = x @ keys.mT - 1e5 * torch.eye(20, dtype=x.dtype)
    out = reformer_attention(x, v, rotations=rotations, chunk_length=10)
    torch.testing.assert_close(out, scores.softmax(-1) @ v, rtol=1e-12, atol=1e-12)

    real = torch.ones(2, 20, dtype=torch.bool)
    lra = reformer_lra_attention(x, v, rotations=rotations, chunks=2, mask=real)
    # 2 hidden zero tokens make chunks of 11, so both chunks still see everything.
    full = F.scaled_dot_product_attention(x, x, v, scale=math.sqrt(8))
    torch.testing.assert_close(lra, full, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("n", [1, 20, 33])
def test_the_long_range_arena_reformer_follows_its_code_to_the_letter(n: int) -> None:
    x, v = tensor(2, 2, n, 8), tensor(2, 2, n, 8, seed=1)
    rotations = lsh_rotations(8, 10, torch.Generator().manual_seed(0), dtype=torch.float64)
    fill = 10 - n % 10  # ten more tokens when the length is a multiple already
    zeros = [F.pad(t, (0, 0, 0, fill)) for t in (x, v)]
    truth = dense.reformer(*zeros, rotations, None, (n + fill) // 10, corrected=False)
    padded = reformer_lra_attention(x, v, rotations=rotations, keep_padding=True)
    torch.testing.assert_close(padded, truth, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(reformer_lra_attention(x, v, rotations=rotations), truth[:, :, :n])

    mixed = join_heads_untransposed(padded, n)
    assert mixed.shape == (2, n, 16)
    torch.testing.assert_close(mixed[:, 0, :8], truth[:, 0, 0])
    torch.testing.assert_close(mixed[:, 0, 8:], truth[:, 0, 1])


def test_merging_parts_is_the_same_in_fused_and_in_plain_torch() -> None:
    q = tensor(2, 3, 12, 8).requires_grad_()
    keys = [tensor(2 * g, 3, m, 8, seed=g).requires_grad_() for g, m in ((1, 5), (3, 4), (4, 2))]
    biases = [None, tensor(6, 1, 4, 4), tensor(1, 1, 1, 2)]
    parts = [shared.Part(key, key * 0.5 + 1, bias) for key, bias in zip(keys, biases, strict=True)]
    fused, plain = shared.attend_parts(q, parts), shared._portable_parts(q, parts, 8**-0.5)
    torch.testing.assert_close(fused, plain, rtol=1e-12, atol=1e-12)
    weight = tensor(2, 3, 12, 8, seed=5)
    mine, truth = (
        torch.autograd.grad((out * weight).sum(), [q, *keys], retain_graph=True)
        for out in (fused, plain)
    )
    torch.testing.assert_close(mine, truth, rtol=1e-12, atol=1e-12)


def test_windows_have_the_gradient_of_unfold() -> None:
    x = tensor(2, 3, 20, 4).requires_grad_()
    mine = shared.windows(x, blocks=3, step=4)
    truth = x.unfold(2, 12, 4).movedim(-1, -2)
    assert torch.equal(mine, truth)
    weight = tensor(*truth.shape, seed=1)
    grads = [torch.autograd.grad((out * weight).sum(), x)[0] for out in (mine, truth)]
    torch.testing.assert_close(*grads, rtol=1e-14, atol=1e-14)


def test_causal_features_agree_across_chunk_borders() -> None:
    n = 300  # more than two chunks of 128
    q, k, v = (tensor(1, 2, n, 4, seed=seed) for seed in range(3))
    q, k = q.exp(), k.exp()
    truth = dense.weighted_average(q @ k.mT, v, dense.pattern(n, lambda i, j: j <= i))
    mine = feature_attention(q, k, v, causal=True)
    torch.testing.assert_close(mine, truth, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("name", ["linear", "performer relu"])
@pytest.mark.parametrize("padded", [False, True], ids=["full", "padded"])
def test_long_inputs_give_the_same_with_and_without_gradient(name: str, padded: bool) -> None:
    n = 1030  # without gradient this long an input is worked through in slices
    given = inputs(CASES[name], n)
    mask = padding(n) if padded else None
    with torch.no_grad():
        sliced = CASES[name].kernel(*given, mask=mask)
    torch.testing.assert_close(sliced, CASES[name].kernel(*given, mask=mask), rtol=0, atol=1e-13)


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if not case.causal])
def test_a_mechanism_without_causal_form_says_so(name: str) -> None:
    given = inputs(CASES[name], 8)
    with pytest.raises(ValueError, match="has no causal form"):
        CASES[name].kernel(*given, causal=True)


def test_sizes_below_one_are_refused_by_name() -> None:
    q = torch.zeros(1, 1, 4, 2)
    with pytest.raises(ValueError, match="block must be at least 1, got 0"):
        local_attention(q, q, q, block=0)
    with pytest.raises(ValueError, match="window must be at least 1, got -3"):
        longformer_attention(q, q, q, window=-3)
    with pytest.raises(ValueError, match="must be even"):
        lsh_rotations(8, 5, torch.Generator())


@pytest.mark.parametrize(
    "name",
    ["local", "longformer even", "longformer global", "bigbird", "linear", "performer relu",
     "performer favor", "linformer", "reformer", "reformer two rounds"],
)  # fmt: skip
def test_no_tensor_of_a_sub_quadratic_kernel_comes_near_length_squared(name: str) -> None:
    case, n = CASES[name], 2048
    if name == "linformer":
        case = Case(case.kernel, case.reference, tables=((n, 5), (n, 5)))
    given = [x.detach()[:1] if x.dim() == 4 else x.detach() for x in inputs(case, n)]
    with torch.profiler.profile(profile_memory=True) as profile:
        case.kernel(*given)
    largest = max(event.self_cpu_memory_usage for event in profile.events())
    assert largest < n * n * 8 / 4  # a quarter of one float64 matrix, for two heads


def test_synthesizer_tables_begin_as_flax_has_them() -> None:
    # Xavier with fans heads x length and heads x rank: variance 2 / (heads (length + rank))
    torch.manual_seed(0)
    node = Attention(8, Synthesizer(rank=32), bias=False)
    built: Any = Builder().build(node, Site(width=64, longest=400))
    for table in (built.mechanism.left.detach(), built.mechanism.right.detach()):
        assert float(table.std()) == pytest.approx(math.sqrt(2 / (8 * 432)), rel=0.02)
        assert float(table.abs().max()) <= math.sqrt(6 / (8 * 432))
