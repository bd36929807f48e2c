"""AutoBERT-Zero: local convolutions and evolved attention formulas, in turns, in a BERT.

Paper: Gao et al. 2022, https://arxiv.org/abs/2107.07445. The formulas stand in
``arch/graph/formulas.py``; every layer is followed by BERT's feed-forward.

Inferred: the convolution layer is a gated linear unit, a lightweight convolution with as many
heads as attention has, and a linear map, all with biases.
"""

from formwright.arch import Architecture, Features, Frame, Stack, style
from formwright.arch.graph import formulas
from formwright.zoo.registry import Paper, published

AUTOBERT_ZERO = Paper(
    "AutoBERT-Zero: Evolving BERT Backbone from Scratch", "https://arxiv.org/abs/2107.07445"
)
WIDTH, HEADS = 768, 12


@published(
    "autobert-zero-base",
    system="AutoBERT-Zero",
    paper=AUTOBERT_ZERO,
    params=104_000_000,
    reported={
        "flops": 2.3e10,
        "average_glue_dev": 86.3,
        "average_glue_test": 82.2,
        "average_glue_dev_longer_training": 87.7,
        "average_glue_test_longer_training": 83.5,
    },
    note="Printed as 104M, beside 110M for BERT-base; counted here with pooler, as bert-base.",
)
def autobert_zero_base() -> Architecture:
    layers = (
        formulas.convolution(found, WIDTH, HEADS) if isinstance(found, int) else found(HEADS)
        for found in formulas.AUTOBERT_ZERO
    )
    bert = style("bert", WIDTH, HEADS)
    like, feedforward = bert.letters["s"], bert.letters["f"]
    stack = [part for layer in layers for part in (like.replace(inner=layer), feedforward)]
    frame = Frame(30_522, 512, Features(pooler=True))
    return Architecture(Stack(tuple(stack)), bert.backbone, frame=frame).check()
