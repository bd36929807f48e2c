"""Transformer-XL, sandwich and PAR: the same blocks in different orders.

Papers: Transformer-XL, https://arxiv.org/abs/1901.02860; sandwich Transformers,
https://arxiv.org/abs/1911.03864; PAR, https://arxiv.org/abs/2009.04534, which trained all three
side by side and whose setting this is (base: 32 blocks of 512, not the 410 of the original).

Inferred: the order of blocks of PAR Large, which the paper leaves out; the vocabulary of 204
symbols of the 24-block models (enwik8).
"""

from collections.abc import Callable, Mapping
from functools import partial

from formwright.arch import Architecture, Frame, LanguageModel, parse, style
from formwright.arch.style import WIKITEXT_FRAME, transformer_xl_large
from formwright.zoo.registry import Paper, published

XL = Paper(
    "Transformer-XL: Attentive Language Models Beyond a Fixed-Length Context",
    "https://arxiv.org/abs/1901.02860",
)
SANDWICH = Paper(
    "Improving Transformer Models by Reordering their Sublayers",
    "https://arxiv.org/abs/1911.03864",
)
PAR = Paper("Pay Attention when Required", "https://arxiv.org/abs/2009.04534")

SYSTEMS = {
    "transformer-xl": ("Transformer-XL", XL),
    "sandwich": ("sandwich", SANDWICH),
    "par": ("PAR", PAR),
}
LARGE_FRAME = WIKITEXT_FRAME.replace(length=384)
ENWIK8_FRAME = Frame(vocab=204, length=512, head=LanguageModel())


def base(layers: str) -> Architecture:
    """An order of blocks of 512 channels, on the words of WikiText-103."""
    return parse(layers).bind(WIKITEXT_FRAME)


def large(layers: str) -> Architecture:
    """An order of blocks of 1024 channels; rare words have smaller embeddings."""
    return parse(layers, defaults=transformer_xl_large()).bind(LARGE_FRAME)


def symbols(layers: str) -> Architecture:
    """An order of the base model's blocks, on the 204 symbols of enwik8."""
    return parse(layers, defaults=style("transformer_xl")).bind(ENWIK8_FRAME)


def _words(ppl: float, latency_ms: float, **more: float) -> dict[str, float | str]:
    return {"ppl_wikitext103": ppl, "latency_ms_a100": latency_ms, **more}


def _bytes(enwik8: float, text8: float, latency_ms: float) -> dict[str, float | str]:
    return {"bpc_enwik8": enwik8, "bpc_text8": text8, "latency_ms_a100": latency_ms}


# Size, order of blocks, figures as the PAR paper reports them, parameters.
Row = tuple[Callable[[str], Architecture], str, dict[str, float | str], int | None]
ORDERS: Mapping[str, Row] = {
    "transformer-xl-base": (base, "(sf)x16", _words(22.7, 15.2, gflops=27), 192_000_000),
    "sandwich-base": (base, "(s)x6(sf)x10(f)x6", _words(22.6, 15.2, gflops=27), 192_000_000),
    "par-base": (base, "(sfff)x6(f)x8", _words(22.7, 9.9, gflops=17), 200_000_000),
    "transformer-xl-large": (large, "(sf)x18", _words(18.4, 18.9), None),
    "sandwich-large": (large, "(s)x6(sf)x12(f)x6", _words(18.2, 18.9), None),
    "par-large": (large, "(sff)x8(f)x12", _words(18.4, 13.4), None),
    "transformer-xl-24b": (symbols, "(sf)x12", _bytes(1.10, 1.18, 12.5), 41_000_000),
    "sandwich-24b": (symbols, "(s)x6(sf)x6(f)x6", _bytes(1.11, 1.19, 12.5), None),
    "par-24b": (symbols, "(sff)x5(f)x9", _bytes(1.11, 1.18, 8.4), None),
}
_UNCOUNTED = "Figures from the PAR paper, which prints no parameter count for it."
_NOTES = {
    "transformer-xl-base": "Sizes and figures as in the PAR paper, not the 410 channels of the "
    "original.",
    "sandwich-base": "Figures from the PAR paper.",
    "transformer-xl-large": _UNCOUNTED,
    "sandwich-large": _UNCOUNTED,
    "par-large": "The paper does not print the order of blocks. This one is inferred from the "
    "latency and the rule that attention stays in the first two thirds.",
    "transformer-xl-24b": "Figures from the PAR paper, parameters from the Transformer-XL paper. "
    "The vocabulary is that of enwik8; text8 has 27 symbols.",
    "sandwich-24b": "Figures from the PAR paper. The vocabulary is that of enwik8.",
    "par-24b": "The vocabulary is that of enwik8; text8 has 27 symbols.",
}

for _name, (_size, _order, _reported, _params) in ORDERS.items():
    _system, _paper = SYSTEMS[_name.rpartition("-")[0]]
    published(
        _name,
        system=_system,
        paper=_paper,
        params=_params,
        reported=_reported,
        note=_NOTES.get(_name, ""),
    )(partial(_size, _order))

# Table 1 of the PAR paper: what is left of the quality with fewer and fewer attention blocks.
TABLE_1 = (
    ("f32", "(f)x32", 252.9),
    ("sfff1-f28", "(sfff)x1(f)x28", 31.5),
    ("sfff3-f20", "(sfff)x3(f)x20", 23.9),
    ("sfff4-f16", "(sfff)x4(f)x16", 23.4),
    ("sfff5-f12", "(sfff)x5(f)x12", 23.0),
    ("sff6-f14", "(sff)x6(f)x14", 22.9),
    ("sfff6-f8", "(sfff)x6(f)x8", 22.7),
    ("sff7-f11", "(sff)x7(f)x11", 22.7),
    ("sfff7-f4", "(sfff)x7(f)x4", 22.6),
    ("sf16", "(sf)x16", 22.7),
)
_SAME_AS = {"sfff6-f8": "The same as par-base.", "sf16": "The same as transformer-xl-base."}

for _row, _layers, _ppl in TABLE_1:
    published(
        f"par-table1-{_row}",
        system="PAR",
        paper=PAR,
        reported={"ppl_wikitext103": _ppl},
        note=_SAME_AS.get(_row, ""),
    )(partial(base, _layers))
