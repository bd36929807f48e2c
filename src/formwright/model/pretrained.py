"""Models from elsewhere: folders in Hugging Face's format, read as models of this library.

``config.json`` gives the architecture, ``*.safetensors`` the weights. Pickled weights are opened
only if asked for, by torch's loader of plain tensors; code that a folder brings is never run. The
families that are known are listed in families/. A head that has no counterpart here is left out,
and the model then gives its features; whatever would change what the layers compute is refused in a
sentence.
"""

from collections.abc import Callable, Collection
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from formwright.arch import Architecture
from formwright.errors import InputError
from formwright.files import read_json
from formwright.model.beside import transformer_folder
from formwright.model.families import family_of
from formwright.model.families.base import Family
from formwright.model.families.config import CONFIG, LARGEST, Config
from formwright.model.families.form import Row
from formwright.model.model import Model

_WEIGHTS, _PICKLED, _INDEX = "model.safetensors", "pytorch_model.bin", ".index.json"
# What is stored beside the weights and says nothing that config.json does not.
_BUFFERS = (
    "position_ids", ".attn.bias", ".attn.masked_bias", ".attention.bias", ".attention.masked_bias",
    "rotary_emb.inv_freq",
)  # fmt: skip
_NUMBERS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)


def is_pretrained(folder: Path) -> bool:
    """Whether a folder looks like one of Hugging Face's."""
    return (transformer_folder(folder) / CONFIG).is_file()


def pretrained_architecture(folder: str | Path, *, unsafe_pickle: bool = False) -> Architecture:
    """The architecture of a checkpoint; of its weights only names and shapes are looked at."""
    folder = transformer_folder(folder)
    family = family_of(Config.read(folder))
    with _Tensors(folder, unsafe_pickle=unsafe_pickle) as tensors:
        return family.architecture(tensors.shapes)


def load_pretrained(
    folder: str | Path, *, device: torch.device | str = "cpu", unsafe_pickle: bool = False
) -> Model:
    """The model in a folder of Hugging Face's format; weights of half precision become float32.

    Args:
        folder: With config.json and weights, or one of sentence-transformers around it.
        device: Where the model is to be.
        unsafe_pickle: Open pickled weights too, where there are no safetensors.
    """
    folder = transformer_folder(folder)
    family = family_of(Config.read(folder))
    with _Tensors(folder, unsafe_pickle=unsafe_pickle) as tensors:
        arch = family.architecture(tensors.shapes)
        with torch.device("meta"):
            model = Model(arch)
        model.load_state_dict(_state(family, arch, model, tensors), strict=True, assign=True)
    return model.to(device)


def _state(
    family: Family, arch: Architecture, model: Model, tensors: "_Tensors"
) -> dict[str, Tensor]:
    """Every weight of a model from where it is stored."""
    prefix = family.prefix_of(arch)
    prefix = prefix if any(name.startswith(prefix) for name in tensors.shapes) else ""
    wanted, used = model.state_dict(), set()
    state: dict[str, Tensor] = {}
    for row in family.rows(arch, wanted):
        if not row.theirs:
            like = next(iter(state.values()))  # a head comes after the layers
            state |= {name: like.new_zeros(wanted[name].shape) for name in row.ours}
            continue
        name = row.theirs[1:] if row.theirs.startswith("/") else prefix + row.theirs
        state |= _fitting(tensors, name, row, wanted)
        used.add(name)
    _nothing_left(tensors.shapes, used, prefix, family)
    return state


def _fitting(
    tensors: "_Tensors", name: str, row: Row, wanted: dict[str, Tensor]
) -> dict[str, Tensor]:
    """One stored tensor as the ones of ours that it holds."""
    stored = tensors.read(name)
    if stored.dtype not in _NUMBERS:
        raise InputError(
            f"{tensors.folder}: {name} is stored as {stored.dtype}; give weights that are not "
            "quantised."
        )
    try:
        found = row.form.there(stored)
    except RuntimeError:  # it cannot be divided so
        found = ()
    if [x.shape for x in found] != [wanted[ours].shape for ours in row.ours]:
        raise InputError(
            f"{tensors.folder}: {name} has shape {list(tensors.shapes[name])}, which is not what "
            f"{CONFIG} describes; one of the two belongs to another model."
        )
    exact = stored.dtype == torch.float64
    return {
        ours: (x if exact else x.float()).clone(memory_format=torch.contiguous_format)
        for ours, x in zip(row.ours, found, strict=True)
    }


def _nothing_left(
    names: Collection[str], used: Collection[str], prefix: str, family: Family
) -> None:
    """Weights of layers that were not used would mean that the model computes something else."""
    known = (*_BUFFERS, *family.surplus)
    config = family.config
    for name in sorted(set(names) - set(used)):
        body = name.startswith(prefix) and not name.startswith(("cls.", "lm_head.", "classifier."))
        if body and "pooler" not in name and not name.endswith(known):
            raise InputError(
                f"{config.folder}: {name} is no part of the {config.kind} that {CONFIG} describes; "
                "this variant cannot be read."
            )


# --- files --------------------------------------------------------------------------------------


class _Tensors:
    """The tensors of a folder, in one file or several, read one at a time."""

    def __init__(self, folder: Path, *, unsafe_pickle: bool) -> None:
        self.folder, self.unsafe_pickle = folder, unsafe_pickle
        self.shapes: dict[str, tuple[int, ...]] = {}  # by today's names
        self._stored: dict[str, Callable[[], Tensor]] = {}
        self._open = ExitStack()

    def __enter__(self) -> "_Tensors":
        paths = self._files(_WEIGHTS)
        read: Callable[[Path], None] = self._safe
        if not paths:
            paths, read = self._pickles(), self._unpickled
        for path in paths:
            try:
                read(path)
            except (SafetensorError, OSError) as error:
                self._open.close()
                raise _unreadable(path, error) from None
        return self

    def __exit__(self, *reason: object) -> None:
        self._open.close()

    def read(self, name: str) -> Tensor:
        if name not in self._stored:
            raise InputError(f"{self.folder}: the weights hold no {name}; they are not complete.")
        return self._stored[name]()

    def _safe(self, path: Path) -> None:
        file: Any = self._open.enter_context(safe_open(path, framework="pt"))
        for stored in file.keys():  # noqa: SIM118  # not a dict
            name = _todays(stored)
            self._stored[name] = partial(file.get_tensor, stored)
            self.shapes[name] = tuple(file.get_slice(stored).get_shape())

    def _unpickled(self, path: Path) -> None:
        try:
            found = torch.load(path, map_location="cpu", weights_only=True, mmap=_is_zip(path))
        except Exception as error:  # a damaged pickle raises almost anything
            raise _unreadable(path, error) from None
        if not isinstance(found, dict) or not all(isinstance(x, Tensor) for x in found.values()):
            raise InputError(f"{path} holds something else than named tensors.")
        for stored, tensor in found.items():
            name = _todays(stored)
            self._stored[name] = tensor.clone
            self.shapes[name] = tuple(tensor.shape)

    def _pickles(self) -> list[Path]:
        """Files of pickled weights, if they were asked for."""
        if self.unsafe_pickle and (paths := self._files(_PICKLED)):
            return paths
        if any(self.folder.glob("*.bin")):
            raise InputError(
                f"{self.folder} has its weights as .bin files, pickles that could run code when "
                "read; open it once with transformers and call save_pretrained, which writes "
                f"{_WEIGHTS}, or, if you trust it, give --unsafe-pickle (unsafe_pickle=True)."
            )
        raise InputError(f"{self.folder} holds no weights: {_WEIGHTS} is missing.")

    def _files(self, name: str) -> list[Path]:
        """The file of that name, or those that its index lists."""
        if (self.folder / name).is_file():
            return [self.folder / name]
        index = self.folder / (name + _INDEX)
        if not index.is_file():
            return []
        data = read_json(index, "an index of weights", LARGEST)
        places = data.get("weight_map") if isinstance(data, dict) else None
        names = sorted({str(n) for n in places.values()}) if isinstance(places, dict) else []
        if not names or any(Path(found).name != found for found in names):
            raise InputError(f"{index} names no files of this folder.")
        return [self.folder / found for found in names]


def _unreadable(path: Path, error: Exception) -> InputError:
    """What to raise, with the first line of what was said."""
    reason = next(iter(str(error).splitlines()), type(error).__name__).rstrip(".")
    return InputError(f"{path} cannot be read: {reason}.")


def _is_zip(path: Path) -> bool:
    """Whether torch can leave the weights in the file until they are asked for."""
    with path.open("rb") as file:
        return file.read(2) == b"PK"


def _todays(name: str) -> str:
    """The oldest BERTs call the numbers of a norm gamma and beta."""
    stem, _, last = name.rpartition(".")
    return f"{stem}.{ {'gamma': 'weight', 'beta': 'bias'}.get(last, last) }" if stem else name
