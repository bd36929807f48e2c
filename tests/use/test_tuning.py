"""A trained model goes on with a task of its own: tokeniser, weights, numbers."""

from pathlib import Path

import pytest
import torch
from tests.cli_helpers import InProcess
from tests.use.test_loaded import classify_file, sentence, tag_file, trained, written

from formwright.errors import InputError
from formwright.model import load_model
from formwright.train import TrainConfig
from formwright.train.optim import SCALE, make_optimiser
from formwright.use import load
from formwright.use.tuning import Tuning, task_for


def test_another_task_is_read_with_the_models_own_tokenizer(tmp_path: Path) -> None:
    _, folder = trained(classify_file(tmp_path), tmp_path)
    rows = [f"unheard {sentence(n)},{'uv'[n % 2]}" for n in range(60)]
    other = written(tmp_path, "other.csv", ["text,label", *rows])
    tuning = Tuning.of(folder, f"classify:{other}")
    theirs = load(folder).reading.tokenizer.state()
    found = tuning.task.reading()
    assert found is not None
    assert found.tokenizer.state() == theirs
    begun = tuning.begun(TrainConfig(), seed=3)
    before = load_model(folder).state_dict()
    for name, tensor in begun.state_dict().items():
        if not name.startswith("head."):
            assert torch.equal(tensor, before[name]), name


def test_the_same_task_goes_on_with_its_head(tmp_path: Path) -> None:
    name = classify_file(tmp_path)
    _, folder = trained(name, tmp_path)
    begun = Tuning.of(folder, name).begun(TrainConfig(), seed=3)
    before = load_model(folder).state_dict()
    assert all(torch.equal(tensor, before[key]) for key, tensor in begun.state_dict().items())


def test_a_task_that_needs_other_symbols_is_refused(tmp_path: Path) -> None:
    _, folder = trained(tag_file(tmp_path), tmp_path)
    rows = [f"{sentence(n)},{sentence(n + 1)},{'uv'[n % 2]}" for n in range(60)]
    pairs = written(tmp_path, "pairs.csv", ["text_a,text_b,label", *rows])
    with pytest.raises(InputError, match="without the special symbol 'separate'"):
        Tuning.of(folder, f"classify:{pairs}")


def test_the_usual_numbers_follow_from_the_data(tmp_path: Path) -> None:
    name = classify_file(tmp_path)
    _, folder = trained(name, tmp_path)
    tuning = Tuning.of(folder, name)
    config = tuning.config(None, None)
    each = tuning.task.sampler(batch_tokens=config.batch_tokens, seed=0).steps_per_epoch
    assert config.steps == 3 * each
    assert config.keep_best
    assert tuning.config(200, None).warmup == 12


def test_lower_layers_learn_more_slowly(tmp_path: Path) -> None:
    _, folder = trained(classify_file(tmp_path), tmp_path, layers="(sf)x2")
    model = load_model(folder)
    named = {id(p): name for name, p in model.named_parameters()}
    for kind in ("adamw", "muon"):
        made = make_optimiser(model, TrainConfig(optimiser=kind, layer_decay=0.5))  # type: ignore[arg-type]
        scale = {named[id(p)]: g[SCALE] for g in made.param_groups for p in g["params"]}
        assert scale.keys() == set(named.values())
        layers = [
            {v for k, v in scale.items() if k.startswith(f"stacks.layers.layers.{i}.")}
            for i in range(4)
        ]
        assert layers == [{0.125}, {0.25}, {0.5}, {1.0}]
        assert {v for k, v in scale.items() if k.startswith("head.")} == {1.0}
        assert {v for k, v in scale.items() if k.startswith("embedding.")} == {0.0625}
    with pytest.raises(InputError, match=r"layer_decay=0\.0 must lie above 0"):
        TrainConfig(layer_decay=0.0)


def test_train_eval_and_predict_from_a_folder(tmp_path: Path, in_process: InProcess) -> None:
    name = classify_file(tmp_path)
    trained(name, tmp_path)
    words = ("train", "run", "--task", name, "--steps", "3", "--out", "more")
    done = in_process(*words, folder=tmp_path)
    assert done.returncode == 0, done.stderr
    done = in_process("eval", "more", "--split", "valid")
    assert "accuracy" in done.stdout
    assert in_process("predict", "more", "red green").returncode == 0
    done = in_process(*words[:-1], "fresh", "--new")
    assert done.returncode == 0, done.stderr
    old, new = (load_model(tmp_path / at).state_dict() for at in ("run/model", "more/seed-0/model"))
    fresh = load_model(tmp_path / "fresh/seed-0/model").state_dict()
    key = "stacks.layers.layers.0.inner.query.weight"
    assert (new[key] - old[key]).abs().max() < (fresh[key] - old[key]).abs().max()


def test_a_folder_that_has_no_task_is_asked_for_one(tmp_path: Path, in_process: InProcess) -> None:
    _, folder = trained(classify_file(tmp_path), tmp_path)
    (folder / "task.json").unlink()
    done = in_process("eval", str(folder))
    assert done.returncode == 2
    assert "name it with --task" in done.stderr


def test_texts_are_no_longer_than_learned_positions(tmp_path: Path) -> None:
    name = classify_file(tmp_path)
    _, folder = trained(name, tmp_path, layers="sf in bert(16)")
    longest = load_model(folder).frame.length
    rows = [f"{' '.join(sentence(n) for _ in range(9))},{'uv'[n % 2]}" for n in range(60)]
    other = written(tmp_path, "long.csv", ["text,label", *rows])
    task = task_for(f"classify:{other}", folder, load_model(folder).arch)
    assert task.frame.length == longest
