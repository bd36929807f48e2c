"""Models from elsewhere: folders in Hugging Face's format, read as models of this library.

``config.json`` gives the architecture, ``*.safetensors`` the weights; no other file is opened and
nothing is ever unpickled. BERT, GPT-2 and Llama are known. A head that has no counterpart here is
left out, and the model then gives its features; whatever would change what the layers compute is
refused in a sentence.
"""

from collections.abc import Collection
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from formwright.arch import Architecture
from formwright.errors import InputError
from formwright.files import read_json
from formwright.model.families import CONFIG, LARGEST, Config, Form, family_of
from formwright.model.model import Model

_WEIGHTS, _INDEX, _PICKLED = "model.safetensors", "model.safetensors.index.json", ".bin"
# What is stored beside the weights and says nothing that config.json does not.
_BUFFERS = ("position_ids", ".attn.bias", ".attn.masked_bias", "rotary_emb.inv_freq")
_NUMBERS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)


def is_pretrained(folder: Path) -> bool:
    """Whether a folder looks like one of Hugging Face's."""
    return (folder / CONFIG).is_file()


def pretrained_architecture(folder: str | Path) -> Architecture:
    """The architecture of a checkpoint; of its weights only names and shapes are looked at."""
    family = family_of(Config(Path(folder)))
    with _Tensors(Path(folder)) as tensors:
        return family.architecture(tensors.shapes)


def load_pretrained(folder: str | Path, *, device: torch.device | str = "cpu") -> Model:
    """The model in a folder of Hugging Face's format; weights of half precision become float32."""
    config = Config(Path(folder))
    family = family_of(config)
    with _Tensors(Path(folder)) as tensors:
        arch = family.architecture(tensors.shapes)
        with torch.device("meta"):
            model = Model(arch)
        prefix = family.prefix if tensors.begins(family.prefix) else ""
        wanted, state, used = model.state_dict(), {}, set()
        for ours, theirs, form in family.pairs(model):
            name = theirs[1:] if theirs.startswith("/") else prefix + theirs
            state[ours] = _fitting(tensors, name, form, wanted[ours])
            used.add(name)
        _nothing_left(tensors.shapes, used, prefix, config)
    model.load_state_dict(state, strict=True, assign=True)
    return model.to(device)


def _fitting(tensors: "_Tensors", name: str, form: Form, wanted: Tensor) -> Tensor:
    found = form(tensors.read(name))
    if found.dtype not in _NUMBERS:
        raise InputError(
            f"{tensors.folder}: {name} is stored as {found.dtype}; give weights that are not "
            "quantised."
        )
    if found.shape != wanted.shape:
        raise InputError(
            f"{tensors.folder}: {name} has shape {list(tensors.shapes[name])}, which is not what "
            f"{CONFIG} describes; one of the two belongs to another model."
        )
    return (found if found.dtype == torch.float64 else found.float()).clone()


def _nothing_left(
    names: Collection[str], used: Collection[str], prefix: str, config: Config
) -> None:
    """Weights of layers that were not used would mean that the model computes something else."""
    for name in sorted(set(names) - set(used)):
        body = name.startswith(prefix) and not name.startswith(("cls.", "lm_head.", "classifier."))
        if body and "pooler" not in name and not name.endswith(_BUFFERS):
            raise InputError(
                f"{config.folder}: {name} is no part of the {config.kind} that {CONFIG} describes; "
                "this variant cannot be read."
            )


# --- files --------------------------------------------------------------------------------------


class _Tensors:
    """The tensors of a folder, in one file or several, read one at a time."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.shapes: dict[str, tuple[int, ...]] = {}  # by today's names
        self._stored: dict[str, tuple[Any, str]] = {}
        self._open = ExitStack()

    def __enter__(self) -> "_Tensors":
        for path in self._files():
            try:
                file = self._open.enter_context(safe_open(path, framework="pt"))
                for stored in file.keys():  # noqa: SIM118  # not a dict
                    name = _todays(stored)
                    self._stored[name] = (file, stored)
                    self.shapes[name] = tuple(file.get_slice(stored).get_shape())
            except (SafetensorError, OSError) as error:
                self._open.close()
                raise InputError(f"{path} cannot be read: {error}.") from None
        return self

    def __exit__(self, *reason: object) -> None:
        self._open.close()

    def begins(self, prefix: str) -> bool:
        """Whether the layers' names begin so, as they do beside a head."""
        return any(name.startswith(prefix) for name in self.shapes)

    def read(self, name: str) -> Tensor:
        if name not in self._stored:
            raise InputError(f"{self.folder}: the weights hold no {name}; they are not complete.")
        file, stored = self._stored[name]
        tensor: Tensor = file.get_tensor(stored)
        return tensor

    def _files(self) -> list[Path]:
        if (self.folder / _WEIGHTS).is_file():
            return [self.folder / _WEIGHTS]
        if (self.folder / _INDEX).is_file():
            data = read_json(self.folder / _INDEX, "an index of weights", LARGEST)
            places = data.get("weight_map") if isinstance(data, dict) else None
            names = sorted({str(n) for n in places.values()}) if isinstance(places, dict) else []
            if not names or any(Path(name).name != name for name in names):
                raise InputError(f"{self.folder / _INDEX} names no files of this folder.")
            return [self.folder / name for name in names]
        if any(self.folder.glob(f"*{_PICKLED}")):
            raise InputError(
                f"{self.folder} has its weights as {_PICKLED} files, which could run code when "
                "read; open it once with transformers and call save_pretrained, which writes "
                f"{_WEIGHTS}."
            )
        raise InputError(f"{self.folder} holds no weights: {_WEIGHTS} is missing.")


def _todays(name: str) -> str:
    """The oldest BERTs call the numbers of a norm gamma and beta."""
    stem, _, last = name.rpartition(".")
    return f"{stem}.{ {'gamma': 'weight', 'beta': 'bias'}.get(last, last) }" if stem else name
