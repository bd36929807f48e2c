"""Finding Fast Transformers from a model that a user has, ours or in Hugging Face's format."""

import json
from dataclasses import replace
from functools import cache
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import pytest
import torch
from tests.cli_helpers import InProcess

from formwright.arch import parse
from formwright.arch.frame import Features, Frame
from formwright.errors import InputError
from formwright.estimate.training import known_task
from formwright.model import build, load_model, save_model, with_frame
from formwright.recipes.fft import baseline_model
from formwright.recipes.life import begin, conduct
from formwright.recipes.recipe import recipe
from formwright.recipes.reopen import recipe_of
from formwright.study import Study
from formwright.study.outcome import read_outcome
from formwright.testing import RecipeTestCase

TASK = "planted-sofar?length=12&symbols=4&train=400&valid=80&test=80"


def bert(folder: Path, vocab: int, *, length: int = 40, seed: int = 5) -> Path:
    """A model of 3 heads, written by us, that is longer than the task and has another head."""
    text = f"(sf)x2 in bert(24, heads=3, inner=48) for frame({vocab}, {length}, features)"
    return save_model(build(parse(text), seed=seed), folder)


def vocabulary() -> int:
    return known_task(TASK).frame.vocab


def begun(folder: Path, name: str = "fft-do") -> Any:
    made: Any = recipe(name, "smoke", task=TASK, start=str(folder))
    return replace(made, target=None)


def test_rates_are_those_that_trained_weights_survive(tmp_path: Path) -> None:
    usual: Any = recipe("fft-do", "smoke", task=TASK)
    wide = parse(f"sf in bert(384, heads=4, inner=16) for frame({vocabulary()}, 12, features)")
    folder = save_model(build(wide), tmp_path / "wide")
    assert begun(folder).training.lr == pytest.approx(1e-4)  # twice that of BERT base
    narrow = begun(bert(tmp_path / "narrow", vocabulary()))
    assert narrow.training.lr == pytest.approx(5e-5 * 768 / 24)
    assert narrow.training.lr < usual.training.lr
    assert narrow.search.lr == usual.search.lr, "which was lower anyway"


def test_a_search_begins_at_the_users_model(tmp_path: Path) -> None:
    made = begun(bert(tmp_path / "model", vocabulary()))
    study = begin(made, tmp_path / "run")
    assert conduct(made, study) == "trials"
    trials = Study.open(tmp_path / "run").trials
    first, drawn = (trial for trial in trials if not trial.final)
    assert first.note == "do"  # which is not trained from new weights
    assert first.values["accuracy"] == first.values["inherited_accuracy"]
    assert drawn.values["steps"] == made.search.steps + made.settling.steps
    assert load_model(baseline_model(tmp_path / "run")).frame == known_task(TASK).frame
    assert "new ones" not in read_outcome(tmp_path / "run").headline
    again: Any = recipe_of(Study.open(tmp_path / "run"))
    assert (again.start, again.cut) == (made.start, made.cut)


def test_the_baseline_has_the_users_weights_before_it_is_trained(tmp_path: Path) -> None:
    folder = bert(tmp_path / "model", vocabulary())
    made = begun(folder)
    none = replace(made, training=made.training.replace(lr=1e-12, weight_decay=0.0))
    conduct(none, begin(none, tmp_path / "run"))
    tokens = torch.randint(vocabulary(), (2, 9))
    theirs, ours = load_model(folder), load_model(baseline_model(tmp_path / "run"))
    torch.testing.assert_close(ours.features(tokens)[0], theirs(tokens))


def test_a_model_in_the_home_is_found_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    made = begun(bert(tmp_path / "model", vocabulary()))
    study = begin(made, tmp_path / "run")
    assert study.meta["start"] == "~/model"
    found: Any = recipe_of(study)
    assert (found.start, found.cut) == (made.start, made.cut)


def test_what_cannot_be_the_beginning_is_refused_at_once(tmp_path: Path) -> None:
    other = bert(tmp_path / "other", vocabulary() + 1)
    with pytest.raises(InputError, match=r"symbols and the task .* own tokenizer"):
        begun(other)
    short = bert(tmp_path / "short", vocabulary(), length=6)
    with pytest.raises(InputError, match="has positions for 6 tokens"):
        begun(short)
    gpt2 = build(parse(f"(sf)x2 in gpt2(16, heads=2) for frame({vocabulary()}, 12, lm)"))
    with pytest.raises(InputError, match="holds no BERT that this search can cut"):
        begun(save_model(gpt2, tmp_path / "gpt2"))
    with pytest.raises(InputError, match="holds no model"):
        begun(tmp_path / "nowhere")
    with pytest.raises(InputError, match="begins with new weights; --from applies to fft"):
        recipe("par", "smoke", start=str(other))


def test_the_command_line_takes_folders_of_hugging_faces_format(
    in_process: InProcess, tmp_path: Path
) -> None:
    transformers = pytest.importorskip("transformers")
    config = transformers.BertConfig(
        vocab_size=vocabulary(), hidden_size=16, num_hidden_layers=2, num_attention_heads=2,
        intermediate_size=32, max_position_embeddings=20,
    )  # fmt: skip
    theirs = transformers.BertModel(config).eval()
    theirs.save_pretrained(tmp_path / "bert")
    tokens = torch.randint(vocabulary(), (2, 9))
    ours = with_frame(load_model(tmp_path / "bert"), Frame(vocabulary(), 12, Features())).eval()
    torch.testing.assert_close(ours(tokens), theirs(tokens).last_hidden_state, rtol=0, atol=1e-5)
    out = str(tmp_path / "run")
    common = ["search", "fft-do", "--preset", "smoke", "--task", TASK, "--out", out]
    done = in_process(*common, "--from", str(tmp_path / "bert"))
    assert done.returncode == 0, done.stderr
    assert "do at price" in done.stdout
    again = in_process("resume", out, "--json")
    assert json.loads(again.stdout)["headline"] == read_outcome(Path(out)).headline
    refused = in_process(*common)
    assert refused.returncode == 2
    assert "holds another search: its start is" in refused.stderr


def test_a_plain_search_says_where_it_applies(in_process: InProcess, tmp_path: Path) -> None:
    done = in_process("search", "--from", str(tmp_path))
    assert done.returncode == 2
    assert "--from applies to the recipes fft" in done.stderr


@cache
def model() -> str:
    """The folder of one and the same model."""
    return str(bert(Path(mkdtemp()), vocabulary()))


class TestFromAModel(RecipeTestCase):
    name, task = "fft-do", TASK
    kills = ()

    def made(self) -> Any:
        return recipe(self.name, self.preset, task=self.task, start=model())
