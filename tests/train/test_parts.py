"""Schedules, LAMB and distillation losses against plain formulas."""

import math

import pytest
import torch
import torch.nn.functional as F

from formwright.arch import parse
from formwright.errors import InputError
from formwright.model import build
from formwright.train import TrainConfig, rate_for
from formwright.train.distill import captured, hidden_loss, logit_loss, relation_loss, relations
from formwright.train.optim import Lamb, make_optimiser
from formwright.train.schedule import rate


def test_inverse_square_root_is_the_rule_of_the_long_range_arena() -> None:
    # lr(t) = 0.05 min(1, t/W) / sqrt(max(t, W)): peak 5.59e-4 for W = 8000, end 2.89e-4 at 30k
    warm = 8000
    config = TrainConfig(
        steps=30_000, lr=0.05 / math.sqrt(warm), warmup=warm, schedule="inverse_sqrt"
    )
    assert rate(config, warm - 1, 0.0) == pytest.approx(5.59e-4, rel=1e-3)
    assert rate(config, 30_000 - 1, 1.0) == pytest.approx(2.887e-4, rel=1e-3)
    assert rate(config, 3999, 0.0) == pytest.approx(5.59e-4 / 2, rel=1e-3)


@pytest.mark.parametrize("schedule", ["cosine", "linear"])
def test_falling_schedules_begin_at_the_peak_and_end_where_told(schedule: str) -> None:
    config = TrainConfig(steps=110, warmup=10, lr=1.0, lr_end=0.1, schedule=schedule)  # type: ignore[arg-type]
    rates = [rate(config, step, step / 110) for step in range(110)]
    assert rates[0] == pytest.approx(0.1)
    assert max(rates) == pytest.approx(1.0)
    assert rates[-1] == pytest.approx(0.1)
    assert rates[60] == pytest.approx(0.55, abs=0.02)
    assert rates[10:] == sorted(rates[10:], reverse=True)


def test_wsd_is_constant_and_then_falls_by_the_root_of_the_cool_down() -> None:
    config = TrainConfig(steps=100, warmup=10, lr=1.0, lr_end=0.2, schedule="wsd", cooldown=0.4)
    rates = [rate(config, step, step / 100) for step in range(100)]
    assert rates[4] == pytest.approx(0.5)
    assert rates[9:60] == [1.0] * 51
    for step in range(60, 100):
        assert rates[step] == pytest.approx(0.2 + 0.8 * (1 - math.sqrt((step - 59) / 40)))
    assert rates[-1] == pytest.approx(0.2)


def test_wsd_follows_the_clock_where_seconds_are_the_end() -> None:
    config = TrainConfig(steps=None, seconds=60, warmup=0, lr=1.0, schedule="wsd", cooldown=0.25)
    assert [rate(config, 7, progress) for progress in (0.0, 0.5, 0.75)] == [1.0, 1.0, 1.0]
    assert rate(config, 7, 0.8125) == pytest.approx(0.5)
    assert rate(config, 7, 1.2) == 0.0
    first = config.replace(steps=1000)  # whichever comes first
    assert rate(first, 0, 0.8125) == pytest.approx(0.5)
    assert rate(first, 999, 0.1) == 0.0
    assert rate(config.replace(cooldown=0.0), 7, 1.0) == 1.0


def test_a_cool_down_is_a_share() -> None:
    with pytest.raises(InputError, match="share, from 0 to 1"):
        TrainConfig(cooldown=1.5)


def test_a_rate_is_the_base_at_width_128_and_8_sub_layers_and_falls_with_size() -> None:
    def found(text: str) -> float:
        return rate_for(parse(text), 2e-3)

    assert found("(sf)x4 in llama(128)") == pytest.approx(2e-3)
    assert found("(sf)x2 | (smf)x2 in translator(128)") == pytest.approx(
        found("(sf)x5 in gpt2(128)")
    )
    for smaller, larger in (
        ("(sf)x4 in llama(64)", "(sf)x4 in llama(128)"),
        ("(sf)x4 in llama(128)", "(sf)x4 in llama(512)"),
        ("sf in llama(128)", "(sf)x2 in llama(128)"),
    ):
        assert found(smaller) > found(larger)
    assert found("(sf)x4 in llama(256)") == pytest.approx(1e-3)
    assert found("(sf)x16 in llama(128)") == pytest.approx(1e-3)
    assert found("sf in llama(8)") == pytest.approx(8e-3), "no further than four times"
    assert found("(sf)x40 in llama(2048)") == pytest.approx(0.5e-3)


def test_lamb_is_its_formula() -> None:
    torch.manual_seed(0)
    p = torch.nn.Parameter(torch.randn(4, 3, dtype=torch.float64))
    optimiser = Lamb([p], lr=0.1, betas=(0.9, 0.999), weight_decay=0.01)
    weight = p.detach().clone()
    m = v = torch.zeros_like(weight)
    for _ in range(3):
        grad = torch.randn(4, 3, dtype=torch.float64)
        p.grad = grad.clone()
        optimiser.step()
        m, v = 0.9 * m + 0.1 * grad, 0.999 * v + 0.001 * grad**2
        r = m / (v.sqrt() + 1e-6) + 0.01 * weight
        trust = min(weight.norm(), 10) / (r.norm() + 1e-6)
        weight = weight - 0.1 * trust * r
    torch.testing.assert_close(p.detach(), weight, rtol=0, atol=1e-12)


def test_muon_moves_the_matrices_of_layers_and_adamw_the_rest() -> None:
    model = build(parse("csf in llama(16) for frame(30, 16, lm)"), seed=1)
    copy = build(parse("csf in llama(16) for frame(30, 16, lm)"), seed=1)
    config = TrainConfig(optimiser="muon", lr=0.01, weight_decay=0.1)
    muon, adamw = (
        make_optimiser(model, config),
        make_optimiser(copy, config.replace(optimiser="adamw")),
    )
    before = {name: p.detach().clone() for name, p in model.named_parameters()}
    generator = torch.Generator().manual_seed(0)
    for p, q in zip(model.parameters(), copy.parameters(), strict=True):
        p.grad = torch.randn(p.shape, generator=generator)
        q.grad = p.grad.clone()
    muon.step()
    adamw.step()
    found, wanted = dict(model.named_parameters()), dict(copy.named_parameters())
    apart = {name for name in found if not torch.equal(found[name], wanted[name])}
    linear = {f"{n}.weight" for n, m in model.named_modules() if isinstance(m, torch.nn.Linear)}
    assert apart == linear, "all but tables, kernels, norms and biases"
    for name in apart:  # all directions at once, and as long as a step of AdamW's usually is
        step = before[name] * (1 - 0.01 * 0.1) - found[name].detach()
        sizes = torch.linalg.svdvals(step / (0.01 * 0.2 * max(step.shape) ** 0.5))
        assert ((sizes > 0.3) & (sizes < 1.3)).all(), (name, sizes)


def test_lamb_leaves_zero_weights_free_to_move() -> None:
    p = torch.nn.Parameter(torch.zeros(3))
    p.grad = torch.ones(3)
    Lamb([p], lr=0.1).step()
    assert (p != 0).all()


def test_the_logit_loss_is_the_kl_divergence() -> None:
    student, teacher = torch.randn(2, 5, 7, dtype=torch.float64).unbind()
    p, q = (teacher / 2).softmax(-1), (student / 2).softmax(-1)
    wanted = 4 * (p * (p / q).log()).sum(-1).mean()
    torch.testing.assert_close(logit_loss(student, teacher, temperature=2.0), wanted)
    assert logit_loss(teacher, teacher) == pytest.approx(0, abs=1e-12)
    mask = torch.tensor([True, True, False, False, False])
    torch.testing.assert_close(
        logit_loss(student, teacher, mask=mask), logit_loss(student[:2], teacher[:2])
    )


def test_the_hidden_loss_is_the_mean_square_and_wants_equal_widths() -> None:
    a, b = torch.randn(2, 3, 4, 6).unbind()
    torch.testing.assert_close(hidden_loss(a, b), F.mse_loss(a, b))
    with pytest.raises(InputError, match="teacher's width"):
        hidden_loss(a, b[..., :3])


def test_relations_are_rows_that_sum_to_one_and_ignore_rotations() -> None:
    x = torch.randn(2, 6, 12, dtype=torch.float64)
    r = relations(x, heads=3)
    assert r.shape == (2, 3, 6, 6)
    torch.testing.assert_close(r.sum(-1), torch.ones(2, 3, 6, dtype=torch.float64))
    turn, _ = torch.linalg.qr(torch.randn(4, 4, dtype=torch.float64))
    turned = (x.unflatten(-1, (3, 4)) @ turn).flatten(-2)
    torch.testing.assert_close(relations(turned, heads=3), r)
    mask = torch.tensor([[True] * 4 + [False] * 2] * 2)
    assert (relations(x, 3, mask)[..., 4:] == 0).all()


def test_a_student_equal_to_its_teacher_has_no_relation_loss() -> None:
    model = build(parse("(sf)x2 in bert(24) for frame(30, 16, features)"))
    other = build(parse("(sf)x2 in bert(16) for frame(30, 16, features)"))
    tokens = torch.randint(30, (2, 16))
    found = []
    for net in (model, other):
        net.requires_grad_(False)
        with captured(net.stacks["layers"].layers[2].inner) as vectors:
            net(tokens)
        found.append(vectors)
    assert set(found[0]) == {"query", "key", "value"}
    assert float(relation_loss(found[0], found[0], heads=2)) == 0
    assert float(relation_loss(found[1], found[0], heads=2)) > 0
    with captured(model.stacks["layers"].layers[2].inner) as after:
        pass
    assert after == {}
