"""Drawings of architectures: text for the terminal, SVG for pages.

``outline`` computes what there is to show; ``text`` and ``svg`` only draw it.
"""

from formwright.draw.outline import Block, Fact, Outline, Run, StackOutline, outline
from formwright.draw.strip import strip_svg
from formwright.draw.svg import draw_svg
from formwright.draw.text import compare_text, draw_text

__all__ = [
    "Block",
    "Fact",
    "Outline",
    "Run",
    "StackOutline",
    "compare_text",
    "draw_svg",
    "draw_text",
    "outline",
    "strip_svg",
]
