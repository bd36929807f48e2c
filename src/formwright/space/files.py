"""Spaces in files."""

import json
from pathlib import Path

from formwright.errors import FormatError, SpecError
from formwright.files import read_json, write_atomically
from formwright.space.registry import space_data, space_from_data
from formwright.space.space import Space

_LARGEST = 50_000_000  # bytes


def write_space(path: Path, space: Space) -> None:
    """Write a space as JSON."""
    write_atomically(path, json.dumps(space_data(space), indent=1).encode())


def read_space(path: Path) -> Space:
    """Read what ``write_space`` wrote."""
    data = read_json(path, "a space", _LARGEST)
    try:
        return space_from_data(data)
    except SpecError as error:
        raise FormatError(f"{path}: {error}") from None
