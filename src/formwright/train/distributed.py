"""One process or many: what a run must know about the others.

Started by torchrun or by ``launch``, every process sees RANK and WORLD_SIZE; started plainly there
is one. Weights are copied to all (DDP) or, with ``shard``, spread over them (FSDP2). The caller's
code is the same.
"""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

MEETING = "FORMWRIGHT_MEETING"  # names the file through which processes meet, where there is one


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
        if device.type == "cuda":
            torch.cuda.set_device(device)
        how: dict[str, Any] = {}
        if MEETING in os.environ:
            rank = int(os.environ["RANK"])
            how = {"init_method": f"file://{os.environ[MEETING]}", "rank": rank, "world_size": size}
        dist.init_process_group("nccl" if device.type == "cuda" else "gloo", **how)
    return World(dist.get_rank(), dist.get_world_size())


def leave_world() -> None:
    """Say goodbye to the other processes, if there are any."""
    if dist.is_initialized():
        dist.destroy_process_group()


def leads() -> bool:
    """Whether this process, among those that were started together, speaks to the user."""
    return int(os.environ.get("RANK", "0")) == 0


def own_device(device: torch.device) -> torch.device:
    """The device of this process: each has its own where CUDA was asked for without a number."""
    if str(device) == "cuda" and "LOCAL_RANK" in os.environ:
        return torch.device("cuda", int(os.environ["LOCAL_RANK"]))
    return device


def spread(module: nn.Module, world: World, *, shard: bool, partly: bool = False) -> nn.Module:
    """The module as all processes train it together; ``partly``: it may leave weights unused."""
    if world.size == 1:
        return module
    if shard:
        from torch.distributed.fsdp import fully_shard  # noqa: PLC0415  # slow to import

        fully_shard(module)
        return module
    return nn.parallel.DistributedDataParallel(module, find_unused_parameters=partly)


def whole(tensor: Tensor) -> Tensor:
    """A tensor with the shards of all processes put together; all must ask at once."""
    found: Tensor = tensor.full_tensor() if hasattr(tensor, "full_tensor") else tensor
    return found


def like(tensor: Tensor, other: Any) -> Tensor:
    """A whole tensor, spread over the processes where another of its shape is."""
    if not hasattr(other, "full_tensor") or tensor.shape != other.shape:
        return tensor
    from torch.distributed.tensor import distribute_tensor  # noqa: PLC0415  # slow to import

    # every process holds the whole, so that nothing need be sent
    return distribute_tensor(tensor, other.device_mesh, other.placements, src_data_rank=None)


def gathered(value: Any, world: World) -> list[Any]:
    """What each process has, by rank."""
    found = [value] * world.size
    if world.size > 1:
        dist.all_gather_object(found, value)
    return found


def mean(values: Tensor, world: World) -> Tensor:
    """The mean over all processes."""
    if world.size > 1:
        values = values.detach().clone()
        dist.all_reduce(values)
        values /= world.size
    return values


def shared(loss: Tensor, world: World) -> Tensor:
    """A loss whose value is the mean over all processes, and whose gradient is this one's."""
    return loss if world.size == 1 else loss + (mean(loss, world) - loss.detach())


def average_gradients(module: nn.Module, world: World) -> None:
    """Give all processes the mean of their gradients."""
    for p in module.parameters():
        if p.grad is not None:
            p.grad = mean(p.grad, world)


def agreed(values: Sequence[float], world: World, device: torch.device) -> list[float]:
    """The largest of each value over all processes, so that they stop together."""
    if world.size == 1:
        return list(values)
    found = torch.tensor(values, device=device, dtype=torch.float64)
    dist.all_reduce(found, op=dist.ReduceOp.MAX)
    return found.tolist()
