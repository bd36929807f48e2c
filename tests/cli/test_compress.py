"""What a user types, and what they read: one sentence for each mistake, a table at the end."""

from pathlib import Path

import pytest
from tests.cli_helpers import InProcess
from tests.distil.conftest import ENCODER, taught
from tests.use.test_loaded import classify_file, span_file

from formwright.distil.limits import Limit, family
from formwright.errors import InputError
from formwright.testing.clock import counted_clock

QUICK = ["--steps", "3", "--set", "blocks.training.steps=1", "--set", "blocks.batches=2", "--set",
         "blocks.held=1", "--set", "blocks.batch_tokens=96", "--set", "blocks.rounds=0", "--set",
         "random=0", "--set", "measuring=0.01"]  # fmt: skip


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("model")
    return taught(folder, classify_file(folder), ENCODER).folder


def test_a_family_ends_in_a_table_and_a_model(
    model: Path, tmp_path: Path, in_process: InProcess
) -> None:
    words = ["compress", str(model), "--speedup", "1.3", "--speedup", "1.6", "--out", "run", *QUICK]
    with counted_clock():
        done = in_process(*words, folder=tmp_path)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0].startswith("teacher: 4 sub-layers, 16 wide")
    assert sum(line.strip().startswith("found") for line in lines) == 2
    assert all(len(line) <= 80 for line in lines), max(lines, key=len)
    assert (tmp_path / "run" / "best" / "model.safetensors").exists()
    page = (tmp_path / "run" / "report.html").read_text()
    assert "Students of the teacher" in page
    assert "Which layers survive" in page
    assert in_process("predict", "run", "red green").returncode == 0
    again = in_process(*words)
    assert again.returncode == 0
    assert "training blocks" not in again.stdout


def test_what_happens_can_be_logged(model: Path, tmp_path: Path, in_process: InProcess) -> None:
    pytest.importorskip("tensorboard")
    words = ["compress", str(model), "--speedup", "1.3", "--out", "run", "--log", "tensorboard"]
    with counted_clock():
        done = in_process(*words, *QUICK, folder=tmp_path)
    assert done.returncode == 0, done.stderr
    assert list((tmp_path / "run" / "tensorboard").rglob("events*"))


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--speedup", "1"], "asks for no faster model"),
        (["--max-params", "7"], "the smallest possible"),
        (["--max-drop", "lots"], "is no share of the quality"),
        (["--method", "autodestil"], "is not known"),
        (["--method", "fft"], "holds no BERT that this search can cut"),
        (["--max-latency", "fast"], "is no quantity"),
        (["--log", "tensorbord"], "Did you mean 'tensorboard'"),
        (["--task", "classify:nowhere.csv"], "nowhere.csv"),
    ],
)
def test_mistakes_are_told_in_one_sentence(
    model: Path, tmp_path: Path, in_process: InProcess, words: list[str], sentence: str
) -> None:
    done = in_process("compress", str(model), *words, "--out", "run", folder=tmp_path)
    assert done.returncode == 2
    assert sentence in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
    assert not (tmp_path / "run").exists()


def test_a_folder_without_a_model_and_a_task_that_does_not_fit(
    model: Path, tmp_path: Path, in_process: InProcess
) -> None:
    done = in_process("compress", "nothing", "--speedup", "2", folder=tmp_path)
    assert done.returncode == 2
    assert "There is no folder nothing" in done.stderr
    done = in_process("compress", str(model), "--task", span_file(tmp_path), folder=tmp_path)
    assert done.returncode == 2
    assert "special symbol" in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


def test_limits_of_one_kind_make_a_family() -> None:
    found = family((2, 3), params=(5e6,))
    assert [limit.text for limit in found] == ["speedup=2,params=5e+06", "speedup=3,params=5e+06"]
    assert found[0].most({"latency": 10.0, "params": 9e6}) == {"latency": 5.0, "params": 5e6}
    assert Limit.read("latency=5").words == "at most 5 ms"
    with pytest.raises(InputError, match="is no limit of a student"):
        Limit.read("size=3")


def test_search_says_that_compress_is_a_verb(in_process: InProcess, tmp_path: Path) -> None:
    done = in_process("search", "compress", folder=tmp_path)
    assert done.returncode == 2
    assert "formwright compress MODEL" in done.stderr
