"""A space's latencies on a target: measured samples, a table, a predictor, and a check of both.

    load_profile("phone.json").latency(arch)

A profile is one JSON file, made by ``formwright profile`` (see ``cost.profiling``) and used
anywhere, also where nothing can be measured.
"""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from formwright.arch.architecture import Architecture
from formwright.arch.codec import from_data, to_data
from formwright.cost.features import COLUMNS, Array, features
from formwright.cost.predictor import Prediction, Predictor
from formwright.cost.quality import Quality
from formwright.cost.table import Table
from formwright.cost.target import Target
from formwright.errors import FormatError, InputError, SpecError, StorageError
from formwright.files import read_json, write_atomically

PROFILE_VERSION = 1  # raised on any change that an older reader could not load
_LARGEST = 200_000_000  # bytes of a profile


@dataclass(frozen=True)
class Sample:
    """A measured member, and what it was for.

    Attributes:
        arch: The member.
        ratio: Its time over the reference's, the best of what was measured.
        width: Of the interval of a single measurement, relative to the ratio.
        times: How often it was measured.
        role: "train" or "check".
    """

    arch: Architecture
    ratio: float
    width: float
    times: int
    role: str


@dataclass(frozen=True)
class Profile:
    """What is known of a space's latencies on a target.

    Attributes:
        space: Its name.
        target: Where it was measured.
        reference_ms: What the target's reference takes: milliseconds are ratios times this.
        samples: Measured members.
        table: What single layers take; None where none was asked for.
        predictor: Learned from the samples.
        check: How good predictor, table, FLOPs and parameters are on members they never saw.
    """

    space: str
    target: Target
    reference_ms: float
    samples: tuple[Sample, ...]
    table: Table | None
    predictor: Predictor
    check: dict[str, Quality]

    def latency(self, arch: Architecture) -> tuple[float, float, float]:
        """Milliseconds of one run, with its 90 % interval."""
        found = self.latency_many([arch])
        return float(found.mean[0]), float(found.low[0]), float(found.high[0])

    def latency_many(self, archs: Sequence[Architecture]) -> Prediction:
        """The same of many, much faster together than one by one."""
        found = self.predictor.predict(features(archs, self.target))
        return Prediction(*(part * self.reference_ms for part in found))

    def table_ms(self, archs: Sequence[Architecture]) -> Array:
        """Milliseconds by the table: the sum of what the layers take."""
        if self.table is None:
            raise InputError("This profile has no table; make it again with one.")
        return self.table.estimate(archs) * self.reference_ms

    def to_data(self) -> dict[str, Any]:
        """Plain numbers, lists and words."""
        return {
            "formwright_profile": PROFILE_VERSION,
            "space": self.space,
            "target": asdict(self.target),
            "reference_ms": self.reference_ms,
            "check": {name: asdict(found) for name, found in self.check.items()},
            "predictor": self.predictor.to_data(),
            "table": self.table.to_data() if self.table else None,
            "samples": [[s.role, s.ratio, s.width, s.times, to_data(s.arch)] for s in self.samples],
        }

    @classmethod
    def from_data(cls, data: Any) -> "Profile":
        """The inverse of ``to_data``; anything else raises ``FormatError``."""
        if not isinstance(data, dict) or "formwright_profile" not in data:
            raise FormatError('This is not a profile: the key "formwright_profile" is missing.')
        version = data["formwright_profile"]
        if version != PROFILE_VERSION:
            raise FormatError(
                f"This profile is of version {version!r}; this program reads {PROFILE_VERSION}."
            )
        try:
            target = Target(**data["target"])
            stored = data["table"]
            return cls(
                space=str(data["space"]),
                target=target,
                reference_ms=_positive(data["reference_ms"]),
                samples=tuple(_sample(found) for found in data["samples"]),
                table=None if stored is None else Table.from_data(stored, target),
                predictor=_fitting(Predictor.from_data(data["predictor"])),
                check={str(k): Quality(**v) for k, v in data["check"].items()},
            )
        except (KeyError, TypeError, ValueError, AttributeError, InputError) as error:
            raise FormatError(f"This profile is damaged: {error}.") from None


def _positive(value: Any) -> float:
    number = float(value)
    if not 0 < number < 1e12:
        raise ValueError(f"{value} is no time")
    return number


def _fitting(predictor: Predictor) -> Predictor:
    if predictor.columns != COLUMNS:
        raise ValueError("its predictor reads other terms than this program makes")
    return predictor


def _sample(data: list[Any]) -> Sample:
    role, ratio, width, times, stored = data
    arch = from_data(stored, "arch")
    if not isinstance(arch, Architecture):
        raise ValueError("a sample is no architecture")
    return Sample(arch.check(), _positive(ratio), float(width), int(times), str(role))


def load_profile(path: str | Path) -> Profile:
    """Read a profile; a broken file is refused with one sentence."""
    path = Path(path)
    data = read_json(path, "a profile", _LARGEST)
    try:
        return Profile.from_data(data)
    except SpecError as error:
        raise FormatError(f"{path}: {error}") from None


def save_profile(profile: Profile, path: str | Path) -> None:
    """Write a profile to a JSON file, whole or not at all."""
    try:
        write_atomically(Path(path), json.dumps(profile.to_data()).encode() + b"\n")
    except OSError as error:
        raise StorageError(f"{path} cannot be written: {error.strerror}.") from None
