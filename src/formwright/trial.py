"""The frozen records that studies and strategies share: objectives, proposals, trials."""

from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from math import isfinite
from typing import Any, Literal, overload

from formwright.errors import InputError

State = Literal["waiting", "running", "done", "failed"]
Direction = Literal["min", "max"]
Key = tuple[Any, ...]  # names in order, as one object for all, then their values


@dataclass(frozen=True)
class Objective:
    """Something to make small or large.

    >>> Objective("accuracy", "max").sign
    -1
    """

    name: str
    direction: Direction = "min"

    def __post_init__(self) -> None:
        if self.direction not in ("min", "max"):
            raise InputError(
                f"objective {self.name!r} has direction {self.direction!r}; it must be min or max."
            )

    @property
    def sign(self) -> int:
        """What a value is multiplied with so that smaller is better."""
        return 1 if self.direction == "min" else -1


# How a trial came about. Strategies and recipes may use other words; these have one meaning.
SEED = "seed"  # made by hand
FOUND = "found"  # by another search, such as that of a supernet
RANDOM = "random"  # drawn by the strategy
CONTROL = "control"  # drawn at random beside the strategy, to compare it with random search
CORNER = "corner"  # at an end of the space
LISTED = "listed"  # the next of all members
PREDICTED = "predicted"  # chosen by a model of what was seen
MUTATION = "mutation"
CROSSING = "crossing"
PROMOTED = "promoted"  # an earlier trial, carried on at a higher fidelity
WAITING = "waiting"  # a repeat, while others must end first
RIVAL = "rival"  # designed by hand, to be beaten; its decisions are {"rival": its notation}
FINAL = "final"  # trained once more, from new weights and to the end, before anything is announced

APART = "apart"  # among the details of a trial: it was drawn for itself, no strategy learns of it
SIMPLER_RUNG = 90  # of trials that ask what can be taken out of a winner
FINAL_RUNG = 100  # of the first finals of a study; those of a later session have the next one


@dataclass(frozen=True, kw_only=True)
class Proposal:
    """What a strategy wants tried.

    Args:
        decisions: Where in the space it lies: any JSON.
        origin: How it came about, in a word of the list above.
        parents: Numbers of the trials it was made from.
        rung: Fidelity: trials of one rung are evaluated alike; 0 is the first, cheapest one.
        steps: Training steps in all, earlier rungs included; None leaves it to the estimator.
        train_seconds: The same in seconds of training.
        continues: Number of the trial whose training it carries on; None starts afresh.
        note: What it is, or what was changed, for people to read.
        details: Whatever else should be remembered of it, as plain JSON.
    """

    decisions: Mapping[str, Any]
    origin: str = ""
    parents: tuple[int, ...] = ()
    rung: int = 0
    steps: int | None = None
    train_seconds: float | None = None
    continues: int | None = None
    note: str = ""
    details: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Trial:
    """One thing tried. A finished trial never changes.

    Args:
        number: Place in the study, from 0 without gaps.
        decisions: Where in the space it lies.
        arch: Id of the architecture; empty where a study has none.
        state: ``done`` has every objective; ``failed`` has a reason.
        values: Objective name to value, and whatever else was measured.
        reason: Why it failed, in one sentence.
        seconds: What trying it cost.
        original: The earlier trial that tried the same, whose values it has; None for most.

    The others are those of the ``Proposal`` it came from.
    """

    number: int
    decisions: Mapping[str, Any]
    arch: str = ""
    state: State = "waiting"
    values: Mapping[str, float] = field(default_factory=dict)
    reason: str = ""
    parents: tuple[int, ...] = ()
    rung: int = 0
    steps: int | None = None
    train_seconds: float | None = None
    continues: int | None = None
    origin: str = ""
    note: str = ""
    details: Mapping[str, Any] = field(default_factory=dict)
    seconds: float = 0.0
    original: int | None = None

    @classmethod
    def of(cls, number: int, proposal: Proposal, **known: Any) -> "Trial":
        """The trial that a proposal becomes."""
        return cls(number=number, **{**vars(proposal), **known})

    @property
    def done(self) -> bool:
        """Whether it has a result that counts."""
        return self.state == "done"

    @property
    def finished(self) -> bool:
        """Whether nothing about it can change any more."""
        return self.state in ("done", "failed")

    @property
    def control(self) -> bool:
        """Whether it belongs to the random search that a study carries as its control."""
        return self.origin == CONTROL

    @property
    def rival(self) -> bool:
        """Whether it is a hand-designed model that the search is held against."""
        return self.origin == RIVAL

    @property
    def final(self) -> bool:
        """Whether it was trained to the end, as what is announced is."""
        return self.rung >= FINAL_RUNG

    @property
    def made_by(self) -> str:
        """How it came about, in words."""
        said = "random" if self.control else self.origin
        said = self.note if self.origin in (FOUND, SEED) and self.note else said
        if self.note and said != self.note:
            said = f"{said}: {self.note}" if said else self.note
        return said if self.original is None else f"{said} (as trial {self.original})".lstrip()

    @cached_property
    def key(self) -> Key:
        """Equal for equal decisions. A pending trial is asked for it again and again."""
        return key_of(self.decisions)

    def costs(self, objectives: Sequence[Objective]) -> tuple[float, ...]:
        """Its values with smaller always better."""
        return tuple(objective.sign * self.values[objective.name] for objective in objectives)

    def interval(self, name: str) -> tuple[float, float]:
        """Between what a value lies, as far as was measured: ``latency_low``, ``latency_high``."""
        value = self.values[name]
        return self.values.get(f"{name}_low", value), self.values.get(f"{name}_high", value)


class Pending(Sequence[Trial]):
    """Trials that were proposed and whose results are not told yet, the first one first.

    What they try is looked up at once, however many there are: thousands of workers have thousands.
    """

    def __init__(self, trials: Iterable[Trial] = ()) -> None:
        self._trials: deque[Trial] = deque()
        self._keys: Counter[Key] = Counter()
        for trial in trials:
            self.add(trial)

    def add(self, trial: Trial) -> None:
        """One more, the last of all."""
        self._trials.append(trial)
        self._keys[trial.key] += 1

    def drop(self) -> None:
        """The first one is told."""
        key = self._trials.popleft().key
        self._keys[key] -= 1
        if not self._keys[key]:
            del self._keys[key]

    def tries(self, key: Key) -> bool:
        """Whether one of them tries this."""
        return key in self._keys

    def __len__(self) -> int:
        return len(self._trials)

    def __iter__(self) -> Iterator[Trial]:
        return iter(self._trials)

    @overload
    def __getitem__(self, index: int) -> Trial: ...

    @overload
    def __getitem__(self, index: slice) -> Sequence[Trial]: ...

    def __getitem__(self, index: int | slice) -> Trial | Sequence[Trial]:
        return list(self._trials)[index] if isinstance(index, slice) else self._trials[index]


def key_of(decisions: Mapping[str, Any]) -> Key:
    """Equal for equal decisions, in whatever order and from JSON or not."""
    names = _sorted(tuple(decisions))
    key = (names, *(decisions[name] for name in names))
    try:
        hash(key)
    except TypeError:  # lists or mappings inside
        return (names, *(_hashable(decisions[name]) for name in names))
    return key


@lru_cache(4096)
def _sorted(names: tuple[str, ...]) -> tuple[str, ...]:
    """Most trials have the same names, and a million of them one tuple of these."""
    return tuple(sorted(names))


def _hashable(value: Any) -> Any:
    """JSON as something that can be a key; lists and tuples are one."""
    if isinstance(value, Mapping):
        return frozenset((name, _hashable(item)) for name, item in value.items())
    if isinstance(value, list | tuple):
        return tuple(map(_hashable, value))
    return value


def usable(values: Mapping[str, float], objectives: Sequence[Objective]) -> str:
    """Why these values cannot count, in one sentence; empty when they can."""
    for objective in objectives:
        if objective.name not in values:
            return f"no value for {objective.name!r} was given."
        value = values[objective.name]
        if not isfinite(value):
            return f"{objective.name} came out as {value}."
    return ""
