"""The loop of a gradient search, resumable to the bit.

run.json      task and training numbers, with the member that an untrained policy derives
search.json   space, policy and search numbers: what the same command must agree with
log.jsonl     one line per look: step, losses, seconds
gates.jsonl   step, name, values: how much of each option was on, over time
checkpoint-*/ see ``train.checkpoint``
result.json   what was found, written last; not by a search that diverged
"""

import json
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from formwright.arch import Architecture
from formwright.arch.codec import to_data
from formwright.errors import InputError
from formwright.files import write_atomically
from formwright.space.part import Decisions
from formwright.strategy.gradient.config import SearchConfig
from formwright.strategy.gradient.policy import GatePolicy
from formwright.strategy.gradient.stepping import SupernetSearch
from formwright.supernet import Supernet
from formwright.train.checkpoint import read_latest, write_checkpoint
from formwright.train.config import TrainConfig
from formwright.train.data import Plan, Task
from formwright.train.loop import divergence
from formwright.train.run import RunFolder

OnEvent = Callable[[dict[str, Any]], None]


@dataclass(frozen=True)
class SearchResult:
    """What a search has come to.

    ``stable`` searches ended because the choice no longer changed; ``stopped`` ones because a
    caller's ``stop`` said so, and can be continued. Of ``diverged`` ones the loss, or what was
    learnt, is no number any more, or the loss is far above that of the first step: what they would
    choose means nothing, and ``reason`` says what happened.
    """

    state: Literal["finished", "stable", "stopped", "diverged"]
    decisions: Decisions
    arch: Architecture
    probabilities: dict[str, tuple[float, ...]]
    steps: int
    seconds: float
    reason: str = ""

    def to_data(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return {
            "state": self.state,
            "decisions": dict(self.decisions),
            "architecture": to_data(self.arch),
            "probabilities": self.probabilities,
            "steps": self.steps,
            "seconds": self.seconds,
            "reason": self.reason,
        }


class Diverged(InputError):
    """A search led nowhere.

    Args:
        result: How far it came, and why no further.
        train: The numbers that it was begun with.
    """

    def __init__(self, result: SearchResult, train: TrainConfig) -> None:
        self.result = result
        clip = "" if train.clip else " or clip its gradients (clip=1)"
        super().__init__(
            f"The training of the supernet diverged: {result.reason}. Lower its rate "
            f"(lr={train.lr:g}){clip}, and begin in a new folder."
        )


def search_supernet(
    supernet: Supernet,
    policy: GatePolicy,
    task: Task,
    train: TrainConfig,
    config: SearchConfig | None = None,
    *,
    out: str | Path | None = None,
    on_event: OnEvent | None = None,
    stop: Callable[[SupernetSearch], bool] | None = None,
) -> SearchResult:
    """Train a supernet and its policy together.

    Args:
        supernet: What is searched; it is trained in place.
        policy: Who holds the gates.
        task: Data and loss.
        train: The numbers of the weights' training; ``steps`` counts every update, of weights or
            choices, each on ``accumulate`` batches. See ``SupernetSearch`` for what is passed over.
        config: When and how the architecture is updated.
        out: Folder of the search; the same call continues what is there.
        on_event: Called with what happens: ``gates`` with probabilities by name, ``step``,
            ``choice`` when the best member changes, ``end``.
        stop: Asked after each step; True ends the call, and a checkpoint is left to go on from.

    Raises:
        Diverged: What was learnt means nothing; it says why, and holds the result.
    """
    search = SupernetSearch(supernet, policy, task, train, config)
    folder = _Folder(Path(out), search) if out is not None else None
    try:
        found = _Loop(search, folder, on_event or (lambda event: None)).run(stop)
    finally:
        if folder is not None:
            folder.close()
    if found.state == "diverged":
        raise Diverged(found, train)
    return found


class _Loop:
    def __init__(self, search: SupernetSearch, folder: "_Folder | None", on_event: OnEvent) -> None:
        self.search, self.folder, self.on_event = search, folder, on_event
        self.started, self.before = time.perf_counter(), 0.0
        self.first: float | None = None  # loss of the first step
        self.losses: list[float] = []  # since the last look
        if folder is not None:
            saved = folder.latest(on_event)
            if saved is not None:
                search.restore(saved)
                self.before = saved.state["seconds"]
                self.first, self.losses = saved.state.get("losses", (None, []))
                on_event({"kind": "resumed", "step": search.number})

    def run(self, stop: Callable[[SupernetSearch], bool] | None) -> SearchResult:
        search, train = self.search, self.search.train
        plan = search.task.plan(
            batch_tokens=train.batch_tokens, seed=train.seed, memory=train.memory
        )
        ending = self.over()
        while not ending:
            losses = self.step(plan)
            asked, ending = stop is not None and stop(search), self.over()
            saves = asked or search.number % train.checkpoint_every == 0
            looks = search.number % train.log_every == 0 or (bool(ending) and not asked)
            fault = self.fault(looks, bool(ending)) if looks or saves else ""
            if fault:
                return self.diverged(fault)
            if looks:
                self.look(losses)
            if saves:
                self.save()
            if asked:
                return self.result("stopped")
        found = self.result(ending)
        self.save()
        if self.folder is not None:
            self.folder.run.finish(found.to_data())
        self.on_event({"kind": "end", **found.to_data()})
        return found

    def step(self, plan: Plan) -> dict[str, float]:
        """One update; the losses it saw."""
        search = self.search
        step, chosen, each = search.number, search.chosen, search.train.accumulate
        weights, choices = search.config.teaches(step)
        batches = [plan.batch(step * each + part) for part in range(each)]
        search.seconds = self.seconds()
        losses = search.step(batches if weights else None, batches if choices else None)
        for loss in list(losses.values())[:1]:  # a policy that learns nothing sees none
            self.losses.append(loss)
            self.first = loss if self.first is None else self.first
        if search.chosen != chosen:
            self.say({"kind": "choice", "step": step, "decisions": dict(search.chosen)})
        return losses

    def fault(self, looks: bool, ends: bool) -> str:
        """Why the search leads nowhere; nothing while it does.

        Between two looks all that is asked is whether the loss is a number, so that a search that
        was stopped there comes to the same end.
        """
        step, count = self.search.number, max(1, len(self.losses))
        fault = divergence(sum(self.losses) / count, self.first if looks else None, step)
        if not fault and ends and not self.search.sound:
            return f"weights or gates stopped being numbers by step {step}"
        return fault

    def diverged(self, reason: str) -> SearchResult:
        """The end of a search that leads nowhere; its last good checkpoint stays."""
        found = replace(self.result("diverged"), reason=reason)
        self.on_event({"kind": "end", **found.to_data()})
        return found

    def over(self) -> Any:
        """Why the search has ended; nothing while it goes on."""
        search = self.search
        if search.train.steps is not None and search.number >= search.train.steps:
            return "finished"
        if search.train.seconds is not None and self.seconds() >= search.train.seconds:
            return "finished"
        stable = search.config.stable
        return "stable" if stable and search.unchanged >= stable else ""

    def look(self, losses: dict[str, float]) -> None:
        step, self.losses = self.search.number, []
        self.say({"kind": "step", "step": step, **losses, "seconds": self.seconds()})
        shares = self.search.policy.probabilities()
        self.on_event({"kind": "gates", "step": step, "values": shares})
        if self.folder is not None:
            self.folder.log_gates(step, shares)

    def say(self, event: dict[str, Any]) -> None:
        if self.folder is not None:
            self.folder.run.log(event)
        self.on_event(event)

    def seconds(self) -> float:
        return self.before + time.perf_counter() - self.started

    def save(self) -> None:
        if self.folder is not None:
            state = {"seconds": self.seconds(), "losses": [self.first, self.losses]}
            saved = self.search.checkpoint(state)
            write_checkpoint(self.folder.path, saved)

    def result(self, state: Any) -> SearchResult:
        search = self.search
        return SearchResult(
            state,
            search.decisions(),
            search.derive(),
            search.policy.probabilities(),
            search.number,
            self.seconds(),
        )


class _Folder:
    """The files of a search, beside those of any run."""

    def __init__(self, path: Path, search: SupernetSearch) -> None:
        self.path = path
        supernet = search.supernet
        arch = supernet.space.resolve(search.policy.derive())
        self.run = RunFolder(path, arch, search.task.name, search.train)
        self._agree(
            {
                "space": supernet.space.to_data(),
                "policy": type(search.policy).__name__,
                "price": search.policy.price,
                "search": search.config.to_data(),
            }
        )

    def latest(self, on_event: OnEvent) -> Any:
        """The newest whole checkpoint; what was logged after it comes again."""
        saved, faults = read_latest(self.path)
        for fault in faults:
            on_event({"kind": "fault", "message": fault})
        step = saved.step if saved is not None else 0
        self.run.trim_log(step)
        gates = self.path / "gates.jsonl"
        if gates.exists():
            lines = gates.read_text(encoding="utf-8").splitlines()
            kept = "".join(f"{line}\n" for line in lines if _step_of(line) <= step)
            write_atomically(gates, kept.encode())
        return saved

    def log_gates(self, step: int, shares: dict[str, tuple[float, ...]]) -> None:
        """One line per decision."""
        with open(self.path / "gates.jsonl", "a", encoding="utf-8") as file:
            for name, values in shares.items():
                line = {"step": step, "name": name, "values": [round(v, 6) for v in values]}
                file.write(json.dumps(line) + "\n")

    def close(self) -> None:
        self.run.close()

    def _agree(self, asked: dict[str, Any]) -> None:
        path = self.path / "search.json"
        text = json.dumps(asked, indent=1, sort_keys=True)
        if not path.exists():
            write_atomically(path, text.encode())
        elif path.read_text(encoding="utf-8") != text:
            self.close()
            raise InputError(
                f"{self.path} holds another search (another space, policy or numbers); "
                "use another folder, or give what search.json says."
            )


def _step_of(line: str) -> int:
    try:
        return int(json.loads(line)["step"])
    except (ValueError, KeyError, TypeError):  # cut off by a crash
        return 2**63
