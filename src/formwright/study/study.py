"""A study: the durable record of one search. It can be opened at any time, also while it runs."""

import sqlite3
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from math import inf
from pathlib import Path
from typing import Any

from formwright.arch import notation
from formwright.errors import InputError, SpecError, StorageError
from formwright.files import discreet
from formwright.locks import Lock, holder
from formwright.space import Space, space_data, space_from_data
from formwright.strategy.blackbox import Strategy, make_strategy
from formwright.study import database
from formwright.study.checking import check_meta
from formwright.study.database import Outdated
from formwright.study.folder import check_disk, record_path, trial_folder
from formwright.study.front import counting, front
from formwright.study.job import member_of
from formwright.study.migrate import upgrade
from formwright.study.rows import dumped
from formwright.study.schema import FORMAT_VERSION
from formwright.study.store import Store
from formwright.trial import Objective, Trial
from formwright.versions import RESULTS, cpu, versions

_FEW = 8  # workers of one machine, which do not straggle by much


@dataclass(frozen=True)
class Rules:
    """How a search is conducted. Part of the study: its result follows from them.

    Args:
        window: Trial ``n`` is proposed when trials 0 to ``n - window`` have ended, so this many
            can run at once. 1 for one worker, twice their number for a few, four times for
            many, the size of a batch for an evaluator that takes many.
        control: Every so manieth trial is drawn at random, so that the search carries its own
            comparison with random search; 0 for none.
        limits: Name of a value to the most it may be, for the front and the strategy.
    """

    window: int = 1
    control: int = 0
    limits: Mapping[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.window < 1 or self.control < 0:
            raise InputError(
                f"A window of {self.window} and control of {self.control} were given; "
                "give a window of at least 1 and a control of at least 0."
            )

    @classmethod
    def for_workers(cls, workers: int, **others: Any) -> "Rules":
        """The usual window for a number of workers: each has a trial, and more wait.

        One more for each of a few; three for each of many, or stragglers would leave more than half
        of them without work. Still more would keep strategies from learning (docs/scale.md).
        """
        each = 2 if workers <= _FEW else 4
        return cls(window=1 if workers == 1 else each * workers, **others)


@dataclass(frozen=True)
class Progress:
    """How far a study has come.

    Args:
        waiting: Trials proposed and not begun.
        running: Trials being tried; they wait again when nobody coordinates.
        done: Trials with a result.
        failed: Trials with a reason.
        seconds: How long the study has been worked on.
        coordinator: The process that works on it now; empty when none does.
    """

    waiting: int
    running: int
    done: int
    failed: int
    seconds: float
    coordinator: str

    @property
    def total(self) -> int:
        """All trials so far."""
        return self.waiting + self.running + self.done + self.failed


class Study:
    """One search in one folder. Made by ``create`` or ``open``; ``run`` in loop.py drives it.

    Looking at it takes no lock and never holds up a search that runs.
    """

    def __init__(self, folder: Path, space: Space | None = None) -> None:
        self.folder = folder
        self._store = _opened(folder)
        try:
            self.meta: dict[str, Any] = self._store.meta()
            check_meta(self.meta)
            self.objectives = tuple(Objective(*pair) for pair in self.meta["objectives"])
            self.rules = Rules(**self.meta["rules"])
            self.seed: int = self.meta["seed"]
            self.strategy_name: str = self.meta["strategy"]["name"]
            self.options: dict[str, Any] = self.meta["strategy"]["options"]
        except (LookupError, TypeError, ValueError, InputError) as error:
            self._store.close()
            raise StorageError(f"{self._store.path} is damaged: meta data: {error}.") from None
        except BaseException:
            self._store.close()
            raise
        self._given = space
        self._space: Space | None = None
        self._settled: list[Trial] = []  # finished trials never change, so they are read once
        self._notations: dict[int, str] = {}

    @classmethod
    def create(
        cls,
        folder: str | Path,
        *,
        space: Space,
        objectives: Sequence[Objective],
        strategy: str = "random",
        options: Mapping[str, Any] | None = None,
        seed: int = 0,
        rules: Rules | None = None,
        **meta: Any,
    ) -> "Study":
        """Begin a study in a folder that holds none yet.

        Args:
            folder: On a local disk; made if need be.
            space: What is searched.
            objectives: What counts, the first one first.
            strategy: Name of the strategy.
            options: Of the strategy.
            seed: The same seed gives the same search.
            rules: How the search is conducted.
            meta: Whatever else should be remembered as plain JSON: ``task``, ``command``.
        """
        folder = Path(folder)
        rules = rules or Rules()
        make_strategy(strategy, space, objectives, seed, **_options(options, rules))  # fails early
        about = {
            "format": FORMAT_VERSION,
            "created": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            "versions": {**versions(), "sqlite": sqlite3.sqlite_version},
            "results": RESULTS,
            "processor": cpu(),
            "objectives": [[o.name, o.direction] for o in objectives],
            "space": space_data(space),
            "strategy": {"name": strategy, "options": dict(options or {})},
            "seed": seed,
            "rules": asdict(rules),
        }
        if taken := about.keys() & meta.keys():
            raise InputError(f"{', '.join(sorted(taken))} is kept by the study itself.")
        try:
            texts = {key: discreet(dumped(value)) for key, value in (about | meta).items()}
        except TypeError as error:
            raise InputError(f"A study cannot be written down: {error}.") from None
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise StorageError(f"{folder} cannot be made: {error.strerror}.") from None
        check_disk(folder)
        lock = Lock(folder)
        try:
            database.create(record_path(folder), texts)
        finally:
            lock.close()
        return cls(folder, space)

    @classmethod
    def open(cls, folder: str | Path, *, space: Space | None = None) -> "Study":
        """A study that exists.

        Args:
            folder: Where it is.
            space: Needed to go on where a constraint is a function; others are restored from
                the record.
        """
        return cls(Path(folder), space)

    def close(self) -> None:
        """Let go of the record."""
        self._store.close()

    @property
    def space(self) -> Space:
        """What is searched."""
        if self._space is None:
            self._space = self._restored()
        return self._space

    @property
    def trials(self) -> list[Trial]:
        """Every trial so far, by number."""
        fresh = self._store.trials(len(self._settled))
        for trial in fresh:
            if not trial.finished:
                break
            self._settled.append(trial)
        known = len(self._settled)
        return self._settled + [trial for trial in fresh if trial.number >= known]

    @property
    def state(self) -> Progress:
        """How far it has come, and who works on it."""
        counts = self._store.counts()
        states = {name: counts.get(name, 0) for name in ("waiting", "running", "done", "failed")}
        return Progress(**states, seconds=self._store.seconds(), coordinator=holder(self.folder))

    @property
    def events(self) -> list[dict[str, Any]]:
        """Who claimed, lost or was refused what, and when."""
        return self._store.events()

    @property
    def front(self) -> list[Trial]:
        """The trials that no other beats in everything, within the study's limits."""
        return front(self.trials, self.objectives, self.rules.limits)

    def best(self, objective: str | None = None, **limits: float) -> Trial | None:
        """The best trial in one objective, the first unless named, within the limits.

        Among equals the earliest. None when no trial keeps the limits.
        """
        named = {o.name: o for o in self.objectives}
        if objective is not None and objective not in named:
            raise InputError(f"No objective is called {objective!r}; there are {', '.join(named)}.")
        wanted = named[objective] if objective else self.objectives[0]
        known = {name for trial in self.trials if trial.done for name in trial.values}
        for name in limits:
            if known and name not in known:
                raise InputError(
                    f"No trial has a value called {name!r}; there are {', '.join(sorted(known))}."
                )
        found = counting(self.trials, self.objectives, {**self.rules.limits, **limits})
        return min(found, key=lambda trial: trial.costs([wanted]), default=None)

    def notation(self, number: int) -> str:
        """The architecture of a trial in words; empty where the study is of something else."""
        if number not in self._notations:  # what a trial is never changes, so it is read once
            words = self._store.notation(number)
            if not words:
                (trial,) = self._store.trials_at([number])
                words = notation(self.member(trial)) if trial.arch else ""
            self._notations[number] = words
        return self._notations[number]

    def member(self, trial: Trial) -> Any:
        """What a trial stands for, for most spaces an architecture."""
        return member_of(None if trial.rival else self.space, trial)

    def trial_folder(self, number: int) -> Path:
        """Where the files of a trial are."""
        return trial_folder(self.folder, number)

    def make_strategy(self, **more: Any) -> Strategy:
        """The strategy, knowing nothing yet; with options that came up after the study began."""
        options = _options({**self.options, **more}, self.rules)
        return make_strategy(self.strategy_name, self.space, self.objectives, self.seed, **options)

    @contextmanager
    def coordinate(self, trials: int = 0) -> Iterator[Store]:
        """Be the one process that adds trials; refused while another one is.

        Args:
            trials: How many more are expected, to see whether the disk has room.
        """
        self._check_results()
        check_disk(self.folder, trials)
        lock = Lock(self.folder)
        try:
            store = Store(record_path(self.folder))
            try:
                yield store
            finally:
                store.close()
        finally:
            lock.close()

    def _check_results(self) -> None:
        """Refuse to mix results of programs that search or evaluate differently."""
        begun = self.meta.get("results", RESULTS)
        if begun != RESULTS:
            made = self.meta.get("versions")
            by = made.get("formwright", "?") if isinstance(made, Mapping) else "?"
            raise InputError(
                f"{self.folder} was begun by formwright {by}, whose trials (results version "
                f"{begun}) are not those of this program (version {RESULTS}): continuing would mix "
                f"the two. Continue it with formwright {by}, or begin anew in another folder; it "
                "can still be shown and reported."
            )

    def _restored(self) -> Space:
        if self._given is not None:
            if dumped(space_data(self._given)) != dumped(self.meta["space"]):
                raise InputError(f"The space given is not the one {self.folder} was begun with.")
            return self._given
        try:
            return space_from_data(self.meta["space"])
        except SpecError as error:
            raise StorageError(
                f"The space of {self.folder} cannot be restored: {error} If it is of a kind of "
                "your own, install the package that announces it, or give it: "
                "Study.open(folder, space=...)."
            ) from None


def _opened(folder: Path) -> Store:
    """The record for reading; one of an earlier format is brought up to date first."""
    try:
        return Store(record_path(folder), readonly=True)
    except Outdated:
        upgrade(folder)
        return Store(record_path(folder), readonly=True)


def _options(options: Mapping[str, Any] | None, rules: Rules) -> dict[str, Any]:
    """Options of the strategy; limits are one only where there are any."""
    limits = {name: most for name, most in rules.limits.items() if most < inf}
    return dict(options or {}) | ({"limits": limits} if limits else {})
