"""Random attention formulas that fit together, for tests of anything that takes a formula."""

from itertools import product
from random import Random
from typing import get_args

from formwright.arch.graph.formula import Formula
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
from formwright.errors import ShapeError


def random_formula(
    rng: Random, *, heads: int = 2, causal: bool = False, most_steps: int = 8
) -> Formula:
    """A formula that may stand in any stack, or in a causal one.

    Args:
        rng: Where all choices come from.
        heads: Of the formula.
        causal: Whether it must not look ahead.
        most_steps: Random steps before those that bring it to an end.
    """
    maker = _Maker(rng, paths=rng.randint(1, 3), causal=causal)
    for _ in range(rng.randint(0, most_steps)):
        maker.any_step()
    maker.end()
    key = rng.choice((None, 2, 3))
    return Formula(heads, tuple(maker.steps), maker.paths, key, bias=rng.random() < 0.5)


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
