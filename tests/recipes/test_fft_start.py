"""Finding Fast Transformers from a model that a user has, ours or in Hugging Face's format."""

import json
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest
import torch
from tests.cli_helpers import InProcess

from formwright.arch import parse
from formwright.arch.counting import count
from formwright.arch.frame import Features, Frame, Tag
from formwright.errors import InputError
from formwright.estimate.training import known_task
from formwright.model import build, load_model, save_model, with_frame
from formwright.recipes.catalogue import recipe, recipe_of
from formwright.recipes.fft_search import baseline_model
from formwright.recipes.fft_space import Cut
from formwright.recipes.fft_start import cut_like, gates_of, gentle
from formwright.recipes.fft_weights import cut_into, merged
from formwright.study import Study
from formwright.study.outcome import read_outcome
from formwright.supernet import Supernet

TASK = "planted-sofar?length=12&symbols=4&train=400&valid=80&test=80"
FRAME = Frame(20, 12, Tag(5))
CUT = Cut(layers=2, width=16, heads=4, inner=32, head_parts=4, inner_parts=4)


def bert(folder: Path, vocab: int, *, length: int = 40, seed: int = 5) -> Path:
    """A model of 3 heads, written by us, that is longer than the task and has another head."""
    text = f"(sf)x2 in bert(24, heads=3, inner=48) for frame({vocab}, {length}, features)"
    return save_model(build(parse(text), seed=seed), folder)


def vocabulary() -> int:
    return known_task(TASK).frame.vocab


def begun(folder: Path, name: str = "fft-do") -> Any:
    made: Any = recipe(name, "smoke", task=TASK, start=str(folder))
    return replace(made, target=None)


def test_a_cut_takes_the_sizes_of_the_model_and_is_as_fine_as_they_allow(tmp_path: Path) -> None:
    folder = str(bert(tmp_path, 20))
    found = cut_like(folder, FRAME, CUT)
    assert (found.layers, found.width, found.heads, found.inner) == (2, 24, 3, 48)
    assert (found.head_parts, found.inner_parts) == (1, 4)  # 4 does not divide 3 heads


def test_members_cut_from_the_whole_compute_what_its_parts_compute() -> None:
    torch.manual_seed(0)
    whole = build(CUT.baseline(FRAME)).double()
    with torch.no_grad():
        for weight in whole.parameters():
            weight.add_(torch.randn_like(weight) * 0.2)
    supernet = Supernet(CUT.components(FRAME)).double().eval()
    cut_into(supernet, whole, CUT)
    space, tokens = CUT.members(FRAME), torch.randint(20, (2, 9))
    for seed in range(6):
        decisions = space.sample(Random(seed))
        gates = gates_of(CUT, decisions)
        model = merged(supernet, gates, CUT).eval()
        assert count(model.arch).params == count(space.resolve(decisions)).params
        with supernet.gated(gates):
            torch.testing.assert_close(model(tokens), supernet(tokens), rtol=0, atol=1e-9)


def test_rates_are_those_that_trained_weights_survive() -> None:
    training = recipe("fft", "small").training  # type: ignore[attr-defined]
    assert gentle(training, 768).lr == pytest.approx(5e-5)
    assert gentle(training, 384).lr == pytest.approx(1e-4)
    assert gentle(training, 8).lr == training.lr


def test_a_search_begins_at_the_users_model(tmp_path: Path) -> None:
    made = begun(bert(tmp_path / "model", vocabulary()))
    study = made.begin(tmp_path / "run")
    assert made.conduct(study) == "exhausted"
    trials = Study.open(tmp_path / "run").trials
    first, drawn = trials
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
    none.conduct(none.begin(tmp_path / "run"))
    tokens = torch.randint(vocabulary(), (2, 9))
    theirs, ours = load_model(folder), load_model(baseline_model(tmp_path / "run"))
    torch.testing.assert_close(ours.features(tokens)[0], theirs(tokens))


def test_a_stopped_search_goes_on_to_the_same_trials(tmp_path: Path) -> None:
    made = begun(bert(tmp_path / "model", vocabulary()))
    made.conduct(made.begin(tmp_path / "once"))
    again = tmp_path / "again"
    for patience in (2, 5, 25, 45):
        asked = iter(range(10_000))
        made.conduct(made.begin(again), stop=lambda a=asked, p=patience: next(a) > p)
    made.conduct(made.begin(again))
    free = "tokens_per_second"
    rows = [
        [
            (t.arch, t.note, {k: v for k, v in t.values.items() if k != free})
            for t in Study.open(folder).trials
        ]
        for folder in (tmp_path / "once", again)
    ]
    assert rows[0] == rows[1]


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
    assert "--from applies to the recipe fft" in done.stderr
