"""NAS-BERT: blocks that imitate groups of a teacher's layers, and any size of model made of them.

Paper: Xu et al. 2021, https://arxiv.org/abs/2105.14444

What the paper does                              where it lives here
24 layers, 4 blocks, 26 candidates               space.chain
block-wise training against the teacher          distil.imitation
bins by parameters and latency                   distil.bins
progressive shrinking inside bins                recipes.shrinking
latency of each candidate, measured once         recipes.chain_costs
table of 1e8 models, 100 best for two limits     distil.assembly
those evaluated as whole models                  distil.imitation.whole_loss
retraining and tuning with distillation          trials of the study, from new weights

Differs from the paper: blocks borrow the teacher's embedding and head while models are evaluated
whole, by how far their answers are from the teacher's; the maps from and to the teacher's width are
dropped when a model is trained again, and where two blocks differ in width one map stands between
them. The latency of what is no block is measured for each width and added. The preset ``small`` has
a bin for each pair of a size and a latency (``shrinking.agree``). Random models of the same table
stand beside what was found, and a plain order of the same cost.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from pathlib import Path
from random import Random
from typing import Any, Self

from formwright.arch import Architecture, parse
from formwright.cost import Target
from formwright.distil.assembly import Assembled, Assembly, Block
from formwright.distil.imitation import BlockLoss, groups, whole_loss
from formwright.errors import InputError
from formwright.estimate.inherited import Source
from formwright.estimate.training import known_task
from formwright.model import Model
from formwright.recipes.chain_costs import Between, ChainCosts
from formwright.recipes.picking import Row
from formwright.recipes.recipe import Phase, known_variant, published_recipe
from formwright.recipes.session import SUPERNET, Session
from formwright.recipes.shrinking import Shrinking, Shrunk
from formwright.recipes.taught import Taught
from formwright.space.chain import ChainSpace, Links
from formwright.space.students import unit_of
from formwright.study.outcome import Outcome
from formwright.trace import Trace
from formwright.train import TrainConfig
from formwright.trial import CONTROL, FOUND, SEED, Proposal

VARIANTS = {"nasbert": "bert"}
PLAIN = "plain order of equal cost"


_ROUNDS = 8  # in which a block usually shrinks to what is kept


@dataclass(frozen=True, kw_only=True)
class NasBert(Taught):
    """Every number of the system, besides those of all recipes with a teacher.

    Args:
        links: What chains are made of.
        shrinking: How blocks shrink.
        search: Of one round; ``steps`` is an epoch of the paper.
        assembled: Rows of the table that are evaluated as whole models.
        found: Of those, how many are trained again.
    """

    links: Links = Links()  # noqa: RUF009  # frozen
    shrinking: Shrinking = Shrinking()  # noqa: RUF009  # frozen
    assembled: int = 100
    found: int = 1

    # --- what it is made from -----------------------------------------------------------

    def make_space(self) -> ChainSpace:
        """Chains in the frame of the task, built as the teacher is."""
        return ChainSpace(self.whole(), self.links, name="nasbert")

    def fitted(self, arch: Architecture) -> Self:
        """The chain scaled to a teacher: its heads, shares of its width, groups of its layers."""
        attention, _, depth = unit_of(arch)
        width = arch.backbone.width
        head = width // getattr(attention.inner, "heads", 1)
        heads = width // head
        shares = sorted({max(1, round(heads * share)) for share in (1 / 4, 1 / 2, 2 / 3, 1)})
        blocks = next((n for n in (4, 3, 2) if depth % n == 0 and depth > n), 1)
        links = replace(
            self.links,
            blocks=blocks,
            layers=min(self.links.layers, 2 * depth // blocks),
            widths=tuple(head * share for share in shares),
            head=head,
        )
        return replace(self, links=links)

    def check(self) -> None:
        super().check()
        if self.max_flops is not None and self.where() is not None:
            raise InputError(
                "nasbert has limits on parameters and on latency; leave --max-flops out, or give "
                "no target."
            )
        groups(len(self.teacher.layers.layers), self.links.blocks)

    def source(self, folder: Path) -> Source | None:
        return None  # the winner is trained again from new weights, as published

    @property
    def passes(self) -> int:
        """Of single blocks, each a part of a whole pass; the teacher reads for all of them."""
        return (self.shrinking.warm + _ROUNDS) * super().passes

    @property
    def drawn(self) -> int:
        return 0  # those of the same table are among the candidates

    @property
    def expected(self) -> int:
        """Trials: what was found, a plain order, random models of the table."""
        return self.found + 1 + self.random

    # --- its life -----------------------------------------------------------------------

    def phases(self) -> Sequence[Phase]:
        return (self.teach, self.find, self.judge, self.finals, self.conclude)

    def find(self, session: Session) -> None:
        """Measure candidates, train and shrink the blocks, choose from the table."""
        self.price(session)
        if not session.has("picked"):
            self.single(session).select(*self.allowed(session), 1)  # refuses what nothing keeps
        self.shrink(session)
        self.assemble(session)

    def price(self, session: Session) -> None:
        """Measure every candidate once."""
        session.kept("prices", partial(ChainCosts(self).measured, session))

    def shrink(self, session: Session) -> None:
        """Train and shrink every block, one after the other; none needs another."""
        if all(session.has(f"block-{n}") for n in range(self.links.blocks)):
            return
        for block in self.blocks(session, self.model(session)):
            block.blocks()

    def blocks(self, session: Session, teacher: Model) -> list[Shrunk]:
        """The blocks of the chain, each with the layers of the teacher that it stands for."""
        space, task = self.make_space(), self.corpus or self.task
        costs = ChainCosts(self).of_blocks(session.recall("prices"))
        valid = known_task(task).batches("valid", batch_tokens=self.search.batch_tokens)
        held = list(islice(valid, self.shrinking.batches))
        ends = groups(len(self.teacher.layers.layers), self.links.blocks)
        return [
            Shrunk(
                session, number, space, costs, self.shrinking, self.search, task,
                BlockLoss(teacher, *end), held,
            )
            for number, end in enumerate(ends)
        ]  # fmt: skip

    def assemble(self, session: Session) -> None:
        """Take the best rows that keep the limits, and evaluate them as whole models."""
        session.kept("picked", partial(self.pick, session))

    def table(self, session: Session) -> Assembly:
        """All models that the blocks which are left can make."""
        places = [
            [Block(**row) for row in session.recall(f"block-{n}")] for n in range(self.links.blocks)
        ]
        return Assembly(places, Between(ChainCosts(self), session.recall("prices")))

    def single(self, session: Session) -> Assembly:
        """The smallest models of all, of one operator in each block; their losses are not known."""
        costs, prices = ChainCosts(self), session.recall("prices")
        params = costs.params
        row = [
            Block(f"{w} {k}", w, params[f"{w} {k}"], prices[f"{w} {k}"], 0.0)
            for w in self.links.widths
            for k in self.links.kinds
        ]
        return Assembly([row] * self.links.blocks, Between(costs, prices))

    def allowed(self, session: Session) -> tuple[float | None, float | None]:
        """The most parameters, and the longest latency or most FLOPs."""
        limits = self.limits(session)
        return limits.get("params"), limits.get(session.study.objectives[1].name)

    def pick(self, session: Session) -> dict[str, Any]:
        """The best of the table for the limits, by how they answer as whole models."""
        table, teacher = self.table(session), self.model(session)
        session.say(f"choosing among {table.rows:,} models")
        rows = table.select(*self.allowed(session), self.assembled)
        shrunk = self.blocks(session, teacher)
        supernets = [block.supernet() for block in shrunk]
        space = self.make_space()
        task = known_task(self.task)
        held = list(
            islice(
                task.batches("valid", batch_tokens=self.search.batch_tokens),
                self.shrinking.batches,
            )
        )
        judged = []
        for row in rows:
            session.check()
            pieces = [
                (supernet, space.block_decisions(block.path))
                for supernet, block in zip(supernets, row.blocks, strict=True)
            ]
            judged.append((whole_loss(teacher, pieces, held), row))
        found = [self.row(row, loss) for loss, row in judged]
        trace = Trace(session.folder / SUPERNET)
        if trace.last("scored") is None:
            trace.add("scored", rows=[row.to_data() for row in found], limits=self.limits(session))
        found.sort(key=lambda row: row.loss)
        return {"found": [r.to_data() for r in found], "limits": self.limits(session)}

    def row(self, row: Assembled, loss: float) -> Row:
        """A row of the table as a student."""
        decisions = {f"block{n}": block.path for n, block in enumerate(row.blocks)}
        costs = self.counted(self.make_space().resolve(decisions))
        about = {"table_loss": row.loss, "table_latency": row.latency}
        return Row("table", decisions, loss, {**costs, **about})

    def candidates(self, session: Session) -> Sequence[Proposal]:
        """What was found, a plain order of equal cost, random models of the table."""
        picked = [Row(**row) for row in session.recall("picked")["found"]]
        best = picked[: self.found]
        members = [
            Proposal(
                decisions=row.decisions,
                origin=FOUND,
                note="found in the table",
                details={"whole_loss": row.loss},
            )
            for row in best
        ]
        taken = [row.decisions for row in best]
        plain = self.plain(session, best[0].costs["params"])
        if plain is not None and plain not in taken:
            members.append(Proposal(decisions=plain, origin=SEED, note=PLAIN))
        return members + [
            Proposal(decisions=decisions, origin=CONTROL, note="drawn from the table")
            for decisions in self.random_rows(session, [*taken, plain])
        ]

    def plain(self, session: Session, params: float) -> dict[str, Any] | None:
        """Attention and feed-forward in turn, nearest in parameters; None where kinds lack one."""
        if not {"M", "F"} <= set(self.links.kinds):
            return None
        space, found = self.make_space(), []
        for width in self.links.widths:
            for length in range(1, self.links.layers + 1):
                words = " ".join("MF"[i % 2] for i in range(length))
                decisions = dict.fromkeys(space.names, f"{width} {words}")
                size = self.counted(space.resolve(decisions))["params"]
                found.append((abs(size - params), width, length, decisions))
        return min(found, key=lambda each: each[:3])[3]

    def random_rows(self, session: Session, taken: Sequence[Any]) -> list[dict[str, Any]]:
        """Models of the table that keep the limits, drawn at random."""
        table, rng = self.table(session), Random(f"{self.seed}/random rows")
        most, found = self.allowed(session), list[dict[str, Any]]()
        for _ in range(2000):
            if len(found) == self.random:
                break
            row = table.row([rng.randrange(len(place)) for place in table.places])
            decisions = {f"block{n}": block.path for n, block in enumerate(row.blocks)}
            keeps = all(
                limit is None or value <= limit
                for value, limit in zip((row.params, row.latency), most, strict=True)
            )
            if keeps and decisions not in taken and decisions not in found:
                found.append(decisions)
        return found

    def compared(self, session: Session) -> Outcome:
        """The best of what was found against its teacher and against the controls."""
        return self.told(session, PLAIN)


# --- the published numbers, and smaller ones --------------------------------------------


def paper(variant: str = "bert") -> NasBert:
    """The published search: BERT base, 16 GB of text, batches of 1024 texts of 512 tokens.

    Texts are read from ``data``; give BERT itself with ``--from``.
    """
    known_variant("NAS-BERT", variant, VARIANTS.values())
    adam = TrainConfig(
        steps=30_000, lr=5e-4, warmup=10_000, schedule="constant", weight_decay=0.01,
        betas=(0.9, 0.999), batch_tokens=64 * 512, accumulate=16, dropout=0.1,
    )  # fmt: skip
    training = adam.replace(steps=125_000, schedule="linear", accumulate=32)
    return NasBert(
        name="nasbert-paper",
        task="mlm:data/wikipedia?tokenizer=wordpiece:30522&length=512",
        teacher=parse("(sf)x12 in bert"),
        links=Links(),
        search=adam,
        teaching=training,
        training=training,
        taught=0.5,
        target=Target(batch=128, length=128),
    )


def small(variant: str = "bert") -> NasBert:
    """The same for a small teacher on a generated task: minutes on one core."""
    training = TrainConfig(
        steps=600, batch_tokens=1024, lr=2e-3, warmup=30, log_every=20, checkpoint_every=100
    )
    return replace(
        paper(variant),
        name="nasbert-small",
        task="planted-near?length=24&symbols=6",
        teacher=parse("(sf)x4 in bert(64, heads=4, inner=256)"),
        links=Links(blocks=2, layers=3, widths=(32, 48, 64), kinds=("M", "F", "S3", "S5"), head=16),
        shrinking=Shrinking(bins=4, keep=2, judged=64, warm=3, batches=4, agree=False),
        search=training.replace(steps=120, schedule="constant", lr=1e-3),
        teaching=training.replace(steps=800, warmup=50),
        training=training,
        assembled=16,
        random=3,
        longer=2,
        entrants=2,
        target=Target(batch=16, length=24),
    )


def smoke(variant: str = "bert") -> NasBert:
    """The same path in seconds, for tests."""
    made = small(variant)
    few: dict[str, Any] = {"batch_tokens": 192, "score_batches": 2, "warmup": 1}
    return replace(
        made,
        name="nasbert-smoke",
        teacher=parse("(sf)x2 in bert(16, heads=2, inner=32)"),
        links=Links(blocks=2, layers=2, widths=(8, 16), kinds=("M", "F", "S3"), head=8),
        shrinking=Shrinking(bins=2, keep=2, judged=6, warm=1, batches=1),
        teaching=made.teaching.replace(steps=6, **few),
        search=made.search.replace(steps=4, log_every=2, checkpoint_every=3, **few),
        training=made.training.replace(steps=3, **few),
        assembled=4,
        random=1,
        seconds=0.02,
        share=0.95,
    )


published_recipe(VARIANTS, paper, small, smoke)
