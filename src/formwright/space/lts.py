"""The spaces of LiteTransformerSearch: depth and width for all, heads and inner width per layer.

Paper: Javaheripi et al. 2022, https://arxiv.org/abs/2203.02094
Differs from the paper: a member holds the layers it has, not the longest gene with a tail that
does not count, so two members are never the same model.
"""

from formwright.arch.architecture import Architecture
from formwright.arch.attention import Attention
from formwright.arch.frame import Frame, LanguageModel
from formwright.arch.layer import FeedForward, Residual
from formwright.arch.position import RelativeXL
from formwright.arch.style import WIKITEXT_CLUSTERS, WIKITEXT_FRAME, Style, style
from formwright.space.choice import OneOf, Repeat, Span, stack_of
from formwright.space.limit import Limit
from formwright.space.registry import published_space
from formwright.space.tree import TreeSpace

PAPER = "https://arxiv.org/abs/2203.02094"
GPT2_FRAME = Frame(vocab=50_257, length=192, head=LanguageModel())


@published_space("lts-gpt2", PAPER)
def lts_gpt2(frame: Frame = GPT2_FRAME) -> TreeSpace:
    """LiteTransformerSearch on GPT-2: 2 to 15 layers, width 128 to 960."""
    return _lts("lts-gpt2", style("gpt2"), frame, deepest=15, least=6e6)


@published_space("lts-xl", PAPER)
def lts_xl(frame: Frame = WIKITEXT_FRAME) -> TreeSpace:
    """LiteTransformerSearch on Transformer-XL: 2 to 16 layers, width 128 to 960."""
    base = style("transformer_xl")
    embedding = base.backbone.embedding
    if frame == WIKITEXT_FRAME:  # other vocabularies are too small to be cut
        embedding = embedding.replace(clusters=WIKITEXT_CLUSTERS, divide=4)
    # every layer owns its bias vectors: layers of different heads could not share them
    backbone = base.backbone.replace(embedding=embedding, position=RelativeXL(shared_bias=False))
    letters = {
        letter: layer.replace(place="post") if isinstance(layer, Residual) else layer
        for letter, layer in base.letters.items()
    }
    return _lts("lts-xl", Style(backbone, letters), frame, deepest=16, least=4e6)


def lts_space(
    family: Style,
    frame: Frame,
    *,
    depth: tuple[int, int],
    width: tuple[int, int, int],
    inner: tuple[int, int, int],
    heads: tuple[int, ...] = (2, 4, 8),
    name: str = "lts",
) -> TreeSpace:
    """The same space with ranges of one's own, for small studies: (low, high, step)."""
    attention, feedforward = family.letters["s"], family.letters["f"]
    assert isinstance(attention, Residual)
    assert isinstance(feedforward, Residual)
    assert isinstance(attention.inner, Attention)
    assert isinstance(feedforward.inner, FeedForward)
    low, high, step = inner
    widest = Span("inner", low, high, step, above=1.7, of="width")
    unit = (
        attention.replace(inner=attention.inner.replace(heads=OneOf("heads", heads))),
        feedforward.replace(inner=feedforward.inner.replace(inner=widest)),
    )
    layers = stack_of(Repeat("depth", unit, *depth))
    backbone = family.backbone.replace(width=Span("width", *width))
    return TreeSpace(Architecture(layers, backbone, frame=frame), name=name)


def _lts(name: str, family: Style, frame: Frame, *, deepest: int, least: float) -> TreeSpace:
    ranges = lts_space(
        family, frame, depth=(2, deepest), width=(128, 960, 64), inner=(128, 4032, 64), name=name
    )
    return ranges.limited(Limit("decoder_params", least, 100e6))
