"""Models to be timed, made in milliseconds: their weights are whatever was already there.

Drawing a hundred million initial weights takes a second, writing them a quarter of one, and
neither changes how long a pass takes. So a model is laid out on the meta device and its weights
are cut from an arena of memory that was written once and serves one model after the other. The
arena holds real, small, non-zero numbers: pages never written would all be one page of zeros
that sits in the cache, and numbers that die out or overflow would change the speed.
"""

import math

import torch
from torch import Tensor

from formwright.arch import Architecture
from formwright.model import Model

_CHUNK = 1 << 24  # numbers taken from the system at once
_ALIGN = 64  # numbers; tensors begin at whole cache lines as torch's own do
_PATTERN = (1 << 16) + 1  # numbers before it repeats; odd, so that rows of a matrix differ
_STD = 0.02  # as initial weights


class Arena:
    """Memory for the weights of one model at a time.

    Args:
        dtype: Of the weights.
        chunk: Numbers taken from the system at once; with 1, each tensor gets its own memory and
            nothing is held in reserve.
    """

    def __init__(self, dtype: torch.dtype = torch.float32, chunk: int = _CHUNK) -> None:
        self.dtype, self.chunk = dtype, chunk
        self._chunks: list[Tensor] = []
        self._chunk, self._used = 0, 0

    def reset(self) -> None:
        """Give the memory to the next model; the one before must not be used any more."""
        self._chunk, self._used = 0, 0

    def take(self, shape: torch.Size) -> Tensor:
        """A tensor of small random numbers."""
        numbers = math.prod(shape)
        while self._chunk < len(self._chunks):
            chunk = self._chunks[self._chunk]
            if self._used + numbers <= len(chunk):
                start = self._used
                self._used += -(-numbers // _ALIGN) * _ALIGN
                return chunk[start : start + numbers].view(shape)
            self._chunk, self._used = self._chunk + 1, 0
        self._chunks.append(_written(max(numbers, self.chunk), self.dtype))
        self._chunk, self._used = len(self._chunks) - 1, 0
        return self.take(shape)


def _written(numbers: int, dtype: torch.dtype) -> Tensor:
    generator = torch.Generator().manual_seed(0)
    pattern = torch.empty(_PATTERN).normal_(0.0, _STD, generator=generator).to(dtype)
    whole = torch.empty(numbers, dtype=dtype)
    rows = numbers // _PATTERN
    whole[: rows * _PATTERN].view(rows, _PATTERN).copy_(pattern.expand(rows, -1))
    rest = numbers - rows * _PATTERN
    whole[numbers - rest :] = pattern[:rest]
    return whole


def blank_model(arch: Architecture, arena: Arena | None = None) -> Model:
    """A model with meaningless weights, ready to be run and timed."""
    arena = arena or Arena()
    with torch.device("meta"):
        model = Model(arch)
    state = {name: arena.take(tensor.shape) for name, tensor in model.state_dict().items()}
    model.load_state_dict(state, assign=True)
    return model.eval().requires_grad_(False)
