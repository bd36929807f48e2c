"""Rivals without a network: they learn what is there to learn, from the training split alone."""

import json
import math
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
import torch

from formwright.estimate import plain, tfidf
from formwright.estimate.plain import PlainResult, fit_linear, fit_tagger, plain_rival
from formwright.estimate.tfidf import Sparse, TfIdf, pieces_of_words, words_and_pairs
from formwright.tasks import load_task
from formwright.tasks.cache import Ragged
from formwright.tasks.examples import Classification
from formwright.tasks.tag import Tagging
from formwright.tasks.text import make_tokenizer

MANY = 10_000
TOPICS = {"garden": "rose tulip spade soil", "kitchen": "oven knife soup salt", "road": "car lane"}
FILLER = ["the", "a", "of", "it", "was", "there", "then", "again", "very", "some"]
CORPUS = [
    "The cat sat, and the cat slept.",
    "A dog sat on the cat",
    "é ou à: x y",
    "dogs and cats and dogs and dogs",
    "",
]


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORMWRIGHT_CACHE", str(tmp_path / "cache"))


def described(rng: Random, label: str) -> str:
    words = [rng.choice(FILLER) for _ in range(6)] + [rng.choice(TOPICS[label].split())]
    rng.shuffle(words)
    return " ".join(words)


def topics(rows: int, seed: int) -> list[dict[str, str]]:
    rng = Random(seed)
    labels = [rng.choice(["garden", "garden", "kitchen", "road"]) for _ in range(rows)]
    return [{"text": described(rng, label), "label": label} for label in labels]


def write(path: Path, rows: list[dict[str, Any]]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def rival(name: str) -> PlainResult:
    found = plain_rival(load_task(name))
    assert found is not None
    return found


# --- classes ----------------------------------------------------------------------------


def test_a_linear_model_learns_what_words_tell(tmp_path: Path) -> None:
    found = rival(f"classify:{write(tmp_path / 'rows.jsonl', topics(300, 1))}")
    assert found.name == "TF-IDF with logistic regression"
    assert found.values["accuracy"] > 0.95  # half are of the largest class
    assert found.values["macro_f1"] > 0.9
    assert found.values["loss"] < math.log(3)
    assert found.values["fit_seconds"] > 0
    assert found.values["example_ms"] > 0


def test_a_pair_is_judged_by_what_its_sides_share(tmp_path: Path) -> None:
    rng = Random(2)
    names = [f"{a}{b}{a}" for a in "bdfgklmn" for b in "aeiou"]
    rows = []
    for number in range(400):
        one = rng.sample(names, 4)
        two = (
            rng.sample(one, 4) if number % 2 else rng.sample([n for n in names if n not in one], 4)
        )
        rows.append({"text_a": " ".join(one), "text_b": " ".join(two), "label": str(number % 2)})
    path = write(tmp_path / "pairs.jsonl", rows)
    assert rival(f"match:{path}").values["accuracy"] > 0.95
    assert rival(f"classify:{path}").values["accuracy"] > 0.95  # read in one by a network


def test_labels_of_validation_change_nothing_that_is_learnt(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fitted = []

    def kept(*given: Any) -> Any:
        fitted.append(fit_linear(*given))
        return fitted[-1]

    monkeypatch.setattr(plain, "fit_linear", kept)
    train, valid = topics(120, 3), topics(60, 4)
    turned = [row | {"label": valid[place - 1]["label"]} for place, row in enumerate(valid)]
    scores = []
    for name, rows in (("as", valid), ("turned", turned)):
        write(tmp_path / name / "train.jsonl", train)
        write(tmp_path / name / "valid.jsonl", rows)
        scores.append(rival(f"classify:{tmp_path / name}").values["accuracy"])
    assert torch.equal(fitted[0].weights, fitted[1].weights)
    assert scores[0] != scores[1]


def test_the_fit_ends_where_the_penalised_loss_is_flat() -> None:
    rows = topics(80, 5)
    part = TfIdf.fit(words_and_pairs, [row["text"] for row in rows], MANY)
    x = part([row["text"] for row in rows])
    wanted = torch.tensor([list(TOPICS).index(row["label"]) for row in rows])
    weights = plain._fit(x, wanted, torch.zeros(x.shape[1], 3), 0.25, 200).double()
    weights.requires_grad_()
    scores = torch.from_numpy(dense(x)) @ weights
    loss = torch.nn.functional.cross_entropy(scores, wanted, reduction="sum")
    (loss + 0.25 / 2 * weights.square().sum()).backward()
    assert weights.grad is not None
    assert weights.grad.abs().max() < 1e-2
    assert loss < 0.5 * len(rows) * math.log(3)


def test_one_row_and_texts_without_words_are_no_trouble() -> None:
    alone = fit_linear(["a word"], np.array([1]), 2)
    assert alone.scores(["a word", "?"]).argmax(dim=1).tolist() == [1, 1]
    empty = fit_linear(["", ""], np.array([0, 0]), 2)
    assert empty.scores(["", "x"]).argmax(dim=1).tolist() == [0, 0]


def test_much_text_is_read_by_words_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    texts = [row["text"] for row in topics(40, 6)]
    labels = np.arange(40) % 2
    assert len(fit_linear(texts, labels, 2).parts) == 2
    monkeypatch.setattr(plain, "_PIECED", 100)
    monkeypatch.setattr(plain, "_LETTERS", 200)
    few = fit_linear(texts, labels, 2)
    assert [part.terms for part in few.parts] == [words_and_pairs]
    assert len(few.parts[0].places) < len(TfIdf.fit(words_and_pairs, texts, MANY).places)


# --- TF-IDF -----------------------------------------------------------------------------


def dense(x: Sparse) -> np.ndarray:
    made = np.zeros(x.shape)
    made[x.rows, x.columns] = x.values
    return made


def sparse(matrix: np.ndarray) -> Sparse:
    rows, columns = np.nonzero(matrix)
    return Sparse(rows, columns, matrix[rows, columns], (len(matrix), matrix.shape[1]))


@pytest.mark.oracle
@pytest.mark.parametrize(
    ("terms", "how"),
    [
        (words_and_pairs, {"ngram_range": (1, 2), "token_pattern": r"(?u)\w+"}),
        (pieces_of_words, {"ngram_range": (2, 5), "analyzer": "char_wb"}),
    ],
)
@pytest.mark.parametrize("most", [MANY, 7])
def test_features_equal_scikit_learns(terms: tfidf.Terms, how: dict[str, Any], most: int) -> None:
    sk = pytest.importorskip("sklearn.feature_extraction.text")
    ours = TfIdf.fit(terms, CORPUS, most)
    # ties at the last place are not broken alike: theirs gets our terms
    vocabulary = {"vocabulary": ours.places} if most != MANY else {}
    theirs = sk.TfidfVectorizer(sublinear_tf=True, **how, **vocabulary).fit(CORPUS)
    assert set(ours.places) == set(theirs.vocabulary_)
    order = [theirs.vocabulary_[term] for term in ours.places]
    new = [*CORPUS, "the cats of y", "nothing known"]
    np.testing.assert_allclose(dense(ours(new)), theirs.transform(new).toarray()[:, order])


def test_the_most_frequent_terms_are_kept() -> None:
    assert set(TfIdf.fit(words_and_pairs, CORPUS, 3).places) == {"and", "cat", "dogs"}


def test_sparse_matrices_do_as_full_ones_do() -> None:
    random = np.random.default_rng(0)
    full = [random.integers(3, size=(5, 7)) * random.random((5, 7)) for _ in range(2)]
    full[0][2] = 0
    one, two = sparse(full[0]), sparse(full[1])
    rows = np.array([4, 2, 0, 0])
    np.testing.assert_array_equal(dense(one.chosen(rows)), full[0][rows])
    np.testing.assert_array_equal(dense(one.turned()), full[0].T)
    np.testing.assert_array_equal(dense(tfidf.beside(one, two)), np.hstack(full))
    np.testing.assert_array_equal(dense(tfidf.overlap(one, two)), full[0] * full[1])
    np.testing.assert_allclose(dense(tfidf.difference(one, two)), np.abs(full[0] - full[1]))
    np.testing.assert_allclose(one.totals, full[0].sum(axis=1))


# --- tags -------------------------------------------------------------------------------


def test_unknown_words_take_the_tag_of_their_longest_known_ending() -> None:
    rows = [["walking", "king", "bring", "the"], ["walking", "the", "the"]]
    tags = [np.array([1, 2, 3, 0]), np.array([1, 0, 4])]
    model = fit_tagger(rows, tags)
    assert model.tag(["walking", "king", "the"]).tolist() == [1, 2, 0]
    # -king has 1 twice and 2 once; -ring is 3; -ing is mostly 1; z ends nothing, 0 is commonest
    assert model.tag(["talking", "string", "sing", "z"]).tolist() == [1, 3, 1, 0]
    assert model.tag([]).tolist() == []


def test_tags_of_words_are_learnt_and_cut_sentences_scored_as_far_as_they_are_read(
    tmp_path: Path,
) -> None:
    rng = Random(7)
    kinds = {"N": ["house", "river", "tree"], "V": ["walks", "sees"], "A": ["red", "new york"]}
    sentences = []
    for _ in range(80):
        tags = [rng.choice("NNVA") for _ in range(rng.randint(3, 9))]
        sentences.append("".join(f"{rng.choice(kinds[tag])}\t{tag}\n" for tag in tags))
    path = tmp_path / "tags.conll"
    path.write_text("\n".join(sentences))
    found = rival(f"tag:{path}?length=4")
    assert found.name == "most frequent tag"
    assert found.values["accuracy"] == 1.0
    assert found.values["macro_f1"] == 1.0


# --- running text -----------------------------------------------------------------------


def book(folder: Path, train: bytes, valid: bytes) -> Path:
    folder.mkdir()
    (folder / "train.txt").write_bytes(train)
    (folder / "valid.txt").write_bytes(valid)
    return folder


def test_noise_costs_all_its_bits_and_what_was_read_before_almost_none(tmp_path: Path) -> None:
    noise = Random(8).randbytes(60_000)
    new = book(tmp_path / "new", noise[:40_000], noise[40_000:])
    old = book(tmp_path / "old", noise[:40_000], noise[:20_000])
    assert rival(f"lm:{new}").values["bits_per_byte"] == pytest.approx(8, rel=0.02)
    found = rival(f"lm:{old}")
    assert found.name == "xz"  # the others do not look back so far
    assert found.values["bits_per_byte"] < 0.5


def test_a_text_costs_the_same_in_every_unit(tmp_path: Path) -> None:
    rng = Random(9)
    lines = ["".join(f"{described(rng, 'garden')}\n" for _ in range(n)) for n in (400, 60)]
    text = book(tmp_path / "text", lines[0].encode(), lines[1].encode())
    in_bytes, in_letters = (rival(f"lm:{text}?tokenizer={t}").values for t in ("bytes", "chars"))
    assert in_letters["bits_per_character"] == pytest.approx(in_bytes["bits_per_byte"])
    assert in_bytes["bits_per_byte"] < 3
    in_words = rival(f"lm:{text}?tokenizer=words").values
    assert in_words["perplexity"] == pytest.approx(math.exp(in_words["loss"]))
    bits = in_words["loss"] / math.log(2) * 60 * 8  # seven words of a line, and its end
    assert bits == pytest.approx(in_bytes["bits_per_byte"] * len(lines[1]), rel=0.1)


def test_of_long_texts_a_part_is_enough(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plain, "_MEASURED", 1000)
    noise = Random(10).randbytes(9_000)
    text = book(tmp_path / "part", b"x" * 3000, noise[:1000] + b"x" * 8000)
    assert rival(f"lm:{text}").values["bits_per_byte"] > 8  # the noise alone, and its wrapping


# --- what there is no rival for ---------------------------------------------------------


@pytest.mark.parametrize("name", ["planted-near", "planted-tag", "pairs?train=8&valid=4&test=4"])
def test_generated_symbols_have_no_texts_and_no_rival(name: str) -> None:
    task = load_task(name)
    assert isinstance(task, Classification | Tagging)
    assert task.texts("valid") is None
    assert plain_rival(task) is None


def test_numbers_and_hidden_symbols_have_no_rival(tmp_path: Path) -> None:
    rows = [{"text": f"row {n}", "label": str(n / 7)} for n in range(40)]
    assert plain_rival(load_task(f"classify:{write(tmp_path / 'n.jsonl', rows)}")) is None
    text = book(tmp_path / "text", b"some text " * 50, b"more text " * 50)
    assert plain_rival(load_task(f"mlm:{text}")) is None


# --- texts of tasks ---------------------------------------------------------------------


@pytest.mark.parametrize("how", ["given", "cached"])
def test_texts_stand_in_the_order_of_the_rows(tmp_path: Path, how: str) -> None:
    rows = topics(90, 11)
    name = f"classify:{write(tmp_path / 'rows.jsonl', rows)}"
    task = load_task(name)
    task = load_task(name) if how == "cached" else task
    assert isinstance(task, Classification)
    labels = {row["text"]: row["label"] for row in rows}
    train = task.texts("train")
    assert train is not None
    tokenizer = make_tokenizer("words", [str(text) for text in train], ("pad",))
    seen = 0
    for split in ("train", "valid", "test"):
        data, texts = task.split(split), task.texts(split)
        assert texts is not None
        for row, text in enumerate(texts):
            assert isinstance(text, str)
            assert data.columns["tokens"][row].tolist() == tokenizer.encode(text)
            assert task.labels[data.targets[row]] == labels[text]
        seen += len(texts)
    assert seen == len(rows)


@pytest.mark.parametrize("kind", ["match", "classify"])
def test_both_texts_of_a_pair_are_kept_uncut(tmp_path: Path, kind: str) -> None:
    rows = [
        {"text_a": f"first {n} é", "text_b": f"second {n} " + "and so on " * 9, "label": str(n % 2)}
        for n in range(40)
    ]
    task = load_task(f"{kind}:{write(tmp_path / 'pairs.jsonl', rows)}?length=12")
    assert isinstance(task, Classification)
    found = task.texts("valid")
    assert found is not None
    labels = {(row["text_a"], row["text_b"]): row["label"] for row in rows}
    for row, two in enumerate(found):
        assert isinstance(two, tuple)
        assert task.labels[task.split("valid").targets[row]] == labels[two]


def test_words_of_tagged_rows_belong_to_their_tags(tmp_path: Path) -> None:
    rng = Random(12)
    sentences = [
        "".join(f"new {n}\tT{n % 3}\n" for n in rng.sample(range(30), 5)) for _ in range(40)
    ]
    path = tmp_path / "tags.conll"
    path.write_text("\n".join(sentences))
    task = load_task(f"tag:{path}")
    assert isinstance(task, Tagging)
    for split in ("train", "valid"):
        texts, targets = task.texts(split), task.split(split).targets
        assert texts is not None
        assert isinstance(targets, Ragged)
        assert len(texts) == len(targets)
        for row, words in enumerate(texts):
            wanted = [f"T{int(word.removeprefix('new ')) % 3}" for word in words]
            assert [task.labels[target - 1] for target in targets[row]] == wanted
