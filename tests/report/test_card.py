"""What the top of a page says: verdicts that claim no more than was shown, target, commands."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.report.material import TWO, done, failed, material, studied

from formwright.arch import parse
from formwright.report import gather
from formwright.report.cells import blocks_of, cells_svg, key_number, told_apart, traits
from formwright.report.judge import Comparison, Sized, comparisons, trained_alike
from formwright.report.sections.cost import WATTS, cost_html, cost_info
from formwright.report.sections.headline import headline_info
from formwright.report.sections.recommended import card_html, card_info, commands, quoted
from formwright.report.sections.repeat import repeat_info
from formwright.report.where import machine_words, target_words, where_words
from formwright.study.outcome import Baseline, Outcome
from formwright.trial import FINAL_RUNG, RIVAL, Objective, Trial

LOSS = Objective("loss")
TARGET = {"runtime": "eager", "batch": 1, "length": 128, "past": 0, "threads": 2, "dtype": "fp32"}
TARGET |= {"phase": "pass", "fingerprint": "abc"}


def compared(name: str, ours: Any, theirs: Any, **changes: Any) -> Comparison:
    return Comparison(name, Sized(*ours), Sized(*theirs), Objective(name), **changes)


@pytest.mark.parametrize(
    ("pair", "verdict"),
    [
        (compared("loss", (1.0, 0.9, 1.1), (2.0, 1.9, 2.1)), "better"),
        (compared("loss", (3.0, 2.9, 3.1), (2.0, 1.9, 2.1)), "worse"),
        (compared("loss", (1.9, 1.8, 2.0), (2.0, 1.9, 2.1)), "level"),
        (compared("loss", (1.999, 1.9985, 1.9995), (2.0, 1.9999, 2.0001)), "level"),  # of seeds
        (compared("loss", (1.0, 1.0, 1.0), (2.0, 2.0, 2.0)), "unsure"),
        (compared("loss", (1.0, 0.9, 1.1), (2.0, 1.9, 2.1), alike=False), "unlike"),
        (compared("latency", (1.0, 0.9, 1.1), (2.0, 1.9, 2.1), alike=False), "better"),
        (compared("params", (1.0, 1.0, 1.0), (2.0, 2.0, 2.0)), "better"),
        (compared("loss", (2.0, 2.0, 2.0), (2.0, 2.0, 2.0)), ""),
    ],
)
def test_only_what_was_shown_is_called_better(pair: Comparison, verdict: str) -> None:
    assert pair.verdict == verdict
    assert ("better" in pair.words) == (verdict == "better")


def test_values_that_are_no_objective_have_no_verdict() -> None:
    baseline = Baseline("by hand", "", "", {"loss": 2.0, "flops": 8.0, "rate": 1.0})
    trial = replace(done(0, 1.0), values={"loss": 1.0, "flops": 4.0, "rate": 2.0})
    found = comparisons(trial, baseline, (LOSS,), {"rate"})
    assert [(c.name, c.change, c.verdict) for c in found] == [
        ("loss", -0.5, "unsure"),
        ("flops", -0.5, ""),
    ]
    assert found[1].words == "50.0% less"


def test_trainings_are_alike_on_one_rung_or_with_equal_steps() -> None:
    trial = done(0, 1.0, rung=1, steps=50)
    plain = Baseline("b", "", "", {"loss": 2.0})
    assert trained_alike(trial, plain)
    assert trained_alike(trial, replace(plain, rungs={"1": {"loss": 2.0}}))
    assert not trained_alike(trial, replace(plain, rungs={"0": {"loss": 2.0}}))
    assert not trained_alike(trial, replace(plain, values={"loss": 2.0, "steps": 10.0}))


def sized(number: int, loss: float, **more: Any) -> Trial:
    values = {"loss": loss, "loss_low": loss - 0.1, "loss_high": loss + 0.1, "seeds": 1.0}
    values |= {"speed": 3.0, "latency": 2.0, "latency_low": 1.9, "latency_high": 2.1}
    values |= {"params": 12345.0, "steps": 50.0}
    return replace(done(number, loss, 3.0, rung=FINAL_RUNG, steps=50, **more), values=values)


def test_the_headline_says_how_sure_it_is() -> None:
    rungs = {str(FINAL_RUNG): {"loss": 2.0, "loss_low": 1.8, "loss_high": 2.2}}
    baseline = Baseline("by hand", "", "", rungs[str(FINAL_RUNG)], rungs)
    told = headline_info(material([sized(0, 1.0)], outcome=Outcome(baseline, "Good.", 0))).sure
    assert "Loss 1 (95 %: 0.9000 to 1.100)" in told
    assert "do not overlap; one seed each" in told
    near = headline_info(material([sized(0, 1.85)], outcome=Outcome(baseline, "Good.", 0))).sure
    assert "the two overlap" in near
    unlike = replace(baseline, rungs={"0": baseline.values})
    other = headline_info(material([sized(0, 1.0)], outcome=Outcome(unlike, "Good.", 0))).sure
    assert "trained otherwise, so the two are not compared" in other
    alone = headline_info(material([done(0, 1.0, 2.0)], outcome=Outcome(None, "Good.", 0))).sure
    assert "may be chance" in alone
    assert headline_info(material([done(0, 1.0, 2.0)])).sure == ""


def test_names_of_values_are_spoken_and_facts_without_words_left_out() -> None:
    goals = (Objective("bits_per_byte"),)
    trial = replace(done(0, 1.0), values={"bits_per_byte": 1.0})
    facts = {"speedup": 2.0, "speedup_low": 1.9, "speedup_high": 2.1, "lead": 0.5}
    outcome = Outcome(None, "At bits_per_byte 1.", 0, facts, notes=("bits_per_byte it is.",))
    info = headline_info(material([trial], goals, outcome=outcome))
    assert info.sentence == "At bits per byte 1."
    assert info.notes == ["bits per byte it is."]
    names = [tile.name for tile in info.tiles]
    assert "times as fast" in names
    assert "lead" not in names
    assert info.tiles[-1].remark == "95 %: 1.900 to 2.100"


def test_the_card_holds_quality_latency_size_and_where_they_hold() -> None:
    machine = {"cpu": "Fast 9", "cores": 2, "system": "Linux x86_64", "torch": "2.13"}
    found = material([sized(0, 1.0)], outcome=Outcome(None, "Good.", 0))
    found = replace(found, meta={**found.meta, "target": TARGET, "machine": machine})
    info = card_info(found)
    assert info is not None
    assert info.announced
    assert [(f.name, f.value) for f in info.facts] == [
        ("loss", "1"),
        ("speed", "3"),
        ("latency", "2 ms"),
        ("size", "12.35k parameters"),
    ]
    assert info.facts[0].remark == "95 %: 0.9000 to 1.100; after 50 steps, one seed"
    assert info.where == (
        "one pass over a text of 128 tokens (batch 1), torch (eager), fp32, 2 threads, on Fast 9, "
        "2 cores, Linux x86_64, torch 2.13"
    )
    assert ("machine", "Fast 9, 2 cores, Linux x86_64, torch 2.13") in repeat_info(found).settings


def test_targets_are_told_in_words() -> None:
    decode = TARGET | {"phase": "decode", "past": 256, "batch": 4, "threads": 1}
    assert target_words(decode).startswith("writing one token after 256 others, batch 4, ")
    prompt = TARGET | {"phase": "prefill", "runtime": "onnx"}
    assert target_words(prompt).startswith("reading a prompt of 128 tokens, batch 1, ONNX Runtime")
    found = material([sized(0, 1.0)])
    assert where_words(found) == ""
    assert machine_words(found) == ""
    old = replace(found, meta={**found.meta, "target": TARGET})
    assert "not on record (fingerprint abc)" in where_words(old)


def test_the_model_to_take_may_be_a_rival() -> None:
    rival = replace(sized(1, 1.0), origin=RIVAL, note="Llama shape")
    found = material([sized(0, 2.0), rival], outcome=Outcome(None, "Nothing was as good.", 1))
    info = card_info(found)
    assert info is not None
    assert info.name == "Llama shape"
    assert "nothing that was found is better" in str(card_html(found))
    assert card_info(material([failed(0, "x")])) is None
    running = card_info(material([done(0, 1.0, 2.0)]))
    assert running is not None
    assert not running.announced


def test_commands_are_those_that_work_in_the_folder(tmp_path: Path) -> None:
    trial = sized(3, 1.0)
    found = material([trial], folder=tmp_path / "a run", outcome=Outcome(None, "Good.", 0))
    meta = {**found.meta, "recipe": "usual-search", "task": "classify:my file.csv"}
    found = replace(found, meta=meta)
    told = dict(commands(found, trial))
    assert set(told) == {"train it longer", "go on searching"}  # no model was kept
    assert f"'{tmp_path}/a run#3' --task 'classify:my file.csv'" in told["train it longer"]
    best = tmp_path / "a run" / "best"
    best.mkdir(parents=True)
    for name in ("task.json", "model.safetensors"):
        (best / name).write_text("{}", encoding="utf-8")
    told = dict(commands(found, trial))
    assert told["ask it"] == f"formwright predict '{tmp_path}/a run' 'a text of yours'"
    assert told["take it elsewhere"].endswith("--to onnx --out exported")
    assert told["go on searching"].endswith("--budget 30m")
    ended = replace(found, meta={**meta, "recipe": "par-smoke"})
    assert "go on searching" not in dict(commands(ended, trial))
    assert [quoted(w) for w in ("~/runs/a", "a b", "#x")] == ["~/runs/a", "'a b'", "'#x'"]


def test_samples_are_shown_as_text(tmp_path: Path) -> None:
    (tmp_path / "phases").mkdir()
    (tmp_path / "phases" / "samples.json").write_text('[{"given": "<b>", "said": " "}, 3]')
    found = material([sized(0, 1.0)], folder=tmp_path, outcome=Outcome(None, "Good.", 0))
    html = str(card_html(found))
    assert "<pre>&lt;b&gt;</pre>" in html
    assert "(nothing but white space)" in html


def test_the_cost_is_time_processors_and_an_estimate_of_energy() -> None:
    half = {"loss": 1.0, "speed": 1.0, "processor_share": 0.5, "steps": 100.0}
    trials = [
        replace(done(0, 1.0, 1.0, seconds=3600.0, steps=100), values=half),
        replace(
            done(1, 1.0, 1.0, seconds=3600.0, rung=1, continues=0), values=half | {"steps": 300.0}
        ),
        done(2, 1.0, 1.0, seconds=0.0, original=0),
        failed(3, "x"),
        Trial(4, {}, state="waiting"),
    ]
    info = cost_info(material(trials))
    assert info is not None
    assert info.processor == pytest.approx(3600.0 + 0.5)  # the failed one at the mean share
    assert info.watt_hours == pytest.approx([w * info.processor / 3600 for w in WATTS])
    assert [(s.name, s.done, s.failed, s.repeated, s.open) for s in info.stages] == [
        ("stage 0, 100 steps", 1, 1, 1, 1),
        ("stage 1", 1, 0, 0, 0),
    ]
    assert info.steps == 300
    assert "Energy was not measured. An estimate" in str(cost_html(material(trials)))
    assert cost_info(material([])) is None


def test_the_clock_of_a_run_counts_what_is_no_trial(tmp_path: Path) -> None:
    study = studied(tmp_path / "run", trials=3)
    (tmp_path / "run" / "clock.json").write_text("1234.5")
    assert gather(study).worked == 1234.5
    study.close()


def test_architectures_are_told_apart_in_words() -> None:
    first = parse("(sf)x2 in gpt2(64) for frame(256, 64, lm)")
    second = parse("(cf)x2 in gpt2(64) for frame(256, 64, lm)")
    common, (one, two) = told_apart([first, second])
    assert common[0] == "width 64"
    assert any("feed-forward" in words for words in common)
    assert any("attention" in words for words in one)
    assert not any("attention" in words for words in two)
    assert told_apart([first]) == ([], [traits(first)])
    numbers = [key_number(block) for block in blocks_of(first)[0]]
    assert numbers == ["2", "256", "2", "256"]
    wide = cells_svg(first, 512)
    assert "Layers from first to last: width 64; 2" in wide


def test_two_objectives_are_still_drawn_with_a_limit() -> None:
    from formwright.report.sections.pareto import pareto_html

    trials = [done(i, 1.0 + i, 1.0 + i) for i in range(9)]
    html = str(pareto_html(material(trials, TWO, limits={"loss": 6.0})))
    assert html.count("limit 6") == 2  # on either sheet
    assert 'class="line limit"' in html
