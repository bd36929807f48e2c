"""A graph-shaped layer as everything it can be read as: maths, drawing, code."""

from dataclasses import dataclass

from formwright.arch.architecture import Architecture
from formwright.arch.graph.cell import Cell
from formwright.arch.graph.formula import Formula
from formwright.arch.graph.program import Program
from formwright.arch.layer import Layer
from formwright.arch.site import Site
from formwright.draw.graph import graph_svg, graphs_in
from formwright.draw.maths import Maths, maths_of
from formwright.draw.standalone import formula_code, program_code
from formwright.draw.standalone_cell import cell_code
from formwright.errors import InputError


@dataclass(frozen=True)
class Explained:
    """A layer and the place it stands in.

    Args:
        layer: A program, a formula or a cell.
        site: Where it stands.
        name: What to call it.
    """

    layer: Layer
    site: Site
    name: str

    @property
    def maths(self) -> Maths:
        """As lines of maths."""
        return maths_of(self.layer, self.site.width)

    @property
    def svg(self) -> str:
        """As a drawing."""
        return graph_svg(self.layer, self.site.width, self.name)

    @property
    def code(self) -> str:
        """As stand-alone torch code."""
        return standalone_code(self.layer, self.site, self.name)


def standalone_code(layer: Layer, site: Site, title: str = "") -> str:
    """A layer as a file that needs torch and nothing else."""
    if isinstance(layer, Program):
        return program_code(layer, site, title)
    if isinstance(layer, Formula):
        return formula_code(layer, site, title)
    assert isinstance(layer, Cell)
    return cell_code(layer, site, title)


def explained(arch: Architecture) -> list[Explained]:
    """Every graph-shaped layer of a model, equal ones once; refused where it has none."""
    found = [
        Explained(layer, site, f"{layer.NAME} {number}")
        for number, (layer, site) in enumerate(graphs_in(arch), start=1)
    ]
    if not found:
        raise InputError(
            "This architecture has no graph-shaped layer (program, formula or cell) to explain; "
            "`formwright describe` shows what it is."
        )
    return found
