"""A model run from layer to layer: the same as the forward pass, to the bit."""

from random import Random
from typing import Any

import pytest
import torch
from tests.helpers import ZOO_FAMILIES, inputs_for
from tests.supernet.spaces import SPACES

from formwright.arch import parse
from formwright.errors import InputError
from formwright.model import Model, build
from formwright.ops import Past
from formwright.supernet import Supernet

XL = "(sf)x2 in transformer_xl(16) for frame(50, 24, lm)"


def pieces(model: Model, at: int, **inputs: Any) -> torch.Tensor:
    x, ctx = model.enter(**inputs)
    return model.answer(model.run(model.run(x, ctx, 0, at), ctx, at), ctx)


def padded(model: Model) -> dict[str, Any]:
    """Inputs of a model whose last tokens are not real."""
    inputs = inputs_for(model)
    for name in ("tokens", "source", "other"):
        if name in inputs:
            mask = torch.ones_like(inputs[name], dtype=torch.bool)
            mask[0, -3:] = False
            inputs["mask" if name == "tokens" else f"{name}_mask"] = mask
    return inputs


@pytest.mark.parametrize("text", ZOO_FAMILIES.values(), ids=ZOO_FAMILIES.keys())
def test_layers_in_two_goes_and_the_head_are_the_forward_pass(text: str) -> None:
    model = build(parse(text)).eval()
    count = len(model.arch.layers.layers)
    for inputs in (inputs_for(model), padded(model)):
        wanted = model(**inputs)
        for at in range(count + 1):
            assert torch.equal(pieces(model, at, **inputs), wanted)


@pytest.mark.parametrize("name", SPACES)
def test_supernets_run_from_layer_to_layer_as_well(name: str) -> None:
    space = SPACES[name]()
    supernet = Supernet(space).eval()
    inputs = inputs_for(supernet)
    with supernet.gated(space.sample(Random(1))):
        wanted = supernet(**inputs)
        for at in range(len(supernet.arch.layers.layers) + 1):
            assert torch.equal(pieces(supernet, at, **inputs), wanted)


def test_a_memory_is_moved_on_once() -> None:
    model = build(parse(XL)).eval()
    text = torch.randint(50, (2, 24))
    whole, apart = Past(8), Past(8)
    for part in text.split(6, dim=1):
        assert torch.equal(pieces(model, 3, tokens=part, past=apart), model(part, past=whole))
    assert apart.seen == whole.seen == 24


def test_hidden_states_are_what_each_layer_is_given() -> None:
    model = build(parse(ZOO_FAMILIES["bert"])).eval()
    seen: list[torch.Tensor] = []
    for layer in model.stacks["layers"].layers:
        layer.register_forward_pre_hook(lambda module, inputs: seen.append(inputs[0]))
    inputs = padded(model)
    states = model.hidden(*model.enter(**inputs))
    assert len(states) == len(seen) + 1
    assert all(map(torch.equal, states[:-1], seen))
    x, ctx = model.enter(**inputs)
    assert torch.equal(model.answer(states[-1], ctx), model(**inputs))
    del seen[:]
    chosen = model.hidden(x, ctx, layers=(2, 0))
    assert all(map(torch.equal, chosen, (states[2], states[0])))
    assert len(seen) == 2, "layers beyond the last one asked for are not run"


def test_an_encoder_has_hidden_states_of_its_own() -> None:
    model = build(parse(ZOO_FAMILIES["translator"])).eval()
    inputs = padded(model)
    x, ctx = model.read(inputs["source"], inputs["source_mask"])
    states = model.hidden(x, ctx)
    assert len(states) == len(model.arch.encoder.layers) + 1
    wanted = model.encode(inputs["source"], inputs["source_mask"])
    assert torch.equal(model.finish(states[-1], ctx), wanted)


@pytest.mark.parametrize("bounds", [(0, 5), (-1, 2), (3, 2)])
def test_layers_that_are_not_there_cannot_be_run(bounds: tuple[int, int]) -> None:
    model = build(parse(XL))
    x, ctx = model.enter(torch.zeros(1, 3, dtype=torch.long))
    with pytest.raises(InputError, match="there are 4"):
        model.run(x, ctx, *bounds)
