"""What stands at the places of a teacher: slices that are right, blocks that learn, students."""

import copy
from pathlib import Path
from random import Random

import pytest
import torch

from formwright.arch import Identity, parse
from formwright.distil.blockwise import (
    BlockTraining,
    Library,
    assembled,
    built,
    own_layer,
    train_library,
)
from formwright.distil.cache import States
from formwright.distil.library import (
    NOTHING,
    Offer,
    choice_of,
    decisions_of,
    places_of,
    space_of,
    student,
)
from formwright.distil.scores import Judge
from formwright.distil.slices import sliced_state
from formwright.distil.teacher import Teacher
from formwright.errors import InputError, StorageError

SHORT = BlockTraining(steps=4)


def made(teacher: Teacher, folder: Path, offer: Offer | None = None) -> tuple[Library, Judge]:
    places = places_of(teacher.model.arch, offer)
    batches = list(teacher.calibration(4, batch_tokens=96))
    library = Library(teacher, places, folder / "library")
    train_library(library, States(teacher, batches), SHORT)
    held = list(teacher.calibration(2, batch_tokens=96, first=4))
    return library, Judge(library, States(teacher, held))


def test_every_kind_of_block_is_offered(encoder: Teacher, decoder: Teacher) -> None:
    attention, feedforward, *_ = places_of(encoder.model.arch)
    names = [a.name for a in attention.alternatives]
    assert names == ["whole", "heads 3", "heads 2", "heads 1", "kv heads 2", "local 32", "linear",
                     "conv 5", "norm only", "nothing"]  # fmt: skip
    names = [a.name for a in feedforward.alternatives]
    assert names == ["whole", "inner 24", "inner 16", "inner 8", "inner 4", "inner 2", "norm only",
                     "nothing"]  # fmt: skip
    assert (attention.kind, feedforward.kind) == ("attention", "feedforward")
    names = [a.name for a in places_of(decoder.model.arch)[0].alternatives]
    assert "heads 2" in names  # one of two groups
    assert "norm only" not in names  # the norm stands before the branch


def test_two_stacks_are_refused() -> None:
    arch = parse("(sf)x2 | (smf)x2 in translator(32) for frame(50, 24, lm)")
    with pytest.raises(InputError, match="encoder-decoder cannot be compressed"):
        places_of(arch)


def test_a_slice_that_is_whole_is_the_layer(teacher: Teacher) -> None:
    for place in places_of(teacher.model.arch):
        whole, own = place.alternatives[0].layer, own_layer(teacher, place.number).state_dict()
        state = sliced_state(whole, whole, place.site, own, {})
        assert all(torch.equal(state[name], own[name]) for name in own)


def test_a_slice_without_what_does_nothing_is_the_layer(encoder: Teacher, tmp_path: Path) -> None:
    """Heads and channels that add nothing are the ones that go, and nothing is lost."""
    model = copy.deepcopy(encoder.model)
    quiet = Teacher(encoder.folder, model, encoder.task)
    with torch.no_grad():
        attention, feedforward = (own_layer(quiet, n).inner for n in (0, 1))  # type: ignore[attr-defined]
        attention.out.weight[:, 4:8] = 0  # the second of four heads
        attention.out.weight[:, 12:16] = 0  # and the last
        feedforward.down.weight[:, ::2] = 0
    places = places_of(model.arch)
    batches = list(quiet.calibration(4, batch_tokens=96))
    library = Library(quiet, places, tmp_path)
    train_library(library, States(quiet, batches), BlockTraining(steps=0))
    for number, name in ((0, "heads 2"), (1, "inner 16")):
        index = places[number].index(name)
        assert index is not None
        assert library.errors(places[number])[index] < 1e-4
    errors = library.errors(places[1])
    assert errors == sorted(errors[:6]) + errors[6:]  # the fewer channels, the more is lost
    assert errors[4] > 10 * errors[2]


def test_the_teachers_own_choice_is_the_teacher(teacher: Teacher, tmp_path: Path) -> None:
    library, judge = made(teacher, tmp_path)
    own = [0] * len(library.places)
    arch = student(teacher.model.arch, library.places, own)
    assert arch == teacher.model.arch
    model = assembled(library, own, arch).eval()
    (batch,) = teacher.calibration(1, batch_tokens=96)
    with torch.no_grad():
        assert torch.equal(model(**batch.inputs), teacher.model(**batch.inputs))
    assert judge.divergence(own) == 0


def test_what_is_judged_is_what_is_assembled(teacher: Teacher, tmp_path: Path) -> None:
    """The score of a choice is that of the model it becomes."""
    library, judge = made(teacher, tmp_path)
    rng = Random(0)
    for _ in range(3):
        choice = [rng.randrange(len(place.alternatives)) for place in library.places]
        arch = student(teacher.model.arch, library.places, choice)
        model = assembled(library, choice, arch).eval().requires_grad_(False)
        total = count = 0.0
        for batch in judge.states.batches:
            other = Teacher(teacher.folder, model, teacher.task)
            ours, theirs = other.logits(batch), teacher.logits(batch)
            each = theirs.softmax(-1) * (theirs.log_softmax(-1) - ours.log_softmax(-1))
            total += float(each.sum())
            count += len(ours)
        assert judge.divergence(choice) == pytest.approx(total / count, rel=1e-3, abs=1e-6)


def test_blocks_learn(teacher: Teacher, tmp_path: Path) -> None:
    places = places_of(teacher.model.arch)
    batches = list(teacher.calibration(4, batch_tokens=96))
    errors = []
    for steps in (0, 15):
        library = Library(teacher, places, tmp_path / str(steps))
        train_library(library, States(teacher, batches), BlockTraining(steps=steps))
        errors.append([library.errors(place) for place in places])
    for place, before, after in zip(places, *errors, strict=True):
        assert before[0] == after[0] == 0
        index = place.index("conv 5") or place.index("inner 4")
        assert index is not None
        assert after[index] < before[index]


def test_a_killed_training_comes_to_the_same_blocks(teacher: Teacher, tmp_path: Path) -> None:
    places = places_of(teacher.model.arch)
    states = States(teacher, list(teacher.calibration(3, batch_tokens=96)))
    whole = Library(teacher, places, tmp_path / "whole")
    train_library(whole, states, SHORT)
    killed, calls = Library(teacher, places, tmp_path / "killed"), 0

    def kill() -> None:
        nonlocal calls
        calls += 1
        if calls == 7:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train_library(killed, states, SHORT, check=kill)
    assert [killed.has(place) for place in places] == [True, False, False, False]
    train_library(killed, states, SHORT)
    for place in places:
        for number in range(1, len(place.alternatives)):
            ours, theirs = (lib.state(place.number, number) for lib in (whole, killed))
            assert all(torch.equal(ours[name], theirs[name]) for name in ours)


def test_a_damaged_place_is_trained_again(encoder: Teacher, tmp_path: Path) -> None:
    library, _ = made(encoder, tmp_path)
    file = tmp_path / "library" / "layer01.safetensors"
    file.write_bytes(file.read_bytes()[:-10])
    assert not library.has(library.places[1])
    with pytest.raises(StorageError, match="layer01"):
        library.state(1, 1)


def test_decisions_and_choices_are_the_same(teacher: Teacher) -> None:
    places = places_of(teacher.model.arch)
    space, rng = space_of(teacher.model.arch, places), Random(1)
    for _ in range(5):
        decisions = space.sample(rng)
        choice = choice_of(places, decisions)
        assert decisions_of(places, choice) == decisions
        assert space.resolve(decisions) == student(teacher.model.arch, places, choice)


def test_nothing_is_nothing(encoder: Teacher) -> None:
    place = places_of(encoder.model.arch)[0]
    index = place.index(NOTHING)
    assert index is not None
    assert place.alternatives[index].layer == Identity()
    assert not list(built(place, index).parameters())
