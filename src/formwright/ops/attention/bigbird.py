"""BigBird as a layer; computed in ``kernels/bigbird.py``."""

from torch import Tensor

from formwright.arch.attention import Attention
from formwright.arch.mechanism import BigBird
from formwright.arch.site import Site
from formwright.ops.attention.base import MechanismOp, Sight
from formwright.ops.attention.kernels import bigbird_attention, random_plan
from formwright.ops.base import Builder, Context, operator


@operator(BigBird)
class BigBirdOp(MechanismOp):
    """Window, global and random blocks; which are random follows from the layer's number."""

    def __init__(self, node: BigBird, attention: Attention, site: Site, builder: Builder) -> None:
        super().__init__(node, attention, site, builder)
        self.seed = builder.slot()

    def forward(self, q: Tensor, k: Tensor, v: Tensor, sight: Sight, ctx: Context) -> Tensor:
        block, count = self.node.block, self.node.random_blocks
        plan = random_plan(q.shape[2], self.heads, seed=self.seed, block=block, random_blocks=count)
        return bigbird_attention(q, k, v, mask=sight.keys, block=block, plan=plan)
