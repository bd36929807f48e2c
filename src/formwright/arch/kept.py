"""Layers that were given a name: found once, written as a word ever after.

A kept layer is one JSON file in a folder of the user's. In notation its name stands for the layer
itself, so an architecture that was read holds no name and means the same everywhere:

    (my_block)x4 in gpt2(64)            (residual(my_mixer) f)x4 in llama(128)

Names have an underscore, so that they cannot be taken for a row of letters.
"""

import os
import re
from pathlib import Path
from typing import Any

from formwright.arch.codec import from_data, to_data
from formwright.arch.layer import Layer
from formwright.arch.node import nodes
from formwright.errors import FormatError, InputError, UnknownName
from formwright.files import read_json, write_json

_NAME = re.compile(r"[a-z][a-z0-9]*(_[a-z0-9]+)+")
_LARGEST = 1_000_000  # bytes of a file; a real one has a few thousand


def blocks_folder() -> Path:
    """Where kept layers are: ``FORMWRIGHT_BLOCKS``, or a folder in the user's home."""
    given = os.environ.get("FORMWRIGHT_BLOCKS")
    return Path(given) if given else Path.home() / ".local" / "share" / "formwright" / "blocks"


def keep_layer(name: str, layer: Layer, about: str = "") -> Path:
    """Give a layer a name; the file that holds it.

    Args:
        name: A word with an underscore, such as ``my_block``, that is still free.
        layer: Any layer; its sizes should be relative for it to fit other widths.
        about: Where it came from.
    """
    if not _NAME.fullmatch(name) or name in nodes:
        raise InputError(
            f"{name!r} cannot be the name of a block; use small letters, digits and at least one "
            "underscore, such as my_block, and no name of a layer."
        )
    path = blocks_folder() / f"{name}.json"
    data = {"formwright_block": 1, "name": name, "about": about, "layer": to_data(layer)}
    if path.exists() and kept_layer(name) != layer:
        raise InputError(f"{path} holds another block of that name; remove it or use another name.")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_json(path, data)
    except OSError as error:
        raise InputError(f"{path} cannot be written: {error.strerror}.") from None
    return path


def is_kept(name: str) -> bool:
    """Whether a layer has this name."""
    return bool(_NAME.fullmatch(name)) and (blocks_folder() / f"{name}.json").is_file()


def kept_names() -> list[str]:
    """All names, sorted."""
    return sorted(path.stem for path in blocks_folder().glob("*.json") if is_kept(path.stem))


def kept_layer(name: str) -> Layer:
    """The layer of a name."""
    if not is_kept(name):
        raise UnknownName("block", name, kept_names())
    path = blocks_folder() / f"{name}.json"
    data: Any = read_json(path, "a block", _LARGEST)
    layer = from_data(data.get("layer"), "layer") if isinstance(data, dict) else None
    if not isinstance(layer, Layer):
        raise FormatError(f"{path} holds no layer; keep the block anew.")
    return layer
