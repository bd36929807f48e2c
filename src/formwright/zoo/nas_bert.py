"""NAS-BERT: encoders of twelve sizes, each a chain of attention, feed-forward and convolution.

Paper: https://arxiv.org/abs/2105.14444, final architectures in its appendix. ``E256`` is an
embedding of size 256, ``M`` attention, ``F`` feed-forward, ``S5`` a separable convolution over
five tokens; heads have 64 channels, feed-forwards are four times as wide as the stream.
Residual branches are post-norm, as in BERT, and the output layer is tied to the embedding.

Inferred: a convolution stacks two separable units (only then do the FLOPs agree); 30,522 word
pieces (the FLOPs agree, while the published sizes, which are nominal budgets, would suggest
some 50,000: counts here are up to a third below them); one kernel of the 25M model (5), whose
digit is missing in print; where channels change from 384 to 512, a dense map between. The 25M
model, which ends wider than it begins, needs a map of its own (131,072) to the output layer.
"""

from functools import partial
from itertools import pairwise

from formwright.arch import (
    Architecture,
    Attention,
    Embedding,
    Encoder,
    FeedForward,
    Frame,
    Identity,
    Layer,
    LayerNorm,
    Learned,
    Linear,
    MaskedLM,
    Residual,
    SeparableConv,
    Stack,
)
from formwright.zoo.registry import Paper, published

NAS_BERT = Paper(
    "NAS-BERT: Task-Agnostic and Adaptive-Size BERT Compression with Neural Architecture Search",
    "https://arxiv.org/abs/2105.14444",
)
NORM = LayerNorm(eps=1e-12)
FRAME = Frame(vocab=30_522, length=512, head=MaskedLM(transform=False))

Chain = tuple[tuple[int, str], ...]  # hidden size, and the operators that have it

SIZES: dict[int, tuple[int, Chain]] = {
    60: (512, ((512, "S3 M M S7 F F F M M S7 F F M S5 M F S3 F M M S5 F F F"),)),
    55: (512, ((512, "F S5 M F M F S7 M S7 M F S5 S3 M S5 S5 F F F M M S5 F"),)),
    50: (384, ((512, "F S5 M F S5 F S7 M S7 F F S3 M S5 S7 F M F M S5 M F"),)),
    45: (384, ((512, "S3 M S7 F S5 F S7 M S7 M F S7 S3 M S7 S3 F M F M S3 S7 F"),)),
    40: (384, ((512, "S3 M S5 M S5 F S5 M S7 F F S3 M S5 S5 S3 F S7 M M F"),)),
    35: (256, ((512, "S3 S7 M S7 S3 F M S5 S7 S5 S3 M S5 S5 S3 F S7 M M F"),)),
    30: (256, ((512, "S3 M S5 S7 F S5 M S7 S5 F S3 S5 M F S3 S7 M S3 F S5"),)),
    25: (256, ((384, "S3 M S5 S3 S3 S5"), (512, "S7 S5 M F F M S5 M M F"))),
    20: (
        128,
        ((384, "S3 M S5 S3 S3 S5"), (512, "M F F M"), (384, "S3 S5 M S5 S3 S5")),
    ),
    15: (
        128,
        ((384, "S3 M S5 S3 S3 S5 S5 S5 M S5 S5 S7 M S5 S5 S5 S5 S5 S3 S5 M S5 S5 S5"),),
    ),
    10: (128, ((384, "S3 S5 M S3 S5 M S7 M S3 S7 M S3"),)),
    5: (64, ((192, "S3 S7 M S7 S7 M S3 M S7 S5 M S3"),)),
}

# GLUE average on the development sets, with distillation; FLOPs at 128 tokens; speed-up.
REPORTED: dict[int, dict[str, float | str]] = {
    60: {"glue_dev_kd": 84.2, "glue_dev_pf": 83.2, "flops_128": 1.3e10, "speedup": 2.2},
    30: {"glue_dev_kd": 80.3, "glue_dev_pf": 80.0, "flops_128": 7.0e9, "speedup": 3.6},
    10: {"glue_dev_kd": 75.5, "glue_dev_pf": 75.2, "flops_128": 2.3e9, "speedup": 8.7},
    5: {"glue_dev_kd": 72.7, "glue_dev_pf": 72.3, "flops_128": 8.7e8, "speedup": 23.6},
}


def encoder(embedding: int, chain: Chain) -> Architecture:
    """A chain of operators behind an embedding of another size."""
    first = chain[0][0]
    layers = _layers(chain[0])
    for (before, _), part in pairwise(chain):
        if part[0] != before:
            layers.append(Linear(part[0]))
        layers += _layers(part)
    backbone = Encoder(
        first,
        Embedding(size=None if embedding == first else embedding, norm=NORM),
        position=Learned(),
        norm=None,
        init="bert",
    )
    return Architecture(Stack(tuple(layers)), backbone, frame=FRAME)


def _layers(part: tuple[int, str]) -> list[Layer]:
    hidden, operators = part
    branch = Residual(Identity(), place="post", norm=NORM)
    return [branch.replace(inner=_operator(word, hidden)) for word in operators.split()]


def _operator(word: str, hidden: int) -> Layer:
    if word == "M":
        return Attention(hidden // 64)
    if word == "F":
        return FeedForward(4 * hidden)
    return SeparableConv(int(word[1:]), units=2)


_DOUBTS = {
    25: " The kernel of the 13th operator is inferred; the extra operator that some reprints "
    "of the row show is left out. It ends wider than it begins, so that 131,072 parameters lead "
    "to the output layer.",
    15: " One convolution that some reprints of the row repeat is left out: there are 24.",
}

for _millions, (_embedding, _chain) in SIZES.items():
    published(
        f"nas-bert-{_millions}",
        system="NAS-BERT",
        paper=NAS_BERT,
        params=_millions * 1_000_000,
        reported=REPORTED.get(_millions),
        note="The published size is a nominal budget; with 30,522 word pieces, as the FLOPs "
        "require, the model is smaller." + _DOUBTS.get(_millions, ""),
    )(partial(encoder, _embedding, _chain))
