"""Writing text with a decoder, one token at a time, from what it remembers."""

import torch
from torch import Tensor

from formwright.arch.architecture import Decoder
from formwright.errors import InputError
from formwright.model.model import Model
from formwright.ops.past import Past


@torch.no_grad()
def generate(
    model: Model,
    tokens: Tensor,
    length: int,
    *,
    temperature: float = 1.0,
    generator: torch.Generator | None = None,
    end: int | None = None,
) -> Tensor:
    """Continue ``tokens`` (b, n) by ``length`` more; temperature 0 takes the likeliest.

    It stops early once every row has written ``end``.

    >>> from formwright import build, parse
    >>> model = build(parse("sf in gpt2(16) for frame(8, 8, lm)")).eval()
    >>> generate(model, torch.tensor([[1, 2]]), 3, temperature=0).shape
    torch.Size([1, 5])
    """
    if not isinstance(model.arch.backbone, Decoder):
        raise InputError("Only a decoder can continue a text; this model is not one.")
    past, new = Past(), tokens
    done = torch.zeros_like(tokens[:, :1], dtype=torch.bool)
    for _ in range(length):
        scores = model(new, past=past)[:, -1]
        if temperature == 0:
            new = scores.argmax(dim=-1, keepdim=True)
        else:
            chances = (scores / temperature).softmax(dim=-1)
            new = torch.multinomial(chances, 1, generator=generator)
        tokens = torch.cat((tokens, new), dim=1)
        if end is not None:
            done |= new == end
            if bool(done.all()):
                break
    return tokens
