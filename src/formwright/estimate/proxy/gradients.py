"""Scores from one backward pass at the initial weights."""

# b example, p parameter

import torch
from torch import Tensor, nn

from formwright.estimate.proxy.base import Sample, proxy, total
from formwright.model import Model

ZERO_COST = "https://arxiv.org/abs/2101.08134"


def _inside(model: Model) -> list[Tensor]:
    """Parameters of the layers: embeddings and heads would drown them."""
    return [*model.stacks.parameters(), *model.norms.parameters()]


def _gradients(sample: Sample) -> list[tuple[Tensor, Tensor]]:
    model = sample.model()
    sample.loss(model).backward()
    return [(p.detach(), p.grad) for p in _inside(model) if p.grad is not None]


@proxy(
    "grad_norm",
    paper=ZERO_COST,
    evidence="Weak on language models in LTS's comparison; grows with depth and width alike.",
)
def grad_norm(sample: Sample) -> float:
    """Sum of the norms of all gradients."""
    return total(grad.norm() for _, grad in _gradients(sample))


@proxy(
    "snip",
    paper="https://arxiv.org/abs/1810.02340",
    evidence="How much the loss would change if weights were removed; below decoder parameters "
    "in LTS's comparison.",
)
def snip(sample: Sample) -> float:
    """Sum of |weight x gradient|."""
    return total((weight * grad).abs().sum() for weight, grad in _gradients(sample))


@proxy(
    "synflow",
    paper="https://arxiv.org/abs/2006.05467",
    evidence="The best of the gradient proxies on convolutional spaces; on language models it "
    "mostly counts parameters along the path.",
)
def synflow(sample: Sample) -> float:
    """Log of the flow through the network when every weight is made positive.

    The logarithm is taken, since the product of all layers spans many decades.
    """
    model = sample.model().double()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.abs_()
    assert sample.batch is not None
    inputs = {
        name: value.double() if value.is_floating_point() else value
        for name, value in sample.batch.inputs.items()
    }
    flow = model(**inputs)
    flow = flow.sum() if isinstance(flow, Tensor) else sum(part.sum() for part in flow)
    flow.backward()
    inside = [p for p in _inside(model) if p.grad is not None]
    score = total((p.detach() * p.grad).abs().sum() for p in inside if p.grad is not None)
    return float(torch.log(torch.tensor(score, dtype=torch.float64).clamp(min=1e-300)))


@proxy(
    "jacob_cov",
    paper="https://arxiv.org/abs/2006.04647",
    evidence="Made for images; on text it says whether examples are told apart at the start.",
)
def jacob_cov(sample: Sample) -> float:
    """How differently the loss reacts to different examples: eigenvalues of the correlation."""
    model = sample.model()
    caught: list[Tensor] = []

    def keep(module: nn.Module, inputs: tuple[Tensor, ...]) -> None:
        inputs[0].retain_grad()
        caught.append(inputs[0])

    handle = next(iter(model.stacks.values())).register_forward_pre_hook(keep)
    try:
        sample.loss(model).backward()
    finally:
        handle.remove()
    assert caught[0].grad is not None
    rows = caught[0].grad.flatten(1).double()  # (b, p)
    if rows.shape[0] < 2:  # one long text: its tokens are the examples
        rows = caught[0].grad.flatten(0, 1).double()
    rows = rows - rows.mean(dim=1, keepdim=True)
    rows = rows / rows.norm(dim=1, keepdim=True).clamp(min=1e-12)
    values = torch.linalg.eigvalsh(rows @ rows.T).clamp(min=0) + 1e-5
    return float(-(values.log() + 1 / values).mean())
