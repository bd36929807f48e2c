"""A loaded model says to a text what its task says of the same text, whatever the kind."""

import csv
import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.cli_helpers import InProcess

import formwright as fw
from formwright.errors import FormatError, InputError
from formwright.model import build, generate, save_model
from formwright.tasks import Task, load_task
from formwright.train import TrainConfig, train
from formwright.use import Label, Loaded, Number, Passage, Tags, Written, load
from formwright.use.loaded import AT_ONCE
from formwright.use.rows import Columns, answered, read_file

CONFIG = TrainConfig(steps=4, batch_tokens=256, lr=1e-2, warmup=1, score_batches=1)
WORDS = ["red", "green", "blue", "round", "square", "heavy", "light", "cold", "warm", "old", "new"]


def sentence(n: int, size: int = 6) -> str:
    return " ".join(WORDS[(n * 7 + k * (1 + n % 5)) % len(WORDS)] for k in range(1 + n % size))


def written(folder: Path, name: str, lines: list[str]) -> Path:
    path = folder / name
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def classify_file(folder: Path) -> str:
    rows = [f"{sentence(n)},{'abc'[n % 3]}" for n in range(90)]
    return f"classify:{written(folder, 'c.csv', ['text,label', *rows])}"


def number_file(folder: Path) -> str:
    rows = [f"{sentence(n)},{n % 7 + 0.5}" for n in range(90)]
    return f"classify:{written(folder, 'n.csv', ['text,label', *rows])}"


def pair_lines(n: int) -> str:
    return f"{sentence(n)},{sentence(n + 3)},{'yes' if n % 2 else 'no'}"


def pair_file(folder: Path) -> str:
    rows = [pair_lines(n) for n in range(90)]
    return f"classify:{written(folder, 'p.csv', ['text_a,text_b,label', *rows])}"


def match_file(folder: Path) -> str:
    return pair_file(folder).replace("classify", "match")


def tag_file(folder: Path) -> str:
    lines = []
    for n in range(60):
        lines += [f"{word}\t{'NA'[len(word) % 2]}" for word in sentence(n).split()] + [""]
    return f"tag:{written(folder, 't.tsv', lines)}"


def span_file(folder: Path) -> str:
    rows = []
    for n in range(60):
        context = f"{sentence(n)} {sentence(n + 1)}"
        answers = {"text": [context.rpartition(" ")[2]], "answer_start": [context.rindex(" ") + 1]}
        row = {"context": context, "question": f"what is {WORDS[n % 9]}", "answers": answers}
        rows.append(json.dumps(row))
    return f"span:{written(folder, 's.jsonl', rows)}"


def translate_files(folder: Path) -> str:
    source = written(folder, "a.txt", [sentence(n) for n in range(60)])
    target = written(folder, "b.txt", [sentence(n)[::-1] for n in range(60)])
    return f"translate:{source},{target}"


def text_file(folder: Path, kind: str = "lm") -> str:
    return f"{kind}:{written(folder, 'l.txt', [sentence(n) for n in range(400)])}?length=24"


FILES: dict[str, Callable[[Path], str]] = {
    "classify": classify_file,
    "number": number_file,
    "pair": pair_file,
    "match": match_file,
    "tag": tag_file,
    "span": span_file,
    "translate": translate_files,
}


def trained(name: str, folder: Path, layers: str = "sf") -> tuple[Task, Path]:
    task = load_task(name)
    train(task.architecture(layers, 16), task, CONFIG, out=folder / "run")
    return task, folder / "run" / "model"


def rows_of(kind: str, task: Any) -> list[Any]:
    """What a user would give for the validation rows."""
    data = task.split("valid")
    if kind == "span":
        texts = [json.loads(line) for line in Path(task.name[5:]).read_text().splitlines()]
        asked = {row["context"]: row["question"] for row in texts}
        contexts = [data.texts["context"].text(row) for row in range(len(data))]
        return [(asked[context], context) for context in contexts]
    if kind == "translate":
        names = task.name.removeprefix("translate:").split(",")
        a, b = (Path(name).read_text().splitlines() for name in names)
        pairs = {target: source for source, target in zip(a, b, strict=True)}
        return [pairs[data.texts["target"].text(row)] for row in range(len(data))]
    found: list[Any] = task.texts("valid")
    return found


def expected(kind: str, task: Any, model: Any) -> list[Any]:
    """What the task itself says of its rows, one at a time."""
    data, found = task.split("valid"), []
    for row in range(len(data)):
        batch = task.collate(data, np.array([row]))
        with torch.no_grad():
            said = task.predictions(model, batch)[0]
        if kind == "span":
            found.append(task.answer(data, row, *map(int, said)))
        elif kind == "translate":
            found.append(task.tokenizer.decode(said))
        elif kind == "tag":
            found.append(tuple(task.labels[tag] for tag in said))
        else:
            found.append(task.labels[int(said)] if task.labels else float(said))
    return found


def plain(answer: Any) -> Any:
    kinds = {Label: "label", Number: "value", Tags: "tags", Passage: "answer", Written: "text"}
    return getattr(answer, kinds[type(answer)])


@pytest.mark.parametrize("kind", FILES)
def test_a_loaded_model_says_what_its_task_says(kind: str, tmp_path: Path) -> None:
    task, folder = trained(FILES[kind](tmp_path), tmp_path)
    loaded = load(folder)
    rows = rows_of(kind, task)
    wanted = expected(kind, task, loaded.model)
    for batch_tokens in (16, 4096):
        found = [plain(answer) for answer in loaded.predict(rows, batch_tokens=batch_tokens)]
        if kind == "number":
            assert found == pytest.approx(wanted, abs=1e-5)
        else:
            assert found == wanted


@pytest.mark.parametrize("tokenizer", ["bytes", "chars", "words", "bpe:300", "wordpiece:300"])
def test_every_tokenizer_comes_back_from_the_folder(tokenizer: str, tmp_path: Path) -> None:
    if ":" in tokenizer:
        pytest.importorskip("tokenizers")
    task, folder = trained(f"{classify_file(tmp_path)}?tokenizer={tokenizer}", tmp_path)
    loaded = load(folder)
    rows = rows_of("classify", task)
    assert [plain(a) for a in loaded.predict(rows)] == expected("classify", task, loaded.model)


def test_generated_data_is_asked_in_its_own_symbols(tmp_path: Path) -> None:
    _, folder = trained("listops-tiny?train=60&valid=20", tmp_path)
    loaded = load(folder)
    assert loaded.predict("[MAX 2 9 ]").label in "0123456789"
    with pytest.raises(InputError, match=r"'\[NOPE' is no symbol of this task; use 0 1"):
        loaded.predict("[NOPE 2 9 ]")


def test_a_language_model_writes_as_its_module_does_and_past_its_length(tmp_path: Path) -> None:
    task, folder = trained(text_file(tmp_path), tmp_path)
    loaded: Loaded = fw.load(folder)
    prompt = "red green"
    start = torch.tensor([list(prompt.encode())])
    found = generate(loaded.model, start, 10, temperature=0)[0, start.shape[1] :]
    assert loaded.generate(prompt, 10) == bytes(found.tolist()).decode(errors="replace")
    assert task.frame.length == 24
    assert len(loaded.generate(prompt, 60).encode()) >= 60
    drawn = [loaded.generate(prompt, 20, temperature=1.0, seed=seed) for seed in (1, 1, 2)]
    assert drawn[0] == drawn[1] != drawn[2]
    assert loaded.generate("", 5)


def test_hidden_words_are_filled_in(tmp_path: Path) -> None:
    name = text_file(tmp_path, "mlm") + "&tokenizer=words"
    _, folder = trained(name, tmp_path)
    said = load(folder).predict("red <mask> blue").text.split(" ")
    assert len(said) == 3
    assert (said[0], said[2]) == ("red", "blue")
    assert said[1] != "<mask>"
    with pytest.raises(InputError, match="takes a text with <mask> in it"):
        load(folder).predict("red blue")


def test_another_verb_says_which_one_fits(tmp_path: Path) -> None:
    _, folder = trained(classify_file(tmp_path), tmp_path)
    loaded = load(folder)
    with pytest.raises(InputError, match=r"of the kind classify; ask it with predict\(\)"):
        loaded.generate("x")
    with pytest.raises(InputError, match=r"takes a text; .* is not"):
        loaded.predict([("two", "texts")])
    with pytest.raises(InputError, match="A batch of 0 tokens"):
        loaded.predict(["x"], batch_tokens=0)


def test_the_folder_tells_how_it_was_made(tmp_path: Path) -> None:
    task, folder = trained(classify_file(tmp_path), tmp_path)
    card = load(folder).card
    assert card["metric"] == "accuracy"
    assert card["trained"]["steps"] == 4
    assert card["scores"]["accuracy"] == pytest.approx(
        task.score(load(folder).model, batch_tokens=256, limit=1)["accuracy"]
    )
    assert {"python", "torch"} <= card["versions"].keys()
    assert "licence" in card


def test_a_folder_that_cannot_be_asked_is_told_in_one_sentence(tmp_path: Path) -> None:
    _, folder = trained(classify_file(tmp_path), tmp_path)
    (folder / "task.json").write_text("{}")
    with pytest.raises(FormatError, match="does not say how a model reads"):
        load(folder)
    save_model(build(load_task(classify_file(tmp_path)).architecture("sf", 16)), tmp_path / "bare")
    with pytest.raises(InputError, match=r"without task\.json"):
        load(tmp_path / "bare")
    with pytest.raises(InputError, match="holds no model"):
        load(tmp_path / "nowhere")


# --- files ------------------------------------------------------------------------------


def test_only_what_is_answered_is_in_memory(tmp_path: Path) -> None:
    _, folder = trained(classify_file(tmp_path), tmp_path)
    loaded, taken = load(folder), []

    def endless() -> Any:
        for n in range(10**9):
            taken.append(n)
            yield sentence(n)

    answers = loaded.stream(endless())
    for _ in range(AT_ONCE + 10):
        next(answers)
    assert len(taken) <= 2 * AT_ONCE


def test_rows_keep_their_columns_and_order(tmp_path: Path) -> None:
    _, folder = trained(classify_file(tmp_path), tmp_path)
    loaded = load(folder)
    path = written(tmp_path, "in.csv", ["id;body", *(f'{n};"{sentence(n)}"' for n in range(30))])
    rows = list(answered(read_file(path), Columns(loaded.reading), loaded.stream))
    assert [fields["id"] for fields, _ in rows] == [str(n) for n in range(30)]
    texts = [fields["body"] for fields, _ in rows]
    assert [answer for _, answer in rows] == loaded.predict(texts)


def test_predict_on_the_command_line(
    tmp_path: Path, in_process: InProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, folder = trained(classify_file(tmp_path), tmp_path)
    run = str(tmp_path / "run")
    one = load(folder).predict("red green")
    done = in_process("predict", run, "red green", "blue")
    assert done.returncode == 0
    assert done.stdout.splitlines()[0] == str(one)
    path = written(tmp_path, "in.csv", ["text,label", "red green,x", '"a, ""b""",y'])
    out = tmp_path / "out.csv"
    done = in_process("predict", run, "--file", str(path), "--out", str(out))
    assert done.returncode == 0
    assert "2 answers" in done.stdout
    with open(out, newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["label"] for row in rows] == ["x", "y"]
    assert rows[0]["predicted_label"] == one.label
    monkeypatch.setattr("sys.stdin", io.StringIO('{"text": "red green"}\nblue\n'))
    done = in_process("predict", run, "--json")
    first, second = map(json.loads, done.stdout.splitlines())
    assert first["label"] == one.label
    assert set(second) == {"label", "probability"}


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--file", "none.csv"], "none.csv cannot be read: No such file"),
        (["--file", "in.csv", "--text", "nope"], "has no column 'nope'; it has 'a', 'b'"),
        (["--file", "in.csv"], "no column of text that is understood; it has 'a', 'b'"),
        (["--file", "in.jsonl"], "line 2 of in.jsonl is no JSON object"),
        (["x", "--file", "in.csv"], "Give texts or --file"),
        (["x", "--out", "o.xlsx"], "should end in .csv, .tsv or .jsonl"),
    ],
)
def test_bad_files_are_told_and_leave_nothing(
    words: list[str], says: str, tmp_path: Path, in_process: InProcess
) -> None:
    _, _ = trained(classify_file(tmp_path), tmp_path)
    written(tmp_path, "in.csv", ["a,b", "1,2"])
    written(tmp_path, "in.jsonl", ['{"text": "red"}', "not json"])
    out = [] if "--out" in words or "x" in words else ["--out", "out.csv"]
    done = in_process("predict", "run", *words, *out, folder=tmp_path)
    assert done.returncode == 2
    assert says in done.stderr
    assert not list(tmp_path.glob("out.csv*"))


def test_two_texts_are_typed_one_after_the_other(tmp_path: Path, in_process: InProcess) -> None:
    trained(pair_file(tmp_path), tmp_path)
    assert in_process("predict", "run", "red", "green", folder=tmp_path).returncode == 0
    done = in_process("predict", "run", "red", folder=tmp_path)
    assert done.returncode == 2
    assert "reads two texts at a time; 1 were given" in done.stderr
