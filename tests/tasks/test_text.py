"""Tokenisers: round trips, special symbols, spans, and a clear word when a library is missing."""

import json
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from formwright.errors import InputError
from formwright.tasks.text import Tokenizer, make_tokenizer, restore

TEXTS = ["The old man's boat, it sank!", "the sea is old and the boat is new", "Ünïcode 漢字 x"]
PLAIN = ["bytes", "chars", "words", "words:5", "spaces", "shapes"]
TRAINED = ["bpe:300", "wordpiece:80"]


def made(spec: str, specials: tuple[str, ...] = ("pad", "separate")) -> Tokenizer:
    if spec in TRAINED:
        pytest.importorskip("tokenizers")
    return make_tokenizer(spec, TEXTS, specials)


@pytest.mark.parametrize("spec", PLAIN + TRAINED)
def test_a_restored_tokeniser_is_the_same_one(spec: str) -> None:
    before = made(spec)
    after = restore(json.loads(json.dumps(before.state())))
    assert (after.vocab, after.specials, after.spec) == (before.vocab, before.specials, spec)
    for text in (*TEXTS, "a new one, with unseen words 42"):
        numbers = before.encode(text)
        assert after.encode(text) == numbers
        assert after.decode(numbers) == before.decode(numbers)
        assert all(0 <= number < before.vocab for number in numbers)
        assert not set(numbers) & {before.specials["pad"], before.specials["separate"]}


@pytest.mark.parametrize("spec", PLAIN + TRAINED)
def test_spans_point_at_the_letters_of_each_symbol(spec: str) -> None:
    tokenizer = made(spec)
    text = TEXTS[0]
    numbers, spans = tokenizer.encode_spans(text)
    assert numbers == tokenizer.encode(text)
    assert len(spans) == len(numbers)
    assert all(0 <= a < b <= len(text) for a, b in spans)
    covered = {at for a, b in spans for at in range(a, b)}
    assert {at for at, letter in enumerate(text) if not letter.isspace()} <= covered


@given(st.text())
def test_bytes_hold_every_text(text: str) -> None:
    tokenizer = make_tokenizer("bytes", [], ("pad",))
    assert tokenizer.vocab == 257
    assert tokenizer.encode(text) == [byte + 1 for byte in text.encode()]
    assert tokenizer.decode(tokenizer.encode(text)) == text


def test_bytes_without_special_symbols_are_the_bytes() -> None:
    tokenizer = make_tokenizer("bytes", [], ())
    assert (tokenizer.vocab, tokenizer.encode("ab")) == (256, [97, 98])


def test_byte_level_bpe_holds_every_text() -> None:
    tokenizer = made("bpe:300")
    assert tokenizer.vocab == 300
    for text in (*TEXTS, "something else\nentirely ✓"):
        assert tokenizer.decode(tokenizer.encode(text)) == text


def test_words_are_lower_case_with_marks_of_their_own() -> None:
    tokenizer = made("words")
    assert tokenizer.decode(tokenizer.encode("The Boat, new!")) == "the boat , new !"
    assert tokenizer.decode(tokenizer.encode("the zebra")) == "the <unknown>"


def test_the_commonest_words_are_kept() -> None:
    tokenizer = made("words:2", ("pad",))
    assert tokenizer.vocab == 4  # pad, unknown, and two words
    assert tokenizer.decode(tokenizer.encode("the boat sea")) == "the boat <unknown>"


def test_words_of_running_text_are_as_benchmarks_count_them() -> None:
    tokenizer = make_tokenizer("words", ["a <unk> B ,\nb .\n"], (), running=True)
    assert tokenizer.encode("a B\nb zzz") == [
        tokenizer.encode(word)[0] for word in ("a", "B", "\n", "b", "zzz")
    ]
    assert tokenizer.vocab == 1 + 7  # unknown; a <unk> B , \n b .


def test_rare_words_are_read_by_their_looks() -> None:
    train = ["walking talking Paris London 12-4 the the"] + [f"w{i} w{i}" for i in range(1000)]
    tokenizer = make_tokenizer("shapes", train, ("pad",))
    unseen = {word: tokenizer.encode(word)[0] for word in ("jumping", "Berlin", "the", "running")}
    assert unseen["jumping"] == unseen["running"]
    assert len(set(unseen.values())) == 3


@pytest.mark.parametrize("spec", ["bpe:many", "words:0", "wordpiece:-3"])
def test_sizes_must_be_numbers(spec: str) -> None:
    with pytest.raises(InputError, match="number of symbols"):
        make_tokenizer(spec, TEXTS, ())


def test_a_missing_library_is_named_with_the_command_that_installs_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "tokenizers", None)
    with pytest.raises(InputError, match=r"pip install 'formwright\[data\]'"):
        make_tokenizer("bpe:100", TEXTS, ())


def test_an_unknown_tokeniser_is_explained() -> None:
    pytest.importorskip("tokenizers")
    with pytest.raises(InputError, match=r"No tokenizer is called 'nothing'.*bpe:N"):
        make_tokenizer("nothing", TEXTS, ())


def test_a_folder_without_a_tokeniser_is_named(tmp_path: Path) -> None:
    pytest.importorskip("tokenizers")
    with pytest.raises(InputError, match=r"holds no tokenizer: tokenizer\.json is missing"):
        make_tokenizer(str(tmp_path), TEXTS, ())


def test_ready_made_tokenisers_are_read_from_their_folder(tmp_path: Path) -> None:
    tk = pytest.importorskip("tokenizers")
    bert = tmp_path / "bert_uncased"
    bert.mkdir()
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "old", "sea", "##s"]
    (bert / "vocab.txt").write_text("\n".join(words) + "\n")
    tokenizer = make_tokenizer(str(bert), [], ("pad", "separate", "mask", "begin"))
    assert tokenizer.encode("Old seas zzz") == [5, 6, 7, 1]
    assert tokenizer.specials == {"pad": 0, "separate": 3, "mask": 4, "begin": 2}
    assert tokenizer.join([5], [6]) == ([2, 5, 3, 6, 3], 3)  # [CLS] a [SEP] b [SEP]
    inner = tk.Tokenizer(tk.models.WordLevel({"a": 0, "b": 1, "<unk>": 2}, unk_token="<unk>"))
    inner.pre_tokenizer = tk.pre_tokenizers.Whitespace()
    inner.save(str(tmp_path / "tokenizer.json"))
    for where in (tmp_path, tmp_path / "tokenizer.json"):
        found = make_tokenizer(str(where), [], ("pad", "unknown"))
        assert found.encode("a b zzz") == [0, 1, 2]
        assert found.specials == {"pad": 3, "unknown": 2}  # padding is put behind the vocabulary
        assert found.vocab == 4


def test_a_broken_tokeniser_file_is_named(tmp_path: Path) -> None:
    pytest.importorskip("tokenizers")
    (tmp_path / "tokenizer.json").write_text("{")
    with pytest.raises(InputError, match="cannot be read as a tokenizer"):
        make_tokenizer(str(tmp_path), [], ())
