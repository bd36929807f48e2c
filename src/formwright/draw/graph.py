"""Graph-shaped layers as drawings: each step a box, what it reads above it."""

from collections.abc import Sequence
from dataclasses import dataclass

from formwright.arch.architecture import Architecture
from formwright.arch.attention import Attention
from formwright.arch.conv import Convolution
from formwright.arch.graph.cell import Cell, ends_of, simplest
from formwright.arch.graph.formula import Formula, tidied
from formwright.arch.graph.fuse import fused
from formwright.arch.graph.program import Program
from formwright.arch.graph.straightline import Step
from formwright.arch.graph.unfold import straight_line
from formwright.arch.layer import Identity, Layer
from formwright.arch.site import Site
from formwright.arch.writer import write
from formwright.draw.canvas import Canvas, paint, text_width
from formwright.draw.outline import Kind

GRAPHS = (Program, Formula, Cell)
_BOX, _DOWN, _GAP, _EDGE = 26, 30, 14, 20  # height of a box, room below, beside, around
_ASIDE, _APART = 12, 5  # between lines that go around; of their ends from the middle of a box


@dataclass(frozen=True)
class Mark:
    """A step of a drawing.

    Args:
        label: What is written in it.
        inputs: Earlier steps that it reads.
        kind: Whose colour it has.
    """

    label: str
    inputs: tuple[int, ...] = ()
    kind: Kind = "other"


def graphs_in(arch: Architecture) -> list[tuple[Layer, Site]]:
    """The graph-shaped layers of a model with their places, equal ones once."""
    found: dict[tuple[Layer, int, bool], tuple[Layer, Site]] = {}
    for _, stack, site in arch.stacks():
        for layer, place in stack.placed(site):
            for _, node in layer.walk():
                if isinstance(node, GRAPHS):
                    found.setdefault((node, place.width, place.causal), (node, place))
    return list(found.values())


def graph_svg(layer: Layer, width: int, title: str = "") -> str:
    """A program, a formula or a cell as SVG.

    Args:
        layer: One of the three.
        width: Of the stream it stands in.
        title: What it is called.
    """
    marks = marks_of(layer, width)
    rows = _rows(marks)
    widths = [max(46.0, text_width(mark.label, 12) + 18) for mark in marks]
    broad = max(sum(widths[i] + _GAP for i in row) for row in rows)
    centres: dict[int, tuple[float, float]] = {}
    depths = {i: depth for depth, row in enumerate(rows) for i in row}
    for depth, row in enumerate(rows):
        left = _EDGE + (broad - sum(widths[i] + _GAP for i in row)) / 2
        for i in row:
            centres[i] = (left + widths[i] / 2, _EDGE + depth * (_BOX + _DOWN) + _BOX / 2)
            left += widths[i] + _GAP
    canvas = Canvas()
    aside = broad + _EDGE
    for i, mark in enumerate(marks):
        for read in mark.inputs:
            far = depths[i] - depths[read] > 1 and any(
                abs(centres[j][0] - centres[i][0]) < (widths[j] + widths[i]) / 2
                for row in rows[depths[read] + 1 : depths[i]]
                for j in row
            )
            if far:  # around what stands between
                aside += _ASIDE
                _detour(canvas, centres[read], centres[i], (widths[read], widths[i]), aside)
            else:
                _arrow(canvas, centres[read], centres[i])
    for i, mark in enumerate(marks):
        x, y = centres[i]
        canvas.rect((x - widths[i] / 2, y - _BOX / 2, widths[i], _BOX), paint(mark.kind), radius=6)
        canvas.text(x, y + 4, mark.label)
    height = len(rows) * (_BOX + _DOWN) - _DOWN + 2 * _EDGE
    words = "; ".join(mark.label for mark in marks)
    return canvas.finish(aside + _EDGE, height, title or "a graph-shaped layer", words)


def marks_of(layer: Layer, width: int) -> list[Mark]:
    """What there is to draw; steps that only move numbers are left out."""
    if isinstance(layer, Program):
        return _program(layer, width)
    if isinstance(layer, Formula):
        return _formula(layer)
    assert isinstance(layer, Cell)
    return _cell(layer)


def _program(program: Program, width: int) -> list[Mark]:
    marks: list[Mark] = []
    at: list[int] = []  # the mark of each step
    for step in fused(straight_line(program, width)).steps:
        if step.op in ("turn", "spread"):
            at.append(at[step.inputs[0]])
            continue
        marks.append(Mark(_label(step), tuple(at[i] for i in step.inputs), _kind(step.op)))
        at.append(len(marks) - 1)
    return marks


def _label(step: Step) -> str:
    heads = step.number if step.op == "attend" and step.number > 1 else step.result.lanes
    many = f" x{heads}" if heads > 1 else ""
    if step.op == "stream":
        return "x"
    if step.op in ("max", "min", "c_mul"):
        return f"{step.op} {step.constant:.3g}{many}"
    if step.op == "hide":
        return f"mask{many}"
    words = {"attend": "attention", "dense": "map + bias", "conv1": "map", "join": "concat"}
    wide = f" to {step.result.width}" if step.op in ("conv1", "dense", "fit") else ""
    return words.get(step.op, step.op) + wide + many


def _kind(op: str) -> Kind:
    if op in ("attend", "mat_mul", "mat_mul_transposed", "softmax", "matmul"):
        return "attention"
    if op in ("conv1", "dense"):
        return "feed-forward"
    return "convolution" if op.startswith(("conv", "depthwise")) else "other"


def _formula(formula: Formula) -> list[Mark]:
    plain = tidied(formula)
    names = ["Q", "K", "V", *(f"P{path + 1}" for path in range(3, plain.paths))]
    marks = [Mark("x")]
    marks += [Mark(f"{name} = x W", (0,), "feed-forward") for name in names[: plain.paths]]
    for step in plain.steps:
        word = "/ sqrt(d)" if step.op == "scale" else step.op
        marks.append(Mark(word, tuple(i + 1 for i in step.of), _kind(step.op)))
    last = Mark("concat, map", (len(marks) - 1,), "feed-forward")
    return [*marks, last]


def _cell(cell: Cell) -> list[Mark]:
    plain = simplest(cell)
    marks, states = [Mark("x")], [0]
    for block in plain.blocks:
        sides = []
        for branch in block.living():
            layer, read = branch.layer, states[branch.input]
            parts = ["norm"] if branch.norm else []
            parts += [] if isinstance(layer, Identity) else [write(layer)]
            parts += [branch.activation] if branch.activation != "none" else []
            if parts:
                marks.append(Mark(", ".join(parts), (read,), _layer_kind(layer)))
                read = len(marks) - 1
            sides.append(read)
        if len(sides) == 2:
            word = {"add": "+", "multiply": "*"}.get(block.combine, block.combine)
            marks.append(Mark(word, tuple(sides)))
            states.append(len(marks) - 1)
        else:
            states.append(sides[0])
    ends = [states[end] for end in ends_of(plain.blocks)]
    return [*marks, Mark("y", tuple(dict.fromkeys(ends)))]


def _layer_kind(layer: object) -> Kind:
    if isinstance(layer, Attention):
        return "cross-attention" if layer.over == "source" else "attention"
    if isinstance(layer, Convolution):
        return "feed-forward" if getattr(layer, "kernel", 1) == 1 else "convolution"
    return "other"


def _rows(marks: Sequence[Mark]) -> list[list[int]]:
    """Steps by how far they are from the input."""
    depth: list[int] = []
    for mark in marks:
        depth.append(1 + max((depth[i] for i in mark.inputs), default=-1))
    rows: list[list[int]] = [[] for _ in range(max(depth) + 1)]
    for i, level in enumerate(depth):
        rows[level].append(i)
    return rows


def _arrow(canvas: Canvas, start: tuple[float, float], end: tuple[float, float]) -> None:
    """From the lower edge of one box to the upper edge of another."""
    (x, y), (goal, below) = (start[0], start[1] + _BOX / 2), (end[0], end[1] - _BOX / 2)
    middle = (y + below) / 2
    bend = f"{x:.1f} {middle:.1f} {goal:.1f} {middle:.1f}"
    canvas.path(f"M{x:.1f} {y:.1f}C{bend} {goal:.1f} {below:.1f}")
    canvas.head(goal, below)


def _detour(
    canvas: Canvas,
    start: tuple[float, float],
    end: tuple[float, float],
    widths: tuple[float, float],
    aside: float,
) -> None:
    """From the right side of one box, down on the right, to the right side of another."""
    x, goal = start[0] + widths[0] / 2, end[0] + widths[1] / 2
    leaves, comes = start[1] + _APART, end[1] - _APART  # a box may have one of each
    canvas.line([(x, leaves), (aside, leaves), (aside, comes), (goal, comes)])
    points = [(goal, comes), (goal + 7, comes - 4), (goal + 7, comes + 4)]
    data = "M" + "L".join(f"{a:.1f} {b:.1f}" for a, b in points) + "Z"
    canvas.path(data, "fw-point")
