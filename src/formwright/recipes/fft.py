"""Finding Fast Transformers: a trained BERT drops, and re-connects, its components.

Paper: Tsai et al. 2020, https://arxiv.org/abs/2008.06808

What the paper does                             where it lives here
feed-forward, heads, query-key and value        recipes.fft_space, supernet.masks
channels as sums of parts; connectors
LayerNorm with or without its mean              arch.layer.LayerNorm
time of each kind of component                  cost.components, recipes.fft_profile
DO: real gates with an L1 price                 strategy.gradient.real
SDO: coins with learned odds                    strategy.gradient.bernoulli
lambda raised up to the accepted loss           recipes.fft_search.sweep
the network without what was dropped            recipes.fft_weights
-R, trained again from new weights              recipes.oneshot: trials of the study

Differs from the paper: the search begins at the trained baseline (``init``), which may itself begin
at a BERT that the user has (recipes.fft_start), and what it finds is trained on for a few steps
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

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from typing import Any, Literal

from formwright.arch import Architecture
from formwright.cost import Target
from formwright.errors import InputError
from formwright.estimate.training import known_task
from formwright.recipes import oneshot
from formwright.recipes.conduct import (
    Say,
    concluded,
    one_thread,
    with_baseline,
)
from formwright.recipes.fft_profile import profile
from formwright.recipes.fft_search import Finding, InheritingJudge, Method, sweep
from formwright.recipes.fft_space import Cut, predicted
from formwright.recipes.fft_start import ContinuingJudge, cut_like, gentle
from formwright.recipes.fft_words import compared
from formwright.recipes.headline import target_of
from formwright.recipes.oneshot import SUPERNET, OneShot, at_length_of
from formwright.space import TreeSpace
from formwright.strategy.gradient import SearchConfig
from formwright.study import Ending, Study
from formwright.study.loop import OnEvent
from formwright.train import TrainConfig
from formwright.trial import CONTROL, FOUND, Objective, Proposal

_DRAWS = 400  # random members among which those of equal cost are picked


@dataclass(frozen=True, kw_only=True)
class Fft(OneShot):
    """Every number of the system.

    Args:
        name: Of the preset.
        task: What is learnt.
        cut: The network, and how finely it is cut.
        methods: Searches, each with its prices.
        training: Of the baseline, of what was found and of random members, from new weights.
        search: Of the weights while the gates learn.
        settling: Of what was found, with the weights it inherits.
        accept: How much of the metric may be lost on the validation split.
        init: Where the search begins: ``baseline``, ``new`` weights, or the folder of a model that
            the baseline begins at; see ``beginning_at``.
        target: Where latency is measured; None counts FLOPs in its place.
        lengths: Profile at these lengths and take the highest share of each component; the
            target's own when not given.
        random: Random members of equal predicted cost for each search.
        seconds: Longest measurement of one network.
        workers: Processes.
        seed: Of all chance.
    """

    name: str
    task: str
    cut: Cut
    methods: tuple[Method, ...]
    training: TrainConfig
    search: TrainConfig
    settling: TrainConfig
    accept: float = 0.003
    init: str = "baseline"
    target: Target | None = None
    lengths: tuple[int, ...] = ()
    random: int = 2
    seconds: float = 1.0
    workers: int = 1
    seed: int = 0

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
    def space(self) -> TreeSpace:
        """The networks that components make, with the frame of the task."""
        return self.cut.members(known_task(self.task).frame)

    @property
    def baseline(self) -> tuple[str, Architecture]:
        """The whole network."""
        arch = self.cut.baseline(known_task(self.task).frame)
        return f"whole network of {self.cut.layers} x {self.cut.width}", arch

    @property
    def start(self) -> str:
        """Folder of the user's model; nothing where all begins with new weights."""
        return "" if self.init in ("baseline", "new") else self.init

    @property
    def remembered(self) -> dict[str, Any]:
        return {"start": self.start}

    def judge(self, folder: Path) -> InheritingJudge:
        """How networks are compared."""
        usual: dict[str, Any] = {
            "task": self.task,
            "training": self.training,
            "target": self.target,
            "random": 0,
            "seconds": self.seconds,
            "workers": self.workers,
            "folder": str(folder),
        }
        if not self.start:
            return InheritingJudge(**usual)
        steps = (self.search.steps or 0) + (self.settling.steps or 0)
        member = self.settling.replace(steps=steps)
        return ContinuingJudge(**usual, start=self.start, cut=self.cut, member=member)

    def beginning_at(self, folder: str) -> "Fft":
        """The same for a trained BERT: its sizes, trained at rates that its weights survive."""
        place = str(Path(folder).resolve())
        cut = cut_like(place, known_task(self.task).frame, self.cut)
        return replace(
            self,
            init=place,
            cut=cut,
            training=gentle(self.training, cut.width),
            search=gentle(self.search, cut.width),
            settling=gentle(self.settling, cut.width),
        )

    def for_task(self, task: str) -> "Fft":
        """The same on another task, timed at its length."""
        return replace(self, task=task, target=at_length_of(task, self.target))

    def conduct(
        self,
        study: Study,
        *,
        stop: Callable[[], bool] | None = None,
        on_event: OnEvent | None = None,
        say: Say = lambda text: None,
    ) -> Ending:
        """Train the whole, profile it, search, judge. Calling it again goes on."""
        if concluded(study):
            return "exhausted"
        recipe = replace(self, target=target_of(study))
        judge = recipe.judge(study.folder)
        asked = stop or (lambda: False)
        with one_thread():
            outcome = with_baseline(
                study, *recipe.baseline, judge.estimator(recipe.target), stop=stop, say=say
            )
            if outcome is None:
                return "stopped"
            times = profile(recipe, study.folder / SUPERNET, stop=asked, say=say)
            found = None
            if times is not None:
                found = sweep(recipe, study, outcome, times, stop=asked, say=say)
        if times is None or found is None:
            return "stopped"
        candidates = members_of(found, study.objectives[0]) + equals(recipe, times, found)
        return oneshot.verdict(
            study,
            judge,
            recipe.baseline,
            candidates,
            words=lambda outcome: compared(recipe, study, outcome, found),
            stop=stop,
            on_event=on_event,
            say=say,
        )


def members_of(found: list[Finding], metric: Objective) -> list[Proposal]:
    """What was found, once each: where two searches agree, both are named, the better first."""
    members: list[Proposal] = []
    for finding in found:
        if all(finding.decisions != known.decisions for known in members):
            alike = [other for other in found if other.decisions == finding.decisions]
            alike.sort(key=lambda other: metric.sign * other.scores[metric.name])
            methods = [other.method for other in alike]
            members.append(
                Proposal(
                    decisions=finding.decisions,
                    origin=FOUND,
                    note=" and ".join(methods),
                    details={"methods": methods},
                )
            )
    return members


def equals(recipe: Fft, times: dict[str, float], found: list[Finding]) -> list[Proposal]:
    """Random members whose predicted time is nearest to that of what was found."""
    space, cut = recipe.space, recipe.cut
    rng = Random(f"{recipe.seed}/equal cost")
    drawn = [space.sample(rng) for _ in range(_DRAWS)]
    costs = [predicted(cut, times, decisions) for decisions in drawn]
    taken: set[int] = set()
    members: list[Proposal] = []
    for finding in found:
        wished = predicted(cut, times, finding.decisions)
        near = sorted(range(_DRAWS), key=lambda i: (abs(costs[i] - wished), i))
        for index in [i for i in near if i not in taken][: recipe.random]:
            taken.add(index)
            note = f"as dear as {finding.method}"
            members.append(Proposal(decisions=drawn[index], origin=CONTROL, note=note))
    return members


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
        cut=Cut(layers=12, width=768, heads=12, inner=3072, head_parts=2, inner_parts=2),
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
