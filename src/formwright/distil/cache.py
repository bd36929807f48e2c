"""Hidden states of a fixed set of batches: read from disk where that is cheaper than running.

Blocks are trained over the same batches again and again, each between the states before and after
one place. The teacher is run once for each batch and its states are written, as safetensors; a
pair of states is then read back. Where they would not fit into the space that may be used, or
where reading was not faster when it was tried, the teacher is run each time.
"""

import hashlib
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from formwright.distil.teacher import Teacher
from formwright.errors import StorageError
from formwright.files import read_json, write_atomically, write_json
from formwright.tasks.base import Batch

MOST_BYTES = 2_000_000_000
_INDEX, _LARGEST = "index.json", 10_000_000


@dataclass
class States:
    """What a teacher holds before each layer, for some batches.

    Args:
        teacher: Who is asked.
        batches: For what.
        folder: Where states may be kept; None keeps none.
        most: Bytes that they may take there.
    """

    teacher: Teacher
    batches: Sequence[Batch]
    folder: Path | None = None
    most: int = MOST_BYTES
    stored: bool = field(default=False, init=False)
    why: str = field(default="nothing may be kept", init=False)  # states are run again

    def __post_init__(self) -> None:
        if self.folder is not None and self.batches:
            self._prepare(self.folder)

    def pairs(self, layer: int) -> Iterator[tuple[Tensor, Tensor, Tensor | None]]:
        """Before and after a layer, batch by batch, with the mask of real tokens."""
        for number in range(len(self.batches)):
            before, after, mask = self.pair(number, layer)
            yield before, after, mask

    def pair(self, number: int, layer: int) -> tuple[Tensor, Tensor, Tensor | None]:
        """The same for one batch."""
        if not self.stored:
            (before, after), mask = self.teacher.hidden(self.batches[number], [layer, layer + 1])
            return before, after, mask
        (before, after), mask = self._read(number, layer, layer + 1)
        return before, after, mask

    # --- on disk ------------------------------------------------------------------------

    def _prepare(self, folder: Path) -> None:
        """Decide, and write what is missing; damaged files are written again."""
        began = time.perf_counter()
        states, mask = self.teacher.hidden(self.batches[0])
        ran = time.perf_counter() - began
        each = sum(state.numel() * state.element_size() for state in states)
        tokens = [batch.inputs["tokens"].numel() for batch in self.batches]
        total = int(each * sum(tokens) / max(1, tokens[0]))
        if total > self.most:
            self.why = f"{total:,} bytes would be more than {self.most:,}"
            return
        folder.mkdir(parents=True, exist_ok=True)
        key, index = self._key(), folder / _INDEX
        known = self._known(index, key)
        if "0" not in known:
            known["0"] = self._write(0, states, mask)
            write_json(index, {"key": key, "files": known})
        began = time.perf_counter()
        self._read(0, 0, 1)
        if time.perf_counter() - began >= ran:
            self.why = "reading them took longer than running the teacher"
            return
        for number, batch in enumerate(self.batches):
            if str(number) not in known:
                known[str(number)] = self._write(number, *self.teacher.hidden(batch))
                write_json(index, {"key": key, "files": known})
        self.stored, self.why = True, ""

    def _known(self, index: Path, key: str) -> dict[str, str]:
        """Files that are whole, by their number; none where they are those of another teacher."""
        data = read_json(index, "an index of states", _LARGEST) if index.exists() else {}
        if data.get("key") != key:
            return {}
        return {
            number: digest
            for number, digest in data["files"].items()
            if self._file(int(number)).exists() and _digest(self._file(int(number))) == digest
        }

    def _key(self) -> str:
        """Equal for the same teacher and the same batches."""
        found = hashlib.sha256()
        for name, tensor in self.teacher.model.state_dict().items():
            found.update(f"{name}{tuple(tensor.shape)}".encode())
            found.update(
                tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().data
            )
        for batch in self.batches:
            for name, tensor in sorted(batch.inputs.items()):
                found.update(f"{name}{tuple(tensor.shape)}".encode())
                found.update(tensor.cpu().contiguous().reshape(-1).view(torch.uint8).numpy().data)
        return found.hexdigest()

    def _file(self, number: int) -> Path:
        assert self.folder is not None
        return self.folder / f"states-{number:04}.safetensors"

    def _write(self, number: int, states: Sequence[Tensor], mask: Tensor | None) -> str:
        tensors = {str(i): state.cpu().contiguous() for i, state in enumerate(states)}
        if mask is not None:
            tensors["mask"] = mask.cpu().contiguous()
        data = save(tensors)
        write_atomically(self._file(number), data)
        return hashlib.sha256(data).hexdigest()

    def _read(self, number: int, *layers: int) -> tuple[list[Tensor], Tensor | None]:
        """States, and the mask."""
        device = str(self.teacher.device)
        try:
            with safe_open(self._file(number), framework="pt", device=device) as file:
                names = set(file.keys())
                found = [file.get_tensor(str(layer)) for layer in layers]
                return found, file.get_tensor("mask") if "mask" in names else None
        except (OSError, SafetensorError) as error:
            raise StorageError(f"{self._file(number)} cannot be read: {error}.") from None


def _digest(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()
