"""The open space holds what people write by hand today, fits the task, and can all be built."""

from random import Random
from typing import Any

import pytest
import torch

from formwright.arch import Architecture, parse, style
from formwright.arch.attention import Attention
from formwright.arch.conv import Convolution
from formwright.arch.frame import Classify, Frame, LanguageModel
from formwright.arch.layer import FeedForward, Norm
from formwright.arch.mechanism import Local
from formwright.model import build
from formwright.space import space_for
from formwright.space.rich import ACTIVATIONS, BYTES, KERNELS, around, open_space
from formwright.space.tree import TreeSpace

FAMILIES = ("gpt2", "lra", "bert", "translator")


def members(space: TreeSpace, number: int = 40) -> list[Architecture]:
    rng = Random(0)
    return [space.resolve(space.sample(rng)) for _ in range(number)]


def layers_of(arch: Architecture, kind: type[Any]) -> list[Any]:
    return [
        layer
        for _, stack, _ in arch.stacks()
        for _, layer in stack.walk()
        if isinstance(layer, kind)
    ]


@pytest.mark.parametrize(
    "text",
    [
        "(sf)x4 in llama(128)",
        "csfcsf in llama(128)",
        "cc in llama(64)",
        "(sf)x6 in llama(64)",
        "(csf)x4 in llama(128)",
    ],
)
def test_what_is_written_by_hand_today_is_a_member_for_language_models(text: str) -> None:
    space = space_for("open", frame=BYTES, family=style("gpt2", 128), width=128)
    arch = parse(text).bind(BYTES)
    assert isinstance(space, TreeSpace)
    found = space.decisions_of(arch)
    assert found is not None
    assert space.resolve(found) == arch
    assert space.contains(arch)


def test_a_present_day_encoder_is_a_member_for_classification_also_of_pairs() -> None:
    frame = Frame(vocab=500, length=64, head=Classify(3))
    for segments in (0, 2):
        family = style("lra", 128)
        given = family.backbone.embedding.replace(segments=segments)
        backbone = family.backbone.replace(embedding=given)
        space = open_space(type(family)(backbone, family.letters), frame, 128)
        arch = parse("(sf)x2 in llama_encoder(128)").bind(frame)
        arch = arch.replace(backbone=arch.backbone.replace(embedding=given))
        assert space.contains(arch)


def test_a_present_day_translator_is_a_member() -> None:
    space = open_space(style("translator", 128), width=128)
    assert space.contains(parse("(sf)x2 | (smf)x2 in llama_translator(128)").bind(BYTES))


def test_what_is_not_open_is_no_member() -> None:
    space = open_space()
    for text in ("(sf)x7 in llama(128)", "sf in llama(512)", "sf in llama(128, inner=40)"):
        assert not space.contains(parse(text).bind(BYTES))


@pytest.mark.parametrize("family", FAMILIES)
def test_every_member_can_be_built_and_run(family: str) -> None:
    frame = Frame(vocab=11, length=20, head=LanguageModel())
    space = open_space(style(family, 32), frame, (32, 64, 32), (2, 5))
    tokens = torch.randint(0, 11, (2, 20))
    inputs = {"source": tokens} if family == "translator" else {}
    for arch in members(space, 25):
        answer = build(arch.check()).eval()(tokens, **inputs)
        assert torch.isfinite(answer).all()


@pytest.mark.parametrize("length", [1, 3, 8, 20, 256, 4000])
def test_windows_and_kernels_fit_the_length(length: int) -> None:
    space = open_space(frame=BYTES.replace(length=length))
    drawn = members(space)
    for arch in drawn:
        for attention in layers_of(arch, Attention):
            if isinstance(attention.kind, Local):
                assert attention.kind.block in (length // 8, length // 4)
        assert all(c.kernel <= max(3, length) for c in layers_of(arch, Convolution))
    kernels = {c.kernel for arch in drawn for c in layers_of(arch, Convolution)}
    assert kernels == {k for k in KERNELS if k <= max(3, length)}


@pytest.mark.parametrize("family", FAMILIES)
def test_the_style_is_one_for_all_layers(family: str) -> None:
    for arch in members(open_space(style(family, 128))):
        feeds, attentions = layers_of(arch, FeedForward), layers_of(arch, Attention)
        assert len({(feed.activation, feed.gate, feed.bias) for feed in feeds}) <= 1
        assert len({layer.bias for layer in (*feeds, *attentions)}) <= 1
        assert set(layers_of(arch, Norm)) == {arch.backbone.norm}
        looking = [a for a in attentions if a.over == "self"]
        assert len({a.conv for a in looking}) <= 1
        assert len({a.kv_heads is None for a in looking}) <= 1


def test_heads_that_share_keys_and_values_are_half_or_a_quarter_of_all() -> None:
    seen = set()
    for arch in members(open_space(), 200):
        for attention in layers_of(arch, Attention):
            assert attention.heads % attention.groups == 0
            assert arch.backbone.width % attention.heads == 0
            seen.add((attention.heads, attention.groups))
    assert seen == {(2, 2), (2, 1), (4, 4), (4, 2), (4, 1), (8, 8), (8, 4), (8, 2)}


def test_everything_that_is_promised_is_drawn() -> None:
    drawn = members(open_space(), 400)
    assert {a.backbone.position and a.backbone.position.NAME for a in drawn} == {
        "rotary",
        "learned",
        "t5",
        None,
    }
    feeds = {(f.activation, f.gate) for a in drawn for f in layers_of(a, FeedForward)}
    assert feeds == {(activation, gate) for activation in ACTIVATIONS for gate in (False, True)}
    assert {len(a.layers.layers) for a in drawn} == set(range(2, 13))
    assert {a.backbone.width for a in drawn} == set(range(64, 193, 32))


def test_a_width_is_reached_around_by_one_rule() -> None:
    assert around(128) == (64, 192, 32)
    assert [around(w) for w in (1, 64, 100, 512)] == [
        (32, 64, 32),
        (32, 96, 32),
        (32, 128, 32),
        (256, 768, 32),
    ]
    assert open_space().declared == open_space(width=128).declared
    assert open_space(width=128).declared == open_space(width=around(128)).declared
