"""The loop of a gradient search, resumable to the bit.

run.json      task and training numbers, with the member that an untrained policy derives
search.json   space, policy and search numbers: what the same command must agree with
log.jsonl     one line per look: step, losses, seconds
trace.jsonl   what is searched, and how much of each option was on over time: see ``trace``
checkpoint-*/ see ``train.checkpoint``
result.json   what was found, written last; not by a search that diverged
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import torch

from formwright.arch import Architecture
from formwright.arch.codec import to_data
from formwright.errors import InputError
from formwright.space import Decisions, space_data
from formwright.strategy.gradient.config import SearchConfig
from formwright.strategy.gradient.policy import GatePolicy
from formwright.strategy.gradient.stepping import SupernetSearch
from formwright.supernet import Supernet
from formwright.trace import Trace
from formwright.train.config import TrainConfig
from formwright.train.data import Task
from formwright.train.distributed import mean
from formwright.train.engine import Loss
from formwright.train.loop import Loop, OnProgress
from formwright.train.run import RunFolder

_STABLE = "the choice no longer changes"


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


def search_supernet(  # noqa: PLR0913  # the parts of a search, and who watches it
    supernet: Supernet,
    policy: GatePolicy,
    task: Task,
    train: TrainConfig,
    config: SearchConfig | None = None,
    *,
    out: str | Path | None = None,
    on_event: OnProgress | None = None,
    stop: Callable[[SupernetSearch], bool] | None = None,
    loss: Loss | None = None,
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
        loss: In place of the task's, as of ``train.engine.Engine``.

    Raises:
        Diverged: What was learnt means nothing; it says why, and holds the result.
    """
    search = SupernetSearch(supernet, policy, task, train, config, loss=loss)
    folder = _Folder(Path(out), search) if out is not None else None
    try:
        found = _Loop(search, folder, on_event, stop).result()
    finally:
        if folder is not None:
            folder.close()
    if found.state == "diverged":
        raise Diverged(found, train)
    return found


class _Loop(Loop):
    """The loop of a search, which has choices to tell of."""

    evaluates = False

    def __init__(
        self,
        search: SupernetSearch,
        folder: RunFolder | None,
        on_event: OnProgress | None,
        stop: Callable[[SupernetSearch], bool] | None,
    ) -> None:
        asked = (lambda: False) if stop is None else (lambda: stop(search))
        super().__init__(search.engine, folder, on_event, asked)
        self.search = search
        self.losses: dict[str, float] = {}  # of the last step

    def result(self) -> SearchResult:
        """From the last checkpoint, or the beginning, to the end."""
        self.resume()
        state, reason = self.run()
        self.engine.whole_model()
        search, policy = self.search, self.search.policy
        words: dict[str, Any] = {"interrupted": "stopped", "diverged": "diverged"}
        found = SearchResult(
            "stable" if reason == _STABLE else words.get(state, "finished"),
            policy.derive(),
            search.derive(),
            policy.probabilities(),
            search.number,
            self.seconds(),
            reason if state == "diverged" else "",
        )
        if state == "finished":
            self.save()
            if self.folder is not None:
                self.folder.finish(found.to_data())
        if state != "interrupted":
            self.on_event({"kind": "end", **found.to_data()})
        return found

    def take(self) -> None:
        search, step, chosen = self.search, self.search.number, self.search.chosen
        weights, choices = search.config.teaches(step)
        batches = self.engine.fetch()
        self.losses = search.step(batches if weights else None, batches if choices else None)
        for loss in list(self.losses.values())[:1]:  # a policy that learns nothing sees none
            self.window.add(loss, 0.0)
        if search.chosen != chosen:
            self.say({"kind": "choice", "step": step, "decisions": dict(search.chosen)})

    def over(self) -> str:
        stable = self.search.config.stable
        return super().over() or (_STABLE if stable and self.search.unchanged >= stable else "")

    def fault(self, looks: bool, ends: bool) -> str:
        fault = super().fault(looks, ends)
        if fault or not ends:
            return fault
        learnt = (*self.engine.whole_model().parameters(), *self.search.policy.parameters())
        if all(bool(p.isfinite().all()) for p in learnt):
            return ""
        return f"weights or gates stopped being numbers by step {self.search.number}"

    def look(self, loss: float, gradient: float) -> None:
        step = self.search.number
        values = torch.tensor(list(self.losses.values()), dtype=torch.float64).to(
            **self.window.like
        )
        losses = dict(zip(self.losses, mean(values, self.world).tolist(), strict=True))
        self.say({"kind": "step", "step": step, **losses, "seconds": self.seconds()})
        shares = self.search.policy.probabilities()
        self.on_event({"kind": "gates", "step": step, "values": shares})
        if isinstance(self.folder, _Folder) and self.folder.leads:
            self.folder.trace.add_gates(step, shares)

    def state(self) -> dict[str, Any]:
        return {**super().state(), "unchanged": self.search.unchanged}

    def restore(self, state: dict[str, Any]) -> None:
        super().restore(state)
        self.search.unchanged = state["unchanged"]
        self.search.chosen = self.search.policy.derive()


class _Folder(RunFolder):
    """The files of a search, beside those of any run."""

    def __init__(self, path: Path, search: SupernetSearch) -> None:
        engine, policy = search.engine, search.policy
        leads = engine.world.leads
        super().__init__(path, search.derive(), engine.task.name, engine.config, leads=leads)
        asked = {
            "space": space_data(search.supernet.space),
            "policy": type(policy).__name__,
            "price": policy.price,
            "search": search.config.to_data(),
        }
        self.trace = Trace(path)
        self.agree("search.json", asked)
        if leads and self.trace.last("space") is None:
            self.trace.add("space", space=space_data(search.supernet.space))

    def trim_logs(self, step: int) -> None:
        super().trim_logs(step)
        if self.leads:
            self.trace.trim(step)
