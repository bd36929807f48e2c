"""How a supernet is searched: every number beyond those of its training."""

from dataclasses import asdict, dataclass
from typing import Any, Literal

from formwright.errors import InputError


@dataclass(frozen=True, kw_only=True)
class SearchConfig:
    """When the architecture is updated, and how fast.

    Each step reads one batch, or as many as its training accumulates. In the first ``warmup``
    steps only weights learn. After that every ``every``-th batch goes to the architecture and the
    others to the weights (PAR: 5, a fifth); 0 leaves the architecture alone. With ``joint`` each
    batch teaches both (Finding Fast Transformers), or with ``pause`` only the first of so many and
    one more: gates change slowly, and their gradient may cost as much as that of the weights.
    Where an update takes several draws, with ``share`` each reads its share of the batch, so that
    many cost as much as one. With ``held`` that share of the training data is kept from the weights
    and is all that the architecture learns from; with ``joint`` there is nothing to hold.
    """

    warmup: int = 0
    every: int = 5
    joint: bool = False
    pause: int = 0  # joint: batches that teach only weights, after each that teaches both
    share: bool = False  # draws of one update read parts of the batch instead of all of it
    lr: float = 1e-2  # of the architecture
    optimiser: Literal["adam", "sgd"] | None = None  # None: the one that suits the policy
    weight_decay: float = 0.0
    betas: tuple[float, float] = (0.9, 0.999)  # of adam
    held: float = 0.0  # share of the training data that only the architecture sees
    stable: int = 0  # stop after so many architecture updates that changed no choice; 0: never

    def __post_init__(self) -> None:
        for name in ("warmup", "every", "pause", "stable"):
            if getattr(self, name) < 0:
                raise InputError(f"{name}={getattr(self, name)} must be at least 0.")
        if self.optimiser not in (None, "adam", "sgd"):
            raise InputError(
                f"optimiser={self.optimiser!r} cannot move an architecture; use adam or sgd, or "
                "leave it out for the one that suits the policy."
            )
        if not 0 <= self.held < 1:
            raise InputError(f"held={self.held} must be a share below 1.")
        if self.lr <= 0:
            raise InputError(f"lr={self.lr} must be above 0.")

    def teaches(self, step: int) -> tuple[bool, bool]:
        """Whether the batch of a step teaches the weights, and whether the architecture."""
        if step < self.warmup:
            return True, False
        if self.joint:
            return True, (step - self.warmup) % (self.pause + 1) == 0
        turn = self.every > 0 and (step - self.warmup) % self.every == self.every - 1
        return not turn, turn

    def turns(self, step: int) -> int:
        """How many earlier steps taught the architecture alone."""
        if self.joint or not self.every:
            return 0
        return max(0, step - self.warmup) // self.every

    def to_data(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return {**asdict(self), "betas": list(self.betas)}
