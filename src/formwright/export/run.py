"""Answer texts with the model.onnx in this folder.

    python run.py "a text" "another one"
    python run.py < texts.txt

Needs onnxruntime and numpy, and tokenizers where the model reads subwords; nothing else. A line of
the standard input is one text. Where a model reads two texts (a pair, a question and what it is
asked about) they stand behind one another, and in a line with a tab between.
"""

import argparse
import json
import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

HERE = Path(__file__).resolve().parent
WORD = re.compile(r"<[^<>\s]+>|\w+(?:['\u2019]\w+)*|[^\w\s]")
PIECE = re.compile(r"\n|[^\s]+")
LONGEST_ANSWER = 30  # tokens, of a question about a text
Spans = list[tuple[int, int]]
Pair = tuple[list[int], list[int] | None]


# --- text to numbers ----------------------------------------------------------------------------


class Bytes:
    """Every byte is a symbol, behind the special ones."""

    def __init__(self, state: dict[str, Any]) -> None:
        self.first = len(state["specials"])

    def encode(self, text: str) -> tuple[list[int], Spans]:
        spans = [(at, at + 1) for at, letter in enumerate(text) for _ in letter.encode()]
        return [byte + self.first for byte in text.encode()], spans

    def decode(self, numbers: Sequence[int]) -> str:
        return bytes(n - self.first for n in numbers if n >= self.first).decode(errors="replace")


class Table:
    """Characters, words, pieces between spaces, or the same with rare words by their looks."""

    def __init__(self, state: dict[str, Any]) -> None:
        self.kind = state["kind"]
        specials = [*state["specials"]]
        specials += [] if "unknown" in specials else ["unknown"]
        self.names = [*(f"<{name}>" for name in specials), *state["symbols"]]
        self.first, self.unknown = len(specials), specials.index("unknown")
        self.numbers = {symbol: n for n, symbol in enumerate(state["symbols"], self.first)}

    def encode(self, text: str) -> tuple[list[int], Spans]:
        if self.kind == "characters":
            found = [(letter, (at, at + 1)) for at, letter in enumerate(text)]
        else:
            pattern = WORD if self.kind == "words" else PIECE
            found = [(match.group(), match.span()) for match in pattern.finditer(text)]
        return [self.number(symbol) for symbol, _ in found], [span for _, span in found]

    def number(self, symbol: str) -> int:
        forms = [symbol.lower() if self.kind == "words" else symbol]
        forms += looks(symbol) if self.kind == "shapes" else []
        known = [self.numbers[form] for form in forms if form in self.numbers]
        return known[0] if known else self.unknown

    def decode(self, numbers: Sequence[int]) -> str:
        kept = [self.names[n] for n in numbers if n >= self.first or n == self.unknown]
        return ("" if self.kind == "characters" else " ").join(kept)


class Subwords:
    """A tokeniser of the tokenizers library."""

    def __init__(self, state: dict[str, Any], specials: dict[str, int]) -> None:
        import tokenizers  # noqa: PLC0415  # only where it is needed

        self.inner = tokenizers.Tokenizer.from_str(state["json"])
        self.inner.no_padding()
        self.inner.no_truncation()
        self.special = set(specials.values())

    def encode(self, text: str) -> tuple[list[int], Spans]:
        found = self.inner.encode(text, add_special_tokens=False)
        return list(found.ids), list(found.offsets)

    def decode(self, numbers: Sequence[int]) -> str:
        return str(self.inner.decode([n for n in numbers if n not in self.special]))


class Numbers:
    """Symbols that were generated: whole numbers with spaces between."""

    def encode(self, text: str) -> tuple[list[int], Spans]:
        found = list(re.finditer(r"\d+", text))
        return [int(match.group()) for match in found], [match.span() for match in found]

    def decode(self, numbers: Sequence[int]) -> str:
        return " ".join(map(str, numbers))


def looks(word: str) -> list[str]:
    """What a rare word looks like, from the most to the least telling."""
    case = "C" if word[:1].isupper() else "c"
    case += "A" if len(word) > 1 and word.isupper() else ""
    marks = ("d" if any(c.isdigit() for c in word) else "") + ("-" if "-" in word else "")
    ends = [word[-size:].lower() for size in (3, 2, 1) if len(word) > size]
    return [f"\0{case}{marks}~{end}" for end in ends] + [f"\0{case}{marks}"]


def fit(first: list[int], second: list[int] | None, over: int) -> Pair:
    """Texts that are ``over`` tokens too long, cut at their ends, the longer one first."""
    if second is None:
        return first[: max(1, len(first) - over)], None
    room = max(2, len(first) + len(second) - over)
    half = room // 2
    if len(second) <= half:
        return first[: room - len(second)], second
    if len(first) <= room - half:
        return first, second[: room - len(first)]
    return first[: room - half], second[:half]


# --- the model ----------------------------------------------------------------------------------


class Answerer:
    """The model of a folder, and how its task reads texts and answers."""

    def __init__(self, folder: Path) -> None:
        import onnxruntime  # noqa: PLC0415  # whoever only looks at this file may lack it

        self.task = json.loads((folder / "task.json").read_text(encoding="utf-8"))
        self.session = onnxruntime.InferenceSession(
            str(folder / "model.onnx"), providers=["CPUExecutionProvider"]
        )
        self.inputs = {node.name: node.shape for node in self.session.get_inputs()}
        self.kind, self.labels = self.task["kind"], self.task["labels"]
        self.length, self.how = self.task["length"], self.task["run"]
        self.text = self._tokenizer(self.task["tokenizer"])

    def _tokenizer(self, state: dict[str, Any] | None) -> Any:
        if state is None:
            return Numbers()
        if state["kind"] == "bytes":
            return Bytes(state)
        if state["kind"] == "subwords":
            return Subwords(state, self.how["specials"])
        return Table(state)

    @property
    def reads_two(self) -> bool:
        """Whether an answer takes two texts."""
        return self.kind in ("match", "span") or bool(self.task["pair"])

    def answer(self, texts: Sequence[str], new: int) -> str:
        """The answer to one text, or to two, as a line."""
        if self.kind in ("classify", "match"):
            return self._class(texts)
        if self.kind == "tag":
            return self._tags(texts[0])
        if self.kind == "span":
            return self._span(*texts)
        if self.kind == "translate":
            return self._translation(texts[0])
        if self.kind == "lm":
            return self._continuation(texts[0], new)
        if self.kind == "mlm":
            return self._filled(texts[0])
        tokens, _ = self._joined(texts)
        mean = self._run({"input_ids": tokens})[: len(tokens)].mean(axis=0)
        return json.dumps([round(float(number), 6) for number in mean])

    def _numbers(self, text: str) -> list[int]:
        return self.text.encode(text)[0] or [self.how["specials"].get("unknown", 0)]

    def _joined(self, texts: Sequence[str]) -> tuple[list[int], int]:
        """One or two texts as the model reads them, and where the second begins."""
        first = self._numbers(texts[0])
        second = self._numbers(texts[1]) if len(texts) > 1 else None
        over = len(self._join(first, second)[0]) - self.length
        return self._join(*fit(first, second, over)) if over > 0 else self._join(first, second)

    def _join(self, first: list[int], second: list[int] | None) -> tuple[list[int], int]:
        tokens: list[int] = []
        begins = 0
        for piece in self.how["one" if second is None else "two"]:
            begins = len(tokens) if piece == "B" else begins
            tokens += {"A": first, "B": second or []}.get(piece, [piece])
        return tokens, begins

    def _run(self, texts: dict[str, list[int]], begins: int | None = None) -> Any:
        """The scores of one example; inputs of a fixed length are filled up."""
        fed = {}
        for name, shape in self.inputs.items():
            words = texts.get(name.replace("attention_mask", "input_ids"), texts["input_ids"])
            length = shape[1] if isinstance(shape[1], int) else len(words)
            if name.endswith("attention_mask"):
                row = [1] * len(words)
            elif name == "token_type_ids":
                row = [int(begins is not None and at >= begins) for at in range(len(words))]
            else:
                row = words
            fed[name] = np.array([row + [0] * (length - len(row))], np.int64)
        return self.session.run(None, fed)[0][0]

    def _class(self, texts: Sequence[str]) -> str:
        if self.kind == "match":
            first, second = (self._numbers(text)[: self.length] for text in texts)
            scores = self._run({"input_ids": first, "other_input_ids": second})
        else:
            tokens, begins = self._joined(texts)
            scores = self._run({"input_ids": tokens}, begins if len(texts) > 1 else None)
        if not self.labels:
            return f"{float(scores[0]):.6g}"
        chances = np.exp(scores - scores.max())
        best = int(scores.argmax())
        return f"{self.labels[best]}\t{chances[best] / chances.sum():.4f}"

    def _tags(self, text: str) -> str:
        words = text.split()
        state = self.task["tokenizer"] or {"kind": "pieces"}
        tokens: list[int] = []
        places = []
        for at, word in enumerate(words):
            # pieces of a word depend on the space before it in byte-level tokenisers
            spaced = f" {word}" if at and state["kind"] not in ("bytes", "characters") else word
            found = self._numbers(spaced)
            places.append(len(tokens))
            tokens += found[:1] if state["kind"] == "shapes" else found
        tokens = tokens[: self.length]
        best = self._run({"input_ids": tokens}).argmax(axis=-1) if tokens else []
        tags = [self.labels[int(best[at])] if at < len(tokens) else "?" for at in places]
        return " ".join(f"{word}/{tag}" for word, tag in zip(words, tags, strict=True))

    def _span(self, question: str, text: str) -> str:
        asked = self._numbers(question)[: max(1, self.length // 2)]
        told, spans = self.text.encode(text)
        extra = len(self.how["two"]) - 2
        told = told[: max(1, self.length - len(asked) - extra)]
        tokens, begins = self._join(asked, told)
        scores = self._run({"input_ids": tokens}, begins).astype(np.float64)
        best, answer = scores[0].sum(), ""
        for first in range(len(told)):
            ends = scores[begins + first : begins + min(first + LONGEST_ANSWER, len(told)), 1]
            score = scores[begins + first, 0] + ends.max()
            if score > best:
                last = first + int(ends.argmax())
                best, answer = score, text[spans[first][0] : spans[last][1]]
        return answer

    def _translation(self, text: str) -> str:
        special = self.how["specials"]
        source = [*self._numbers(text)[: self.length - 1], special["end"]]
        written = [special["begin"]]
        for _ in range(min(self.length, 2 * len(source) + 10)):
            scores = self._run({"input_ids": source, "decoder_input_ids": written})
            best = int(scores[len(written) - 1].argmax())
            if best == special["end"]:
                break
            written.append(best)
        return str(self.text.decode(written[1:]))

    def _continuation(self, text: str, new: int) -> str:
        tokens = self._numbers(text)
        for _ in range(new):
            seen = tokens[-self.length :]
            tokens.append(int(self._run({"input_ids": seen})[len(seen) - 1].argmax()))
        return str(self.text.decode(tokens))

    def _filled(self, text: str) -> str:
        """The text with the likeliest symbol wherever it says ``<mask>``."""
        mask = self.how["specials"]["mask"]
        tokens: list[int] = []
        for at, part in enumerate(text.split("<mask>")):
            tokens += [mask] * (at > 0) + self.text.encode(part)[0]
        tokens = tokens[: self.length]
        best = self._run({"input_ids": tokens}).argmax(axis=-1)
        filled = [int(best[at]) if token == mask else token for at, token in enumerate(tokens)]
        return str(self.text.decode(filled))


# --- the command --------------------------------------------------------------------------------


def examples(given: list[str], two: bool) -> Iterator[list[str]]:
    """The texts of each answer, from the command or from the standard input."""
    if given:
        step = 2 if two else 1
        yield from (given[at : at + step] for at in range(0, len(given), step))
    else:
        for line in sys.stdin:
            yield line.rstrip("\n").split("\t", 1) if two else [line.rstrip("\n")]


def main() -> None:
    """Answer what the command or the standard input gives, a line for each."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("texts", nargs="*", help="lines of the standard input when not given")
    parser.add_argument("--new", type=int, default=40, help="tokens to write (language models)")
    asked = parser.parse_args()
    model = Answerer(HERE)
    for texts in examples(asked.texts, model.reads_two):
        if len(texts) < 1 + model.reads_two:
            sys.exit("run.py: error: this model reads two texts; give both, or a tab between them.")
        print(model.answer(texts, asked.new), flush=True)


if __name__ == "__main__":
    main()
