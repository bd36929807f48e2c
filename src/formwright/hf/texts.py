"""Our tokenisers as one class of the library."""

import json
from pathlib import Path
from typing import Any, ClassVar

import transformers

from formwright.tasks.text import Bytes, Tokenizer, restore

TOKENIZER_FILE = "formwright_tokenizer.json"
# What the library calls our special symbols.
SPECIALS = {
    "pad": "pad_token",
    "unknown": "unk_token",
    "begin": "bos_token",
    "end": "eos_token",
    "separate": "sep_token",
    "mask": "mask_token",
}


class FormwrightTokenizer(transformers.PreTrainedTokenizer):
    """Any of formwright's tokenisers; all it needs stands in one file of the folder.

    Args:
        state_file: JSON with ``tokenizer`` (what ``Tokenizer.state`` gave), ``one`` and ``two``
            (how one text A, or two texts A and B, stand among marks) and ``pair`` (whether the
            model tells two texts apart).
        others: What every tokeniser of the library takes.
    """

    vocab_files_names: ClassVar[dict[str, str]] = {"state_file": TOKENIZER_FILE}

    def __init__(self, state_file: str, **others: Any) -> None:
        self.known = json.loads(Path(state_file).read_text(encoding="utf-8"))
        self.inner: Tokenizer = restore(self.known["tokenizer"])
        self.names = symbol_names(self.inner)
        self.numbers = {name: number for number, name in enumerate(self.names)}
        inputs = ["input_ids", "attention_mask"]
        others["model_input_names"] = inputs + (["token_type_ids"] if self.known["pair"] else [])
        for ours, theirs in SPECIALS.items():
            if ours in self.inner.specials:
                others.setdefault(theirs, self.names[self.inner.specials[ours]])
        super().__init__(**others)

    @property
    def vocab_size(self) -> int:
        """Different symbols."""
        return self.inner.vocab

    def get_vocab(self) -> dict[str, int]:
        """Every symbol and its number."""
        return {**self.numbers, **self._added_tokens_encoder}

    def tokenize(self, text: str, **options: Any) -> list[str]:
        """The symbols of a text; a text without any is one that is unknown."""
        unknown = self.inner.specials.get("unknown", 0)
        return [self.names[number] for number in self.inner.encode(text) or [unknown]]

    def _convert_token_to_id(self, token: str) -> int:
        return self.numbers.get(token, self.inner.specials.get("unknown", 0))

    def _convert_id_to_token(self, index: int) -> str:
        return self.names[index]

    def convert_tokens_to_string(self, tokens: list[str]) -> str:
        """Text again; special symbols are left out."""
        return self.inner.decode([self._convert_token_to_id(token) for token in tokens])

    def build_inputs_with_special_tokens(
        self, token_ids_0: list[int], token_ids_1: list[int] | None = None
    ) -> list[int]:
        """One or two texts as the model reads them in one."""
        return [number for number, _ in self._placed(token_ids_0, token_ids_1)]

    def create_token_type_ids_from_sequences(
        self, token_ids_0: list[int], token_ids_1: list[int] | None = None
    ) -> list[int]:
        """Which text each token belongs to."""
        return [text for _, text in self._placed(token_ids_0, token_ids_1)]

    def _placed(self, first: list[int], second: list[int] | None) -> list[tuple[int, int]]:
        found: list[tuple[int, int]] = []
        text = 0
        for piece in self.known["one" if second is None else "two"]:
            text = 1 if piece == "B" else text
            numbers = {"A": first, "B": second or []}.get(piece, [piece])
            found += [(number, text) for number in numbers]
        return found

    def save_vocabulary(
        self, save_directory: str, filename_prefix: str | None = None
    ) -> tuple[str, ...]:
        """Write the one file it needs."""
        name = f"{filename_prefix}-{TOKENIZER_FILE}" if filename_prefix else TOKENIZER_FILE
        path = Path(save_directory) / name
        path.write_text(json.dumps(self.known, ensure_ascii=False), encoding="utf-8")
        return (str(path),)


def symbol_names(tokenizer: Tokenizer) -> list[str]:
    """A name of its own for every symbol; those of special ones are not taken by words."""
    specials = [f"<{name}>" for name in tokenizer.specials]
    if isinstance(tokenizer, Bytes):
        return specials + [f"<0x{byte:02X}>" for byte in range(256)]
    table: Any = tokenizer
    symbols: list[str] = table.symbols
    return specials + [f"{word}\0" if word in specials else word for word in symbols]
