"""GPT-2, Llama and BERT, read from Hugging Face's folders, compute what its modules compute."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from formwright.arch.counting import count
from formwright.arch.frame import Classify, Features, LanguageModel, MaskedLM, Span, Tag
from formwright.model import Model, load_model, load_pretrained

transformers = pytest.importorskip("transformers")
pytestmark = pytest.mark.oracle

SIZES: dict[str, dict[str, Any]] = {
    "Bert": {
        "vocab_size": 60, "hidden_size": 48, "num_hidden_layers": 3, "num_attention_heads": 4,
        "intermediate_size": 96, "max_position_embeddings": 32,
    },
    "GPT2": {"vocab_size": 60, "n_positions": 32, "n_embd": 48, "n_layer": 3, "n_head": 4,
             "bos_token_id": 0, "eos_token_id": 0},
    "Llama": {
        "vocab_size": 60, "hidden_size": 48, "num_hidden_layers": 3, "num_attention_heads": 6,
        "num_key_value_heads": 2, "intermediate_size": 80, "max_position_embeddings": 64,
        "rms_norm_eps": 1e-5,
    },
}  # fmt: skip


def made(kind: str, module: str, **options: Any) -> Any:
    """One of Hugging Face's modules, its biases and norms moved off their special first values."""
    torch.manual_seed(0)
    config = getattr(transformers, f"{kind}Config")(**SIZES[kind] | options)
    found = getattr(transformers, kind + module)(config).double().eval()
    with torch.no_grad():
        for weight in found.parameters():
            weight.add_(torch.randn_like(weight) * 0.05)
    return found


def stored(module: Any, folder: Path) -> Model:
    """The same module, written by its own library and read by ours."""
    module.save_pretrained(folder)
    return load_pretrained(folder).eval()


def compare(ours: Tensor, theirs: Tensor, atol: float = 1e-10) -> None:
    torch.testing.assert_close(ours, theirs, rtol=0, atol=atol)


@pytest.fixture
def tokens() -> Tensor:
    return torch.randint(60, (2, 20), generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize("options", [{}, {"tie_word_embeddings": False}, {"n_inner": 100}])
def test_gpt2_equals_hugging_face(tokens: Tensor, tmp_path: Path, options: dict[str, Any]) -> None:
    theirs = made("GPT2", "LMHeadModel", **options)
    ours = stored(theirs, tmp_path)
    assert isinstance(ours.frame.head, LanguageModel)
    compare(ours(tokens), theirs(tokens).logits)


def test_gpt2_without_a_head_equals_hugging_face(tokens: Tensor, tmp_path: Path) -> None:
    theirs = made("GPT2", "Model")
    ours = stored(theirs, tmp_path)
    assert ours.frame.head == Features()
    compare(ours(tokens), theirs(tokens).last_hidden_state)


@pytest.mark.parametrize(
    "options",
    [
        {"tie_word_embeddings": True},
        {"num_key_value_heads": 6},
        {"attention_bias": True, "mlp_bias": True},
        {"head_dim": 16, "rope_parameters": {"rope_type": "default", "rope_theta": 500.0}},
    ],
)
def test_llama_equals_hugging_face(tokens: Tensor, tmp_path: Path, options: dict[str, Any]) -> None:
    theirs = made("Llama", "ForCausalLM", **options)
    # Hugging Face computes norms and angles in float32 even in a float64 model.
    compare(stored(theirs, tmp_path)(tokens), theirs(tokens).logits, atol=1e-5)


@pytest.mark.parametrize("options", [{}, {"hidden_act": "relu", "layer_norm_eps": 1e-5}])
def test_bert_with_padding_equals_hugging_face(
    tokens: Tensor, tmp_path: Path, options: dict[str, Any]
) -> None:
    theirs = made("Bert", "Model", **options)
    ours = stored(theirs, tmp_path)
    mask = torch.ones_like(tokens, dtype=torch.bool)
    mask[1, 13:] = False
    segments = (torch.arange(20) > 9).long().expand(2, -1)
    wanted = theirs(tokens, mask.long(), token_type_ids=segments)
    answer = ours(tokens, mask, segments=segments)
    compare(answer[mask], wanted.last_hidden_state[mask])
    compare(ours.head.pooled(answer), wanted.pooler_output)


@pytest.mark.parametrize(
    ("module", "options", "head"),
    [
        ("ForMaskedLM", {}, MaskedLM()),
        ("ForMaskedLM", {"tie_word_embeddings": False}, MaskedLM()),
        (
            "ForMaskedLM",
            {"hidden_act": "relu", "layer_norm_eps": 1e-5},
            MaskedLM(activation="relu", eps=1e-5),
        ),
        ("ForTokenClassification", {"num_labels": 5}, Tag(5)),
        ("ForSequenceClassification", {"num_labels": 3}, Classify(3, "first", (48,), "tanh")),
        ("ForQuestionAnswering", {}, Span()),
        ("ForPreTraining", {}, MaskedLM()),
        ("ForNextSentencePrediction", {}, Features(pooler=True)),
    ],
)
def test_heads_of_bert_equal_hugging_face(
    tokens: Tensor, tmp_path: Path, module: str, options: dict[str, Any], head: Any
) -> None:
    theirs = made("Bert", module, **options)
    ours = stored(theirs, tmp_path)
    assert ours.frame.head == head
    assert count(ours.arch).params == sum(p.numel() for p in ours.parameters())
    found = theirs(tokens)
    if isinstance(head, Features):  # a head that has no counterpart is left out
        compare(ours(tokens), theirs.bert(tokens).last_hidden_state)
    elif isinstance(head, Span):
        compare(ours(tokens), torch.stack((found.start_logits, found.end_logits), dim=-1))
    else:
        compare(ours(tokens), found.get("logits", found.get("prediction_logits")))


def test_weights_in_several_files_and_half_precision_are_read(
    tokens: Tensor, tmp_path: Path
) -> None:
    theirs = made("Bert", "Model").half()
    theirs.save_pretrained(tmp_path, max_shard_size="20KB")
    assert len(list(tmp_path.glob("*.safetensors"))) > 1
    ours = load_model(tmp_path).eval()  # which takes folders of either format
    assert {p.dtype for p in ours.parameters()} == {torch.float32}
    compare(ours(tokens), theirs.float()(tokens).last_hidden_state, atol=1e-5)


def test_norms_of_the_oldest_berts_are_read(tokens: Tensor, tmp_path: Path) -> None:
    theirs = made("Bert", "ForMaskedLM")
    theirs.save_pretrained(tmp_path)
    path = tmp_path / "model.safetensors"
    old = {}
    for name, tensor in load_file(path).items():
        if "LayerNorm" in name:
            name = name.replace("weight", "gamma").replace("bias", "beta")  # noqa: PLW2901
        old[name] = tensor
    old["bert.embeddings.position_ids"] = torch.arange(32)
    save_file(old, path)
    assert sum("gamma" in name for name in old) == 8
    compare(load_pretrained(tmp_path).eval()(tokens), theirs(tokens).logits)


# --- what cannot be read ------------------------------------------------------------------------


def change(folder: Path, **options: Any) -> None:
    path = folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | options))


@pytest.mark.parametrize(
    ("kind", "options", "says"),
    [
        ("Bert", {"model_type": "mamba"}, "'mamba' cannot be read; bert, roberta, "),
        ("Bert", {"position_embedding_type": "relative_key"}, "must be 'absolute'"),
        ("Bert", {"hidden_act": "mish"}, "hidden_act='mish' cannot be read; it must be one of"),
        ("Bert", {"hidden_size": 49}, "a divisor of the width 49"),
        ("Bert", {"hidden_size": "48"}, "hidden_size='48' cannot be read; it must be a whole"),
        ("Bert", {"num_hidden_layers": 10**9}, "from 1 to 1,000"),
        ("Bert", {"num_hidden_layers": 4}, "hold no encoder.layer.3.attention.self.query.weight"),
        ("Bert", {"num_hidden_layers": 2}, "encoder.layer.2.attention.output.LayerNorm.bias is no"),
        ("Bert", {"intermediate_size": 90}, r"has shape \[96, 48\], which is not what"),
        ("Bert", {"is_decoder": True}, "is_decoder=True cannot be read"),
        ("GPT2", {"scale_attn_by_inverse_layer_idx": True}, "it must be False"),
        ("Llama", {"rope_parameters": {"rope_type": "llama3"}}, "plain angles"),
        ("Llama", {"rope_scaling": {"type": "linear", "factor": 2.0}}, "plain angles"),
        ("Llama", {"rms_norm_eps": None}, "rms_norm_eps=None"),
    ],
)
def test_what_cannot_be_read_is_refused_in_a_sentence(
    tmp_path: Path, kind: str, options: dict[str, Any], says: str
) -> None:
    made(kind, "Model").save_pretrained(tmp_path)
    change(tmp_path, **options)
    with pytest.raises(Exception, match=says) as caught:
        load_pretrained(tmp_path)
    assert type(caught.value).__name__ == "InputError"
    assert "\n" not in str(caught.value)
