"""PAR Transformer: its orders against the published ones, its supernet, its search, its verdict."""

import json
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.cli_helpers import InProcess

from formwright.arch import notation, parse
from formwright.arch.attention import Attention
from formwright.arch.counting import count
from formwright.arch.layer import LayerNorm, Residual
from formwright.arch.mechanism import Synthesizer
from formwright.arch.style import WIKITEXT_FRAME, Style, style, transformer_xl_base
from formwright.draw import outline
from formwright.errors import InputError
from formwright.model import load_model
from formwright.ops.past import Past
from formwright.recipes import par
from formwright.recipes.life import begin, conduct
from formwright.recipes.session import SUPERNET, Session
from formwright.space import named_space
from formwright.strategy.gradient import (
    GumbelPolicy,
    SearchConfig,
    SupernetSearch,
    Temperature,
)
from formwright.study import Study
from formwright.study.job import Job
from formwright.study.outcome import read_outcome
from formwright.supernet import Supernet
from formwright.tasks import load_task
from formwright.trace import Trace
from formwright.train import TrainConfig
from formwright.trial import Trial
from formwright.zoo.transformer_xl import ENWIK8_FRAME, LARGE_FRAME, TABLE_1

pytestmark = pytest.mark.usefixtures("counted")


def expanded(order: str) -> str:
    """Every letter of an order, one after the other."""
    arch = parse(order)
    return "".join(block.letter for stack in outline(arch).stacks for block in stack.cells())


# --- orders -------------------------------------------------------------------------------


class TestOrders:
    def test_the_rule_gives_the_published_orders(self) -> None:
        assert par.par_order(32) == "(sfff)x6(f)x8"
        assert par.par_order(24) == "(sff)x5(f)x9"

    def test_the_rule_holds_for_any_depth(self) -> None:
        for slots in range(2, 101, 2):
            letters = expanded(par.par_order(slots))
            assert len(letters) == slots
            assert letters[0] == "s"
            assert abs(letters.count("s") - slots / 5) <= 0.5 or letters.count("s") == 1
            last = letters.rindex("s") + 1
            assert last <= 2 * slots / 3 + 1, "attention stays in the first two thirds"
            gaps = {len(gap) for gap in letters[: last - 1].split("s")[1:]}
            assert len(gaps) <= 1, "evenly"

    def test_sandwiches_have_the_letters_of_the_plain_order(self) -> None:
        assert par.sandwich_order(32) == "(s)x6(sf)x10(f)x6"
        assert par.sandwich_order(24) == "(s)x6(sf)x6(f)x6"
        assert par.sandwich_order(36) == "(s)x6(sf)x12(f)x6"
        for slots in range(2, 101, 2):
            plain, sandwich = (expanded(o(slots)) for o in (par.plain_order, par.sandwich_order))
            assert Counter(plain) == Counter(sandwich)
            assert len(plain) == slots

    def test_orders_are_written_as_they_are_read(self) -> None:
        assert len(expanded("(sfff)x6(f)x8")) == 32
        assert expanded("(sfff)x6(f)x8").count("s") == 6
        for slots in (8, 24, 32):
            for make in (par.plain_order, par.sandwich_order, par.par_order):
                arch = parse(make(slots))
                assert expanded(par.letters_of(arch)) == expanded(make(slots))
                assert parse(notation(arch)) == arch

    def test_an_order_becomes_the_decisions_that_resolve_to_it(self) -> None:
        family = style("transformer_xl")
        space = named_space("par", slots=6)
        decisions = par.decisions_of("sfissf", transformer_xl_base())
        assert list(decisions.values()) == [0, 1, 2, 0, 0, 1]
        assert par.letters_of(space.resolve(decisions)) == "sfissf"
        assert par.decisions_of("(sf)x2", family) == {f"layer{i}": i % 2 for i in range(4)}

    @pytest.mark.parametrize(("row", "order", "perplexity"), TABLE_1)
    def test_rows_of_table_1_have_the_parameters_of_the_closed_form(
        self, row: str, order: str, perplexity: float
    ) -> None:
        letters = Counter(expanded(order))
        wanted = 137_350_618 + letters["s"] * 1_311_744 + letters["f"] * 2_100_736
        assert count(parse(order).bind(WIKITEXT_FRAME)).params == wanted
        assert letters.total() == 32

    def test_the_published_totals(self) -> None:
        totals = {"(sf)x16": 191_950_298, "(sfff)x6(f)x8": 199_840_218, "(f)x32": 204_574_170}
        for order, params in totals.items():
            assert count(parse(order).bind(WIKITEXT_FRAME)).params == params


def test_the_paper_has_the_published_numbers() -> None:
    recipe = par.paper("xl")
    assert named_space("par").size() == 3**32 == 3**recipe.slots
    assert (recipe.search.steps, recipe.choices.warmup, recipe.choices.every) == (40_000, 10_000, 5)
    assert recipe.search.batch_tokens == 128 * 192
    assert (recipe.choices.lr, recipe.choices.weight_decay) == (1e-2, 5e-4)
    assert (recipe.search.lr, recipe.search.weight_decay) == (1e-2, 1e-4)
    assert recipe.choices.stable == 0.75 * (40_000 - 10_000) / 5
    assert (recipe.prices, recipe.warm, recipe.shorter, recipe.draws) == ((0.0,), 5.0, 0, 0)
    assert recipe.choices.held == 0
    assert (recipe.training.score_memory, recipe.training.score_clamp) == (640, 400)
    assert par.paper("bert").slots == 24
    assert min(par.paper("fast").prices) > 0


@pytest.mark.parametrize(
    ("variant", "slots", "params", "remembers"),
    [("large", 36, 285_167_482, (1600, 1000)), ("24b", 24, 41_055_436, (2100, 820))],
)
def test_the_other_transformer_xls_have_the_published_sizes(
    variant: str, slots: int, params: int, remembers: tuple[int, int]
) -> None:
    recipe = par.paper(variant)
    assert recipe.slots == slots
    frame = LARGE_FRAME if variant == "large" else ENWIK8_FRAME
    arch = parse(par.plain_order(slots), defaults=recipe.family).bind(frame)
    assert count(arch).params == params
    assert (recipe.training.score_memory, recipe.training.score_clamp) == remembers
    assert f"length={frame.length}" in recipe.task
    assert par.paper("chars").task == "lm:data/text8?tokenizer=chars&length=512"


def test_the_temperature_falls_as_in_fbnet() -> None:
    found = par.paper("xl").temperature
    assert found.at(0) == 5.0
    epoch = 40_000 // 90
    for number in (1, 10, 80):
        assert found.at(number * epoch) == pytest.approx(5.0 * 0.956**number)
    assert found.at(40_000) == pytest.approx(0.1, abs=0.02)


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"slots": 5}, "slots=5"),
        ({"slots": 0}, "slots=0"),
        ({"prices": ()}, "different numbers from 0 on"),
        ({"prices": (0.2, 0.2)}, "different numbers from 0 on"),
        ({"prices": (-1.0,)}, "different numbers from 0 on"),
    ],
)
def test_numbers_that_cannot_be_used_are_refused(changes: dict[str, Any], says: str) -> None:
    with pytest.raises(InputError, match=says):
        replace(par.smoke(), **changes)


def test_unknown_variants_are_refused() -> None:
    with pytest.raises(InputError, match="no variant 'gpt'"):
        par.paper("gpt")


# --- the supernet -------------------------------------------------------------------------


@pytest.fixture(scope="module")
def supernet() -> Supernet:
    return Supernet(par.smoke("xl").make_space(), seed=1).double().eval()


def tokens(length: int = 12) -> torch.Tensor:
    return torch.randint(256, (2, length), generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize("order", ["sfif", "ssff", "iiii", "fisi"])
def test_scores_far_apart_give_the_net_of_their_order(supernet: Supernet, order: str) -> None:
    policy = GumbelPolicy(supernet, temperature=Temperature(0.1, 1.0)).double()
    wanted = par.decisions_of(order, par.smoke("xl").family)
    with torch.no_grad():
        for name, option in wanted.items():
            policy.theta[policy.where[name].start + int(option)] = 50.0  # type: ignore[arg-type]
    assert policy.derive() == wanted
    with torch.no_grad(), supernet.gated(policy.gates(0, torch.Generator().manual_seed(3))):
        mixed = supernet(tokens())
    with torch.no_grad():
        alone = supernet.extract(wanted)(tokens())
    torch.testing.assert_close(mixed, alone, rtol=0, atol=1e-6)


@pytest.mark.parametrize(("order", "far"), [("iiii", False), ("fiff", False), ("fffs", True)])
def test_only_attention_looks_beyond_the_token(supernet: Supernet, order: str, far: bool) -> None:
    text, other = tokens(), tokens()
    other[:, 3] = (other[:, 3] + 1) % 256
    wanted = par.decisions_of(order, par.smoke("xl").family)
    with torch.no_grad(), supernet.gated(wanted):
        changed = (supernet(text) != supernet(other)).any(dim=-1).all(dim=0)
    assert not changed[:3].any(), "nothing looks ahead"
    assert changed[3]
    assert bool(changed[4:].all()) == bool(changed[4:].any()) == far


def test_segments_with_memory_give_the_logits_of_one_pass(supernet: Supernet) -> None:
    wanted = par.decisions_of("sfsf", par.smoke("xl").family)
    with torch.no_grad(), supernet.gated(wanted):
        whole, past = supernet(tokens()), Past(12)
        pieces = [supernet(part, past=past) for part in tokens().split(4, dim=1)]
    torch.testing.assert_close(torch.cat(pieces, dim=1), whole, rtol=0, atol=1e-12)


def test_weights_and_scores_are_moved_apart() -> None:
    recipe = par.smoke("xl")
    supernet = Supernet(recipe.make_space(), seed=0)
    policy = GumbelPolicy(supernet, temperature=recipe.temperature)
    task = load_task(recipe.task)
    steps = SupernetSearch(supernet, policy, task, recipe.search, recipe.choices)
    plan = task.sampler(batch_tokens=256, seed=0, memory=recipe.search.memory)
    kinds = []
    for number in range(20):
        weights, choices = recipe.choices.teaches(number)
        before = [p.clone() for p in supernet.parameters()], policy.theta.clone()
        batch = plan.batch(number)
        steps.step(batch if weights else None, batch if choices else None)
        moved = any(
            not torch.equal(a, b) for a, b in zip(before[0], supernet.parameters(), strict=True)
        )
        assert (moved, not torch.equal(before[1], policy.theta)) == (weights, choices)
        kinds.append("a" if choices else "w")
    assert "".join(kinds) == "w" * 10 + "wwwwa" * 2, "weights first, then a fifth for the order"


# --- the recipe ---------------------------------------------------------------------------


def counted(variant: str = "xl", **changes: Any) -> par.Par:
    """The smoke preset without a clock."""
    return replace(par.smoke(variant), target=None, **changes)


def test_the_smoke_preset_runs_through_the_command_line(
    tmp_path: Path, in_process: InProcess
) -> None:
    out = str(tmp_path / "run")
    done = in_process("search", "par", "--preset", "smoke", "--out", out)
    assert done.returncode == 0, done.stderr
    assert "the supernet found" in done.stdout
    study = Study.open(Path(out))
    judged = [trial for trial in study.trials if not trial.final]
    assert judged[0].note == "found by the supernet, price 0.1"
    found_ones = [trial for trial in judged if trial.origin == "found"]
    assert {t.details["methods"][0] for t in found_ones} == {"price 0.1", "price 0.2"}
    words = [par.word_of(t.decisions) for t in judged if t.origin in ("found", "seed")]
    assert len({*words}) == len(words), "orders that differ by nothing only are judged once"
    assert sum(trial.origin == "control" for trial in judged) == 2
    names = [line["method"] for line in Trace(Path(out) / SUPERNET).lines("found")]
    assert names == ["price 0.1", "price 0.2"]
    assert all({"latency", "bits_per_byte"} <= set(trial.values) for trial in study.trials)
    taken = par.smoke().training.steps or 0
    assert {trial.values["steps"] for trial in judged} == {float(taken)}
    finals = study.trials[len(judged) :]
    assert {trial.origin for trial in finals} == {"final", "rival"}
    assert len(finals) <= par.smoke().entrants + 2
    assert {trial.steps for trial in finals} == {par.smoke().longer * taken}
    folders = [study.folder / "baseline", *(study.trial_folder(t.number) for t in judged)]
    found = [json.loads((f / "run" / "run.json").read_bytes())["config"] for f in folders]
    wanted = par.smoke().training.replace(seed=0, checkpoint_every=3)
    assert all(TrainConfig.from_data({**config, "seed": 0}) == wanted for config in found)
    outcome = read_outcome(study.folder)
    assert outcome.baseline is not None
    assert outcome.baseline.name == "plain order (sf)x2"
    assert set(outcome.baseline.rungs) == {"0", "100"}
    assert "to a rate of zero" in outcome.headline
    assert "random members were better" in outcome.notes[0]
    assert outcome.chosen in {trial.number for trial in finals}
    again = in_process("resume", out, "--json")
    assert again.returncode == 0, again.stderr
    assert json.loads(again.stdout)["state"] == "finished"
    assert [t for t in study.trials if not t.final] == judged
    assert read_outcome(study.folder) == outcome


def test_a_masked_language_model_is_searched_alike(tmp_path: Path) -> None:
    recipe = counted("bert", random=1)
    study = begin(recipe, tmp_path)
    assert conduct(recipe, study) == "trials"
    origins = [t.origin for t in study.trials if not t.final]
    assert origins[0] == "found"
    assert origins[-1] == "control"
    assert {*origins} == {"found", "seed", "control"}
    assert "encoder(16" in study.notation(0)
    study.close()


def test_prices_are_measured_once_and_weigh_on_the_order(tmp_path: Path) -> None:
    recipe = counted("fast", prices=(100.0,))
    study = begin(recipe, tmp_path)
    session = Session(recipe, study)
    recipe.find(session)
    found = session.recall("found-100")["decisions"]
    assert set(found.values()) == {2}, "nothing is worth so much"
    path = tmp_path / "phases" / "prices.json"
    rows = json.loads(path.read_bytes())
    assert Trace(tmp_path / SUPERNET).prices() == {n: tuple(row) for n, row in rows.items()}
    assert sum(max(row) for row in rows.values()) == pytest.approx(1)
    assert all(row[2] == 0 for row in rows.values()), "identity is free"
    changed = {name: [0.0, 0.0, 1.0] for name in rows}
    session.keep("prices", changed)
    assert recipe.costs(session, Supernet(recipe.make_space())) == changed, "it is used again"
    study.close()


def test_latency_prices_come_from_a_table_of_the_target() -> None:
    recipe = par.smoke("fast")
    price = recipe.price_of_layer(recipe.make_space())
    (_, stack, site), *_ = recipe.make_baseline()[1].stacks()
    attention, feedforward = stack.layers[:2]
    assert price(attention, site) > price(feedforward, site) > 0, "256 tokens are looked back at"
    assert price(recipe.family.letters["i"], site) < 0.5 * price(feedforward, site)


def test_attention_comes_first_where_a_task_needs_it_only_there(tmp_path: Path) -> None:
    # A tag is looked up by a token and the one before it. This attention weighs places only: it
    # can fetch the token before, but looking up is left to the feed-forwards behind it.
    usual = style("lra", 32, heads=2, inner=16)
    moves = Attention(2, bias=False, query_key="none", kind=Synthesizer(rank=16))
    letters = {**usual.letters, "s": Residual(moves, norm=LayerNorm(1e-6))}
    weights = TrainConfig(
        steps=600, batch_tokens=512, lr=5e-3, warmup=20, log_every=600, checkpoint_every=600
    )
    recipe = par.Par(
        name="par-xl-planted",
        task="planted-table?symbols=20&length=16&train=20000",
        family=Style(usual.backbone, letters),
        slots=4,
        search=weights,
        choices=SearchConfig(warmup=150, every=5, lr=6e-2, weight_decay=5e-4),
        training=weights,
    )
    study = begin(recipe, tmp_path)
    found = recipe.searched(Session(recipe, study), 0.0)["decisions"]
    study.close()
    order = [par.LETTERS[found[f"layer{slot}"]] for slot in range(4)]
    assert "s" in order[:2]
    assert "s" not in order[2:]


def test_bert_is_trained_in_two_phases(tmp_path: Path) -> None:
    printed = par.paper("bert")
    assert printed.second is not None
    assert (printed.training.steps, printed.second.training.steps) == (7038, 1563)
    assert printed.training.batch_tokens * printed.training.accumulate == 65_536 * 128
    assert printed.second.training.batch_tokens * printed.second.training.accumulate == 32_768 * 512
    assert printed.for_task("stdlib-masked?length=16").second is None
    small = par.smoke("bert")
    later = par.Second(
        task="stdlib-masked?length=48", training=small.training.replace(steps=2, warmup=0)
    )
    made = replace(small, second=later, target=None)
    judge = made.trained(tmp_path)
    order = par.decisions_of("sfsf", made.family)
    space = made.make_space()
    job = Job(Trial(0, order), space.resolve(order), tmp_path / "trial", None, 0)
    values = judge(job)
    assert values["steps"] == 2
    model = load_model(tmp_path / "trial" / "run" / "model")
    assert model.arch.frame is not None
    assert model.arch.frame.length == 48
    first = json.loads((tmp_path / "trial" / "first" / "result.json").read_text())
    assert first["steps"] == made.training.steps
    alone = replace(judge, before=None)(replace(job, folder=tmp_path / "alone"))  # type: ignore[type-var]
    assert alone["loss"] != values["loss"], "the first phase counts"


def test_shorter_and_drawn_orders_follow_from_the_probabilities() -> None:
    recipe = replace(par.smoke(), shorter=2, draws=3)
    best = par.decisions_of("sfsf", recipe.family)
    shares = {name: [0.2, 0.2, 0.2] for name in best}
    for name, option in best.items():
        shares[name][int(option)] = 0.6  # type: ignore[arg-type]
    shares["layer1"] = [0.1, 0.5, 0.4]  # nearest to nothing
    rows = recipe.orders({"decisions": best, "shares": shares}, 0.2)
    words = [par.word_of(decisions) for _, decisions in rows]
    assert words[:2] == ["sfsf", "ssf"]
    assert len(words[2]) == 2
    assert len(words) == len({*words}) == 6
    for _, decisions in rows[1:]:
        options = list(decisions.values())
        assert options == sorted(options, key=lambda option: option == par.NOTHING)
    assert rows == recipe.orders({"decisions": best, "shares": shares}, 0.2), "from the seed"
    certain = {name: [float(i == option) for i in range(3)] for name, option in best.items()}
    none = replace(recipe, shorter=0).orders({"decisions": best, "shares": certain}, 0.2)
    assert [par.word_of(decisions) for _, decisions in none] == ["sfsf"], "there are no others"
