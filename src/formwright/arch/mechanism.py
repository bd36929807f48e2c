"""Attention mechanisms: which keys a query sees, and how what it sees is weighed.

A mechanism is the ``kind`` of an ``attention`` node, which owns the projections around it.
``cells`` is how many query-key pairs are computed; counts follow from it.
"""

from typing import TYPE_CHECKING, ClassVar

from formwright.arch.node import Node, node
from formwright.arch.site import Count, Load, Site

if TYPE_CHECKING:
    from formwright.arch.attention import Attention


class Mechanism(Node):
    """What happens between the projections of an attention."""

    paper: ClassVar[str] = ""
    complexity: ClassVar[str] = "n^2"
    can_be_causal: ClassVar[bool] = True
    uses_positions: ClassVar[bool] = False  # whether rotary, biases and memory reach its scores

    def check(self, attention: "Attention", site: Site) -> None:
        """Raise ``ShapeError`` when the mechanism cannot work in that attention."""

    def count(self, attention: "Attention", site: Site, load: Load) -> Count:
        """Own parameters, and the work between the projections."""
        raise NotImplementedError


@node("softmax")
class Softmax(Mechanism):
    """Every query sees every key (or every earlier one), weighed by the softmax of q.k."""

    paper = "https://arxiv.org/abs/1706.03762"
    uses_positions = True

    def count(self, attention: "Attention", site: Site, load: Load) -> Count:
        keys = load.source if attention.over == "source" else load.length + load.past
        cells = load.batch * attention.heads * load.length * keys
        key, value = attention.key_size(site.width), attention.value_size(site.width)
        if attention.query_key == "none":  # a mean takes no product
            return Count(kept=load.tokens * attention.mixed_width(site.width))
        # the result, and one number per query to make the weights again
        kept = load.tokens * attention.heads * (value + 1)
        if attention.groups != attention.heads:  # grouped keys and values are spelled out
            kept += load.batch * keys * attention.heads * (key + value)
        return Count(flops=2 * cells * (key + value), kept=kept)
