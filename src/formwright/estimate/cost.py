"""What an architecture costs, as values of a trial: counted, or measured on a target."""

import atexit
import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, ClassVar

from formwright.arch.architecture import Architecture
from formwright.arch.counting import count
from formwright.arch.layer import FeedForward
from formwright.cost import Meter, Target
from formwright.cost.machine import fingerprint
from formwright.cost.memory import MemoryMeter
from formwright.cost.profile import load_profile
from formwright.estimate.base import Estimator, Work
from formwright.files import write_atomically
from formwright.trial import Trial


@dataclass(frozen=True)
class Counted(Estimator):
    """Parameters and FLOPs, without building anything.

    Args:
        length: Tokens of the text that FLOPs are counted for; the longest when not given.
        past: Tokens remembered from before.
    """

    length: int | None = None
    past: int = 0

    light: ClassVar[bool] = True

    @classmethod
    def on(cls, target: Target | None) -> "Counted":
        """For a call on a target; for the longest text where there is none."""
        return cls() if target is None else cls(target.new_tokens, target.past)

    def __call__(self, work: Work) -> Mapping[str, float]:
        counts = count(work.arch, length=self.length, past=self.past)
        return {
            "params": float(counts.params),
            "decoder_params": float(counts.non_embedding),
            "flops": float(counts.flops),
        }


@dataclass(frozen=True)
class Measured(Estimator):
    """Latency on a target, paired with its reference; peak memory where asked for.

    A trial that continues another takes over what was measured then.

    Args:
        target: Where it will run.
        seconds: Longest time for one measurement.
        precision: Stop when the interval of the ratio is this narrow.
        memory: Also measure peak memory, in a process of its own.
    """

    target: Target
    seconds: float = 2.0
    precision: float = 0.02
    memory: bool = False

    def quiet(self, trial: Trial) -> bool:
        """Whether it will be measured, and not taken over."""
        return trial.continues is None

    def fits(self) -> bool:
        """Whether this machine and its runtime are those of the target."""
        return self.target.fingerprint in ("", fingerprint(self.target.runtime))

    def __call__(self, work: Work) -> Mapping[str, float]:
        known = _read(work.previous)
        values = known if known is not None else self._measured(work)
        work.folder.mkdir(parents=True, exist_ok=True)
        write_atomically(work.folder / _FILE, json.dumps(values).encode())
        return values

    def _measured(self, work: Work) -> dict[str, float]:
        found = meter_for(self.target).measure(
            work.arch, seconds=self.seconds, precision=self.precision
        )
        values = {
            "latency": found.ms,
            "latency_ratio": found.ratio,
            "latency_low": found.ms * found.low / found.ratio,
            "latency_high": found.ms * found.high / found.ratio,
        }
        if self.memory:
            values["memory"] = float(memory_for(self.target).measure(work.arch).peak_bytes)
        return values


@dataclass(frozen=True)
class Candidate(Estimator):
    """Decoder parameters counted; latency and memory predicted on rung 0, measured on rung 1.

    Args:
        profile: File of a profile of the space on the target.
        target: Where it will run.
        seconds: Longest time for one measurement.
    """

    profile: str
    target: Target
    seconds: float = 0.5
    free: bool = True  # so the record is written in batches; measured ones are few

    def quiet(self, trial: Trial) -> bool:
        """Whether it will be measured, and not predicted."""
        return trial.rung > 0

    def fits(self) -> bool:
        """Whether this machine and its runtime are those of the target."""
        return Measured(self.target).fits()

    def __call__(self, work: Work) -> Mapping[str, float]:
        params = float(count(work.arch).non_embedding)
        if work.trial.rung > 0:
            measured = Measured(self.target, seconds=self.seconds, memory=True)
            return {"decoder_params": params, **measured(work)}
        ms, low, high = known_profile(self.profile).latency(work.arch)
        return {
            "decoder_params": params,
            "latency": ms,
            "latency_low": low,
            "latency_high": high,
            "memory": memory_bytes(work.arch, self.target),
        }


known_profile = lru_cache(maxsize=2)(load_profile)


def memory_bytes(arch: Architecture, target: Target) -> float:
    """Weights and the widest moment of one run, by counting: what a search can afford.

    The widest moment is that of the layer with the largest stream or inner width, or of the
    output layer; real peaks are a little above it, and rank alike.
    """
    counts = count(arch, batch=target.batch, length=target.new_tokens, past=target.past)
    tokens = target.batch * target.new_tokens
    widest = max(
        (getattr(node, "inner", 0) for _, node in arch.walk() if isinstance(node, FeedForward)),
        default=0,
    )
    assert arch.frame is not None
    moment = tokens * max(2 * widest + arch.backbone.width, arch.frame.vocab)
    return 4.0 * (counts.params + moment)


_FILE = "cost.json"


def _read(folder: Path | None) -> dict[str, float] | None:
    """What an earlier stage measured; None where it cannot be read."""
    try:
        found = json.loads((folder / _FILE).read_bytes()) if folder is not None else None
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) else None


@lru_cache(maxsize=2)
def meter_for(target: Target) -> Any:
    """One meter per process and target: the reference is built once."""
    return Meter(target)


@lru_cache(maxsize=2)
def memory_for(target: Target) -> MemoryMeter:
    """The same for memory."""
    found = MemoryMeter(target)
    atexit.register(found.close)
    return found
