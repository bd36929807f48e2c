"""GPT-2, Llama and BERT compute what Hugging Face's modules compute, given the same weights."""

import pytest
import torch
from torch import nn

from formwright.arch import parse
from formwright.model import Model, build

transformers = pytest.importorskip("transformers")
pytestmark = pytest.mark.oracle


def copy(target: nn.Module, **sources: nn.Module | torch.Tensor) -> None:
    """Copy weights and biases; a tensor goes to the attribute itself."""
    with torch.no_grad():
        for name, source in sources.items():
            part = getattr(target, name)
            if isinstance(source, torch.Tensor):
                part.copy_(source)
            else:
                part.weight.copy_(source.weight)
                if getattr(source, "bias", None) is not None:
                    part.bias.copy_(source.bias)


def compare(ours: torch.Tensor, theirs: torch.Tensor, atol: float = 1e-10) -> None:
    torch.testing.assert_close(ours, theirs, rtol=0, atol=atol)


def tables(model: Model, words: torch.Tensor) -> None:
    with torch.no_grad():
        model.embedding.tables[0].copy_(words)


@pytest.fixture
def tokens() -> torch.Tensor:
    return torch.randint(60, (2, 20), generator=torch.Generator().manual_seed(0))


def test_gpt2_equals_hugging_face(tokens: torch.Tensor) -> None:
    config = transformers.GPT2Config(
        vocab_size=60, n_positions=32, n_embd=48, n_layer=3, n_head=4, attn_pdrop=0.0
    )
    theirs = transformers.GPT2LMHeadModel(config).double().eval()
    ours = build(
        parse("(sf)x3 in gpt2(48, heads=4) for frame(60, 32, lm)"), dtype=torch.float64
    ).eval()
    body = theirs.transformer
    tables(ours, body.wte.weight)
    copy(ours.absolute, weight=body.wpe.weight)
    copy(ours.norms, layers=body.ln_f)
    layers = ours.stacks["layers"].layers
    for index, block in enumerate(body.h):
        s, f = layers[2 * index], layers[2 * index + 1]
        copy(s, norm=block.ln_1)
        copy(f, norm=block.ln_2)
        weights = block.attn.c_attn.weight.t().chunk(3)  # GPT-2 stores matrices transposed
        biases = block.attn.c_attn.bias.chunk(3)
        for name, weight, bias in zip(("query", "key", "value"), weights, biases, strict=True):
            copy(getattr(s.inner, name), weight=weight, bias=bias)
        for part, source in (
            (s.inner.out, block.attn.c_proj),
            (f.inner.up, block.mlp.c_fc),
            (f.inner.down, block.mlp.c_proj),
        ):
            copy(part, weight=source.weight.t(), bias=source.bias)
    compare(ours(tokens), theirs(tokens).logits)


def test_llama_with_grouped_queries_equals_hugging_face(tokens: torch.Tensor) -> None:
    config = transformers.LlamaConfig(
        vocab_size=60,
        hidden_size=48,
        intermediate_size=80,
        num_hidden_layers=3,
        num_attention_heads=6,
        num_key_value_heads=2,
        max_position_embeddings=64,
        rms_norm_eps=1e-5,
        tie_word_embeddings=True,
    )
    theirs = transformers.LlamaForCausalLM(config).double().eval()
    ours = build(
        parse(
            "(sf)x3 where s=residual(attention(6, kv_heads=2, bias=false), norm=rmsnorm(1e-05)) "
            "in llama(48, heads=6, inner=80) for frame(60, 64, lm)"
        ),
        dtype=torch.float64,
    ).eval()
    body = theirs.model
    tables(ours, body.embed_tokens.weight)
    copy(ours.norms, layers=body.norm)
    for index, block in enumerate(body.layers):
        s, f = ours.stacks["layers"].layers[2 * index : 2 * index + 2]
        copy(s, norm=block.input_layernorm)
        copy(f, norm=block.post_attention_layernorm)
        a, m = block.self_attn, block.mlp
        copy(s.inner, query=a.q_proj, key=a.k_proj, value=a.v_proj, out=a.o_proj)
        copy(f.inner, gate=m.gate_proj, up=m.up_proj, down=m.down_proj)
    # Hugging Face computes norms and angles in float32 even in a float64 model.
    compare(ours(tokens), theirs(tokens).logits, atol=1e-6)


def test_bert_with_padding_equals_hugging_face(tokens: torch.Tensor) -> None:
    config = transformers.BertConfig(
        vocab_size=60,
        hidden_size=48,
        num_hidden_layers=3,
        num_attention_heads=4,
        intermediate_size=96,
        max_position_embeddings=32,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
    )
    theirs = transformers.BertModel(config).double().eval()
    ours = build(
        parse("(sf)x3 in bert(48, heads=4, inner=96) for frame(60, 32, features(pooler=true))"),
        dtype=torch.float64,
    ).eval()
    e = theirs.embeddings
    tables(ours, e.word_embeddings.weight)
    copy(ours.absolute, weight=e.position_embeddings.weight)
    copy(ours.embedding, segments=e.token_type_embeddings.weight, norm=e.LayerNorm)
    for index, block in enumerate(theirs.encoder.layer):
        s, f = ours.stacks["layers"].layers[2 * index : 2 * index + 2]
        a = block.attention.self
        copy(s.inner, query=a.query, key=a.key, value=a.value, out=block.attention.output.dense)
        copy(s, norm=block.attention.output.LayerNorm)
        copy(f.inner, up=block.intermediate.dense, down=block.output.dense)
        copy(f, norm=block.output.LayerNorm)
    copy(ours.head, pooler=theirs.pooler.dense)
    mask = torch.ones_like(tokens, dtype=torch.bool)
    mask[1, 13:] = False
    segments = (torch.arange(20) > 9).long().expand(2, -1)
    wanted = theirs(tokens, mask.long(), token_type_ids=segments)
    answer = ours(tokens, mask, segments=segments)
    compare(answer[mask], wanted.last_hidden_state[mask])
    compare(ours.head.pooled(answer), wanted.pooler_output)
