"""AutoDistil: supernets cut out of a teacher, one for each range of sizes, and their best student.

Paper: Xu et al. 2022, https://arxiv.org/abs/2201.12507

What the paper does                              where it lives here
three sub-spaces of 256 students                 space.students, space.union
SuperLMs with the teacher's weights, sliced      supernet.adopt, supernet.slicing
layer map floor(i L / l)                         space.choice.Repeat, which="spread"
self-attention relations as the loss             distil.relations, train.distill
sandwich rule                                    strategy.gradient.sandwich
all students judged by that loss, no labels      rank() below
task-proxy search                                variant ``proxy``: students are tuned to be judged
fine-tuning                                      trials of the study

Differs from the paper: students are tuned with the teacher's answers beside the labels
(``taught=0`` tunes as published), the slices may be sorted by importance first
(``order="important"``), members of a supernet may take turns (``turns``, as in the preset
``small``), and random students of the same cost stand beside what was found, with every second
layer of the teacher where that is in the space. As published, shared weights do not rank students
(docs/log.md): a channel of queries belongs to another relation head in students with other heads,
and the layer that is the last of shallow students is not that of deep ones. So in ``small`` every
student ends with the teacher's last layer (``layers="to_last"``), and channels are dealt out to
relation heads (``split="dealt"``).
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from pathlib import Path
from random import Random
from typing import Any, Literal, Self

from formwright.arch import Architecture, parse
from formwright.cost import Target
from formwright.distil.relations import RelationLoss
from formwright.estimate.inherited import Source
from formwright.estimate.training import known_task
from formwright.model import Model
from formwright.recipes.picking import FROM_TEACHER, FromSuper, Picked, Row, best_first, scored
from formwright.recipes.recipe import Phase, known_variant, published_recipe
from formwright.recipes.session import SUPERNET, Session
from formwright.recipes.taught import Taught
from formwright.space import TreeSpace
from formwright.space.students import (
    BASE,
    SMALL,
    TINY,
    Grid,
    hull,
    shape_of,
    student_space,
    sub_spaces,
)
from formwright.space.union import PART, UnionSpace
from formwright.strategy.gradient import SandwichPolicy, SearchConfig
from formwright.study.outcome import Outcome
from formwright.supernet.adopt import adopt
from formwright.supernet.importance import sort_slices
from formwright.supernet.transfer import remembering
from formwright.tasks import Task
from formwright.trace import Trace
from formwright.train import TrainConfig
from formwright.train.distill import RelationForm, RelationSplit
from formwright.trial import CONTROL, FOUND, SEED, Proposal

VARIANTS = {"autodistil": "few", "autodistil-one": "one", "autodistil-proxy": "proxy"}
NAMES = {variant: name for name, variant in VARIANTS.items()}
HALF = "every second layer of the teacher"
# decisions, and what grids call them
_SIZES = {"depth": "layers", **{n: n for n in ("width", "ratio", "heads", "embedding")}}
_CHUNK = 32  # students whose losses are kept together


@dataclass(frozen=True, kw_only=True)
class AutoDistil(Taught):
    """Every number of the system, besides those of all recipes with a teacher.

    Args:
        parts: Sub-spaces by name; shares of the teacher's sizes when none are given.
        shots: ``few``, a supernet for each sub-space; ``one``, one for all of them.
        judged: How students are chosen: ``loss``, by their relations alone; ``proxy``, the best of
            those are tuned on the task for ``training`` steps, and the best of them is taken.
        proxied: How many are tuned in a search by proxy.
        form: Relations as the paper compares them, or as its released code does.
        split: How channels become relation heads: ``cut`` as published, or ``dealt``.
        layers: The layers of the teacher that students have: ``spread`` as published, or
            ``to_last``, with its last one always there.
        order: ``plain`` prefixes of the teacher's heads and channels, or ``important`` ones first.
        between: Random students of an update, beside the largest and the smallest.
        turns: Whether these take turns, one at each update.
        held: Batches of the validation set that students are judged on.
        calibrated: Batches by which importance is measured.
    """

    parts: tuple[tuple[str, Grid], ...] = ()
    shots: Literal["few", "one"] = "few"
    judged: Literal["loss", "proxy"] = "loss"
    proxied: int = 8
    form: RelationForm = "softmax"
    split: RelationSplit = "cut"
    layers: Literal["spread", "to_last"] = "spread"
    order: Literal["plain", "important"] = "plain"
    between: int = 2
    turns: bool = False
    held: int = 8
    calibrated: int = 4

    # --- what it is made from -----------------------------------------------------------

    @property
    def grids(self) -> dict[str, Grid]:
        """The sub-spaces."""
        return dict(self.parts) or sub_spaces(self.teacher)

    def fitted(self, arch: Architecture) -> Self:
        shape_of(arch)  # refuses what cannot be cut
        return replace(self, parts=())

    def make_space(self) -> UnionSpace:
        """All students of all sub-spaces, in the frame of the task."""
        parts = [self._space(grid, name) for name, grid in self.grids.items()]
        return UnionSpace(parts, name="students")

    def _space(self, grid: Grid, name: str) -> TreeSpace:
        return student_space(self.whole(), grid, name=name, which=self.layers)

    def supers(self) -> dict[str, TreeSpace]:
        """The space of each supernet: each sub-space, or one around all of them."""
        if self.shots == "few":
            return dict(self.make_space().parts)
        return {"all": self._space(hull(self.grids.values()), "all")}

    def source(self, folder: Path) -> Source:
        return FromSuper(str(folder), self.shots)

    @property
    def drawn(self) -> int:
        return 0  # those of equal cost are among the candidates

    @property
    def expected(self) -> int:
        """Trials: what was found, every second layer, random students."""
        return (self.proxied if self.judged == "proxy" else len(self.grids)) + 1 + self.random

    @property
    def passes(self) -> int:
        each = 1 if self.turns else 2 + self.between
        return len(self.supers()) * each * super().passes

    # --- its life -----------------------------------------------------------------------

    def phases(self) -> Sequence[Phase]:
        return (self.teach, self.find, self.judge, self.finals, self.conclude)

    def find(self, session: Session) -> None:
        """Train the supernets, score all students, keep the best that the limits allow."""
        if session.has("picked"):
            return
        self.check_limits(session)
        teacher = self.sorted_teacher(session)
        for name, space in self.supers().items():
            self.distil(session, teacher, name, space)
        session.kept("picked", partial(self.pick, session))

    def check_limits(self, session: Session) -> None:
        """Refuse limits that not even the smallest students keep, before anything is trained."""
        space, timer = self.make_space(), self.timer(session)
        smallest = []
        for name, part in space.parts.items():
            least = {choice: part.choices[choice].every[0] for choice in part.choices}
            decisions = {PART: name, **part.checked(least)}
            smallest.append(Row(name, decisions, 0.0, self.counted(space.resolve(decisions))))
        best_first(
            smallest, self.limits(session), 1, lambda row: timer(space.resolve(row.decisions))
        )

    def sorted_teacher(self, session: Session) -> Model:
        """The teacher, with what matters most first where so wished; it computes the same."""
        teacher = remembering(self.model(session))
        if self.order == "important":
            task = known_task(self.task)
            plan = task.sampler(batch_tokens=self.search.batch_tokens, seed=self.seed)
            losses = [
                partial(_task_loss, task, plan.batch(number)) for number in range(self.calibrated)
            ]
            moved = sort_slices(teacher, losses)
            session.say(f"sorted the slices of {len(moved)} places by importance")
        return teacher

    def distil(self, session: Session, teacher: Model, name: str, space: TreeSpace) -> None:
        """Train the supernet of a sub-space, and score its students; once."""
        members = [own for _, own in self.students(name)]
        chunks = [members[i : i + _CHUNK] for i in range(0, len(members), _CHUNK)]
        names = [f"scores-{name}-{i}" for i in range(len(chunks))]
        if all(map(session.has, names)):
            return
        supernet = self.supernet(space)
        share = adopt(supernet, teacher)
        session.say(f"{name}: a supernet of {space.size():,} with {share:.0%} of it the teacher's")
        policy = SandwichPolicy(supernet, between=self.between, turns=self.turns)
        loss = RelationLoss(teacher, form=self.form, split=self.split)
        session.search(
            supernet,
            policy,
            self.search,
            SearchConfig(every=0),
            session.folder / SUPERNET / name,
            task=self.corpus or self.task,
            loss=loss,
        )
        batches = list(islice(self.held_out(), self.held))
        for chunk, kept in zip(chunks, names, strict=True):
            session.kept(kept, partial(scored, supernet, loss, batches, chunk, session.check))

    def held_out(self) -> Any:
        """Batches that no supernet learns from; the same for all of them."""
        task = known_task(self.corpus or self.task)
        return task.batches("valid", batch_tokens=self.search.batch_tokens)

    def students(self, name: str) -> list[tuple[str, dict[str, Any]]]:
        """The students that a supernet holds, each with its sub-space."""
        parts = self.make_space().parts
        return [
            (part, dict(decisions))
            for part, space in parts.items()
            if name in (part, "all")
            for decisions in space.members()
        ]

    def rows(self, session: Session) -> list[Row]:
        """Every student with its loss and what it counts."""
        found, space = [], self.make_space()
        for name in self.supers():
            students = self.students(name)
            count = -(-len(students) // _CHUNK)
            losses = [x for i in range(count) for x in session.recall(f"scores-{name}-{i}")]
            for (part, own), loss in zip(students, losses, strict=True):
                decisions = {PART: part, **own}
                arch = space.resolve(decisions)
                found.append(Row(part, decisions, loss, self.counted(arch)))
        return found

    def pick(self, session: Session) -> dict[str, Any]:
        """The students of least loss that keep the limits: overall, and of each sub-space."""
        rows, limits = self.rows(session), self.limits(session)
        trace = Trace(session.folder / SUPERNET)
        if trace.last("scored") is None:
            trace.add("scored", rows=[row.to_data() for row in rows], limits=limits)
        space, timer = self.make_space(), self.timer(session)

        def price(row: Row) -> float:
            return timer(space.resolve(row.decisions))

        wanted = self.proxied if self.judged == "proxy" else 1
        found = best_first(rows, limits, wanted, price)
        for part in self.grids if self.judged == "loss" else ():
            if all(row.part != part for row in found):
                own = [row for row in rows if row.part == part]
                found += best_first(own, limits, 1, price, strict=False)
        session.say(f"of {len(rows):,} students, {len(found)} are tuned on the task")
        return {"found": [row.to_data() for row in found], "limits": limits}

    def candidates(self, session: Session) -> Sequence[Proposal]:
        """What was found, every second layer of the teacher, random students of equal cost."""
        picked = Picked.of(session.recall("picked"))
        first = picked.found[0]
        members = [
            Proposal(
                decisions=row.decisions,
                origin=FOUND,
                note=f"found in {row.part}",
                details={"relation_loss": row.loss},
            )
            for row in picked.found
        ]
        taken = [proposal.decisions for proposal in members]
        half = self.every_second()
        if half is not None and half not in taken:
            taken.append(half)
            members.append(
                Proposal(decisions=half, origin=SEED, note=HALF, details={FROM_TEACHER: True})
            )
        rows = [row for row in self.rows(session) if row.decisions not in taken]
        Random(f"{self.seed}/equal cost").shuffle(rows)
        cost = "params" if "params" in picked.limits else "flops"
        near = sorted(rows, key=lambda row: abs(row.costs[cost] / first.costs[cost] - 1) > 0.1)
        return members + [
            Proposal(decisions=row.decisions, origin=CONTROL, note="as dear as what was found")
            for row in near[: self.random]
        ]

    def every_second(self) -> dict[str, Any] | None:
        """Half of the teacher's layers, whole; None where no sub-space has it."""
        whole = shape_of(self.teacher)
        half = replace(whole, layers=(max(1, whole.layers[0] // 2),))
        for name, grid in self.grids.items():
            sizes = {decision: getattr(half, size) for decision, size in _SIZES.items()}
            if all(set(sizes[d]) <= set(getattr(grid, size)) for d, size in _SIZES.items()):
                return {PART: name, **{d: size[0] for d, size in sizes.items() if size}}
        return None

    def compared(self, session: Session) -> Outcome:
        """The best of what was found against its teacher and against the controls."""
        return self.told(session, HALF)


def _task_loss(task: Task, batch: Any, model: Model) -> Any:
    return task.loss(model, batch)


# --- the published numbers, and smaller ones --------------------------------------------


def paper(variant: str = "few") -> AutoDistil:
    """The published search: BERT base, Wikipedia and books, 128 tokens, ten epochs.

    Texts are read from ``data``; give BERT itself with ``--from``. Fine-tuning is on MNLI.
    """
    known_variant("AutoDistil", variant, VARIANTS.values())
    adam = TrainConfig(
        steps=300_000, lr=4e-5, warmup=0, schedule="linear", weight_decay=0.01,
        betas=(0.9, 0.999), batch_tokens=128 * 128, clip=1.0,
    )  # fmt: skip
    tuning = adam.replace(steps=36_000, lr=3e-5, warmup=2000, batch_tokens=32 * 128)
    return AutoDistil(
        name=f"{NAMES[variant]}-paper",
        task="classify:data/mnli?tokenizer=wordpiece:30522&length=128",
        corpus="mlm:data/wikipedia?tokenizer=wordpiece:30522&length=128",
        teacher=parse("(sf)x12 in bert"),
        parts=(("tiny", TINY), ("small", SMALL), ("base", BASE)),
        shots="one" if variant == "one" else "few",
        judged="proxy" if variant == "proxy" else "loss",
        proxied=768,
        search=adam,
        teaching=adam.replace(steps=1_000_000, lr=1e-4, warmup=10_000, batch_tokens=256 * 128),
        training=tuning,
        taught=0.0,
        held=64,
        target=None,
    )


def small(variant: str = "few") -> AutoDistil:
    """The same for a small teacher on a generated task: minutes on one core."""
    whole = paper(variant)
    training = TrainConfig(
        steps=300, batch_tokens=1024, lr=1e-3, warmup=20, log_every=20, checkpoint_every=100
    )
    return replace(
        whole,
        name=f"{NAMES[variant]}-small",
        task="planted-near?length=24&symbols=6",
        corpus="",
        teacher=parse("(sf)x4 in bert(64, heads=4, inner=256)"),
        parts=(),
        proxied=8,
        turns=True,
        split="dealt",
        layers="to_last",
        search=training.replace(steps=800, lr=5e-4),
        teaching=training.replace(steps=800, lr=2e-3, warmup=50),
        training=training,
        taught=0.5,
        held=8,
        random=3,
        longer=2,
        entrants=2,
        target=Target(batch=16, length=24),
    )


def smoke(variant: str = "few") -> AutoDistil:
    """The same path in seconds, for tests."""
    made = small(variant)
    few: dict[str, Any] = {"batch_tokens": 192, "score_batches": 2, "warmup": 1}
    tiny = Grid((1, 2), (8, 16), (1.0, 2.0), (1, 2))
    return replace(
        made,
        name=f"{NAMES[variant]}-smoke",
        teacher=parse("(sf)x2 in bert(16, heads=2, inner=32)"),
        parts=(("tiny", replace(tiny, layers=(1,))), ("base", tiny)),
        proxied=3,
        teaching=made.teaching.replace(steps=6, **few),
        search=made.search.replace(steps=8, log_every=2, checkpoint_every=5, **few),
        training=made.training.replace(steps=3, **few),
        held=1,
        calibrated=1,
        random=1,
        seconds=0.02,
        share=0.9,
    )


published_recipe(VARIANTS, paper, small, smoke)
