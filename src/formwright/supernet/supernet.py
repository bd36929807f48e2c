"""One model that holds the weights of a whole space; gates decide which part of it runs.

It is an ordinary model: tasks, losses, memory and the training engine know no difference.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import wraps
from typing import Any

import torch
from torch import Tensor, nn

from formwright.arch.layer import Layer
from formwright.arch.site import Site
from formwright.errors import SpecError
from formwright.model import Model, build
from formwright.model.init import initialise
from formwright.ops.base import Context
from formwright.space.choice import Value
from formwright.space.part import Decisions
from formwright.space.tree import TreeSpace
from formwright.supernet.extract import copy_weights, decisions_under
from formwright.supernet.fixing import taken
from formwright.supernet.fold import fold_gates
from formwright.supernet.gates import GateHolder, Gates, Slot, gates_of, plain_number
from formwright.supernet.mixture import SupernetBuilder
from formwright.supernet.narrow import Found, Narrow, remember_frame
from formwright.supernet.plain import plain_architecture
from formwright.supernet.price import Price, prices, slice_prices
from formwright.supernet.translate import stream_slots, translated


def _at_size(method: Callable[..., Found]) -> Callable[..., Found]:
    """A method of a model, run on the model at the sizes of the moment."""

    @wraps(method)
    def run(self: "Supernet", *args: Any, **inputs: Any) -> Found:
        past = inputs.get("past")
        if past is not None and self._largest:  # what another width remembers is of no use
            past.claim_all(str([self.holder.sizes[name] for name in self._largest]))
        return self._sized(lambda model: method(model, *args, **inputs))

    return run


class Supernet(Model):
    """All members of a space in one module.

    Args:
        space: A space declared as an architecture with a frame.
        seed: The initial weights follow from it.
        dropout: As in ``build``.
        attention_dropout: As in ``build``.
        fixed: Decisions taken beforehand, for what a supernet cannot hold open.
        checkpoint: Compute options again in the backward pass in place of keeping their
            activations: less memory, about a third more time. Not with memory between calls.

    The widest stream is held, and narrower ones are slices of it; see ``slicing`` for what that
    means for the heads of attention. Until gates are set, options share equally, all blocks are
    on, depth and sizes are largest.
    """

    def __init__(
        self,
        space: TreeSpace,
        *,
        seed: int = 0,
        dropout: float = 0.0,
        attention_dropout: float = 0.0,
        fixed: Mapping[str, Value] | None = None,
        checkpoint: bool = False,
    ) -> None:
        if fixed:
            declared = taken(space.declared, fixed)
            space = TreeSpace(declared, space.constraints, space.name)
        stream = stream_slots(space)
        self._largest = {name: slot.values[-1] for name, slot in stream.items()}
        arch, slots = translated(space, self._largest)
        if not stream and not slots:
            raise SpecError(f"The space {space.name!r} has nothing open; use build.")
        holder = GateHolder({**stream, **slots})
        holder.checkpoint = checkpoint
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            super().__init__(arch, SupernetBuilder(dropout, attention_dropout, holder=holder))
            initialise(self)
        remember_frame(self)
        self.space, self.holder = space, holder
        self.fixed: Mapping[str, Value] = dict(fixed or {})
        self._dropout = (dropout, attention_dropout)
        self._narrow: dict[tuple[Value, ...], Narrow] = {}
        if stream:  # what cannot be sliced is refused here, not while running
            self._made({name: slot.values[0] for name, slot in stream.items()})

    @property
    def slots(self) -> Mapping[str, Slot]:
        """Every open decision by name."""
        return self.holder.slots

    # --- gates --------------------------------------------------------------------------

    def gates_for(self, decisions: Decisions) -> Gates:
        """The hard gates of a member: its own parts on, all else off."""
        return gates_of(self.slots, self.space.checked(decisions))

    def set_gates(self, gates: Gates | Decisions) -> None:
        """Run under these gates, or as the member of these decisions, from now on."""
        self.holder.set(gates if isinstance(gates, Gates) else self.gates_for(gates))

    @contextmanager
    def gated(self, gates: Gates | Decisions) -> Iterator["Supernet"]:
        """Run under these gates inside a ``with`` block, then as before."""
        found = gates if isinstance(gates, Gates) else self.gates_for(gates)
        with self.holder.under(found):
            yield self

    @contextmanager
    def remembering(self) -> Iterator[None]:
        """Inside a ``with`` block, an option that is given the input it had last is not run again.

        To look at one batch under many gates, without gradients: nothing else may change between.
        """
        known: dict[nn.Module, tuple[Tensor, Tensor]] = {}

        def recall(option: nn.Module, x: Tensor, ctx: Context) -> Tensor:
            before = known.get(option)
            if before is None or not torch.equal(before[0], x):
                before = known[option] = (x, option(x, ctx))
            return before[1]

        self.holder.memory = recall
        try:
            yield
        finally:
            self.holder.memory = None

    # --- running ------------------------------------------------------------------------

    forward = _at_size(Model.forward)
    features = _at_size(Model.features)
    encode = _at_size(Model.encode)
    loss = _at_size(Model.loss)
    loss_at = _at_size(Model.loss_at)
    enter = _at_size(Model.enter)
    read = _at_size(Model.read)
    run = _at_size(Model.run)
    hidden = _at_size(Model.hidden)
    finish = _at_size(Model.finish)
    answer = _at_size(Model.answer)

    def _sized(self, use: Callable[[Model], Found]) -> Found:
        """What ``use`` makes of the model at the sizes of the moment: this one at the largest."""
        sizes = {name: self.holder.sizes[name] for name in self._largest}
        return use(self) if sizes == self._largest else self._made(sizes).lent(self, use)

    def _made(self, sizes: Mapping[str, Value]) -> Narrow:
        key = tuple(sizes.values())
        if key not in self._narrow:
            arch, _ = translated(self.space, sizes)
            builder = SupernetBuilder(*self._dropout, holder=self.holder)
            self._narrow[key] = Narrow(self, arch, builder)
        return self._narrow[key]

    # --- taking members out -------------------------------------------------------------

    @torch.no_grad()
    def extract(self, decisions: Decisions, *, seed: int = 0) -> Model:
        """A member as a plain model, with the weights it has in the supernet, copied."""
        arch = self.space.resolve(decisions)
        with self.gated(decisions):
            return self._copied(build(arch, seed=seed, **self._kind()))

    @torch.no_grad()
    def materialise(self, gates: Gates) -> Model:
        """The plain model of gates that need not be 0 or 1: what is off is gone.

        A gate of a block beside others is multiplied into the block's last matrix, gates of slices
        into the operator's own, and what is 0 is cut out of them. The weights of connectors and
        the share of a LayerNorm's mean stay as numbers of the architecture.
        """
        with self.gated(gates):
            rows = {n: tuple(map(plain_number, self.holder.row(n))) for n in self._gated()}
            slices = {n: tuple(map(plain_number, r)) for n, r in self.holder.slices.items()}
            self.holder.set(Gates(rows, gates.sizes, gates.totals, slices, gates.loose))
            arch = self._sized(lambda source: plain_architecture(source.arch, self.holder))
            model = self._copied(build(arch.check(), **self._kind()))
            self._sized(lambda source: fold_gates(model, source, self.holder))
        return model

    def decisions_under(self, gates: Gates) -> Decisions:
        """The member that gates stand for: the greatest of one, of some all that are not 0."""
        with self.gated(gates):
            return self.space.checked(decisions_under(self.holder))

    def _copied(self, model: Model) -> Model:
        self._sized(lambda source: copy_weights(model, source, self.holder))
        return model.train(self.training)

    def _kind(self) -> dict[str, Any]:
        weight = next(self.parameters())
        dropout, attention_dropout = self._dropout
        return {
            "dropout": dropout,
            "attention_dropout": attention_dropout,
            "device": weight.device,
            "dtype": weight.dtype,
        }

    def _gated(self) -> list[str]:
        return [name for name, slot in self.slots.items() if slot.gated]

    # --- for who trains it --------------------------------------------------------------

    def weight_parameters(self) -> list[nn.Parameter]:
        """All weights; the numbers that decide about gates belong to a policy."""
        return [p for p in self.parameters() if p.requires_grad]

    def prices(self, price: Price) -> dict[str, list[float]]:
        """What each option of each gated decision costs, by ``price(layer, site)``.

        A decision that stands in several places costs the sum. An option with open places inside
        is priced with all of them on and at their largest.
        """
        return prices(self.arch, self.holder, price)


def option_prices(
    supernet: Supernet,
    price: Callable[[Layer, Site], float],
    names: Sequence[str] | None = None,
    *,
    slices: bool = False,
) -> dict[str, list[float]]:
    """Prices of some decisions, scaled so that the dearest members of all cost 1 together.

    With ``slices`` sizes have prices too, for each slice that a larger one adds. What holds them is
    priced at its largest, so that with them all prices together exceed the dearest member's.
    """
    found = supernet.prices(price)
    found = {name: row for name, row in found.items() if names is None or name in names}
    whole = sum(
        sum(row) if supernet.slots[name].kind == "some" else max(row) for name, row in found.items()
    )
    if slices:
        sizes = slice_prices(supernet.arch, supernet.holder, price)
        sizes = {name: row for name, row in sizes.items() if names is None or name in names}
        whole = whole or sum(map(sum, sizes.values()))
        found |= sizes
    return {name: [p / whole for p in row] for name, row in found.items()} if whole else found
