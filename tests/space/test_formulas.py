"""Formulas as a space: attention or convolution in every layer, and how both change."""

from collections.abc import Callable
from random import Random

import pytest

from formwright import zoo
from formwright.arch import (
    Formula,
    Frame,
    LanguageModel,
    LightConv,
    Residual,
    Site,
    Stack,
    Step,
    arch_id,
    canonical,
)
from formwright.arch.counting import count
from formwright.arch.graph.formula import tidied
from formwright.arch.graph.formulas import autobert_zero_10
from formwright.arch.style import style
from formwright.errors import SpecError
from formwright.space.formulas import (
    KERNELS,
    FormulaSpace,
    autobert_zero,
    change_op,
    change_operand,
    delete,
    drawn_formula,
    insert,
    mutated,
)
from formwright.testing import SpaceTestCase

FRAME = Frame(30, 8, LanguageModel())
FORMULA = autobert_zero_10(2)
Mutation = Callable[[Random, Formula], Formula]


def small(family: str = "gpt2", **options: int) -> FormulaSpace:
    return autobert_zero(style(family, 16), FRAME, **options)


class TestDecoderOfFormulas(SpaceTestCase):
    def made(self) -> FormulaSpace:
        return small()


# --- mutations ---------------------------------------------------------------------------


def many(mutation: Mutation) -> list[Formula]:
    rng = Random(0)
    return [mutation(rng, FORMULA) for _ in range(80)]


def test_another_operation_keeps_its_operands() -> None:
    for child in many(change_op):
        assert [step.of for step in child.steps] == [step.of for step in FORMULA.steps]
        changed = zip(child.steps, FORMULA.steps, strict=True)
        assert sum(a.op != b.op for a, b in changed) <= 1
    assert len({child.steps for child in many(change_op)}) > 20


def test_another_operand_keeps_the_operations() -> None:
    for child in many(change_operand):
        assert [step.op for step in child.steps] == [step.op for step in FORMULA.steps]
        pairs = zip(child.steps, FORMULA.steps, strict=True)
        read = [(x, y) for a, b in pairs for x, y in zip(a.of, b.of, strict=True)]
        assert sum(x != y for x, y in read) <= 1
    assert len({child.steps for child in many(change_operand)}) > 20


def test_inserting_and_deleting_keep_the_rest_in_order() -> None:
    words = [step.op for step in FORMULA.steps]
    for child in many(insert):
        found = [step.op for step in child.steps]
        assert words in [found[:at] + found[at + 1 :] for at in range(len(found))]
    for child in many(delete):
        found = [step.op for step in child.steps]
        assert found in [words[:at] + words[at + 1 :] for at in range(len(words))]


def chained(*words: str) -> tuple[Step, ...]:
    """Steps that each read the one before."""
    return tuple(Step(word, (value,)) for value, word in enumerate(words))  # type: ignore[arg-type]


def test_who_read_a_deleted_step_reads_what_it_read() -> None:
    formula = Formula(1, chained("softmax", "neg", "scale"), paths=1)
    left = {delete(Random(seed), formula).steps for seed in range(20)}
    assert left == {chained("neg", "scale"), chained("softmax", "scale"), chained("softmax", "neg")}


def test_an_inserted_step_is_read_by_the_next_and_moves_what_comes_behind_it() -> None:
    words = ("softmax", "neg", "scale")
    formula = Formula(1, chained(*words), paths=1)
    children = [insert(Random(seed), formula).steps for seed in range(120)]
    places = set()
    for child in children:
        new = [at for at, step in enumerate(child) if step.op not in words]
        if new:  # not one of the same words
            places.add(new[0])
            rest = chained(*(step.op for step in child))
            assert [step for step in child if step.op in words] == [
                step for step in rest if step.op in words
            ]
    assert places == {0, 1, 2, 3}


@pytest.mark.parametrize("causal", [False, True])
def test_mutations_fit_where_they_stand_and_can_bring_in_a_third_input(causal: bool) -> None:
    site, rng = Site(width=16, causal=causal), Random(0)
    formula = tidied(
        Formula(2, (Step("cosine", (0, 0)), Step("softmax", (1,)), Step("matmul", (2, 0))), 1)
    )
    inputs = set()
    for _ in range(200):
        child = tidied(mutated(rng, formula, site))
        assert child.out_width(site) == 16
        inputs.add(child.paths)
        formula = child if rng.random() < 0.3 else formula
    assert inputs == {1, 2, 3}


@pytest.mark.parametrize("causal", [False, True])
def test_formulas_at_random_fit_where_they_stand(causal: bool) -> None:
    rng = Random(0)
    drawn = {drawn_formula(rng, 2, causal=causal) for _ in range(60)}
    assert len(drawn) > 40
    for formula in drawn:
        assert formula.out_width(Site(width=16, causal=causal)) == 16


# --- members -----------------------------------------------------------------------------


def test_draws_hold_every_kernel_and_formulas_in_their_tidy_form() -> None:
    space, rng = small(), Random(0)
    kernels = set()
    for _ in range(60):
        for _, node in space.resolve(space.draw(rng)).layers.walk():
            if isinstance(node, Formula):
                assert tidied(node) == node
                kernels.add("formula")
            if isinstance(node, LightConv):
                kernels.add(node.kernel)
    assert kernels == {*KERNELS, "formula"}


def test_a_child_differs_in_one_layer_and_any_layer_may_turn_into_the_other_kind() -> None:
    space, rng = small(), Random(0)
    turned = set()
    for _ in range(120):
        parent = space.draw(rng)
        child = space.change(parent, rng)
        (name,) = [name for name in parent if parent[name] != child[name]]
        turned.add((isinstance(parent[name], int), isinstance(child[name], int)))
        assert arch_id(space.resolve(child)) != arch_id(space.resolve(parent))
    assert turned == {(a, b) for a in (True, False) for b in (True, False)}


def test_a_crossing_takes_each_layer_from_one_of_two() -> None:
    space, rng = small(), Random(0)
    a, b = space.draw(rng), space.draw(rng)
    children = [space.blend(a, b, rng) for _ in range(30)]
    assert all(child[name] in (a[name], b[name]) for child in children for name in a)
    assert len({str(child) for child in children}) > 4


def test_changes_are_said_as_maths() -> None:
    space = small(layers=2)
    plain = space.seeds()["transformer"]
    other = {**space.seeds()["autobert-zero"], "layer0": 9}
    assert space.explain(plain, {**plain, "layer0": 9}) == (
        "layer0: softmax(Q K^T / sqrt(d)) V W_O -> convolution 9"
    )
    assert space.explain(other, {**other, "layer1": 3}).startswith("layer1: softmax(Q (-logsigmoid")


# --- where it begins ---------------------------------------------------------------------


def test_what_was_found_is_the_net_of_the_zoo() -> None:
    space = autobert_zero()
    found = space.resolve(space.seeds()["autobert-zero"])
    assert canonical(found).layers == canonical(zoo.get("autobert-zero-base").build()).layers


def test_the_seed_counts_what_bert_counts() -> None:
    space = autobert_zero()
    family = style("bert")
    layers = Stack((family.letters["s"], family.letters["f"]) * 12)
    plain, ours = (count(arch) for arch in (space.base.replace(layers=layers), space.base))
    assert (ours.params, ours.flops) == (plain.params, plain.flops)
    seed = space.resolve(space.seeds()["transformer"])
    assert canonical(seed) == canonical(space.base)


def test_layers_are_wrapped_as_the_family_wraps_its_own() -> None:
    for name in ("gpt2", "bert", "llama", "lra"):
        family = style(name, 16)
        space = autobert_zero(family, FRAME)
        layers = space.resolve(space.draw(Random(0))).check().layers.layers
        like = family.letters["s"]
        assert isinstance(like, Residual)
        assert len(layers) == 8
        for mixing, feedforward in zip(layers[::2], layers[1::2], strict=True):
            assert mixing.replace(inner=like.inner) == like  # type: ignore[attr-defined]
            assert feedforward == family.letters["f"]


def test_wrong_decisions_are_refused_in_one_sentence() -> None:
    space = small(layers=1)
    for decisions, message in (
        ({}, "'layer0' is missing"),
        ({"layer0": 4}, "layer0 = 4 is no kernel; use 3, 5, 7"),
        ({"layer0": {"node": "glu"}}, "must be the data of a formula"),
    ):
        with pytest.raises(SpecError, match=message):
            space.resolve(decisions)
