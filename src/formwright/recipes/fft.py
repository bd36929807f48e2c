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
so that lambda is in units of loss per share of time; the paper does not say its unit. The price of
a head therefore holds its part of comparing queries with keys and of mixing values, which goes with
it, although slices of those have prices too: all prices together exceed the whole's time, where
costs that add up would leave those parts out of the head's. Then a head would be worth less than
what is saved when it alone goes. Predicted times do add up. Gates of the deterministic search
learn from one batch in several, and coins are thrown once for each part of a batch, which makes a
step of the search about as fast as one of plain training. Random networks of the same predicted
time are trained beside what was found.
"""

import json
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from math import gcd
from pathlib import Path
from random import Random
from typing import Any, Literal, Self

from formwright.arch import Architecture, Attention, FeedForward
from formwright.arch.counting import count
from formwright.arch.frame import Frame
from formwright.cost import Meter, Target
from formwright.cost.components import shares_of_time
from formwright.errors import InputError, Stopped
from formwright.estimate import Estimator, Together
from formwright.estimate.inherited import (
    Continued,
    Found,
    FromComponents,
    FromModel,
    Inherited,
)
from formwright.estimate.training import known_task
from formwright.files import write_atomically
from formwright.model import Model, check_frame, load_model, read_architecture
from formwright.recipes.headline import champion, paired
from formwright.recipes.life import Session
from formwright.recipes.oneshot import SUPERNET, OneShot
from formwright.recipes.recipe import Phase, published_recipe
from formwright.space import Decisions, TreeSpace
from formwright.space.components import BERT, Cut, predicted, prices
from formwright.strategy.gradient import (
    BernoulliPolicy,
    Diverged,
    GatePolicy,
    RealPolicy,
    SearchConfig,
)
from formwright.strategy.gradient.ladder import highest_accepted
from formwright.study.outcome import Outcome
from formwright.supernet import Supernet
from formwright.supernet.parts import cut_into, hardened, kept_parts, merged
from formwright.train import TrainConfig, train
from formwright.trial import CONTROL, FOUND, Proposal, Trial

_DRAWS = 400  # random members among which those of equal cost are picked
_FOUND = "found.json"
_SHOWN = ("run.json", "search.json", "log.jsonl", "gates.jsonl", "result.json")


@dataclass(frozen=True, kw_only=True)
class Method:
    """A search and its numbers.

    Args:
        kind: ``do``, real gates with an L1 price; ``sdo``, coins with learned odds.
        prices: Rising: loss that the whole time of the network would be worth.
        refine: Prices tried between the highest that is accepted and the lowest that is not.
        choices: When and how gates learn.
        samples: Draws of an update, for ``sdo``.
        start: First log-odds of a component; of a connection, minus that.
        form: See ``BernoulliPolicy``.
    """

    kind: Literal["do", "sdo"]
    prices: tuple[float, ...]
    choices: SearchConfig
    refine: int = 0
    samples: int = 1
    start: float = 2.0
    form: Literal["signs", "exact", "controlled"] = "controlled"

    def __post_init__(self) -> None:
        if not self.prices or list(self.prices) != sorted(self.prices) or self.prices[0] < 0:
            raise InputError(f"prices={self.prices} must be rising numbers from 0 on.")
        if self.refine < 0:
            raise InputError(f"refine={self.refine} must be at least 0.")

    def policy(
        self, supernet: Supernet, costs: Mapping[str, list[float]], price: float
    ) -> GatePolicy:
        """Who holds the gates; it begins at the whole network."""
        means = [name for name in supernet.slots if name.startswith("mean")]
        if self.kind == "do":
            first = dict.fromkeys(means, 1.0)
            return RealPolicy(supernet, start=first, adaptive=True, prices=costs, price=price)
        odds = {"maybe": self.start, "size": self.start, "number": -self.start}
        return BernoulliPolicy(
            supernet,
            start=odds | dict.fromkeys(means, self.start),
            form=self.form,
            samples=self.samples,
            prices=costs,
            price=price,
        )


@dataclass(frozen=True)
class Finding:
    """What a search came to.

    Args:
        method: ``do`` or ``sdo``.
        price: At which.
        decisions: The member of the space.
        scores: On the validation split, with inherited weights.
        steps: Of the search and after it.
        folder: Where its files are, from the study's folder on.
        fault: Why nothing came of it, where a training diverged.
    """

    method: str
    price: float
    decisions: Decisions
    scores: dict[str, float]
    steps: int
    folder: str
    fault: str = ""

    def keep(self, folder: Path) -> "Finding":
        """Write it down, so that it is not searched for again."""
        write_atomically(folder / _FOUND, json.dumps(asdict(self), indent=1).encode())
        for spent in (*folder.glob("checkpoint-*"), *folder.glob("settled/checkpoint-*")):
            shutil.rmtree(spent, ignore_errors=True)
        return self

    @classmethod
    def known(cls, folder: Path) -> "Finding | None":
        """What was written down in a folder."""
        path = folder / _FOUND
        return cls(**json.loads(path.read_text(encoding="utf-8"))) if path.exists() else None


@dataclass(frozen=True, kw_only=True)
class Fft(OneShot):
    """Every number of the system, besides those of all one-shot recipes.

    Args:
        cut: The network, and how finely it is cut.
        methods: Searches, each with its prices.
        training: Of the baseline, of what was found and of random members, from new weights.
        search: Of the weights while the gates learn.
        settling: Of what was found, with the weights it inherits.
        accept: How much of the metric may be lost on the validation split.
        init: Where the search begins: ``baseline``, ``new`` weights, or the folder of a model that
            the baseline begins at; see ``beginning_at``.
        lengths: Profile at these lengths and take the highest share of each component; the
            target's own when not given.
        random: Random members of equal predicted cost for each search.
    """

    cut: Cut
    methods: tuple[Method, ...]
    settling: TrainConfig
    accept: float = 0.003
    init: str = "baseline"
    lengths: tuple[int, ...] = ()
    random: int = 2
    seconds: float = 1.0

    def __post_init__(self) -> None:
        if not self.methods:
            raise InputError("Finding Fast Transformers needs a method; give do, sdo or both.")
        if self.accept < 0:
            raise InputError(f"accept={self.accept} must be at least 0.")

    @property
    def expected(self) -> int:
        """Trials: what each method found, and random members."""
        return len(self.methods) * (1 + self.random)

    @property
    def drawn(self) -> int:
        return 0  # those of equal cost are among the candidates

    @property
    def start(self) -> str:
        """Folder of the user's model; nothing where all begins with new weights."""
        return "" if self.init in ("baseline", "new") else self.init

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
        return Together(Found(str(folder), judged=bool(self.start)), super().estimator(folder))

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

    def beginning_at(self, folder: str) -> Self:
        """The same for a trained BERT: its sizes, trained at rates that its weights survive."""
        place = str(Path(folder).resolve())
        cut = cut_like(place, known_task(self.task).frame, self.cut)

        def gentle(config: TrainConfig) -> TrainConfig:
            """5e-5 for BERT base, more if narrower."""
            return config.replace(lr=min(config.lr, 5e-5 * 768 / cut.width))

        return replace(
            self,
            init=place,
            cut=cut,
            training=gentle(self.training),
            search=gentle(self.search),
            settling=gentle(self.settling),
        )

    # --- its life -----------------------------------------------------------------------

    def phases(self) -> Sequence[Phase]:
        return (self.measure_baseline, self.profile, self.find, self.judge, self.conclude)

    def measure_baseline(self, session: Session) -> None:
        """Train the whole network, where the search begins."""
        session.evaluate_baseline(self.estimator(session.folder))

    def profile(self, session: Session) -> None:
        """Shares of the time of the whole, at each length."""
        frame, target = known_task(self.task).frame, session.target
        for length in self.profiled:
            compute = partial(self.timed_shares, session, frame, target, length)
            session.kept(f"profile-{length}", compute)
        folder = session.folder / SUPERNET
        folder.mkdir(exist_ok=True)
        costs = prices(self.cut, self.times(session))
        write_atomically(folder / "prices.json", json.dumps(costs, indent=1).encode())

    @property
    def profiled(self) -> tuple[int, ...]:
        """Lengths at which components are timed."""
        target = self.target
        own = target.length if target is not None else known_task(self.task).frame.length
        return self.lengths or (own,)

    def timed_shares(
        self, session: Session, frame: Frame, target: Target | None, length: int
    ) -> dict[str, float]:
        """Each kind of component, timed by leaving it out, or counted where there is no target."""
        session.say(f"timing the components of the whole network at length {length}")
        meter = None if target is None else Meter(target.replace(length=length))

        def measure(arch: Architecture) -> float:
            session.check()
            if meter is None:
                return float(count(arch, length=length).flops)
            return float(meter.measure(arch, seconds=self.seconds, precision=0.01).ratio)

        return shares_of_time(self.cut, frame, measure)

    def times(self, session: Session) -> dict[str, float]:
        """The highest share of each component over the lengths."""
        rows = [session.recall(f"profile-{length}") for length in self.profiled]
        return {name: max(row[name] for row in rows) for name in rows[0]}

    def find(self, session: Session) -> None:
        """For each method, the highest price at which the loss is accepted.

        Where even the lowest price loses more, what it leads to is what the method found. A method
        whose every training diverged found nothing.
        """
        fault, chosen = "", 0
        for method in self.methods:
            found = self.dearest(session, method)
            fault = found.fault
            if fault:
                session.say(f"{method.kind} found nothing: its trainings diverged at every price")
                continue
            chosen += 1
            _show(session.folder, found)
        if not chosen:
            raise InputError(
                f"Nothing was found, at any price: {fault}. Lower the rate of the search "
                f"(lr={self.search.lr:g}) or of what follows it (lr={self.settling.lr:g})."
            )

    def dearest(self, session: Session, method: Method) -> Finding:
        """What one method found at the highest price that is accepted."""
        metric = session.study.objectives[0]
        bar = metric.sign * session.measured_baseline.values[metric.name] + self.accept
        tried: dict[float, Finding] = {}

        def accepted(price: float) -> bool:
            found = tried[price] = self.search_at(session, method, price)
            if found.fault:
                session.say(f"{method.kind} at price {price:g}: {found.fault}, refused")
                return False
            worth = found.scores[metric.name]
            good = metric.sign * worth <= bar
            session.say(
                f"{method.kind} at price {price:g}: {metric.name} {worth:.4g} with inherited "
                f"weights, {'accepted' if good else 'too much is lost'}"
            )
            return good

        price = highest_accepted(method.prices, method.refine, accepted)
        if price == method.prices[-1]:
            session.say(
                f"even the highest price of {method.kind} was accepted: there may be more to find"
            )
        if price is None:  # the least that was lost, of what can be used
            price = min({p: f for p, f in tried.items() if not f.fault} or tried)
        return tried[price]

    def search_at(self, session: Session, method: Method, price: float) -> Finding:
        """One search at one price, and what it found with inherited weights."""
        place = f"{SUPERNET}/{method.kind}/price-{price:g}"
        folder, cut = session.folder / place, self.cut
        known = Finding.known(folder)
        if known is not None:
            return known
        supernet = self.started(session.folder)
        policy = method.policy(supernet, prices(cut, self.times(session)), price)
        try:
            result = session.search(supernet, policy, self.search, method.choices, folder)
        except Diverged as ended:
            fault = f"its training diverged ({ended.result.reason})"
            return Finding(method.kind, price, {}, {}, ended.result.steps, place, fault).keep(
                folder
            )
        gates = hardened(policy.best_gates(), cut)
        decisions = cut.member(kept_parts(gates, cut))
        scores, fault = self.settled(session, merged(supernet, gates, cut), folder / "settled")
        steps = result.steps + (self.settling.steps or 0)
        return Finding(method.kind, price, decisions, scores, steps, place, fault).keep(folder)

    def started(self, root: Path) -> Supernet:
        """The supernet where its search begins."""
        supernet = self.supernet(self.cut.components(known_task(self.task).frame))
        if self.init != "new":
            cut_into(supernet, load_model(baseline_model(root)), self.cut)
        return supernet

    def settled(self, session: Session, model: Model, out: Path) -> tuple[dict[str, float], str]:
        """Train on for a little, and score; what went wrong, if it did."""
        config = self.settling.replace(seed=self.seed)
        _, result = train(model, known_task(self.task), config, out=out, stop=session.stopped)
        if result.state == "interrupted":
            raise Stopped
        fault = ""
        if result.state == "diverged":
            fault = f"what it found cannot be trained on ({result.reason})"
        return dict(result.scores), fault

    def findings(self, session: Session) -> list[Finding]:
        """What the methods settled on."""
        known = [Finding.known(session.folder / SUPERNET / m.kind) for m in self.methods]
        return [found for found in known if found is not None]

    def candidates(self, session: Session) -> Sequence[Proposal]:
        """What was found, once each, then random members of the same predicted time."""
        found, metric = self.findings(session), session.study.objectives[0]
        members: list[Proposal] = []
        for finding in found:
            if all(finding.decisions != known.decisions for known in members):
                alike = [other for other in found if other.decisions == finding.decisions]
                alike.sort(key=lambda other: metric.sign * other.scores[metric.name])
                methods = [other.method for other in alike]  # the better weights first
                details = {"methods": methods, "found": alike[0].folder}
                note = " and ".join(methods)
                members.append(
                    Proposal(decisions=finding.decisions, origin=FOUND, note=note, details=details)
                )
        return members + self.equals(self.times(session), found)

    def equals(self, times: Mapping[str, float], found: Sequence[Finding]) -> list[Proposal]:
        """Random members whose predicted time is nearest to that of what was found."""
        space, rng = self.make_space(), Random(f"{self.seed}/equal cost")
        drawn = [space.sample(rng) for _ in range(_DRAWS)]
        costs = [predicted(self.cut, times, decisions) for decisions in drawn]
        taken: set[int] = set()
        members: list[Proposal] = []
        for finding in found:
            wished = predicted(self.cut, times, finding.decisions)
            near = sorted(range(_DRAWS), key=lambda i: (abs(costs[i] - wished), i))
            for index in [i for i in near if i not in taken][: self.random]:
                taken.add(index)
                note = f"as dear as {finding.method}"
                members.append(Proposal(decisions=drawn[index], origin=CONTROL, note=note))
        return members

    def compared(self, session: Session) -> Outcome:
        """Say which of what was found is fastest without losing more than is accepted."""
        quality, cost = session.study.objectives
        base = session.measured_baseline
        bar = base.values[quality.name] + quality.sign * self.accept
        lowered = replace(base, values={**base.values, quality.name: bar})
        pairs = [
            (trial, finding)
            for trial in session.study.trials
            for finding in self.findings(session)
            if trial.done and finding.method in trial.details.get("methods", ())
        ]
        facts: dict[str, float] = {}
        for trial, finding in pairs:
            facts |= _facts(trial, finding, base.values, quality.name, cost.name)
        chosen = champion([trial for trial, _ in pairs], lowered, quality, cost)
        if chosen is None:
            anew = "" if self.start else ", trained anew,"
            headline = (
                f"Nothing that was found is cheaper than the {base.name} and{anew} within "
                f"{self.accept:g} of its {quality.name} ({base.values[quality.name]:.4g})."
            )
            return Outcome(base, headline, None, facts)
        share = chosen.values[cost.name] / base.values[cost.name]
        words = f"takes {share:.2f} times the {cost.name} of"
        if session.target is not None:
            _, whole = self.make_baseline()
            speed, words = paired(session, chosen, whole, 6 * self.seconds)
            facts = {**speed, **facts}  # what counts most first
            words = f"is {words}"
        inherited = f"{chosen.values[f'inherited_{quality.name}']:.4g} with inherited weights"
        if not self.start:
            inherited += f" and {chosen.values[quality.name]:.4g} with new ones"
        headline = (
            f"What {chosen.note} found, trial {chosen.number}, {words} the {base.name}, at "
            f"{quality.name} {inherited}, against {base.values[quality.name]:.4g}."
        )
        return Outcome(base, headline, chosen.number, facts)


def baseline_model(root: Path) -> Path:
    """Where the trained baseline of a study is."""
    return root / "baseline" / "run" / "model"


def cut_like(folder: str, frame: Frame, cut: Cut) -> Cut:
    """The cut of the model in a folder, as fine as ``cut`` where its sizes allow.

    A model that is no BERT, or that cannot read the task, is refused before anything is trained.
    """
    arch = read_architecture(folder)
    found = _sizes(arch, cut)
    if found is None or arch.frame is None or found.baseline(arch.frame) != arch:
        raise InputError(
            f"{folder} holds no BERT that this search can cut: it takes layers of attention and "
            "GELU feed-forward, all of one size, with norms of eps 1e-12 behind them, learned "
            "positions and two segments."
        )
    check_frame(arch, frame)
    return found


def _sizes(arch: Architecture, cut: Cut) -> Cut | None:
    heads = {node.heads for _, node in arch.walk() if isinstance(node, Attention)}
    inner = {node.inner for _, node in arch.walk() if isinstance(node, FeedForward)}
    layers, width = len(arch.layers.layers) // 2, arch.backbone.width
    if len(heads) != 1 or len(inner) != 1 or not layers or width % min(heads):
        return None
    (h,), (i,) = heads, inner
    parts = {"head_parts": gcd(h, cut.head_parts), "inner_parts": gcd(i, cut.inner_parts)}
    each = {n: min(getattr(cut, n), width // h) for n in ("key_parts", "value_parts")}
    return replace(cut, layers=layers, width=width, heads=h, inner=i, **parts, **each)


def _show(root: Path, found: Finding) -> None:
    """What a method settled on, and its gates for the report."""
    folder = root / SUPERNET
    write_atomically(folder / found.method / _FOUND, json.dumps(asdict(found), indent=1).encode())
    for name in _SHOWN:
        if (root / found.folder / name).exists():
            shutil.copyfile(root / found.folder / name, folder / name)
        else:  # nor that of another method
            (folder / name).unlink(missing_ok=True)


def _facts(trial: Trial, finding: Finding, base: Any, quality: str, cost: str) -> dict[str, float]:
    name = finding.method
    return {
        f"{name}_times_cheaper": base[cost] / trial.values[cost],
        f"{name}_{quality}": finding.scores[quality],
        f"{name}_r_{quality}": trial.values[quality],
        f"{name}_price": finding.price,
    }


# --- the published numbers, and smaller ones --------------------------------------------

Kind = Literal["bert", "mini"]
_PRICES = (0.2, 0.8, 3.2)
_DO = Method(
    kind="do", prices=_PRICES, refine=2, choices=SearchConfig(joint=True, pause=7, lr=0.05)
)
_SDO = Method(
    kind="sdo",
    prices=_PRICES,
    refine=2,
    choices=SearchConfig(joint=True, share=True, lr=0.05),
    samples=4,
)


def paper(variant: str = "bert") -> Fft:
    """The published searches: BERT base on Wikipedia, or MiniBERT on tagged sentences.

    Texts are read from ``data``; name others with ``replace(.., task=..)``. Prices are the grid
    that was tried, in the paper's unit, which is not known.
    """
    kind, methods = _read(variant)
    grid = (1e-6, 1e-5, 1e-4, 1e-3, 1e-2)
    published = tuple(
        replace(
            m,
            prices=grid,
            refine=0,
            choices=replace(m.choices, lr=1e-2 if m.kind == "sdo" else 1e-3),
        )
        for m in methods
    )
    if kind == "mini":
        adam = TrainConfig(
            steps=2_000_000, lr=5e-4, warmup=10_000, schedule="linear", weight_decay=0.0,
            batch_tokens=768 * 128,
        )  # fmt: skip
        return Fft(
            name=f"{_name(variant)}-paper",
            task="tag:data/universal-dependencies?tokenizer=wordpiece:120000",
            cut=Cut(layers=3, width=256, heads=4, inner=1024, head_parts=4, inner_parts=8),
            methods=published,
            training=adam,
            search=adam,
            settling=adam.replace(steps=20_000, lr=5e-5),
            init="new",
            target=Target(batch=16, length=128),
            lengths=(32, 128, 512),
        )
    lamb = TrainConfig(
        steps=250_000, optimiser="lamb", lr=1.8e-3, warmup=2500, schedule="linear",
        batch_tokens=64 * 128, accumulate=64, dropout=0.1, attention_dropout=0.1,
    )  # fmt: skip
    return Fft(
        name=f"{_name(variant)}-paper",
        task="mlm:data/wikipedia?tokenizer=wordpiece:30522&length=512",
        cut=BERT,
        methods=published,
        training=lamb,
        search=lamb.replace(steps=125_000),
        settling=lamb.replace(steps=2500, lr=1e-4),
        accept=0.01,
        init="new",
        target=Target(batch=16, length=128),
        lengths=(32, 128, 512),
    )


def small(variant: str = "bert") -> Fft:
    """The same on generated tasks: minutes on two cores."""
    kind, methods = _read(variant)
    whole = paper(variant)
    training = TrainConfig(
        steps=800, batch_tokens=1024, lr=2e-3, warmup=50, log_every=20, checkpoint_every=200
    )
    mini = kind == "mini"
    return replace(
        whole,
        name=f"{_name(variant)}-small",
        task="planted-sofar?length=24&symbols=4" if mini else "planted-near?length=24&symbols=6",
        cut=Cut(
            layers=3,
            width=64,
            heads=4,
            inner=256,
            head_parts=4 if mini else 2,
            inner_parts=8 if mini else 2,
        ),
        methods=methods,
        training=training,
        search=training.replace(steps=400, lr=5e-4, warmup=20, schedule="constant"),
        settling=training.replace(steps=100, lr=5e-4, warmup=0),
        accept=0.003 if mini else 0.01,
        init="baseline",
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
        name=f"{_name(variant)}-smoke",
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


def _read(variant: str) -> tuple[Kind, tuple[Method, ...]]:
    """Which network and which searches a variant means: ``bert``, ``mini-sdo``."""
    kind, _, method = variant.partition("-")
    methods = {"": (_DO, _SDO), "do": (_DO,), "sdo": (_SDO,)}.get(method)
    if kind not in ("bert", "mini") or methods is None:
        raise InputError(
            f"Finding Fast Transformers has no variant {variant!r}; use bert or mini, with -do or "
            "-sdo for one of the two searches."
        )
    return ("bert" if kind == "bert" else "mini"), methods


def _name(variant: str) -> str:
    """What the command line calls a variant."""
    return f"fft-{variant}".replace("fft-bert", "fft")


published_recipe(
    {
        f"fft{size}{method}": f"{size.strip('-') or 'bert'}{method}"
        for size in ("", "-mini")
        for method in ("", "-do", "-sdo")
    },
    paper,
    small,
    smoke,
)
