"""The page of evidence: made from the results alone, checked, and honest about its age."""

import json
import re
import shlex
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from claims import black_box, one_shot, peers, program
from claims.page import OLD, page_of, told_of
from claims.row import Row, Told
from claims.running import Setting, run_rows
from claims.shape import Each, Maybe, Misfit, check
from evidence import PAGE, ROOT, ROWS
from provenance import History, code

from tests.benchmarks import BENCHMARKS

RESULTS = BENCHMARKS / "results"
# Results that are no claim: digests of what searches give, to compare before and after a change.
NO_CLAIM = {"digests"}


def git(folder: Path, *words: str) -> str:
    who = ["-c", "user.name=x", "-c", "user.email=x@example.org"]
    done = subprocess.run(
        ["git", "-C", str(folder), *who, *words], capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


def toy(**changes: Any) -> Row:
    row = Row(
        name="toy",
        group="wanted things",
        claim="more is more",
        published="wanted: 2",
        data="nothing",
        file="toy",
        part=("part",),
        shape={"value": float},
        tell=lambda part: Told("yes" if part["value"] >= 2 else "no", f"{part['value']}", 1),
        script="toy.py",
        rooms=("room",),
    )
    return replace(row, **changes)


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """A small repository with one results file and one room."""
    for name, text in (
        ("benchmarks/results/toy.json", '{"part": {"value": 3}, "other": 1}'),
        ("src/formwright/room/a.py", '"""Doc."""\nx = 1\n'),
    ):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    git(tmp_path, "init", "-q")
    git(tmp_path, "add", "-A")
    git(tmp_path, "commit", "-qm", "one")
    return tmp_path


def test_the_committed_page_is_what_the_results_say() -> None:
    history = History(ROOT)
    if history.missing:
        pytest.skip(f"{history.missing}: the page's marks of age need the history")
    assert PAGE.read_text(encoding="utf-8") == page_of(ROWS, RESULTS, history), (
        "run `make evidence-page` and commit docs/results.md"
    )


def test_every_results_file_is_claimed_and_fits_its_shape() -> None:
    claimed = {row.file for row in ROWS}
    new = {path.stem for path in RESULTS.glob("*.json")} - claimed - NO_CLAIM
    assert not new, (
        "claim them by a row in benchmarks/claims, or name them in NO_CLAIM with a reason"
    )
    for row in ROWS:
        told_of(row, RESULTS, None)


def test_every_system_has_rows_and_rows_have_names_of_their_own() -> None:
    names = [row.name for row in ROWS]
    assert len(names) == len(set(names))
    text = PAGE.read_text(encoding="utf-8")
    for row in ROWS:
        assert f'<a id="{row.name}"></a>' in text
        for room in row.rooms:
            assert (ROOT / "src" / "formwright" / room).exists(), (row.name, room)


@pytest.mark.parametrize("row", [row for row in ROWS if row.script], ids=lambda row: row.name)
def test_commands_name_scripts_and_options_that_exist(row: Row) -> None:
    source = (BENCHMARKS / row.script).read_text(encoding="utf-8")
    assert "from harness import" in source, "else its short form writes to published results"
    known = set(re.findall(r'add_argument\(\s*"(--[a-z-]+)"', source))
    known |= {f"--{name}" for name in ("seeds", "data", "only", "share") if f"{name}=" in source}
    for words in (row.full, row.short or ""):
        options = {word for word in shlex.split(words) if word.startswith("--")}
        assert options <= known, (row.name, options - known)


def test_short_forms_fit_two_hours() -> None:
    # What needs other programs is passed over unless they are given, and comes on top.
    short = [row for row in ROWS if row.short is not None and "{peers}" not in row.short]
    runs = {(row.script, row.short): row.minutes for row in short}
    assert 60 < sum(runs.values()) < 120, "minutes of a quiet core; the runner has the limit"


# --- age --------------------------------------------------------------------------------


def test_figures_are_marked_when_their_code_computes_something_else(clone: Path) -> None:
    results, room = clone / "benchmarks" / "results", clone / "src" / "formwright" / "room"

    def page() -> str:
        return page_of([toy()], results, History(clone))

    def marked() -> bool:
        return f", {OLD}" in page()

    assert not marked()
    (room / "a.py").write_text('"""Other words."""\nx = 1  # why\n')
    (room / "new.py").write_text("y = 2\n")
    assert not marked(), "comments and new files change nothing"
    (room / "a.py").write_text('"""Doc."""\nx = 2\n')
    assert marked()
    before = page()
    git(clone, "commit", "-qam", "two")
    assert page() == before, "a commit alone changes nothing"
    git(clone, "commit", "-q", "--allow-empty", "-m", "three")
    assert page() == before
    (results / "toy.json").write_text('{"part": {"value": 3}, "other": 2}')
    assert marked(), "another part of the file is not this row's figure"
    (results / "toy.json").write_text('{"part": {"value": 4}}')
    assert not marked(), "measured anew"
    fresh = page()
    git(clone, "commit", "-qam", "four")
    assert page() == fresh


def test_without_a_history_the_page_says_so(clone: Path, tmp_path: Path) -> None:
    results = clone / "benchmarks" / "results"
    assert "cannot be said here: this folder is not a clone" in page_of(
        [toy()], results, History(clone / "src")
    )
    git(clone, "commit", "-q", "--allow-empty", "-m", "two")
    shallow = tmp_path / "shallow"
    git(tmp_path, "clone", "-q", "--depth", "1", f"file://{clone}", str(shallow))
    text = page_of([toy()], shallow / "benchmarks" / "results", History(shallow))
    assert "cannot be said here: this clone is shallow" in text


def test_code_is_compared_without_words() -> None:
    assert code('def f():\n    """A."""\n    return 1') == code("def f():\n    return 1  # b")
    assert code("x = 1") != code("x = 2")


# --- verdicts and shapes ----------------------------------------------------------------


def test_negative_and_missing_rows_stand_first(tmp_path: Path) -> None:
    (tmp_path / "toy.json").write_text('{"part": {"value": 1}}')
    rows = [toy(), toy(name="gone", file="gone")]
    text = page_of(rows, tmp_path, None)
    first = text.partition("## All rows")[0]
    assert "**Measured, and not so** (1 of 2 rows)" in first
    assert "**Not measured** (1 of 2 rows)" in first
    assert "wanted things, [toy](#toy): more is more" in first
    (tmp_path / "toy.json").write_text('{"part": {"value": 5}}')
    assert "(0 of 2 rows)" in page_of(rows, tmp_path, None), "verdicts follow from the figures"


def test_results_of_another_form_are_refused_in_one_sentence(tmp_path: Path) -> None:
    path = tmp_path / "toy.json"
    for text, said in (
        ('{"part": {"value": "a"}}', "toy.json.part.value must be a finite number, and is 'a'."),
        ('{"part": {}}', "toy.json.part must be an object with 'value'"),
        ("{", "toy.json is not JSON"),
    ):
        path.write_text(text)
        with pytest.raises(Misfit, match=re.escape(said)):
            told_of(toy(), tmp_path, None)
    path.write_text('{"part": {"value": 1}}')
    with pytest.raises(Misfit, match="has not the figures that toy reads: KeyError"):
        told_of(toy(tell=lambda part: part["missing"]), tmp_path, None)


def test_shapes() -> None:
    shape = {"a": [Each(float)], "b": Maybe(bool)}
    check({"a": [{"x": 1}, {}], "b": None, "more": "fine"}, shape, "file")
    for wrong, where in (
        ({"a": {}, "b": None}, "file.a must be a list"),
        ({"a": [{"x": True}], "b": None}, "file.a[0].x must be a finite number"),
        ({"a": [{"x": float("nan")}], "b": None}, "file.a[0].x must be a finite number"),
        ({"a": [], "b": 1}, "file.b must be bool"),
    ):
        with pytest.raises(Misfit, match=re.escape(where)):
            check(wrong, shape, "file")


def searched(seed: int, found: float, *, drawn: bool) -> dict[str, Any]:
    about = {"system": "primer", "task": "", "seed": seed, "random": drawn, "set": []}
    rivals = {"seed": 2.0, "primer-ez": 1.9}
    return {**about, "metric": "bits_per_byte", "found": found, "rivals": rivals}


@pytest.mark.parametrize(
    ("found", "verdict"),
    [((1.8, 1.85), "yes"), ((1.95, 1.98), "partly"), ((1.95, 1.9), "partly"), ((2.1, 2.05), "no")],
)
def test_evolution_must_beat_the_transformer_the_best_rival_and_random_search(
    found: tuple[float, float], verdict: str
) -> None:
    rows = [searched(0, found[0], drawn=False), searched(0, found[1], drawn=True)]
    told = black_box.evolution("primer")([*rows, {"system": "genes", "genes": 3}])
    assert told.verdict == verdict
    assert f"random search {found[1]:.3f}" in told.control
    assert black_box.evolution("evolved")(rows).verdict == "open"


def test_of_a_search_by_evolution_the_preset_as_it_is_counts_where_it_was_run() -> None:
    other = {**searched(0, 2.5, drawn=False), "set": ["foresight=false"]}
    assert "found 2.500" in (told := black_box.evolution("primer")([other])).found
    assert told.found.endswith("with foresight=false")
    told = black_box.evolution("primer")([other, searched(0, 1.8, drawn=False)])
    assert "found 1.800" in told.found
    assert "foresight" not in told.found


def test_a_layer_travels_where_it_is_better_than_the_plain_shape() -> None:
    rows = [
        {
            "task": task,
            "model": model,
            "seed": seed,
            metric: value,
            "params": 1,
            "state": "finished",
        }
        for task, metric, better in (
            ("lm:a.txt", "bits_per_byte", -0.1),
            ("tag:b", "accuracy", 0.1),
        )
        for model, value in (("plain", 0.5), ("primer-ez", 0.5), ("my_block", 0.5 + better))
        for seed in (0, 1)
    ]
    assert black_box.travelled(rows).verdict == "yes"
    assert black_box.travelled([{**r, "model": "plain"} for r in rows[:6]]).verdict == "no"


def test_a_lead_within_its_error_is_no_lead() -> None:
    def row(mean: float, spread: float) -> dict[str, Any]:
        return {"marks": [50], "mean": [mean], "spread": [spread], "seeds": 4, "own_ms": 1.0}

    rows = {"random": row(0.5, 0.1), "optuna tpe": row(0.80, 0.02)}
    assert peers.strategies({**rows, "surrogate": row(0.81, 0.02)}).verdict == "no"
    assert peers.strategies({**rows, "surrogate": row(0.90, 0.02)}).verdict == "yes"


def test_what_others_may_record_is_read() -> None:
    row = {"said": "rival", "survives": True, "beats_budget": False, "control": None}
    assert program.survival([row]).verdict == "partly"
    assert program.shared_ranks({"shared": {}}).verdict == "open"
    assert one_shot.fft_speed([{"rows": [{"what": "whole network"}]}]).verdict == "no"


# --- running ----------------------------------------------------------------------------


def test_a_short_run_leaves_published_results_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = {path: path.read_bytes() for path in RESULTS.iterdir()}
    row = next(row for row in ROWS if row.name == "record-kills")
    row = replace(row, short="--kills 1 --trials 12 --workers 2")
    setting = Setting(None, None, tmp_path / "work", 300)
    assert run_rows([row], setting) == 0
    assert "12 of 12 trials on record once" in capsys.readouterr().out
    assert json.loads((setting.results / "study.json").read_text())["kills"]["done"] == 12
    assert {path: path.read_bytes() for path in RESULTS.iterdir()} == before


def test_rows_without_data_or_time_are_passed_over_and_that_is_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [row for row in ROWS if row.name in ("par-search", "lts-budget", "record-kills")]
    assert run_rows(rows, Setting(None, None, tmp_path, 0)) == 0
    said = capsys.readouterr().out
    assert "par-search: passed over, its data is not given" in said
    assert "lts-budget: has no short form" in said
    assert "record-kills: passed over, the time is up" in said


def test_the_command_refuses_what_it_does_not_know() -> None:
    done = subprocess.run(
        [sys.executable, str(BENCHMARKS / "evidence.py"), "run", "nothing"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert done.stderr == (
        "evidence: error: no row is called 'nothing'; `evidence.py list` has them.\n"
    )
