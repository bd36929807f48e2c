"""A Ray cluster to work on: one that runs already, or one that is started on this machine.

What is started here listens on the loopback device alone, has no dashboard, and answers only to
whoever knows its token.
"""

import os
import secrets
import signal
import sys
import threading
from dataclasses import dataclass
from typing import Any

from formwright.errors import InputError

MEASURES = "formwright_measure"  # the custom resource of nodes that are kept free to measure on

_SHARED_BYTES = 256 << 20  # memory of a cluster that is started here, for what workers share
_LOOPBACK = "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"  # "0" keeps Ray from other devices, on any system
_UNITS = {"K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}
_KNOWN = ("cpus", "gpus", "memory")
_STARTED: set[str] = set()  # addresses of clusters that this process has started


@dataclass(frozen=True)
class Request:
    """What one trial takes of a node while it runs; shares of a processor or a GPU are allowed.

    Args:
        cpus: Processors.
        gpus: GPUs; below 1 several trials share one.
        memory: Bytes; 0 asks for none in particular.
        custom: Whatever else nodes were started with, by name.
    """

    cpus: float = 1.0
    gpus: float = 0.0
    memory: int = 0
    custom: tuple[tuple[str, float], ...] = ()

    @classmethod
    def of(cls, text: str) -> "Request":
        """What was written: ``cpus=2,gpus=0.5,memory=4G,a100=1``.

        >>> Request.of("cpus=2,gpus=0.5")
        Request(cpus=2.0, gpus=0.5, memory=0, custom=())
        """
        found: dict[str, float] = {}
        for part in filter(None, (part.strip() for part in text.split(","))):
            name, equals, value = part.partition("=")
            if not equals or not name.isidentifier() or name in found:
                raise InputError(
                    f"{part!r} is no request; write for example cpus=1,gpus=0.5,memory=4G, each "
                    "name once."
                )
            found[name] = _amount(name, value)
        custom = tuple((n, v) for n, v in sorted(found.items()) if n not in _KNOWN)
        memory = int(found.get("memory", 0))
        return cls(found.get("cpus", 1.0), found.get("gpus", 0.0), memory, custom)

    @property
    def words(self) -> str:
        """As it may be written."""
        memory = (("memory", self.memory),) if self.memory else ()
        rows = (("cpus", self.cpus), ("gpus", self.gpus), *memory, *self.custom)
        return ",".join(f"{name}={value:.15g}" for name, value in rows)

    def options(self) -> dict[str, Any]:
        """For a task of Ray."""
        asked: dict[str, Any] = {"num_cpus": self.cpus, "num_gpus": self.gpus}
        if self.memory:
            asked["memory"] = self.memory
        return {**asked, "resources": dict(self.custom)} if self.custom else asked

    def fits(self, resources: dict[str, float]) -> bool:
        """Whether a node with these resources could ever run such a trial."""
        asked = {"CPU": self.cpus, "GPU": self.gpus, "memory": self.memory, **dict(self.custom)}
        return all(resources.get(name, 0.0) >= amount for name, amount in asked.items())


def _amount(name: str, text: str) -> float:
    unit = _UNITS.get(text[-1:], 1) if name == "memory" else 1
    try:
        found = float(text[:-1] if unit > 1 else text) * unit
    except ValueError:
        found = -1.0
    if not 0 <= found < 1e15 or (name != "memory" and found > 1 and found != int(found)):
        raise InputError(
            f"{name}={text} cannot be requested; give a number from 0 on, whole where it is above "
            "1, and memory as 4G."
        )
    return found


@dataclass
class Cluster:
    """A connection to a cluster.

    Args:
        ray: The library.
        ours: Whether it was started here, on this machine alone.
    """

    ray: Any
    ours: bool

    def nodes(self) -> dict[str, dict[str, Any]]:
        """Those that live, by id, with their resources."""
        return {n["NodeID"]: n for n in self.ray.nodes() if n["Alive"]}

    def room_for(self, request: Request) -> int:
        """How many trials fit at once as the cluster is now."""
        return sum(_times(request, node["Resources"]) for node in self.nodes().values())


def _times(request: Request, resources: dict[str, float]) -> int:
    """How often a request fits into what a node has."""
    if not request.fits(resources):
        return 0
    asked = {"CPU": request.cpus, "GPU": request.gpus, "memory": request.memory}
    asked |= dict(request.custom)
    found = [int(resources[name] / amount + 1e-9) for name, amount in asked.items() if amount]
    return min(found, default=1)


def connect(address: str = "", processors: int = 1) -> Cluster:
    """The cluster at an address, or one of this machine; asked again, it is the same.

    Args:
        address: ``auto`` for the cluster that this machine belongs to, ``host:port`` of its head;
            nothing starts one here.
        processors: That a cluster which is started here has to give.
    """
    if address.startswith("ray://"):
        raise InputError(
            f"--address {address} goes through Ray's client, which cannot stream results. Run the "
            "command on a node of the cluster with --address auto."
        )
    ray = library(started=not address)
    if ray.is_initialized():
        return Cluster(ray, ours=ray.get_runtime_context().gcs_address in _STARTED)
    if not address:
        return _started(ray, processors)
    try:
        _begun(ray, address=address)
    except (ConnectionError, RuntimeError, ValueError) as error:
        reason = str(error).strip().split("\n")[0]
        raise InputError(
            f"No Ray cluster answers at --address {address}: {reason} Start one with Ray's "
            "own command, or leave --address out to start one on this machine."
        ) from None
    return Cluster(ray, ours=False)


def library(*, started: bool) -> Any:
    """Ray, told before it is loaded where a cluster of ours may be heard."""
    if started and "ray" not in sys.modules:  # it reads these when it is loaded
        os.environ.setdefault(_LOOPBACK, "0")
        if "RAY_AUTH_MODE" not in os.environ:
            os.environ["RAY_AUTH_MODE"] = "token"
            os.environ.setdefault("RAY_AUTH_TOKEN", secrets.token_hex(32))
    try:
        import ray  # noqa: PLC0415  # optional, and slow to import
    except ImportError:
        raise InputError(
            "The executor 'ray' needs the package ray; run: pip install 'formwright[ray]'"
        ) from None
    return ray


def _begun(ray: Any, **options: Any) -> None:
    """Connect, and leave to this program what it does about signals and what it prints."""
    main = threading.current_thread() is threading.main_thread()
    before = signal.getsignal(signal.SIGTERM)
    ray.init(configure_logging=False, log_to_driver=False, **options)
    if main:
        signal.signal(signal.SIGTERM, before)
    # Ray prints what befalls nodes and workers to the output of the program, where JSON may be
    # expected; the study's events say it.
    loud = sys.modules.get("ray._private.worker")
    if hasattr(loud, "_worker_logs_enabled"):
        loud.__dict__["_worker_logs_enabled"] = False


def _started(ray: Any, processors: int) -> Cluster:
    _begun(
        ray,
        address="local",
        num_cpus=processors,
        include_dashboard=False,
        object_store_memory=_SHARED_BYTES,
        _node_ip_address="127.0.0.1",
    )
    heard = [node["NodeManagerAddress"] for node in ray.nodes()]
    if heard != ["127.0.0.1"]:  # Ray was loaded before it could be told
        ray.shutdown()
        raise InputError(
            f"Ray would listen on {', '.join(heard)}. Set {_LOOPBACK}=0 before the program loads "
            "ray, or start a cluster yourself and give its address."
        )
    _STARTED.add(ray.get_runtime_context().gcs_address)
    return Cluster(ray, ours=True)
