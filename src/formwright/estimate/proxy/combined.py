"""A learned combination of proxies: what a few trained models say about all the others."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from formwright.arch import Architecture
from formwright.errors import InputError
from formwright.estimate.base import Estimator, Work
from formwright.estimate.proxy.base import Proxies
from formwright.statistics import Ridge

_FEWEST = 6


@dataclass(frozen=True)
class Combined(Estimator):
    """A weighted sum of proxies, less their means; larger is better.

    Args:
        proxies: What is summed.
        means: One for each; made by ``fit``.
        weights: The same.
    """

    proxies: Proxies
    means: tuple[float, ...]
    weights: tuple[float, ...]

    @classmethod
    def fit(
        cls, proxies: Proxies, archs: Sequence[Architecture], quality: Sequence[float]
    ) -> "Combined":
        """Learn the weights from models that were trained; larger quality is better.

        Ranks are fitted, not values, since only the order matters, by ridge regression.
        """
        if len(archs) < _FEWEST or len(archs) != len(quality):
            raise InputError(
                f"{len(archs)} architectures and {len(quality)} results were given; a combination "
                f"is learnt from at least {_FEWEST} of each."
            )
        rows = _squashed(np.array([list(proxies.scores(arch).values()) for arch in archs]))
        order = np.argsort(np.argsort(np.asarray(quality))).astype(float)
        fit = Ridge(rows, order[:, None] / len(order))
        weights = fit.scale * (fit.basis.T @ fit.weights[:, 0])
        return cls(proxies, *(tuple(map(float, part)) for part in (fit.center, weights)))

    def __call__(self, work: Work) -> Mapping[str, float]:
        return {"combined": self.score(work.arch, work.seed)}

    def score(self, arch: Architecture, seed: int = 0) -> float:
        """The combined score of one architecture."""
        row = _squashed(np.array(list(self.proxies.scores(arch, seed).values())))
        return float((row - self.means) @ np.array(self.weights))


def _squashed(rows: "np.ndarray") -> "np.ndarray":
    """Counts range over decades: their logarithm is what adds up."""
    return np.sign(rows) * np.log1p(np.abs(rows))
