"""Every family, read from Hugging Face's folders and written again, against its own library."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from formwright.arch import arch_id, parse
from formwright.arch.counting import count
from formwright.arch.frame import Classify, Features, Head, LanguageModel, MaskedLM, Span, Tag
from formwright.arch.mechanism import Longformer
from formwright.errors import InputError
from formwright.model import Model, build, generate, load_pretrained, stock
from formwright.ops.past import Past

transformers = pytest.importorskip("transformers")
pytestmark = pytest.mark.oracle

PAD = 1
USUAL = {
    "vocab_size": 60, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4,
    "intermediate_size": 48, "max_position_embeddings": 40, "pad_token_id": PAD,
}  # fmt: skip
SHARED = {**USUAL, "num_key_value_heads": 2, "bos_token_id": 0, "eos_token_id": None}
SIZES: dict[str, dict[str, Any]] = {
    "Bert": USUAL,
    "Roberta": {**USUAL, "type_vocab_size": 1, "layer_norm_eps": 1e-5},
    "XLMRoberta": {**USUAL, "type_vocab_size": 1},
    "DistilBert": {
        "vocab_size": 60, "dim": 32, "n_layers": 2, "n_heads": 4, "hidden_dim": 48,
        "max_position_embeddings": 40, "pad_token_id": PAD,
    },
    "Electra": {**USUAL, "embedding_size": 24},
    "GPT2": {
        "vocab_size": 60, "n_positions": 40, "n_embd": 32, "n_layer": 2, "n_head": 4,
        "bos_token_id": 0, "eos_token_id": None, "pad_token_id": PAD,
    },
    "OPT": {
        "vocab_size": 60, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4,
        "ffn_dim": 48, "max_position_embeddings": 40, "pad_token_id": PAD, "eos_token_id": None,
    },
    "GPTNeoX": {**USUAL, "eos_token_id": None},
    "Llama": SHARED,
    "Mistral": {**SHARED, "sliding_window": 5},
    "Qwen2": SHARED,
    "Qwen3": {**SHARED, "head_dim": 16},
    "Gemma": {**SHARED, "head_dim": 16},
    "T5": {
        "vocab_size": 60, "d_model": 32, "d_kv": 16, "d_ff": 48, "num_layers": 2, "num_heads": 4,
        "num_decoder_layers": 1, "decoder_start_token_id": 0, "pad_token_id": PAD,
        "eos_token_id": None, "relative_attention_num_buckets": 8,
        "relative_attention_max_distance": 12,
    },
    "Marian": {
        "vocab_size": 60, "d_model": 32, "encoder_layers": 2, "decoder_layers": 1,
        "encoder_attention_heads": 4, "decoder_attention_heads": 2, "encoder_ffn_dim": 48,
        "decoder_ffn_dim": 40, "max_position_embeddings": 40, "pad_token_id": 59,
        "decoder_start_token_id": 59, "eos_token_id": None, "forced_eos_token_id": None,
        "scale_embedding": True, "activation_function": "swish",
    },
}  # fmt: skip
SIZES["MT5"] = SIZES["T5"]


def made(kind: str, module: str, **options: Any) -> Any:
    """One of Hugging Face's modules, its biases and norms moved off their special first values."""
    torch.manual_seed(0)
    config = getattr(transformers, f"{kind}Config")(**SIZES[kind] | options)
    found = getattr(transformers, kind + module)(config).eval()
    with torch.no_grad():
        weights = dict(found.named_parameters())
        if kind == "Marian":  # whose waves are no weights, and whose last bias is one
            weights = {n: w for n, w in found.state_dict().items() if "embed_positions" not in n}
        for weight in weights.values():
            weight.add_(torch.randn_like(weight) * 0.1)
    return found


def stored(module: Any, folder: Path) -> Model:
    """The same module, written by its own library and read by ours."""
    module.save_pretrained(folder)
    return load_pretrained(folder).eval()


def change(folder: Path, **options: Any) -> None:
    path = folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | options))


def text(length: int = 20) -> tuple[Tensor, Tensor]:
    """Two texts, the second one shorter."""
    tokens = torch.randint(2, 59, (2, length), generator=torch.Generator().manual_seed(0))
    mask = torch.ones_like(tokens, dtype=torch.bool)
    mask[1, 13:] = False
    tokens[~mask] = PAD
    return tokens, mask


def theirs_of(module: Any, tokens: Tensor, mask: Tensor) -> Tensor:
    """The scores of one of Hugging Face's modules, or its vectors."""
    found = module(tokens, attention_mask=mask.long())
    if "start_logits" in found:
        return torch.stack((found.start_logits, found.end_logits), dim=-1)
    return found.get("logits", found.get("last_hidden_state"))


def compare(ours: Tensor, theirs: Tensor, mask: Tensor | None = None, atol: float = 1e-4) -> None:
    if mask is not None and ours.dim() == 3:  # what stands at padding is nobody's concern
        ours, theirs = ours[mask], theirs[mask]
    torch.testing.assert_close(ours, theirs, rtol=0, atol=atol)


def classify(activation: Any) -> Head:
    return Classify(3, "first", (32,), activation)


LABELS = {"num_labels": 3}
ENCODERS = [
    ("Bert", "ForMaskedLM", {}, MaskedLM()),
    ("Bert", "ForMaskedLM", {"tie_word_embeddings": False}, MaskedLM()),
    ("Bert", "ForSequenceClassification", LABELS, classify("tanh")),
    ("Bert", "ForTokenClassification", LABELS, Tag(3)),
    ("Bert", "ForQuestionAnswering", {}, Span()),
    ("Bert", "Model", {}, Features(pooler=True)),
    ("Roberta", "ForMaskedLM", {}, MaskedLM(eps=1e-5)),
    ("Roberta", "ForMaskedLM", {"tie_word_embeddings": False}, MaskedLM(eps=1e-5)),
    ("Roberta", "ForSequenceClassification", LABELS, classify("tanh")),
    ("Roberta", "ForTokenClassification", LABELS, Tag(3)),
    ("Roberta", "ForQuestionAnswering", {}, Span()),
    ("Roberta", "Model", {"pad_token_id": 3}, Features(pooler=True)),
    ("XLMRoberta", "ForSequenceClassification", LABELS, classify("tanh")),
    ("DistilBert", "ForMaskedLM", {}, MaskedLM()),
    ("DistilBert", "ForSequenceClassification", LABELS, classify("relu")),
    ("DistilBert", "ForTokenClassification", LABELS, Tag(3)),
    ("DistilBert", "ForQuestionAnswering", {}, Span()),
    ("DistilBert", "Model", {}, Features()),
    ("Electra", "ForMaskedLM", {"embedding_size": 32}, MaskedLM()),
    ("Electra", "ForSequenceClassification", LABELS, classify("gelu")),
    ("Electra", "ForTokenClassification", LABELS, Tag(3)),
    ("Electra", "ForQuestionAnswering", {}, Span()),
    ("Electra", "Model", {}, Features()),
]
PARTIAL = {"rope_parameters": {"rope_type": "default", "rope_theta": 99.0,
                               "partial_rotary_factor": 0.5}}  # fmt: skip
WINDOWS = {"use_sliding_window": True, "sliding_window": 4, "max_window_layers": 1}
DECODERS = [
    ("GPT2", "LMHeadModel", {}, LanguageModel()),
    ("GPT2", "ForSequenceClassification", LABELS, Classify(3, "last")),
    ("GPT2", "ForTokenClassification", LABELS, Tag(3)),
    ("GPT2", "ForQuestionAnswering", {}, Span()),
    ("OPT", "ForCausalLM", {}, LanguageModel()),
    ("OPT", "ForSequenceClassification", LABELS, Classify(3, "last")),
    ("OPT", "ForQuestionAnswering", {}, Span()),
    ("OPT", "Model", {}, Features()),
    ("GPTNeoX", "ForCausalLM", {}, LanguageModel()),
    ("GPTNeoX", "ForCausalLM", {**PARTIAL, "attention_bias": False}, LanguageModel()),
    ("GPTNeoX", "ForTokenClassification", LABELS, Tag(3)),
    ("GPTNeoX", "ForSequenceClassification", LABELS, Classify(3, "last")),
    ("GPTNeoX", "ForQuestionAnswering", {}, Span()),
    ("GPTNeoX", "Model", {}, Features()),
    ("Llama", "ForCausalLM", {}, LanguageModel()),
    ("Llama", "ForCausalLM", {"tie_word_embeddings": True, "mlp_bias": True}, LanguageModel()),
    ("Llama", "ForSequenceClassification", LABELS, Classify(3, "last")),
    ("Llama", "ForTokenClassification", LABELS, Tag(3)),
    ("Llama", "ForQuestionAnswering", {}, Span()),
    ("Mistral", "ForCausalLM", {}, LanguageModel()),
    ("Mistral", "ForCausalLM", {"sliding_window": None}, LanguageModel()),
    ("Mistral", "ForSequenceClassification", LABELS, Classify(3, "last")),
    ("Mistral", "ForQuestionAnswering", {}, Span()),
    ("Qwen2", "ForCausalLM", {}, LanguageModel()),
    ("Qwen2", "ForTokenClassification", LABELS, Tag(3)),
    ("Qwen2", "ForQuestionAnswering", {}, Span()),
    ("Qwen3", "ForCausalLM", {}, LanguageModel()),
    ("Qwen3", "ForCausalLM", {"attention_bias": True}, LanguageModel()),
    ("Qwen3", "ForSequenceClassification", LABELS, Classify(3, "last")),
    ("Gemma", "ForCausalLM", {}, LanguageModel()),
    ("Gemma", "ForTokenClassification", LABELS, Tag(3)),
    ("Gemma", "Model", {}, Features()),
]
LEAVING = [case for case in [*ENCODERS, *DECODERS] if "Roberta" not in case[0]]


@pytest.mark.parametrize(
    ("kind", "module", "options", "head"),
    [*ENCODERS, *DECODERS, ("Qwen2", "ForCausalLM", WINDOWS, LanguageModel())],
)
def test_scores_equal_hugging_face_also_with_padding(
    tmp_path: Path, kind: str, module: str, options: dict[str, Any], head: Head
) -> None:
    theirs = made(kind, module, **options)
    ours = stored(theirs, tmp_path)
    assert ours.frame.head == head
    assert count(ours.arch).params == sum(p.numel() for p in ours.parameters())
    tokens, mask = text()
    tokens[~mask] = theirs.config.pad_token_id
    compare(ours(tokens, mask), theirs_of(theirs, tokens, mask), mask)


@pytest.mark.parametrize(
    ("kind", "module", "options"),
    [case[:3] for case in DECODERS if isinstance(case[3], LanguageModel)]
    + [("Qwen2", "ForCausalLM", WINDOWS)],
)
def test_decoders_write_what_hugging_face_writes(
    tmp_path: Path, kind: str, module: str, options: dict[str, Any]
) -> None:
    theirs = made(kind, module, **options)
    ours = stored(theirs, tmp_path)
    tokens = text(9)[0][:1]
    wanted = theirs.generate(tokens, max_new_tokens=20, do_sample=False)
    assert wanted.shape == (1, 29)
    assert generate(ours, tokens, 20, temperature=0).tolist() == wanted.tolist()


def test_a_window_that_covers_all_positions_is_none(tmp_path: Path) -> None:
    ours = stored(made("Mistral", "ForCausalLM"), tmp_path / "short")
    assert [a.kind for a in ours.arch.self_attentions()] == [Longformer(10)] * 2
    ours = stored(made("Mistral", "ForCausalLM", sliding_window=40), tmp_path / "long")
    assert [a.kind.NAME for a in ours.arch.self_attentions()] == ["softmax"] * 2


def test_a_generator_with_a_smaller_embedding_gives_its_features(tmp_path: Path) -> None:
    theirs = made("Electra", "ForMaskedLM")
    ours = stored(theirs, tmp_path)
    assert ours.frame.head == Features()
    tokens, mask = text()
    compare(ours(tokens, mask), theirs_of(theirs.electra, tokens, mask), mask)


# --- encoder-decoders ---------------------------------------------------------------------------

TRANSLATORS: list[tuple[str, str, dict[str, Any]]] = [
    ("MT5", "ForConditionalGeneration", {"feed_forward_proj": "gated-gelu"}),
    ("T5", "ForConditionalGeneration", {}),
    ("T5", "ForConditionalGeneration", {"feed_forward_proj": "gated-gelu"}),
    ("T5", "ForConditionalGeneration", {"tie_word_embeddings": False}),
    ("T5", "Model", {"feed_forward_proj": "gated-silu"}),
    ("Marian", "MTModel", {}),
    ("Marian", "Model", {"scale_embedding": False}),
]


def translated(theirs: Any, ours: Model) -> tuple[Tensor, Tensor]:
    """What both make of the same source and target."""
    source, mask = text()
    target = text(7)[0]
    found = theirs(source, attention_mask=mask.long(), decoder_input_ids=target)
    return ours(target, source=source, source_mask=mask), found.get("logits", found[0])


@pytest.mark.parametrize(("kind", "module", "options"), TRANSLATORS)
def test_translators_equal_hugging_face(
    tmp_path: Path, kind: str, module: str, options: dict[str, Any]
) -> None:
    theirs = made(kind, module, **options)
    ours = stored(theirs, tmp_path)
    assert isinstance(ours.frame.head, Features if module == "Model" else LanguageModel)
    compare(*translated(theirs, ours))


@pytest.mark.parametrize(("kind", "module"), [case[:2] for case in TRANSLATORS[:1]]
                         + [("Marian", "MTModel")])  # fmt: skip
def test_translators_write_what_hugging_face_writes(tmp_path: Path, kind: str, module: str) -> None:
    theirs = made(kind, module)
    ours = stored(theirs, tmp_path)
    source, mask = text()
    wanted = theirs.generate(
        source[:1], attention_mask=mask[:1].long(), max_new_tokens=15, do_sample=False, num_beams=1
    )
    past, found = Past(), wanted[:, :1]
    encoded = ours.encode(source[:1], mask[:1])
    for _ in range(15):
        x, real = ours.features(found[:, -1:], encoded=encoded, source_mask=mask[:1], past=past)
        scores = ours.head(x, real, ours.embedding)[:, -1]
        found = torch.cat((found, scores.argmax(-1, keepdim=True)), dim=1)
    assert found.tolist() == wanted.tolist()


def test_an_output_map_of_its_own_is_read_and_written(tmp_path: Path) -> None:
    """As T5 1.1 has it; the library that wrote it says tied and stores both."""
    made("T5", "ForConditionalGeneration", tie_word_embeddings=False).save_pretrained(tmp_path)
    weights = load_file(tmp_path / "model.safetensors")
    weights["lm_head.weight"] = torch.randn(60, 32)
    save_file(weights, tmp_path / "model.safetensors", {"format": "pt"})
    change(tmp_path, tie_word_embeddings=False)
    ours, theirs = load_pretrained(tmp_path).eval(), alone(tmp_path)
    compare(*translated(theirs, ours))
    compare(*translated(alone(written(ours, tmp_path / "out")), ours), atol=2e-5)


# --- out ----------------------------------------------------------------------------------------


OWN = ("Bert", "DistilBert", "GPT2", "GPTNeoX", "Llama", "Mistral", "Qwen2", "Qwen3", "Gemma")


def written(model: Model, folder: Path) -> Path:
    """A model as Hugging Face's library would store it."""
    found = stock(model)
    assert found is not None
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(found.config))
    save_file(found.state, folder / "model.safetensors", {"format": "pt"})
    return folder


def alone(folder: Path) -> Any:
    """What Hugging Face's library makes of a folder, with nothing missing and nothing left over.

    Only a pooler may be missing: ``BertModel`` makes a new one where a model has none.
    """
    name = json.loads((folder / "config.json").read_text())["architectures"][0]
    found, told = getattr(transformers, name).from_pretrained(folder, output_loading_info=True)
    assert not [name for name in told["missing_keys"] if not name.startswith("pooler.")]
    assert not told["unexpected_keys"]
    assert not told["mismatched_keys"]
    return found.eval()


@pytest.mark.parametrize(("kind", "module", "options"), [case[:3] for case in LEAVING])
def test_what_came_in_goes_out_and_loads_with_hugging_face_alone(
    tmp_path: Path, kind: str, module: str, options: dict[str, Any]
) -> None:
    theirs = made(kind, module, **options)
    ours = stored(theirs, tmp_path / "in")
    folder = written(ours, tmp_path / "out")
    again = alone(folder)
    if kind in OWN and options.get("sliding_window", 0) is not None:  # else it is a plain Llama
        assert type(again) is type(theirs)
    tokens, mask = text()
    again.config.pad_token_id = PAD
    compare(theirs_of(again, tokens, mask), theirs_of(theirs, tokens, mask), mask, atol=1e-5)
    assert arch_id(load_pretrained(folder).arch) == arch_id(ours.arch)


@pytest.mark.parametrize(("kind", "module", "options"), TRANSLATORS[:-1])
def test_translators_go_out(
    tmp_path: Path, kind: str, module: str, options: dict[str, Any]
) -> None:
    theirs = made(kind, module, **options)
    ours = stored(theirs, tmp_path / "in")
    folder = written(ours, tmp_path / "out")
    compare(*translated(alone(folder), ours), atol=2e-5)
    assert arch_id(load_pretrained(folder).arch) == arch_id(ours.arch)


@pytest.mark.parametrize("module", ["ForMaskedLM", "ForSequenceClassification", "Model"])
def test_roberta_leaves_as_the_bert_that_it_is(tmp_path: Path, module: str) -> None:
    theirs = made("Roberta", module)
    ours = stored(theirs, tmp_path / "in")
    again = alone(written(ours, tmp_path / "out"))
    assert type(again).__name__ == f"Bert{module}"
    tokens, mask = text()
    compare(theirs_of(again, tokens, mask), theirs_of(theirs, tokens, mask), mask, atol=1e-5)


@pytest.mark.parametrize(
    "notation",
    [
        "(sf)x2 in bert(32, heads=4) for frame(50, 24, mlm)",
        "(sf)x2 in bert(32, heads=4) for frame(50, 24, tag(5))",
        "(sf)x2 in bert(32, heads=4) for frame(50, 24, classify(5, first, [32], tanh))",
        "(sf)x2 in bert(32, heads=4) for frame(50, 24, features)",
        "(sf)x2 in gpt2(32, heads=4) for frame(50, 24, lm)",
        "(sf)x2 in llama(32, heads=4) for frame(50, 24, lm)",
    ],
)
def test_ours_goes_out_and_comes_back_the_same(tmp_path: Path, notation: str) -> None:
    ours = build(parse(notation), seed=1).eval()
    folder = written(ours, tmp_path / "out")
    again = load_pretrained(folder).eval()
    assert arch_id(again.arch) == arch_id(ours.arch)
    tokens, mask = text()
    tokens %= 50
    compare(again(tokens, mask), ours(tokens, mask), mask, atol=1e-6)
    compare(theirs_of(alone(folder), tokens, mask), ours(tokens, mask), mask, atol=1e-5)


@pytest.mark.parametrize(
    "notation",
    [
        "(scf)x2 in bert(32, heads=4) for frame(50, 24, mlm)",
        "(sf)x2 s in bert(32, heads=4) for frame(50, 24, mlm)",
        "(sf)x2 in bert(32, heads=4) for frame(50, 24, mlm(transform=false))",
        "(sf)x2 in bert(32, heads=4) for frame(50, 24, classify(5, mean))",
        "(sf)x2 in gpt2(32, heads=4) for frame(50, 24, classify(5, last, [7]))",
        "(sf)x2 in llama_encoder(32, heads=4) for frame(50, 24, mlm)",
        "(sf)x2 in transformer_xl(32, heads=4) for frame(50, 24, lm)",
    ],
)
def test_what_equals_no_class_of_theirs_has_no_stock(notation: str) -> None:
    assert stock(build(parse(notation))) is None


def test_a_bias_that_they_do_not_have_keeps_a_model_here() -> None:
    ours = build(parse("(sf)x2 in gpt2(32, heads=4) for frame(50, 24, classify(5, last))"))
    found = stock(ours)
    assert found is not None
    assert found.config["architectures"] == ["GPT2ForSequenceClassification"]
    assert found.config["torch_dtype"] == "float32"
    with torch.no_grad():
        ours.head.maps.maps[0].bias += 1
    assert stock(ours) is None


# --- what cannot be read ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "options", "says"),
    [
        ("OPT", {"do_layer_norm_before": False}, "do_layer_norm_before=False cannot be read"),
        ("OPT", {"word_embed_proj_dim": 16}, "project_in and project_out of OPT"),
        ("GPTNeoX", {"use_parallel_residual": False}, "use_parallel_residual=False cannot be"),
        ("GPTNeoX", {"rope_parameters": {"partial_rotary_factor": 9}}, "rotary_pct=9 cannot be"),
        ("Roberta", {"max_position_embeddings": 2}, "more than the 2 first positions"),
        ("Gemma", {"use_bidirectional_attention": True}, "use_bidirectional_attention=True"),
        ("Qwen2", {**WINDOWS, "layer_types": ["other"] * 2}, "full_attention for each layer"),
        ("Marian", {"share_encoder_decoder_embeddings": False}, "share_encoder_decoder_embeddings"),
        ("Marian", {"architectures": ["MarianForCausalLM"]}, "MarianMTModel and MarianModel"),
        ("Qwen3", {"rope_parameters": {"rope_type": "yarn"}}, "plain angles"),
        ("Bert", {"model_type": "deberta-v2"}, "disentangled attention"),
        ("Bert", {"model_type": "mpnet"}, "a model has one kind of positions"),
        ("Bert", {"model_type": "albert"}, "all its layers share one set of weights"),
        ("Bert", {"model_type": "new", "auto_map": {"AutoModel": "m.M"}}, "code .* never run"),
    ],
)
def test_what_does_not_fit_is_named_in_a_sentence(
    tmp_path: Path, kind: str, options: dict[str, Any], says: str
) -> None:
    made(kind, "Model").save_pretrained(tmp_path)
    change(tmp_path, **options)
    with pytest.raises(InputError, match=says) as caught:
        load_pretrained(tmp_path)
    assert "\n" not in str(caught.value)
