"""A model with all that it takes to use it: ``load(FOLDER)``.

model = formwright.load("runs/demo/best")
model.predict(["the first text", "another one"])
model.generate("def main", length=80)
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import torch

from formwright.errors import InputError
from formwright.files import read_json
from formwright.model import Model, generate, load_model
from formwright.model.beside import transformer_folder
from formwright.model.build import CARD, TASK
from formwright.model.families.config import CONFIG
from formwright.model.hub import hub_folder, is_hub
from formwright.tasks.batching import in_order
from formwright.tasks.reading import Kind, Reading
from formwright.use.answers import Answer, Passage, Written
from formwright.use.foreign import foreign_reading
from formwright.use.readers import READERS, Example, Reader, Row, padded

_LARGEST = 1_000_000_000  # bytes of a file of JSON
AT_ONCE = 4096  # rows that are sorted by length together: memory stays bounded
_CPU_TOKENS, _GPU_TOKENS = 2048, 16384  # a processor is fastest while a batch fits its caches
_VERBS: dict[Kind, str] = {
    "classify": "predict", "match": "predict", "tag": "tag", "span": "answer",
    "translate": "translate", "lm": "generate", "mlm": "predict", "vectors": "predict",
}  # fmt: skip


class Loaded:
    """A trained model that answers in words.

    Attributes:
        folder: Where it came from.
        model: The torch module, in evaluation mode.
        reading: How texts become symbols, and what its answers mean.
        card: What is known of it: scores, latency, how it was found.
    """

    def __init__(self, folder: Path, model: Model, reading: Reading, card: dict[str, Any]) -> None:
        self.folder, self.model, self.reading, self.card = folder, model.eval(), reading, card
        reader = READERS.get(reading.kind)
        self.reader: Reader | None = reader(reading) if reader is not None else None

    @property
    def kind(self) -> Kind:
        """What it does with a text: classify, tag, lm, ..."""
        return self.reading.kind

    @property
    def device(self) -> torch.device:
        """Where it computes."""
        return next(self.model.parameters()).device

    @property
    def batch_tokens(self) -> int:
        """Symbols that are read at once, for the device it is on."""
        return _CPU_TOKENS if self.device.type == "cpu" else _GPU_TOKENS

    # --- answers ------------------------------------------------------------------------

    def predict(self, rows: str | Iterable[Row], *, batch_tokens: int | None = None) -> Any:
        """Answers to texts, in their order; one answer to one text.

        Args:
            rows: Texts; pairs of texts for models that read two; for taggers also lists of words.
            batch_tokens: Symbols that are read at once; what suits the device if not given.

        Returns:
            For each row a ``Label``, ``Number``, ``Tags``, ``Passage``, ``Written`` or ``Vector``.
        """
        if isinstance(rows, str):
            return next(self.stream([rows], batch_tokens=batch_tokens))
        return list(self.stream(rows, batch_tokens=batch_tokens))

    def stream(self, rows: Iterable[Row], *, batch_tokens: int | None = None) -> Iterator[Answer]:
        """The same for any number of rows, of which a few thousand are in memory at a time."""
        if batch_tokens is None:
            batch_tokens = self.batch_tokens
        if batch_tokens < 1:
            raise InputError(f"A batch of {batch_tokens} tokens is none; give at least 1.")
        waiting = iter(rows)
        while chunk := list(islice(waiting, AT_ONCE)):
            yield from self._answers(chunk, batch_tokens)

    def generate(
        self, prompt: str = "", length: int = 100, *, temperature: float = 0.0, seed: int = 0
    ) -> str:
        """The text that a language model writes behind a prompt.

        Args:
            prompt: What stands before it.
            length: Symbols to write.
            temperature: 0 takes the likeliest symbol, 1 draws as the model believes.
            seed: Of what is drawn.
        """
        self._only("lm")
        start = self._prompt(prompt)
        draws = torch.Generator(self.device).manual_seed(seed)
        end = self.reading.tokenizer.specials.get("end")
        written = start
        longest = self.reading.length
        while len(written) - len(start) < length:  # a full memory is begun again, half full
            known = written if len(written) < longest else written[-max(1, longest // 2) :]
            room = min(length - (len(written) - len(start)), longest - len(known))
            tokens = torch.tensor([known], device=self.device)
            found = generate(
                self.model, tokens, max(1, room), temperature=temperature, generator=draws, end=end
            )[0].tolist()
            new = found[len(known) :]
            written = [*written, *new]
            if end is not None and end in new:
                break
        new = written[len(start) :]
        return self.reading.tokenizer.decode(new[: new.index(end)] if end in new else new)

    def tag(self, texts: str | Iterable[Row]) -> Any:
        """A tag for each word of texts, or of lists of words."""
        self._only("tag")
        return self.predict(texts)

    def translate(self, texts: str | Iterable[str]) -> Any:
        """Texts in the other language."""
        self._only("translate")
        found = self.predict(texts)
        return found.text if isinstance(texts, str) else [answer.text for answer in found]

    def answer(self, question: str, context: str) -> Passage:
        """Where in a text the answer to a question stands."""
        self._only("span")
        found: Passage = self.predict([(question, context)])[0]
        return found

    # --- how ----------------------------------------------------------------------------

    def _only(self, kind: Kind) -> None:
        if self.kind != kind:
            raise InputError(
                f"{self.folder} holds a model of the kind {self.kind}; ask it with "
                f"{_VERBS[self.kind]}()."
            )

    def _prompt(self, text: str) -> list[int]:
        """A prompt in symbols, with what the tokeniser puts before every text."""
        tokenizer = self.reading.tokenizer
        numbers = tokenizer.begun(tokenizer.encode(text))
        return numbers or tokenizer.encode("\n")[:1] or [0]

    def _answers(self, rows: Sequence[Row], batch_tokens: int) -> list[Answer]:
        if self.reader is None:  # a language model continues each text
            return [Written(self.generate(_text(row))) for row in rows]
        examples = [self.reader.example(row) for row in rows]
        lengths = np.array([[example.length for example in examples]]).T
        found: list[Answer | None] = [None] * len(rows)
        with torch.inference_mode():
            for group in in_order(lengths, batch_tokens):
                chosen = [examples[row] for row in group]
                for row, said in zip(group, self._said(chosen), strict=True):
                    found[row] = said
        return [answer for answer in found if answer is not None]

    def _said(self, examples: Sequence[Example]) -> list[Answer]:
        assert self.reader is not None
        inputs = padded(examples, self.reading.tokenizer.pad)
        moved = {name: tensor.to(self.device) for name, tensor in inputs.items()}
        return self.reader.answers(self.model, moved, examples)


def load(
    folder: str | Path, *, device: torch.device | str = "cpu", unsafe_pickle: bool = False
) -> Loaded:
    """A trained model, ready to answer.

    Args:
        folder: Of a model: ``RUN/best``, ``RUN/model``, an exported folder, or one in Hugging
            Face's format with its tokeniser; or ``hf:OWNER/NAME``, from its hub.
        device: Where to compute.
        unsafe_pickle: Also read pickled weights, as of ``load_pretrained``.

    >>> import tempfile
    >>> from formwright import TrainConfig, load_task
    >>> from formwright.train import train
    >>> task = load_task("listops-tiny?train=50&valid=20")
    >>> with tempfile.TemporaryDirectory() as run:
    ...     few = TrainConfig(steps=2, batch_tokens=256)
    ...     trained = train(task.architecture("sf", 16), task, few, out=run)
    ...     answer = load(f"{run}/model").predict("[MAX 2 9 ]")
    >>> answer.label in "0123456789"
    True
    """
    folder = hub_folder(str(folder)) if is_hub(str(folder)) else Path(folder)
    model = load_model(folder, device=device, unsafe_pickle=unsafe_pickle)
    card = read_json(folder / CARD, "a card", _LARGEST) if (folder / CARD).is_file() else {}
    return Loaded(folder, model, reading_of(folder, model), card)


def reading_of(folder: Path, model: Model) -> Reading:
    """How the model in a folder reads texts."""
    if (folder / TASK).is_file():
        data = read_json(folder / TASK, "what a model needs to read texts", _LARGEST)
        return Reading.from_data(data, str(folder / TASK))
    if not (transformer_folder(folder) / CONFIG).is_file():
        raise InputError(
            f"{folder} holds a model without {TASK}, which says how it reads texts; it was saved "
            "by itself. Train it with formwright train, or save it with save_model(.., task=..)."
        )
    return foreign_reading(folder, model)


def _text(row: Row) -> str:
    if not isinstance(row, str):
        raise InputError(f"This model takes a text; {str(row)[:80]!r} is not.")
    return row
