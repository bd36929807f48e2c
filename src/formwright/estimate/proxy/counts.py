"""Scores that only count: no model is built."""

from functools import partial

from formwright.arch.counting import count
from formwright.estimate.proxy.base import proxy

counted = partial(proxy, paper="https://arxiv.org/abs/2203.02094", needs_data=False)

decoder_params = counted(
    "decoder_params",
    evidence="Spearman 0.97 with perplexity over 200 GPT-2 and Transformer-XL models on "
    "WikiText-103; among the best tenth only 0.57 to 0.71. Fails where deep models are "
    "trained too briefly.",
)(lambda sample: float(count(sample.arch).non_embedding))
params = counted(
    "params",
    evidence="0.26 to 0.99 in the same tables: the embedding drowns it where it varies.",
)(lambda sample: float(count(sample.arch).params))
flops = counted(
    "flops",
    evidence="Close to decoder parameters at a fixed length; a control more than a method.",
)(lambda sample: float(count(sample.arch).flops))
width = counted(
    "width",
    evidence="The trivial control: 0.95 and 0.89 in the tables of LTS. A proxy that does not "
    "beat it has learnt nothing.",
)(lambda sample: float(sample.arch.backbone.width))
