"""Tables and profiles on planted costs: sums, interpolation, resuming, checking, files."""

import dataclasses
import json
from pathlib import Path

import numpy as np
import pytest
from tests.cost.planted import TARGET, FakeMeter, cost, members, small_space

from formwright.arch.codec import to_data
from formwright.cost.profile import Profile, load_profile, save_profile
from formwright.cost.profiling import Design, design_for, profile_space
from formwright.cost.quality import quality
from formwright.cost.table import (
    Table,
    measured_entries,
    pieces_of,
    shape_of,
    thinned,
    with_numbers,
)
from formwright.errors import FormatError, InputError, StorageError


def measured_table(most: int = 10_000) -> Table:
    pieces = thinned(pieces_of(small_space(), TARGET), most)
    models = {m for p in pieces for m in (p.whole, p.without) if m is not None}
    entries = measured_entries(pieces, {model: cost(model) for model in models})
    return Table(tuple(entries), TARGET)


def small_plan(**changes: int) -> Design:
    return design_for(small_space(), TARGET, **{"samples": 24, "check": 10, **changes})


def test_a_table_adds_up_to_a_planted_cost() -> None:
    archs = members(100, seed=3)
    truth = np.array([cost(arch) for arch in archs])
    found = quality(measured_table().estimate(archs), truth)
    assert found.mean < 0.01
    assert found.tau > 0.97


def test_few_pieces_stand_for_many_layers() -> None:
    pieces = pieces_of(small_space(), TARGET)
    assert len(pieces) <= 4 + 4 * 2 + 4 * 3  # widths; widths and heads; widths and inner
    for piece in pieces:
        layers = len(piece.whole.layers.layers)
        assert layers == (piece.copies if piece.without is not None else 0)


def test_half_of_the_pieces_estimate_nearly_as_well() -> None:
    pieces = pieces_of(small_space(), TARGET)
    few = thinned(pieces, len(pieces) // 2)
    assert len(few) <= len(pieces) // 2 + 3
    for family in {piece.family for piece in pieces}:
        ends = [sorted(p.flops for p in rows if p.family == family) for rows in (few, pieces)]
        assert (ends[0][0], ends[0][-1]) == (ends[1][0], ends[1][-1])
    archs = members(100, seed=3)
    truth = np.array([cost(arch) for arch in archs])
    found = quality(measured_table(len(pieces) // 2).estimate(archs), truth)
    assert found.mean < 0.1
    assert found.tau > 0.85


def test_a_layer_between_two_measured_ones_costs_what_lies_between() -> None:
    table, arch = measured_table(), members(1, seed=0)[0]
    _, stack, site = next(arch.stacks())
    layer, site = stack.layers[1], site.at(64)
    numbers = shape_of(layer)[1]

    def at(inner: int) -> float:
        return table.of_layer(with_numbers(layer, iter((inner, *numbers[1:]))), site)

    assert at(32) < at(96) < at(160) < at(512)
    assert at(96) == pytest.approx(0.05 + 1e-5 * 64 * 96, rel=0.02)


def test_an_unknown_layer_is_guessed_by_its_products() -> None:
    arch = members(1, seed=0)[0]
    stranger = arch.replace(layers=arch.layers.replace(layers=(arch.layers,)))
    assert measured_table().covers(arch)
    assert not measured_table().covers(stranger)
    assert measured_table().estimate([stranger])[0] > 0


def test_a_table_survives_json_and_refuses_what_is_none() -> None:
    table, archs = measured_table(), members(5, seed=1)
    data = json.loads(json.dumps(table.to_data()))
    assert (Table.from_data(data, TARGET).estimate(archs) == table.estimate(archs)).all()
    for broken in (None, {}, {**data, "entries": [["a", [1], "x", 2]]}, {**data, "entries": 3}):
        with pytest.raises(FormatError):
            Table.from_data(broken, TARGET)


def test_a_profile_predicts_and_knows_how_well(tmp_path: Path) -> None:
    meter = FakeMeter(noise=0.02)
    out = tmp_path / "p.json"
    made = profile_space(
        small_space(), TARGET, out, plan=small_plan(samples=40), make_meter=lambda target: meter
    )
    assert set(made.check) == {"predictor", "table", "flops", "params"}
    assert made.check["predictor"].mean < 0.05
    assert made.check["predictor"].tau > 0.9
    assert made.check["table"].mean < 0.1
    arch = members(1, seed=9)[0]
    ms, low, high = made.latency(arch)
    assert low < ms < high
    assert ms == pytest.approx(cost(arch), rel=0.1)
    many = made.latency_many([arch, arch])
    assert many.mean.tolist() == pytest.approx([ms, ms])
    assert made.table_ms([arch])[0] == pytest.approx(cost(arch), rel=0.15)


def test_members_to_check_on_are_never_learned_from() -> None:
    plan = small_plan()
    assert not set(plan.check) & set(plan.train)
    assert len(set(plan.train)) == 24
    order = [arch in plan.check for arch in plan.archs() if arch in plan.check + plan.train]
    assert 3 <= sum(order[: len(order) // 2]) <= 7  # both kinds see the same moods of the machine
    assert plan == small_plan()  # the same plan again: that is how a run continues
    assert small_plan(samples=40).train[:24] == plan.train  # and more samples only add to it


def test_a_file_gives_the_same_profile_back(tmp_path: Path) -> None:
    out, archs = tmp_path / "p.json", members(20, seed=4)
    made = profile_space(
        small_space(), TARGET, out, plan=small_plan(), make_meter=lambda target: FakeMeter()
    )
    again = load_profile(out)
    np.testing.assert_allclose(again.latency_many(archs), made.latency_many(archs), rtol=1e-5)
    assert (again.table_ms(archs) == made.table_ms(archs)).all()
    assert again.check == made.check
    assert again.target == TARGET
    assert [to_data(s.arch) for s in again.samples] == [to_data(s.arch) for s in made.samples]


def test_a_killed_run_continues_and_measures_nothing_twice(tmp_path: Path) -> None:
    out, plan = tmp_path / "p.json", small_plan()
    total = len(list(plan.archs()))
    first = FakeMeter(stops_after=17)
    with pytest.raises(KeyboardInterrupt):
        profile_space(small_space(), TARGET, out, plan=plan, make_meter=lambda target: first)
    journal = tmp_path / "p.json.journal"
    with open(journal, "ab") as file:
        file.write(b'{"id": "half a li')  # as when the power fails
    second = FakeMeter(reference_ms=3.0)
    made = profile_space(small_space(), TARGET, out, plan=plan, make_meter=lambda target: second)
    assert len(first.asked) == 17
    assert len(second.asked) == total - 17
    assert not set(first.asked) & set(second.asked)
    assert made.reference_ms == 2.0  # one scale for all, that of the first meter

    def nothing(target: object) -> FakeMeter:
        raise AssertionError("nothing is left to measure")

    profile_space(small_space(), TARGET, out, plan=plan, make_meter=nothing)
    more = FakeMeter()
    profile_space(
        small_space(), TARGET, out, plan=small_plan(check=12), make_meter=lambda target: more
    )
    assert len(more.asked) == 2


def test_a_second_pass_measures_everything_once_more(tmp_path: Path) -> None:
    out, plan = tmp_path / "p.json", small_plan()
    meters = [FakeMeter(noise=0.05), FakeMeter(noise=0.05)]
    first = profile_space(
        small_space(), TARGET, out, plan=plan, make_meter=lambda target: meters[0]
    )
    second = profile_space(
        small_space(), TARGET, out, plan=plan, passes=2, make_meter=lambda target: meters[1]
    )
    assert meters[0].asked == meters[1].asked == list(plan.archs())
    assert {s.times for s in first.samples} == {1}
    assert {s.times for s in second.samples} == {2}


def test_a_member_that_cannot_run_is_left_out(tmp_path: Path) -> None:
    plan = small_plan()
    bad = plan.train[3]

    class Picky(FakeMeter):
        def measure(self, arch, *, seconds, precision):  # type: ignore[no-untyped-def]
            if arch == bad:
                raise InputError("no such kernel")
            return super().measure(arch, seconds=seconds, precision=precision)

    out = tmp_path / "p.json"
    made = profile_space(small_space(), TARGET, out, plan=plan, make_meter=lambda target: Picky())
    assert made.predictor.samples == 23
    assert bad not in [s.arch for s in made.samples]

    class Broken(FakeMeter):
        def measure(self, arch, *, seconds, precision):  # type: ignore[no-untyped-def]
            raise InputError("no such kernel")

    with pytest.raises(InputError, match="no such kernel"):
        profile_space(
            small_space(),
            TARGET,
            tmp_path / "q.json",
            plan=plan,
            make_meter=lambda target: Broken(),
        )


def test_measurements_of_another_target_are_not_mixed_in(tmp_path: Path) -> None:
    out, plan = tmp_path / "p.json", small_plan()
    profile_space(small_space(), TARGET, out, plan=plan, make_meter=lambda target: FakeMeter())
    other = TARGET.replace(batch=2)
    with pytest.raises(StorageError, match="another target"):
        profile_space(small_space(), other, out, plan=plan, make_meter=lambda target: FakeMeter())


def test_a_broken_profile_is_refused_with_one_sentence(tmp_path: Path) -> None:
    path = tmp_path / "p.json"
    made = profile_space(
        small_space(), TARGET, path, plan=small_plan(), make_meter=lambda target: FakeMeter()
    )
    data = made.to_data()
    texts = [
        "not json",
        "[]",
        json.dumps({**data, "formwright_profile": 9}),
        json.dumps({**data, "target": {"length": 0}}),
        json.dumps({**data, "samples": [{"role": "train"}]}),
        json.dumps({**data, "predictor": None}),
        json.dumps({**data, "reference_ms": -1}),
        json.dumps({**data, "check": {"table": {"tau": 1}}}),
        path.read_text()[: len(path.read_text()) // 2],
    ]
    for text in texts:
        path.write_text(text)
        with pytest.raises(FormatError) as found:
            load_profile(path)
        assert "\n" not in str(found.value)
    with pytest.raises(InputError, match="cannot be read"):
        load_profile(tmp_path / "missing.json")
    save_profile(made, path)
    assert isinstance(load_profile(path), Profile)


def test_too_few_samples_are_refused() -> None:
    with pytest.raises(InputError, match="too few"):
        small_plan(samples=2)


def test_two_processes_do_not_write_to_one_profile(tmp_path: Path) -> None:
    from formwright.cost.journal import open_journal

    with (
        open_journal(tmp_path / "j", {"space": "a"}),
        pytest.raises(StorageError, match="in use"),
        open_journal(tmp_path / "j", {"space": "a"}),
    ):
        pass


def test_a_damaged_journal_is_refused(tmp_path: Path) -> None:
    from formwright.cost.journal import Measured, open_journal

    path = tmp_path / "j"
    with open_journal(path, {"space": "a"}) as journal:
        journal.add("x", Measured(1.0, 0.9, 1.1, 3, 5.0))
    with open_journal(path, {"space": "a"}) as journal:
        (found,) = journal.found["x"]
        assert dataclasses.astuple(found) == (1.0, 0.9, 1.1, 3, 5.0, "")
    path.write_text(path.read_text() + '{"id": "y"}\n')
    with pytest.raises(FormatError, match="damaged"), open_journal(path, {"space": "a"}):
        pass
