"""Small model folders of several tasks, with data that can be loaded again."""

import csv
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from formwright.arch import parse
from formwright.model import Model, build, load_model, save_model
from formwright.tasks import load_task
from formwright.tasks.text import Tokenizer, make_tokenizer

TEXTS = [f"{a} {b} {c}" for a in ("a good", "one bad") for b in ("old", "new", "Long") for c in
         ("film", "book!", "play")]  # fmt: skip
LABELS = ["bad", "good"]
CARD = {
    "metric": "accuracy",
    "scores": {"accuracy": 0.81},
    "interval": [0.78, 0.84],
    "latency": {"target": "onnx,length=12", "ms": 0.4},
    "found": {"search": "usual", "trials": 12},
    "licence": "Apache-2.0",
}


def saved(
    folder: Path, layers: str, tokenizer: Tokenizer | None, task: dict[str, Any], seed: int = 0
) -> Model:
    """Write a folder with a model whose weights are large enough to tell answers apart."""
    arch = parse(layers.replace("VOCAB", str(tokenizer.vocab if tokenizer else 20)))
    model = build(arch, seed=seed)
    for weight in model.parameters():
        weight.data *= 3 if weight.dim() > 1 else 1
    save_model(model, folder)
    known = {
        "format": 1,
        "metric": "accuracy",
        "tokenizer": tokenizer.state() if tokenizer else None,
        "labels": [],
        "length": model.frame.length,
        "pair": False,
        "task": "",
    }
    (folder / "task.json").write_text(json.dumps(known | task))
    (folder / "card.json").write_text(json.dumps(CARD))
    return load_model(folder).eval()


def classifier(root: Path, spec: str = "words", layers: str | None = None) -> Model:
    """A classifier of TEXTS in ``root/model``, whose csv file is ``root/rows.csv``."""
    rows = [(text, LABELS["good" in text]) for text in TEXTS]
    table(root / "rows.csv", ("text", "label"), rows * 3)
    tokenizer = make_tokenizer(spec, [text for text, _ in rows], ("pad",))
    layers = layers or "sf in bert(16) for frame(VOCAB, 12, classify(2, pool=mean))"
    name = f"classify:{root / 'rows.csv'}?tokenizer={spec}&length=12"
    assert load_task(name).frame.vocab == tokenizer.vocab
    task = {"kind": "classify", "labels": LABELS, "task": name}
    return saved(root / "model", layers, tokenizer, task)


def tagger(root: Path, spec: str = "shapes") -> Model:
    """A tagger in ``root/model``."""
    tokenizer = make_tokenizer(spec, TEXTS, ("pad",))
    task = {"kind": "tag", "labels": ["ADJ", "DET", "NOUN"]}
    return saved(root / "model", "sf in bert(16) for frame(VOCAB, 24, tag(3))", tokenizer, task)


def writer(root: Path, spec: str = "bytes") -> Model:
    """A language model in ``root/model``."""
    tokenizer = make_tokenizer(spec, TEXTS, (), running=True)
    layers = "sf in gpt2(16) for frame(VOCAB, 40, lm)"
    return saved(root / "model", layers, tokenizer, {"kind": "lm", "metric": "loss"})


def table(path: Path, header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """A csv file."""
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([header, *rows])
