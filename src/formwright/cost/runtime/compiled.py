"""torch.compile: half a minute of compiling per architecture, then fewer and larger kernels."""

import torch
import torch._dynamo.config
from torch import Tensor

from formwright.cost.paired import Run
from formwright.cost.step import Step
from formwright.cost.target import Target

# All steps share one piece of code, so that torch takes each architecture for one more variant of
# the same function, and would go back to eager silently after the eighth.
_VARIANTS = 100_000


def prepare(step: Step, arguments: tuple[Tensor, ...], target: Target) -> Run:
    """Compile for these shapes; the first call does the work."""
    torch._dynamo.config.recompile_limit = _VARIANTS
    torch._dynamo.config.accumulated_recompile_limit = _VARIANTS
    compiled = torch.compile(step, dynamic=False)

    @torch.inference_mode()
    def run() -> None:
        compiled(*arguments)

    run()
    return run
