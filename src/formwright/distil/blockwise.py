"""The blocks of a library, each trained briefly between the teacher's own hidden states.

Input is what the teacher holds before a place, target what it holds after it, so blocks learn
independently of each other: all alternatives of a place in one pass over its states. A place that
was trained is a file; what was interrupted goes on with the first place that has none.
"""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor, nn

from formwright.arch import Features, Stack
from formwright.distil.cache import States
from formwright.distil.library import NORM, NOTHING, Alternative, Place
from formwright.distil.slices import (
    Moments,
    kept_inputs,
    last_map,
    listening,
    part_size,
    picks_for,
    refitted,
    removal_order,
    sliced_state,
)
from formwright.distil.teacher import Teacher
from formwright.errors import StorageError
from formwright.files import read_json, write_atomically, write_json
from formwright.model import Model, build
from formwright.ops.base import Builder, Context

_LARGEST = 10_000_000  # bytes of what is known of a place
_SMALL = 8  # symbols of a model that only gives a layer its first weights
_MIX = 0x9E3779B9
State = dict[str, Tensor]


@dataclass(frozen=True)
class BlockTraining:
    """How blocks are trained.

    Args:
        steps: For each block.
        lr: Where weights are slices of the teacher's.
        lr_new: Where they are new.
        refit: Whether the last map of a slice is first fitted anew by least squares.
        seed: Of new weights.
    """

    steps: int = 100
    lr: float = 3e-4
    lr_new: float = 2e-3
    refit: bool = True
    seed: int = 0


class Library:
    """Places of a teacher with the weights of what may stand there, in a folder.

    Args:
        teacher: Whose places they are.
        places: With their alternatives.
        folder: ``layer03.safetensors`` has the weights, ``layer03.json`` what is known of them.
    """

    def __init__(self, teacher: Teacher, places: Sequence[Place], folder: Path) -> None:
        self.teacher, self.places, self.folder = teacher, tuple(places), folder
        self._modules: dict[tuple[int, int], nn.Module] = {}

    def has(self, place: Place) -> bool:
        """Whether a place was trained, with these alternatives, and its file is whole."""
        known = self._about(place)
        names = [a.name for a in place.alternatives]
        return (
            known is not None
            and known["names"] == names
            and _sha(self._file(place)) == known["sha256"]
        )

    def save(self, place: Place, states: Sequence[State], errors: Sequence[float]) -> None:
        """Keep what was trained, whole or not at all."""
        self.folder.mkdir(parents=True, exist_ok=True)
        tensors = {
            f"{number}/{name}": tensor.cpu().contiguous()
            for number, state in enumerate(states)
            for name, tensor in state.items()
        }
        data = save(tensors)
        write_atomically(self._file(place), data)
        about = {
            "names": [a.name for a in place.alternatives],
            "errors": list(errors),
            "sha256": hashlib.sha256(data).hexdigest(),
        }
        write_json(self._file(place).with_suffix(".json"), about)

    def errors(self, place: Place) -> list[float]:
        """How much of a layer's work each alternative leaves undone, on states it did not see."""
        known = self._about(place)
        assert known is not None, "a place is trained first"
        found: list[float] = known["errors"]
        return found

    def state(self, place: int, alternative: int) -> State:
        """Weights of an alternative, by their names in the layer."""
        if alternative == 0:
            return dict(own_layer(self.teacher, place).state_dict())
        file, start = self._file(self.places[place]), f"{alternative}/"
        device = str(self.teacher.device)
        try:
            with safe_open(file, framework="pt", device=device) as opened:
                names = [name for name in opened.keys() if name.startswith(start)]  # noqa: SIM118
                return {name.removeprefix(start): opened.get_tensor(name) for name in names}
        except (OSError, SafetensorError) as error:
            raise StorageError(f"{file} cannot be read: {error}.") from None

    def module(self, place: int, alternative: int) -> nn.Module:
        """An alternative, ready to run."""
        if alternative == 0:
            return own_layer(self.teacher, place)
        key = (place, alternative)
        if key not in self._modules:
            made = built(self.places[place], alternative)
            made.load_state_dict(self.state(place, alternative))
            self._modules[key] = made.to(self.teacher.device).eval().requires_grad_(False)
        return self._modules[key]

    def _file(self, place: Place) -> Path:
        return self.folder / f"{place.name}.safetensors"

    def _about(self, place: Place) -> dict[str, Any] | None:
        about = self._file(place).with_suffix(".json")
        if not about.exists() or not self._file(place).exists():
            return None
        found: dict[str, Any] = read_json(about, "what is known of a place", _LARGEST)
        return found


def train_library(
    library: Library,
    states: States,
    config: BlockTraining,
    *,
    on_place: Callable[[int, int], None] = lambda done, total: None,
    check: Callable[[], None] = lambda: None,
) -> None:
    """Train what is missing; ``check`` may raise to stop between two steps."""
    total = len(library.places)
    for place in library.places:
        on_place(place.number, total)
        if not library.has(place):
            library.save(place, *_Training(library.teacher, place, states, config).run(check))
    on_place(total, total)


def own_layer(teacher: Teacher, place: int) -> nn.Module:
    """The teacher's layer at a place."""
    stack: Any = teacher.model.stacks["layers"]
    found: nn.Module = stack.layers[place]
    return found


def built(place: Place, alternative: int) -> nn.Module:
    """The module of an alternative, its weights not yet given."""
    found: nn.Module = Builder().build(place.alternatives[alternative].layer, place.site)
    return found


def context(teacher: Teacher, mask: Tensor | None) -> Context:
    """What a layer of the teacher's stack sees besides its input."""
    positions = dict(teacher.model.positions.items())
    return Context(mask=mask, position=positions.get("layers"))


class _Training:
    """All alternatives of one place."""

    def __init__(
        self, teacher: Teacher, place: Place, states: States, config: BlockTraining
    ) -> None:
        self.teacher, self.place, self.states, self.config = teacher, place, states, config
        held = max(1, len(states.batches) // 8) if len(states.batches) > 1 else 0
        self.learns = len(states.batches) - held  # batches; the others tell the error

    def run(self, check: Callable[[], None]) -> tuple[list[State], list[float]]:
        """Weights and errors of all; the teacher's own has neither."""
        begun = self._first_weights()
        modules = {}
        for number, state in begun.items():
            module = built(self.place, number)
            module.load_state_dict(state)
            modules[number] = module.to(self.teacher.device)
        learning = {n: m for n, m in modules.items() if any(True for _ in m.parameters())}
        optimisers = {n: self._optimiser(n, m) for n, m in learning.items()}
        for step in range(self.config.steps if learning else 0):
            check()
            before, after, mask = self.states.pair(step % self.learns, self.place.number)
            scale = _squares(after - before, mask).clamp(min=1e-12)
            for number, module in learning.items():
                loss = _squares(self._ran(module, before, mask) - after, mask) / scale
                optimiser = optimisers[number]
                optimiser.zero_grad(set_to_none=True)
                loss.backward()
                nn.utils.clip_grad_norm_(module.parameters(), 1.0)
                for group in optimiser.param_groups:
                    group["lr"] = self._rate(number) * (1 - step / self.config.steps)
                optimiser.step()
        states = [dict(m.state_dict()) for m in modules.values()]
        return [{}, *states], [0.0, *(self._error(module) for module in modules.values())]

    def _optimiser(self, number: int, module: nn.Module) -> torch.optim.Optimizer:
        return torch.optim.AdamW(
            module.parameters(), lr=self._rate(number), betas=(0.9, 0.98), weight_decay=0.0
        )

    def _rate(self, number: int) -> float:
        new = self.place.alternatives[number].origin == "new"
        return self.config.lr_new if new else self.config.lr

    def _ran(self, module: nn.Module, before: Tensor, mask: Tensor | None) -> Tensor:
        found: Tensor = module(before, context(self.teacher, mask))
        return found

    @torch.no_grad()
    def _error(self, module: nn.Module) -> float:
        """What is left undone of what the layer does to the stream, on states kept apart."""
        lost = done = 0.0
        first = self.learns if self.learns < len(self.states.batches) else 0
        for number in range(first, len(self.states.batches)):
            before, after, mask = self.states.pair(number, self.place.number)
            lost += float(_squares(self._ran(module, before, mask) - after, mask))
            done += float(_squares(after - before, mask))
        return lost / max(done, 1e-12)

    # --- first weights ------------------------------------------------------------------

    def _first_weights(self) -> dict[int, State]:
        """Of every alternative but the teacher's own."""
        whole = self.place.alternatives[0].layer
        own = dict(own_layer(self.teacher, self.place.number).state_dict())
        moments, order = self._importance()
        found = {}
        for number, alternative in enumerate(self.place.alternatives):
            if number == 0:
                continue
            if alternative.name == NOTHING:
                found[number] = State()
            elif alternative.name == NORM:
                found[number] = {
                    name.removeprefix("norm."): tensor
                    for name, tensor in own.items()
                    if name.startswith("norm.")
                }
            elif alternative.origin == "new":
                found[number] = self._new(alternative, own)
            else:
                picks = picks_for(whole, alternative.layer, order) if order else {}
                state = sliced_state(whole, alternative.layer, self.place.site, own, picks)
                if picks and moments is not None and self.config.refit:
                    state |= self._repaired(moments, picks)
                found[number] = state
        return found

    @torch.no_grad()
    def _importance(self) -> tuple[Moments | None, list[int]]:
        """What goes into the last map, and its parts, the most important first."""
        layer = own_layer(self.teacher, self.place.number)
        place = last_map(layer)
        if place is None or len(self.place.alternatives) == 1:
            return None, []
        moments = Moments.empty(place.in_features)
        for number in range(self.learns):
            before, _, mask = self.states.pair(number, self.place.number)
            with listening(layer) as given:
                self._ran(layer, before, mask)
            moments.add(given[0], mask)
        size = part_size(self.place.alternatives[0].layer, self.place.site)
        matrix = moments.matrix(centred=place.bias is not None)
        return moments, removal_order(place.weight.detach().cpu(), matrix, size)

    def _repaired(self, moments: Moments, picks: Mapping[str, Sequence[int]]) -> State:
        """The last map fitted anew to what is left."""
        place = last_map(own_layer(self.teacher, self.place.number))
        assert place is not None
        kept = kept_inputs(self.place.alternatives[0].layer, self.place.site, picks)
        own: Any = place.bias  # None where the map adds nothing
        bias = None if own is None else own.detach().cpu()
        weight, shifted = refitted(place.weight.detach().cpu(), bias, moments, kept)
        name = "inner.down" if "inner" in picks else "inner.out"
        found = {f"{name}.weight": weight}
        return found if shifted is None else {**found, f"{name}.bias": shifted}

    def _new(self, alternative: Alternative, own: State) -> State:
        """New weights, with the norm of the teacher's layer."""
        arch = self.teacher.model.arch
        assert arch.frame is not None
        frame = arch.frame.replace(vocab=_SMALL, head=Features())
        seed = self.config.seed * _MIX + self.place.number
        made: Any = build(arch.replace(layers=Stack((alternative.layer,)), frame=frame), seed=seed)
        state = dict(made.stacks["layers"].layers[0].state_dict())
        kept = {name: own[name] for name in state if name.startswith("norm.")}
        return {**state, **kept}


def _squares(x: Tensor, mask: Tensor | None) -> Tensor:
    """Mean square of vectors (b, n, w) over real tokens."""
    each = x.square().mean(dim=-1)
    if mask is None:
        return each.mean()
    weight = mask.to(each.dtype)
    return (each * weight).sum() / weight.sum().clamp(min=1)


def _sha(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()


@torch.no_grad()
def assembled(
    library: Library,
    choice: Sequence[int],
    arch: Any,
    *,
    dropout: float = 0.0,
    attention_dropout: float = 0.0,
) -> Model:
    """The student of a choice: blocks of the library, all else from the teacher.

    Args:
        library: Where blocks come from.
        choice: An alternative for each place.
        arch: Of the student, with as many layers as the teacher.
        dropout, attention_dropout: Of the result.
    """
    model = build(arch, dropout=dropout, attention_dropout=attention_dropout)
    own = model.state_dict()
    for name, tensor in library.teacher.model.state_dict().items():
        if not name.startswith("stacks."):
            own[name].copy_(tensor)
    for place, taken in enumerate(choice):
        for name, tensor in library.state(place, taken).items():
            own[f"stacks.layers.layers.{place}.{name}"].copy_(tensor)
    return model.to(library.teacher.device)
