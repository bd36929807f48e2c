"""Graph-shaped layers as maths: lines of plain text, and the same as LaTeX.

A value that is read more than once, or would make a line too long, gets a name and a line of its
own; all others stand where they are used. Weights are W1, W2, ... (matrices), g (scales) and b
(shifts), in the order of the lines. What stands inside ``concat`` is done for each head.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from formwright.arch.graph.cell import Branch, Cell, ends_of, simplest
from formwright.arch.graph.formula import Formula, tidied
from formwright.arch.graph.fuse import fused
from formwright.arch.graph.program import Program
from formwright.arch.graph.straightline import Step
from formwright.arch.graph.unfold import straight_line
from formwright.arch.layer import Identity, Layer
from formwright.arch.writer import write

_SUM, _PRODUCT, _WHOLE = range(3)  # how tightly a writing holds together
_LONG = 58  # characters of a value that gets a line of its own
_FUNCTIONS = ("exp", "cos", "sin", "tanh", "sigmoid", "sign", "softmax", "logsigmoid", "softsign")


@dataclass(frozen=True)
class Said:
    """An expression, in both writings."""

    plain: str
    latex: str
    hold: int = _WHOLE

    def inside(self, needed: int) -> "Said":
        """The same, in brackets where it would fall apart."""
        if self.hold >= needed:
            return self
        return Said(f"({self.plain})", rf"\left({self.latex}\right)")


@dataclass(frozen=True)
class Line:
    """``name = value``."""

    name: Said
    value: Said

    @property
    def plain(self) -> str:
        """As text."""
        return f"{self.name.plain} = {self.value.plain}"

    @property
    def latex(self) -> str:
        """As a line of an ``aligned`` environment."""
        return f"{self.name.latex} &= {self.value.latex}"


@dataclass(frozen=True)
class Maths:
    """A layer as lines of maths.

    Args:
        title: What it is.
        lines: In the order in which they are computed; the last gives y.
        sizes: What each matrix maps, as ``W1: 64 to 32, in each of 4 heads``.
    """

    title: str
    lines: tuple[Line, ...]
    sizes: tuple[str, ...] = ()

    @property
    def plain(self) -> str:
        """As text, one line each."""
        return "\n".join(line.plain for line in self.lines)

    @property
    def latex(self) -> str:
        """As LaTeX, to be put between dollars or into an equation."""
        rows = " \\\\\n".join(line.latex for line in self.lines)
        return f"\\begin{{aligned}}\n{rows}\n\\end{{aligned}}"


def maths_of(layer: Layer, width: int) -> Maths:
    """A program, a formula or a cell as maths.

    Args:
        layer: One of the three.
        width: Of the stream it stands in.
    """
    if isinstance(layer, Program):
        return _Program(layer, width).written()
    if isinstance(layer, Formula):
        return _formula(layer)
    assert isinstance(layer, Cell)
    return _cell(layer)


# --- pieces -------------------------------------------------------------------------------


def _called(name: str, *of: Said, after: str = "") -> Said:
    """A function of values: ``max(x, 0)``."""
    plain = ", ".join([*(one.plain for one in of), *([after] if after else [])])
    latex = ", ".join([*(one.latex for one in of), *([after] if after else [])])
    shown = name.replace("_", r"\_")
    return Said(f"{name}({plain})", rf"\operatorname{{{shown}}}\left({latex}\right)")


def _joined(a: Said, sign: str, b: Said, latex: str = "") -> Said:
    """A sum or a difference."""
    b = b if sign == "+" else b.inside(_PRODUCT)
    return Said(f"{a.plain} {sign} {b.plain}", f"{a.latex} {latex or sign} {b.latex}", _SUM)


def _times(a: Said, sign: str, b: Said, latex: str) -> Said:
    """A product of any kind."""
    a, b = a.inside(_PRODUCT), b.inside(_WHOLE)
    return Said(f"{a.plain}{sign}{b.plain}", f"{a.latex}{latex}{b.latex}", _PRODUCT)


def _divided(a: Said, b: Said) -> Said:
    top, below = a.inside(_PRODUCT), b.inside(_WHOLE)
    return Said(f"{top.plain} / {below.plain}", rf"\frac{{{a.latex}}}{{{b.latex}}}", _PRODUCT)


def _transposed(a: Said) -> Said:
    a = a.inside(_WHOLE)
    return Said(f"{a.plain}^T", f"{a.latex}^{{\\top}}")


def _named(letter: str, number: int) -> Said:
    return Said(f"{letter}{number}", f"{letter}_{{{number}}}")


def _number(value: float) -> Said:
    text = f"{value:.4g}"
    return Said(text, text, _WHOLE if value >= 0 else _SUM)


def _power(a: Said) -> Said:
    a = a.inside(_WHOLE)
    return Said(f"{a.plain}^2", f"{a.latex}^{{2}}")


def _root(a: Said) -> Said:
    return Said(f"sqrt(|{a.plain}|)", rf"\sqrt{{\left|{a.latex}\right|}}")


_ARITHMETIC: dict[str, Callable[..., Said]] = {
    "add": lambda a, b: _joined(a, "+", b),
    "difference": lambda a, b: _joined(a, "-", b),
    "divide": _divided,
    "multiply": lambda a, b: _times(a, " * ", b, r" \odot "),
    "abs": lambda a: Said(f"|{a.plain}|", rf"\left|{a.latex}\right|"),
    "abs_root": _root,
    "square": _power,
    "log": lambda a: Said(f"log|{a.plain}|", rf"\log\left|{a.latex}\right|"),
    "recip": lambda a: _divided(_number(1), a),
}


# --- programs -----------------------------------------------------------------------------


class _Program:
    """Writes the fused steps of a program."""

    def __init__(self, program: Program, width: int) -> None:
        self.steps = fused(straight_line(program, width)).steps
        self.uses = Counter(i for step in self.steps for i in step.inputs)
        self.counts: Counter[str] = Counter()
        self.lines: list[Line] = []
        self.said: list[Said] = []
        self.sizes: list[str] = []

    def written(self) -> Maths:
        last = len(self.steps) - 1
        for index, step in enumerate(self.steps):
            value = self.value(step, [self.said[i] for i in step.inputs])
            moved = step.op in ("turn", "spread", "stream")  # says nothing of its own
            often = self.uses[index] > 1 and value.hold < _WHOLE
            often |= self.uses[index] > 1 and len(value.plain) > 4
            if not moved and index != last and (often or len(value.plain) > _LONG):
                value = self.line(self.letter(step), value)
            self.said.append(value)
        self.lines.append(Line(Said("y", "y"), self.said[-1]))
        return Maths("program", tuple(self.lines), tuple(self.sizes))

    def letter(self, step: Step) -> str:
        return "s" if step.result.kind == "scores" else "n" if step.op == "norm" else "a"

    def line(self, letter: str, value: Said) -> Said:
        name = self.weight(letter)
        self.lines.append(Line(name, value))
        return name

    def weight(self, letter: str) -> Said:
        self.counts[letter] += 1
        return _named(letter, self.counts[letter])

    def matrix(self, step: Step) -> Said:
        """The weights of a dense map; their size is noted."""
        name, lanes = self.weight("W"), step.result.lanes
        many = f", in each of {lanes} heads" if lanes > 1 else ""
        self.sizes.append(f"{name.plain}: {step.weight[1]} to {step.result.width}{many}")
        return name

    def value(self, step: Step, of: list[Said]) -> Said:
        """What a step gives."""
        if step.op == "stream":
            return Said("x", "x")
        if step.op in ("turn", "spread"):
            return of[0]
        if step.op in _FUNCTIONS:
            return _called(step.op, *of)
        for group in (self.arithmetic, self.learned, self.across):
            found = group(step, of)
            if found is not None:
                return found
        return _called(step.op, *of, after=str(step.number) if step.number else "")

    def arithmetic(self, step: Step, of: list[Said]) -> Said | None:
        """Functions of each number."""
        if step.op in ("relu", "max", "min"):
            name = "min" if step.op == "min" else "max"
            bound = 0.0 if step.op == "relu" else step.constant
            return _called(name, *of, after=f"{bound:.4g}")
        if step.op == "c_mul":
            return _times(_number(step.constant), " ", of[0], r" \, ")
        write = _ARITHMETIC.get(step.op)
        return None if write is None else write(*of)

    def learned(self, step: Step, of: list[Said]) -> Said | None:
        """Steps with weights."""
        match step.op:
            case "conv1":
                return _times(of[0], " ", self.matrix(step), r" \, ")
            case "dense":
                product = _times(of[0], " ", self.matrix(step.parts[0]), r" \, ")
                return _joined(product, "+", self.weight("b"))
            case "scale":
                return _times(of[0], " * ", self.weight("g"), r" \odot ")
            case "shift":
                return _joined(of[0], "+", self.weight("b"))
            case "norm":
                if step.parts:
                    return _called("layernorm", of[0])
                return _called("zscore", of[0])
        if step.op.startswith(("conv", "depthwise")):
            return _called(step.op, of[0])
        return None

    def across(self, step: Step, of: list[Said]) -> Said | None:
        """Steps across tokens, heads and channels."""
        match step.op:
            case "attend":
                return self.attend(step, of)
            case "mat_mul":
                return _times(of[0], " ", of[1], r" \, ")
            case "mat_mul_transposed":
                return _times(of[0], " ", _transposed(of[1]), r" \, ")
            case "hide":
                return of[0] if step.constant == 0 else _called("mask", of[0])
            case "join":
                return _called("concat", of[0])
            case "fit":
                return _called("fit", of[0], after=str(step.number))
        if step.op.startswith(("reduce_", "cum_")):
            return _called(step.op.removeprefix("reduce_"), of[0])
        return None

    def attend(self, step: Step, of: list[Said]) -> Said:
        """softmax(c q k^T) v; with several maps each has its share of the channels."""
        query, key, value = of
        scores = _times(query, " ", _transposed(key), r" \, ")
        if step.constant != 1:
            scores = _times(_number(step.constant), " ", scores, r" \, ")
        name = "softmax" if step.number == 1 else f"softmax_{step.number}heads"
        return _times(_called(name, scores), " ", value, r" \, ")


# --- formulas -----------------------------------------------------------------------------


def _formula(formula: Formula) -> Maths:
    plain = tidied(formula)
    names = ["Q", "K", "V", *(f"P{path + 1}" for path in range(3, plain.paths))]
    said = [Said(name, name) for name in names[: plain.paths]]
    lines = [
        Line(name, _times(Said("x", "x"), " ", Said(f"W_{name.plain}", f"W_{{{name.latex}}}"), " "))
        for name in said
    ]
    uses = Counter(at for step in plain.steps for at in step.of)
    for at, step in enumerate(plain.steps, plain.paths):
        value = _formula_step(step.op, [said[i] for i in step.of])
        last = at == plain.paths + len(plain.steps) - 1
        if not last and uses[at] > 1 and value.hold < _WHOLE:
            name = _named("a", len(lines) - plain.paths + 1)
            lines.append(Line(name, value))
            value = name
        said.append(value)
    out = _times(_called("concat", said[-1]), " ", Said("W_O", "W_{O}"), r" \, ")
    lines.append(Line(Said("y", "y"), out))
    return Maths(f"formula, {formula.heads} heads of d channels", tuple(lines))


def _formula_step(op: str, of: Sequence[Said]) -> Said:
    match op:
        case "neg":
            inner = of[0].inside(_PRODUCT)
            return Said(f"-{inner.plain}", f"-{inner.latex}", _SUM)
        case "transpose":
            return _transposed(of[0])
        case "scale":
            return _divided(of[0], Said("sqrt(d)", r"\sqrt{d}"))
        case "add":
            return _joined(of[0], "+", of[1])
        case "matmul":
            return _times(of[0], " ", of[1], r" \, ")
        case _:
            return _called(op, *of)


# --- cells --------------------------------------------------------------------------------


def _cell(cell: Cell) -> Maths:
    plain = simplest(cell)
    lines: list[Line] = []
    states = [Said("x", "x")]
    for block in plain.blocks:
        sides = [_branch(branch, states[branch.input]) for branch in block.living()]
        value = sides[0]
        if len(sides) == 2:
            value = _combined(block.combine, *sides)
        states.append(_named("s", len(states)))
        lines.append(Line(states[-1], value))
    ends = ends_of(plain.blocks)
    total = states[ends[0]]
    for end in ends[1:]:
        total = _joined(total, "+", states[end])
    lines.append(Line(Said("y", "y"), total))
    return Maths("cell", tuple(lines))


def _combined(combine: str, left: Said, right: Said) -> Said:
    match combine:
        case "add":
            return _joined(left, "+", right)
        case "multiply":
            return _times(left, " * ", right, r" \odot ")
        case _:
            return _called("concat", left, right)


def _branch(branch: Branch, state: Said) -> Said:
    value = _called("layernorm", state) if branch.norm else state
    assert isinstance(branch.layer, Layer)
    if not isinstance(branch.layer, Identity):
        words = write(branch.layer)
        shown = words.replace("_", r"\_")
        wide = "" if branch.width == 2 else f"{branch.width / 2:g}d"
        value = Said(
            f"[{words}{f' to {wide}' if wide else ''}]({value.plain})",
            rf"\operatorname{{{shown}}}_{{{wide or 'd'}}}\left({value.latex}\right)",
        )
    if branch.activation != "none":
        value = _called(branch.activation, value)
    return value
