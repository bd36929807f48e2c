"""From an architecture to a model with weights, and weights to and from files.

Weights are safetensors; the architecture lies beside them as JSON. Nothing is ever unpickled.
Folders in Hugging Face's format are read as well, see pretrained.py.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save

from formwright.arch import Architecture, Frame, Learned, arch_id, from_json, to_json
from formwright.errors import InputError
from formwright.files import check_sealed, read_text, write_json, write_sealed
from formwright.model.hub import hub_folder, is_hub
from formwright.model.init import initialise
from formwright.model.model import Model
from formwright.model.pretrained import is_pretrained, load_pretrained, pretrained_architecture
from formwright.ops.base import Builder

_WEIGHTS, _ARCH = "model.safetensors", "architecture.json"
TASK, CARD = "task.json", "card.json"
_LARGEST = 10_000_000  # bytes of an architecture


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

    >>> from formwright import parse
    >>> model = build(parse("sf in gpt2(64) for frame(256, 32, lm)"), seed=1)
    >>> model(torch.tensor([[1, 2, 3]])).shape
    torch.Size([1, 3, 256])
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


def save_model(
    model: Model,
    folder: str | Path,
    *,
    task: Mapping[str, Any] | None = None,
    card: Mapping[str, Any] | None = None,
) -> Path:
    """Write a model into a folder, each file whole or not at all.

    Args:
        model: Architecture and weights.
        folder: Where to.
        task: How it reads texts and what its answers mean, for ``task.json``.
        card: What is known of it, for ``card.json``.

    >>> import tempfile
    >>> from formwright import arch_id, parse
    >>> model = build(parse("sf in gpt2(16) for frame(8, 8, lm)"))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     again = load_model(save_model(model, folder))
    >>> arch_id(again.arch) == arch_id(model.arch)
    True
    """
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    state = {name: tensor.contiguous() for name, tensor in model.state_dict().items()}
    # one entry only: safetensors writes several in an order that changes from run to run
    metadata = {"architecture": arch_id(model.arch)}
    write_sealed(folder / _WEIGHTS, save(state, metadata))
    write_sealed(folder / _ARCH, to_json(model.arch, indent=1).encode())
    for name, data in ((TASK, task), (CARD, card)):
        if data is not None:
            write_json(folder / name, data)
    return folder


def load_model(
    folder: str | Path, *, device: torch.device | str = "cpu", unsafe_pickle: bool = False
) -> Model:
    """Read a model back, or one in Hugging Face's format, or of its hub: ``hf:OWNER/NAME``.

    Files that do not belong together are refused. ``unsafe_pickle`` as of ``load_pretrained``.
    See ``save_model`` for an example, and ``formwright.load`` for a model that answers in words.
    """
    folder = hub_folder(str(folder)) if is_hub(str(folder)) else Path(folder)
    if not (folder / _ARCH).is_file() and is_pretrained(folder):
        return load_pretrained(folder, device=device, unsafe_pickle=unsafe_pickle)
    arch = read_architecture(folder)
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
    check_sealed(folder / _WEIGHTS)
    with torch.device("meta"):
        model = Model(arch)
    try:
        model.load_state_dict(state, strict=True, assign=True)
    except RuntimeError as error:
        said = " ".join(str(error).split())[:300]
        raise InputError(f"{folder / _WEIGHTS} does not fit {_ARCH}: {said}") from None
    return model


def read_architecture(folder: str | Path) -> Architecture:
    """The architecture of the model in a folder, whose weights are not read."""
    folder = Path(folder)
    ours = (folder / _ARCH).is_file()
    if not ours and is_pretrained(folder):
        return pretrained_architecture(folder)
    for name in (_ARCH, _WEIGHTS):
        if not (folder / name).is_file():
            raise InputError(
                f"{folder} holds no model: {name} is missing. Give a folder that formwright wrote, "
                "or one in Hugging Face's format (config.json and model.safetensors)."
            )
    return from_json(read_text(folder / _ARCH, "an architecture", _LARGEST))


@torch.no_grad()
def with_frame(
    model: Model,
    frame: Frame,
    *,
    seed: int = 0,
    dropout: float = 0.0,
    attention_dropout: float = 0.0,
) -> Model:
    """The same layers with the same weights, for another task.

    Learned positions are cut to the task's length; a head that is not the task's becomes a new one.

    Args:
        model: Where the weights come from.
        frame: Of the task; its symbols must be those of the model.
        seed: Of a new head.
        dropout: Of the result.
        attention_dropout: The same of attention weights.
    """
    check_frame(model.arch, frame)
    theirs = model.frame
    made = build(
        model.arch.replace(frame=frame),
        seed=seed,
        dropout=dropout,
        attention_dropout=attention_dropout,
    )
    weight = next(model.parameters())
    made = made.to(device=weight.device, dtype=weight.dtype)
    own = made.state_dict()
    for name, tensor in model.state_dict().items():
        if name.startswith("head.") and frame.head != theirs.head:
            continue
        source = tensor[: len(own[name])] if name == "absolute.weight" else tensor
        if own[name].shape != source.shape:
            raise InputError(
                f"{name} of the model belongs to texts of {theirs.length:,} tokens; give a task of "
                f"that length, not {frame.length:,}."
            )
        own[name].copy_(source)
    return made


def check_frame(arch: Architecture, frame: Frame) -> None:
    """Refuse a task that a trained model cannot read: other symbols, or longer texts."""
    theirs = arch.frame
    assert theirs is not None
    if frame.vocab != theirs.vocab:
        raise InputError(
            f"The model knows {theirs.vocab:,} symbols and the task {frame.vocab:,}; read the task "
            "with the model's own tokenizer, ?tokenizer=FOLDER behind its name."
        )
    needed, had = arch.replace(frame=frame).longest or 0, arch.longest or 0
    if isinstance(arch.backbone.position, Learned) and needed > had:
        raise InputError(
            f"The model has positions for {had:,} tokens and the task needs {needed:,}; "
            "shorten the task, ?length=N behind its name."
        )
