"""A layer written as a program of primitives (Primer).

Paper: "Primer", So et al. 2021, https://arxiv.org/abs/2109.08668

    program([sub([do(reduce_mean, 0), do(difference, 0, second=1)])])

A program is a row of subprograms; the first is the main one, and a subprogram may call those
behind it only, so that calls end. Each call owns its weights, also two calls of the same
subprogram. Constants and sizes stand in banks that all instructions share: changing one entry
changes every instruction that uses it.

**Sizes** are relative: a dim of 8 is the width of the stream, unless ``stream`` names another,
so that a program fits any width that can be divided like this.

**Values** are rows (tokens by channels) or scores (queries by keys, one or several maps).
Sizes that do not fit are mended: a single channel is repeated, otherwise channels at the end of
the second input are cut off or filled up with zeros until it is as wide as the first; likewise
the result of the main subprogram, to the width of the stream. Rows and scores go together where
the rows have one channel, or one for each map.

**Looking ahead.** In a causal stack convolutions see the token and those before it (elsewhere as
many on both sides), and a query sees its own and earlier keys. Scores may be worked on whole,
but whatever leaves them, by a reduction or a product, goes through a mask first, so that no
program can look ahead; ``mask`` is needed only where its minus infinity is (before exp).
Padding is masked in the same way. This holds as long as all numbers are finite.

Differs from the paper: see ``instruction``; lengths vary, so scores are a kind of their own.
Positions of the backbone that act inside attention (rotary, relative) do not reach a program.
"""

from typing import ClassVar

from formwright.arch.graph.fuse import fused
from formwright.arch.graph.instruction import Instruction
from formwright.arch.graph.straightline import StraightLine
from formwright.arch.graph.unfold import straight_line
from formwright.arch.layer import Layer
from formwright.arch.node import Node, Positive, node
from formwright.arch.site import Count, Load, Site


@node("sub")
class Subprogram(Node):
    """Instructions in a row; the result is that of the last, or the input where there is none.

    Values are counted from the inputs on: with one input, the first instruction gives value 1.
    """

    code: tuple[Instruction, ...]
    inputs: Positive = 1


@node("program")
class Program(Layer):
    """A layer made of primitives."""

    paper: ClassVar[str] = "https://arxiv.org/abs/2109.08668"
    complexity: ClassVar[str] = "n to n^3"

    subprograms: tuple[Subprogram, ...]
    constants: tuple[float, ...] = ()
    dims: tuple[Positive, ...] = ()
    stream: Positive = 8

    def straight_line(self, site: Site) -> StraightLine:
        """The program with all calls written out and all sizes known, checked."""
        return straight_line(self, site.width)

    def compiled(self, site: Site) -> StraightLine:
        """The same in the steps that are run and counted: norms, attention and maps as one each."""
        return fused(self.straight_line(site))

    def out_width(self, site: Site) -> int:
        self.straight_line(site)
        return site.width

    def count(self, site: Site, load: Load) -> Count:
        return self.compiled(site).count(load)
