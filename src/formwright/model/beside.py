"""What lies beside the weights of a checkpoint: the names of its answers, and how it pools.

Folders of sentence-transformers list their parts in ``modules.json``: a transformer, in the folder
itself or below it, a pooling, and perhaps a last step that brings vectors to length 1.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from formwright.errors import InputError
from formwright.files import read_json
from formwright.model.families.config import CONFIG, LARGEST, Config

_MODULES = "modules.json"
# Each kind of pooling, by its option; one of them is true.
_POOLINGS: Mapping[str, str] = {
    "pooling_mode_cls_token": "first",
    "pooling_mode_mean_tokens": "mean",
    "pooling_mode_max_tokens": "max",
    "pooling_mode_mean_sqrt_len_tokens": "mean_sqrt",
    "pooling_mode_weightedmean_tokens": "weighted_mean",
    "pooling_mode_lasttoken": "last",
}
_KINDS = ("Transformer", "Pooling", "Normalize")
_NAMED = {"cls": "first", "lasttoken": "last", "weightedmean": "weighted_mean"}


@dataclass(frozen=True)
class Pooling:
    """How a text's vectors become one: ``first``, ``last``, ``mean``, or another by its name."""

    how: str
    normalise: bool = False  # whether the result is brought to length 1


def pooling_of(folder: str | Path) -> Pooling | None:
    """How a folder of sentence-transformers pools; None where it says nothing about it."""
    folder = Path(folder)
    parts = _parts(folder)
    pooling = next((path for kind, path in parts if kind == "Pooling"), None)
    if pooling is None:
        return None
    for kind, _ in parts:
        if kind not in _KINDS:
            raise InputError(
                f"{folder / _MODULES}: the part {kind} cannot be read; {', '.join(_KINDS)} can."
            )
    how = _how(_inside(folder, pooling) / CONFIG)
    return Pooling(how, any(kind == "Normalize" for kind, _ in parts))


def transformer_folder(folder: str | Path) -> Path:
    """Where config.json and weights lie: the folder itself, or the transformer's place in it."""
    folder = Path(folder)
    if (folder / CONFIG).is_file():
        return folder
    below = next((path for kind, path in _parts(folder) if kind == "Transformer"), "")
    return _inside(folder, below)


def labels_of(folder: str | Path) -> list[str]:
    """The names of a model's answers in order; none where config.json gives none."""
    config = Config.read(transformer_folder(folder))
    names = config.data.get("id2label") or {}
    found = [names.get(str(n)) for n in range(len(names))] if isinstance(names, dict) else [None]
    if not all(isinstance(name, str) for name in found):
        raise config.wrong("id2label", names, "a name for each number from 0 on")
    return [str(name) for name in found]


def _parts(folder: Path) -> list[tuple[str, str]]:
    """Kind and place of each part, in order; nothing where none are listed."""
    if not (folder / _MODULES).is_file():
        return []
    data = read_json(folder / _MODULES, "a list of modules", LARGEST)
    if not isinstance(data, list) or not all(isinstance(part, dict) for part in data):
        raise InputError(f"{folder / _MODULES} lists no modules.")
    found = [(str(part.get("type", "")), str(part.get("path", ""))) for part in data]
    return [(kind.rpartition(".")[2], path) for kind, path in found]


def _inside(folder: Path, path: str) -> Path:
    if path and Path(path).name != path:
        raise InputError(f"{folder / _MODULES} names {path!r}, which is no part of this folder.")
    return folder / path


def _how(path: Path) -> str:
    data: Any = read_json(path, "a pooling", LARGEST)
    options = data if isinstance(data, dict) else {}
    named = options.get("pooling_mode")
    if isinstance(named, str):
        return _NAMED.get(named, named)
    chosen = [how for option, how in _POOLINGS.items() if options.get(option) is True]
    if len(chosen) != 1:
        raise InputError(f"{path}: one kind of pooling can be read, and it has {len(chosen)}.")
    return chosen[0]
