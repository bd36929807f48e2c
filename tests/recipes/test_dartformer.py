"""DARTFormer: scores by masking against plain formulas, the three algorithms, and being killed."""

import json
import math
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
import torch
from tests.cli_helpers import InProcess
from tests.helpers import inputs_for, says_the_same_at_once

from formwright.arch import Attention, Classify, Encoder, Match
from formwright.arch.counting import count as counts_of
from formwright.arch.mechanism import Linformer, Performer
from formwright.arch.site import Site
from formwright.errors import InputError
from formwright.estimate.training import Training, known_task
from formwright.model import build, load_model
from formwright.ops.base import Builder, Context
from formwright.recipes import dartformer
from formwright.recipes.blocks import (
    Alive,
    Mask,
    Rule,
    ScheduledPolicy,
    Stage,
    SupernetTrainer,
    read_stages,
    run_stages,
)
from formwright.recipes.catalogue import recipe
from formwright.recipes.dartformer_spaces import TINY, Encoders, all_heads
from formwright.recipes.masking import difference, rightness
from formwright.strategy.gradient import SupernetSearch, UniformPolicy
from formwright.study import Study
from formwright.study.outcome import read_outcome
from formwright.supernet import Gates, Supernet
from formwright.tasks import load_task
from formwright.train import TrainConfig
from formwright.train.checkpoint import read_latest
from formwright.zoo import get
from formwright.zoo.dartformer import MIXES, NORM

VARIANTS = tuple(dartformer.NAMES)
SMALL_TASK = "listops-tiny?pool=cls&train=200&valid=40&test=40"


def tiny(task: str = SMALL_TASK, *, heads: int = 2, layers: int = 1) -> Encoders:
    return Encoders(
        backbone=Encoder(16, norm=NORM, init="lra"),
        frame=known_task(task).frame,
        blocks=all_heads(TINY, heads),
        inner=16,
        layers=layers,
    )


def run(model: torch.nn.Module, inputs: dict[str, Any]) -> torch.Tensor:
    with torch.no_grad():
        return model(**inputs)


# --- invariants of the supernet -----------------------------------------------------------


@pytest.mark.parametrize("length", [16, 30])
@pytest.mark.parametrize("kind", sorted(set(TINY) - {"bigbird"}))
def test_mechanisms_differ_from_dense_attention_at_the_lengths_used(kind: str, length: int) -> None:
    blocks = dict(all_heads(TINY, 2))
    dense = Attention(2, bias=False)
    x = torch.randn(2, length, 32, generator=torch.Generator().manual_seed(0))
    site = Site(width=32, longest=30)
    answers = []
    for node in (blocks[kind], dense):
        torch.manual_seed(1)
        layer = Builder().build(node, site).eval()
        with torch.no_grad():
            for name, weight in layer.named_parameters():
                shared = name.split(".")[0] in ("query", "key", "value", "out")
                weight.copy_(
                    torch.randn(weight.shape, generator=_chance(name)) if shared else weight
                )
            answers.append(layer(x, Context()))
    assert (answers[0] - answers[1]).abs().max() > 0.01


def _chance(name: str) -> torch.Generator:
    return torch.Generator().manual_seed(sum(map(ord, name)))


@pytest.mark.parametrize("kind", list(TINY))
def test_one_live_block_is_the_homogeneous_model_to_the_last_bit(kind: str) -> None:
    encoders = tiny()
    supernet = Supernet(encoders.block_space(), seed=3).eval()
    inputs = inputs_for(supernet)
    option = encoders.kinds.index(kind)
    row = [float(i == option) for i in range(9)]
    plain = build(encoders.layer_wise().resolve(encoders.homogeneous(kind, mixed=False))).eval()
    theirs = {
        name.replace(f"inner.branches.{option}.", "inner."): value
        for name, value in supernet.state_dict().items()
        if ".branches." not in name or f".branches.{option}." in name
    }
    plain.load_state_dict(theirs)
    with supernet.gated(Gates({"blocks": row})):
        assert torch.equal(run(supernet, inputs), run(plain, inputs))


@pytest.mark.parametrize("gone", range(9))
def test_masking_with_renormalisation_is_building_without_the_block(gone: int) -> None:
    encoders = tiny()
    supernet = Supernet(encoders.block_space(), seed=1).double().eval()
    inputs = inputs_for(supernet)
    with supernet.gated(UniformPolicy(supernet).gates_without("blocks", gone)):
        masked = run(supernet, inputs)
    blocks = tuple(pair for i, pair in enumerate(encoders.blocks) if i != gone)
    fewer = Supernet(replace(encoders, blocks=blocks).block_space()).double().eval()
    state, taken = {}, [i for i in range(9) if i != gone]
    for name in fewer.state_dict():
        before, found, after = name.partition(".branches.")
        index, dot, rest = after.partition(".")
        source = f"{before}{found}{taken[int(index)]}{dot}{rest}" if found else name
        state[name] = supernet.state_dict()[source]
    fewer.load_state_dict(state)
    assert torch.equal(run(fewer, inputs), masked)


def test_a_block_that_puts_nothing_out_is_worth_exactly_nothing_without_renormalisation(
    tmp_path: Path,
) -> None:
    encoders = tiny()
    supernet = Supernet(encoders.block_space())
    mix: Any = supernet.stacks["layers"].layers[0].inner
    local = encoders.kinds.index("local")
    with torch.no_grad():
        mix.branches[local].out.weight.zero_()
    config = TrainConfig(steps=2, batch_tokens=256)
    trainer = SupernetTrainer(
        supernet, known_task(SMALL_TASK), config, after=1, looks=1, folder=tmp_path,
        renormalise=False,
    )  # fmt: skip
    alive = {"blocks": tuple(range(9))}
    answers = trainer.answers(alive, [None, ("blocks", local)])
    assert answers is not None
    whole, without = answers
    assert len(whole) == 40
    found = difference(whole, without)
    assert (found.mean, found.gained, found.lost) == (0.0, 0, 0)


def test_nine_blocks_of_the_paper_have_the_parameters_of_the_arena() -> None:
    # 4 E^2 each, but Linformer 16 n more, Longformer 7 E^2, Reformer 2 E^2, Synthesizer 64 H n more
    supernets = {"listops": 10_755_856, "text": 9_703_568, "matching": 1_694_208}
    for task, expected in supernets.items():
        with torch.device("meta"):
            supernet = Supernet(Encoders.published(task).block_space())
        mix: Any = supernet.stacks["layers"].layers[0].inner
        assert sum(p.numel() for p in mix.parameters()) == expected


def test_published_mixes_and_orders_are_members_of_the_spaces() -> None:
    for name, (task, kept, _) in MIXES.items():
        encoders = Encoders.published(task)
        space = encoders.mixed()
        mix = space.resolve(encoders.mix([kind for kind in kept for _ in range(kept[kind])]))
        assert mix == get(f"dartformer-{name}").build()
    encoders = Encoders.published("text")
    assert encoders.layer_wise().contains(get("dartformer-text-layer-wise").build())
    assert encoders.layer_wise().contains(get("dartformer-text-performer").build())
    assert encoders.full() == get("dartformer-text-full").build()


@pytest.mark.parametrize("space", ["block_space", "layers_space"])
def test_remembered_answers_are_those_of_every_block_run_anew(space: str) -> None:
    supernet = Supernet(getattr(tiny(layers=2), space)()).eval()
    one, other = inputs_for(supernet), inputs_for(supernet)
    other["tokens"] = other["tokens"].flip(0)
    policy = UniformPolicy(supernet)
    name = next(iter(supernet.slots))  # what follows it gets another input under each mask
    masks = [policy.all_gates(), *(policy.gates_without(name, i) for i in range(9))]
    runs = [0, 0]

    def count(*_: Any) -> None:
        runs[0] += 1

    mix: Any = supernet.stacks["layers"].layers[0].inner
    mix.branches[0].register_forward_hook(count)
    for inputs in (one, other):
        anew = []
        for gates in masks:
            with supernet.gated(gates):
                anew.append(run(supernet, inputs))
        runs[0] = 0
        with supernet.remembering():
            for gates, expected in zip(masks, anew, strict=True):
                with supernet.gated(gates):
                    assert torch.equal(run(supernet, inputs), expected)
        assert runs[0] == 1


# --- scores -------------------------------------------------------------------------------


def test_a_score_is_the_accuracy_that_is_lost_and_its_error_that_of_paired_answers() -> None:
    rng = np.random.default_rng(0)
    whole = (rng.random(500) < 0.6).astype(float)
    flips = rng.random(500) < 0.1
    masked = np.where(flips, 1 - whole, whole)
    found = difference(whole, masked)
    lost = int(((whole == 1) & (masked == 0)).sum())  # right before, wrong without the block
    won = int(((whole == 0) & (masked == 1)).sum())
    assert found.mean == pytest.approx(whole.mean() - masked.mean())
    assert (found.gained, found.lost) == (lost, won)
    mcnemar = math.sqrt(lost + won - (lost - won) ** 2 / 500) / 500
    assert found.error == pytest.approx(mcnemar, rel=0.02)
    unpaired = math.sqrt(2 * 0.6 * 0.4 / 500)
    assert found.error < unpaired / 2


def test_the_error_bar_holds_what_it_promises() -> None:
    rng, outside = np.random.default_rng(1), 0
    for _ in range(400):  # masking that breaks 6 % of the answers and mends 4 %
        kind = rng.random(300)
        d = difference((kind < 0.06).astype(float), ((kind > 0.06) & (kind < 0.10)).astype(float))
        outside += abs(d.mean - 0.02) > 2 * d.error
    assert 0.01 < outside / 400 < 0.09  # 4.6 % for a normal distribution


def test_a_handful_of_examples_is_never_certain() -> None:
    whole = np.zeros(1000)
    for count, certain in ((1, False), (4, False), (6, True)):
        better = whole.copy()
        better[:count] = 1
        assert difference(better, whole).certain is certain
    assert not difference(whole, whole).certain


def test_tags_are_right_by_the_share_of_their_text() -> None:
    task = load_task("planted-tag?train=50&valid=9")
    batch = next(task.batches("valid", batch_tokens=10_000))

    class Told:  # answers with the targets, but for the first half of the second text
        training = False

        def __call__(self, **inputs: Any) -> torch.Tensor:
            wanted = batch.targets.clone()
            wanted[1, :16] = (wanted[1, :16] + 1) % 4
            return torch.nn.functional.one_hot(wanted, 4).float()

    found = rightness(task, Told(), batch)  # type: ignore[arg-type]
    assert found.tolist() == [1.0, 0.5, *[1.0] * 7]


def test_a_task_without_right_and_wrong_is_refused() -> None:
    task = load_task("stdlib?length=16")
    batch = next(task.batches("valid", batch_tokens=64))
    with pytest.raises(InputError, match="right and wrong answers"):
        rightness(task, build(task.architecture("sf", 16)), batch)


def test_such_a_task_is_refused_before_anything_is_made(
    tmp_path: Path, in_process: InProcess
) -> None:
    out = tmp_path / "runs" / "lm"
    words = ("--preset", "smoke", "--task", "stdlib?length=16", "--out", str(out))
    done = in_process("search", "dartformer", *words)
    assert done.returncode == 2
    assert "right and wrong answers" in done.stderr
    assert "training" not in done.stdout
    assert list(tmp_path.iterdir()) == []


# --- the algorithms, with a trainer that knows the truth ----------------------------------


class Oracle:
    """Answers as if every live block gave away some examples: no training at all."""

    def __init__(self, worth: Mapping[str, Sequence[int]], examples: int = 2000) -> None:
        self.worth, self.examples, self.passes = worth, examples, 0
        self.advanced: list[int] = []

    def step(self, stage: int) -> int:
        return 10 * stage

    def advance(self, stages: Sequence[Stage]) -> bool:
        self.advanced.append(len(stages))
        return True

    def answers(self, alive: Alive, masks: Sequence[Mask]) -> list[np.ndarray]:
        self.passes += len(masks)
        found = []
        for mask in masks:
            blocks = ((name, option) for name, options in alive.items() for option in options)
            right = sum(
                self.worth[name][option] for name, option in blocks if (name, option) != mask
            )
            found.append((np.arange(self.examples) < right).astype(float))
        return found


def names(worth: Mapping[str, Sequence[int]]) -> dict[str, list[str]]:
    return {name: [f"b{i}" for i in range(len(row))] for name, row in worth.items()}


def shuffled(count: int, seed: int = 0) -> list[int]:
    return Random(seed).sample(range(count), count)


@pytest.mark.parametrize(("heads", "passes"), [(8, 2656), (4, 688)])
def test_pruning_ends_with_one_block_per_head_after_eight_removals_each(
    heads: int, passes: int, tmp_path: Path
) -> None:
    worth = {"heads": shuffled(9 * heads)}
    oracle = Oracle(worth, 4000)
    stages = run_stages(Rule(heads), names(worth), oracle, tmp_path)
    assert stages is not None
    assert len(stages) == 8 * heads + 1
    best = sorted(range(9 * heads), key=lambda i: -worth["heads"][i])[:heads]
    assert stages[-1].alive == {"heads": tuple(sorted(best))}
    assert oracle.passes == passes
    order = [stage.dropped for stage in stages[:-1]]
    worst = sorted(range(9 * heads), key=lambda i: worth["heads"][i])
    assert order == [("heads", (i,)) for i in worst[: 8 * heads]]


def test_layers_are_swept_first_to_last_until_one_block_is_left_in_each(tmp_path: Path) -> None:
    worth = {f"layer{i}": shuffled(9, i) for i in range(6)}
    oracle = Oracle(worth)
    stages = run_stages(Rule(1), names(worth), oracle, tmp_path)
    assert stages is not None
    assert len(stages) == 48 + 1
    assert oracle.passes == 312
    visits = [stage.dropped[0] for stage in stages[:-1] if stage.dropped is not None]
    assert visits == [f"layer{i}" for i in range(6)] * 8
    best = {name: (row.index(8),) for name, row in worth.items()}
    assert stages[-1].alive == best


@pytest.mark.parametrize(("keep", "kept"), [(1, (4,)), (4, (1, 3, 4, 7))])
def test_one_look_keeps_the_best(keep: int, kept: tuple[int, ...], tmp_path: Path) -> None:
    worth = {"blocks": (0, 50, 3, 40, 90, 2, 1, 60, 5)}
    oracle = Oracle(worth)
    stages = run_stages(Rule(keep, at_once=True), names(worth), oracle, tmp_path)
    assert stages is not None
    assert oracle.passes == 10
    assert oracle.advanced == [0]
    assert stages[-1].alive == {"blocks": kept}
    assert stages[0].scores["blocks"][4] == pytest.approx(90 / 2000)


def test_the_warning_comes_when_the_best_are_within_noise_and_only_then(tmp_path: Path) -> None:
    said: list[str] = []
    for place, (worth, certain) in enumerate([((300, 10, 5), True), ((13, 10, 5), False)]):
        row = {"blocks": worth}
        stages = run_stages(
            Rule(1, at_once=True), names(row), Oracle(row), tmp_path / str(place), say=said.append
        )
        assert stages is not None
        assert stages[0].certain is certain
        assert ("within noise" in stages[0].words) is not certain
    assert "Warning: b0 leads b1 by 0.15" in said[2]


def test_equal_scores_do_not_favour_the_first_block(tmp_path: Path) -> None:
    row = {"blocks": (0,) * 9}
    chosen = set()
    for seed in range(20):
        ends = [
            run_stages(
                Rule(1, at_once=True), names(row), Oracle(row), tmp_path / f"{seed}{n}", seed=seed
            )
            for n in "ab"
        ]
        assert ends[0] == ends[1]
        assert ends[0] is not None
        chosen.add(ends[0][-1].alive["blocks"])
    assert len(chosen) > 4


def test_a_record_cut_off_anywhere_goes_on_to_the_same_end(tmp_path: Path) -> None:
    worth = {"heads": shuffled(18)}
    whole = run_stages(Rule(2), names(worth), Oracle(worth), tmp_path / "whole")
    lines = (tmp_path / "whole" / "stages.jsonl").read_text().splitlines(keepends=True)
    for cut in (0, 1, 7, len(lines) - 1, len(lines)):
        folder = tmp_path / str(cut)
        folder.mkdir()
        (folder / "stages.jsonl").write_text("".join(lines[:cut]))
        oracle = Oracle(worth)
        assert run_stages(Rule(2), names(worth), oracle, folder) == whole
        assert (folder / "stages.jsonl").read_text() == "".join(lines)
        assert oracle.advanced == list(range(cut, 16))


def test_blocks_end_at_their_step_and_not_before() -> None:
    supernet = Supernet(tiny().block_space())
    stages = [
        Stage(0, {}, {}, "", step=5, dropped=("blocks", (2,))),
        Stage(1, {}, {}, "", step=8, dropped=("blocks", (0,))),
    ]
    policy = ScheduledPolicy(supernet, stages)
    for step, gone in ((9, {0, 2}), (4, set()), (5, {2}), (7, {2}), (8, {0, 2})):
        row = policy.gates(step, torch.Generator()).row("blocks")
        assert {i for i, gate in enumerate(row) if gate == 0} == gone


# --- whole runs ---------------------------------------------------------------------------


@pytest.mark.parametrize("variant", VARIANTS)
def test_the_smoke_preset_runs_the_whole_path(
    variant: str, tmp_path: Path, in_process: InProcess
) -> None:
    out = str(tmp_path / "run")
    done = in_process("search", dartformer.NAMES[variant], "--preset", "smoke", "--out", out)
    assert done.returncode == 0, done.stderr
    assert "within noise" in done.stdout  # six steps of training tell nothing
    made = dartformer.smoke(variant)
    study, lines = Study.open(Path(out)), _lines(Path(out))
    assert [line["stage"] for line in lines] == list(range(len(lines)))
    assert all({"stage", "alive", "scores", "words"} <= set(line) for line in lines)
    for line in lines[:-1]:
        for name, scores in line["scores"].items():
            assert sorted(map(int, scores)) == line["alive"][name]
    trials = study.trials
    assert all(trial.done for trial in trials)
    assert len(trials) in (made.expected, made.expected - 1)  # a mix may be one of the nine
    notes = [trial.note for trial in trials]
    assert notes[0].startswith("found: ")
    assert notes.count("random") == made.random
    kinds = len(made.encoders.kinds)
    homogeneous = [made.encoders.homogeneous(k, mixed=made.mixes) for k in made.encoders.kinds]
    assert sum(dict(t.decisions) in homogeneous for t in trials[: kinds + 1]) == kinds
    assert "Chosen: " in read_outcome(Path(out)).headline
    again = in_process("resume", out, "--json")
    assert again.returncode == 0, again.stderr
    assert _archive(Path(out)) == [(t.number, t.arch, t.values["accuracy"]) for t in trials]


def _lines(folder: Path) -> list[dict[str, Any]]:
    text = (folder / "supernet" / "stages.jsonl").read_text()
    return [json.loads(line) for line in text.splitlines()]


def _archive(folder: Path) -> list[Any]:
    return [(t.number, t.arch, t.values["accuracy"]) for t in Study.open(folder).trials]


class Killed(BaseException):
    """Stands for the end of a process."""


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("whole")
    made = dartformer.smoke("layers")
    made.conduct(made.begin(folder))
    return folder


def test_a_recipe_that_has_ended_says_the_same_at_once(uninterrupted: Path) -> None:
    assert says_the_same_at_once(dartformer.smoke("layers"), uninterrupted)


@pytest.mark.parametrize(
    ("what", "calls"), [("step", 3), ("answers", 2), ("advance", 3), ("trial", 2)]
)
def test_a_search_killed_at_any_point_ends_the_same(
    what: str, calls: int, uninterrupted: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    owners = {"step": SupernetSearch, "trial": Training}
    owner: Any = owners.get(what, SupernetTrainer)
    method = "__call__" if what == "trial" else what
    plain, count = getattr(owner, method), 0

    def counted(self: Any, *args: Any) -> Any:
        nonlocal count
        count += 1
        if count == calls:
            raise Killed
        return plain(self, *args)

    made = dartformer.smoke("layers")
    with monkeypatch.context() as patch:
        patch.setattr(owner, method, counted)
        with pytest.raises(Killed):
            made.conduct(made.begin(tmp_path))
    made.conduct(made.begin(tmp_path))
    assert _lines(tmp_path) == _lines(uninterrupted)
    assert _archive(tmp_path) == _archive(uninterrupted)
    assert read_outcome(tmp_path).headline == read_outcome(uninterrupted).headline


def test_a_search_that_is_told_to_stop_stops_at_once_and_goes_on(
    uninterrupted: Path, tmp_path: Path
) -> None:
    made = dartformer.smoke("layers")
    asked = 0

    def stop() -> bool:
        nonlocal asked
        asked += 1
        return asked > limit

    endings = []
    for limit in (4, 9, 20, 10**9):  # in training, in scoring, in the second stage
        asked = 0
        endings.append(made.conduct(made.begin(tmp_path), stop=stop))
        assert limit == 10**9 or asked == limit + 1, "asked once more after saying yes"
    assert endings == ["stopped"] * 3 + ["exhausted"]
    assert _lines(tmp_path) == _lines(uninterrupted)
    assert _archive(tmp_path) == _archive(uninterrupted)


def test_a_killed_process_loses_nothing(uninterrupted: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    words = [sys.executable, "-m", "formwright.cli.main", "search", "dartformer-layers"]
    process = subprocess.Popen(
        [*words, "--preset", "smoke", "--out", str(out)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline and process.poll() is None:
        if len(read_stages(out / "supernet")) >= 2:
            break
        time.sleep(0.002)
    process.send_signal(signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL
    made = dartformer.smoke("layers")
    made.conduct(made.begin(out))
    assert _lines(out) == _lines(uninterrupted)
    assert _archive(out) == _archive(uninterrupted)


def test_a_task_that_one_mechanism_can_solve_is_won_by_it(tmp_path: Path) -> None:
    task = "planted-mirror?length=16&symbols=2&train=2000&valid=200"
    kinds = {**TINY, "linformer": Linformer(slots=4, lra=True)}
    encoders = Encoders(
        backbone=Encoder(16, position=None, norm=NORM, init="lra"),
        frame=known_task(task).frame,
        blocks=all_heads(kinds, 2),
        inner=16,
        layers=1,
    )
    search = TrainConfig(steps=80, batch_tokens=512, lr=8e-3, warmup=10)
    made = replace(dartformer.small("best"), encoders=encoders, task=task, search=search)
    stages = made.find(tmp_path)
    assert stages is not None
    assert made.described(stages) == "synthesizer"
    assert stages[0].certain
    assert made.found(stages) == {"layer0": encoders.kinds.index("synthesizer")}


@pytest.mark.parametrize("variant", VARIANTS)
def test_the_paper_preset_has_the_published_numbers(variant: str) -> None:
    made = recipe(dartformer.NAMES[variant], "paper")
    assert isinstance(made, dartformer.Dartformer)
    assert made.name == f"{dartformer.NAMES[variant]}-paper"
    assert (made.encoders.heads, made.encoders.layers, made.encoders.inner) == (8, 6, 2048)
    assert (made.search.steps, made.search.warmup, made.search.schedule) == (
        10_000, 1000, "inverse_sqrt",
    )  # fmt: skip
    assert made.search.lr == pytest.approx(1.58e-3, rel=1e-3)
    slots = {"best": 9, "oneshot": 9, "prune": 72, "layers": 54}
    with torch.device("meta"):
        supernet = Supernet(made.supernet_space())
    assert sum(len(slot.values) for slot in supernet.slots.values()) == slots[variant]
    assert made.rule.looks({n: tuple(s.values) for n, s in supernet.slots.items()}) == {  # type: ignore[misc]
        "best": 1, "oneshot": 1, "prune": 64, "layers": 48,
    }[variant]  # fmt: skip


def test_the_paper_preset_looks_at_validation_data_at_the_end_only() -> None:
    made = dartformer.paper()
    assert made.search.evaluate_every == made.training.evaluate_every == 0


@pytest.mark.parametrize(
    ("task", "kind", "steps", "warmup", "examples"),
    [
        ("planted-tag?length=24&train=50&valid=9", "text", 30_000, 8000, 24),
        ("classify:{table}?pool=cls&tokenizer=bytes", "text", 30_000, 8000, 16),
        ("pairs?length=64&train=50&valid=9", "matching", 10_000, 8000, 128),
        ("listops-tiny?pool=cls&train=50&valid=9", "listops", 10_000, 1000, 1064),
    ],
)
def test_the_paper_preset_follows_the_kind_of_task(
    task: str, kind: str, steps: int, warmup: int, examples: int, tmp_path: Path
) -> None:
    table = tmp_path / "texts.csv"
    table.write_text("text,label\n" + "sixteen letters.,a\nsixteen letterz.,b\n" * 40)
    task = task.format(table=table)
    plain, made = dartformer.paper("prune"), recipe("dartformer-prune", "paper", task=task)
    assert isinstance(made, dartformer.Dartformer)
    theirs = Encoders.published(kind)  # type: ignore[arg-type]
    sizes = ("backbone", "blocks", "inner", "layers")
    assert [getattr(made.encoders, n) for n in sizes] == [getattr(theirs, n) for n in sizes]
    blocks = dict(made.encoders.blocks)
    ours = Performer(lra=True) if kind != "listops" else Performer("favor", 2, lra=True)
    assert blocks["performer"].kind == ours
    assert (blocks["synthesizer"].query_key == "none") is (kind == "text")
    head, asked = made.encoders.frame.head, known_task(task).frame
    assert made.encoders.frame.replace(head=asked.head) == asked
    wanted = {Classify: (2048,), Match: (512, 256)}.get(type(head))
    assert getattr(head, "hidden", None) == wanted
    assert getattr(head, "pool", None) == getattr(asked.head, "pool", None)
    for config in (made.search, made.training):
        assert (config.steps, config.warmup) == (steps, warmup)
        assert config.lr == pytest.approx(0.05 / math.sqrt(warmup))
        assert config.batch_tokens == 32 * examples
    assert made.after == 3 * steps // 100
    assert (made.variant, made.name, made.random) == (plain.variant, plain.name, plain.random)
    with torch.device("meta"):
        Supernet(made.supernet_space())


def test_other_presets_keep_their_mechanisms_on_another_task() -> None:
    small = dartformer.small()
    made = small.for_task("pairs?length=64&train=50&valid=9")
    assert (made.encoders.blocks, made.search) == (small.encoders.blocks, small.search)
    assert made.encoders.frame.head == Match(2, "first", (64, 32))


@pytest.mark.parametrize("variant", ["prune", "oneshot"])
def test_random_mixes_are_as_many_as_there_are(variant: str) -> None:
    made = dartformer.smoke(variant)
    blocks = tuple(pair for pair in made.encoders.blocks if pair[0] in ("linear", "local"))
    encoders = replace(made.encoders, blocks=tuple((n, b.replace(heads=2)) for n, b in blocks))
    made = replace(made, encoders=encoders, random=50)
    # linear twice; of the three mixes of two heads it and "all local" are known
    alive = {"heads": (0, 1)} if variant == "prune" else {"blocks": (0,)}
    rows = made.candidates([Stage(0, alive, {}, "")])
    assert [d for note, d in rows if note == "random"] == [{"linear": 1, "local": 1}]


@pytest.mark.parametrize("variant", ["best", "prune", "layers"])
def test_blocks_computed_again_lead_to_the_same_numbers(variant: str, tmp_path: Path) -> None:
    plain, ends = dartformer.smoke(variant), []
    search = plain.search.replace(dropout=0.1, attention_dropout=0.1)
    blocks = dict(plain.encoders.blocks)
    if "performer" in blocks:  # features drawn at each call
        kind = Performer("favor", random_features=2, lra=True)
        blocks["performer"] = blocks["performer"].replace(kind=kind)
    encoders = replace(plain.encoders, blocks=tuple(blocks.items()))
    for checkpoint in (False, True):
        folder = tmp_path / str(checkpoint)
        made = replace(plain, encoders=encoders, search=search, checkpoint=checkpoint)
        stages = made.find(folder)
        saved, _ = read_latest(folder)
        assert saved is not None
        ends.append((stages, saved.tensors["model"]))
    assert ends[0][0] == ends[1][0]
    for name, weight in ends[0][1].items():
        assert torch.equal(weight, ends[1][1][name]), name


def test_a_recipe_tells_its_supernet_to_compute_blocks_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = []

    class Noted(Supernet):
        def __init__(self, *args: Any, **options: Any) -> None:
            super().__init__(*args, **options)
            told.append(self.holder.checkpoint)

    monkeypatch.setattr(dartformer, "Supernet", Noted)
    for checkpoint in (False, True):
        made = replace(dartformer.smoke(), checkpoint=checkpoint)
        made.find(tmp_path / str(checkpoint), stop=lambda: True)
    assert told == [False, True]


@pytest.mark.parametrize("preset", ["paper", "small", "smoke"])
def test_the_head_of_every_preset_has_the_hidden_layer_of_the_arena(preset: str) -> None:
    made = getattr(dartformer, preset)()
    head = made.encoders.frame.head
    assert head == Classify(10, "cls", (made.encoders.inner,))
    if preset == "paper":  # the arena reports 19.9 million
        assert counts_of(made.baseline[1]).params == 19_983_370


def test_what_was_trained_is_what_was_counted(uninterrupted: Path) -> None:
    study, baseline = Study.open(uninterrupted), read_outcome(uninterrupted).baseline
    assert baseline is not None
    trained = [(study.trial_folder(t.number), t.values) for t in study.trials]
    trained.append((uninterrupted / "baseline", baseline.values))
    for folder, values in trained:
        model = load_model(folder / "run" / "model")
        assert sum(p.numel() for p in model.parameters()) == values["params"], folder
        assert model.arch.frame == dartformer.smoke("layers").encoders.frame


def test_an_unknown_variant_is_refused() -> None:
    with pytest.raises(InputError, match="use one of best, prune, layers, oneshot"):
        dartformer.small("worst")
