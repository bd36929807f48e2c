"""LiteTransformerSearch (LTS): the models it starts from, and three whose counts were released.

Paper: https://arxiv.org/abs/2203.02094; sizes and counts from the tables released with it
(archai, branch neurips-lts). LTS ranks by decoder parameters, which are all but embeddings and
head: ``count(arch).non_embedding``. Transformer-XL is post-norm here, and its two bias vectors
belong to each layer, as LTS counts them.

Inferred: that the 16-layer baselines have the sizes of Transformer-XL base on both backbones
and, as in the searches, embeddings divided by four from cluster to cluster. On LM1B the
released code gives every cluster its own output projection and the GPT-2 models a square one at
either end; here projections are tied and the square ones left out, none of which decoder
parameters see.
"""

from collections.abc import Sequence
from functools import partial

from formwright.arch import (
    Architecture,
    Attention,
    Decoder,
    Embedding,
    FeedForward,
    Frame,
    LanguageModel,
    Layer,
    Learned,
    RelativeXL,
    Residual,
    Stack,
)
from formwright.arch.style import WIKITEXT_CLUSTERS
from formwright.zoo.registry import Paper, published

LTS = Paper(
    "LiteTransformerSearch: Training-free Neural Architecture Search for Efficient Language Models",
    "https://arxiv.org/abs/2203.02094",
)

LM1B_CLUSTERS = (59_997, 99_997, 639_997)
WIKITEXT_WORDS, LM1B_WORDS = 267_735, 793_470
WORD_PIECES = 50_264  # GPT-2's 50,257, filled up to a multiple of eight
WIKITEXT_LENGTH, LM1B_LENGTH = 192, 32


def gpt2(
    width: int, heads: Sequence[int], inner: Sequence[int], embedding: Embedding, length: int
) -> Architecture:
    """A GPT-2 whose layers differ in heads and inner width."""
    layers: list[Layer] = []
    for head, size in zip(heads, inner, strict=True):
        layers += [Residual(Attention(head)), Residual(FeedForward(size, "gelu_tanh"))]
    backbone = Decoder(width, embedding, position=Learned(), init="gpt2")
    return Architecture(Stack(tuple(layers)), backbone, frame=_frame(WORD_PIECES, length))


def transformer_xl(
    width: int, heads: Sequence[int], inner: Sequence[int], embedding: Embedding, frame: Frame
) -> Architecture:
    """A Transformer-XL whose layers differ in heads and inner width."""
    layers: list[Layer] = []
    for head, size in zip(heads, inner, strict=True):
        layers += [
            Residual(Attention(head, bias=False), place="post"),
            Residual(FeedForward(size, "relu"), place="post"),
        ]
    position = RelativeXL(shared_bias=False)
    backbone = Decoder(width, embedding, position=position, norm=None, init="xl")
    return Architecture(Stack(tuple(layers)), backbone, frame=frame)


def _frame(vocab: int, length: int) -> Frame:
    return Frame(vocab=vocab, length=length, head=LanguageModel())


def _adaptive(clusters: tuple[int, ...], size: int | None = None, divide: int = 4) -> Embedding:
    return Embedding(size=size, clusters=clusters, divide=divide, bias=True, scale=True)


_lts = partial(published, system="LiteTransformerSearch", paper=LTS)
_WIDTH, _HEADS, _INNER = 512, (8,) * 16, (2048,) * 16
_BASELINE = "The 16-layer baseline. Inferred: sizes as in Transformer-XL base."
_WORDS = _frame(WIKITEXT_WORDS, WIKITEXT_LENGTH)


@_lts(
    "lite-transformer-xl-16-wikitext103",
    reported={"speedup_found_up_to": 2.5, "memory_saved_up_to": 2.0},
    note=_BASELINE,
)
def transformer_xl_wikitext() -> Architecture:
    return transformer_xl(_WIDTH, _HEADS, _INNER, _adaptive(WIKITEXT_CLUSTERS), _WORDS)


@_lts(
    "lite-transformer-xl-16-lm1b",
    reported={"speedup_found_up_to": 2.5, "memory_saved_up_to": 2.0},
    note=_BASELINE,
)
def transformer_xl_lm1b() -> Architecture:
    frame = _frame(LM1B_WORDS, LM1B_LENGTH)
    return transformer_xl(_WIDTH, _HEADS, _INNER, _adaptive(LM1B_CLUSTERS), frame)


@_lts(
    "lite-gpt2-16-wikitext103",
    reported={"speedup_found_up_to": 1.5, "memory_saved_up_to": 1.2},
    note=_BASELINE + " Word pieces leave two of the three cuts between clusters.",
)
def gpt2_wikitext() -> Architecture:
    embedding = _adaptive(WIKITEXT_CLUSTERS[:2])
    return gpt2(_WIDTH, _HEADS, _INNER, embedding, WIKITEXT_LENGTH)


@_lts(
    "lite-gpt2-16-lm1b",
    reported={"speedup_found_up_to": 1.5, "memory_saved_up_to": 1.2},
    note=_BASELINE + " All word pieces fall into the first cluster: a plain embedding.",
)
def gpt2_lm1b() -> Architecture:
    return gpt2(_WIDTH, _HEADS, _INNER, Embedding(bias=True, scale=True), LM1B_LENGTH)


@_lts(
    "lite-gpt2-random-0",
    params=8_505_006,
    reported={"decoder_params": 1_790_372, "attention": 330_240, "feedforward": 1_457_316},
    note="The first random GPT-2 on WikiText-103 of the released table (config_0_j0).",
)
def gpt2_random() -> Architecture:
    embedding = _adaptive(WIKITEXT_CLUSTERS[:2], size=256)
    return gpt2(128, (2, 4, 4, 8, 8), (1071, 640, 1286, 800, 1871), embedding, WIKITEXT_LENGTH)


@_lts(
    "lite-transformer-xl-random-0",
    params=41_443_618,
    reported={"decoder_params": 906_375, "attention": 103_040, "feedforward": 802_055},
    note="The first random Transformer-XL on WikiText-103 of the released table (config_0_j0).",
)
def transformer_xl_random() -> Architecture:
    embedding = _adaptive(WIKITEXT_CLUSTERS, size=512, divide=2)
    heads, inner = (4, 2, 2, 8, 8), (710, 1021, 1683, 1053, 1748)
    return transformer_xl(64, heads, inner, embedding, _frame(267_736, WIKITEXT_LENGTH))


@_lts(
    "lite-transformer-xl-two-layers",
    reported={"decoder_params": 5_187_008},
    note="A worked value of the decoder parameters. Inferred: 8 heads and the words of "
    "WikiText-103, neither of which changes it.",
)
def transformer_xl_two_layers() -> Architecture:
    return transformer_xl(512, (8, 8), (1216, 1280), _adaptive(WIKITEXT_CLUSTERS), _WORDS)
