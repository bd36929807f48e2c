"""Scores that only count: no model is built."""

from formwright.arch.counting import count
from formwright.estimate.proxy.base import Sample, proxy

LTS = "https://arxiv.org/abs/2203.02094"


@proxy(
    "decoder_params",
    paper=LTS,
    needs_data=False,
    evidence="Spearman 0.97 with perplexity over 200 GPT-2 and Transformer-XL models on "
    "WikiText-103; among the best tenth only 0.57 to 0.71. Fails where deep models are "
    "trained too briefly.",
)
def decoder_params(sample: Sample) -> float:
    """Parameters of the layers, without embedding and head."""
    return float(count(sample.arch).non_embedding)


@proxy(
    "params",
    paper=LTS,
    needs_data=False,
    evidence="0.26 to 0.99 in the same tables: the embedding drowns it where it varies.",
)
def params(sample: Sample) -> float:
    """All parameters."""
    return float(count(sample.arch).params)


@proxy(
    "flops",
    paper=LTS,
    needs_data=False,
    evidence="Close to decoder parameters at a fixed length; a control more than a method.",
)
def flops(sample: Sample) -> float:
    """FLOPs of one forward pass."""
    return float(count(sample.arch).flops)


@proxy(
    "width",
    paper=LTS,
    needs_data=False,
    evidence="The trivial control: 0.95 and 0.89 in the tables of LTS. A proxy that does not "
    "beat it has learnt nothing.",
)
def width(sample: Sample) -> float:
    """Channels of the model."""
    return float(sample.arch.backbone.width)
