"""Spaces in files."""

import json
from pathlib import Path

from formwright.errors import FormatError, InputError, SpecError
from formwright.files import write_atomically
from formwright.space.tree import TreeSpace

_LARGEST = 50_000_000  # bytes


def write_space(path: Path, space: TreeSpace) -> None:
    """Write a space as JSON."""
    write_atomically(path, json.dumps(space.to_data(), indent=1).encode())


def read_space(path: Path) -> TreeSpace:
    """Read what ``write_space`` wrote."""
    try:
        if path.stat().st_size > _LARGEST:
            raise InputError(f"{path} is larger than {_LARGEST:,} bytes; that is no space.")
        data = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}.") from None
    except (UnicodeDecodeError, ValueError, RecursionError) as error:
        raise FormatError(f"{path} is not a JSON document, so it is no space: {error}.") from None
    try:
        return TreeSpace.from_data(data)
    except SpecError as error:
        raise FormatError(f"{path}: {error}") from None
