"""A machine whose clock is simulated: it drifts, jitters and is interrupted."""

import math
import random
from collections.abc import Callable


class NoisyMachine:
    """Functions that take simulated time.

    Args:
        seed: Of the noise.
        jitter: Relative spread of every call.
        spikes: Share of calls in which something else runs, half a call long on average.
        drift: Relative step of the machine's speed per call, which wanders.
    """

    def __init__(
        self, seed: int, jitter: float = 0.03, spikes: float = 0.1, drift: float = 0.01
    ) -> None:
        self.now, self.speed, self.calls = 0.0, 1.0, 0
        self._rng = random.Random(seed)
        self._jitter, self._spikes, self._drift = jitter, spikes, drift

    def clock(self) -> float:
        """Simulated seconds."""
        return self.now

    def taking(self, milliseconds: float, first: float = 1.0) -> Callable[[], None]:
        """A function of that length; its first call takes ``first`` times as long."""
        left = [first]

        def run() -> None:
            rng = self._rng
            self.calls += 1
            wander = rng.gauss(0, self._drift)
            self.speed = min(3.0, max(0.5, self.speed * math.exp(wander)))
            seconds = milliseconds / 1e3 * self.speed * math.exp(rng.gauss(0, self._jitter))
            if rng.random() < self._spikes:
                seconds += rng.expovariate(2e3 / milliseconds)
            self.now += seconds * left[0]
            left[0] = 1.0

        return run
