"""The options of a checkpoint, ``config.json``, each looked at before it is believed."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from formwright.errors import InputError
from formwright.files import read_json

CONFIG = "config.json"
LARGEST = 10_000_000  # bytes of a JSON file
_MOST = {"layers": 1000, "size": 10_000_000}  # above which config.json is surely damaged
ACTIVATIONS: Mapping[str, Any] = {
    "gelu": "gelu",
    "gelu_new": "gelu_tanh",
    "gelu_fast": "gelu_tanh",
    "gelu_pytorch_tanh": "gelu_tanh",
    "relu": "relu",
    "relu2": "squared_relu",
    "silu": "silu",
    "swish": "silu",
    "tanh": "tanh",
}
# Our words to theirs: of several names the first.
THEIRS = {ACTIVATIONS[name]: name for name in reversed(list(ACTIVATIONS))}


class Config:
    """The options of a checkpoint, and the folder that they come from."""

    def __init__(self, data: Mapping[str, Any], folder: Path = Path()) -> None:
        self.data, self.folder = data, folder

    @staticmethod
    def read(folder: Path) -> "Config":
        """What a folder says about its model."""
        if not (folder / CONFIG).is_file():
            raise InputError(f"{folder} holds no model: {CONFIG} is missing.")
        data = read_json(folder / CONFIG, "a model's configuration", LARGEST)
        if not isinstance(data, dict):
            raise InputError(f"{folder / CONFIG} is no configuration of a model.")
        return Config(data, folder)

    @property
    def kind(self) -> str:
        """``bert``, ``gpt2``, ``llama``."""
        return str(self.data.get("model_type"))

    @property
    def module(self) -> str:
        """What Hugging Face calls it, ``BertForMaskedLM``; nothing where it is not said."""
        names = self.data.get("architectures")
        return str(names[0]) if isinstance(names, list) and names else ""

    def size(self, name: str, usual: int | None = None, most: str = "size") -> int:
        """A whole number above 0."""
        value = self.data.get(name)
        value = usual if value is None else value
        if not isinstance(value, int) or isinstance(value, bool) or not 0 < value <= _MOST[most]:
            raise self.wrong(name, value, f"a whole number from 1 to {_MOST[most]:,}")
        return value

    def number(self, name: str, usual: float) -> float:
        """A number above 0."""
        value = self.data.get(name, usual)
        if not isinstance(value, int | float) or isinstance(value, bool) or not 0 < value < 1e12:
            raise self.wrong(name, value, "a number above 0")
        return float(value)

    def flag(self, name: str, usual: bool) -> bool:
        """True or false."""
        value = self.data.get(name, usual)
        if not isinstance(value, bool):
            raise self.wrong(name, value, "true or false")
        return value

    def activation(self, name: str, usual: str) -> Any:
        """Our word for a function."""
        return self.function(name, self.data.get(name, usual))

    def function(self, name: str, value: Any) -> Any:
        """Our word for a function that an option names in its own way."""
        if not isinstance(value, str) or value not in ACTIVATIONS:
            raise self.wrong(name, value, f"one of {', '.join(ACTIVATIONS)}")
        return ACTIVATIONS[value]

    def only(self, name: str, *allowed: Any) -> None:
        """Refuse a variant that computes something else; the first is meant where none is given."""
        value = self.data.get(name, allowed[0])
        if value not in allowed:
            raise self.wrong(name, value, f"{allowed[0]!r}")

    def turning(self) -> Mapping[str, Any]:
        """What is said about rotary positions, which have been called by three names."""
        for name in ("rope_parameters", "rope_scaling"):
            turned = self.data.get(name) or {}
            kind = turned.get("rope_type", turned.get("type")) if isinstance(turned, dict) else ""
            if kind not in (None, "default"):
                raise self.wrong(name, turned, "plain angles, rope_type 'default'")
        return {**self.data, **(self.data.get("rope_parameters") or {})}

    def wrong(self, name: str, value: Any, allowed: str) -> InputError:
        """What to raise."""
        return InputError(
            f"{self.folder / CONFIG}: {name}={value!r} cannot be read; it must be {allowed}."
        )
