"""One process or many: what a run must know about the others.

Started by torchrun, every process sees RANK and WORLD_SIZE; started plainly there is one. Weights
are copied to all (DDP) or, with ``shard``, spread over them (FSDP2). The caller's code is the same.
"""

import os
from dataclasses import dataclass
from typing import Any, cast

import torch
import torch.distributed as dist
from torch import Tensor, nn

from formwright.errors import StorageError


@dataclass(frozen=True)
class World:
    """This process among all."""

    rank: int = 0
    size: int = 1

    @property
    def leads(self) -> bool:
        """Whether this process writes files and speaks to the user."""
        return self.rank == 0


def join_world(device: torch.device) -> World:
    """Find the other processes, if there are any, and connect to them."""
    size = int(os.environ.get("WORLD_SIZE", "1"))
    if size == 1:
        return World()
    if not dist.is_initialized():
        dist.init_process_group("nccl" if device.type == "cuda" else "gloo")
    return World(dist.get_rank(), dist.get_world_size())


def spread(module: nn.Module, world: World, *, shard: bool) -> nn.Module:
    """The module as all processes train it together."""
    if world.size == 1:
        return module
    if shard:
        from torch.distributed.fsdp import fully_shard  # noqa: PLC0415  # slow to import

        fully_shard(module)
        return module
    return nn.parallel.DistributedDataParallel(module)


def whole_state(
    model: nn.Module, optimiser: torch.optim.Optimizer, sharded: bool
) -> tuple[dict[str, Tensor], dict[Any, dict[str, Any]]]:
    """All weights and the optimiser's moments, gathered on every process."""
    if not sharded:
        return dict(model.state_dict()), optimiser.state_dict()["state"]
    from torch.distributed.checkpoint.state_dict import (  # noqa: PLC0415  # slow to import
        StateDictOptions,
        get_state_dict,
    )

    options = StateDictOptions(full_state_dict=True)
    weights, moments = get_state_dict(model, optimiser, options=options)
    found: dict[str, Any] = dict(moments)
    return {str(k): cast(Tensor, v) for k, v in weights.items()}, found["state"]


def restore_state(
    model: nn.Module,
    optimiser: torch.optim.Optimizer,
    weights: dict[str, Tensor],
    moments: dict[Any, dict[str, Any]],
    sharded: bool,
) -> None:
    """The inverse of ``whole_state``, for weights that are not sharded."""
    if sharded:
        raise StorageError(
            "A sharded run cannot be continued yet. Its checkpoints hold whole weights: "
            "continue it unsharded (shard=False), or begin anew in another folder."
        )
    model.load_state_dict(weights)
    optimiser.load_state_dict({**optimiser.state_dict(), "state": moments})


def agreed(value: bool, world: World, device: torch.device) -> bool:
    """True on all processes if it is on any, so that they stop together."""
    if world.size == 1:
        return value
    flag = torch.tensor(float(value), device=device)
    dist.all_reduce(flag, op=dist.ReduceOp.MAX)
    return bool(flag > 0)
