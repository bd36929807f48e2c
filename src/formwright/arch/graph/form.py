"""One text for every way of writing the same graph.

What nothing leads to is left out, inputs whose order does not matter are sorted, and the order in
which independent parts are written does not show. Two vertices with equal labels and inputs stay
two, since each may have weights of its own. Graphs with equal texts are equal; of equal graphs
that hold twins in places that commute, some may still differ in their texts.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

from formwright.arch.graph.cell import Branch, Cell, ends_of, simplest
from formwright.arch.graph.formula import Formula
from formwright.arch.graph.straightline import StraightLine
from formwright.arch.writer import write


@dataclass(frozen=True)
class Vertex:
    """A step of a graph.

    Args:
        label: What it computes.
        inputs: Earlier vertices that it reads.
        commutes: Whether their order does not matter.
    """

    label: str
    inputs: tuple[int, ...] = ()
    commutes: bool = False


def graph_text(vertices: Sequence[Vertex], ends: Sequence[int]) -> str:
    """The graph that leads to the ends; their order does not matter."""
    digests: list[str] = []
    for vertex in vertices:
        below = [digests[i] for i in vertex.inputs]
        text = "|".join([vertex.label, *(sorted(below) if vertex.commutes else below)])
        digests.append(hashlib.sha256(text.encode()).hexdigest()[:16])
    numbers: dict[int, int] = {}
    lines: list[str] = []

    def ordered(of: Sequence[int]) -> list[int]:
        return sorted(of, key=lambda i: (digests[i], numbers.get(i, len(vertices))))

    def visit(index: int) -> int:
        if index not in numbers:
            vertex = vertices[index]
            order = ordered(vertex.inputs) if vertex.commutes else vertex.inputs
            read = [visit(i) for i in order]
            read = sorted(read) if vertex.commutes else read
            numbers[index] = len(numbers)
            lines.append(" ".join([vertex.label, *map(str, read)]))
        return numbers[index]

    found = sorted(visit(end) for end in ordered(ends))
    return "\n".join([*lines, "-> " + " ".join(map(str, found))])


def line_text(line: StraightLine) -> str:
    """A program that was written out. Calls do not show: only what they compute does."""
    vertices = []
    for step in line.steps:
        numbers = (step.op, step.constant, step.number, step.weight, step.result)
        commutes = step.op in ("add", "multiply")
        vertices.append(Vertex(repr(numbers), step.inputs, commutes))
    return graph_text(vertices, [len(vertices) - 1])


def formula_text(formula: Formula) -> str:
    """A formula of attention; its projected inputs are alike until something tells them apart."""
    vertices = [Vertex("path") for _ in range(formula.paths)]
    for step in formula.steps:
        vertices.append(Vertex(step.op, step.of, step.op == "add"))
    about = f"{formula.heads} {formula.key} {formula.bias}"
    return f"{about}\n{graph_text(vertices, [len(vertices) - 1])}"


def cell_text(cell: Cell) -> str:
    """A cell: its blocks in any order, the branches of a sum or a product in any order."""
    plain = simplest(cell)
    vertices = [Vertex("entry")]
    states = [0]  # the vertex of each state
    for block in plain.blocks:
        branches = [_branch(vertices, branch, states) for branch in block.living()]
        commutes = block.combine in ("add", "multiply")
        vertices.append(Vertex(block.combine, tuple(branches), commutes))
        states.append(len(vertices) - 1)
    about = f"{plain.unit} {write(plain.norm)}"
    return f"{about}\n{graph_text(vertices, [states[end] for end in ends_of(plain.blocks)])}"


def _branch(vertices: list[Vertex], branch: Branch, states: list[int]) -> int:
    fields = branch.replace(input=0)
    vertices.append(Vertex(write(fields), (states[branch.input],)))
    return len(vertices) - 1
