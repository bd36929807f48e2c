"""Folders for Hugging Face's library: its own classes answer from them, and we read them back."""

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from tests.export import folders

from formwright.arch import parse
from formwright.errors import InputError
from formwright.export import export_model
from formwright.model import Model, build, generate, load_model, save_model
from formwright.tasks.text import make_tokenizer
from formwright.tasks.translate import greedy, until
from formwright.use import load

transformers = pytest.importorskip("transformers")
hf = pytest.importorskip("formwright.hf")
pytestmark = pytest.mark.oracle

HYBRID = "scf in lra(16) for frame(VOCAB, 12, classify(2, pool=cls))"


def exported(root: Path) -> Path:
    export_model(root / "model", root / "out", to="hf")
    return root / "out"


def same(first: Model, second: Model) -> bool:
    one, two = first.state_dict(), second.state_dict()
    return first.arch == second.arch and all(torch.equal(one[name], two[name]) for name in one)


@torch.no_grad()
def test_a_hybrid_answers_in_a_pipeline_and_comes_back(tmp_path: Path) -> None:
    model = folders.classifier(tmp_path, layers=HYBRID)
    out = exported(tmp_path)
    assert same(model, load_model(out))
    pipe = transformers.pipeline("text-classification", str(out))
    text = "a good old film"
    (found,) = pipe(text)
    numbers = make_tokenizer("words", folders.TEXTS, ("pad",)).encode(text)
    chances = model(torch.tensor([numbers])).softmax(-1)[0]
    assert found["label"] == folders.LABELS[int(chances.argmax())]
    assert found["score"] == pytest.approx(float(chances.max()), abs=1e-5)
    many = pipe([text, "one bad", "a film " * 20], batch_size=3, truncation=True)
    assert many[0]["score"] == pytest.approx(found["score"], abs=1e-5)


def test_saving_with_the_library_is_read_by_us_and_by_it(tmp_path: Path) -> None:
    folders.classifier(tmp_path, layers=HYBRID)
    auto = transformers.AutoModelForSequenceClassification
    model = auto.from_pretrained(exported(tmp_path), dropout=0.1)
    assert type(model) is hf.FormwrightForSequenceClassification
    with torch.no_grad():
        next(model.parameters()).add_(1)
    model.save_pretrained(tmp_path / "again")
    assert same(model.model, load_model(tmp_path / "again"))
    again = auto.from_pretrained(tmp_path / "again")
    assert same(model.model, again.model)
    assert again.config.id2label == dict(enumerate(folders.LABELS))


def test_a_folder_that_lacks_weights_is_refused(tmp_path: Path) -> None:
    from safetensors.torch import load_file, save_file

    folders.classifier(tmp_path, layers=HYBRID)
    path = exported(tmp_path) / "model.safetensors"
    state = load_file(path)
    del state["head.maps.maps.0.weight"]
    save_file(state, path, {"format": "pt"})
    with pytest.raises(InputError, match="weight of a Linear is missing"):
        transformers.AutoModelForSequenceClassification.from_pretrained(path.parent)


def test_a_trainer_trains_it(tmp_path: Path) -> None:
    pytest.importorskip("accelerate")
    folders.classifier(tmp_path, layers=HYBRID)
    out = exported(tmp_path)
    model = transformers.AutoModelForSequenceClassification.from_pretrained(out)
    tokenizer = transformers.AutoTokenizer.from_pretrained(out)
    rows = [
        {**tokenizer(text, truncation=True), "labels": int("good" in text)}
        for text in folders.TEXTS * 4
    ]
    settings = transformers.TrainingArguments(
        str(tmp_path / "run"), num_train_epochs=12, learning_rate=3e-3, report_to=[],
        per_device_train_batch_size=8, save_strategy="no", disable_tqdm=True, use_cpu=True,
    )  # fmt: skip
    collator = transformers.DataCollatorWithPadding(tokenizer)
    trainer = transformers.Trainer(
        model=model, args=settings, train_dataset=rows, eval_dataset=rows, data_collator=collator
    )
    before = trainer.evaluate()["eval_loss"]
    trainer.train()
    assert trainer.evaluate()["eval_loss"] < 0.5 * before
    trainer.save_model(str(tmp_path / "trained"))
    assert same(model.model, load_model(tmp_path / "trained"))


@pytest.mark.parametrize("spec", ["bytes", "words", "bpe:300"])
def test_a_language_model_generates_as_ours_does(spec: str, tmp_path: Path) -> None:
    folders.writer(tmp_path, spec)
    out = exported(tmp_path)
    ours = load_model(out)
    model = transformers.AutoModelForCausalLM.from_pretrained(out)
    tokenizer = transformers.AutoTokenizer.from_pretrained(out)
    begun = tokenizer("a good", return_tensors="pt")
    found = model.generate(**begun, max_new_tokens=8, do_sample=False, pad_token_id=0)
    assert torch.equal(found, generate(ours, begun["input_ids"], 8, temperature=0))
    assert tokenizer.decode(begun["input_ids"][0]) == "a good"


def test_filling_in_front_changes_nothing() -> None:
    arch = parse("sf in gpt2(16) for frame(30, 24, lm)")
    config = hf.FormwrightConfig.of(build(arch), [])
    model = hf.FormwrightForCausalLM(config).eval()
    tokens = torch.randint(30, (1, 5))
    alone = model.generate(tokens, max_new_tokens=6, do_sample=False, pad_token_id=0)
    padded = torch.cat((torch.zeros(1, 3, dtype=torch.long), tokens), dim=1)
    mask = (torch.arange(8) >= 3).long().expand(2, -1)
    both = model.generate(
        padded.expand(2, -1), attention_mask=mask, max_new_tokens=6, do_sample=False, pad_token_id=0
    )
    assert torch.equal(both[0, 3:], alone[0])


LOSSES: dict[str, Callable[[torch.Tensor], dict[str, torch.Tensor]]] = {
    "classify(3)": lambda tokens: {"labels": torch.tensor([0, 2])},
    "classify(1)": lambda tokens: {"labels": torch.tensor([0.5, -1.0])},
    "tag(4)": lambda tokens: {"labels": tokens % 4},
    "mlm": lambda tokens: {"labels": torch.where(tokens > 9, tokens, -100)},
    "lm": lambda tokens: {"labels": tokens},
    "span": lambda tokens: {
        "start_positions": torch.tensor([1, 2]),
        "end_positions": torch.tensor([3, 2]),
    },
    "match(2)": lambda tokens: {"labels": torch.tensor([0, 1]), "other_input_ids": tokens},
}


@pytest.mark.parametrize("head", LOSSES)
def test_every_class_has_a_loss_that_falls(head: str) -> None:
    family = "gpt2" if head == "lm" else "bert"
    arch = parse(f"sf in {family}(16) for frame(30, 12, {head})")
    kind = hf.class_of(arch)
    model = kind(hf.FormwrightConfig.of(build(arch), []))
    tokens = torch.randint(30, (2, 6))
    mask = torch.ones_like(tokens)
    optimiser = torch.optim.Adam(model.parameters(), 1e-2)
    losses = []
    for _ in range(30):
        found = model(input_ids=tokens, attention_mask=mask, **LOSSES[head](tokens))
        optimiser.zero_grad()
        found.loss.backward()
        optimiser.step()
        losses.append(found.loss.item())
    assert losses[-1] < 0.7 * losses[0]
    plain = model(input_ids=tokens, return_dict=False, **LOSSES[head](tokens))
    assert isinstance(plain, tuple)


TRANSLATOR = "sc | (smf)x1 in translator(16) for frame(VOCAB, 12, lm)"


def test_an_encoder_decoder_translates_as_ours_does(tmp_path: Path) -> None:
    tokenizer = make_tokenizer("words", folders.TEXTS, ("pad", "begin", "end"))
    task = {"kind": "translate", "metric": "bleu"}
    ours = folders.saved(tmp_path / "model", TRANSLATOR, tokenizer, task)
    out = exported(tmp_path)
    assert same(ours, load_model(out))
    model = transformers.AutoModelForSeq2SeqLM.from_pretrained(out)
    assert type(model) is hf.FormwrightForSeq2SeqLM
    texts = transformers.AutoTokenizer.from_pretrained(out)
    read = texts(["a good old film", "one bad"], padding=True, return_tensors="pt")
    found = model.generate(**read, max_new_tokens=6, do_sample=False, num_beams=1)
    begin, end = (tokenizer.specials[name] for name in ("begin", "end"))
    mask = read["attention_mask"].bool()
    with torch.no_grad():
        wanted = greedy(ours, read["input_ids"], mask, (begin, end), 6)
    assert found.shape[1] > 1
    for row, (theirs, mine) in enumerate(zip(found[:, 1:].tolist(), wanted.tolist(), strict=True)):
        assert until(theirs, end) == until(mine, end), row
    beams = model.generate(**read, max_new_tokens=6, num_beams=3)
    assert beams.shape[0] == 2


def test_an_encoder_decoder_learns_from_labels() -> None:
    model = hf.FormwrightForSeq2SeqLM(
        hf.FormwrightConfig.of(
            build(parse(TRANSLATOR.replace("VOCAB", "30"))), [], decoder_start_token_id=1,
            pad_token_id=0,
        )
    )  # fmt: skip
    tokens = torch.randint(3, 30, (2, 6))
    labels = torch.cat((tokens[:, :4].flip(1), torch.full((2, 1), -100)), dim=1)
    optimiser = torch.optim.Adam(model.parameters(), 1e-2)
    losses = []
    for _ in range(30):
        found = model(input_ids=tokens, attention_mask=torch.ones_like(tokens), labels=labels)
        optimiser.zero_grad()
        found.loss.backward()
        optimiser.step()
        losses.append(found.loss.item())
    assert losses[-1] < 0.7 * losses[0]
    with pytest.raises(InputError, match="needs decoder_input_ids"):
        model(input_ids=tokens)


def test_vectors_go_out_too(tmp_path: Path) -> None:
    layers = "sf in lra(16) for frame(VOCAB, 12, features)"
    tokenizer = make_tokenizer("words", folders.TEXTS, ("pad",))
    model = folders.saved(tmp_path / "model", layers, tokenizer, {"kind": "vectors"})
    loaded = transformers.AutoModel.from_pretrained(exported(tmp_path))
    tokens = torch.randint(tokenizer.vocab, (2, 5))
    with torch.no_grad():
        torch.testing.assert_close(loaded(tokens).last_hidden_state, model(tokens))


@pytest.mark.parametrize("spec", ["words", "wordpiece:80"])
def test_two_texts_are_joined_and_cut_as_in_training(spec: str, tmp_path: Path) -> None:
    from formwright.tasks.records import fit

    tokenizer = make_tokenizer(spec, folders.TEXTS, ("pad", "separate"))
    layers = (
        "sf in encoder(16, position=learned, embedding=embedding(segments=2)) "
        "for frame(VOCAB, 13, classify(2))"
    )
    task = {"kind": "classify", "labels": folders.LABELS, "pair": True}
    folders.saved(tmp_path / "model", layers, tokenizer, task)
    theirs = transformers.AutoTokenizer.from_pretrained(exported(tmp_path))
    assert theirs.is_fast == (spec != "words")
    for first, second in (("a good film", "one bad"), ("a good film " * 5, "one bad book!" * 4)):
        two = tokenizer.encode(first), tokenizer.encode(second)
        whole, begins = tokenizer.join(*two)
        if len(whole) > 13:  # room for an even number: who gets the odd one is a matter of taste
            whole, begins = tokenizer.join(*fit(*two, len(whole) - 13))
        found = theirs(first, second, truncation=True)
        assert found["input_ids"] == whole
        assert found["token_type_ids"] == [int(at >= begins) for at in range(len(whole))]


@pytest.mark.parametrize("spec", ["bytes", "chars", "words", "spaces", "shapes", "bpe:300"])
def test_a_tokeniser_pads_cuts_and_is_saved(spec: str, tmp_path: Path) -> None:
    (tmp_path / "model").mkdir()
    tokenizer = make_tokenizer(spec, folders.TEXTS, ("pad",))
    layers = "sf in bert(16) for frame(VOCAB, 12, tag(2))"
    folders.saved(tmp_path / "model", layers, tokenizer, {"kind": "tag", "labels": ["A", "B"]})
    theirs = transformers.AutoTokenizer.from_pretrained(exported(tmp_path))
    texts = ["a good <pad> film", "one zebra", ""]
    found = theirs(texts, padding=True, truncation=True)
    theirs.save_pretrained(tmp_path / "again")
    if spec != "bpe:300":
        again = hf.FormwrightTokenizer.from_pretrained(tmp_path / "again")
        assert again(texts, padding=True, truncation=True)["input_ids"] == found["input_ids"]
    for text, row, mask in zip(texts, found["input_ids"], found["attention_mask"], strict=True):
        if text and not (spec == "bpe:300" and "<pad>" in text):
            wanted = tokenizer.encode(text)[:12]
            assert row[: sum(mask)] == wanted
            assert set(row[sum(mask) :]) <= {tokenizer.pad}
    assert len(theirs) == tokenizer.vocab


def test_the_card_says_what_is_known(tmp_path: Path) -> None:
    folders.classifier(tmp_path, layers=HYBRID)
    text = (exported(tmp_path) / "README.md").read_text()
    for words in (
        "license: apache-2.0",
        "pipeline_tag: text-classification",
        "accuracy: 0.81 (95 % interval 0.78 to 0.84)",
        "onnx,length=12",
        "trials 12",
        "import formwright.hf",
        "pip install 'formwright[hf]'",
    ):
        assert words in text


def test_what_cannot_go_out_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from formwright.export import huggingface

    folders.saved(tmp_path / "model", TRANSLATOR, None, {"kind": "translate"})
    monkeypatch.setattr(huggingface, "find_spec", lambda name: None)
    with pytest.raises(InputError, match=r"pip install 'formwright\[hf\]'"):
        exported(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["model"]
    config = hf.FormwrightConfig.of(build(parse("sf in bert(16) for frame(9, 9, tag(2))")), [])
    with pytest.raises(InputError, match="use FormwrightForTokenClassification"):
        hf.FormwrightForMaskedLM(config)
    two = hf.FormwrightConfig.of(build(parse(TRANSLATOR.replace("VOCAB", "9"))), [])
    with pytest.raises(InputError, match="use FormwrightForSeq2SeqLM"):
        hf.FormwrightForCausalLM(two)


def test_a_stock_model_loads_with_the_library_alone(tmp_path: Path) -> None:
    made = transformers.GPT2LMHeadModel(
        transformers.GPT2Config(vocab_size=256, n_positions=24, n_embd=16, n_layer=1, n_head=2)
    )
    made.save_pretrained(tmp_path / "theirs")
    ours = load_model(tmp_path / "theirs")
    save_model(ours, tmp_path / "model")
    found = export_model(tmp_path / "model", tmp_path / "out", to="hf")
    assert "transformers alone" in found.notes[0]
    assert not (tmp_path / "out" / "architecture.json").exists()
    assert same(ours, load_model(tmp_path / "out"))
    tokens = torch.randint(256, (2, 9))
    loaded = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "out")
    assert type(loaded) is transformers.GPT2LMHeadModel
    with torch.no_grad():
        torch.testing.assert_close(loaded(tokens).logits, ours(tokens), atol=1e-5, rtol=0)


def test_a_checkpoint_goes_out_as_it_came_in(tmp_path: Path) -> None:
    tokenizers = pytest.importorskip("tokenizers")
    words = {"[PAD]": 0, "[UNK]": 1, "[CLS]": 2, "[SEP]": 3, "red": 4, "green": 5}
    inner = tokenizers.Tokenizer(tokenizers.models.WordLevel(words, unk_token="[UNK]"))
    inner.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    theirs = tmp_path / "theirs"
    config = transformers.BertConfig(
        vocab_size=6, hidden_size=16, num_hidden_layers=1, num_attention_heads=2,
        intermediate_size=32, max_position_embeddings=12, id2label={0: "no", 1: "yes"},
    )  # fmt: skip
    transformers.BertForSequenceClassification(config).save_pretrained(theirs)
    fast = transformers.PreTrainedTokenizerFast(tokenizer_object=inner, pad_token="[PAD]")
    fast.save_pretrained(theirs)
    out = tmp_path / "out"
    found = export_model(theirs, out, to="hf")
    assert "transformers alone" in found.notes[0]
    names = {path.name for path in theirs.iterdir()}
    assert {path.name for path in out.iterdir()} == names | {"README.md"}
    assert (out / "tokenizer.json").read_bytes() == (theirs / "tokenizer.json").read_bytes()
    ask = [
        transformers.pipeline("text-classification", str(folder))("red green")
        for folder in (theirs, out)
    ]
    assert ask[0] == ask[1]
    assert load(out).predict("red green").label == ask[0][0]["label"]
