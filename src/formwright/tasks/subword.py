"""Subword tokenisers through the ``tokenizers`` library: trained here, or ready-made."""

import hashlib
import json
from collections.abc import Iterable, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from formwright.errors import InputError
from formwright.tasks.text import Spans, Tokenizer

# How ready-made tokenisers spell the special symbols.
_SPELLINGS = {
    "pad": ("[PAD]", "<pad>", "<|pad|>"),
    "unknown": ("[UNK]", "<unk>", "<|endoftext|>"),
    "begin": ("[CLS]", "<s>", "<bos>", "<|startoftext|>", "<|endoftext|>"),
    "end": ("[SEP]", "</s>", "<eos>", "<|endoftext|>"),
    "separate": ("[SEP]", "</s>", "<sep>", "<|endoftext|>"),
    "mask": ("[MASK]", "<mask>"),
}
_FILES = ("tokenizer.json", "vocab.json", "merges.txt", "vocab.txt")
_LARGEST = 200_000_000  # bytes of a tokeniser file


def library(spec: str) -> Any:
    """The ``tokenizers`` library, or how to get it."""
    try:
        import tokenizers  # noqa: PLC0415  # optional
    except ImportError:
        raise InputError(
            f"The tokenizer {spec!r} needs the tokenizers library. "
            "Install it with: pip install 'formwright[data]'"
        ) from None
    return tokenizers


class Subwords(Tokenizer):
    """A tokeniser of the ``tokenizers`` library."""

    def __init__(self, spec: str, inner: Any, specials: Sequence[str], *, ours: bool) -> None:
        inner.no_padding()
        inner.no_truncation()
        self.spec, self.inner, self.ours = spec, inner, ours
        self.vocab = inner.get_vocab_size()
        self.specials = {}
        for name in specials:
            spelling = (f"<{name}>",) if ours else _SPELLINGS[name]
            found = [inner.token_to_id(word) for word in spelling]
            known = [number for number in found if number is not None]
            # what a ready-made tokeniser lacks is put behind its vocabulary
            self.specials[name] = known[0] if known else self.vocab
            self.vocab += not known

    def encode(self, text: str) -> list[int]:
        return list(self.inner.encode(text, add_special_tokens=False).ids)

    def encode_spans(self, text: str) -> tuple[list[int], Spans]:
        found = self.inner.encode(text, add_special_tokens=False)
        return list(found.ids), list(found.offsets)

    def decode(self, numbers: Iterable[int]) -> str:
        special = set(self.specials.values())
        return str(self.inner.decode([n for n in numbers if n not in special]))

    def join(self, first: Sequence[int], second: Sequence[int] | None) -> tuple[list[int], int]:
        before, between, after = self._marks[0 if second is None else 1]
        if second is None:
            return [*before, *first, *after], len(before) + len(first) + len(after)
        if self.ours or not (before or between or after):
            return super().join(first, second)
        whole = [*before, *first, *between, *second, *after]
        return whole, len(before) + len(first) + len(between)

    def begun(self, numbers: Sequence[int]) -> list[int]:
        return [*self._marks[0][0], *numbers]

    @cached_property
    def _marks(self) -> tuple["_Marks", "_Marks"]:
        """What a ready-made tokeniser puts around one text and around two."""
        if self.ours:
            return ((), (), ()), ((), (), ())
        cls, sep = (self.inner.token_to_id(word) for word in ("[CLS]", "[SEP]"))
        if self.inner.post_processor is None and cls is not None and sep is not None:
            return ((cls,), (), (sep,)), ((cls,), (sep,), (sep,))  # as BERT reads
        return _around(self.inner.encode("a")), _around(self.inner.encode("a", "a"))

    def state(self) -> dict[str, Any]:
        return {
            "kind": "subwords",
            "spec": self.spec,
            "json": self.inner.to_str(),
            "specials": list(self.specials),
            "ours": self.ours,
        }


_Marks = tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]


def _around(found: Any) -> _Marks:
    """Special symbols before, between and after texts."""
    own = [at for at, text in enumerate(found.sequence_ids) if text is not None]
    second = [at for at in own if found.sequence_ids[at] == 1]
    ids = tuple(found.ids)
    if not own:
        return (), (), ids
    if not second:
        return ids[: own[0]], (), ids[own[-1] + 1 :]
    first = [at for at in own if found.sequence_ids[at] == 0]
    return ids[: own[0]], ids[first[-1] + 1 : second[0]], ids[own[-1] + 1 :]


def restore(state: Any) -> Subwords:
    """A tokeniser from its ``state``."""
    inner = library(state["spec"]).Tokenizer.from_str(state["json"])
    return Subwords(state["spec"], inner, state["specials"], ours=state["ours"])


def train(kind: str, size: int, texts: Iterable[str], specials: Sequence[str]) -> Subwords:
    """Learn byte-level BPE (as GPT-2) or WordPiece (as BERT, lower case) from texts."""
    spec = f"{kind}:{size}"
    tk = library(spec)
    if kind != "bpe" and "unknown" not in specials:
        specials = [*specials, "unknown"]
    names = [f"<{name}>" for name in specials]
    asked = {"vocab_size": size, "special_tokens": names, "show_progress": False}
    if kind == "bpe":
        inner = _as_gpt2(tk, tk.models.BPE())
        alphabet = sorted(tk.pre_tokenizers.ByteLevel.alphabet())
        trainer = tk.trainers.BpeTrainer(initial_alphabet=alphabet, **asked)
    else:
        inner = _as_bert(tk, tk.models.WordPiece(unk_token="<unknown>"), lowercase=True)  # noqa: S106  # a symbol
        trainer = tk.trainers.WordPieceTrainer(**asked)
    inner.train_from_iterator(texts, trainer)
    return Subwords(spec, inner, specials, ours=True)


def from_path(spec: str, specials: Sequence[str]) -> Subwords:
    """A ready-made tokeniser: a tokenizer.json, or a folder that holds one (or BERT's vocab.txt,
    or GPT-2's vocab.json and merges.txt)."""
    tk = library(spec)
    files = _files(spec)
    names = {path.name: str(path) for path in files}
    try:
        if "merges.txt" in names and "vocab.json" in names and "tokenizer.json" not in names:
            model = tk.models.BPE.from_file(names["vocab.json"], names["merges.txt"])
            inner = _as_gpt2(tk, model)
        elif "vocab.txt" in names and "tokenizer.json" not in names:
            model = tk.models.WordPiece.from_file(names["vocab.txt"], unk_token="[UNK]")  # noqa: S106  # a symbol
            inner = _as_bert(tk, model, lowercase="uncased" in spec.lower())
        else:
            inner = tk.Tokenizer.from_str(files[0].read_text(encoding="utf-8"))
    except Exception as error:  # the library raises bare Exception for every kind of bad file
        raise InputError(f"{spec} cannot be read as a tokenizer: {error}") from None
    return Subwords(spec, inner, specials, ours=False)


def _as_gpt2(tk: Any, model: Any) -> Any:
    """A model of byte-level pieces behind what GPT-2 does to text."""
    inner = tk.Tokenizer(model)
    inner.pre_tokenizer = tk.pre_tokenizers.ByteLevel(add_prefix_space=False)
    inner.decoder = tk.decoders.ByteLevel()
    return inner


def _as_bert(tk: Any, model: Any, *, lowercase: bool) -> Any:
    """A model of word pieces behind what BERT does to text."""
    inner = tk.Tokenizer(model)
    inner.normalizer = tk.normalizers.BertNormalizer(lowercase=lowercase)
    inner.pre_tokenizer = tk.pre_tokenizers.BertPreTokenizer()
    inner.decoder = tk.decoders.WordPiece()
    return inner


def fingerprint(spec: str) -> str:
    """The library's version for trained tokenisers, the content of the files for ready-made."""
    if spec.partition(":")[0] in ("bpe", "wordpiece"):
        return f"tokenizers {library(spec).__version__}"
    content = [(path.name, hashlib.sha256(path.read_bytes()).hexdigest()) for path in _files(spec)]
    return json.dumps(content)


def _files(spec: str) -> list[Path]:
    path = Path(spec).expanduser()
    files = [path] if path.is_file() else [path / name for name in _FILES]
    found = [file for file in files if file.is_file()]
    if not found and path.is_dir():
        raise InputError(f"{path} holds no tokenizer: {_FILES[0]} is missing.")
    if not found:
        raise InputError(
            f"No tokenizer is called {spec!r}, and no folder or file of that name holds one. "
            "Use bytes, chars, words, words:N, spaces, bpe:N, wordpiece:N, or the path of a "
            "tokenizer.json."
        )
    for file in found:
        if file.stat().st_size > _LARGEST:
            raise InputError(f"{file} is larger than {_LARGEST:,} bytes; that is no tokenizer.")
    return found
