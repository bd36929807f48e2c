"""Checkpoints of Hugging Face's format answer as that library has them answer, or say why not."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.cli_helpers import InProcess

from formwright.use import load

transformers = pytest.importorskip("transformers")
tokenizers = pytest.importorskip("tokenizers")
pytestmark = pytest.mark.oracle

WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "red", "green", "blue", "round", "square"]
SMALL = {
    "vocab_size": len(WORDS), "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2,
    "intermediate_size": 32, "max_position_embeddings": 16,
}  # fmt: skip
TEXTS = ["red green", "blue", "round square red red green"]


def write_tokenizer(folder: Path, **marks: str) -> Any:
    numbers = {word: n for n, word in enumerate(WORDS)}
    inner = tokenizers.Tokenizer(tokenizers.models.WordLevel(numbers, unk_token="[UNK]"))
    inner.pre_tokenizer = tokenizers.pre_tokenizers.WhitespaceSplit()
    inner.post_processor = tokenizers.processors.TemplateProcessing(
        single="[CLS]:0 $A:0 [SEP]:0",
        pair="[CLS]:0 $A:0 [SEP]:0 $B:1 [SEP]:1",
        special_tokens=[("[CLS]", 2), ("[SEP]", 3)],
    )
    names = {"pad_token": "[PAD]", "unk_token": "[UNK]", "mask_token": "[MASK]", **marks}
    made = transformers.PreTrainedTokenizerFast(tokenizer_object=inner, **names)
    made.save_pretrained(folder)
    return made


def classifier(folder: Path) -> Any:
    torch.manual_seed(0)
    labels = {0: "no", 1: "yes", 2: "perhaps"}
    made = transformers.BertForSequenceClassification(
        transformers.BertConfig(**SMALL, id2label=labels)
    ).eval()
    made.save_pretrained(folder)
    return made


def test_a_classifier_gives_the_labels_of_the_library(tmp_path: Path) -> None:
    classifier(tmp_path)
    write_tokenizer(tmp_path)
    theirs = transformers.pipeline("text-classification", str(tmp_path))(TEXTS)
    ours = load(tmp_path).predict(TEXTS)
    assert [answer.label for answer in ours] == [row["label"] for row in theirs]
    assert [answer.probability for answer in ours] == pytest.approx(
        [row["score"] for row in theirs], abs=1e-5
    )


def test_vectors_are_those_of_sentence_transformers(tmp_path: Path) -> None:
    torch.manual_seed(0)
    made = transformers.BertModel(transformers.BertConfig(**SMALL)).eval()
    made.save_pretrained(tmp_path)
    tokenizer = write_tokenizer(tmp_path)
    parts = (("", "Transformer"), ("1_Pooling", "Pooling"), ("2_Normalize", "Normalize"))
    modules = [{"path": path, "type": f"sentence_transformers.models.{n}"} for path, n in parts]
    (tmp_path / "modules.json").write_text(json.dumps(modules))
    (tmp_path / "1_Pooling").mkdir()
    (tmp_path / "1_Pooling" / "config.json").write_text('{"pooling_mode_mean_tokens": true}')
    loaded = load(tmp_path)
    assert loaded.kind == "vectors"
    found = torch.tensor([answer.values for answer in loaded.predict(TEXTS)])
    inputs = tokenizer(TEXTS, padding=True, return_tensors="pt")
    mask = inputs["attention_mask"].unsqueeze(-1)
    with torch.no_grad():
        x = made(inputs["input_ids"], inputs["attention_mask"]).last_hidden_state
    mean = (x * mask).sum(1) / mask.sum(1)
    wanted = torch.nn.functional.normalize(mean, dim=-1)
    torch.testing.assert_close(found, wanted, atol=1e-5, rtol=0)


def test_a_decoder_writes_what_the_library_writes(tmp_path: Path) -> None:
    torch.manual_seed(0)
    made = transformers.GPT2LMHeadModel(
        transformers.GPT2Config(
            vocab_size=len(WORDS), n_positions=16, n_embd=16, n_layer=2, n_head=2,
            bos_token_id=2, eos_token_id=None,
        )
    ).eval()  # fmt: skip
    made.save_pretrained(tmp_path)
    tokenizer = write_tokenizer(tmp_path)
    start = torch.tensor([[2, *tokenizer("red green", add_special_tokens=False)["input_ids"]]])
    wanted = made.generate(start, max_new_tokens=8, do_sample=False, pad_token_id=0)[0, 3:]
    found = load(tmp_path).generate("red green", 8)
    until = wanted.tolist()
    if 3 in until:  # the end, at which ours stops
        until = until[: until.index(3)]
    assert found == tokenizer.decode(until, skip_special_tokens=True)


def no_weights(folder: Path) -> None:
    (folder / "model.safetensors").unlink()


def pickled(folder: Path) -> None:
    no_weights(folder)
    torch.save({}, folder / "pytorch_model.bin")


def unknown(folder: Path) -> None:
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "model_type": "wonder"}))


def no_tokenizer(folder: Path) -> None:
    for path in (*folder.glob("tokenizer*"), *folder.glob("special*")):
        path.unlink()


def truncated(folder: Path) -> None:
    path = folder / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-100])


def disagreeing(folder: Path) -> None:
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "intermediate_size": 48}))


@pytest.mark.parametrize(
    ("spoil", "says"),
    [
        (no_weights, "holds no weights"),
        (pickled, "--unsafe-pickle"),
        (unknown, "'wonder' cannot be read"),
        (no_tokenizer, "tokenizer"),
        (truncated, "model.safetensors cannot be read"),
        (disagreeing, "which is not what config.json describes"),
    ],
)
def test_a_wrong_folder_is_told_in_one_sentence(
    spoil: Callable[[Path], None], says: str, tmp_path: Path, in_process: InProcess
) -> None:
    classifier(tmp_path)
    write_tokenizer(tmp_path)
    spoil(tmp_path)
    done = in_process("predict", str(tmp_path), "red")
    assert done.returncode == 2
    assert says in done.stderr
    assert done.stderr.count("\n") == 1


def test_a_checkpoint_of_the_hub_is_fetched_without_code_or_pickles(
    tmp_path: Path, in_process: InProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    hub = pytest.importorskip("huggingface_hub")
    classifier(tmp_path)
    write_tokenizer(tmp_path)
    asked: list[tuple[str, Any]] = []

    def fetch(name: str, *, revision: str | None, allow_patterns: Any) -> str:
        asked.append((name, revision))
        assert not any(pattern.endswith((".py", ".bin", "*")) for pattern in allow_patterns)
        if name == "nobody/nothing":
            raise OSError("no such\nrepository")
        return str(tmp_path)

    monkeypatch.setattr(hub, "snapshot_download", fetch)
    local = in_process("predict", str(tmp_path), "red").stdout
    assert in_process("predict", "hf:owner/name@v2", "red").stdout == local
    assert asked == [("owner/name", "v2")]
    done = in_process("predict", "hf:nobody/nothing", "red")
    assert done.returncode == 2
    assert "nobody/nothing cannot be had from the hub: no such repository" in done.stderr
