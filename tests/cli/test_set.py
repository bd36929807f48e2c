"""Hyperparameters, workers and budgets of recipes, as they are typed."""

import json
from pathlib import Path
from typing import Any

import pytest
from tests.cli_helpers import InProcess

from formwright.arch import parse
from formwright.arch.style import style
from formwright.errors import InputError, UnknownName
from formwright.recipes.recipe import recipe
from formwright.space.files import write_space
from formwright.study import Study

TASK = "planted-near?length=12&symbols=4&train=200&valid=40&test=40"
PAR = ("search", "par-bert", "--preset", "smoke", "--task", TASK)
FAST = ("--set", "search.steps=4", "--set", "choices.warmup=2", "--set", "slots=2")
FAST = (*FAST, "--set", "random=1", "--set", "steps=2")  # of the training, where nothing else is


pytestmark = pytest.mark.usefixtures("counted")


@pytest.mark.parametrize(
    ("name", "change", "value"),
    [
        ("par", "search.steps=7", 7),
        ("par", "steps=7", 7),
        ("par", "prices=(2, 0.5)", (2, 0.5)),
        ("par", "hard=true", True),
        ("par", "hard=False", False),
        ("par", "training.betas=(0.5, 0.6)", (0.5, 0.6)),
        ("par", "choices.joint=true", True),
        ("lts", "generations=3", 3),
        ("lts", "training.optimiser=adamw", "adamw"),
        ("fft", "methods.1.samples=3", 3),
        ("fft", "methods.0.prices=(1, 2.5, 3)", (1, 2.5, 3)),
        ("fft", "methods.0.form=exact", "exact"),
        ("fft", "cut.inner_parts=1", 1),
        ("dartformer", "subset=3", 3),
        ("dartformer-layers", "subset=None", None),
        ("dartformer-layers", "subset=none", None),
        ("dartformer", "checkpoint=true", True),
        ("usual", "space=par", "par"),
        ("usual", "blocks=one, two", ("one", "two")),
        ("usual", "blocks=one", ("one",)),
        ("autodistil", "teacher=(sf)x3 in bert(32)", parse("(sf)x3 in bert(32)")),
        ("autodistil", "split=cut", "cut"),
        ("par", "family=gpt2", style("gpt2")),
        ("par", "family=bert(32, heads=2, inner=64)", style("bert", 32, 2, 64)),
        ("par", "closer=0", 0),
    ],
)
def test_a_hyperparameter_is_set_with_its_type(name: str, change: str, value: Any) -> None:
    before = recipe(name, "search" if name == "usual" else "smoke")
    found: Any = before.with_setting(change)
    assert found.changed == (change,)
    path = change.partition("=")[0]
    path = "training.steps" if path == "steps" else path
    for part in path.split("."):
        found = found[int(part)] if part.isdecimal() else getattr(found, part)
    assert found == value
    assert type(found) is type(value)


BAD = [
    ("par", "family=bert(32", "write a style with its sizes"),
    ("par", "family=3", "write a style with its sizes"),
    ("par", "family=brt(32)", "No style is called 'brt'."),
    ("autodistil", "teacher=(sf", "(sf"),
    ("par", "foo=1", "No setting is called 'foo'."),
    ("par", "lrr=1", "No setting is called 'lrr'. Did you mean 'lr'?"),
    ("par", "search.foo=1", "No setting is called 'foo'."),
    ("par", "serch.steps=1", "No setting is called 'serch'. Did you mean 'search'?"),
    ("par", "search.steps.more=1", "'more' stands in 30, which has no parts."),
    ("par", "ENDS=false", "No setting is called 'ENDS'."),
    ("par", "search.steps", "has no value; write --set search.steps=VALUE."),
    ("par", "search.steps=", "steps must be a whole number or none."),
    ("par", "search.steps=many", "steps must be a whole number or none."),
    ("par", "search.steps=1.5", "steps must be a whole number or none."),
    ("par", "search.steps=(1, 2)", "steps must be a whole number or none."),
    ("par", "search.lr=fast", "lr must be a number."),
    ("par", "search.betas=(1, 2, 3)", "betas must be several, such as (1, 2)."),
    ("par", "search.betas=(1, 'x')", "betas must be several, such as (1, 2)."),
    ("par", "search.optimiser=sgd", "optimiser must be one of adafactor, adamw, lamb, muon."),
    ("par", "hard=1", "hard must be true or false."),
    ("par", "slots=True", "slots must be a whole number."),
    ("par", "slots=3", "slots=3 cannot be used; give an even number from 2 on."),
    ("par", "search=5", "search must be set by its parts, such as training.steps=200."),
    ("par", "seed=3", "give --seed."),
    ("par", "task=stdlib", "give --task."),
    ("par", "workers=2", "give --workers."),
    ("fft", "methods.7.refine=1", "'7' is no place in a list of 2."),
    ("fft", "methods.0=1", "'0' is no place in a list of 2."),
    ("fft", "methods=(1, 2)", "methods must be set by its parts"),
    ("fft", "methods.0.kind=dodo", "kind must be one of do, sdo."),
    ("dartformer", "encoders.blocks.0.1.heads=x", "heads"),
]


@pytest.mark.parametrize(("name", "change", "says"), BAD)
def test_what_cannot_be_set_gets_one_sentence(
    name: str, change: str, says: str, tmp_path: Path, in_process: InProcess
) -> None:
    done = in_process("search", name, "--preset", "smoke", "--set", change, folder=tmp_path)
    assert done.returncode == 2
    assert done.stdout == ""
    assert says in " ".join(done.stderr.split())
    assert done.stderr.startswith("formwright: error: ")
    assert not list(tmp_path.iterdir())


def test_a_recipe_with_settings_is_run_continued_and_refused_without_them(
    tmp_path: Path, in_process: InProcess
) -> None:
    out = ("--out", str(tmp_path / "run"))
    done = in_process(*PAR, *FAST, *out, "--workers", "2")
    assert done.returncode == 0, done.stderr
    study = Study.open(tmp_path / "run")
    judged = [trial for trial in study.trials if not trial.final]
    assert sum(trial.control for trial in judged) == 1, "one of them random"
    assert {trial.values["steps"] for trial in judged} == {2.0}
    assert study.rules.window == 4, "two workers"
    for words in ((*PAR, *FAST, *out), ("resume", str(tmp_path / "run"))):
        again = in_process(*words, "--json")
        assert again.returncode == 0, again.stderr
        assert json.loads(again.stdout)["state"] == "finished"
    refused = in_process(*PAR, *out)
    assert refused.returncode == 2
    assert "holds another search: its" in refused.stderr


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("search", "par", "--workers", "-1"), "--workers"),
        (("search", "par", "--workers", "many"), "--workers"),
        (("search", "--workers", "-1"), "--workers"),
        (("resume", "nowhere", "--workers", "0"), "--workers"),
        (("search", "lts", "--budget", "soon"), "no length of time"),
        (("search", "lts", "--trials", "9"), "--trials does not apply to lts"),
        (("search", "par", "--trials", "9"), "--budget and --trials do not apply"),
    ],
)
def test_senseless_workers_and_budgets_get_one_sentence(
    words: tuple[str, ...], says: str, tmp_path: Path, in_process: InProcess
) -> None:
    done = in_process(*words, folder=tmp_path)
    assert done.returncode == 2
    assert says in done.stderr
    assert "Traceback" not in done.stderr
    assert not list(tmp_path.iterdir())


def test_some_of_what_has_names_are_chosen_by_name() -> None:
    made: Any = recipe("dartformer", "smoke", changes=["encoders.blocks=local, linear"])
    assert made.encoders.kinds == ("linear", "local")
    made = recipe("autodistil", "smoke", changes=["parts=tiny"])
    assert [name for name, _ in made.parts] == ["tiny"]
    with pytest.raises(UnknownName, match="Did you mean 'linear'"):
        recipe("dartformer", "smoke", changes=["encoders.blocks=linaer"])
    with pytest.raises(InputError, match="names none"):
        recipe("dartformer", "smoke", changes=["encoders.blocks="])


def test_the_space_of_lts_is_a_name_or_a_file(tmp_path: Path) -> None:
    assert recipe("lts", "smoke", changes=["space=lts-xl"]).make_space().name == "lts-xl"
    small = recipe("lts", "smoke").make_space()
    write_space(tmp_path / "own.json", small)
    made = recipe("lts", "smoke", changes=[f"space={tmp_path / 'own.json'}"])
    assert made.make_space().name == small.name
    assert made.changed == (f"space={tmp_path / 'own.json'}",)
    with pytest.raises(UnknownName, match="Did you mean 'lts-xl'"):
        recipe("lts", "smoke", changes=["space=lts-lx"])
