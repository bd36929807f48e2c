"""Any mix: each policy on a space, by one command, to the same study, finals and report."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.cli_helpers import InProcess

from formwright.arch import FeedForward, Residual
from formwright.arch.architecture import Architecture
from formwright.arch.style import style
from formwright.cli.search import _usual_folder
from formwright.errors import InputError
from formwright.estimate.training import known_task
from formwright.recipes import mix
from formwright.recipes.life import begin, conduct
from formwright.recipes.recipe import recipe
from formwright.space import Maybe, Span, TreeSpace
from formwright.space.choice import stack_of
from formwright.space.files import write_space
from formwright.strategy.gradient import (
    BernoulliPolicy,
    GumbelPolicy,
    RealPolicy,
    SinglePathPolicy,
    UniformPolicy,
)
from formwright.study import Study
from formwright.study.outcome import read_outcome
from formwright.supernet import Supernet
from formwright.supernet.fixing import closed

pytestmark = pytest.mark.usefixtures("counted")
KINDS = {
    "gumbel": GumbelPolicy,
    "do": RealPolicy,
    "sdo": BernoulliPolicy,
    "uniform": UniformPolicy,
    "single-path": SinglePathPolicy,
}


def own_space(folder: Path) -> Path:
    """Layers that may be left out, one of them with an open size, as a user would write them."""
    family = style("gpt2", 16, heads=2)
    attention, feed = family.letters["s"], Residual(FeedForward(16))
    sized = feed.replace(inner=FeedForward(16).replace(inner=Span("inner", 16, 32, 16)))
    rows = stack_of(attention, Maybe("more", attention), Maybe("wide", feed), sized)
    frame = known_task("stdlib?length=16").frame
    space = TreeSpace(Architecture(rows, family.backbone, frame=frame), name="mine")
    write_space(folder / "mine.json", space)
    return folder / "mine.json"


@pytest.mark.parametrize("policy", list(KINDS))
def test_every_policy_searches_the_users_own_space(policy: str, tmp_path: Path) -> None:
    place = own_space(tmp_path)
    changes = [f"policy={policy}", f"space={place}", "members=6", "random=1"]
    if policy in ("gumbel", "do", "sdo"):
        changes.append("prices=(0.1, 1)")
    made: Any = replace(recipe("mix", "smoke", changes=changes), target=None)
    supernet = Supernet(made.make_space())
    assert type(made.holder(supernet, None, 0.0)) is KINDS[policy]
    assert made.choices == mix.CHOICES[policy]
    study = begin(made, tmp_path / "run")
    conduct(made, study)
    judged = [trial for trial in study.trials if not trial.final]
    assert {trial.origin for trial in judged} == {"found", "control"}
    assert all(trial.done for trial in study.trials)
    outcome = read_outcome(tmp_path / "run")
    assert outcome.headline
    shared = json.loads((tmp_path / "run" / "phases" / "shared.json").read_text())
    assert len(shared["members"]) == len(judged)
    assert any("hared weights" in note or "rank them" in note for note in outcome.notes)
    study.close()


@pytest.mark.parametrize(
    "words",
    [
        ("--policy", "gumbel", "--price", "0.1", "--price", "0.4"),
        ("--policy", "single-path", "--set", "members=6"),
    ],
    ids=["priced", "scanned"],
)
def test_one_command_runs_a_mix_and_resumes_it(
    words: tuple[str, ...], tmp_path: Path, in_process: InProcess
) -> None:
    out = str(tmp_path / "run")
    given = ("--space", "par", "--preset", "smoke", "--max-latency", "900ms", "--out", out)
    done = in_process("search", *given, *words)
    assert done.returncode == 0, done.stderr
    assert "the supernet found" in done.stdout
    assert (tmp_path / "run" / "report.html").exists()
    study = Study.open(tmp_path / "run")
    assert study.rules.limits == {"latency": 900.0}
    known = [(t.number, t.arch, t.values) for t in study.trials]
    again = in_process("resume", out, "--json")
    assert again.returncode == 0, again.stderr
    assert [(t.number, t.arch, t.values) for t in study.trials] == known


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--policy", "darts"), "policy must be one of"),
        (("--policy", "single-path", "--price", "0.2"), "likes all members alike"),
        (("--policy", "gumbel", "--price", "-1"), "different numbers from 0 on"),
        (("--price", "0.2"), "--price applies to --policy"),
        (("--policy", "gumbel", "--space", "primer"), "no tree of choices"),
        (("--policy", "gumbel", "--budget", "5m"), "--budget does not apply"),
        (("--policy", "gumbel", "--estimator", "params"), "--estimator does not apply"),
    ],
)
def test_what_cannot_be_mixed_gets_one_sentence(
    words: tuple[str, ...], says: str, tmp_path: Path, in_process: InProcess
) -> None:
    basics = ["--preset", "smoke"] if "--policy" in words else []
    space = [] if "--space" in words or "--policy" not in words else ["--space", "par"]
    done = in_process("search", *basics, *space, *words, folder=tmp_path)
    assert done.returncode == 2
    assert says in " ".join(done.stderr.split())
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("policy", ["gumbel", "sdo", "do"])
def test_a_limit_steers_the_price(
    policy: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From no price up to one that keeps it, then closer; all of it goes to the same end."""
    took = {0.0: 8, 0.1: 7, 0.4: 3, 0.2: 6, 0.283: 4}  # price to layers that are left

    def searched(self: Any, session: Any, price: float) -> dict[str, Any]:
        supernet = self.supernet(self.make_space())
        costs = self.costs(session, supernet)
        assert costs is not None
        assert self.holder(supernet, costs, price).price == price
        slots = sorted(self.make_space().choices)
        chosen = {name: (0 if i < took[price] else 2) for i, name in enumerate(slots)}
        return {"members": [chosen], "probabilities": {}}

    class Clock:
        def __init__(self, session: Any, seconds: float) -> None:
            self.session = session

        def __call__(self, arch: Any) -> float:
            return float(sum(layer.NAME != "identity" for layer in arch.layers.layers))

    monkeypatch.setattr(mix.Mix, "searched", searched)
    monkeypatch.setattr(mix.Mix, "ranked", lambda *given: {"members": [], "spearman": None})
    monkeypatch.setattr("formwright.recipes.sweep.Timer", Clock)
    changes = [f"policy={policy}", "random=1", "max_latency=5"]
    made: Any = recipe("mix", "smoke", changes=changes)
    assert made.steered
    study, said = begin(made, tmp_path), []
    conduct(made, study, say=said.append)
    assert json.loads((tmp_path / "phases" / "tried.json").read_text()) == sorted(took)
    found = [trial for trial in study.trials if trial.origin == "found" and not trial.final]
    assert len(found) == len(took)
    assert {n for t in found for n in t.details["methods"]} == {f"price {p:g}" for p in took}
    assert any("price 0.283: 4 ms, within the limit of 5 ms" in text for text in said)
    study.close()


def test_each_mix_has_a_folder_of_its_own() -> None:
    found = [
        _usual_folder(recipe("mix", "smoke", changes=[f"policy={policy}"]))
        for policy in ("gumbel", "do", "gumbel")
    ]
    assert found[0] == found[2] != found[1]
    assert found[0].name.startswith("mix-stdlib-")


def test_what_is_open_outside_the_layers_is_decided() -> None:
    made: Any = recipe("mix", "smoke", changes=["space=open"])
    found = made.make_space()
    assert "position" not in found.choices
    assert {"width"} <= set(found.choices) or found.choices
    assert closed(found) is found, "nothing is left to decide"
    plain = recipe("mix", "smoke").make_space()
    assert isinstance(plain, TreeSpace)
    assert closed(plain) is plain


def test_numbers_that_cannot_be_used_are_refused() -> None:
    with pytest.raises(InputError, match="at least 1"):
        replace(mix.smoke(), members=0)
    with pytest.raises(InputError, match="holds no gates"):
        replace(mix.smoke(), policy="darts")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="closer=-1"):
        replace(mix.smoke(), closer=-1)
