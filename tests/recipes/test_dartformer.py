"""DARTFormer: its supernets and spaces, its numbers, and whole runs."""

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.cli_helpers import InProcess
from tests.helpers import inputs_for

from formwright.arch import Attention, Classify, Encoder, Match
from formwright.arch.counting import count as counts_of
from formwright.arch.mechanism import Linformer, Performer
from formwright.arch.site import Site
from formwright.errors import InputError, Stopped
from formwright.estimate.training import known_task
from formwright.model import build, load_model
from formwright.ops.base import Builder, Context
from formwright.recipes import dartformer, oneshot
from formwright.recipes.life import begin, conduct
from formwright.recipes.ranking import unlike
from formwright.recipes.recipe import recipe
from formwright.recipes.session import SUPERNET, Session
from formwright.space.dartformer import TINY, Encoders, all_heads
from formwright.strategy.gradient import UniformPolicy
from formwright.strategy.gradient.pruning import SupernetTrainer
from formwright.study import Study
from formwright.study.outcome import read_outcome
from formwright.supernet import Gates, Supernet
from formwright.trace import Stage, Trace
from formwright.train import TrainConfig
from formwright.train.checkpoint import read_latest
from formwright.trial import CONTROL, FINAL, FOUND, RIVAL
from formwright.zoo import get
from formwright.zoo.dartformer import MIXES, NORM

pytestmark = pytest.mark.usefixtures("counted")

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


@pytest.mark.parametrize("pool", ["cls", "first", "mean"])
@pytest.mark.parametrize("kind", list(TINY))
def test_what_is_read_has_seen_more_than_itself(kind: str, pool: str) -> None:
    """Sparse attention is causal: a first vector saw nothing, and its model stayed at chance."""
    frame = known_task(SMALL_TASK.replace("pool=cls", f"pool={pool}")).frame
    encoders = Encoders.tiny(frame, heads=2)
    arch = encoders.layer_wise().resolve(encoders.homogeneous(kind, mixed=False))
    model = build(arch, seed=1).eval()
    symbols = torch.randint(0, frame.vocab, (2, 16), generator=torch.Generator().manual_seed(0))
    other = symbols.clone()
    other[:, 2] = (symbols[:, 2] + 1) % frame.vocab
    assert (run(model, {"tokens": symbols}) - run(model, {"tokens": other})).abs().max() > 1e-6


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
    study, stages = Study.open(Path(out)), Trace(Path(out) / SUPERNET).stages()
    assert [stage.stage for stage in stages] == list(range(len(stages)))
    for stage in stages[:-1]:
        assert stage.words
        for name, scores in stage.scores.items():
            assert tuple(sorted(scores)) == stage.alive[name]
    assert all(trial.done for trial in study.trials)
    assert {t.origin for t in study.trials if t.final} == {FINAL, RIVAL}
    trials = [trial for trial in study.trials if not trial.final]
    assert len(trials) in (made.expected, made.expected - 1)  # a mix may be one of the nine
    assert trials[0].note.startswith("found: ")
    assert [t.number for t in trials if t.origin == FOUND] == [0]
    assert sum(t.origin == CONTROL for t in trials) == made.random
    kinds = len(made.encoders.kinds)
    homogeneous = [made.encoders.homogeneous(k, mixed=made.mixes) for k in made.encoders.kinds]
    assert sum(dict(t.decisions) in homogeneous for t in trials[: kinds + 1]) == kinds
    assert "Chosen: " in read_outcome(Path(out)).headline
    again = in_process("resume", out, "--json")
    assert again.returncode == 0, again.stderr
    known = [(t.number, t.arch, t.values["accuracy"]) for t in study.trials]
    assert _archive(Path(out)) == known


def _archive(folder: Path) -> list[Any]:
    return [(t.number, t.arch, t.values["accuracy"]) for t in Study.open(folder).trials]


class Killed(BaseException):
    """Stands for the end of a process."""


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("whole")
    made = dartformer.smoke("layers")
    conduct(made, begin(made, folder))
    return folder


@pytest.mark.parametrize(
    ("method", "calls"), [("answers", 2), ("advance", 3)], ids=["scored", "between two stages"]
)
def test_a_search_killed_while_blocks_are_scored_ends_the_same(
    method: str, calls: int, uninterrupted: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain, count = getattr(SupernetTrainer, method), 0

    def counted(self: Any, *args: Any) -> Any:
        nonlocal count
        count += 1
        if count == calls:
            raise Killed
        return plain(self, *args)

    made = dartformer.smoke("layers")
    with monkeypatch.context() as patch:
        patch.setattr(SupernetTrainer, method, counted)
        with pytest.raises(Killed):
            conduct(made, begin(made, tmp_path))
    conduct(made, begin(made, tmp_path))
    assert Trace(tmp_path / SUPERNET).stages() == Trace(uninterrupted / SUPERNET).stages()
    assert _archive(tmp_path) == _archive(uninterrupted)
    assert read_outcome(tmp_path).headline == read_outcome(uninterrupted).headline


def found(made: dartformer.Dartformer, folder: Path) -> list[Stage]:
    """What its supernet comes to, with nothing trained to judge it."""
    study = begin(made, folder)
    made.find(Session(made, study))
    study.close()
    return Trace(folder / SUPERNET).stages()


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
    search = TrainConfig(steps=160, batch_tokens=512, lr=8e-3, warmup=10)  # three of nine each
    made = replace(dartformer.small("best"), encoders=encoders, task=task, search=search)
    stages = found(made, tmp_path)
    left = encoders.left("best", stages[-1].alive)
    assert encoders.described("best", left) == "synthesizer"
    assert stages[0].certain
    assert left == {"layer0": encoders.kinds.index("synthesizer")}


@pytest.mark.parametrize("variant", VARIANTS)
def test_other_presets_train_the_supernet_like_the_models_that_it_ranks(variant: str) -> None:
    made, printed = dartformer.small(variant), dartformer.paper(variant)
    longer = made.training.replace(steps=made.search.steps)
    assert made.search == longer
    assert (made.subset, made.by, made.top) == (3, "loss", 3)
    assert (printed.subset, printed.by) == (3 if variant == "layers" else None, "accuracy")
    odd = {name for name, block in made.encoders.blocks if getattr(block.kind, "lra", False)}
    assert odd == {"sparse"}, "whose first vector would see nothing: a class is read from there"
    assert (made.among is None) == (variant in ("prune", "layers"))
    assert printed.among is None
    lra = [getattr(block.kind, "lra", True) for _, block in printed.encoders.blocks]
    assert all(lra)


def test_the_best_of_the_ranking_enter_finals_and_its_confidence_is_said(tmp_path: Path) -> None:
    made = replace(dartformer.smoke("best"), seeds=2, random=0)
    kept = [pair for pair in made.encoders.blocks if pair[0] in ("linear", "local", "sparse")]
    made = replace(made, encoders=replace(made.encoders, blocks=tuple(kept)), top=2)
    conduct(made, begin(made, tmp_path))
    trace, study = Trace(tmp_path / SUPERNET), Study.open(tmp_path)
    (first, *_), outcome = trace.stages(), read_outcome(tmp_path)
    ranked = made.ranking(first)
    ((_, worth),) = first.rises.items()
    assert [worth[made.encoders.kinds.index(kind)] for kind in ranked] == sorted(
        worth.values(), reverse=True
    )
    entered = [dict(t.decisions) for t in study.trials if t.origin == FINAL]
    for kind in ranked[:2]:
        assert made.encoders.homogeneous(kind, mixed=False) in entered
    (other, *_) = Trace(tmp_path / SUPERNET / "seed-1").stages()
    assert other.rises != first.rises
    assert outcome.facts["ranking_halves"] == first.agreement
    assert -1 <= outcome.facts["ranking_seeds"] <= 1
    assert any("halves of the validation data" in note for note in outcome.notes)
    assert any("another seed" in note for note in outcome.notes)
    assert not any("otherwise than" in note for note in outcome.notes)


def test_a_supernet_trained_otherwise_than_what_it_ranks_is_told() -> None:
    made = dartformer.smoke().with_setting("search.dropout=0.3")
    (note,) = unlike(made.search, made.training)
    assert "dropout 0.3 against 0.0" in note
    with pytest.raises(InputError, match="use loss or accuracy"):
        replace(made, by="f1")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="at least one supernet"):
        replace(made, seeds=0)


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
def test_random_mixes_are_as_many_as_there_are(variant: str, tmp_path: Path) -> None:
    made = dartformer.smoke(variant)
    blocks = tuple(pair for pair in made.encoders.blocks if pair[0] in ("linear", "local"))
    encoders = replace(made.encoders, blocks=tuple((n, b.replace(heads=2)) for n, b in blocks))
    made = replace(made, encoders=encoders, random=50)
    # linear twice; of the three mixes of two heads it and "all local" are known
    alive = {"heads": (0, 1)} if variant == "prune" else {"blocks": (0,)}
    session = Session(made, begin(made, tmp_path))
    Trace(tmp_path / SUPERNET).add_stage(Stage(0, alive, {}, ""))
    rows = made.candidates(session)
    assert [row.decisions for row in rows if row.origin == CONTROL] == [{"linear": 1, "local": 1}]


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
        stages = found(made, folder)
        saved, _ = read_latest(folder / SUPERNET)
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

    monkeypatch.setattr(oneshot, "Supernet", Noted)
    for checkpoint in (False, True):
        made = replace(dartformer.smoke(), checkpoint=checkpoint)
        study = begin(made, tmp_path / str(checkpoint))
        with pytest.raises(Stopped):
            made.find(Session(made, study, stop=lambda: True))
    assert told == [False, True]


@pytest.mark.parametrize("preset", ["paper", "small", "smoke"])
def test_the_head_of_every_preset_has_the_hidden_layer_of_the_arena(preset: str) -> None:
    made = getattr(dartformer, preset)()
    head = made.encoders.frame.head
    assert head == Classify(10, "cls", (made.encoders.inner,))
    if preset == "paper":  # the arena reports 19.9 million
        assert counts_of(made.make_baseline()[1]).params == 19_983_370


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
    with pytest.raises(InputError, match="use one of best, layers, oneshot, prune"):
        dartformer.small("worst")
