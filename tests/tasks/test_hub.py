"""Data sets through the ``datasets`` library, from local folders in the hub's layout."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from formwright.errors import InputError
from formwright.model import build
from formwright.tasks import load_task
from formwright.tasks.hub import guess_kind


def folder(path: Path, **splits: list[dict[str, Any]]) -> Path:
    path.mkdir()
    for split, rows in splits.items():
        (path / f"{split}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


@pytest.fixture
def datasets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hf"))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    found = pytest.importorskip("datasets")
    monkeypatch.setattr(found.config, "HF_DATASETS_CACHE", tmp_path / "hf" / "datasets")
    return found


@pytest.mark.parametrize(
    ("columns", "kind"),
    [
        (["sentence", "label", "idx"], "classify"),
        (["tokens", "ner_tags"], "tag"),
        (["id", "context", "question", "answers"], "span"),
        (["translation"], "translate"),
        (["text"], "lm"),
    ],
)
def test_the_kind_follows_from_the_columns(columns: list[str], kind: str) -> None:
    assert guess_kind(columns) == kind


def test_unknown_columns_ask_for_the_kind() -> None:
    with pytest.raises(InputError, match="has the columns a, b"):
        guess_kind(["a", "b"])


def test_a_missing_library_is_named_with_the_command_that_installs_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(InputError, match=r"pip install 'formwright\[data\]'"):
        load_task("hf:glue/sst2")


def example(kind: str, n: int) -> dict[str, Any]:
    text = f"the {'red' if n % 2 else 'blue'} house number {n}"
    return {
        "classify": {"sentence": text, "label": n % 2},
        "match": {"sentence1": text, "sentence2": text[::-1], "label": n % 2},
        "tag": {"tokens": text.split(), "ner_tags": ["O"] * 4 + ["NUM"]},
        "span": {
            "context": text,
            "question": "which?",
            "answers": {"text": [str(n)], "answer_start": [len(text) - len(str(n))]},
        },
        "translate": {"translation": {"de": text.upper(), "en": text}},
        "lm": {"text": text},
        "mlm": {"text": text},
    }[kind]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", ["classify", "match", "tag", "span", "translate", "lm", "mlm"])
def test_a_local_folder_is_read_as_the_hub_would_be(
    datasets: Any, tmp_path: Path, kind: str
) -> None:
    where = folder(
        tmp_path / kind,
        train=[example(kind, n) for n in range(40)],
        validation=[example(kind, n) for n in range(40, 50)],
    )
    task = load_task(f"hf:{where}?kind={kind}")
    told = task.describe()
    assert set(told["rows"]) == {"train", "valid"}
    if kind not in ("lm", "mlm"):
        assert told["rows"] == {"train": 40, "valid": 10}
    model = build(task.architecture("(sf)x1", 32))
    assert task.loss(model, task.sampler(batch_tokens=300, seed=0).batch(0)).item() > 0


@pytest.mark.filterwarnings("ignore")
def test_a_data_set_that_is_not_there_says_why(datasets: Any, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be loaded"):
        load_task(f"hf:{tmp_path}/nothing")
