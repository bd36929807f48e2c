"""The laws of counting, causality and padding, over random architectures and every family."""

from itertools import pairwise

import pytest
import torch
from tests.helpers import ZOO_FAMILIES, given_architecture, inputs_for
from torch.utils.flop_counter import FlopCounterMode

from formwright.arch import Architecture, Decoder, Match, parse
from formwright.cost import count
from formwright.model import build
from formwright.ops import Past

every_family = pytest.mark.parametrize("text", ZOO_FAMILIES.values(), ids=ZOO_FAMILIES.keys())


def flops_by_torch(arch: Architecture, batch: int, length: int) -> int:
    """What torch's own counter sees; on the meta device it sees fused attention too."""
    model = build(arch, device="meta")
    with FlopCounterMode(display=False) as counter:
        model(**inputs_for(model, batch, length))
    return counter.get_total_flops()


def check_counts(arch: Architecture) -> None:
    model = build(arch, device="meta")
    counts = count(arch, batch=2, length=9)
    assert counts.params == sum(p.numel() for p in model.parameters())
    if not arch.backbone.embedding.clusters:  # there, work depends on the words of the text
        assert counts.flops == flops_by_torch(arch, batch=2, length=9)


def check_causal(arch: Architecture) -> None:
    model = build(arch, dtype=torch.float64).eval()
    if not isinstance(arch.backbone, Decoder):
        return
    tokens = inputs_for(model)["tokens"]
    edited = tokens.clone()
    edited[:, 7:] = (edited[:, 7:] + 1) % 20
    before, after = model.features(tokens)[0], model.features(edited)[0]
    torch.testing.assert_close(before[:, :7], after[:, :7], rtol=0, atol=1e-12)


def check_padding(arch: Architecture) -> None:
    model = build(arch, dtype=torch.float64).eval()
    inputs = inputs_for(model)
    masks = {"tokens": "mask", "source": "source_mask", "other": "other_mask"}
    edited = {name: value.clone() for name, value in inputs.items()}
    for name in list(inputs):
        mask = torch.ones_like(inputs[name], dtype=torch.bool)
        mask[1, 8:] = False
        edited[name][~mask] = (edited[name][~mask] + 3) % 20
        inputs[masks[name]] = edited[masks[name]] = mask
    before, after = model(**inputs), model(**edited)
    if before.dim() == 3:
        before, after = before[inputs["mask"]], after[inputs["mask"]]
    assert torch.isfinite(before).all()
    torch.testing.assert_close(before, after, rtol=0, atol=1e-12)


def check_piecewise(arch: Architecture) -> None:
    model = build(arch, dtype=torch.float64).eval()
    tokens = inputs_for(model)["tokens"]
    whole, past = model.features(tokens)[0], Past()
    cuts = (0, 5, 6, 7, tokens.shape[1])
    pieces = [model.features(tokens[:, a:b], past=past)[0] for a, b in pairwise(cuts)]
    torch.testing.assert_close(torch.cat(pieces, 1), whole, rtol=0, atol=1e-11)


@given_architecture(examples=500)
def test_counts_of_random_architectures_are_exact(arch: Architecture) -> None:
    check_counts(arch)


@given_architecture("decoder", examples=200)
def test_random_decoders_never_look_ahead(arch: Architecture) -> None:
    check_causal(arch)


@given_architecture(examples=300)
def test_padding_never_changes_real_tokens_of_random_architectures(arch: Architecture) -> None:
    check_padding(arch)


@given_architecture("decoder", examples=200)
def test_random_decoders_read_piece_by_piece_what_they_read_at_once(arch: Architecture) -> None:
    check_piecewise(arch)


@every_family
def test_counts_of_every_family_are_exact(text: str) -> None:
    check_counts(parse(text))


@every_family
def test_families_that_decode_never_look_ahead(text: str) -> None:
    check_causal(parse(text))


@every_family
def test_padding_never_changes_real_tokens(text: str) -> None:
    check_padding(parse(text))


def kept_by_torch(arch: Architecture) -> int:
    """Numbers that autograd keeps for the backward pass, each storage once, no parameters."""
    model = build(arch).train()
    parameters = {p.untyped_storage().data_ptr() for p in model.parameters()}
    kept: dict[int, torch.Tensor] = {}

    def pack(tensor: torch.Tensor) -> torch.Tensor:
        place = tensor.untyped_storage().data_ptr()
        if place not in parameters and tensor.is_floating_point():
            kept[place] = tensor
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        answer = model(**inputs_for(model))
    del answer
    return sum(t.untyped_storage().nbytes() // t.element_size() for t in kept.values())


@every_family
def test_activation_memory_is_what_autograd_keeps_within_five_percent(text: str) -> None:
    # Not exact by nature: which tables and expanded copies a kernel keeps is torch's choice.
    arch = parse(text)
    counted = count(arch, batch=2).total.kept
    assert counted == pytest.approx(kept_by_torch(arch), rel=0.05)


def test_a_match_head_counts_both_texts() -> None:
    arch = parse(ZOO_FAMILIES["matcher"])
    assert arch.frame is not None
    assert isinstance(arch.frame.head, Match)
    alone = arch.bind(arch.frame.replace(head=parse(ZOO_FAMILIES["bert"]).frame.head))  # type: ignore[union-attr]
    layers = [p.count.flops for p in count(arch).parts if p.name.startswith("layers[")]
    single = [p.count.flops for p in count(alone).parts if p.name.startswith("layers[")]
    assert layers == [2 * flops for flops in single]
