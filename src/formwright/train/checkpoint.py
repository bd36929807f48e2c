"""Checkpoints: written whole or not at all, checked before they are believed.

A checkpoint is a folder ``checkpoint-00001200`` with safetensors files and ``state.json``, which is
written last and holds the SHA-256 of every file. The folder is made under another name and moved
into place, so that a crash at any moment leaves the older ones intact; the newest two are kept,
and a damaged one is passed over.
"""

import hashlib
import json
import os
import re
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor

from formwright.errors import NoRoom, StorageError
from formwright.files import WANT_OF_SPACE, sync_folder

_NAME = re.compile(r"checkpoint-(\d{8})")
_KEPT = 2


@dataclass
class Checkpoint:
    """The state of a run after ``step`` updates."""

    step: int
    state: dict[str, Any]  # plain values for JSON
    tensors: dict[str, dict[str, Tensor]]  # file name (without ending) to named tensors


def write_checkpoint(folder: Path, checkpoint: Checkpoint) -> Path:
    """Write a checkpoint and drop the ones that are no longer needed."""
    final = folder / f"checkpoint-{checkpoint.step:08d}"
    temporary = folder / f".writing-{final.name}"
    files = {
        f"{name}.safetensors": save({k: v.contiguous() for k, v in tensors.items()})
        for name, tensors in checkpoint.tensors.items()
    }
    try:
        shutil.rmtree(temporary, ignore_errors=True)
        temporary.mkdir(parents=True)
        for name, content in files.items():
            _write(temporary / name, content)
        digests = {name: hashlib.sha256(content).hexdigest() for name, content in files.items()}
        record = {"step": checkpoint.step, "state": checkpoint.state, "sha256": digests}
        _write(temporary / "state.json", _sealed(record))
        sync_folder(temporary)
        if final.exists():  # written before a crash and written again after it
            shutil.rmtree(final)
        os.replace(temporary, final)
        sync_folder(folder)
    except OSError as error:
        shutil.rmtree(temporary, ignore_errors=True)
        raise _explained(error, folder, sum(map(len, files.values()))) from error
    for old in sorted(_found(folder))[:-_KEPT]:
        shutil.rmtree(folder / f"checkpoint-{old:08d}", ignore_errors=True)
    return final


def read_latest(folder: Path) -> tuple[Checkpoint | None, list[str]]:
    """The newest checkpoint that is whole, and what is wrong with those passed over."""
    faults: list[str] = []
    for step in sorted(_found(folder), reverse=True):
        path = folder / f"checkpoint-{step:08d}"
        try:
            return _read(path), faults
        except (OSError, ValueError, KeyError, TypeError, SafetensorError) as error:
            faults.append(f"{path.name} is damaged ({error}) and is passed over")
    return None, faults


def _read(path: Path) -> Checkpoint:
    record = json.loads((path / "state.json").read_bytes())
    seal = record.pop("seal")
    if seal != hashlib.sha256(_canonical(record)).hexdigest():
        raise ValueError("state.json does not match its own seal")
    tensors = {}
    for name, digest in record["sha256"].items():
        content = (path / name).read_bytes()
        if hashlib.sha256(content).hexdigest() != digest:
            raise ValueError(f"{name} does not match its SHA-256")
        tensors[name.removesuffix(".safetensors")] = load(content)
    return Checkpoint(record["step"], record["state"], tensors)


def _found(folder: Path) -> list[int]:
    if not folder.is_dir():
        return []
    matches = (_NAME.fullmatch(entry.name) for entry in folder.iterdir())
    return [int(match.group(1)) for match in matches if match]


def _canonical(record: dict[str, Any]) -> bytes:
    return json.dumps(record, sort_keys=True).encode()


def _sealed(record: dict[str, Any]) -> bytes:
    record = json.loads(_canonical(record))
    seal = hashlib.sha256(_canonical(record)).hexdigest()
    return json.dumps({**record, "seal": seal}, indent=1, sort_keys=True).encode()


def _write(path: Path, content: bytes) -> None:
    with open(path, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def _explained(error: OSError, folder: Path, needed: int) -> StorageError:
    if error.errno in WANT_OF_SPACE:
        return NoRoom(
            f"{folder} has no room for a checkpoint of {needed:,} bytes. Earlier checkpoints "
            " are intact; free some space and run the same command again."
        )
    return StorageError(f"A checkpoint cannot be written to {folder}: {error.strerror}.")
