"""Finding Fast Transformers: a trained BERT drops, and re-connects, its components.

Paper: Tsai et al. 2020, https://arxiv.org/abs/2008.06808

What the paper does                             where it lives here
feed-forward, heads, query-key and value        space.components, supernet.masks
channels as sums of parts; connectors
LayerNorm with or without its mean              arch.layer.LayerNorm
time of each kind of component                  cost.components
DO: real gates with an L1 price                 strategy.gradient.real
SDO: coins with learned odds                    strategy.gradient.bernoulli
lambda raised up to the accepted loss           strategy.gradient.ladder
the network without what was dropped            supernet.parts
-R, trained again from new weights              recipes.oneshot: trials of the study

Differs from the paper: the search begins at the trained baseline (``init``), which may itself begin
at a BERT that the user has (``beginning_at``), and what it finds is trained on for a few steps
with the weights it inherits. A price at which a training diverges counts as one that loses too
much. The price of a component is the share of the whole's time that is saved when it alone goes,
so that lambda is in units of loss per share of time; the paper does not say its unit. In ``paper``
prices add up, heads being what is left of attention without queries, keys and values (see
``space.components.prices``). Predicted times do add up. Gates of the deterministic search
learn from one batch in several, and coins are thrown once for each part of a batch, which makes a
step of the search about as fast as one of plain training. Odds are learnt with less noise than by
the paper's own rule, which ``fft-signs`` has to the letter. ``mini`` learns from the answers of the
whole network besides the labels, where the paper has a larger teacher label texts. Random networks
of the same predicted time are trained beside what was found. The model that is handed over, as
``RUN/best`` and ``RUN#N``, has the weights that were found.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Self

from formwright.arch import Architecture
from formwright.arch.counting import count
from formwright.cost import Meter, Target
from formwright.cost.components import shares_of_time
from formwright.errors import InputError
from formwright.estimate import Estimator, Final, Together
from formwright.estimate.base import Work
from formwright.estimate.inherited import (
    Continued,
    Found,
    FromComponents,
    FromModel,
    Inherited,
    Source,
)
from formwright.estimate.training import known_task
from formwright.model import Model, check_frame, load_model, read_architecture
from formwright.recipes.priced import DO, SDO, SIGNS, Method, Priced
from formwright.recipes.recipe import Phase, known_variant, published_recipe
from formwright.recipes.session import Session
from formwright.recipes.taught import read_with
from formwright.space import Decisions, TreeSpace
from formwright.space.components import BERT, Cut, Pricing, cut_of, predicted, prices
from formwright.strategy.gradient import GatePolicy
from formwright.supernet import Supernet
from formwright.supernet.parts import cut_into, hardened, kept_parts, merged
from formwright.tasks import Task
from formwright.train import TrainConfig


@dataclass(frozen=True, kw_only=True)
class Fft(Priced):
    """Every number of the system, besides those of all priced searches.

    Args:
        cut: The network, and how finely it is cut.
        init: Where the search begins: ``baseline``, ``new`` weights, or the folder of a model that
            the baseline begins at; see ``beginning_at``.
        lengths: Profile at these lengths and take the highest share of each component; the
            target's own when not given.
        pricing: What a head is charged with; see ``space.components.prices``.
    """

    cut: Cut
    init: str = "baseline"
    lengths: tuple[int, ...] = ()
    pricing: Pricing = "alone"

    @property
    def start(self) -> str:
        """Folder of the user's model; nothing where all begins with new weights."""
        return "" if self.init in ("baseline", "new") else self.init

    @property
    def continued(self) -> bool:
        return bool(self.start)

    @property
    def remembered(self) -> dict[str, str]:
        return {"start": self.start}

    def make_space(self) -> TreeSpace:
        """The networks that components make, with the frame of the task."""
        return self.cut.members(known_task(self.task).frame)

    def make_baseline(self) -> tuple[str, Architecture]:
        """The whole network."""
        arch = self.cut.baseline(known_task(self.task).frame)
        return f"whole network of {self.cut.layers} x {self.cut.width}", arch

    def estimator(self, folder: Path) -> Estimator:
        """What members inherited is told beside what they reach from new weights."""
        return Together(Found(str(folder), judged=self.continued), super().estimator(folder))

    def trained(self, folder: Path) -> Estimator:
        """From new weights; where there is a user's model, from its weights only."""
        if not self.start:
            return super().trained(folder)
        steps = (self.search.steps or 0) + (self.settling.steps or 0)
        whole = FromComponents(str(baseline_model(folder)), self.cut)
        return Continued(
            Inherited(self.task, self.training, source=FromModel(self.start)),
            Inherited(self.task, self.settling.replace(steps=steps), source=whole),
        )

    def finally_trained(self, folder: Path) -> Final:
        """All go on from the trained network: it, what was found, and the parts others keep."""
        source = FromWhole(str(folder), self.cut) if self.init != "new" else None
        how = self.settling if source else self.training
        return Final(self.task, how, fair=self.FAIR, source=source)

    def beginning_at(self, folder: str) -> Self:
        """The same for a trained BERT: its sizes, trained at rates that its weights survive."""
        place = str(Path(folder).expanduser().resolve())
        task = read_with(self.task, place)
        made = self if task == self.task else self.for_task(task)
        arch, frame = read_architecture(place), known_task(task).frame
        cut = known_cut(arch, self.cut, place)
        check_frame(arch, frame)
        # 5e-5 for BERT base, more if narrower
        gentle = {
            name: (config := getattr(self, name)).replace(lr=min(config.lr, 5e-5 * 768 / cut.width))
            for name in ("training", "search", "settling")
        }
        return replace(made, init=place, cut=cut, **gentle)

    # --- its life -----------------------------------------------------------------------

    def phases(self) -> Sequence[Phase]:
        first = (self.measure_baseline, self.profile, self.find)
        return (*first, self.judge, self.finals, self.conclude)

    def measure_baseline(self, session: Session) -> None:
        """Train the whole network, where the search begins."""
        session.evaluate_baseline(self.estimator(session.folder))

    def profile(self, session: Session) -> None:
        """Shares of the time of the whole, at each length."""
        for length in self.profiled:
            session.kept(f"profile-{length}", partial(self.shares, session, length))
        session.priced(self.costs(session))

    @property
    def profiled(self) -> tuple[int, ...]:
        """Lengths at which components are timed."""
        own = self.target.length if self.target else known_task(self.task).frame.length
        return self.lengths or (own,)

    def shares(self, session: Session, length: int) -> dict[str, float]:
        """Each kind of component, timed by leaving it out, or counted where there is no target."""
        session.say(f"timing the components of the whole network at length {length}")
        meter = Meter(self.target.replace(length=length)) if self.target is not None else None

        def measure(arch: Architecture) -> float:
            session.check()
            if meter is None:
                return float(count(arch, length=length).flops)
            return float(meter.measure(arch, seconds=self.seconds, precision=0.01).ratio)

        return shares_of_time(self.cut, known_task(self.task).frame, measure)

    def times(self, session: Session) -> dict[str, float]:
        """The highest share of each component over the lengths."""
        rows = [session.recall(f"profile-{length}") for length in self.profiled]
        return {name: max(row[name] for row in rows) for name in rows[0]}

    def costs(self, session: Session) -> dict[str, list[float]]:
        return prices(self.cut, self.times(session), self.pricing)

    def teacher(self, session: Session) -> Model:
        return load_model(baseline_model(session.folder))

    def predicted(self, session: Session, decisions: Decisions) -> float:
        return predicted(self.cut, self.times(session), decisions)

    def started(self, session: Session) -> tuple[Supernet, Sequence[str]]:
        supernet = self.supernet(self.cut.components(known_task(self.task).frame))
        if self.init != "new":
            cut_into(supernet, load_model(baseline_model(session.folder)), self.cut)
        return supernet, [name for name in supernet.slots if name.startswith("mean")]

    def taken_out(self, supernet: Supernet, policy: GatePolicy) -> tuple[Decisions, Model]:
        gates = hardened(policy.best_gates(), self.cut)
        decisions = self.cut.member(kept_parts(gates, self.cut))
        return decisions, merged(supernet, gates, self.cut)


def known_cut(arch: Architecture, cut: Cut, place: str) -> Cut:
    """The cut of a user's BERT, as fine as another where its sizes allow."""
    found = cut_of(arch, cut)
    if found is None:
        raise InputError(
            f"{place} holds no BERT that this search can cut: it takes layers of attention and "
            "GELU feed-forward, all of one size, with norms of eps 1e-12 behind them, learned "
            "positions and two segments."
        )
    return found


def baseline_model(root: Path) -> Path:
    """Where the trained baseline of a study is."""
    return root / "baseline" / "run" / "model"


@dataclass(frozen=True)
class FromWhole(Source):
    """Weights that come from the trained network, as finalists have them.

    The network itself has its own, what a search found those that the search left, any other
    member the parts of the network that it keeps.

    Args:
        folder: Of the study.
        cut: How the network is cut.
    """

    folder: str
    cut: Cut

    def model(self, work: Work, task: Task, config: TrainConfig) -> Model | None:
        root, found = Path(self.folder), work.trial.details.get("found")
        whole = baseline_model(root)
        if found is not None:
            return FromModel(str(root / found / "settled" / "model")).model(work, task, config)
        kept = FromModel(str(whole)) if work.trial.rival else FromComponents(str(whole), self.cut)
        return kept.model(work, task, config)


# --- the published numbers, and smaller ones --------------------------------------------

_METHODS = {"": (DO, SDO), "do": (DO,), "sdo": (SDO,), "signs": (SIGNS,)}
VARIANTS = {
    "fft": "bert", "fft-do": "bert-do", "fft-sdo": "bert-sdo", "fft-signs": "bert-signs",
    "fft-mini": "mini", "fft-mini-do": "mini-do", "fft-mini-sdo": "mini-sdo",
    "fft-mini-signs": "mini-signs",
}  # fmt: skip
NAMES = {variant: name for name, variant in VARIANTS.items()}


def paper(variant: str = "bert") -> Fft:
    """The published searches: BERT base on Wikipedia, or MiniBERT on tagged sentences.

    Texts are read from ``data``; name others with ``replace(.., task=..)``. Prices are the grid
    that was tried, in the paper's unit, which is not known.
    """
    methods = _methods(variant)
    grid = (1e-6, 1e-5, 1e-4, 1e-3, 1e-2)
    rates = {"do": 1e-3, "sdo": 1e-2}
    published = tuple(
        replace(m, prices=grid, refine=0, choices=replace(m.choices, lr=rates[m.kind]))
        for m in methods
    )
    if variant.startswith("mini"):
        adam = TrainConfig(
            steps=2_000_000, lr=5e-4, warmup=10_000, schedule="linear", weight_decay=0.0,
            batch_tokens=768 * 128, betas=(0.9, 0.999),
        )  # fmt: skip
        return Fft(
            name=f"{NAMES[variant]}-paper",
            task="tag:data/universal-dependencies?tokenizer=wordpiece:120000",
            cut=Cut(layers=3, width=256, heads=4, inner=1024, head_parts=4, inner_parts=8),
            methods=published,
            training=adam,
            search=adam,
            settling=adam.replace(steps=20_000, lr=5e-5, warmup=500),
            init="new",
            pricing="parts",
            target=Target(batch=16, length=128),
            lengths=(32, 128, 512),
        )
    lamb = TrainConfig(
        steps=250_000, optimiser="lamb", lr=1.8e-3, warmup=2500, schedule="linear",
        batch_tokens=64 * 128, accumulate=64, dropout=0.1, attention_dropout=0.1,
        betas=(0.9, 0.999),
    )  # fmt: skip
    return Fft(
        name=f"{NAMES[variant]}-paper",
        task="mlm:data/wikipedia?tokenizer=wordpiece:30522&length=512",
        cut=BERT,
        methods=published,
        training=lamb,
        search=lamb.replace(steps=125_000),
        settling=lamb.replace(steps=2500, lr=1e-4, warmup=100),
        accept=0.01,
        init="new",
        pricing="parts",
        target=Target(batch=16, length=128),
        lengths=(32, 128, 512),
    )


def small(variant: str = "bert") -> Fft:
    """The same on generated tasks: minutes on two cores."""
    methods = _methods(variant)
    whole = paper(variant)
    training = TrainConfig(
        steps=800, batch_tokens=1024, lr=2e-3, warmup=50, log_every=20, checkpoint_every=200
    )
    mini = variant.startswith("mini")
    return replace(
        whole,
        name=f"{NAMES[variant]}-small",
        task="planted-sofar?length=24&symbols=4" if mini else "planted-near?length=24&symbols=6",
        cut=replace(whole.cut, layers=3, width=64, heads=4, inner=256),
        methods=methods,
        training=training,
        search=training.replace(steps=400, lr=5e-4, warmup=20, schedule="constant"),
        settling=training.replace(steps=100, lr=5e-4, warmup=0),
        accept=0.003 if mini else 0.01,
        teach=0.5 if mini else 0.0,
        longer=2,
        init="baseline",
        pricing="alone",
        target=Target(batch=16, length=24),
        lengths=(),
        workers=2,
    )


def smoke(variant: str = "bert") -> Fft:
    """The same path in seconds, for tests."""
    made = small(variant)
    few: dict[str, Any] = {"batch_tokens": 192, "score_batches": 2, "warmup": 1}
    methods = tuple(replace(m, prices=m.prices[:2], samples=2) for m in made.methods)
    return replace(
        made,
        name=f"{NAMES[variant]}-smoke",
        cut=replace(made.cut, layers=2, width=16, heads=2, inner=32, head_parts=2, inner_parts=2),
        methods=methods,
        training=made.training.replace(steps=6, **few),
        search=made.search.replace(steps=12, log_every=2, checkpoint_every=5, **few),
        settling=made.settling.replace(steps=2, **few),
        accept=0.5,
        random=1,
        seconds=0.02,
        workers=1,
    )


def _methods(variant: str) -> tuple[Method, ...]:
    """The searches that a variant means: ``bert`` both, ``mini-sdo`` one."""
    known_variant("Finding Fast Transformers", variant, VARIANTS.values())
    return _METHODS[variant.partition("-")[2]]


published_recipe(VARIANTS, paper, small, smoke)
