"""Where in a text is the answer to a question? SQuAD files, or tables with the same fields.

Paper: Rajpurkar et al. 2016, https://arxiv.org/abs/1606.05250
A model reads the question, a separator and the text. What does not fit is cut from the end of the
text; training leaves questions out whose answer was cut away, measuring counts them as they come.
A question without an answer (SQuAD 2) points at the first token.

b batch, n token
"""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from formwright.arch.frame import Span as SpanHead
from formwright.errors import InputError
from formwright.tasks import metrics
from formwright.tasks.base import IGNORED, Batch, Task
from formwright.tasks.cache import Stored, cached, small_dtype
from formwright.tasks.examples import ExampleTask, restored
from formwright.tasks.files import FILES_VERSION, Sources, fill_splits, find_splits, suffix_of
from formwright.tasks.guide import FROM_FILES, PACKED, Column, Guide, option
from formwright.tasks.records import longest_of
from formwright.tasks.registry import task
from formwright.tasks.splits import Split, summary, with_notes
from formwright.tasks.tables import TABLES, Row, Table, read_json, read_table
from formwright.tasks.text import Spans, TextOptions, Tokenizer, make_tokenizer

_ANSWERS = ("answers", "answer")
_LONGEST_ANSWER = 30  # tokens


@dataclass(frozen=True)
class Question:
    """A question about a text; no answers when the text holds none."""

    question: str
    context: str
    answers: tuple[str, ...]
    start: int  # character where the first answer begins
    where: str


Questions = dict[str, list[Question]]


@dataclass(frozen=True, kw_only=True)
class SpanOptions(TextOptions):
    """How questions are read and measured."""

    metric: str | None = option(None, "What counts most, of the metrics below.")


_GUIDE = Guide(
    metrics={
        "f1": "Overlap in words with the nearest right answer, as in SQuAD.",
        "exact": "Share of answers that are right to the letter, but for case and articles.",
    },
    formats={
        "json": "In the form of SQuAD 1 or 2, or a list of objects.",
        "jsonl": "An object for each question.",
        "csv, tsv": "A row for each question, with one answer.",
        "parquet": "Needs pyarrow.",
        **PACKED,
    },
    columns=(
        Column("", "The text that holds the answer.", ("context",)),
        Column("", "What is asked.", ("question",)),
        Column("", 'A text, a list of them, or {"text": [...], "answer_start": [...]}.', _ANSWERS),
    ),
    splits=FROM_FILES,
    files={
        "questions.jsonl": "".join(
            json.dumps({"context": text, "question": "Who?", "answer": text.split()[0]}) + "\n"
            for text in ("Ada sleeps.", "Lee sees Bonn.", "Eve is here.")
        )
    },
    example="span:questions.jsonl",
)


@task(
    "span", "where the answer to a question stands: SQuAD json, jsonl", SpanOptions, "PATH", _GUIDE
)
def span(path: str, name: str, options: SpanOptions) -> Task:
    """Questions from the user's files."""
    sources = find_splits(Path(path).expanduser(), TABLES, options.valid, options.test)
    known = options.settings(
        length=options.length, sources=sources.digest, files_version=FILES_VERSION
    )
    stored = cached("span", known, lambda: _prepared(sources, options))
    return from_stored(name, stored, sources.words, options.metric)


def from_stored(name: str, stored: Stored, words: str, metric: str | None = None) -> Task:
    """The task on prepared data."""
    return restored(SpanTask, name, SpanHead(), metric or "f1", stored, words)


class SpanTask(ExampleTask):
    """Targets (b, 2): the first and the last token of the answer, -100 where it was cut away."""

    KIND = "span"
    METRICS = ("f1", "exact")

    def _targets(self, data: Split, rows: np.ndarray) -> tuple[Tensor, int]:
        found = np.asarray(data.targets)[rows]
        return torch.from_numpy(np.array(found)), int((found[:, 0] != IGNORED).sum())

    def _loss(self, answers: Tensor, batch: Batch) -> Tensor:
        total = sum(
            F.cross_entropy(
                answers[..., side].float(),
                batch.targets[:, side],
                ignore_index=IGNORED,
                reduction="sum",
            )
            for side in (0, 1)
        )
        assert isinstance(total, Tensor)
        return total / (2 * max(1, batch.count))

    def _read(self, answers: Tensor, batch: Batch) -> np.ndarray:
        return best_spans(answers.float(), batch.inputs["segments"].bool())[0].cpu().numpy()

    def _measure(self, pairs: list[tuple[Any, Batch]], data: Split) -> dict[str, float]:
        told = self._told(pairs, data)
        both = list(zip(*told, strict=True))
        exact = [metrics.span_exact(ours, wanted) for ours, wanted in both]
        overlap = [metrics.span_f1(ours, wanted) for ours, wanted in both]
        found = {"exact": float(np.mean(exact)), "f1": float(np.mean(overlap))}
        return self._with_own(found, lambda: told)

    def _told(
        self, pairs: list[tuple[Any, Batch]], data: Split
    ) -> tuple[list[str], list[list[str]]]:
        """Answers, and for each the list of right ones; "" says that there is none."""
        found, wanted = [], []
        for answers, batch in pairs:
            assert batch.rows is not None
            for row, (first, last) in zip(batch.rows, answers, strict=True):
                found.append(self.answer(data, int(row), int(first), int(last)))
                wanted.append(json.loads(data.texts["answers"].text(int(row))) or [""])
        return found, wanted

    def answer(self, data: Split, row: int, first: int, last: int) -> str:
        """The words from one token to another."""
        assert data.firsts is not None
        begins = int(data.firsts[row])
        starts, ends = data.texts["starts"][row], data.texts["ends"][row]
        if first < begins or last - begins >= len(ends):
            return ""
        return data.texts["context"].text(row)[starts[first - begins] : ends[last - begins]]


def best_spans(scores: Tensor, texts: Tensor) -> tuple[Tensor, Tensor]:
    """The best beginning and end (b, 2): in the text, in order, not too far apart; and how likely.

    Args:
        scores: (b, n, 2) of each token to be the first or the last one.
        texts: (b, n) whether a token belongs to the text, not to the question.
    """
    none = torch.zeros_like(texts)
    none[:, 0] = True  # the first token says that there is no answer
    scores = scores.masked_fill(~(texts | none).unsqueeze(-1), float("-inf"))
    start, end = scores[..., 0], scores[..., 1]
    n = start.shape[1]
    both = start.unsqueeze(2) + end.unsqueeze(1)  # (b, n, n)
    places = torch.arange(n, device=both.device)
    far = places[None, :] - places[:, None]
    allowed = (far >= 0) & (far < _LONGEST_ANSWER)
    allowed[0, 1:] = False  # no answer is one token long
    chances = both.masked_fill(~allowed, float("-inf")).flatten(1).softmax(dim=1)
    chance, best = chances.max(dim=1)
    return torch.stack((best // n, best % n), dim=1), chance


# --- reading ----------------------------------------------------------------------------


def _prepared(sources: Sources, options: SpanOptions) -> Stored:
    found = {split: read_questions(path) for split, path in sources.paths.items()}
    known = with_splits({split: questions for split, (questions, _) in found.items()})
    return with_notes(prepare(known, options), (n for _, notes in found.values() for n in notes))


def with_splits(known: Questions) -> Questions:
    """Cut from the training questions what is missing; questions about one text stay together."""
    return fill_splits(known, lambda question: question.context)


def read_questions(path: Path) -> tuple[list[Question], tuple[str, ...]]:
    """The questions of a SQuAD file, or of rows with the same fields, and notes on the reading."""
    rows: list[Row]
    notes: tuple[str, ...]
    document = read_json(path) if suffix_of(path) == ".json" else None
    if isinstance(document, dict) and isinstance(document.get("data"), list):
        rows, notes = list(_flattened(document["data"], path)), ()
    else:
        table = _table(path)
        rows, notes = table.rows, table.notes
    where = path.name
    return [question_of(row, f"row {n} of {where}") for n, row in enumerate(rows, 1)], notes


def _table(path: Path) -> Table:
    needed = (("context",), ("question",), _ANSWERS)
    table = read_table(path, known=[name for names in needed for name in names])
    if suffix_of(path) not in (".json", ".jsonl", ".ndjson"):  # those may name them row by row
        for names in needed:
            if not set(names) & set(table.columns):
                raise InputError(
                    f"there is no column {names[0]!r} in {path.name}; it needs context, question "
                    f"and answers, and has {table.header or ', '.join(table.columns)!r}."
                )
    return table


def _flattened(articles: list[Any], path: Path) -> Any:
    try:
        for article in articles:
            for paragraph in article["paragraphs"]:
                for row in paragraph["qas"]:
                    yield {"context": paragraph["context"], **row}
    except (KeyError, TypeError) as error:
        raise InputError(
            f"{path.name} is not in the form of SQuAD: data, paragraphs, context, qas, question "
            f"and answers are needed ({error})."
        ) from None


def question_of(row: dict[str, Any], where: str) -> Question:
    """A question from a row, whichever way its answers are written."""
    for name in ("context", "question"):
        if not str(row.get(name) or "").strip():
            raise InputError(f"{where} has no {name}.")
    answers = row.get("answers", row.get("answer"))
    texts: list[Any]
    starts: list[Any]
    if isinstance(answers, dict):
        texts, starts = list(answers.get("text", ())), list(answers.get("answer_start", ()))
    elif isinstance(answers, list) and all(isinstance(one, dict) for one in answers):
        texts = [one.get("text") for one in answers]
        starts = [one.get("answer_start") for one in answers]
    elif isinstance(answers, str):
        texts, starts = [answers], [row.get("answer_start")]
    elif isinstance(answers, list):
        texts, starts = answers, [row.get("answer_start")]
    else:
        raise InputError(f"{where} has no answers.")
    context = str(row["context"])
    if not texts:
        return Question(str(row["question"]), context, (), 0, where)
    start = _begin(context, str(texts[0]), starts[0] if starts else None, where)
    return Question(str(row["question"]), context, tuple(map(str, texts)), start, where)


def _begin(context: str, answer: str, start: Any, where: str) -> int:
    if not answer.strip():
        raise InputError(f"{where} has an empty answer.")
    if isinstance(start, int) and context[start : start + len(answer)] == answer:
        return start
    found = context.find(answer)
    if found < 0:
        raise InputError(f"{where}: the answer {answer!r} does not stand in its context.")
    return found


# --- preparing --------------------------------------------------------------------------


def prepare(questions: Questions, options: TextOptions) -> Stored:
    """Tokens, answers and what is needed to turn tokens into words again."""
    train = questions["train"]
    texts = [text for q in train for text in (q.question, q.context)]
    tokenizer = make_tokenizer(options.tokenizer, texts, ("pad", "separate"))
    asked = {s: [tokenizer.encode(q.question) for q in part] for s, part in questions.items()}
    told = {s: [tokenizer.encode_spans(q.context) for q in part] for s, part in questions.items()}
    both = [pair for s in questions for pair in zip(asked[s], told[s], strict=True)]
    longest = longest_of((len(tokenizer.join(a, t[0])[0]) for a, t in both), options)
    stored, truncated, lost = Stored(), {}, 0
    for split, part in questions.items():
        rows = [
            _Row.of(tokenizer, *found, longest)
            for found in zip(part, asked[split], told[split], strict=True)
        ]
        truncated[split] = sum(row.is_cut for row in rows)
        if split == "train":
            lost = sum(row.target[0] == IGNORED for row in rows)
            rows = [row for row in rows if row.target[0] != IGNORED]
        _keep(stored, split, rows, tokenizer.vocab)
    examples = [_example(question) for question in train[:3]]
    notes = [f"{lost} training questions whose answer was cut away are left out"] if lost else []
    stored.meta = summary(tokenizer, longest, truncated, examples, notes)
    return stored


@dataclass(frozen=True)
class _Row:
    question: Question
    tokens: list[int]
    spans: Spans
    begins: int
    target: tuple[int, int]
    is_cut: bool

    @classmethod
    def of(
        cls,
        tokenizer: Tokenizer,
        question: Question,
        asked: list[int],
        told: tuple[list[int], Spans],
        longest: int,
    ) -> "_Row":
        asked = asked[: max(1, longest // 2)]
        numbers, spans = told
        extra = len(tokenizer.join(asked, [])[0])
        room = max(1, longest - extra)
        tokens, begins = tokenizer.join(asked, numbers[:room])
        target = (0, 0)
        if question.answers:
            low, high = question.start, question.start + len(question.answers[0])
            inside = [at for at, (a, b) in enumerate(spans) if a < high and b > low]
            cut_away = not inside or inside[-1] >= room
            target = (IGNORED, IGNORED) if cut_away else (begins + inside[0], begins + inside[-1])
        return cls(question, tokens, spans[:room], begins, target, len(numbers) > room)


def _keep(stored: Stored, split: str, rows: list[_Row], vocab: int) -> None:
    if not rows:
        raise InputError(f"No question of {split} has its answer in what is read; raise length.")
    stored.add(f"{split}/tokens", (row.tokens for row in rows), small_dtype(vocab))
    stored.arrays[f"{split}/targets"] = np.array([row.target for row in rows], np.int64)
    stored.arrays[f"{split}/firsts"] = np.array([row.begins for row in rows], np.int64)
    place = np.dtype(np.int32)
    stored.add(f"{split}/text-starts", ([a for a, _ in row.spans] for row in rows), place)
    stored.add(f"{split}/text-ends", ([b for _, b in row.spans] for row in rows), place)
    stored.add_texts(f"{split}/text-context", (row.question.context for row in rows))
    stored.add_texts(f"{split}/text-answers", (json.dumps(row.question.answers) for row in rows))


def _example(question: Question) -> dict[str, Any]:
    return {
        "question": question.question,
        "context": question.context[:300],
        "answer": question.answers[0] if question.answers else "",
    }
