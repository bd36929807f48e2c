"""From an architecture to a model with weights, and weights to and from files.

Weights are safetensors; the architecture lies beside them as JSON. Nothing is ever unpickled.
"""

from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save

from formwright.arch import Architecture, arch_id, from_json, to_json
from formwright.errors import InputError
from formwright.files import write_atomically
from formwright.model.init import initialise
from formwright.model.model import Model
from formwright.ops.base import Builder

_WEIGHTS, _ARCH = "model.safetensors", "architecture.json"


def build(
    arch: Architecture,
    *,
    seed: int = 0,
    dropout: float = 0.0,
    attention_dropout: float = 0.0,
    device: torch.device | str = "cpu",
    dtype: torch.dtype = torch.float32,
) -> Model:
    """Build a model and give it its initial weights.

    On the ``meta`` device only shapes are made, which is enough to count.
    """
    builder = Builder(dropout=dropout, attention_dropout=attention_dropout)
    if torch.device(device).type == "meta":
        with torch.device("meta"):
            return Model(arch, builder).to("meta", dtype)
    # Initial values are drawn on the CPU in float32, so that they are the same everywhere, and
    # without touching the caller's random state.
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return initialise(Model(arch, builder)).to(device=device, dtype=dtype)


def save_model(model: Model, folder: str | Path) -> Path:
    """Write architecture and weights into a folder, each file whole or not at all."""
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    state = {name: tensor.contiguous() for name, tensor in model.state_dict().items()}
    # one entry only: safetensors writes several in an order that changes from run to run
    metadata = {"architecture": arch_id(model.arch)}
    write_atomically(folder / _WEIGHTS, save(state, metadata))
    write_atomically(folder / _ARCH, to_json(model.arch, indent=1).encode())
    return folder


def load_model(folder: str | Path, *, device: torch.device | str = "cpu") -> Model:
    """Read a model back. Files that do not belong together are refused."""
    folder = Path(folder)
    for name in (_ARCH, _WEIGHTS):
        if not (folder / name).is_file():
            raise InputError(f"{folder} holds no model: {name} is missing.")
    arch = from_json((folder / _ARCH).read_text(encoding="utf-8"))
    try:
        with safe_open(folder / _WEIGHTS, framework="pt", device=str(device)) as file:
            written_for = (file.metadata() or {}).get("architecture")
            state = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118  # not a dict
    except SafetensorError as error:
        raise InputError(f"{folder / _WEIGHTS} cannot be read: {error}.") from None
    if written_for != arch_id(arch):
        raise InputError(
            f"{folder}: the weights belong to architecture {written_for}, "
            f"but {_ARCH} describes {arch_id(arch)}."
        )
    with torch.device("meta"):
        model = Model(arch)
    model.load_state_dict(state, strict=True, assign=True)
    return model
