"""The life of a compression: stopped, killed, continued, asked for more, refused."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.distil.conftest import DECODER, ENCODER, taught
from tests.use.test_loaded import classify_file, text_file

from formwright.errors import InputError
from formwright.model import load_model
from formwright.recipes.compress import Compress
from formwright.recipes.life import begin, conduct
from formwright.recipes.reopen import recipe_of
from formwright.recipes.students import narrower
from formwright.study import Study
from formwright.study.outcome import read_outcome
from formwright.testing import RecipeTestCase
from formwright.testing.clock import counted_clock
from formwright.testing.recipes import Run, killed
from formwright.use import load

QUICK = (
    "blocks.training.steps=2",
    "blocks.batches=2",
    "blocks.held=1",
    "blocks.batch_tokens=96",
    "blocks.rounds=1",
    "training.checkpoint_every=2",
    "measuring=0.01",
)


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """A teacher of each kind: its folder and its task."""
    encoder, decoder = (tmp_path_factory.mktemp(name) for name in ("encoder", "decoder"))
    return {
        "encoder": taught(encoder, classify_file(encoder), ENCODER),
        "decoder": taught(decoder, text_file(decoder), DECODER),
    }


def made(teacher: Any, *limits: str, **more: Any) -> Compress:
    found = Compress(
        name="compress-blocks",
        task=teacher.task.name,
        model=str(teacher.folder),
        limits=limits or ("speedup=1.5",),
        steps=4,
        **more,
    )
    for change in QUICK:
        found = found.with_setting(change)
    return found


@pytest.mark.usefixtures("teacher_of_class")
class TestCompress(RecipeTestCase):
    """All laws of a recipe; killing is tested below, since it has a verb of its own."""

    other = "teaching.hidden=0.5"
    kills = ()
    stops = (0.0, 0.5, 0.9)
    same = ("blocks/*.safetensors", "phases/found-*.json", "phases/scores-*.json")
    teacher: Any

    @pytest.fixture(scope="class", autouse=True)
    @classmethod
    def teacher_of_class(cls, folders: dict[str, Any]) -> None:
        cls.teacher = folders["encoder"]

    @pytest.fixture(scope="class")
    @classmethod
    def whole(
        cls, tmp_path_factory: pytest.TempPathFactory, _clock: None, teacher_of_class: None
    ) -> Run:
        return Run(cls().made(), tmp_path_factory.mktemp("whole"))

    def made(self) -> Compress:
        return made(self.teacher)

    def test_killed_it_goes_on_to_the_same_end(self, whole: Run, tmp_path: Path) -> None:
        teacher, folder = self.teacher, tmp_path / "run"
        words = ["compress", str(teacher.folder), "--task", teacher.task.name, "--speedup", "1.5",
                 "--steps", "4", "--method", "blocks"]  # fmt: skip
        words += [word for change in QUICK for word in ("--set", change)]
        killed(words, folder, len(whole.renames) // 2)
        assert not read_outcome(folder).headline
        self.assert_same_end(Run(self.made(), folder), whole)


def run(recipe: Compress, folder: Path) -> Study:
    study = begin(recipe, folder)
    assert conduct(recipe, study) != "stopped"
    return study


def test_a_causal_model_is_compressed_and_answers(folders: dict[str, Any], tmp_path: Path) -> None:
    with counted_clock():
        study = run(made(folders["decoder"], random=0), tmp_path)
    outcome = read_outcome(tmp_path)
    assert outcome.chosen is not None
    roles = {trial.details["role"] for trial in study.trials}
    assert {"found", "designed by hand"} <= roles
    best = load(tmp_path / "best")
    assert best.predict("red green")
    assert load_model(tmp_path / "best").arch.backbone.NAME == "decoder"
    values = study.trials[0].values
    assert 0 <= values["agreement"] <= 1
    assert values["latency"] <= outcome.baseline.values["latency"] / 1.5 * 1.02  # type: ignore[union-attr]


def test_more_limits_use_what_is_there(folders: dict[str, Any], tmp_path: Path) -> None:
    teacher = folders["encoder"]
    with counted_clock():
        first = run(made(teacher, random=0), tmp_path)
        count = len(first.trials)
        blocks = {p: p.stat().st_mtime_ns for p in (tmp_path / "blocks").iterdir()}
        both = run(made(teacher, "speedup=1.3,params=4000", random=0), tmp_path)
    assert len(both.trials) > count
    assert [t.number for t in both.trials if t.details["limit"] == "speedup=1.5"] == [*range(count)]
    assert blocks == {p: p.stat().st_mtime_ns for p in (tmp_path / "blocks").iterdir()}
    again = recipe_of(both)
    assert isinstance(again, Compress)
    assert again.model == str(teacher.folder)


def test_the_smallest_possible_is_named(folders: dict[str, Any], tmp_path: Path) -> None:
    teacher = folders["encoder"]
    with pytest.raises(InputError, match=r"params at most 10: the smallest possible.* has [\d,]+"):
        begin(made(teacher, "params=10"), tmp_path / "a")
    assert not (tmp_path / "a").exists()
    with counted_clock(), pytest.raises(InputError, match=r"latency at most .* smallest possible"):
        run(made(teacher, "speedup=1000"), tmp_path / "b")


def test_a_model_without_the_head_is_tuned_first(folders: dict[str, Any], tmp_path: Path) -> None:
    teacher = folders["encoder"]
    rows = Path(teacher.task.name.removeprefix("classify:")).read_text().replace(",a", ",z")
    (tmp_path / "other.csv").write_text(rows)
    said: list[str] = []
    recipe = replace(made(teacher, random=0), task=f"classify:{tmp_path / 'other.csv'}")
    with counted_clock():
        study = begin(recipe, tmp_path / "run")
        conduct(recipe, study, say=said.append)
    assert any("tuned first" in text for text in said)
    assert (tmp_path / "run" / "teacher" / "model" / "model.safetensors").exists()
    assert read_outcome(tmp_path / "run").chosen is not None


def test_a_narrower_model_keeps_its_share(folders: dict[str, Any]) -> None:
    from formwright.arch.counting import count

    for teacher in folders.values():
        arch = teacher.model.arch
        found = narrower(arch, 0.5)
        assert found is not None
        assert count(found).flops < count(arch).flops
        assert len(found.layers.layers) == len(arch.layers.layers)


def test_the_found_student_is_what_was_chosen(folders: dict[str, Any], tmp_path: Path) -> None:
    """The model in ``best`` has the layers that the programme chose."""
    with counted_clock():
        study = run(made(folders["encoder"], random=0), tmp_path)
    arch = load_model(tmp_path / "best").arch
    chosen = read_outcome(tmp_path).chosen
    assert chosen is not None
    assert arch == study.member(study.trials[chosen])
    assert torch.is_tensor(next(load_model(tmp_path / "best").parameters()))
