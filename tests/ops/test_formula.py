"""Attention formulas as torch code, against maths written plainly for one head of one text."""

import math
from collections.abc import Callable
from random import Random

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode

from formwright.arch import Formula, Load, Site, Step
from formwright.arch.graph import formulas
from formwright.arch.graph.formula import tidied
from formwright.arch.graph.formulas import cosine, euclidean, formula, paths, scale, softmax
from formwright.errors import ShapeError, SpecError
from formwright.ops import Builder, Context, Past
from formwright.ops.formula import FormulaOp
from formwright.testing import OperatorTestCase
from formwright.testing.formulas import random_formula

PUBLISHED = {
    "standard": formulas.standard,
    "A2": formulas.autobert_zero_2,
    "A4": formulas.autobert_zero_4,
    "A6": formulas.autobert_zero_6,
    "A10": formulas.autobert_zero_10,
    "A12": formulas.autobert_zero_12,
}
every_published = pytest.mark.parametrize("name", PUBLISHED)
WIDTH = 12


def given_formula(*, causal: bool, examples: int = 60):
    """Run a test on many random formulas, made so that hypothesis can shrink them."""

    def decorate(test):
        @settings(max_examples=examples, deadline=None)
        @given(st.randoms(use_true_random=False))
        def run(rng: Random) -> None:
            test(random_formula(rng, causal=causal))

        run.__name__, run.__doc__ = test.__name__, test.__doc__
        return run

    return decorate


def built(node: Formula, *, causal: bool = False, width: int = WIDTH) -> FormulaOp:
    torch.manual_seed(0)
    return FormulaOp(node, Site(width=width, causal=causal), Builder()).double()


def stream(batch: int = 2, length: int = 9, width: int = WIDTH) -> Tensor:
    torch.manual_seed(1)
    return torch.randn(batch, length, width, dtype=torch.float64)


def close(found: Tensor, expected: Tensor) -> None:
    """Equal to rounding; formulas without a softmax can grow large."""
    size = expected.abs().max().item()
    torch.testing.assert_close(found, expected, rtol=1e-11, atol=1e-13 * max(size, 1.0))


# --- the plain truth --------------------------------------------------------------------------


def euclidean_plainly(x: Tensor, y: Tensor) -> Tensor:
    return (x[:, None] - y[None]).square().sum(-1).sqrt()


def cosine_plainly(x: Tensor, y: Tensor) -> Tensor:
    return (x @ y.T) / (x.norm(dim=-1)[:, None] * y.norm(dim=-1)[None])


def one_head(node: Formula, projected: list[Tensor | None], causal: bool) -> Tensor:
    """All steps on the matrices (tokens, dim) of one head, with no padding anywhere."""
    size = next(p for p in projected if p is not None).shape[-1]
    values: list[Tensor | None] = list(projected)
    token_axis = [(True, False)] * node.paths  # which axes are tokens

    for step in node.steps:
        of = [values[at] for at in step.of]
        if any(operand is None for operand in of):  # made from an input that is not used
            values.append(None)
            token_axis.append((False, False))
            continue
        x, y = of[0], of[-1]
        axes = token_axis[step.of[0]]
        if step.op == "softmax" and axes == (True, True) and causal:
            x = x.masked_fill(~torch.ones_like(x).tril().bool(), -math.inf)
        plainly: dict[str, Callable[[], Tensor]] = {
            "neg": lambda x=x: -x,
            "transpose": lambda x=x: x.T,
            "scale": lambda x=x: x / math.sqrt(size),
            "softmax": lambda x=x: x.exp() / x.exp().sum(-1, keepdim=True),
            "logsigmoid": lambda x=x: -torch.log1p(torch.exp(-x)),
            "softsign": lambda x=x: x / (1 + x.abs()),
            "add": lambda x=x, y=y: x + y,
            "matmul": lambda x=x, y=y: x @ y,
            "cosine": lambda x=x, y=y: cosine_plainly(x, y),
            "euclidean": lambda x=x, y=y: euclidean_plainly(x, y),
        }
        values.append(plainly[step.op]())
        if step.op == "transpose":
            axes = axes[::-1]
        elif step.op == "matmul":
            axes = (axes[0], token_axis[step.of[1]][1])
        elif step.op in ("cosine", "euclidean"):
            axes = (True, True)
        token_axis.append(axes)
    assert values[-1] is not None
    return values[-1]


def one_text(op: FormulaOp, node: Formula, x: Tensor, *, causal: bool = False) -> Tensor:
    """The whole layer for a text (tokens, width) in which every token is real."""
    projections = {int(path): linear(x) for path, linear in op.projections.items()}
    size = next(iter(projections.values())).shape[-1] // node.heads
    results = []
    for head in range(node.heads):
        part = slice(head * size, (head + 1) * size)
        inputs = [
            projections[path][:, part] if path in projections else None
            for path in range(node.paths)
        ]
        results.append(one_head(node, inputs, causal))
    return op.out(torch.cat(results, dim=-1))


def check_texts(
    op: FormulaOp, node: Formula, x: Tensor, found: Tensor, mask: Tensor, causal: bool
) -> None:
    """Every real token got what its text alone, without padding, gives it."""
    assert torch.isfinite(found).all()
    for row, text, real in zip(found, x, mask, strict=True):
        expected = one_text(op, node, text[real], causal=causal)
        if torch.isfinite(expected).all():  # plain exponentials of unscaled scores can overflow
            close(row[real], expected)


def check_maths(node: Formula, *, causal: bool) -> None:
    op, x = built(node, causal=causal), stream()
    mask = torch.ones(2, 9, dtype=torch.bool)
    check_texts(op, node, x, op(x, Context()), mask, causal)


def check_padding(node: Formula, *, causal: bool) -> None:
    op, x = built(node, causal=causal), stream(batch=3)
    mask = torch.ones(3, 9, dtype=torch.bool)
    mask[1, 6:] = False
    mask[2, [0, 4]] = False  # in front and in the middle too
    check_texts(op, node, x, op(x, Context(mask=mask)), mask, causal)


def check_causal(node: Formula) -> None:
    op, x = built(node, causal=True), stream()
    edited = x.clone()
    edited[:, 5:] += 1
    before, after = op(x, Context())[:, :5], op(edited, Context())[:, :5]
    torch.testing.assert_close(before, after, rtol=1e-12, atol=1e-12)


def check_piecewise(node: Formula) -> None:
    op, x, past = built(node, causal=True), stream(length=11), Past()
    mask = torch.ones(2, 11, dtype=torch.bool)
    mask[1, 3] = mask[1, 10] = False
    whole, pieces = op(x, Context(mask=mask)), []
    for a, b in ((0, 4), (4, 5), (5, 6), (6, 11)):
        pieces.append(op(x[:, a:b], Context(mask=mask[:, a:b], past=past)))
        past.advance(mask[:, a:b], 2, b - a)
    close(torch.cat(pieces, dim=1)[mask], whole[mask])


@given_formula(causal=False)
def test_random_formulas_compute_their_maths(node: Formula) -> None:
    check_maths(node, causal=False)


@given_formula(causal=True)
def test_random_causal_formulas_compute_their_maths(node: Formula) -> None:
    check_maths(node, causal=True)


@given_formula(causal=False)
def test_padding_is_as_if_it_were_not_there(node: Formula) -> None:
    check_padding(node, causal=False)


@given_formula(causal=True)
def test_padding_in_causal_stacks_is_as_if_it_were_not_there(node: Formula) -> None:
    check_padding(node, causal=True)


@given_formula(causal=True)
def test_random_causal_formulas_never_look_ahead(node: Formula) -> None:
    check_causal(node)


@given_formula(causal=True)
def test_reading_piece_by_piece_gives_what_reading_at_once_gives(node: Formula) -> None:
    check_piecewise(node)


def corners() -> dict[str, Formula]:
    """Formulas whose tokens are mixed in ways that chance seldom finds."""
    q, k, v = paths(3)
    weights, others = softmax(q @ k.T), softmax(cosine(v, q))
    written = {
        "weights of weights": weights @ others @ v,
        "weights transposed, from the right": (v.T @ weights.T).T,
        "softmax of transposed products": softmax((weights @ others).T) @ v,
        "softmax of transposed weights": softmax(weights.T) @ v,
        "products of transposed weights": (v.T @ (others.T @ weights.T)).T,
        "raw scores from the right": softmax(weights @ (q @ k.T)) @ v,
        "weights used twice": weights @ (weights @ v),
        "attention in attention": softmax(q @ (weights @ v).T) @ k,
    }
    return {name: formula(result, 2, paths=3) for name, result in written.items()}


every_corner = pytest.mark.parametrize("name", corners())


@every_corner
def test_corners_obey_the_laws_in_encoders_and_decoders(name: str) -> None:
    node = corners()[name]
    for causal in (False, True):
        check_maths(node, causal=causal)
        check_padding(node, causal=causal)
        check_counts(node, causal=causal)
    check_counts(node, causal=True, past=7)
    check_causal(node)
    check_piecewise(node)


def test_formulas_that_may_look_ahead_obey_the_laws_of_padding() -> None:
    q, k, v = paths(3)
    for result in (
        q @ (softmax(k.T) @ v),
        (softmax((q @ k.T).T).T) @ v,
        (v.T @ (q @ k.T)).T,
        (q @ k.T) @ (k @ v.T) @ v,
        q @ (k.T @ v) @ (v.T @ q),
    ):
        node = formula(result, 2, paths=3)
        check_maths(node, causal=False)
        check_padding(node, causal=False)
        check_counts(node, causal=False)


@given_formula(causal=False)
def test_tidying_changes_no_digit(node: Formula) -> None:
    op, x = built(node), stream()
    tidy = tidied(node)
    same = FormulaOp(tidy, Site(width=WIDTH), Builder()).double()
    same.out.load_state_dict(op.out.state_dict())
    for new, old in zip(same.projections.values(), op.projections.values(), strict=True):
        new.load_state_dict(old.state_dict())
    assert torch.equal(same(x, Context()), op(x, Context()))


@pytest.mark.parametrize("example", [*PUBLISHED, *corners(), "linear"], scope="class")
class TestFormulasInModels(OperatorTestCase):
    @pytest.fixture(autouse=True)
    def chosen(self, example: str) -> None:
        q, k, v = paths(3)
        found = {"linear": formula(q @ (k.T @ v), 2, paths=3)} | corners()
        found |= {name: make(4) for name, make in PUBLISHED.items()}
        self.node = found[example]


# --- counting -----------------------------------------------------------------------------------


def check_counts(node: Formula, *, causal: bool, past: int = 0) -> None:
    site, load = Site(width=WIDTH, causal=causal), Load(batch=2, length=5, past=past)
    with torch.device("meta"):
        op = FormulaOp(node, site, Builder())
        memory = Past() if past else None
        if memory is not None:
            op(torch.empty(2, past, WIDTH), Context(past=memory))
            memory.advance(None, 2, past)
        with FlopCounterMode(display=False) as counter:
            op(torch.empty(2, 5, WIDTH), Context(past=memory))
    counted = node.count(site, load)
    assert counted.params == sum(p.numel() for p in op.parameters())
    assert counted.flops == counter.get_total_flops()


@given_formula(causal=False)
def test_counts_of_random_formulas_are_exact(node: Formula) -> None:
    check_counts(node, causal=False)


@given_formula(causal=True)
def test_counts_of_causal_formulas_are_exact_also_with_a_past(node: Formula) -> None:
    check_counts(node, causal=True)
    check_counts(node, causal=True, past=7)


def kept_by_torch(op: FormulaOp, x: Tensor) -> int:
    """Numbers that autograd keeps, each storage once, no parameters."""
    own = {p.untyped_storage().data_ptr() for p in op.parameters()}
    kept: dict[int, Tensor] = {}

    def keep(t: Tensor) -> Tensor:
        if t.untyped_storage().data_ptr() not in own:
            kept[t.untyped_storage().data_ptr()] = t
        return t

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda t: t):
        answer = op(x, Context())
    del answer
    return sum(t.untyped_storage().nbytes() // t.element_size() for t in kept.values())


@every_published
def test_activation_memory_of_published_formulas_is_what_autograd_keeps(name: str) -> None:
    node = PUBLISHED[name](4)
    op = FormulaOp(node, Site(width=32), Builder())
    counted = node.count(Site(width=32), Load(batch=2, length=24)).kept
    x = torch.randn(2, 24, 32, requires_grad=True)
    assert counted == pytest.approx(kept_by_torch(op, x), rel=0.05)


@given_formula(causal=False, examples=60)
def test_activation_memory_of_random_formulas_is_about_what_autograd_keeps(node: Formula) -> None:
    # Not exact by nature: which copies a kernel makes of its operands is torch's choice.
    op = FormulaOp(node, Site(width=32), Builder())
    counted = node.count(Site(width=32), Load(batch=2, length=24)).kept
    x = torch.randn(2, 24, 32, requires_grad=True)
    assert counted == pytest.approx(kept_by_torch(op, x), rel=0.3)


# --- the published formulas, written out --------------------------------------------------------


def test_the_standard_formula_is_torchs_attention() -> None:
    op, x = built(formulas.standard(4)), stream(length=17)
    q, k, v = (
        op.projections[str(path)](x).unflatten(-1, (4, 3)).transpose(1, 2) for path in range(3)
    )
    expected = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2)
    torch.testing.assert_close(op(x, Context()), op.out(expected), rtol=0, atol=1e-14)


def test_standard_attention_equals_the_attention_layer() -> None:
    from formwright.arch import Attention
    from formwright.ops.attention.attention import AttentionOp

    site = Site(width=WIDTH, causal=True)
    op, x = built(formulas.standard(4), causal=True), stream()
    other = AttentionOp(Attention(4), site, Builder()).double()
    for name, path in (("query", "0"), ("key", "1"), ("value", "2")):
        getattr(other, name).load_state_dict(op.projections[path].state_dict())
    other.out.load_state_dict(op.out.state_dict())
    mask = torch.ones(2, 9, dtype=torch.bool)
    mask[0, 5:] = False
    for ctx in (Context(), Context(mask=mask)):
        torch.testing.assert_close(op(x, ctx), other(x, ctx), rtol=0, atol=1e-14)


@every_published
def test_published_formulas_run_on_the_fused_kernel_alone(name: str) -> None:
    called = [
        node.target.__name__
        for node in built(PUBLISHED[name](4)).whole.code.graph.nodes
        if node.op == "call_function"
    ]
    assert called.count("attend") == 1
    assert not {"matmul", "weigh"} & set(called)


def test_weights_that_are_used_twice_are_computed_once() -> None:
    q, k, v = paths(3)
    weights = softmax(scale(q @ k.T))
    ops = [line.op for line in formula(weights @ (weights @ v), 2, paths=3).plan().lines]
    assert ops.count("weigh") == 1
    assert ops.count("matmul") == 3
    assert "attend" not in ops


def test_the_fused_kernel_is_reached_however_its_operands_were_made() -> None:
    q, k = paths(2)
    sideways = formulas.logsigmoid(k.T)  # laid out with tokens side by side, not channels
    node = formula(softmax(scale(q @ sideways)) @ sideways.T, 4, paths=2)
    op, x = FormulaOp(node, Site(width=32), Builder()), torch.randn(1, 200, 32, requires_grad=True)
    assert kept_by_torch(op, x) < 4 * 200 * 200  # the weights of four heads are not kept


def written_out(name: str, q: Tensor, k: Tensor, v: Tensor | None) -> Tensor:
    """The formulas as the paper prints them."""
    root = math.sqrt(q.shape[-1])
    match name:
        case "standard":
            return torch.softmax(q @ k.mT / root, -1) @ v
        case "A2":
            return torch.softmax(q @ torch.log(1 + torch.exp(k.mT)) / root, -1) @ (k + q)
        case "A4":
            inner = -F.logsigmoid(F.logsigmoid(q) + q + k)
            return torch.softmax(q @ inner.mT / root, -1) @ q
        case "A6":
            return torch.softmax(q @ (-F.logsigmoid(k)).mT / root, -1) @ q
        case "A10":
            inner = k / root + F.softsign(F.softsign(k) / root) + v
            return torch.softmax(q @ inner.mT / root, -1) @ v
        case _:
            return torch.softmax(q @ (k / root + v).mT / root, -1) @ v


@every_published
def test_published_formulas_compute_what_is_printed_forward_and_backward(name: str) -> None:
    op, x = built(PUBLISHED[name](4)), stream().requires_grad_()
    heads = [linear(x).unflatten(-1, (4, 3)).transpose(1, 2) for linear in op.projections.values()]
    expected = op.out(
        written_out(name, *heads, *[None] * (3 - len(heads))).transpose(1, 2).flatten(2)
    )
    found = op(x, Context())
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-13)
    push = torch.randn_like(found)
    (slope,) = torch.autograd.grad(found, x, push)
    (other,) = torch.autograd.grad(expected, x, push)
    torch.testing.assert_close(slope, other, rtol=0, atol=1e-12)


def test_softplus_is_what_the_path_of_layer_2_computes() -> None:
    k = torch.linspace(-30, 30, 401, dtype=torch.float64)
    torch.testing.assert_close(-F.logsigmoid(-k), torch.log1p(torch.exp(k)), rtol=0, atol=1e-12)
    torch.testing.assert_close(-F.logsigmoid(-k), F.softplus(k, threshold=1e9), rtol=0, atol=1e-12)


def test_rows_of_attention_sum_to_one_after_a_softmax() -> None:
    # with values that are all ones in every head, weights that sum to one give ones
    op, x = built(formulas.standard(4)), stream()
    values, out = op.projections["2"], op.out
    with torch.no_grad():
        values.weight.zero_()
        values.bias.fill_(1)
        out.weight.copy_(torch.eye(WIDTH))
        out.bias.zero_()
    mask = torch.ones(2, 9, dtype=torch.bool)
    mask[0, 3:] = False
    torch.testing.assert_close(op(x, Context(mask=mask)), torch.ones_like(x), rtol=0, atol=1e-14)


def test_formulas_without_softmax_can_be_linear_attention() -> None:
    q, k, v = paths(3)
    op, x = built(formula(q @ (k.T @ v), 2, paths=3)), stream()
    other = FormulaOp(formula((q @ k.T) @ v, 2, paths=3), Site(width=WIDTH), Builder()).double()
    other.load_state_dict(op.state_dict())
    torch.testing.assert_close(op(x, Context()), other(x, Context()), rtol=0, atol=1e-12)


# --- behaviour ------------------------------------------------------------------------------------


def test_equal_tokens_have_distance_zero_and_a_finite_gradient() -> None:
    q, k = paths(2)
    op = built(formula(softmax(-euclidean(q, q)) @ k, 2, paths=2))
    x = stream(length=1).expand(-1, 4, -1).clone().requires_grad_()
    op(x, Context()).sum().backward()
    assert x.grad is not None
    assert torch.isfinite(x.grad).all()


def test_a_text_that_is_all_padding_stays_finite() -> None:
    q, k, v = paths(3)
    for result in (softmax(cosine(q, k)) @ v, q @ (softmax(k.T) @ v), softmax(q @ k.T) @ v):
        op, x = built(formula(result, 2, paths=3)), stream()
        mask = torch.ones(2, 9, dtype=torch.bool)
        mask[1] = False
        assert torch.isfinite(op(x, Context(mask=mask))).all()


def test_dropout_acts_on_the_weights_of_both_kernels_while_training() -> None:
    q, k, v = paths(3)
    fused = softmax(scale(q @ k.T)) @ v
    explicit = softmax(cosine(q, k)) @ v
    for result in (fused, explicit):
        node, site = formula(result, 2, paths=3), Site(width=WIDTH)
        op = FormulaOp(node, site, Builder(attention_dropout=0.5)).double()
        x = stream()
        assert not torch.equal(op(x, Context()), op(x, Context()))
        assert torch.equal(op.eval()(x, Context()), op(x, Context()))


def test_a_formula_that_looks_ahead_refuses_a_past() -> None:
    op = built(formulas.standard(2))
    with pytest.raises(SpecError, match="cannot read a text piece by piece"):
        op(stream(), Context(past=Past()))


def test_a_formula_that_does_not_fit_is_refused_when_it_is_built() -> None:
    q, k, v = paths(3)
    with pytest.raises(ShapeError, match="also those to come"):
        built(formula((q @ k.T) @ v, 2, paths=3), causal=True)


def test_a_limited_past_sees_what_attention_would_see() -> None:
    op, x, past = built(formulas.standard(2), causal=True), stream(length=10), Past(limit=3)
    with torch.no_grad():
        op(x[:, :6], Context(past=past))
        past.advance(None, 2, 6)
        found = op(x[:, 6:], Context(past=past))
        expected = op(x[:, 3:], Context())[:, 3:]
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-13)


def test_projections_are_named_by_path_and_only_used_ones_are_built() -> None:
    node = Formula(
        2,
        (
            Step("transpose", (2,)),
            Step("matmul", (0, 3)),
            Step("softmax", (4,)),
            Step("matmul", (5, 2)),
        ),
    )
    assert sorted(built(node).projections) == ["0", "2"]


def test_formulas_compile_and_copy_like_any_module() -> None:
    import copy

    op, x = built(formulas.autobert_zero_4(2)), stream()
    again = copy.deepcopy(op)
    assert torch.equal(again(x, Context()), op(x, Context()))
    assert list(op.state_dict()) == [
        "projections.0.weight",
        "projections.0.bias",
        "projections.1.weight",
        "projections.1.bias",
        "out.weight",
        "out.bias",
    ]
