"""Small models of the Llama family: RMSNorm, rotary positions, gated feed-forward.

Papers: SmolLM2, https://arxiv.org/abs/2502.02737; stories15M is one of the models of
https://github.com/karpathy/llama2.c, trained on TinyStories, https://arxiv.org/abs/2305.07759.
Nothing is inferred: sizes are those of the released configurations.
"""

from formwright.arch import Architecture, parse
from formwright.zoo.registry import Paper, published

SMOLLM2 = Paper(
    "SmolLM2: When Smol Goes Big - Data-Centric Training of a Small Language Model",
    "https://arxiv.org/abs/2502.02737",
)
TINY_STORIES = Paper(
    "TinyStories: How Small Can Language Models Be and Still Speak Coherent English?",
    "https://arxiv.org/abs/2305.07759",
)


@published(
    "smollm2-135m",
    system="Llama",
    paper=SMOLLM2,
    params=134_515_008,
    note="134,515,008 are the released weights. Nine query heads share three key-value heads.",
)
def smollm2() -> Architecture:
    return parse(
        "(sf)x30 where "
        "s = residual(attention(9, kv_heads=3, bias=false), norm=rmsnorm(eps=1e-5)), "
        "f = residual(feedforward(1536, activation=silu, gate=true, bias=false),"
        "             norm=rmsnorm(eps=1e-5)) "
        "in decoder(576, position=rotary(base=100000), norm=rmsnorm(eps=1e-5), init=llama) "
        "for frame(49152, 8192, lm)"
    )


@published(
    "stories15m",
    system="Llama",
    paper=TINY_STORIES,
    params=15_191_712,
    reported={"loss_tinystories": 1.072},
    note="15,191,712 are the released weights.",
)
def stories15m() -> Architecture:
    return parse("(sf)x6 in llama(288, heads=6, inner=768) for frame(32000, 256, lm)")
