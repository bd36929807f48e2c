"""Attention formulas as data: what fits, what is refused, how they are written."""

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.components import cut_feedforward, cut_heads, cut_query_key, cut_value

from formwright import zoo
from formwright.arch import (
    Architecture,
    Connected,
    Encoder,
    FeedForward,
    Formula,
    Linear,
    Load,
    Parallel,
    Residual,
    Site,
    Stack,
    Step,
    arch_id,
    from_json,
    notation,
    parse,
    to_json,
)
from formwright.arch.components import shares
from formwright.arch.connector import unrolled
from formwright.arch.graph import formulas
from formwright.arch.graph.formula import tidied
from formwright.arch.graph.formula_steps import Value, result_of
from formwright.arch.graph.formulas import (
    cosine,
    euclidean,
    expression,
    formula,
    paths,
    scale,
    softmax,
)
from formwright.arch.layer import Layer
from formwright.cost import count
from formwright.errors import NotationError, ShapeError
from formwright.testing.formulas import random_formula

PUBLISHED = {
    "standard": formulas.standard,
    "A2": formulas.autobert_zero_2,
    "A4": formulas.autobert_zero_4,
    "A6": formulas.autobert_zero_6,
    "A10": formulas.autobert_zero_10,
    "A12": formulas.autobert_zero_12,
}
every_published = pytest.mark.parametrize("make", PUBLISHED.values(), ids=PUBLISHED.keys())
ANYWHERE, CAUSAL = Site(width=16), Site(width=16, causal=True)


def given_formula(*, causal: bool, examples: int = 100):
    """Run a test on many random formulas, made so that hypothesis can shrink them."""

    def decorate(test):
        @settings(max_examples=examples, deadline=None)
        @given(st.randoms(use_true_random=False))
        def run(rng: Random) -> None:
            test(random_formula(rng, causal=causal))

        run.__name__, run.__doc__ = test.__name__, test.__doc__
        return run

    return decorate


def alone(layer: Layer, width: int = 16) -> Architecture:
    return Architecture(Stack((layer,)), Encoder(width))


def steps(*written: tuple) -> tuple[Step, ...]:
    return tuple(Step(op, of) for op, *of in written)


# --- what fits ------------------------------------------------------------------------------------


@given_formula(causal=False)
def test_random_formulas_can_stand_in_an_encoder(found: Formula) -> None:
    assert found.out_width(ANYWHERE) == 16


@given_formula(causal=True)
def test_random_causal_formulas_can_stand_in_a_decoder(found: Formula) -> None:
    assert found.out_width(CAUSAL) == 16


@every_published
def test_published_formulas_fit_encoders_and_decoders(make) -> None:
    assert make(4).out_width(ANYWHERE) == make(4).out_width(CAUSAL) == 16


def test_shapes_follow_the_rules_of_matrices() -> None:
    rows, columns = Value("tokens", "dim"), Value("dim", "tokens")
    scores, square = Value("tokens", "tokens"), Value("dim", "dim")
    products = {
        (rows, columns): scores,
        (columns, rows): square,
        (scores, rows): rows,
        (columns, scores): columns,
        (rows, square): rows,
        (square, columns): columns,
        (scores, scores): scores,
        (square, square): square,
    }
    for first in (rows, columns, scores, square):
        for last in (rows, columns, scores, square):
            if (first, last) in products:
                found = result_of("matmul", [first, last], causal=False)
                assert found == products[first, last]
            else:
                with pytest.raises(ShapeError, match="does not fit"):
                    result_of("matmul", [first, last], causal=False)


@pytest.mark.parametrize(
    ("written", "message"),
    [
        ([("transpose", 0), ("add", 0, 3)], r"step 2 of 2, add\(\[0, 3\]\): rows .* cannot be"),
        ([("matmul", 0, 1)], r"step 1 of 1, matmul\(\[0, 1\]\): .* dim meets tokens"),
        ([("transpose", 0), ("cosine", 3, 0)], "cosine compares rows with rows"),
        ([("neg", 0), ("neg", 9)], "step 2 of 2.*value 9 does not exist yet"),
        ([("neg", 3)], "value 3 does not exist yet; there are values 0 to 2"),
        ([("neg", 0, 1)], "neg takes 1 values, not 2"),
        ([("add", 0)], "add takes 2 values, not 1"),
        ([("transpose", 1), ("matmul", 0, 3)], "must give rows .*, not scores"),
        ([("add", 0, 1)], "none hears of another"),
        ([], "without steps"),
        # the sum over tokens is not what the result depends on
        ([("transpose", 1), ("matmul", 3, 0), ("neg", 0)], "none hears of another"),
    ],
)
def test_what_does_not_fit_is_refused_with_the_step_and_the_reason(written, message) -> None:
    with pytest.raises(ShapeError, match=message):
        Formula(2, steps(*written)).out_width(ANYWHERE)


LOOKING_AHEAD = {
    "scores without softmax": [("transpose", 1), ("matmul", 0, 3), ("matmul", 4, 2)],
    "products over all tokens": [("transpose", 1), ("matmul", 3, 2), ("matmul", 0, 4)],
    "scores changed after softmax": [
        ("transpose", 1),
        ("matmul", 0, 3),
        ("softmax", 4),
        ("logsigmoid", 5),
        ("matmul", 6, 2),
    ],
    "softmax transposed": [
        ("transpose", 1),
        ("matmul", 0, 3),
        ("softmax", 4),
        ("transpose", 5),
        ("matmul", 6, 2),
    ],
    "scores added to weights": [
        ("transpose", 1),
        ("matmul", 0, 3),
        ("softmax", 4),
        ("add", 5, 4),
        ("matmul", 6, 2),
    ],
    "softmax over tokens": [
        ("transpose", 1),
        ("softmax", 3),
        ("matmul", 0, 4),
        ("softmax", 5),
        ("matmul", 6, 2),
    ],
}


@pytest.mark.parametrize("written", LOOKING_AHEAD.values(), ids=LOOKING_AHEAD.keys())
def test_formulas_that_look_ahead_are_refused_in_causal_stacks_only(written) -> None:
    found = Formula(2, steps(*written))
    assert found.out_width(ANYWHERE) == 16
    with pytest.raises(ShapeError, match="also those to come"):
        found.out_width(CAUSAL)


def test_signs_scales_and_products_of_masked_weights_stay_causal() -> None:
    q, k, v = paths(3)
    weights = softmax(q @ k.T)
    twice = -scale(weights) @ softmax(cosine(q, v))
    assert formula(twice @ v, 2, paths=3).out_width(CAUSAL) == 16


# --- writing --------------------------------------------------------------------------------------


@given_formula(causal=False)
def test_notation_and_json_give_formulas_back(found: Formula) -> None:
    arch = alone(Residual(found))
    assert parse(notation(arch)) == arch
    assert from_json(to_json(arch)) == arch


def test_a_formula_can_be_written_by_hand() -> None:
    text = (
        "s in encoder(16) for frame(9, 8, tag(2))".replace(
            " in",
            " where s=formula(2, [step(transpose, [1]), step(matmul, [0, 2]), step(softmax, [3]), "
            "step(matmul, [4, 1])], paths=2) in",
        )
    )  # fmt: skip
    (layer,) = parse(text).layers.layers
    assert isinstance(layer, Formula)
    assert expression(layer) == "softmax(Q K^T) K W_O"


def test_a_formula_that_looks_ahead_cannot_be_parsed_into_a_decoder() -> None:
    with pytest.raises(NotationError, match="also those to come"):
        parse(
            "s where s=formula(2, [step(transpose, [1]), step(matmul, [0, 3]), "
            "step(matmul, [4, 2])]) in decoder(16)"
        )


@pytest.mark.parametrize(
    ("make", "text"),
    [
        ("standard", "softmax(Q K^T / sqrt(d)) V W_O"),
        ("A2", "softmax(Q (-logsigmoid(-K)^T) / sqrt(d)) (K + Q) W_O"),
        ("A4", "softmax(Q (-logsigmoid(logsigmoid(Q) + Q + K))^T / sqrt(d)) Q W_O"),
        ("A6", "softmax(Q (-logsigmoid(K))^T / sqrt(d)) Q W_O"),
        (
            "A10",
            "softmax(Q (K / sqrt(d) + softsign(softsign(K) / sqrt(d)) + V)^T / sqrt(d)) V W_O",
        ),
        ("A12", "softmax(Q (K / sqrt(d) + V)^T / sqrt(d)) V W_O"),
    ],
)
def test_published_formulas_read_as_printed(make: str, text: str) -> None:
    assert expression(PUBLISHED[make](12)) == text


def test_long_values_used_twice_are_named_so_that_lines_stay_short() -> None:
    q, k, v = paths(3)
    sums = q
    for _ in range(60):  # written out, this would be 2^60 letters
        sums = sums + sums
    text = expression(formula(softmax(euclidean(sums, k)) @ v, 2, paths=3))
    assert "where x1 = " in text
    assert len(text) < 5000


# --- one form -------------------------------------------------------------------------------------


def test_dead_and_repeated_steps_do_not_change_the_id() -> None:
    plain = steps(("transpose", 1), ("matmul", 0, 2), ("softmax", 3), ("matmul", 4, 0))
    wordy = steps(
        ("softsign", 0),  # 3, dead
        ("transpose", 1),  # 4
        ("transpose", 4),  # 5 = K
        ("transpose", 5),  # 6 = 4
        ("matmul", 0, 6),  # 7
        ("matmul", 0, 4),  # 8 = 7, dead
        ("neg", 7),  # 9
        ("neg", 9),  # 10 = 7
        ("softmax", 10),  # 11
        ("matmul", 11, 0),  # 12
    )
    short, long = Formula(2, plain, paths=2), Formula(2, wordy, paths=3)
    assert short != long
    assert tidied(long) == short
    assert arch_id(alone(short)) == arch_id(alone(long))


def test_the_order_of_a_sum_does_not_change_the_id_but_other_operands_do() -> None:
    q, k = paths(2)

    def made(values, weights) -> str:
        return arch_id(alone(formula(softmax(weights) @ values, 2, paths=2)))

    assert made(q + k, q @ k.T) == made(k + q, q @ k.T)
    assert made(q + k, cosine(q, k)) != made(q + k, cosine(k, q))
    assert made(q + k, q @ k.T) != made(q + k, k @ q.T)


@given_formula(causal=False)
def test_tidying_twice_changes_nothing_and_keeps_what_is_counted(found: Formula) -> None:
    once = tidied(found)
    assert tidied(once) == once
    assert len(once.steps) <= len(found.steps)
    load = Load(batch=2, length=5)
    assert once.count(ANYWHERE, load).params == found.count(ANYWHERE, load).params
    assert once.count(ANYWHERE, load).flops <= found.count(ANYWHERE, load).flops


def test_formulas_that_cannot_be_built_are_left_as_they_are() -> None:
    for broken in (Formula(2, ()), Formula(2, steps(("neg", 7))), Formula(2, steps(("add", 0)))):
        assert tidied(broken) == broken


# --- AutoBERT-Zero --------------------------------------------------------------------------------


def test_autobert_zero_has_its_published_size() -> None:
    counts = count(zoo.get("autobert-zero-base").build())
    assert counts.params == 103_577_448
    # ten square maps and their biases less than BERT-base, the kernels more
    saved = count(zoo.get("bert-base").build()).params - counts.params
    assert saved == 10 * (768 * 768 + 768) - 12 * (65 + 9 + 3 + 7 + 7 + 3)


def test_only_layers_10_and_12_project_values() -> None:
    arch = zoo.get("autobert-zero-base").build()
    found = [node for _, node in arch.layers.walk() if isinstance(node, Formula)]
    assert [len(node.used_paths()) for node in found] == [2, 2, 2, 2, 3, 3]


def test_what_the_result_does_not_depend_on_costs_nothing() -> None:
    q, k, _ = paths(3)
    lean = formula(softmax(q @ k.T) @ q, 2, paths=2)
    fat = Formula(2, steps(("transpose", 2), ("matmul", 3, 2)) + _shifted(lean, 3, 2), paths=3)
    load = Load(batch=2, length=5)
    assert fat.count(ANYWHERE, load) == lean.count(ANYWHERE, load)


def _shifted(node: Formula, paths_now: int, steps_before: int) -> tuple[Step, ...]:
    """The steps of a formula behind others."""
    more = paths_now - node.paths + steps_before
    return tuple(
        Step(step.op, tuple(at if at < node.paths else at + more for at in step.of))
        for step in node.steps
    )


# --- connectors and components ------------------------------------------------------------------


def test_five_connectors_make_exactly_sixteen_networks() -> None:
    parts = tuple(FeedForward(inner) for inner in (1, 2, 3, 4, 5))
    chains = [
        Connected(parts, tuple(float(number >> bit & 1) for bit in range(5)))
        for number in range(32)
    ]
    assert len({unrolled(chain) for chain in chains}) == 2**4
    assert len({arch_id(alone(chain)) for chain in chains}) == 16


def test_connectors_of_0_and_1_are_written_out_as_residual_branches() -> None:
    f = tuple(FeedForward(inner) for inner in (1, 2, 3, 4, 5))
    expected = Stack((Residual(Parallel(f[:3]), norm=None), Residual(Parallel(f[3:]), norm=None)))
    assert unrolled(Connected(f, (0, 0, 1, 0, 1))) == expected
    assert unrolled(Connected(f[:1], (0,))) == Residual(f[0], norm=None)


def test_fractional_connectors_stay_but_their_last_weight_says_nothing() -> None:
    f = (FeedForward(1), FeedForward(2))
    assert unrolled(Connected(f, (0.3, 1))) == Connected(f, (0.3, 0))
    assert arch_id(alone(Connected(f, (0.3, 1)))) == arch_id(alone(Connected(f, (0.3, 0.5))))
    assert arch_id(alone(Connected(f, (0.3, 1)))) != arch_id(alone(Connected(f, (0.4, 1))))


def test_connectors_are_written_and_read() -> None:
    arch = alone(Connected((FeedForward(3), Linear(16)), (0.25, 1)))
    assert "connected([feedforward(3), linear(16)], [0.25, 1])" in notation(arch)
    assert parse(notation(arch)) == arch
    assert from_json(to_json(arch)) == arch


@pytest.mark.parametrize(
    ("chain", "message"),
    [
        (Connected((), ()), "0 layers and 0 weights"),
        (Connected((Linear(16),), (0, 1)), "1 layers and 2 weights"),
        (Connected((Linear(16),), (1.5,)), "weight 1.5; use 0 to 1"),
        (Connected((Linear(16), Linear(8)), (0, 1)), "part 2 of connected gives 8 channels"),
    ],
)
def test_chains_that_do_not_fit_are_refused(chain: Connected, message: str) -> None:
    with pytest.raises(ShapeError, match=message):
        chain.out_width(ANYWHERE)


def test_parts_have_the_parameters_of_the_whole() -> None:
    attention = parse("s in bert(16, heads=4)").layers.layers[0].inner  # type: ignore[attr-defined]
    feedforward = FeedForward(10)
    load = Load()

    def params(parts) -> int:
        return sum(part.count(ANYWHERE, load).params for part in parts)

    assert [part.inner for part in cut_feedforward(feedforward, 3)] == [4, 3, 3]
    assert params(cut_feedforward(feedforward, 3)) == params([feedforward])
    assert params(cut_heads(attention, 16)) == params([attention])
    # parts over fewer values repeat the comparison, parts over fewer channels repeat the values
    comparing, mixing = 2 * (16 * 16 + 16), 2 * 16 * 16 + 16
    assert params(cut_value(attention, 16, 2)) == params([attention]) + comparing
    assert params(cut_query_key(attention, 16, 2)) == params([attention]) + mixing + 16


def test_what_cannot_be_cut_says_why() -> None:
    with pytest.raises(ShapeError, match="cannot be cut into 11 parts; use 1 to 10"):
        shares(10, 11, "inner channels")
    solo = parse("s where s=attention(4, query_key=solo) in bert(16)").layers.layers[0]
    with pytest.raises(ShapeError, match="mixes the channels of all heads"):
        cut_heads(solo, 16)  # type: ignore[arg-type]
