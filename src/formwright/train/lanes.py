"""Lanes: the batches that processes read side by side, whoever reads them.

A run has as many lanes as processes began it. Each lane has an order of batches, random numbers and
a memory of its own, and one update learns from all lanes as if they were one batch. So a run that
goes on with fewer processes, each of which then reads several lanes, learns the same.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

from formwright.errors import InputError
from formwright.ops.past import Past
from formwright.train.distributed import World, gathered


class Lanes:
    """All lanes of a run, and those that this process reads.

    Args:
        count: Of all.
        world: Who shares them.
        memory: Tokens that each remembers between batches.
    """

    def __init__(self, count: int, world: World, memory: int = 0) -> None:
        if count % world.size:
            able = " or ".join(str(n) for n in range(1, count + 1) if count % n == 0)
            words = f"{count} processes" if count > 1 else "one process"
            raise InputError(
                f"A run that {words} began can be continued by {able}, since processes share its "
                f"batches equally; {world.size} were started."
            )
        self.count, self.world = count, world
        self.own = range(world.rank, count, world.size)
        self.past = {lane: Past(memory) for lane in self.own} if memory else {}
        # of data held out, which has a memory of its own
        self.aside = {lane: Past(memory) for lane in self.own} if memory else {}
        self._states: dict[int, list[Tensor]] = {}
        self._seeds: dict[int, int] = {}

    def numbers(self, turns: range, plan: Any) -> list[int]:
        """The batches of a plan that this process reads in some turns, lane by lane in each."""
        return [self.number(turn, lane, plan) for turn in turns for lane in self.own]

    def number(self, turn: int, lane: int, plan: Any) -> int:
        """The batch of a plan that a lane reads in a turn.

        Where text goes on from batch to batch, each lane reads on in a place of its own.
        """
        whole = getattr(plan, "steps_per_epoch", 0)
        if self.past and whole:
            return turn + lane * (whole // self.count)
        return turn * self.count + lane

    # --- random numbers -----------------------------------------------------------------

    def seed(self, number: int) -> None:
        """Begin the random numbers of all lanes anew."""
        self._states = {}
        self._seeds = {lane: (number + lane) % 2**63 for lane in self.own}
        torch.manual_seed(self._seeds[self.own[0]])

    @contextmanager
    def random(self, lane: int) -> Iterator[None]:
        """Draw a lane's own random numbers, as if a process had no other lane."""
        if len(self.own) == 1:
            yield
            return
        if lane in self._states:
            _restore(self._states[lane])
        else:
            torch.manual_seed(self._seeds[lane])
        yield
        self._states[lane] = _state()

    # --- memory -------------------------------------------------------------------------

    def pasts(self, lane: int, batch: Any, count: int) -> list[Past | None]:
        """What each pass remembers; the next batch goes on from what the first one does."""
        if not self.past:
            return [None] * count
        memory = self.aside if getattr(batch, "aside", False) else self.past
        if batch.fresh:
            memory[lane] = memory[lane].emptied()
        past = memory[lane]
        return [past, *(past.copy() for _ in range(count - 1))]

    def to_tensors(self) -> Iterator[tuple[str, tuple[Any, Any]]]:
        """What all lanes remember, by name; all processes must ask at once."""
        kinds = {"past": self.past, "aside": self.aside}
        for kind, memory in kinds.items():
            if not memory or (kind == "aside" and not any(p.seen for p in memory.values())):
                continue
            mine = {lane: past.to_tensors() for lane, past in memory.items()}
            for theirs in gathered(mine, self.world):
                yield from ((_name(kind, lane), past) for lane, past in theirs.items())

    def restore(self, tensors: dict[str, dict[str, Tensor]], state: dict[str, Any]) -> None:
        """Remember what ``to_tensors`` gave, as far as it is this process's."""
        for kind, memory in (("past", self.past), ("aside", self.aside)):
            for lane in memory:
                name = _name(kind, lane)
                if name in state:
                    memory[lane] = Past.from_tensors(tensors[name], state[name])


def _name(kind: str, lane: int) -> str:
    """In a checkpoint."""
    return f"{kind}-{lane}" if lane else kind


def _state() -> list[Tensor]:
    """Where all random generators of this process stand."""
    return [torch.get_rng_state(), *(torch.cuda.get_rng_state_all() if _cuda() else ())]


def _restore(state: Sequence[Tensor]) -> None:
    torch.set_rng_state(state[0])
    if len(state) > 1:
        torch.cuda.set_rng_state_all(list(state[1:]))


def _cuda() -> bool:
    return torch.cuda.is_available() and torch.cuda.is_initialized()
