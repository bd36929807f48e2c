"""What several tests share."""

import socket
from collections.abc import Callable
from random import Random
from typing import Any

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from formwright.arch import Architecture, Match, Seq2Seq
from formwright.model import Model
from formwright.testing import random_architecture

ZOO_FAMILIES = {
    "gpt2": "(sf)x2 in gpt2(32) for frame(50, 24, lm)",
    "llama": "(sf)x2 where s=residual(attention(4, kv_heads=2, bias=false), norm=rmsnorm) "
    "in llama(32) for frame(50, 24, lm)",
    "bert": "(sf)x2 in bert(32) for frame(50, 24, mlm)",
    "transformer_xl": "(sfff)x2(f)x2 in transformer_xl(32) for frame(50, 24, lm)",
    "t5_decoder": "(sf)x2 in t5_decoder(32) for frame(50, 24, lm)",
    "lra": "(sf)x2 in lra(32) for frame(50, 24, classify(10, pool=cls, hidden=[64]))",
    "matcher": "(sf)x2 in lra(32) for frame(50, 24, match(2, hidden=[64, 32]))",
    "translator": "(sf)x2 | (smf)x2 in translator(32) for frame(50, 24, lm)",
    "nas_bert": "slf where s=residual(separable(3, units=2), place=post), l=linear(48), "
    "f=residual(feedforward(64), place=post) in encoder(32, embedding=embedding(size=16, "
    "norm=layernorm), position=learned, norm=none) for frame(50, 24, mlm)",
    "primer": "(sf)x2 where s=residual(attention(4, conv=3, query_key=solo, bias=false), "
    "norm=primernorm), f=residual(feedforward(64, squared_relu), place=after, norm=primernorm) "
    "in t5_decoder(32) for frame(50, 24, lm)",
}


def given_architecture(
    kind: str | None = None, examples: int = 200
) -> Callable[[Callable[[Architecture], None]], Callable[[], None]]:
    """Run a test on many random architectures, made so that hypothesis can shrink them."""

    def decorate(test: Callable[[Architecture], None]) -> Callable[[], None]:
        @settings(max_examples=examples, deadline=None)
        @given(st.randoms(use_true_random=False))
        def run(rng: Random) -> None:
            test(random_architecture(rng, kind))

        run.__name__, run.__doc__ = test.__name__, test.__doc__
        return run

    return decorate


def inputs_for(model: Model, batch: int = 2, length: int | None = None) -> dict[str, Any]:
    """Random arguments that a model of any kind accepts, on its own device."""
    arch = model.arch
    assert arch.frame is not None
    device = next(model.parameters()).device
    shape = (batch, length or arch.frame.length)

    def tokens() -> torch.Tensor:
        return torch.randint(arch.frame.vocab, shape).to(device)

    inputs = {"tokens": tokens()}
    if isinstance(arch.backbone, Seq2Seq):
        inputs["source"] = tokens()
    if isinstance(arch.frame.head, Match):
        inputs["other"] = tokens()
    return inputs


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])
