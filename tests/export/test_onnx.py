"""ONNX folders: checked, measured, and answering texts without torch and formwright."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from jaxtyping import config
from tests.cli_helpers import InProcess
from tests.export import folders

from formwright.errors import InputError
from formwright.export import export_model
from formwright.model import Model
from formwright.tasks.text import Tokenizer, make_tokenizer, restore

pytest.importorskip("onnxruntime")

BLOCKER = """
import sys
for name in ("torch", "formwright", "transformers", "onnx"):
    sys.modules[name] = None
"""


@pytest.fixture(autouse=True)
def symbols_for_sizes() -> Iterator[None]:
    """While exporting, sizes are symbols and no whole numbers, which annotations ask for."""
    config.update("jaxtyping_disable", True)
    yield
    config.update("jaxtyping_disable", False)


def answers(folder: Path, *words: str, lines: str = "") -> list[str]:
    """What run.py prints in a process that cannot import torch or formwright."""
    block = folder.parent / "block"
    block.mkdir(exist_ok=True)
    (block / "sitecustomize.py").write_text(BLOCKER)
    done = subprocess.run(
        [sys.executable, str(folder / "run.py"), *words],
        input=lines,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env={"PYTHONPATH": str(block), "OMP_NUM_THREADS": "1"},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def tokenizer_of(folder: Path) -> Tokenizer:
    return restore(json.loads((folder / "task.json").read_text())["tokenizer"])


def likely(model: Model, numbers: list[int]) -> tuple[int, float]:
    chances = model(torch.tensor([numbers])).softmax(-1)[0]
    return int(chances.argmax()), float(chances.max())


@torch.no_grad()
@pytest.mark.parametrize("spec", ["words", "bytes", "chars", "wordpiece:60"])
def test_a_classifier_answers_alone_as_the_model_does(spec: str, tmp_path: Path) -> None:
    if ":" in spec:
        pytest.importorskip("tokenizers")
    model = folders.classifier(tmp_path, spec)
    found = export_model(tmp_path / "model", tmp_path / "out")
    assert found.difference < 1e-4
    assert found.files == ["card.json", "model.onnx", "run.py", "task.json"]
    assert found.latency is not None
    assert found.latency["after_ms"] > 0
    texts = ["a good old film", "one BAD zebra", "a very long text " * 5]
    tokenizer = tokenizer_of(tmp_path / "model")
    for text, line in zip(texts, answers(tmp_path / "out", *texts), strict=True):
        best, chance = likely(model, tokenizer.encode(text)[:12])
        assert line == f"{folders.LABELS[best]}\t{chance:.4f}"


@torch.no_grad()
def test_int8_says_what_it_costs(tmp_path: Path, in_process: InProcess) -> None:
    folders.classifier(tmp_path)
    words = ("export", str(tmp_path / "model"), "--to", "onnx", "--quantize", "int8")
    out = tmp_path / "dynamic"
    done = in_process(*words, "--out", str(out), "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert 1e-7 < found["difference"] < 1
    assert found["quality"]["metric"] == "accuracy"
    assert set(found["quality"]) >= {"fp32", "int8"}
    out = tmp_path / "static"
    done = in_process(*words, "--calibrate", "10", "--out", str(out))
    assert "accuracy on validation rows (at most 2,000, one at a time)" in done.stdout
    assert "ms exported" in done.stdout
    (line,) = answers(out, lines="a good old film\n")
    assert line.split("\t")[0] in folders.LABELS


def test_quality_is_measured_one_row_at_a_time_as_texts_are_answered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from formwright.export import answering

    folders.classifier(tmp_path)
    sizes, plain = [], answering.OnnxModel.forward

    def forward(self: answering.OnnxModel, tokens: torch.Tensor, **more: object) -> torch.Tensor:
        sizes.append(len(tokens))
        return plain(self, tokens, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(answering.OnnxModel, "forward", forward)
    found = export_model(tmp_path / "model", tmp_path / "out", quantize="int8")
    assert found.quality is not None
    assert set(sizes) == {1}
    assert found.latency is not None
    times = found.latency["after_ms"] / found.latency["before_ms"]
    assert times == pytest.approx(found.latency["ratio"])


def test_without_its_data_the_cost_of_int8_is_unknown(tmp_path: Path) -> None:
    folders.classifier(tmp_path)
    (tmp_path / "rows.csv").unlink()
    found = export_model(tmp_path / "model", tmp_path / "out", quantize="int8")
    assert found.quality is not None
    assert "rows.csv" in found.quality["unknown"]
    assert any("could not be measured" in line for line in found.words())
    with pytest.raises(InputError, match="--calibrate needs the task's training data"):
        export_model(tmp_path / "model", tmp_path / "b", quantize="int8", calibrate=4)
    assert not (tmp_path / "b").exists()


@torch.no_grad()
@pytest.mark.parametrize("spec", ["shapes", "spaces", "bpe:300"])
def test_a_tagger_answers_alone_as_the_model_does(spec: str, tmp_path: Path) -> None:
    if ":" in spec:
        pytest.importorskip("tokenizers")
    from formwright.tasks.tag import Sentence, _encode

    model = folders.tagger(tmp_path, spec)
    export_model(tmp_path / "model", tmp_path / "out")
    words = ("A", "good", "Film-making", "2nd", "book!")
    (line,) = answers(tmp_path / "out", " ".join(words))
    labels = ["ADJ", "DET", "NOUN"]
    sentence = Sentence(words, ("DET",) * 5, "")
    tokens, marked = _encode(tokenizer_of(tmp_path / "model"), sentence, labels)
    best = model(torch.tensor([tokens]))[0].argmax(-1)
    tags = [labels[int(best[at])] for at, mark in enumerate(marked) if mark]
    assert line == " ".join(f"{word}/{tag}" for word, tag in zip(words, tags, strict=True))


@pytest.mark.parametrize("spec", ["bytes", "words"])
def test_a_language_model_goes_on_alone_as_the_model_does(spec: str, tmp_path: Path) -> None:
    from formwright.model import generate

    model = folders.writer(tmp_path, spec)
    export_model(tmp_path / "model", tmp_path / "out")
    tokenizer = tokenizer_of(tmp_path / "model")
    begun = torch.tensor([tokenizer.encode("a good")])
    wanted = tokenizer.decode(generate(model, begun, 12, temperature=0)[0].tolist())
    assert "\n".join(answers(tmp_path / "out", "a good", "--new", "12")) == wanted


@torch.no_grad()
def test_blocks_fix_the_length_and_short_texts_are_filled_up(tmp_path: Path) -> None:
    layers = "sf where s=residual(attention(2, kind=local(4))) in lra(16) "
    layers += "for frame(VOCAB, 12, classify(2, pool=mean))"
    model = folders.classifier(tmp_path, layers=layers)
    found = export_model(tmp_path / "model", tmp_path / "out", quantize="int8", calibrate=4)
    assert "takes 12 tokens" in found.notes[0]
    numbers = tokenizer_of(tmp_path / "model").encode("a good old film")
    best, _ = likely(model, numbers)
    assert answers(tmp_path / "out", "a good old film")[0].startswith(folders.LABELS[best])


KINDS = {
    "classify": ("classify(2)", {"labels": folders.LABELS, "pair": True}),
    "match": ("match(2, pool=mean)", {"labels": folders.LABELS}),
    "span": ("span", {}),
    "mlm": ("mlm", {}),
    "vectors": ("features", {}),
    "translate": ("lm", {}),
}
SPECIALS = {
    "classify": ("pad", "separate"),
    "span": ("pad", "separate"),
    "mlm": ("mask",),
    "translate": ("pad", "unknown", "begin", "end"),
}


@torch.no_grad()
def own_answer(kind: str, model: Model, text: Tokenizer) -> str:
    """What formwright itself makes of one example of a kind."""
    first, second = text.encode("a good old film"), text.encode("one new book!")
    if kind == "translate":
        from formwright.tasks.translate import greedy

        marks = text.specials["begin"], text.specials["end"]
        source = torch.tensor([[*first, marks[1]]])
        found = greedy(model, source, None, marks, min(12, 2 * source.shape[1] + 10))[0].tolist()
        ends = [*found, marks[1]].index(marks[1])
        return text.decode(found[:ends])
    if kind == "mlm":
        numbers = [*text.encode("a good"), text.specials["mask"], *text.encode("film")]
        best = int(model(torch.tensor([numbers]))[0, 2].argmax())
        return text.decode([*numbers[:2], best, *numbers[3:]])
    if kind == "vectors":
        return json.dumps([round(x, 6) for x in model(torch.tensor([first]))[0].mean(0).tolist()])
    if kind == "match":
        scores = model(torch.tensor([first]), other=torch.tensor([second]))[0]
    else:
        whole, begins = text.join(first, second)
        segments = (torch.arange(len(whole)) >= begins).long()[None]
        scores = model(torch.tensor([whole]), segments=segments)[0]
    if kind == "span":
        begin, end = scores[begins:, 0], scores[begins:, 1]
        both = (begin[:, None] + end[None]).triu()
        both = both.masked_fill(torch.ones_like(both).tril(-1).bool(), float("-inf"))
        place = int(both.argmax())
        if scores[0].sum() >= both.max():
            return ""
        spans = text.encode_spans("one new book!")[1]
        return "one new book!"[spans[place // len(begin)][0] : spans[place % len(begin)][1]]
    chances = scores.softmax(-1)
    return f"{folders.LABELS[int(chances.argmax())]}\t{chances.max():.4f}"


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_task_answers_alone(kind: str, tmp_path: Path) -> None:
    head, task = KINDS[kind]
    tokenizer = make_tokenizer("words", folders.TEXTS, SPECIALS.get(kind, ("pad",)))
    style = "encoder(16, position=learned, embedding=embedding(segments=2))"
    layers = f"sf in {style} for frame(VOCAB, 12, {head})"
    if kind == "translate":
        layers = "sf | smf in translator(16) for frame(VOCAB, 12, lm)"
    model = folders.saved(tmp_path / "model", layers, tokenizer, {"kind": kind, **task})
    export_model(tmp_path / "model", tmp_path / "out")
    given = {
        "mlm": ["a good <mask> film"],
        "translate": ["a good old film"],
        "vectors": ["a good old film"],
    }.get(kind, ["a good old film", "one new book!"])
    wanted = own_answer(kind, model, tokenizer)
    found = "\n".join(answers(tmp_path / "out", *given))
    if kind == "vectors":
        assert json.loads(found) == pytest.approx(json.loads(wanted), abs=1e-4)
    else:
        assert found == wanted
        assert "\n".join(answers(tmp_path / "out", lines="\t".join(given) + "\n")) == wanted


def test_mistakes_are_one_sentence_and_leave_nothing(tmp_path: Path, in_process: InProcess) -> None:
    folders.writer(tmp_path)
    model, out = str(tmp_path / "model"), str(tmp_path / "out")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").write_text("")
    (tmp_path / "damaged").mkdir()
    (tmp_path / "damaged" / "architecture.json").write_text("{}")
    for words, sentence in {
        ("x", "--to", "onnx", "--out", out): "no folder x",
        (model, "--to", "xml", "--out", out): "--to is one of",
        (model, "--to", "onnx", "--quantize", "int4", "--out", out): "--quantize is int8",
        (model, "--to", "torch", "--quantize", "int8", "--out", out): "is for --to onnx",
        (model, "--to", "onnx", "--calibrate", "3", "--out", out): "--calibrate takes",
        (model, "--to", "onnx", "--out", str(tmp_path / "full")): "is not empty",
        (model, "--to", "onnx", "--out", str(tmp_path / "full" / "file")): "is a file",
        (str(tmp_path / "damaged"), "--to", "onnx", "--out", out): "model.safetensors is missing",
    }.items():
        done = in_process("export", *words)
        assert done.returncode == 2, words
        assert sentence in done.stderr
        assert len(done.stderr.splitlines()) == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == ["damaged", "full", "model"]


def test_a_failure_on_the_way_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from formwright.export import onnx

    def fail(*arguments: object, **named: object) -> None:
        raise KeyboardInterrupt

    folders.writer(tmp_path)
    monkeypatch.setattr(onnx, "latency", fail)
    with pytest.raises(KeyboardInterrupt):
        export_model(tmp_path / "model", tmp_path / "out")
    assert [path.name for path in tmp_path.iterdir()] == ["model"]
