"""Models as a user meets them: building, decoding, saving, and what they refuse."""

from pathlib import Path

import pytest
import torch
from tests.helpers import ZOO_FAMILIES, inputs_for

from formwright.arch import arch_id, parse
from formwright.errors import FormwrightError, InputError
from formwright.model import build, generate, load_model, save_model
from formwright.ops import Past

GPT = ZOO_FAMILIES["gpt2"]


def test_the_same_seed_gives_the_same_weights_and_another_seed_others() -> None:
    for text in (GPT, GPT.replace("(sf)x2", "scf")):
        one, two, other = (build(parse(text), seed=s).state_dict() for s in (3, 3, 4))
        assert all(torch.equal(one[name], two[name]) for name in one)
    assert not torch.equal(one["embedding.tables.0"], other["embedding.tables.0"])


def test_building_leaves_the_random_state_alone() -> None:
    torch.manual_seed(5)
    wanted = torch.rand(3)
    torch.manual_seed(5)
    build(parse(GPT), seed=1)
    assert torch.equal(torch.rand(3), wanted)


@pytest.mark.parametrize("text", ZOO_FAMILIES.values(), ids=ZOO_FAMILIES.keys())
def test_every_family_trains_one_step_in_float32_and_bfloat16(text: str) -> None:
    for dtype in (torch.float32, torch.bfloat16):
        model = build(parse(text), dropout=0.1, attention_dropout=0.1, dtype=dtype).train()
        answer = model(**inputs_for(model))
        answer.float().square().mean().backward()
        grads = [p.grad for p in model.parameters() if p.grad is not None]
        assert grads
        assert all(torch.isfinite(g).all() for g in grads)


def test_initial_weights_follow_the_papers() -> None:
    gpt = build(parse("(sf)x8 in gpt2(128) for frame(500, 64, lm)"))
    assert gpt.embedding.tables[0].std().item() == pytest.approx(0.02, rel=0.05)
    branch = gpt.stacks["layers"].layers[1].inner
    assert branch.up.weight.std().item() == pytest.approx(0.02, rel=0.05)
    assert branch.down.weight.std().item() == pytest.approx(0.02 / 16**0.5, rel=0.05)
    t5 = build(parse("(sf)x2 in t5_decoder(128) for frame(500, 64, lm)"))
    assert t5.stacks["layers"].layers[1].inner.up.weight.std().item() == pytest.approx(
        128**-0.5, rel=0.05
    )
    llama = build(parse("(sf)x2 in llama(128) for frame(500, 64, lm)"))
    feed = llama.stacks["layers"].layers[1].inner
    for weights in (llama.embedding.tables[0], feed.up.weight, feed.down.weight * 4**0.5):
        assert weights.std().item() == pytest.approx(128**-0.5, rel=0.05)
    lra = build(parse("(sf)x2 in lra(128) for frame(500, 64, classify(2, pool=cls))"))
    assert lra.embedding.tables[0].std().item() == pytest.approx(1.0, rel=0.05)
    assert torch.equal(lra.head.cls, torch.zeros(128))
    primer = build(parse(ZOO_FAMILIES["primer"]))
    taps = primer.stacks["layers"].layers[0].inner.key_conv.weight
    assert torch.equal(taps[0], torch.tensor([0.5 / 3, 0.5 / 3, 0.5]))


@pytest.mark.parametrize(
    "name", [n for n in ZOO_FAMILIES if n in ("gpt2", "llama", "transformer_xl", "t5_decoder")]
)
def test_decoding_token_by_token_equals_the_full_pass(name: str) -> None:
    model = build(parse(ZOO_FAMILIES[name]), dtype=torch.float64).eval()
    tokens, past = torch.randint(50, (3, 24)), Past()
    steps = [model(tokens[:, t : t + 1], past=past) for t in range(24)]
    torch.testing.assert_close(torch.cat(steps, 1), model(tokens), rtol=0, atol=1e-12)


def test_decoding_respects_padding_on_the_left() -> None:
    model = build(parse(ZOO_FAMILIES["llama"]), dtype=torch.float64).eval()
    tokens = torch.randint(50, (1, 8))
    padded = torch.cat((torch.zeros(1, 3, dtype=torch.long), tokens), dim=1)
    mask = torch.ones_like(padded, dtype=torch.bool)
    mask[:, :3] = False
    past = Past()
    model(padded[:, :6], mask[:, :6], past=past)
    answer = model(padded[:, 6:], past=past)
    # Rotary positions are relative, so three tokens of padding in front change nothing.
    torch.testing.assert_close(answer, model(tokens)[:, 3:], rtol=0, atol=1e-12)


def test_beam_search_can_reorder_what_is_remembered() -> None:
    model = build(parse(GPT), dtype=torch.float64).eval()
    tokens = torch.randint(50, (2, 10))
    past = Past()
    model(tokens[:, :9], past=past)
    past.reorder(torch.tensor([1, 0]))
    swapped = model(tokens[[1, 0], 9:], past=past)
    torch.testing.assert_close(swapped, model(tokens)[[1, 0], 9:], rtol=0, atol=1e-12)


def test_generation_takes_the_likeliest_token_at_temperature_zero() -> None:
    model = build(parse(GPT)).eval()
    start = torch.randint(50, (2, 4))
    text = generate(model, start, 6, temperature=0)
    assert text.shape == (2, 10)
    assert torch.equal(text[:, 4:], model(text[:, :-1])[:, 3:].argmax(-1))
    with pytest.raises(InputError, match="decoder"):
        generate(build(parse(ZOO_FAMILIES["bert"])), start, 1)


def test_a_model_is_saved_and_loaded_whole(tmp_path: Path) -> None:
    model = build(parse(ZOO_FAMILIES["translator"]), seed=7).eval()
    again = load_model(save_model(model, tmp_path / "a model")).eval()
    assert again.arch == model.arch
    inputs = inputs_for(model)
    assert torch.equal(model(**inputs), again(**inputs))


def test_files_that_do_not_belong_together_are_refused(tmp_path: Path) -> None:
    save_model(build(parse(GPT)), tmp_path / "one")
    save_model(build(parse(GPT.replace("x2", "x3"))), tmp_path / "two")
    weights = (tmp_path / "two" / "model.safetensors").read_bytes()
    (tmp_path / "one" / "model.safetensors").write_bytes(weights)
    with pytest.raises(InputError, match="belong to architecture"):
        load_model(tmp_path / "one")


@pytest.mark.parametrize("at", [0, 1, 9, 500, -1])
def test_a_cut_file_is_refused_not_loaded(tmp_path: Path, at: int) -> None:
    folder = save_model(build(parse(GPT)), tmp_path)
    for name in ("model.safetensors", "architecture.json"):
        content = (folder / name).read_bytes()
        (folder / name).write_bytes(content[:at])
        with pytest.raises(FormwrightError):
            load_model(folder)
        (folder / name).write_bytes(content)
    assert arch_id(load_model(folder).arch) == arch_id(parse(GPT))


def test_what_is_missing_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"architecture\.json is missing"):
        load_model(tmp_path)
    with pytest.raises(InputError, match="frame"):
        build(parse("(sf)x2 in gpt2(16)"))
    with pytest.raises(InputError, match="source"):
        build(parse(ZOO_FAMILIES["translator"]))(torch.zeros(1, 3, dtype=torch.long))
    with pytest.raises(InputError, match="second one"):
        build(parse(ZOO_FAMILIES["matcher"]))(torch.zeros(1, 3, dtype=torch.long))
    with pytest.raises(InputError, match="longer than the 24 positions"):
        build(parse(GPT))(torch.zeros(1, 25, dtype=torch.long))


def test_a_matcher_treats_both_texts_alike() -> None:
    model = build(parse(ZOO_FAMILIES["matcher"]), dtype=torch.float64).eval()
    a, b = torch.randint(50, (3, 24)), torch.randint(50, (3, 17))
    mask = torch.ones_like(a, dtype=torch.bool)
    vectors = [model.features(t)[0][:, 0] for t in (a, b)]
    wanted = model.head.maps(torch.cat(vectors, dim=-1))
    torch.testing.assert_close(model(a, mask, other=b), wanted, rtol=0, atol=1e-12)


def test_value_mean_pooling_gives_every_token_the_mean_of_real_values() -> None:
    model = build(
        parse(
            "s where s=attention(2, query_key=none) in encoder(8, norm=none) "
            "for frame(20, 10, features)"
        ),
        dtype=torch.float64,
    ).eval()
    tokens = torch.randint(20, (1, 6))
    mask = torch.tensor([[True] * 4 + [False] * 2])
    layer = model.stacks["layers"].layers[0]
    x = model.absolute.embed(model.embedding.look_up(tokens), 0)
    wanted = layer.out(layer.value(x[:, :4]).mean(dim=1))
    answer = model(tokens, mask)
    torch.testing.assert_close(answer[:, 2], wanted, rtol=0, atol=1e-12)
