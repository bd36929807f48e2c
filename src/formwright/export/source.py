"""What goes out: a model folder, read whole. Where it goes: a new folder, whole or not at all."""

import contextlib
import json
import secrets
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from formwright.errors import FormatError, InputError, StorageError
from formwright.files import read_json, write_atomically
from formwright.model import Model, load_model
from formwright.tasks.text import Tokenizer, restore
from formwright.use.foreign import foreign_reading

TASK, CARD = "task.json", "card.json"
_FORMAT = 1
_LARGEST = 500_000_000  # bytes: a tokeniser with all its symbols stands in it
_TEXTS = ("tokenizer.json", "vocab.txt", "vocab.json")  # of a tokeniser
_BESIDE = (
    "tokenizer*", "special_tokens_map.json", "added_tokens.json", "vocab.*", "merges.txt",
    "generation_config.json", "modules.json", "*sentence*.json", "[0-9]_*",
)  # fmt: skip
_JOINED = ("classify", "span", "vectors")  # kinds whose texts get a tokeniser's marks


@dataclass(frozen=True)
class Source:
    """A model, what it was trained for and what is known of it; None and nothing where unsaid."""

    folder: Path
    model: Model
    task: Mapping[str, Any] | None
    card: Mapping[str, Any]

    @property
    def kind(self) -> str:
        """What it answers: ``classify``, ``tag``, ...; by its head where no task is known."""
        return str(self.task["kind"]) if self.task is not None else self.model.frame.head.NAME

    @property
    def labels(self) -> list[str]:
        """Names of classes or tags."""
        return list(self.task.get("labels") or []) if self.task is not None else []

    @property
    def length(self) -> int:
        """Tokens it reads at most."""
        longest = self.model.frame.length
        return min(int(self.task["length"]), longest) if self.task is not None else longest

    @property
    def pair(self) -> bool:
        """Whether two texts are read in one."""
        return self.kind == "span" or (self.task is not None and bool(self.task.get("pair")))

    def tokenizer(self) -> Tokenizer | None:
        """What it reads texts with; None where symbols were generated or nothing is known."""
        state = self.task.get("tokenizer") if self.task is not None else None
        return None if state is None else restore(state)


def read_source(folder: str | Path) -> Source:
    """Read a model folder."""
    folder = Path(folder)
    task = _document(folder / TASK, "a task")
    if task is not None:
        missing = [name for name in ("kind", "length") if name not in task]
        if task.get("format") != _FORMAT or missing:
            raise FormatError(
                f"{folder / TASK} is no task of format {_FORMAT}, which is the one that this "
                "version of formwright reads."
            )
    model = load_model(folder)
    if task is None and is_foreign(folder) and any((folder / name).is_file() for name in _TEXTS):
        task = foreign_reading(folder, model).to_data()
    return Source(folder, model, task, _document(folder / CARD, "a card") or {})


def is_foreign(folder: Path) -> bool:
    """Whether a model came in Hugging Face's format."""
    return not (folder / "architecture.json").is_file()


def copy_beside(source: Path, folder: Path) -> bool:
    """Take over what lies beside foreign weights, as it is; whether a tokeniser is among it."""
    for pattern in _BESIDE:
        for path in source.glob(pattern):
            copy = shutil.copytree if path.is_dir() else shutil.copyfile
            copy(path, folder / path.name)
    return any((folder / name).is_file() for name in _TEXTS)


def _document(path: Path, what: str) -> dict[str, Any] | None:
    if not path.is_file():
        return None
    found = read_json(path, what, _LARGEST)
    if not isinstance(found, dict):
        raise FormatError(f"{path} holds no JSON object, so it is not {what}.")
    return found


def marks(source: Source, tokenizer: Tokenizer | None) -> dict[str, list[int | str]]:
    """How one text A, and two texts A and B, stand among marks when the model reads them."""
    if tokenizer is None or source.kind not in _JOINED:
        return {"one": ["A"], "two": ["A", "B"]}
    stand_in: dict[int, int | str] = {-1: "A", -2: "B"}
    one, _ = tokenizer.join([-1], None)
    found: dict[str, list[int | str]] = {"one": [stand_in.get(n, n) for n in one]}
    if source.pair:  # a tokeniser of single texts has no mark between two
        two, _ = tokenizer.join([-1], [-2])
        found["two"] = [stand_in.get(n, n) for n in two]
    return found


def write_about(source: Source, folder: Path) -> None:
    """Put task and card beside an exported model, with what ``run.py`` must know."""
    tokenizer = source.tokenizer()
    if source.task is not None:
        specials = {} if tokenizer is None else tokenizer.specials
        how = {"specials": specials, **marks(source, tokenizer)}
        write_json(folder / TASK, {**source.task, "length": source.length, "run": how})
    if source.card:
        write_json(folder / CARD, source.card)


def write_json(path: Path, data: Mapping[str, Any]) -> None:
    """A JSON document for people and programs."""
    write_atomically(path, (json.dumps(data, indent=1, ensure_ascii=False) + "\n").encode())


@contextlib.contextmanager
def new_folder(out: str | Path) -> Iterator[Path]:
    """A folder to fill, which becomes ``out`` when all went well and vanishes otherwise."""
    out = Path(out)
    check_free(out)
    partial = out.with_name(f".{out.name}.{secrets.token_hex(4)}.partial")
    try:
        partial.mkdir(parents=True)
        try:
            yield partial
            if out.is_dir():  # an empty one
                out.rmdir()
            partial.rename(out)
        finally:
            shutil.rmtree(partial, ignore_errors=True)
    except OSError as error:
        raise StorageError(f"{out} cannot be written: {error.strerror or error}.") from None


def check_free(out: Path) -> None:
    """Refuse a place where something is already."""
    if not out.name:
        raise InputError(f"--out {out} is no new folder; give its name.")
    if out.is_dir() and any(out.iterdir()):
        raise InputError(f"{out} is not empty; give a new folder, or remove it first.")
    if out.exists() and not out.is_dir():
        raise InputError(f"{out} is a file; give a new folder.")
