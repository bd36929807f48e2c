"""The loop: same search however it is interrupted, nothing evaluated twice, nothing non-finite."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any, ClassVar

import numpy as np
import pytest
from tests.study.toy import (
    OBJECTIVES,
    Logged,
    archive,
    free,
    parents_seen,
    space,
    study,
    tiny,
    troubled,
    values_of,
)

from formwright.arch import notation
from formwright.errors import InputError
from formwright.execute import Serial, search
from formwright.space import Space, space_kind
from formwright.space.registry import KINDS
from formwright.strategy.blackbox import Strategy, strategy
from formwright.strategy.blackbox.base import STRATEGIES
from formwright.study import Answer, Event, Job, Rules, Study, front, run
from formwright.trial import FINAL, FINAL_RUNG, RIVAL, Proposal, Trial


@dataclass(kw_only=True, eq=False)
class Watching(Strategy):
    """Draws at random and remembers when it was asked and told what."""

    calls: ClassVar[list[tuple[str, int, tuple[int, ...]]]] = []
    most: int = 10**9

    def ask(self, number: int, pending: Sequence[Trial] = ()) -> Proposal | None:
        assert all(t.state == "waiting" and not t.values for t in pending)
        self.calls.append(("ask", number, tuple(t.number for t in pending)))
        rng = self.rng(number)
        return None if number >= self.most else Proposal(decisions=self.space.sample(rng))

    def tell(self, trial: Trial) -> None:
        assert trial.finished
        self.calls.append(("tell", trial.number, ()))


class Backwards(Serial):
    """Gives all that was handed over in the opposite order, as slow machines far away might."""

    def collect(self, timeout: float) -> list[Answer]:
        found = [super(Backwards, self).collect(timeout)[0] for _ in range(len(self._jobs))]
        return found[::-1]


class Climbing(Watching):
    """Trains each member twice: every other trial continues the one before."""

    def ask(self, number: int, pending: Sequence[Trial] = ()) -> Proposal | None:
        decisions = self.space.sample(self.rng(number - number % 2))
        if number % 2:
            return Proposal(
                decisions=decisions, parents=(number - 1,), rung=1, continues=number - 1
            )
        return Proposal(decisions=decisions)


@pytest.fixture(autouse=True)
def _strategies() -> Any:
    Watching.calls.clear()
    strategy("watching")(Watching)
    strategy("climbing")(Climbing)
    yield
    STRATEGIES.forget("watching")
    STRATEGIES.forget("climbing")


def test_a_search_runs_to_its_budget_and_can_be_looked_at(tmp_path: Path) -> None:
    made = study(tmp_path / "s", task="lm", command="search")
    assert search(made, free, trials=25) == "trials"
    opened = Study.open(tmp_path / "s")
    assert [t.number for t in opened.trials] == list(range(25))
    assert all(t.values == values_of(t) for t in opened.trials)
    assert opened.state.done == 25
    assert opened.state.coordinator == ""
    assert opened.meta["task"] == "lm"
    assert opened.space.to_data() == space().to_data()
    assert opened.notation(3).endswith("in decoder(64)")
    best = opened.best("loss")
    assert best is not None
    assert best.values["loss"] == min(t.values["loss"] for t in opened.trials)


@pytest.mark.parametrize("window", [1, 4])
@pytest.mark.parametrize("name", ["evolution", "nsga2"])
def test_stopping_anywhere_and_going_on_gives_the_same_search(
    tmp_path: Path, window: int, name: str
) -> None:
    whole = study(tmp_path / "whole", window=window, strategy=name)
    search(whole, free, trials=60)
    pieces = study(tmp_path / "pieces", window=window, strategy=name)
    for trials in (1, 2, 9, 30, 31, 60):
        search(Study.open(tmp_path / "pieces"), free, trials=trials)
    assert archive(whole) == archive(pieces)
    assert whole.front == [replace_seconds(t, whole) for t in pieces.front]


def replace_seconds(trial: Trial, other: Study) -> Trial:
    assert trial.values == other.trials[trial.number].values
    return other.trials[trial.number]


@pytest.mark.parametrize("window", [1, 3, 8])
@pytest.mark.parametrize("executor", [Serial, Backwards])
def test_a_trial_is_proposed_after_exactly_the_window_was_told(
    tmp_path: Path, window: int, executor: type[Serial]
) -> None:
    run(study(tmp_path / "s", strategy="watching", window=window), executor(free), trials=20)
    told = 0
    for what, number, pending in Watching.calls:
        if what == "tell":
            assert number == told
            told += 1
        else:
            assert told == max(0, number - window + 1)
            assert pending == tuple(range(told, number))


def test_rules_that_make_no_sense_are_refused() -> None:
    assert (Rules.for_workers(1).window, Rules.for_workers(4, control=9).window) == (1, 8)
    assert Rules.for_workers(100).window == 400
    with pytest.raises(InputError, match="give a window of at least 1"):
        Rules(window=0)


def test_a_free_evaluator_and_a_batch_give_the_same_search(tmp_path: Path) -> None:
    class Many:
        batch = 7
        free = True
        sizes: list[int] = []  # noqa: RUF012

        def __call__(self, job: Job) -> Mapping[str, float]:
            return values_of(job.trial)

        def evaluate_many(self, jobs: list[Job]) -> list[Mapping[str, float]]:
            self.sizes.append(len(jobs))
            return [values_of(job.trial) for job in jobs]

    plain = study(tmp_path / "plain", window=7)
    search(plain, free, trials=50)
    many = study(tmp_path / "many", window=7)
    search(many, Many(), trials=50)
    assert archive(plain) == archive(many)
    assert sum(Many.sizes) == 50
    assert max(Many.sizes) == 7


def test_one_bad_job_does_not_spoil_its_batch(tmp_path: Path) -> None:
    class Many:
        batch = 10

        def __call__(self, job: Job) -> Mapping[str, float]:
            return troubled(job)

        def evaluate_many(self, jobs: list[Job]) -> list[Mapping[str, float]]:
            return [troubled(job) for job in jobs]

    made = study(tmp_path / "s", window=10)
    search(made, Many(), trials=20)
    assert [t.number for t in made.trials if not t.done] == [2, 4, 6, 8, 12, 14, 16, 18]


def test_failures_have_reasons_and_never_reach_the_front(tmp_path: Path) -> None:
    made = study(tmp_path / "s")
    search(made, troubled, trials=60)
    reasons = {t.number % 10: t.reason for t in made.trials if t.state == "failed"}
    assert set(reasons) == {2, 4, 6, 8}
    assert reasons[2] == "ValueError: trial 52 was not to its taste"
    assert reasons[4] == "Loss came out as nan."
    assert reasons[6] == "Speed came out as inf."
    assert reasons[8] == "No value for 'speed' was given."
    assert "ValueError" in (made.trial_folder(12) / "error.txt").read_text()
    assert made.front
    for trial in made.front:
        assert trial.number % 10 not in (2, 4, 6, 8)
        assert set(trial.values) == {"loss", "speed"}  # NaN of no objective is left out


def test_an_evaluator_that_returns_nonsense_fails_its_trials(tmp_path: Path) -> None:
    made = study(tmp_path / "s")
    search(made, lambda job: None, trials=2)  # type: ignore[arg-type, return-value]
    assert made.trials[1].reason.startswith("The evaluator returned None; it must return numbers")


def test_no_architecture_is_evaluated_twice(tmp_path: Path) -> None:
    evaluate = Logged(tmp_path / "log")
    made = study(tmp_path / "s", space=tiny(), strategy="watching", window=4)
    search(made, evaluate, trials=40)
    assert len(evaluate.lines()) == len(set(evaluate.lines())) == len({t.arch for t in made.trials})
    copies = [t for t in made.trials if t.original is not None]
    assert len(copies) == 40 - len(evaluate.lines())
    for copy in copies:
        original = made.trials[copy.original or 0]
        assert (copy.values, copy.seconds) == (original.values, 0.0)
        assert original.number < copy.number
    assert len({t.arch for t in made.front}) == len(made.front)


def test_a_strategy_that_runs_dry_ends_the_search(tmp_path: Path) -> None:
    made = study(tmp_path / "s", strategy="watching", options={"most": 7}, window=3)
    assert search(made, free, trials=50) == "exhausted"
    assert len(made.trials) == made.state.done == 7
    assert search(made, free, trials=50) == "exhausted"
    assert len(made.trials) == 7


def test_a_continued_trial_gets_the_folder_and_the_seed_of_the_earlier(tmp_path: Path) -> None:
    jobs: list[Job] = []

    def evaluate(job: Job) -> Mapping[str, float]:
        jobs.append(job)
        return values_of(job.trial)

    made = study(tmp_path / "s", strategy="climbing")
    search(made, evaluate, trials=6)
    for low, high in zip(jobs[::2], jobs[1::2], strict=True):
        assert low.previous is None
        assert high.previous == low.folder == made.trial_folder(low.trial.number)
        assert high.parents == (low.folder,)
        assert high.seed == low.seed
        assert high.arch == low.arch
    assert len({job.seed for job in jobs}) == 3  # one for each chain
    assert {t.rung for t in made.front} == {1}


def test_the_control_share_is_random_and_follows_from_number_and_seed(tmp_path: Path) -> None:
    evolved = study(tmp_path / "a", control=4)
    search(evolved, free, trials=40)
    drawn = study(tmp_path / "b", control=4, strategy="watching")
    search(drawn, free, trials=40)
    share = [t.decisions for t in evolved.trials if t.control]
    assert share == [t.decisions for t in drawn.trials if t.control]
    assert [t.number for t in evolved.trials if t.control] == list(range(3, 40, 4))


def test_rivals_and_finals_come_first_and_are_not_told_to_the_strategy(tmp_path: Path) -> None:
    """Also where the search is cut short between them, and goes on."""
    made = study(tmp_path, strategy="watching")
    arch = space().resolve(space().sample(Random(0)))
    rival = Proposal(decisions={"rival": notation(arch)}, origin=RIVAL, note="by hand", rung=1)
    search_first(made, [rival], trials=3)
    assert [t.origin for t in made.trials] == [RIVAL, "", "", ""]
    assert made.member(made.trials[0]) == arch
    assert made.notation(0) == notation(arch)
    final = [
        Proposal(decisions=t.decisions, origin=FINAL, parents=(t.number,), rung=FINAL_RUNG)
        for t in made.trials[1:3]
    ]
    search_first(Study.open(tmp_path), [rival, final[0]], trials=0)
    search_first(Study.open(tmp_path), [rival, *final], trials=0)
    search_first(Study.open(tmp_path), [rival, *final], trials=0)
    assert [t.origin for t in made.trials] == [RIVAL, "", "", "", FINAL, FINAL]
    assert {t.number for t in made.front} <= {4, 5}
    heard = {number for what, number, _ in Watching.calls if what == "tell"}
    assert heard <= {1, 2, 3}
    assert {1, 2} <= heard
    assert all(set(pending) <= {1, 2, 3} for _, _, pending in Watching.calls)


def search_first(made: Study, first: list[Proposal], trials: int) -> None:
    assert run(made, Serial(rated), trials=trials, first=first) == "trials"


def rated(job: Job) -> Mapping[str, float]:
    """A rival has decisions of another kind."""
    return {"loss": 1.0, "speed": 1.0} if job.trial.rival else values_of(job.trial)


def test_the_budget_of_time_counts_earlier_sessions(tmp_path: Path) -> None:
    evaluate = Logged(tmp_path / "log", pause=0.05)
    made = study(tmp_path / "s")
    assert search(made, evaluate, seconds=0.4) == "seconds"
    first = len(made.trials)
    assert 2 <= first <= 9
    assert search(made, evaluate, seconds=0.4) == "seconds"
    assert len(evaluate.lines()) <= first + 1
    assert search(made, evaluate, seconds=0.8) == "seconds"
    assert len(made.trials) > first


def test_a_stop_leaves_a_study_that_goes_on(tmp_path: Path) -> None:
    whole = study(tmp_path / "whole", window=3)
    search(whole, free, trials=30)
    made = study(tmp_path / "s", window=3)
    assert search(made, free, trials=30, stop=lambda: len(made.trials) >= 11) == "stopped"
    assert 11 <= len(made.trials) < 30
    assert made.state.running == 0

    def interrupted(job: Job) -> Mapping[str, float]:
        if job.trial.number == 20:
            raise KeyboardInterrupt
        return values_of(job.trial)

    with pytest.raises(KeyboardInterrupt):
        search(made, interrupted, trials=30)
    assert made.state.running == 0
    assert made.state.done == 20
    search(made, free, trials=30)
    assert archive(made) == archive(whole)


def test_events_tell_of_every_trial_once_it_is_on_record(tmp_path: Path) -> None:
    made = study(tmp_path / "s")
    seen: list[Event] = []

    def on_event(event: Event) -> None:
        seen.append(event)
        if event.trial is not None:
            assert Study.open(made.folder).trials[event.trial.number].state is not None

    search(made, free, trials=5, on_event=on_event)
    assert [e.trial.number for e in seen if e.kind == "finished" and e.trial] == list(range(5))
    assert [e.trial.number for e in seen if e.kind == "proposed" and e.trial] == list(range(5))
    assert seen[-1] == Event("ended", ending="trials")


def test_limits_bound_the_front_and_the_best(tmp_path: Path) -> None:
    made = study(tmp_path / "s", strategy="random")
    search(made, free, trials=60)
    losses = sorted(t.values["loss"] for t in made.trials)
    found = made.best("speed", loss=losses[20])
    assert found is not None
    allowed = [t for t in made.trials if t.values["loss"] <= losses[20]]
    assert found.values["speed"] == max(t.values["speed"] for t in allowed)
    assert made.best("speed", loss=losses[0] - 1) is None
    with pytest.raises(InputError, match="No objective is called 'sped'"):
        made.best("sped")
    bounded = study(tmp_path / "b", strategy="random", limits={"loss": losses[20]})
    search(bounded, free, trials=60)
    assert archive(bounded) == archive(made)
    assert {t.number for t in bounded.front} == {t.number for t in front(allowed, OBJECTIVES)}
    assert bounded.best("speed") == bounded.trials[found.number]


def test_the_front_is_what_comparing_all_pairs_gives(tmp_path: Path) -> None:
    made = study(tmp_path / "s", strategy="random")
    search(made, free, trials=120)

    def beats(a: Trial, b: Trial) -> bool:
        x, y = a.costs(OBJECTIVES), b.costs(OBJECTIVES)
        return x != y and all(i <= j for i, j in zip(x, y, strict=True))

    every = made.trials
    expected = {t.number for t in every if not any(beats(o, t) for o in every)}
    assert {t.number for t in made.front} == expected


def test_a_proposal_outside_the_space_fails_and_the_search_goes_on(tmp_path: Path) -> None:
    class Lost(Watching):
        def ask(self, number: int, pending: Sequence[Trial] = ()) -> Proposal | None:
            drawn = self.space.sample(self.rng(number))
            return Proposal(decisions={"heads0": 3} if number == 1 else drawn)

    strategy("lost")(Lost)
    try:
        made = study(tmp_path / "s", strategy="lost")
        search(made, free, trials=3)
    finally:
        STRATEGIES.forget("lost")
    assert [t.state for t in made.trials] == ["done", "failed", "done"]
    assert made.trials[1].reason == "SpecError: The decision heads0 = 3 is not allowed here."


def test_the_record_names_no_home(tmp_path: Path) -> None:
    home = str(Path.home())
    made = study(tmp_path / "s", command=f"search --out {home}/x")

    def evaluate(job: Job) -> Mapping[str, float]:
        raise OSError(f"{home}/secret is missing")

    search(made, evaluate, trials=1)
    assert made.meta["command"] == "search --out ~/x"
    assert made.trials[0].reason == "OSError: ~/secret is missing"


def test_numbers_of_numpy_are_stored_as_plain_ones(tmp_path: Path) -> None:
    class Numpy(Watching):
        def ask(self, number: int, pending: Sequence[Trial] = ()) -> Proposal | None:
            drawn = self.space.sample(self.rng(number))
            return Proposal(decisions={name: np.int64(value) for name, value in drawn.items()})

    def evaluate(job: Job) -> Mapping[str, float]:
        assert all(type(value) is int for value in job.trial.decisions.values())
        return {name: np.float32(0.5) for name in ("loss", "speed")}  # type: ignore[misc]

    strategy("numpy")(Numpy)
    try:
        made = study(tmp_path / "s", strategy="numpy")
        search(made, evaluate, trials=2)
    finally:
        STRATEGIES.forget("numpy")
    assert [t.values for t in made.trials] == [{"loss": 0.5, "speed": 0.5}] * 2


def test_an_executor_of_ones_own_needs_four_methods(tmp_path: Path) -> None:
    plain, odd = study(tmp_path / "a", window=5), study(tmp_path / "b", window=5)
    run(plain, Serial(free), trials=40)
    run(odd, Backwards(free), trials=40)
    assert archive(plain) == archive(odd)


def test_decisions_may_be_any_json_and_come_back_frozen(tmp_path: Path) -> None:
    class Nested(Space):
        name = "nested"

        def draw(self, rng: Any) -> Any:
            return {"code": [["op", rng.randrange(3)], {"of": [1, 2]}]}

        def change(self, parent: Any, rng: Any, rate: float | None = None) -> Any:
            return self.draw(rng)

        def resolve(self, decisions: Any) -> Any:
            (_, number), rest = decisions["code"]
            return number, tuple(rest["of"])

        def to_data(self) -> dict[str, Any]:
            return {}

        @classmethod
        def from_data(cls, data: Any) -> "Nested":
            return cls()

    space_kind("nested")(Nested)
    try:
        made = study(tmp_path / "s", space=Nested(), strategy="watching")
        run(made, Serial(lambda job: {"loss": float(job.arch[0]), "speed": 1.0}), trials=8)
        again = Study.open(tmp_path / "s")
        assert again.space.name == "nested"
        assert [t.decisions for t in again.trials] == [t.decisions for t in made.trials]
        assert again.trials[0].decisions["code"][1] == {"of": (1, 2)}
        assert {t.original is None for t in again.trials} == {True, False}  # three members only
    finally:
        KINDS.forget("nested")


def test_the_folders_of_parents_reach_the_evaluator_of_a_worker_too(tmp_path: Path) -> None:
    made = study(tmp_path / "s", strategy="climbing", window=1)
    search(made, parents_seen, workers=2, trials=4)
    seen = [trial.values["parents"] for trial in made.trials]
    assert seen == [0.0, 1.0, 0.0, 1.0]
