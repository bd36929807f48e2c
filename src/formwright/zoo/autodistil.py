"""AutoDistil: four students cut out of BERT by few-shot search.

Paper: https://arxiv.org/abs/2201.12507. Heads keep the 64 channels they had in BERT, so that
attention is 64 x heads wide whatever the hidden size.

The published counts come from a formula that takes attention to be hidden x heads / 12 wide,
which is less than the sliced model has. Both are kept: what the model counts, and
``params_by_formula`` and ``flops_by_formula`` under ``reported``. The formula counts two FLOPs
of ours as one. Nothing about the shapes is inferred.
"""

from dataclasses import dataclass
from functools import partial

from formwright.arch import Architecture, Attention, Features, FeedForward, Frame, Residual, Stack
from formwright.arch.style import style
from formwright.zoo.registry import Paper, published

AUTODISTIL = Paper(
    "Few-shot Task-agnostic Neural Architecture Search for Distilling Large Language Models",
    "https://arxiv.org/abs/2201.12507",
)
WORD_PIECES, LENGTH = 30_522, 512


@dataclass(frozen=True)
class Shape:
    """The four numbers a student is made of."""

    layers: int
    hidden: int
    ratio: float  # feed-forward width over hidden size
    heads: int

    @property
    def inner(self) -> int:
        """Width inside the feed-forward."""
        return int(self.hidden * self.ratio)


def student(shape: Shape) -> Architecture:
    """BERT's first layers, heads and channels, and its pooler."""
    bert = style("bert", width=shape.hidden)
    branch = bert.letters["s"]
    assert isinstance(branch, Residual)
    attention = branch.replace(inner=Attention(shape.heads, key=64))
    feedforward = branch.replace(inner=FeedForward(shape.inner))
    frame = Frame(vocab=WORD_PIECES, length=LENGTH, head=Features(pooler=True))
    return Architecture(Stack((attention, feedforward) * shape.layers), bert.backbone, frame=frame)


def formula_params(shape: Shape) -> int:
    """Parameters as the paper counts them."""
    hidden, inner = shape.hidden, shape.inner
    embedding = hidden * (WORD_PIECES + 512 + 4)
    attention = hidden**2 + 3 * hidden**2 * shape.heads / 12 + 6 * hidden
    feedforward = 2 * hidden * inner + inner + 3 * hidden
    pooler = hidden**2 + 2 * hidden
    return round(embedding + shape.layers * (attention + feedforward) + pooler)


def formula_flops(shape: Shape, length: int = 128) -> int:
    """FLOPs as the paper counts them, one per multiply-add."""
    hidden, share = shape.hidden, shape.heads / 12
    attention = 3 * length * hidden**2 * share + 2 * length**2 * hidden * share
    dense = length * hidden**2 + 2 * length * hidden * shape.inner
    return round(shape.layers * (attention + dense) + length * hidden**2 + 2 * hidden)


STUDENTS = {
    "agnostic": (Shape(11, 352, 4.0, 10), 26_800_000, 2.13, 82.8, 79.6),
    "proxy-b": (Shape(12, 544, 3.0, 9), 50_100_000, 4.40, 83.8, 81.7),
    "proxy-s": (Shape(11, 352, 4.0, 8), 26_100_000, 2.02, 83.2, 79.9),
    "proxy-t": (Shape(7, 160, 3.5, 10), 6_880_000, 0.27, 79.0, 72.6),
}

for _name, (_shape, _params, _gflops, _mnli, _glue) in STUDENTS.items():
    published(
        f"autodistil-{_name}",
        system="AutoDistil",
        paper=AUTODISTIL,
        params=_params,
        reported={
            "gflops": _gflops,
            "accuracy_mnli": _mnli,
            "glue_average": _glue,
            "params_by_formula": formula_params(_shape),
            "flops_by_formula": formula_flops(_shape),
        },
        note="The published count follows the paper's formula (params_by_formula), which takes "
        "attention to be narrower than it is; the model itself is larger.",
    )(partial(student, _shape))
