"""The space of AutoBERT-Zero: each layer an attention formula or a convolution.

Paper: Gao et al. 2022, https://arxiv.org/abs/2107.07445. Within a layer the maths of attention is
searched, step by step; between layers, which of them are convolutions and how far they see. Every
layer is followed by the family's feed-forward.
Differs from the paper: formulas are kept in their tidy form, so that equal ones are one; a child
differs in one layer, of which either the kind or the inside is changed.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from itertools import cycle, islice, product
from random import Random
from typing import Any, get_args

from formwright.arch.architecture import Architecture
from formwright.arch.attention import Attention
from formwright.arch.frame import Frame, MaskedLM
from formwright.arch.graph.formula import Formula, tidied
from formwright.arch.graph.formula_plan import alive
from formwright.arch.graph.formula_steps import (
    OPERANDS,
    PROJECTED,
    OpWord,
    Step,
    Value,
    contracts_tokens,
    result_of,
)
from formwright.arch.graph.formulas import AUTOBERT_ZERO, convolution, expression, standard
from formwright.arch.layer import Layer, Residual, Stack
from formwright.arch.site import Site
from formwright.arch.style import Style, style
from formwright.errors import ShapeError, SpecError
from formwright.space.functions import formula_print
from formwright.space.genes import GeneSpace, gene_data, gene_of, taken
from formwright.space.part import Decisions
from formwright.space.registry import published_space, space_kind
from formwright.space.space import Comparable, Crossable, Guided, changed_decisions

PAPER = "https://arxiv.org/abs/2107.07445"
FRAME = Frame(vocab=30_522, length=512, head=MaskedLM())
KERNELS = (3, 5, 7, 9, 15, 31, 65)
_PATHS = 3  # Q, K, V
_STEPS = 8  # at most at random, before those that bring a formula to its end
_TRIES = 30  # changes that may not fit
Scores = Mapping[str, float] | None


@published_space("autobert-zero", PAPER)
def autobert_zero(
    family: Style | None = None, frame: Frame = FRAME, layers: int | None = None
) -> "FormulaSpace":
    """AutoBERT-Zero: every layer a formula of attention or a convolution.

    Args:
        family: Whose backbone and feed-forward it has; BERT-base when not given.
        frame: Vocabulary, length and head, from the task.
        layers: 12, or 4 in another family.
    """
    layers = layers or (12 if family is None else 4)
    family = family or style("bert")
    attention, feedforward = family.letters["s"], family.letters["f"]
    assert isinstance(attention, Residual)
    assert isinstance(attention.inner, Attention)
    mixing = attention.replace(inner=standard(attention.inner.heads))
    stack = Stack((mixing, feedforward) * layers)
    return FormulaSpace(Architecture(stack, family.backbone, frame=frame), name="autobert-zero")


@space_kind("formulas")
class FormulaSpace(GeneSpace, Crossable, Comparable, Guided):
    """Models whose layers are formulas or convolutions, each with a feed-forward behind it.

    The decision of a layer is the kernel of a convolution, or the tidy formula. The first two
    layers of ``base`` say how both are wrapped, and how many heads there are.
    """

    def draw(self, rng: Random) -> Decisions:
        return {name: self._drawn(rng) for name in self._names}

    def change(self, parent: Decisions, rng: Random, rate: float | None = None) -> Decisions:
        while True:
            chosen = (
                {rng.choice(self._names)}
                if rate is None
                else {name for name in self._names if rng.random() < rate}
            )
            if chosen:
                new = {name: self._other(rng, taken(parent, name)) for name in sorted(chosen)}
                return {**parent, **new}

    def blend(self, a: Decisions, b: Decisions, rng: Random) -> Decisions:
        return {name: taken(rng.choice((a, b)), name) for name in self._names}

    def resolve(self, decisions: Decisions) -> Architecture:
        like, feedforward = self.base.layers.layers[:2]
        layers = (like.replace(inner=self._layer(taken(decisions, n), n)) for n in self._names)
        stack = Stack(tuple(part for layer in layers for part in (layer, feedforward)))
        return self.base.replace(layers=stack)

    def fingerprint(self, decisions: Decisions) -> str:
        causal = self._site.causal
        layers = (taken(decisions, name) for name in self._names)
        return " ".join(
            str(layer)
            if isinstance(layer, int)
            else formula_print(gene_of(layer, "formula", Formula), causal=causal)
            for layer in layers
        )

    def vocabulary(self) -> tuple[str, ...]:
        return get_args(OpWord)

    def words(self, decisions: Decisions) -> list[str]:
        layers = (taken(decisions, name) for name in self._names)
        found = (gene_of(d, "formula", Formula) for d in layers if not isinstance(d, int))
        return sorted({step.op for formula in found for step in formula.steps})

    def guided(self, parent: Decisions, rng: Random, scores: Mapping[str, float]) -> Decisions:
        """Another kind of one layer, then another inside of one that is a formula."""
        name = rng.choice(self._names)
        between = {**parent, name: self._exchanged(rng, taken(parent, name))}
        inside = [n for n in self._names if not isinstance(between[n], int)]
        if not inside:
            return between
        name = rng.choice(inside)
        before = tidied(gene_of(between[name], "formula", Formula))
        after = before
        while after == before:
            after = tidied(mutated(rng, before, self._site, scores))
        return {**between, name: gene_data(after)}

    def _exchanged(self, rng: Random, old: Any) -> Any:
        """Another kernel, or the other kind of layer."""
        others = [kernel for kernel in KERNELS if kernel != old]
        if not isinstance(old, int) or rng.random() < 0.5:
            return rng.choice(others)
        drawn = drawn_formula(rng, self._heads, causal=self._site.causal)
        return gene_data(tidied(drawn))

    def explain(self, parent: Decisions, child: Decisions) -> str:
        words = ({name: self._words(d[name]) for name in self._names} for d in (parent, child))
        return ", ".join(changed_decisions(*words))

    def seeds(self) -> dict[str, Decisions]:
        """What a search may begin with, and the layers that the paper's search found."""
        found = islice(cycle(AUTOBERT_ZERO), len(self._names))
        written = [layer if isinstance(layer, int) else self._data(layer) for layer in found]
        plain = self._data(standard)
        return {
            "transformer": dict.fromkeys(self._names, plain),
            "autobert-zero": dict(zip(self._names, written, strict=True)),
        }

    @property
    def _names(self) -> list[str]:
        return [f"layer{i}" for i in range(len(self.base.layers.layers) // 2)]

    @property
    def _site(self) -> Site:
        ((_, _, site),) = self.base.stacks()
        return site

    @property
    def _heads(self) -> int:
        layers = self.base.layers.layers
        first = layers[0].inner if layers and isinstance(layers[0], Residual) else None
        if not isinstance(first, Formula):
            raise SpecError("The first layer of a space of formulas must hold one.")
        return first.heads

    def _data(self, make: Callable[[int], Formula]) -> Any:
        return gene_data(tidied(make(self._heads)))

    def _layer(self, decided: Any, name: str) -> Layer:
        if not isinstance(decided, int):
            return gene_of(decided, name, Formula)
        if decided not in KERNELS:
            raise SpecError(
                f"The decision {name} = {decided} is no kernel; use {', '.join(map(str, KERNELS))}."
            )
        return convolution(decided, self.base.backbone.width, self._heads)

    def _drawn(self, rng: Random) -> Any:
        if rng.random() < 0.5:
            return rng.choice(KERNELS)
        return self._data(lambda heads: drawn_formula(rng, heads, causal=self._site.causal))

    def _other(self, rng: Random, old: Any) -> Any:
        """Another kind of layer, or the same kind and another kernel or formula."""
        if isinstance(old, int):
            others = [kernel for kernel in KERNELS if kernel != old]
            drawn = drawn_formula(rng, self._heads, causal=self._site.causal)
            return rng.choice(others) if rng.random() < 0.5 else gene_data(tidied(drawn))
        if rng.random() < 0.25:
            return rng.choice(KERNELS)
        before = tidied(gene_of(old, "formula", Formula))
        after = before
        while after == before:
            after = tidied(mutated(rng, before, self._site))
        return gene_data(after)

    def _words(self, decided: Any) -> str:
        if isinstance(decided, int):
            return f"convolution {decided}"
        return expression(gene_of(decided, "formula", Formula))


# --- mutations ---------------------------------------------------------------------------


def mutated(
    rng: Random, formula: Formula, site: Site, scores: Mapping[str, float] | None = None
) -> Formula:
    """A formula with one change that leaves it legal, or itself where none was found.

    It is not tidy: there are steps, and a third projected input, that may do nothing. With
    ``scores``, words of high score are the likelier ones to come in.
    """
    more = max(0, _PATHS - formula.paths)
    steps = [_moved(step, lambda at: at + more * (at >= formula.paths)) for step in formula.steps]
    wide = formula.replace(paths=formula.paths + more, steps=tuple(steps))
    for _ in range(_TRIES):
        change = rng.choice(MUTATIONS)
        words = {"scores": scores} if change in (change_op, insert) else {}
        child = change(rng, wide, **words)
        try:
            child.out_width(site)
        except ShapeError:
            continue
        return child
    return formula


def change_op(rng: Random, formula: Formula, scores: Scores = None) -> Formula:
    """Another operation on the same values."""
    place = rng.randrange(len(formula.steps))
    step = formula.steps[place]
    words = [word for word in get_args(OpWord) if OPERANDS[word] == OPERANDS[step.op]]
    return _with(formula, place, step.replace(op=_word(rng, words, scores)))


def change_operand(rng: Random, formula: Formula) -> Formula:
    """An operation on another value in place of one."""
    place = rng.randrange(len(formula.steps))
    of = list(formula.steps[place].of)
    of[rng.randrange(len(of))] = rng.randrange(formula.paths + place)
    return _with(formula, place, formula.steps[place].replace(of=tuple(of)))


def insert(rng: Random, formula: Formula, scores: Scores = None) -> Formula:
    """One operation more, read by the next one in place of a value, or at the end."""
    place = rng.randint(0, len(formula.steps))
    new = formula.paths + place
    word = _word(rng, get_args(OpWord), scores)
    step = Step(word, tuple(rng.randrange(new) for _ in range(OPERANDS[word])))
    later = [_moved(step, lambda at: at + (at >= new)) for step in formula.steps[place:]]
    if later:
        of = list(later[0].of)
        of[rng.randrange(len(of))] = new
        later[0] = later[0].replace(of=tuple(of))
    return formula.replace(steps=(*formula.steps[:place], step, *later))


def delete(rng: Random, formula: Formula) -> Formula:
    """One operation less; who read its result reads its first value."""
    place = rng.randrange(len(formula.steps))
    gone, instead = formula.paths + place, formula.steps[place].of[0]

    def where(at: int) -> int:
        return instead if at == gone else at - (at > gone)

    later = (_moved(step, where) for step in formula.steps[place + 1 :])
    return formula.replace(steps=(*formula.steps[:place], *later))


MUTATIONS: tuple[Callable[..., Formula], ...] = (change_op, change_operand, insert, delete)


def _word(rng: Random, among: Sequence[OpWord], scores: Scores) -> OpWord:
    """A word: any, or by a softmax over scores, one without an end to its score first."""
    if scores is None:
        return rng.choice(among)
    given = [scores.get(word, 0.0) for word in among]
    if math.inf in given:
        return rng.choice(
            [word for word, score in zip(among, given, strict=True) if score == math.inf]
        )
    top = max(given)
    return rng.choices(among, [math.exp(score - top) for score in given])[0]


def _with(formula: Formula, place: int, step: Step) -> Formula:
    return formula.replace(steps=(*formula.steps[:place], step, *formula.steps[place + 1 :]))


def _moved(step: Step, where: Callable[[int], int]) -> Step:
    """A step whose operands have got new numbers."""
    return step.replace(of=tuple(map(where, step.of)))


# --- formulas at random ------------------------------------------------------------------


def drawn_formula(rng: Random, heads: int, *, causal: bool, most_steps: int = _STEPS) -> Formula:
    """A formula at random that may stand in any stack, or in a causal one; not yet tidy.

    Args:
        rng: Where all choices come from.
        heads: Of the formula.
        causal: Whether it must not look ahead.
        most_steps: Random steps before those that bring it to an end.
    """
    maker = _Maker(rng, paths=rng.randint(1, _PATHS), causal=causal)
    for _ in range(rng.randint(0, most_steps)):
        maker.any_step()
    maker.end()
    return Formula(heads, tuple(maker.steps), maker.paths)


class _Maker:
    """Adds steps one by one, each drawn from those that fit."""

    def __init__(self, rng: Random, *, paths: int, causal: bool) -> None:
        self.rng, self.paths, self.causal = rng, paths, causal
        self.steps: list[Step] = []
        self.values: list[Value] = [PROJECTED] * paths

    def any_step(self) -> None:
        """Any operation on any values it can be done on, mostly those made last."""
        words = list(get_args(OpWord))
        self.rng.shuffle(words)
        for word in words:
            numbers = range(len(self.values))
            fitting = [of for of in product(numbers, repeat=OPERANDS[word]) if self.fits(word, of)]
            if fitting:
                weights = [1 + 4 * (numbers[-1] in of) + 2 * self.has_scores(of) for of in fitting]
                self.add(word, *self.rng.choices(fitting, weights)[0])
                return

    def end(self) -> None:
        """Go on from the last value to rows in which tokens have heard of each other."""
        last = self.to_rows(len(self.values) - 1)
        if not self.steps or not self.mixes():
            word: OpWord = self.rng.choice(("matmul", "matmul", "cosine", "euclidean"))
            other = self.rng.choice(self.of_shape("rows"))
            other = self.add("transpose", other) if word == "matmul" else other
            self.to_rows(self.add(word, last, other))

    def to_rows(self, last: int) -> int:
        """Whatever makes rows of a value."""
        rows = self.rng.choice(self.of_shape("rows"))
        match self.values[last].name:
            case "rows":
                return last
            case "columns":
                return self.add("transpose", last)
            case "square":
                return self.add("matmul", rows, last)
        if not self.fits("matmul", (last, rows)) or self.rng.random() < 0.5:
            last = self.add("softmax", self.add("scale", last))
        if self.rng.random() < 0.7:
            return self.add("matmul", last, rows)
        columns, turned = self.add("transpose", rows), self.add("transpose", last)
        return self.add("transpose", self.add("matmul", columns, turned))

    def has_scores(self, of: tuple[int, ...]) -> bool:
        """Whether any of these values is a matrix of scores."""
        return any(self.values[at].name == "scores" for at in of)

    def mixes(self) -> bool:
        """Whether the last value depends on a sum over tokens."""
        live = alive(self.steps, self.paths)
        return any(
            contracts_tokens(step.op, [self.values[at] for at in step.of])
            for number, step in enumerate(self.steps, self.paths)
            if number in live
        )

    def of_shape(self, name: str) -> list[int]:
        """The numbers of all values of a shape."""
        return [at for at, value in enumerate(self.values) if value.name == name]

    def fits(self, word: OpWord, of: tuple[int, ...]) -> bool:
        """Whether the operation can be done on these values."""
        try:
            result_of(word, [self.values[at] for at in of], causal=self.causal)
        except ShapeError:
            return False
        return True

    def add(self, word: OpWord, *of: int) -> int:
        """One more step; gives the number of its value."""
        self.values.append(result_of(word, [self.values[at] for at in of], causal=self.causal))
        self.steps.append(Step(word, of))
        return len(self.values) - 1
