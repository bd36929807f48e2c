"""NAS-BERT: the published numbers, blocks that shrink, the table and what is taken from it."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from formwright.arch import parse
from formwright.arch.counting import count
from formwright.errors import InputError
from formwright.estimate.training import known_task
from formwright.model import build, load_model, save_model
from formwright.recipes import nasbert
from formwright.recipes.chain_costs import Between, ChainCosts
from formwright.recipes.life import begin, conduct
from formwright.recipes.nasbert import PLAIN
from formwright.recipes.recipe import recipe
from formwright.recipes.session import SUPERNET, Session
from formwright.study import Study
from formwright.study.outcome import read_outcome
from formwright.trace import Trace

pytestmark = pytest.mark.usefixtures("counted")

TASK = "planted-near?length=12&symbols=4&train=200&valid=40&test=40"


def made(**changes: Any) -> Any:
    found: Any = recipe("nasbert", "smoke", task=TASK)
    return replace(found, target=None, **changes)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, Path]:
    """A search without a clock, to its end."""
    found, folder = made(), tmp_path_factory.mktemp("nasbert")
    study = begin(found, folder)
    assert conduct(found, study) == "trials"
    study.close()
    return found, folder


def test_the_paper_has_the_published_numbers() -> None:
    paper = nasbert.paper()
    links, shrinking = paper.links, paper.shrinking
    assert (links.blocks * links.layers, links.blocks, links.candidates) == (24, 4, 26)
    assert links.per_block == 97_650
    assert (shrinking.bins, shrinking.keep, shrinking.judged, shrinking.warm) == (10, 10, 2000, 3)
    assert shrinking.batches == 5
    assert (shrinking.bins * shrinking.keep) ** links.blocks == 10**8
    assert (paper.assembled, paper.taught) == (100, 0.5)
    with pytest.raises(InputError, match="no variant 'gpt'"):
        nasbert.paper("gpt")


def test_after_shrinking_each_bin_has_what_it_may_or_had(whole: tuple[Any, Path]) -> None:
    found, folder = whole
    trace = Trace(folder / SUPERNET)
    for number in range(found.links.blocks):
        (begun,) = [line for line in trace.lines("binned") if line["block"] == number]
        rounds = [line for line in trace.lines("shrunk") if line["block"] == number]
        assert begun["lost"] + sum(begun["bins"].values()) == found.links.per_block
        sizes = [begun["bins"], *(line["bins"] for line in rounds)]
        for name, first in begun["bins"].items():
            row = [size[name] for size in sizes]
            assert row == sorted(row, reverse=True)
            assert row[-1] == min(found.shrinking.keep, first)


def test_rows_of_the_table_count_what_the_models_count(whole: tuple[Any, Path]) -> None:
    found, folder = whole
    session = Session(found, Study.open(folder))
    table, space = found.table(session), found.make_space()
    limit = found.limits(session)["flops"]
    for row in table.select(None, limit, 10):
        decisions = {f"block{n}": block.path for n, block in enumerate(row.blocks)}
        counts = count(space.resolve(decisions), length=found.frame.length)
        assert row.params == counts.params, "exact, maps between widths and the ends included"
        assert row.latency == pytest.approx(counts.flops)
        assert row.latency <= limit


def test_what_is_found_keeps_the_limit_and_answers_best_as_a_whole(whole: tuple[Any, Path]) -> None:
    _, folder = whole
    study = Study.open(folder)
    rows = (Trace(folder / SUPERNET).last("scored") or {})["rows"]
    first = study.trials[0]
    assert dict(first.decisions) == min(rows, key=lambda row: row["loss"])["decisions"]
    teacher = read_outcome(folder).baseline
    assert teacher is not None
    assert first.values["flops"] <= 0.95 * teacher.values["flops"]
    assert any(t.note == PLAIN for t in study.trials)
    assert any(t.control for t in study.trials)
    chosen = study.trials[read_outcome(folder).chosen]
    assert chosen.final, "announced is what finals show"
    assert count(load_model(folder / "best").arch).params == chosen.values["params"]
    assert "is" in read_outcome(folder).headline


def test_both_limits_are_kept_and_others_are_refused(
    whole: tuple[Any, Path], tmp_path: Path
) -> None:
    found, folder = whole
    session = Session(found, Study.open(folder))
    params, flops = found.table(session).smallest()
    small = found.bounded({"max_params": 1.2 * params, "max_flops": 1.5 * flops})
    assert small.allowed(session) == (1.2 * params, 1.5 * flops)
    for row in found.table(session).select(*small.allowed(session), 5):
        assert row.params <= 1.2 * params
        assert row.latency <= 1.5 * flops
    with pytest.raises(InputError, match="the smallest has"):
        found.table(session).select(params - 1, None, 5)
    timed: Any = recipe("nasbert", "smoke", task=TASK).bounded({"max_flops": 1e6})
    with pytest.raises(InputError, match="limits on parameters and on latency"):
        begin(timed, tmp_path)


def test_what_lies_between_blocks_depends_on_their_widths(whole: tuple[Any, Path]) -> None:
    found, folder = whole
    session = Session(found, Study.open(folder))
    between = Between(ChainCosts(found), session.recall("prices"))
    same, changed = between((8, 8)), between((8, 16))
    assert changed[0] > same[0] + 8 * 16
    assert between((8, 16)) == changed


def test_a_chain_is_scaled_to_the_users_model(tmp_path: Path) -> None:
    frame = known_task(TASK).frame
    text = f"(sf)x6 in bert(32, heads=4, inner=64) for frame({frame.vocab}, 24, features)"
    folder = save_model(build(parse(text)), tmp_path)
    found: Any = recipe("nasbert", "smoke", task=TASK, start=str(folder))
    assert (found.links.blocks, found.links.head) == (3, 8)
    assert found.links.widths == (8, 16, 24, 32)
    assert found.links.layers <= 4
    found.check()


def test_teachers_that_cannot_be_cut_into_blocks_are_refused(tmp_path: Path) -> None:
    found = made(links=replace(nasbert.smoke().links, blocks=3))
    with pytest.raises(InputError, match="cannot be cut into 3 groups"):
        begin(found, tmp_path)
