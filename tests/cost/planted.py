"""A machine whose times are known: each layer costs what a formula says, with some noise."""

import random
from dataclasses import dataclass, field

from formwright.arch import Architecture
from formwright.arch.attention import Attention
from formwright.arch.frame import Frame, LanguageModel
from formwright.arch.layer import FeedForward
from formwright.arch.style import style
from formwright.cost.meter import Latency
from formwright.cost.target import Target
from formwright.space import TreeSpace
from formwright.space.lts import lts_space

TARGET = Target(length=16)


def small_space() -> TreeSpace:
    """Two to six layers, 32 to 128 wide."""
    frame = Frame(vocab=500, length=16, head=LanguageModel())
    sizes = {"depth": (2, 6), "width": (32, 128, 32), "inner": (32, 512, 32)}
    return lts_space(style("gpt2"), frame, heads=(2, 4), name="small", **sizes)


def cost(arch: Architecture) -> float:
    """Milliseconds, written out: calls, weights of layers, and words times width."""
    width = arch.backbone.width
    total = 0.3 + 2e-5 * width * arch.frame.vocab  # type: ignore[union-attr]
    for _, node in arch.layers.walk():
        if isinstance(node, FeedForward):
            total += 0.05 + 1e-5 * width * node.inner
        elif isinstance(node, Attention):
            total += 0.1 + 0.02 * node.heads + 2e-5 * width * width
    return total


@dataclass
class FakeMeter:
    """Says what ``cost`` says, with noise, and remembers what it was asked."""

    noise: float = 0.0
    reference_ms: float = 2.0
    stops_after: int = 10**9
    asked: list[Architecture] = field(default_factory=list)

    def measure(self, arch: Architecture, *, seconds: float, precision: float) -> Latency:
        if len(self.asked) >= self.stops_after:
            raise KeyboardInterrupt
        self.asked.append(arch)
        rng = random.Random(len(self.asked))
        ratio = cost(arch) / self.reference_ms * (1 + self.noise * rng.gauss(0, 1))
        return Latency(ratio * self.reference_ms, ratio, ratio * 0.99, ratio * 1.01, rounds=20)


def members(number: int, seed: int) -> list[Architecture]:
    """Members of the small space at random."""
    rng, space = random.Random(seed), small_space()
    return [space.resolve(space.sample(rng)) for _ in range(number)]
