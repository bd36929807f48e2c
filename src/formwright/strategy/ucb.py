"""Upper confidence bounds: what did well on average, and what was hardly tried yet.

u_i = mean_i + alpha sqrt(2 log N / N_i), as in OP-NAS of AutoBERT-Zero, Gao et al. 2022,
https://arxiv.org/abs/2107.07445, after Auer et al. 2002. Differs from the paper, which does not say
how scores are scaled: they are spread over 0 to 1, best is 1, so that alpha means the same for any
metric.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Arm:
    """One thing that can be chosen.

    Args:
        uses: How often it was.
        mean: The mean score of where it was.
    """

    uses: int = 0
    mean: float = 0.0

    def bound(self, total: int, alpha: float) -> float:
        """Its upper confidence bound; endless where it was never tried."""
        if not self.uses:
            return math.inf
        return self.mean + alpha * math.sqrt(2 * math.log(max(1, total)) / self.uses)


def arms(names: Iterable[str], seen: Sequence[tuple[float, Iterable[str]]]) -> dict[str, Arm]:
    """What is known of each name.

    Args:
        names: All there are.
        seen: Cost of each member (smaller is better), and the names it uses.
    """
    costs = [cost for cost, _ in seen]
    low, high = (min(costs), max(costs)) if costs else (0.0, 0.0)
    scores: dict[str, list[float]] = {name: [] for name in names}
    for cost, used in seen:
        score = (high - cost) / (high - low) if high > low else 1.0
        for name in used:
            scores[name].append(score)
    return {name: Arm(len(s), sum(s) / len(s) if s else 0.0) for name, s in scores.items()}


def bounds(known: Mapping[str, Arm], alpha: float) -> dict[str, float]:
    """The upper confidence bound of each."""
    total = sum(arm.uses for arm in known.values())
    return {name: arm.bound(total, alpha) for name, arm in known.items()}
