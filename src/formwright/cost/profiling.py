"""Making a profile: what to measure, measuring what is missing, learning from it, checking it.

Everything to be measured is planned beforehand from the space alone. So a run that was killed
makes the same plan again and measures what is missing; one that asks for more samples keeps what
was measured before.
"""

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from formwright.arch import Architecture, arch_id, notation
from formwright.cost.design import chosen
from formwright.cost.features import COLUMNS, features, size_of
from formwright.cost.journal import Journal, Measured, open_journal, steadied
from formwright.cost.machine import fingerprint
from formwright.cost.predictor import Predictor
from formwright.cost.profile import Profile, Sample, save_profile
from formwright.cost.quality import Quality, quality
from formwright.cost.table import Piece, Table, measured_entries, pieces_of
from formwright.cost.target import Target
from formwright.errors import InputError, SpecError
from formwright.space import Space

_POOL = 600  # members to choose from; the same for all but huge requests, so that more samples
# only add to fewer
_SEEDS = {"train": 2, "check": 1}
_PRECISION = 0.02  # width of an interval at which to go on to the next model
_PATIENCE = 5  # models that fail one after the other, before giving up

OnMeasured = Callable[[dict[str, Any]], None]


class Measures(Protocol):
    """What is needed of a meter."""

    reference_ms: float

    def measure(self, arch: Architecture, *, seconds: float, precision: float) -> Any:
        """A latency with ``ratio``, ``low`` and ``high``."""


@dataclass(frozen=True)
class Design:
    """Everything to measure.

    Attributes:
        pieces: Of the table.
        check: Members that nothing is learned from.
        train: Members to learn from.
    """

    pieces: tuple[Piece, ...]
    check: tuple[Architecture, ...]
    train: tuple[Architecture, ...]

    def archs(self) -> Iterator[Architecture]:
        """Each model once, members to check on among those to learn from.

        A machine has its moods; both kinds must see the same ones, or errors and intervals
        learned from one would say little about the other.
        """
        models = (m for p in self.pieces for m in (p.whole, p.without) if m is not None)
        placed = [
            ((number + 0.5) / len(archs), arch)
            for archs in (self.check, self.train)
            for number, arch in enumerate(archs)
        ]
        members = (arch for _, arch in sorted(placed, key=lambda item: item[0]))
        yield from dict.fromkeys((*models, *members))


def design_for(
    space: Space, target: Target, *, samples: int = 80, check: int = 20, table: bool = True
) -> Design:
    """What to measure: layers, members at random to check on, telling members to learn from."""
    if samples < 8 or check < 4:
        raise InputError(
            f"samples={samples}, check={check} are too few; take at least 8 samples and 4 to check."
        )
    held = _drawn(space, check, "check", frozenset())
    pool = _drawn(space, max(_POOL, 2 * samples), "train", frozenset(held))
    if len(pool) < 8:
        raise InputError(
            f"The space {_name(space)!r} has so few members that they can all be measured; "
            "a profile is for spaces that are larger."
        )
    picked = chosen(features(pool, target), min(samples, len(pool)))
    pieces = tuple(pieces_of(space, target)) if table else ()
    return Design(pieces, tuple(held), tuple(pool[i] for i in picked))


def with_reference(space: Space, target: Target) -> Target:
    """The target with a member of middle size as its reference, where it has none.

    A ratio to something about as slow is measured far more closely than one to something tiny:
    both get as many rounds, and what disturbs one round disturbs both halves of it.
    """
    if target.reference is not None:
        return target
    drawn = _drawn(space, 31, "check", frozenset())
    sizes = size_of(drawn, target)[0]
    middle = drawn[int(np.argsort(sizes)[len(drawn) // 2])]
    return target.replace(reference=notation(middle))


def profile_space(
    space: Space,
    target: Target,
    out: str | Path,
    *,
    plan: Design | None = None,
    make_meter: Callable[[Target], Measures] | None = None,
    seconds: float = 0.5,
    passes: int = 1,
    on_event: OnMeasured = lambda event: None,
) -> Profile:
    """Measure what is planned and was not yet, learn from it, check it, and write it to ``out``.

    Args:
        space: Whose members are to be predicted.
        target: Where they run.
        out: The file of the profile. Measurements lie beside it, in ``OUT.journal``.
        plan: What to measure; the usual when not given.
        make_meter: Makes what measures; the real meter when not given. Called only if needed.
        seconds: Of each measurement, at most; building comes on top.
        passes: How often everything is measured, one pass after the other. On a busy machine a
            second pass at another moment tells more than twice the seconds.
        on_event: Called with what happens, after each measurement among others. What it raises
            ends the work; what was measured is kept.
    """
    out, plan = Path(out), plan or design_for(space, target)
    machine = target.fingerprint or fingerprint(target.runtime)
    head = {"space": _name(space), "target": asdict(target), "machine": machine}
    with open_journal(out.with_name(out.name + ".journal"), head) as journal:
        every = [(arch_id(arch), arch) for arch in plan.archs()] * passes
        _measure(journal, every, lambda: (make_meter or _real_meter)(target), seconds, on_event)
        known = target.reference_ms or journal.reference_ms
        profile = learned(_name(space), target, plan, journal.found, known)
        save_profile(profile, out)
    on_event({"kind": "end"})
    return profile


def learned(
    space: str,
    target: Target,
    plan: Design,
    found: Mapping[str, tuple[Measured, ...]],
    reference_ms: float,
) -> Profile:
    """The profile that follows from measurements, by the id of what was measured."""
    good = {
        arch: usable
        for arch in plan.archs()
        if (usable := [m for m in found.get(arch_id(arch), ()) if not m.failed])
    }
    if not good:
        raise InputError("Nothing was measured, so nothing can be learned.")
    ratios = dict(zip(good, steadied(list(good.values())).tolist(), strict=True))
    train = [arch for arch in plan.train if arch in ratios]
    predictor = Predictor.fit(features(train, target), [ratios[a] for a in train], COLUMNS)
    entries = measured_entries(plan.pieces, ratios)
    table = Table(tuple(entries), target) if entries else None
    held = [arch for arch in plan.check if arch in ratios]
    return Profile(
        space=space,
        target=target,
        reference_ms=reference_ms,
        samples=tuple(
            Sample(arch, ratios[arch], _width(good[arch]), len(good[arch]), role)
            for role, archs in (("train", train), ("check", held))
            for arch in archs
        ),
        table=table,
        predictor=predictor,
        check=_checked(train, held, ratios, target, predictor, table),
    )


def _checked(
    train: list[Architecture],
    held: list[Architecture],
    ratios: Mapping[Architecture, float],
    target: Target,
    predictor: Predictor,
    table: Table | None,
) -> dict[str, Quality]:
    """How good each way of guessing is, on members it has not seen."""
    if len(held) < 2:
        return {}
    truth, past = np.array([ratios[a] for a in held]), np.array([ratios[a] for a in train])
    said = predictor.predict(features(held, target))
    found = {"predictor": quality(said.mean, truth, (said.low, said.high))}
    if table is not None:
        found["table"] = quality(table.estimate(held), truth)
    sizes = zip(("flops", "params"), size_of(held, target), size_of(train, target), strict=True)
    for name, size, before in sizes:  # in proportion, by what the samples took
        found[name] = quality(size * float(np.median(past / before)), truth)
    return found


def _measure(
    journal: Journal,
    every: list[tuple[str, Architecture]],
    make_meter: Callable[[], Measures],
    seconds: float,
    on_event: OnMeasured,
) -> None:
    """Measure each as often as it stands in the list, less what the journal has of it."""
    had = {name: len(found) for name, found in journal.found.items()}
    missing = []
    for name, arch in every:
        if had.get(name, 0) > 0:
            had[name] -= 1
        else:
            missing.append((name, arch))
    done = len(every) - len(missing)
    on_event({"kind": "begin", "total": len(every), "done": done})
    if not missing and journal.reference_ms:
        return
    meter, failed = make_meter(), 0
    if not journal.reference_ms:
        journal.set_reference(meter.reference_ms)
    for name, arch in missing:
        try:
            measured, failed = _taken(meter.measure(arch, seconds=seconds, precision=_PRECISION)), 0
        except (SpecError, InputError) as error:
            measured, failed = Measured(0.0, 0.0, 0.0, failed=str(error)), failed + 1
            if failed >= _PATIENCE:
                raise InputError(
                    f"{failed} models one after the other cannot be measured; the last one "
                    f"because: {error}"
                ) from None
        journal.add(name, measured)
        done += 1
        event = {"kind": "measured", "done": done, "total": len(every), "failed": measured.failed}
        on_event({**event, "ms": measured.ratio * journal.reference_ms})


def _width(found: Sequence[Measured]) -> float:
    return float(np.median([(m.high - m.low) / m.ratio for m in found]))


def _taken(seen: Any) -> Measured:
    rounds, own_ms = getattr(seen, "rounds", 0), getattr(seen, "own_ms", 0.0)
    return Measured(seen.ratio, seen.low, seen.high, rounds, own_ms)


def _drawn(
    space: Space, number: int, role: str, without: frozenset[Architecture]
) -> list[Architecture]:
    """Different members at random; fewer where the space has no more."""
    rng, found = random.Random(_SEEDS[role]), dict[Architecture, None]()
    for _ in range(4 * number):
        member = space.resolve(space.sample(rng))
        if not isinstance(member, Architecture) or member.frame is None:
            raise InputError(
                f"The members of {_name(space)!r} cannot be run: they are no architectures with a "
                "frame. Give the space a frame."
            )
        if member not in without:
            found[member] = None
        if len(found) == number:
            break
    return list(found)


def _name(space: Space) -> str:
    return str(getattr(space, "name", "space"))


def _real_meter(target: Target) -> Measures:
    from formwright.cost.meter import Meter  # noqa: PLC0415  # needs torch

    return Meter(target)
