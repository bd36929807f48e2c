"""Transformer-XL: relative positions, memory, adaptive softmax, against plain formulas."""

import pytest
import torch

from formwright.arch import parse
from formwright.model import Model, build
from formwright.ops import Past
from formwright.ops.position.absolute import sinusoids
from formwright.ops.position.relative_xl import relative_shift

TEXT = "(sff)x2(f)x2 in transformer_xl(16) for frame(30, 40, lm)"
ADAPTIVE = (
    "(sf)x2 in decoder(16, embedding=embedding(clusters=[8, 20], divide=2, bias=true, "
    "scale=true), position=xl, norm=none) for frame(40, 24, lm)"
)


def model_of(text: str) -> Model:
    return build(parse(text), seed=1, dtype=torch.float64).eval()


def in_segments(model: Model, tokens: torch.Tensor, past: Past, size: int) -> torch.Tensor:
    return torch.cat([model(piece, past=past) for piece in tokens.split(size, dim=1)], dim=1)


@pytest.mark.parametrize("size", [1, 7, 8, 40])
def test_segments_with_enough_memory_give_the_logits_of_one_pass(size: int) -> None:
    model = model_of(TEXT)
    tokens = torch.randint(30, (2, 40))
    torch.testing.assert_close(
        in_segments(model, tokens, Past(), size), model(tokens), rtol=0, atol=1e-12
    )
    torch.testing.assert_close(
        in_segments(model, tokens, Past(limit=40), size), model(tokens), rtol=0, atol=1e-12
    )


def test_a_short_memory_forgets() -> None:
    model = model_of(TEXT)
    tokens = torch.randint(30, (1, 40))
    short, whole = in_segments(model, tokens, Past(limit=8), 8), model(tokens)
    torch.testing.assert_close(short[:, :8], whole[:, :8], rtol=0, atol=1e-12)
    assert (short[:, 30:] - whole[:, 30:]).abs().max() > 1e-6


def test_same_length_lets_every_query_see_as_far_back() -> None:
    # One attention layer, memory of 8: token t must not depend on token t-9, but on t-8.
    model = model_of("s in transformer_xl(16) for frame(30, 40, lm)")
    tokens = torch.randint(30, (1, 24))

    def last_segment(edited: int | None) -> torch.Tensor:
        text = tokens.clone()
        if edited is not None:
            text[0, edited] = (text[0, edited] + 1) % 30
        past = Past(limit=8, same_length=True)
        return in_segments(model, text, past, 8)[0, 16:]

    plain = last_segment(None)
    for query in (0, 5, 7):
        assert torch.equal(last_segment(16 + query - 9)[query], plain[query])
        assert not torch.equal(last_segment(16 + query - 8)[query], plain[query])


def test_the_shift_puts_distance_mlen_plus_i_minus_j_at_i_j() -> None:
    for n, keys in ((1, 1), (1, 5), (3, 3), (3, 7), (4, 4)):
        columns = torch.arange(keys - 1, -1, -1.0)  # causal: distances keys-1 .. 0
        by_key = relative_shift(columns.expand(2, n, keys), keys)
        for i in range(n):
            for j in range(keys - n + i + 1):  # what a causal query sees
                assert by_key[0, i, j] == keys - n + i - j
        both = torch.arange(keys - 1, -n, -1.0)  # an encoder has negative distances too
        by_key = relative_shift(both.expand(2, n, keys + n - 1), keys)
        wanted = (keys - n + torch.arange(n))[:, None] - torch.arange(keys)[None, :]
        assert torch.equal(by_key[0], wanted.float())


@pytest.mark.parametrize("causal", [True, False])
def test_attention_equals_the_formula_of_the_paper(causal: bool) -> None:
    around = "decoder" if causal else "encoder"
    model = model_of(
        f"s where s=attention(2, bias=false) in {around}(16, position=xl, norm=none) "
        "for frame(30, 9, features)"
    )
    attention = model.stacks["layers"].layers[0]
    shared = model.positions["layers"]
    tokens = torch.randint(30, (1, 9))
    x = model.embedding.look_up(tokens)[0]  # (n, w)
    n, h, d = 9, 2, 8

    def heads(t: torch.Tensor) -> torch.Tensor:
        return t.view(-1, h, d)

    q, k, v = (heads(m(x)) for m in (attention.query, attention.key, attention.value))
    out = torch.zeros(n, h, d, dtype=torch.float64)
    for i in range(n):
        seen = range(i + 1) if causal else range(n)
        for head in range(h):
            scores = []
            for j in seen:
                wave = sinusoids(torch.tensor([i - j]), 16)[0]
                r = heads(attention.position.project(wave)[None])[0, head]
                content = (q[i, head] + shared.content[head]) @ k[j, head]
                distance = (q[i, head] + shared.distance[head]) @ r
                scores.append((content + distance) / d**0.5)
            weights = torch.stack(scores).softmax(dim=0)
            out[i, head] = sum(w * v[j, head] for w, j in zip(weights, seen, strict=True))
    wanted = attention.out(out.flatten(1))
    torch.testing.assert_close(model(tokens)[0], wanted, rtol=0, atol=1e-12)


def test_adaptive_probabilities_sum_to_one() -> None:
    scores = model_of(ADAPTIVE)(torch.randint(40, (2, 24)))
    assert scores.shape == (2, 24, 40)
    torch.testing.assert_close(scores.exp().sum(-1), torch.ones(2, 24, dtype=torch.float64))


def test_adaptive_loss_is_the_probability_of_the_cluster_times_that_of_the_word() -> None:
    model = model_of(ADAPTIVE)
    tokens, targets = torch.randint(40, (2, 24)), torch.arange(48).view(2, 24) % 40
    scores = model(tokens)
    wanted = -scores.gather(-1, targets.unsqueeze(-1)).squeeze(-1)
    torch.testing.assert_close(model.loss(tokens, targets), wanted, rtol=0, atol=1e-12)
    x, _ = model.features(tokens)
    head = model.head.output.frequent(x, model.embedding).softmax(dim=-1)
    second_cluster = scores[..., 8:20].exp().sum(-1)
    torch.testing.assert_close(second_cluster, head[..., 8], rtol=0, atol=1e-12)


def test_one_cluster_of_full_size_is_a_plain_embedding() -> None:
    plain = model_of("sf in decoder(16) for frame(40, 24, lm)")
    clustered = model_of(
        "sf in decoder(16, embedding=embedding(clusters=[8, 20])) for frame(40, 24, lm)"
    )
    table = plain.embedding.tables[0]
    for part, rows in zip(clustered.embedding.tables, table.split([8, 12, 20]), strict=True):
        part.data.copy_(rows)
    tokens = torch.randint(40, (2, 24))
    assert torch.equal(plain.embedding.look_up(tokens), clustered.embedding.look_up(tokens))


def test_a_string_without_attention_sees_only_the_token_itself() -> None:
    model = model_of("(f)x3 in transformer_xl(16) for frame(30, 40, lm)")
    tokens = torch.randint(30, (1, 12))
    edited = tokens.clone()
    edited[0, :5] = (edited[0, :5] + 1) % 30
    assert torch.equal(model(tokens)[0, 5:], model(edited)[0, 5:])


def test_memory_gives_no_gradient_to_the_past() -> None:
    model = build(parse(TEXT)).train()
    past = Past()
    first = model.features(torch.randint(30, (1, 8)), past=past)[0]
    second = model.features(torch.randint(30, (1, 8)), past=past)[0]
    second.sum().backward()
    assert first.grad_fn is not None
    assert all(not t.requires_grad for items in past._items.values() for t in items)
