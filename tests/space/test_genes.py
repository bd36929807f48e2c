"""Genes of the three published spaces, drawn and mutated: all build, train and keep the laws."""

from random import Random

import pytest

from formwright.arch import Architecture, Attention, Decoder, Seq2Seq, Stack
from formwright.arch.frame import Embedding, Frame, LanguageModel, MaskedLM
from formwright.arch.graph.formulas import standard
from formwright.arch.layer import Residual
from formwright.arch.style import Style, style
from formwright.space import Space, named_space
from formwright.testing.genes import Examined, examine

TEXT, HIDDEN = Frame(12, 16, LanguageModel()), Frame(12, 16, MaskedLM())
PLAIN = Style(Decoder(16, Embedding(scale=True), init="t5"), {})
PAIRS = Style(Seq2Seq(16, Embedding(scale=True), init="fan"), {})
SPACES = {
    "primer": lambda: named_space("primer", family=PLAIN, frame=TEXT, layers=1),
    "evolved": lambda: named_space("evolved", family=PAIRS, frame=TEXT),
    "evolved-lm": lambda: named_space("evolved", family=PLAIN, frame=TEXT),
    "autobert-zero": lambda: named_space(
        "autobert-zero", family=style("bert", 16, heads=4), frame=HIDDEN, layers=2
    ),
}
GENES = {"primer": 30, "evolved": 14, "evolved-lm": 16, "autobert-zero": 30}


def shortened(arch: Architecture) -> Architecture:
    """The same with one cell in each stack: the others are alike."""
    encoder = arch.encoder and Stack(arch.encoder.layers[:1])
    return arch.replace(layers=Stack(arch.layers.layers[:1]), encoder=encoder)


def genes(space: Space, count: int) -> list[Architecture]:
    """Half drawn, half changed from one drawn before."""
    rng, found = Random(0), [space.draw(Random(1))]
    while len(found) < count:
        found.append(space.draw(rng) if len(found) % 2 else space.change(rng.choice(found), rng))
    return [space.resolve(decisions) for decisions in found]


@pytest.mark.parametrize("name", SPACES)
def test_every_gene_builds_trains_and_keeps_the_laws(name: str) -> None:
    found = []
    cut = shortened if name.startswith("evolved") else lambda arch: arch
    for seed, arch in enumerate(genes(SPACES[name](), GENES[name])):
        found.append(examine(cut(arch), seed=seed))
        assert found[-1].sound, f"gene {seed}: {found[-1]}"
    assert sum(one.finite for one in found) > len(found) // 2


def test_who_looks_ahead_or_sees_padding_is_found_out() -> None:
    assert Examined(finite=True, causal=True, blind=True).sound
    assert not Examined(finite=True, causal=False, blind=True).sound
    assert not Examined(finite=True, causal=True, blind=False).sound
    assert Examined(finite=False, causal=False, blind=False).sound


@pytest.mark.parametrize("layer", [Attention(4), standard(4)])
def test_what_is_known_to_be_good_passes(layer: Attention) -> None:
    arch = Architecture(Stack((Residual(layer),)), Decoder(16), frame=TEXT)
    assert examine(arch) == Examined(finite=True, causal=True, blind=True)
