"""GPT-2: pre-norm decoder with learned positions, tied output layer.

Paper: Radford et al. 2019, linked below (it is not on arXiv). Nothing is inferred.
"""

from formwright.arch import Architecture, parse
from formwright.zoo.registry import Paper, published

GPT2 = Paper(
    "Language Models are Unsupervised Multitask Learners",
    "https://cdn.openai.com/better-language-models/"
    "language_models_are_unsupervised_multitask_learners.pdf",
)


@published(
    "gpt2-small",
    system="GPT-2",
    paper=GPT2,
    params=124_439_808,
    reported={"params_in_paper": 117_000_000},
    note="Printed as 117M; 124,439,808 are the released weights.",
)
def gpt2_small() -> Architecture:
    return parse("(sf)x12 in gpt2(768) for frame(50257, 1024, lm)")
