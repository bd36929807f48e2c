"""Weights that are taken over: what fits is the donor's, to the bit, and the rest is new."""

from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest
import torch

from formwright.arch import Architecture, parse
from formwright.arch.style import style
from formwright.errors import InputError
from formwright.estimate import FromParent, FromSupernet, FromTeacher, Inherited, Training
from formwright.estimate.inherited import alike
from formwright.execute import Serial
from formwright.model import Model, build, load_model, save_model
from formwright.space import Derived, OneOf, Repeat, TreeSpace
from formwright.space.choice import stack_of
from formwright.space.order import order_space
from formwright.strategy.gradient import SearchConfig, SinglePathPolicy, search_supernet
from formwright.study import Job, Study, run
from formwright.supernet import Supernet
from formwright.supernet.transfer import take_over
from formwright.tasks import load_task
from formwright.train import TrainConfig
from formwright.trial import Objective, Trial

TASK = "planted-near?length=12&symbols=4&train=200&valid=40&test=40"
LAYER = "stacks.layers.layers."
QUICK = TrainConfig(steps=3, batch_tokens=128, schedule="constant", warmup=0, score_batches=1)


def arch(text: str) -> Architecture:
    task = load_task(TASK)
    return parse(text, defaults=task.style(16)).bind(task.frame).check()


def shaken(model: Model, seed: int = 0) -> Model:
    """No weight is what another model's could be by chance."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for p in model.parameters():
            p.copy_(torch.randn(p.shape, generator=generator))
    return model


def job(of: Architecture, folder: Path, **more: Any) -> Job:
    return Job(Trial(1, more.pop("decisions", {})), of, folder, None, 0, **more)


def test_equal_models_take_over_everything() -> None:
    donor, model = shaken(build(arch("(sf)x2"))), build(arch("(sf)x2"), seed=1)
    assert take_over(model, donor) == 1.0
    for name, tensor in donor.state_dict().items():
        assert torch.equal(model.state_dict()[name], tensor)


def open_sizes() -> TreeSpace:
    """Width, heads that follow from it, inner size and depth open."""
    family = style("bert", 32, heads=4)
    attention, feedforward = (family.letters[letter] for letter in "sf")
    unit = (
        attention.replace(inner=attention.inner.replace(heads=Derived("width", 1 / 8))),
        feedforward.replace(inner=feedforward.inner.replace(inner=OneOf("inner", (16, 64)))),
    )
    layers = stack_of(Repeat("depth", unit, 1, 3, shared=("inner", "width")))
    backbone = family.backbone.replace(width=OneOf("width", (16, 32)))
    return TreeSpace(Architecture(layers, backbone, frame=load_task(TASK).frame))


@pytest.mark.parametrize("sizes", [(16, 16, 2), (32, 16, 1), (16, 64, 3)])
def test_a_smaller_model_is_the_slice_that_a_supernet_would_run(sizes: tuple[int, ...]) -> None:
    supernet: Any = shaken(Supernet(open_sizes()))
    largest = supernet.extract({"width": 32, "inner": 64, "depth": 3})
    wanted = supernet.extract(dict(zip(("width", "inner", "depth"), sizes, strict=True)))
    found = build(wanted.arch, seed=5)
    assert take_over(found, largest) == 1.0
    for name, tensor in wanted.state_dict().items():
        assert torch.equal(found.state_dict()[name], tensor), name


def test_layers_are_taken_from_where_a_map_says_and_others_stay_new() -> None:
    donor = shaken(build(arch("(sf)x4")))
    model = build(arch("sfsf"), seed=3)
    before = {name: x.clone() for name, x in model.state_dict().items()}
    share = take_over(model, donor, {0: 4, 1: 5})
    assert 0 < share < 1
    theirs, ours = donor.state_dict(), model.state_dict()
    for name, tensor in ours.items():
        layer = name.removeprefix("stacks.layers.layers.").partition(".")
        if not layer[0].isdecimal():
            continue
        if int(layer[0]) < 2:
            assert torch.equal(
                tensor, theirs[f"stacks.layers.layers.{int(layer[0]) + 4}.{layer[2]}"]
            )
        else:
            assert torch.equal(tensor, before[name]), "no layer of the donor stands for it"


def test_what_is_larger_than_the_donor_keeps_its_own_weights() -> None:
    donor, model = (
        build(arch("sf in bert(16, heads=2)")),
        build(arch("sf in bert(32, heads=2)"), seed=1),
    )
    before = {name: x.clone() for name, x in model.state_dict().items()}
    take_over(model, donor)
    name = f"{LAYER}1.inner.up.weight"
    assert torch.equal(model.state_dict()[name], before[name])


@pytest.mark.parametrize("last", [0, 1], ids=["its model", "its checkpoint"])
def test_a_child_begins_where_its_parent_ended(tmp_path: Path, last: int) -> None:
    parent, task = arch("sfsf"), load_task(TASK)
    Training(TASK, QUICK, last=last)(job(parent, tmp_path / "parent"))
    work = job(arch("sfsc"), tmp_path / "child", parents=(tmp_path / "parent",))
    begun = Inherited(TASK, QUICK, source=FromParent()).begun(work, task)
    new = build(arch("sfsc"))
    assert isinstance(begun, Model)
    theirs = begun.state_dict()
    same = "stacks.layers.layers.2.inner.query.weight"
    fresh = "stacks.layers.layers.3.inner"
    assert not torch.equal(theirs[same], new.state_dict()[same])
    assert all(
        torch.equal(x, new.state_dict()[name])
        for name, x in theirs.items()
        if name.startswith(fresh)
    )
    values = Inherited(TASK, QUICK, source=FromParent())(work)
    assert values["steps"] == 3


def test_a_trial_without_parents_begins_with_new_weights(tmp_path: Path) -> None:
    work = job(arch("sf"), tmp_path)
    values = [
        Inherited(TASK, QUICK, source=FromParent())(replace(work, folder=tmp_path / "a")),
        Training(TASK, QUICK)(replace(work, folder=tmp_path / "b")),
    ]
    assert values[0]["loss"] == values[1]["loss"]


def test_a_student_is_a_slice_of_its_teacher(tmp_path: Path) -> None:
    teacher = save_model(shaken(build(arch("(sf)x4 in bert(32, heads=2)"))), tmp_path / "teacher")
    student = arch("sfsf in bert(32, heads=2)")
    source = FromTeacher(str(teacher), {4: (0, 1, 6, 7)})
    begun: Any = source.model(job(student, tmp_path), load_task(TASK), QUICK)
    whole = load_model(teacher).state_dict()
    for mine, theirs in ((2, 6), (3, 7)):
        found = begun.state_dict()[f"{LAYER}{mine}.norm.weight"]
        assert torch.equal(found, whole[f"{LAYER}{theirs}.norm.weight"])


def test_a_member_has_the_weights_that_it_shares_in_a_supernet(tmp_path: Path) -> None:
    task = load_task(TASK)
    space = order_space(style("bert", 16, heads=2), task.frame, slots=3, letters="sfi")
    supernet = Supernet(space)
    config = QUICK.replace(checkpoint_every=1, log_every=1)
    search_supernet(
        supernet,
        SinglePathPolicy(supernet),
        task,
        config,
        SearchConfig(every=0),
        out=tmp_path / "net",
    )
    decisions = space.sample(Random(1))
    wanted = supernet.extract(decisions)
    work = job(wanted.arch, tmp_path, decisions=decisions)
    found: Any = FromSupernet(str(tmp_path / "net")).model(work, task, QUICK)
    for name, tensor in wanted.state_dict().items():
        assert torch.equal(found.state_dict()[name], tensor)


def test_a_folder_without_a_supernet_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="holds no supernet"):
        FromSupernet(str(tmp_path)).model(job(arch("sf"), tmp_path), load_task(TASK), QUICK)


def test_children_inherit_in_a_search(tmp_path: Path) -> None:
    task = load_task(TASK)
    space = order_space(style("bert", 16, heads=2), task.frame, slots=4, letters="sf")
    made = Study.create(
        tmp_path / "s", space=space, objectives=[Objective("loss")], strategy="evolution",
        options={"population": 2, "tournament": 2},
    )  # fmt: skip
    seen: list[bool] = []
    inherited = Inherited(TASK, QUICK, source=FromParent())

    def evaluate(work: Job) -> Any:
        seen.append(bool(work.parents and (work.parents[0] / "run" / "model").exists()))
        return inherited(work)

    run(made, Serial(evaluate), trials=4)
    assert [trial.state for trial in made.trials] == ["done"] * 4
    assert seen == [False, False, True, True]


def test_layers_are_matched_by_kind_in_their_order() -> None:
    assert alike(arch("sfsf"), arch("sfsf")) == {0: 0, 1: 1, 2: 2, 3: 3}
    assert alike(arch("scfsf"), arch("sfsf")) == {0: 0, 2: 1, 3: 2, 4: 3}
    assert alike(arch("fsf"), arch("sfsf")) == {0: 1, 1: 2, 2: 3}
    assert alike(arch("cc"), arch("sfsf")) == {}
