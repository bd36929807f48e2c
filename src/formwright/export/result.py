"""What an export came to, as data and in words."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Result:
    """What was written, and what was found out while checking it.

    Args:
        out: The folder.
        format: ``onnx``, ``hf``, ...
        difference: The largest difference between the answers of the file and of the model.
        latency: Milliseconds of one text before and after, their ratio with its interval, and of
            which length; None where it was not measured.
        quality: The metric on the task's validation rows, in fp32 and int8; or why not.
        notes: What else a user should know, a sentence each.
    """

    out: Path
    format: str
    difference: float
    latency: dict[str, Any] | None = None
    quality: dict[str, Any] | None = None
    notes: list[str] = field(default_factory=list)

    def data(self) -> dict[str, Any]:
        """As plain JSON."""
        return {**vars(self), "out": str(self.out), "files": self.files}

    @property
    def files(self) -> list[str]:
        """What the folder holds."""
        return sorted(path.name for path in self.out.iterdir())

    def words(self) -> list[str]:
        """A sentence for each thing that is known."""
        found = [
            f"written to {self.out}: {', '.join(self.files)}",
            f"largest difference to the model: {self.difference:.2g}",
        ]
        if self.latency is not None:
            known = self.latency
            found.append(
                f"one text of {known['length']} tokens: {known['before_ms']:.3g} ms in torch, "
                f"{known['after_ms']:.3g} ms exported (ratio {known['ratio']:.3f}, "
                f"{known['low']:.3f}-{known['high']:.3f})"
            )
        if self.quality is not None:
            found.append(_cost(self.quality))
        return found + [f"note: {note}" for note in self.notes]


def _cost(known: dict[str, Any]) -> str:
    """What int8 costs, in words."""
    if "unknown" in known:
        return f"what int8 costs could not be measured: {known['unknown']}"
    rows = f"validation rows (at most {known['most']:,}, one at a time)"
    return f"{known['metric']} on {rows}: {known['fp32']:.4f} in fp32, {known['int8']:.4f} in int8"
