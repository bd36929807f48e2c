"""Prepared data of these tests goes to a folder of the run, never to the user's cache."""

import json
import os
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from random import Random

import pytest


@pytest.fixture(scope="session", autouse=True)
def cache_of_the_run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    before = os.environ.get("FORMWRIGHT_CACHE")
    os.environ["FORMWRIGHT_CACHE"] = str(tmp_path_factory.mktemp("cache"))
    yield
    if before is None:
        del os.environ["FORMWRIGHT_CACHE"]
    else:
        os.environ["FORMWRIGHT_CACHE"] = before


WORDS = [
    "red",
    "blue",
    "green",
    "small",
    "large",
    "old",
    "new",
    "house",
    "tree",
    "river",
    "stone",
    "bird",
    "walks",
    "sees",
    "likes",
]


def sentence(rng: Random, least: int = 3, most: int = 12) -> list[str]:
    return [rng.choice(WORDS) for _ in range(rng.randint(least, most))]


@pytest.fixture(scope="session")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small file for every kind of task that reads files."""
    folder = tmp_path_factory.mktemp("data with spaces é")
    rng = Random(3)
    rows = [
        (" ".join(s), "long" if len(s) > 7 else "short")
        for s in (sentence(rng) for _ in range(120))
    ]
    (folder / "reviews.csv").write_text(
        "body,stars\n" + "".join(f'"{text}, said",{label}\n' for text, label in rows)
    )
    pairs = [
        {"text_a": a, "text_b": b, "label": str(i % 2)}
        for i, ((a, _), (b, _)) in enumerate(pairwise(rows))
    ]
    (folder / "pairs.jsonl").write_text("".join(json.dumps(row) + "\n" for row in pairs))
    scores = "text\tscore\n" + "".join(f"{t}\t{len(t) / 7}\n" for t, _ in rows)
    (folder / "scores.tsv").write_text(scores)
    (folder / "book.txt").write_text("\n".join(text for text, _ in rows) + "\n")
    tagged = "\n\n".join(
        "\n".join(f"{word} {'COLOUR' if word in WORDS[:3] else 'OTHER'}" for word in text.split())
        for text, _ in rows
    )
    (folder / "tags.conll").write_text(tagged + "\n")
    (folder / "train.aa").write_text("".join(f"{text}\n" for text, _ in rows))
    (folder / "train.bb").write_text("".join(f"{text[::-1]}\n" for text, _ in rows))
    (folder / "questions.json").write_text(json.dumps(squad([text for text, _ in rows])))
    return folder


def squad(texts: list[str]) -> dict[str, object]:
    """The second word of each text is the answer."""
    paragraphs = [
        {
            "context": text,
            "qas": [
                {
                    "question": "Which word is second?",
                    "id": str(number),
                    "answers": [{"text": text.split()[1], "answer_start": text.index(" ") + 1}],
                }
            ],
        }
        for number, text in enumerate(texts)
    ]
    return {"version": "1.1", "data": [{"title": "t", "paragraphs": paragraphs}]}
