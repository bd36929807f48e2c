"""The life of every recipe of ours: stopped, killed, continued, ended, refused, found again."""

from typing import Any, ClassVar

from formwright.recipes.usual import UsualSearch
from formwright.testing import RecipeTestCase

TASK = "planted-near?length=12&symbols=4&train=200&valid=40&test=40"


class TestUsual(RecipeTestCase):
    """Trials in two stages, on a clock."""

    other = "control=0"
    options: ClassVar[Any] = {"task": TASK, "trials": 7, "width": 16, "space": "par"}
    changes = ("batch_tokens=96", "score_batches=1", "checkpoint_every=2")

    def made(self) -> UsualSearch:
        found = UsualSearch(**self.options, seconds=None, stages=(3, 9))
        for change in self.changes:
            found = found.with_setting(change)
        return found

    def words(self) -> list[str]:
        given = [word for name, value in self.options.items() for word in (f"--{name}", str(value))]
        settings = [word for change in self.changes for word in ("--set", change)]
        return [*given, "--steps", "3", "--workers", "1", *settings]


class TestLts(RecipeTestCase):
    name = "lts"
    other = "generations=3"


class TestPar(RecipeTestCase):
    """With a memory, which is part of what is kept, and prices."""

    name = "par-fast"
    same = ("supernet/**/trace.jsonl", "phases/*.json")


class TestMix(RecipeTestCase):
    """A supernet, and the search of its members."""

    name = "mix"
    changes = ("policy=single-path", "members=5", "random=1")
    other = "scored=2"
    same = ("supernet/trace.jsonl", "phases/*.json")


class TestFft(RecipeTestCase):
    name, task = "fft-mini", TASK
    other = "methods.1.samples=3"
    same = ("supernet/**/trace.jsonl", "phases/*.json")


class TestDartformer(RecipeTestCase):
    name = "dartformer-layers"
    changes = ("after=3",)
    other = "subset=3"
    same = ("supernet/trace.jsonl",)


class TestAutoDistil(RecipeTestCase):
    """A teacher, two supernets cut out of it, students that are tuned."""

    name = "autodistil"
    changes = ("order=important",)
    other = "form=scores"
    same = ("phases/*.json", "supernet/**/trace.jsonl")


class TestNasBert(RecipeTestCase):
    """Two blocks that shrink round by round, a table of models."""

    name = "nasbert"
    other = "shrinking.keep=3"
    same = ("phases/*.json", "supernet/**/trace.jsonl")
