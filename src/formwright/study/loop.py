"""The loop of a search: ask, evaluate, record, tell.

Trial ``n`` is proposed when exactly the trials 0 to ``n - window`` have been told, in the order of
their numbers, whoever evaluates them and however long each takes. So a search gives the same trials
with one worker or many, and when it was killed at any moment and started again, as long as its
evaluator gives the same values.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from math import inf
from random import Random
from typing import Any, Literal

from formwright.arch import Architecture, arch_id, notation
from formwright.errors import FormwrightError, InputError, StorageError
from formwright.study.job import Answer, Executor, Job, member_of, one_sentence
from formwright.study.rows import Addition, as_stored, written
from formwright.study.store import Store
from formwright.study.study import Study
from formwright.trial import APART, CONTROL, FINAL, RIVAL, Pending, Proposal, State, Trial, key_of

Ending = Literal["trials", "seconds", "exhausted", "stopped"]
OnEvent = Callable[["Event"], None]

_LOOK = 0.2  # seconds between looks at the clock and at ``stop``
_FAREWELL = 5.0  # seconds a running trial is given to finish after ``stop``
_MOST = 1024  # trials added in one transaction


@dataclass(frozen=True)
class Event:
    """Something that has happened and is on record.

    Args:
        kind: ``proposed``, ``finished`` (done or failed), or ``ended``, the last one.
        trial: Which trial; None for ``ended``.
        ending: Why the search ended.
    """

    kind: Literal["proposed", "finished", "ended"]
    trial: Trial | None = None
    ending: Ending | None = None


def run(
    study: Study,
    executor: Executor,
    *,
    trials: int | None = None,
    seconds: float | None = None,
    stop: Callable[[], bool] | None = None,
    on_event: OnEvent | None = None,
    options: Mapping[str, Any] | None = None,
    first: Sequence[Proposal] = (),
) -> Ending:
    """Search until the budget is spent. Calling it again continues.

    Args:
        study: What to search, and the record of it.
        executor: Who evaluates.
        trials: How many the study is to have in all, rivals and finals apart.
        seconds: How long it may be worked on in all, earlier sessions included.
        stop: Asked several times a second; True ends the search within seconds.
        on_event: Told what has happened.
        options: Of the strategy, besides those the study was begun with: what came up later. They
            must be the same when the search is continued.
        first: Proposals that come before the strategy's, all at once, unless they are on record:
            rivals and finals, of which the strategy is not told.

    Returns:
        Why it ended: the number of ``trials``, ``seconds``, the strategy had nothing left to
        propose (``exhausted``), or ``stopped``.
    """
    expected = len(first) + (max(0, trials - study.state.total) if trials else 0)
    with study.coordinate(expected) as store:
        store.begin()
        search = _Search(study, store, executor, on_event, options or {}, first)
        ending: Ending | None = None
        try:
            executor.start(study)
            search.resume()
            while ending is None:
                ending = search.turn(trials, seconds, stop)
            search.settle(executor.close(_FAREWELL if ending == "stopped" else inf))
            search.commit()
        except BaseException:
            executor.close()
            with suppress(StorageError):  # a full disk, say; the next session takes trials back
                store.end("interrupted")
            raise
        executor.close()
        store.end(ending)
        search.tell(Event("ended", ending=ending))
    return ending


class _Search:
    """What the loop knows between two turns."""

    def __init__(
        self,
        study: Study,
        store: Store,
        executor: Executor,
        on_event: OnEvent | None,
        options: Mapping[str, Any],
        first: Sequence[Proposal],
    ) -> None:
        self.study, self.store, self.executor, self.on_event = study, store, executor, on_event
        self.space, self.window = study.space, study.rules.window
        self.strategy = study.make_strategy(**options)
        self.trials = store.trials()
        known = {_asked(trial) for trial in self.trials} if first else set()
        self.asked = sum(map(_taught, self.trials))  # of the strategy, or its control
        self.given = [proposal for proposal in first if _asked(proposal) not in known]
        self.first: dict[Any, int] = {}  # what would be measured to the first trial of it
        self.copies: dict[int, list[int]] = {}  # trial to those that wait for its values
        self.ended = 0  # trials 0 to here, this one not included, have ended
        self.told = 0  # and up to here the strategy knows them
        # The others, as they were proposed. Some may have ended meanwhile, but whether they have
        # is a matter of chance, and the strategy must not see it.
        self.pending = Pending()
        self.exhausted = False
        self.open = 0  # trials that have not ended
        # Not yet on record:
        self.finished: list[Trial] = []
        self.added: list[Addition] = []
        self.jobs: list[Job] = []
        self.committed = time.monotonic()

    # ------------------------------------------------------------------------------- resuming

    def resume(self) -> None:
        """Take up where the record ends."""
        for trial in self.trials:
            if trial.original is None:
                self.first.setdefault(_key(trial), trial.number)
        self._advance()
        due = max(0, min(self.ended, len(self.trials) - self.window + 1))
        self.strategy.tell_all([trial for trial in self.trials[:due] if _taught(trial)])
        self.told = due
        for trial in filter(_taught, self.trials[due:]):
            self.pending.add(_as_proposed(trial))
        for trial in [t for t in self.trials[self.ended :] if not t.finished]:
            self.open += 1
            if trial.original is None:
                self.jobs.append(self._job(trial, member_of(self.space, trial)))
            elif self.trials[trial.original].finished:
                self._end(_copied(trial, self.trials[trial.original]))
            else:
                self.copies.setdefault(trial.original, []).append(trial.number)
        if not self.executor.records:
            self.store.take([job.trial.number for job in self.jobs])
        self.commit()

    # ---------------------------------------------------------------------------------- turns

    def turn(
        self, trials: int | None, seconds: float | None, stop: Callable[[], bool] | None
    ) -> Ending | None:
        """Propose what can be proposed, then wait for something to end."""
        if stop is not None and stop():
            return "stopped"
        late = seconds is not None and self.store.clock() >= seconds
        if not late:
            self._fill(inf if trials is None else trials)
        if late or not self.open or time.monotonic() - self.committed >= self.executor.patience:
            self.commit()
        elif self.jobs:  # a free evaluator: the record follows in a moment
            self.executor.submit(self.jobs)
            self.jobs = []
        if late:
            return "seconds"
        if not self.open:
            if self.exhausted:
                return "exhausted"
            return "trials" if trials is not None and self.asked >= trials else None
        self.settle(self.executor.collect(_LOOK))
        return None

    def settle(self, answers: Sequence[Answer]) -> None:
        """Take note of what has ended, and of the copies that waited for it."""
        for answer in answers:
            trial = self.trials[answer.number]
            if trial.finished:
                continue
            if not answer.recorded:
                self._end(answer.settle(trial))
                continue
            (stored,) = self.store.trials_at([answer.number])
            if stored.finished:
                self._note(stored)
                self.tell(Event("finished", stored))

    def commit(self) -> None:
        """Put everything on record, then hand out the jobs and tell the world."""
        finished, added, jobs = self.finished, self.added, self.jobs
        self.finished, self.added, self.jobs = [], [], []
        self.store.step(finished, added, running=not self.executor.records)
        self.committed = time.monotonic()
        if jobs:
            self.executor.submit(jobs)
        if self.on_event is not None:
            for trial in finished:
                self.tell(Event("finished", trial))
            for addition in added:
                self.tell(Event("proposed", addition.trial))
                if addition.trial.finished:
                    self.tell(Event("finished", addition.trial))

    def tell(self, event: Event) -> None:
        """Pass an event on."""
        if self.on_event is not None:
            self.on_event(event)

    # ------------------------------------------------------------------------------ proposing

    def _fill(self, most: float) -> None:
        """Propose as many trials as the window and the budget allow."""
        for _ in range(_MOST):
            number = len(self.trials)
            if self.given:
                self._add(number, self.given.pop(0))
                continue
            if self.exhausted or self.asked >= most or self.ended < number - self.window + 1:
                return
            while self.told < number - self.window + 1:
                if _taught(self.trials[self.told]):
                    self.strategy.tell(self.trials[self.told])
                    self.pending.drop()
                self.told += 1
            proposal = self._proposal(number)
            if proposal is None:
                self.exhausted = True
                return
            self._add(number, proposal)

    def _proposal(self, number: int) -> Proposal | None:
        control = self.study.rules.control
        if control and number % control == control - 1:
            rng = Random(f"{self.study.seed}/control/{number}")
            fidelity = self.strategy.fidelity()
            return Proposal(decisions=self.space.sample(rng), origin=CONTROL, **fidelity)
        return self.strategy.ask(number, self.pending)

    def _add(self, number: int, proposal: Proposal) -> None:
        if proposal.continues is not None and not 0 <= proposal.continues < number:
            raise InputError(
                f"Trial {number} was to continue trial {proposal.continues}, which does not exist."
            )
        text, decisions = written(proposal.decisions)
        member, words, arch, reason = None, "", "", ""
        try:
            member = member_of(self.space, Trial.of(number, proposal, decisions=decisions))
            if isinstance(member, Architecture):
                arch = arch_id(member)
                # Writing it takes longer than a free trial; it follows from the decisions.
                words = "" if self.executor.patience else notation(member)
        except FormwrightError as error:
            reason = one_sentence(error)
        state: State = "failed" if reason else "waiting"
        trial = Trial.of(
            number,
            proposal,
            decisions=decisions,
            arch=arch,
            state=state,
            reason=reason,
            details=as_stored(proposal.details),
        )
        original = self.first.setdefault(_key(trial), number)
        if original != number:
            trial = self._copy(trial, original)
        self._place(Addition(trial, text, words))
        if original == number and not trial.finished:
            self.jobs.append(self._job(trial, member))

    def _copy(self, trial: Trial, original: int) -> Trial:
        """The same was proposed before: it takes that one's values, now or when it has them."""
        trial = replace(trial, original=original)
        if self.trials[original].finished:
            return _copied(trial, self.trials[original])
        self.copies.setdefault(original, []).append(trial.number)
        return trial

    def _place(self, addition: Addition) -> None:
        self.trials.append(addition.trial)
        if _taught(addition.trial):
            self.pending.add(_as_proposed(addition.trial))
        self.added.append(addition)
        self.open += not addition.trial.finished
        self.asked += _taught(addition.trial)
        self._advance()

    def _job(self, trial: Trial, member: Any) -> Job:
        return Job.of(
            trial, member, self.study.folder, self.study.seed, lambda number: self.trials[number]
        )

    # --------------------------------------------------------------------------------- ending

    def _end(self, trial: Trial) -> None:
        """A trial has ended, and that is yet to be put on record."""
        self.finished.append(trial)
        self._note(trial)

    def _note(self, trial: Trial) -> None:
        self.trials[trial.number] = trial
        self.open -= 1
        self._advance()
        for number in self.copies.pop(trial.number, ()):
            self._end(_copied(self.trials[number], trial))

    def _advance(self) -> None:
        while self.ended < len(self.trials) and self.trials[self.ended].finished:
            self.ended += 1


def _key(trial: Trial) -> Any:
    """Trials with the same key would measure the same thing."""
    return trial.arch or trial.key, trial.rung, trial.steps, trial.train_seconds


def _asked(what: Proposal | Trial) -> Any:
    """What makes two proposals of rivals or finals the same."""
    return what.origin, key_of(what.decisions), what.rung, what.steps, what.train_seconds


def _taught(trial: Trial) -> bool:
    """Whether the strategy learns of it: not of what was not for it to choose."""
    return trial.origin not in (RIVAL, FINAL) and not trial.details.get(APART)


def _copied(trial: Trial, original: Trial) -> Trial:
    return replace(
        trial, state=original.state, values=original.values, reason=original.reason, seconds=0.0
    )


def _as_proposed(trial: Trial) -> Trial:
    if trial.state == "waiting":
        return trial
    return replace(trial, state="waiting", values={}, reason="", seconds=0.0)
