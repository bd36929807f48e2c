"""What a gradient search is: stepped, not asked."""

from abc import ABC, abstractmethod
from typing import Any

from formwright.arch import Architecture


class GradientStrategy(ABC):
    """Searches while a supernet trains; what it derives is stored as any trial is."""

    @abstractmethod
    def step(self, train_batch: Any, valid_batch: Any) -> dict[str, float]:
        """Update weights on one batch and the architecture on the other; give what to log.

        Either may be None, and is then left out.
        """

    @abstractmethod
    def derive(self) -> Architecture:
        """The single best architecture as things stand."""
