"""The loop of a gradient search, resumable to the bit.

run.json      task and training numbers, with the member that an untrained policy derives
search.json   space, policy and search numbers: what the same command must agree with
log.jsonl     one line per look: step, losses, seconds
gates.jsonl   step, name, values: how much of each option was on, over time
checkpoint-*/ see ``train.checkpoint``
result.json   what was found, written last
"""

import json
import time
from collections.abc import Callable
from dataclasses import dataclass
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
from formwright.train.data import Task
from formwright.train.run import RunFolder

OnEvent = Callable[[dict[str, Any]], None]


@dataclass(frozen=True)
class SearchResult:
    """What a search has come to.

    ``stable`` searches ended because the choice no longer changed; ``stopped`` ones because a
    caller's ``stop`` said so, and can be continued.
    """

    state: Literal["finished", "stable", "stopped"]
    decisions: Decisions
    arch: Architecture
    probabilities: dict[str, tuple[float, ...]]
    steps: int
    seconds: float

    def to_data(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return {
            "state": self.state,
            "decisions": dict(self.decisions),
            "architecture": to_data(self.arch),
            "probabilities": self.probabilities,
            "steps": self.steps,
            "seconds": self.seconds,
        }


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
        train: The numbers of the weights' training; ``steps`` counts all batches.
        config: When and how the architecture is updated.
        out: Folder of the search; the same call continues what is there.
        on_event: Called with what happens: ``gates`` with probabilities by name, ``step``,
            ``choice`` when the best member changes, ``end``.
        stop: Asked after each step; True ends the call, and a checkpoint is left to go on from.
    """
    search = SupernetSearch(supernet, policy, task, train, config)
    folder = _Folder(Path(out), search) if out is not None else None
    try:
        return _Loop(search, folder, on_event or (lambda event: None)).run(stop)
    finally:
        if folder is not None:
            folder.close()


class _Loop:
    def __init__(self, search: SupernetSearch, folder: "_Folder | None", on_event: OnEvent) -> None:
        self.search, self.folder, self.on_event = search, folder, on_event
        self.started, self.before = time.perf_counter(), 0.0
        if folder is not None:
            saved = folder.latest(on_event)
            if saved is not None:
                search.restore(saved)
                self.before = saved.state["seconds"]
                on_event({"kind": "resumed", "step": search.number})

    def run(self, stop: Callable[[SupernetSearch], bool] | None) -> SearchResult:
        search, train = self.search, self.search.train
        plan = search.task.plan(
            batch_tokens=train.batch_tokens, seed=train.seed, memory=train.memory
        )
        while not self.over():
            step, chosen = search.number, search.chosen
            weights, choices = search.config.teaches(step)
            batch = plan.batch(step)
            losses = search.step(batch if weights else None, batch if choices else None)
            if search.chosen != chosen:
                self.say({"kind": "choice", "step": step, "decisions": dict(search.chosen)})
            if search.number % train.log_every == 0:
                self.look(losses)
            if stop is not None and stop(search):
                self.save()
                return self.result("stopped")
            if search.number % train.checkpoint_every == 0:
                self.save()
        found = self.result(self.over() or "finished")
        self.save()
        if self.folder is not None:
            self.folder.run.finish(found.to_data())
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
        step = self.search.number
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
            saved = self.search.checkpoint({"seconds": self.seconds()})
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
