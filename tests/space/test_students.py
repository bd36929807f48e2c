"""Students of a teacher: the published sub-spaces, their counts both ways, spaces side by side."""

from itertools import product

import pytest

from formwright.arch import parse
from formwright.arch.counting import count
from formwright.errors import InputError, SpecError
from formwright.space import OneOf, Repeat, Space, TreeSpace, named_space
from formwright.space.students import (
    BASE,
    SMALL,
    TINY,
    Grid,
    bert,
    hull,
    shape_of,
    shares_of,
    student_space,
    sub_spaces,
)
from formwright.space.union import PART, UnionSpace
from formwright.testing import SpaceTestCase
from formwright.zoo.autodistil import STUDENTS, Shape, formula_flops, formula_params, student

TEACHER = parse("(sf)x4 in bert(32, heads=4, inner=128) for frame(50, 16, classify(3))")
GRID = Grid((2, 3), (16, 32), (2.0, 4.0), (2, 4))
# parameters in millions and FLOPs in units of a thousand million, multiply-adds counted once
BY_FORMULA = {
    "agnostic": (26.77, 2.128),
    "proxy-b": (50.11, 4.403),
    "proxy-s": (26.09, 2.019),
    "proxy-t": (6.89, 0.275),
}
REAL = {
    "agnostic": (31.93, 2.911),
    "proxy-b": (53.61, 4.917),
    "proxy-s": (29.94, 2.611),
    "proxy-t": (9.14, 0.678),
}
HOME = {"agnostic": SMALL, "proxy-b": BASE, "proxy-s": SMALL, "proxy-t": TINY}


class TestPublished:
    @pytest.mark.parametrize(("name", "grid"), [("tiny", TINY), ("small", SMALL), ("base", BASE)])
    def test_a_sub_space_has_256_students(self, name: str, grid: Grid) -> None:
        space = named_space(f"autodistil-{name}")
        assert isinstance(space, TreeSpace)
        assert space.size() == grid.size == 4**4 == len(list(space.members()))

    @pytest.mark.parametrize("name", STUDENTS)
    def test_published_students_are_members_and_count_both_ways(self, name: str) -> None:
        shape: Shape = STUDENTS[name][0]
        params, flops = formula_params(shape), formula_flops(shape)
        assert (round(params / 1e6, 2), round(flops / 1e9, 3)) == BY_FORMULA[name]
        decisions = {
            "depth": shape.layers,
            "width": shape.hidden,
            "ratio": shape.ratio,
            "heads": shape.heads,
        }
        member = student_space(bert(), HOME[name]).resolve(decisions)
        assert member == student(shape)
        counts = count(member, length=128)
        assert round(counts.params / 1e6, 2) == REAL[name][0]
        assert counts.flops / 2e9 == pytest.approx(REAL[name][1], rel=0.03)
        assert counts.params > params, "attention is wider than the formula takes it to be"

    @pytest.mark.parametrize(
        ("grid", "least", "most"),
        [(TINY, 4.44, 10.71), (SMALL, 12.61, 28.20), (BASE, 39.21, 79.36)],
    )
    def test_the_ranges_of_the_paper_follow_from_its_formula(
        self, grid: Grid, least: float, most: float
    ) -> None:
        shapes = product(grid.layers, grid.width, grid.ratio, grid.heads)
        sizes = [formula_params(Shape(*shape)) / 1e6 for shape in shapes]
        assert (round(min(sizes), 2), round(max(sizes), 2)) == (least, most)

    def test_layers_are_spread_over_the_twelve_of_the_teacher(self) -> None:
        published = {
            4: (0, 3, 6, 9),
            5: (0, 2, 4, 7, 9),
            6: (0, 2, 4, 6, 8, 10),
            7: (0, 1, 3, 5, 6, 8, 10),
            9: (0, 1, 2, 4, 5, 6, 8, 9, 10),
            10: (0, 1, 2, 3, 4, 6, 7, 8, 9, 10),
            11: tuple(range(11)),
        }
        for name in ("tiny", "small", "base"):
            space = named_space(f"autodistil-{name}")
            assert isinstance(space, TreeSpace)
            (row,) = space.declared.layers.layers
            assert isinstance(row, Repeat)
            assert row.number == 12
            for kept in row.kept:
                assert kept == published.get(len(kept), tuple(range(12)))


class TestGrids:
    def test_the_teacher_itself_is_a_student_where_the_grid_allows_it(self) -> None:
        space = student_space(TEACHER, GRID)
        whole = student_space(TEACHER, Grid((2, 3, 4), (16, 32), (4.0,), (2, 4)))
        decisions = {"depth": 4, "width": 32, "ratio": 4.0, "heads": 4}
        member = whole.resolve(decisions)
        assert count(member).params == count(TEACHER).params
        assert all(count(space.resolve(d)).params < count(TEACHER).params for d in space.members())

    def test_a_hull_holds_the_students_of_all_its_grids(self) -> None:
        grids = sub_spaces(TEACHER)
        around = student_space(TEACHER, hull(grids.values()))
        for grid in grids.values():
            own = student_space(TEACHER, grid)
            for decisions in own.members():
                assert around.resolve(decisions) == own.resolve(decisions)

    def test_shares_of_a_teacher_end_with_its_own_sizes(self) -> None:
        found, whole = shares_of(TEACHER, (0.5, 1.0)), shape_of(TEACHER)
        assert (found.width, found.heads, found.ratio) == ((16, 32), (2, 4), (2.0, 4.0))
        assert found.layers == (2, 3, 4)
        assert found.layers[-1:] == whole.layers

    def test_an_embedding_of_its_own_size_may_be_open(self) -> None:
        text = "(sf)x2 in bert(32, heads=4, inner=64) for frame(50, 16, classify(3))"
        teacher = parse(text)
        embedding = teacher.backbone.embedding.replace(size=16)
        teacher = teacher.replace(backbone=teacher.backbone.replace(embedding=embedding))
        space = student_space(teacher, Grid((1, 2), (16, 32), (2.0,), (4,), (8, 16)))
        assert space.size() == 8
        small = space.resolve({"depth": 1, "width": 16, "ratio": 2.0, "heads": 4, "embedding": 8})
        assert small.backbone.embedding.size == 8

    @pytest.mark.parametrize(
        ("grid", "says"),
        [
            (Grid((5,), (32,), (4.0,), (4,)), "layers=5 do not fit into a teacher that has 4"),
            (Grid((4,), (48,), (1.0,), (4,)), "width=48 do not fit"),
            (Grid((4,), (32,), (4.0,), (8,)), "heads=8 do not fit"),
            (Grid((4,), (32,), (8.0,), (4,)), "256 inner units of the teacher's 128"),
            (Grid((4,), (32,), (4.0,), (4,), (8,)), "as wide as its stream"),
        ],
    )
    def test_students_larger_than_their_teacher_are_refused(self, grid: Grid, says: str) -> None:
        with pytest.raises(InputError, match=says):
            student_space(TEACHER, grid)

    @pytest.mark.parametrize("text", ["sfs in bert(32)", "(sc)x2 in bert(32)", "sffs in bert(32)"])
    def test_teachers_that_cannot_be_cut_are_refused(self, text: str) -> None:
        with pytest.raises(InputError, match="no row of equal layers"):
            student_space(parse(text), GRID)

    @pytest.mark.parametrize(
        "wrong",
        [((), (16,)), ((3, 2), (16,)), ((1, 3), (16,)), ((1, 2), (0, 16))],
    )
    def test_numbers_that_make_no_grid_are_refused(
        self, wrong: tuple[tuple[int, ...], tuple[int, ...]]
    ) -> None:
        with pytest.raises(InputError, match="must"):
            Grid(wrong[0], wrong[1], (1.0,), (1,))


class TestUnion(SpaceTestCase):
    name = "students"

    def made(self) -> Space:
        grids = {"small": GRID, "whole": Grid((4,), (32,), (2.0, 4.0), (2, 4))}
        return UnionSpace([student_space(TEACHER, g, name=n) for n, g in grids.items()])

    def test_every_member_lies_in_its_part(self) -> None:
        space = self.made()
        assert isinstance(space, UnionSpace)
        assert space.size() == 16 + 4 == len(list(space.members()))
        for decisions in space.members():
            part, own = space.inside(decisions)
            assert part.resolve(own) == space.resolve(decisions)
            assert PART not in own

    def test_an_unknown_part_is_named(self) -> None:
        space = self.made()
        with pytest.raises(SpecError, match="part = 'tiny' is not one of small, whole"):
            space.resolve({PART: "tiny"})

    def test_what_is_no_union_is_refused(self) -> None:
        one = student_space(TEACHER, GRID, name="one")
        for parts in ([], [one, one]):
            with pytest.raises(SpecError, match="different names"):
                UnionSpace(parts)
        taken = TreeSpace((OneOf(PART, (1, 2)),), name="taken")
        with pytest.raises(SpecError, match="cannot be part"):
            UnionSpace([taken])


def test_copies_are_refused_where_there_are_fewer_than_may_stand() -> None:
    unit = (OneOf("x", (1, 2)),)
    with pytest.raises(SpecError, match="up to 3 copies among 2"):
        Repeat("depth", unit, 1, 3, among=2)
    spread = Repeat("depth", unit, 1, 2, which="spread", among=6)
    assert spread.kept == ((0,), (0, 3))
    assert len(spread.copies()) == 6
