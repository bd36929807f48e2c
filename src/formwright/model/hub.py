"""Checkpoints of the Hugging Face hub, for those who have a connection: ``hf:OWNER/NAME``.

Only descriptions, tokenisers and safetensors are fetched: no code, nothing pickled.
"""

from pathlib import Path

from formwright.errors import InputError

HUB = "hf:"
_FILES = ["*.json", "*.safetensors", "*.txt", "*.model"]


def is_hub(text: str) -> bool:
    """Whether ``text`` names a checkpoint of the hub."""
    return text.startswith(HUB) and len(text) > len(HUB)


def hub_folder(text: str) -> Path:
    """The folder of a checkpoint, fetched from the hub unless it was before."""
    name, _, revision = text.removeprefix(HUB).partition("@")
    try:
        from huggingface_hub import snapshot_download  # noqa: PLC0415  # optional
    except ImportError:
        raise InputError(
            f"{text} needs a package that is not installed; run: pip install 'formwright[hf]'"
        ) from None
    try:
        found = snapshot_download(name, revision=revision or None, allow_patterns=_FILES)
        return Path(str(found))
    except Exception as error:  # the library raises errors of many libraries below it
        why = " ".join(str(error).split())[:200]
        raise InputError(f"{name} cannot be had from the hub: {why}") from None
