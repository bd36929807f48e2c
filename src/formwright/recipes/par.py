"""PAR Transformer: a supernet learns where attention is required, and where it is not.

Paper: "Pay Attention when Required", Mandava et al. 2020, https://arxiv.org/abs/2009.04534

What the paper does                          where it lives here
slots of attention, feed-forward, nothing    space.order
a chain of mixtures of the three             supernet
Gumbel-softmax at a falling temperature      strategy.gradient.gumbel
weights first, then a fifth of the batches   strategy.gradient.config, .search
for the architecture; an end when the
order no longer changes
the rule read off the probabilities          par_order() below; drawn by report.sections.shares
(sf)xN, sandwich and the rule's order        recipes.oneshot: each trained from new weights and
trained alike, their latency                 measured, with random orders beside them, then finals

Differs from the paper: random orders are trained at equal cost. An option may have a price, so that
a slow one must be worth it (``par-fast``; the paper's loss has no such term). The paper leaves out
the temperature: it is FBNet's, 5 times 0.956 per epoch, with ninety equal parts of the search in
place of ninety epochs. Its 40,000 iterations are taken to include the 10,000 of weights alone.
``par-bert`` searches a BERT, which the paper gives the order found elsewhere, on texts of 128
tokens; its models are trained in both phases. What an option has missed is missing in its memory
too. Scores of
``paper`` are taken with the published memory and clamped distances, in segments of the training's
length.

Presets other than ``paper`` also differ in what made the search find something: it is made at
several prices on time, since nothing else opposes attention, and each of them gives an order, a
shorter one and one drawn from the probabilities; the temperature begins at 1, since at 5 the
weights fit the mixture and no member; the fifth of the data for the architecture is held out from
the weights. What came of all prices is judged, and the front of it enters finals.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from typing import Any, Self

from formwright.arch import Architecture, parse
from formwright.arch.style import Style, style, transformer_xl_base, transformer_xl_large
from formwright.cost import Target
from formwright.errors import InputError
from formwright.estimate import Estimator
from formwright.estimate.phased import Phased
from formwright.estimate.training import known_task
from formwright.recipes.orders import (
    LETTERS,
    NOTHING,
    compacted,
    decisions_of,
    letters_of,
    par_order,
    plain_order,
    sandwich_order,
    word_of,
)
from formwright.recipes.recipe import known_variant, published_recipe
from formwright.recipes.session import Session
from formwright.recipes.sweep import Swept, method_of
from formwright.space import Decisions, TreeSpace
from formwright.space.order import order_space
from formwright.strategy.gradient import GumbelPolicy, SearchConfig, Temperature
from formwright.train import TrainConfig
from formwright.trial import FOUND, SEED, Proposal

VARIANTS = {
    "par": "xl", "par-xl": "xl", "par-fast": "fast", "par-bert": "bert", "par-large": "large",
    "par-24b": "24b", "par-chars": "chars",
}  # fmt: skip
_EPOCHS = 90  # of FBNet, which its temperature falls over
_TRIES = 50  # draws for each order that is drawn, after which there are not so many


@dataclass(frozen=True, kw_only=True)
class Second:
    """A second phase of a training: BERT's, on longer texts.

    Args:
        task: The same with longer texts.
        training: Its numbers.
    """

    task: str
    training: TrainConfig


@dataclass(frozen=True, kw_only=True)
class Par(Swept):
    """Every number of the system, besides those of all searches at prices.

    Args:
        family: What the letters mean.
        slots: Sub-layers, an even number.
        choices: When and how the architecture is updated.
        hard: Straight-through: one option of each slot is drawn instead of a mixture.
        warm: The first temperature.
        shorter: Orders to judge of each search that leave out what was nearest to nothing.
        draws: Orders to judge of each search that are drawn from its probabilities.
        second: What members are trained on after ``training``; None for nothing.
    """

    family: Style
    slots: int
    choices: SearchConfig
    hard: bool = False
    warm: float = 5.0
    shorter: int = 0
    draws: int = 0
    second: Second | None = None

    def __post_init__(self) -> None:
        if self.slots < 2 or self.slots % 2:
            raise InputError(f"slots={self.slots} cannot be used; give an even number from 2 on.")
        if self.search.steps is None:
            raise InputError("The temperature falls over the steps of the search; give them.")
        super().__post_init__()

    @property
    def expected(self) -> int:
        """Trials at most: what was found, the sandwich, the rule's order, random ones."""
        return self.searches * (1 + self.shorter + self.draws) + 2 + self.random

    def make_space(self) -> TreeSpace:
        """Three to the power of ``slots`` orders, with the frame of the task."""
        frame = known_task(self.task).frame
        return order_space(self.family, frame, slots=self.slots, letters=LETTERS)

    @property
    def temperature(self) -> Temperature:
        """How soft a mixture is."""
        assert self.search.steps is not None
        return Temperature(self.warm, 0.956, max(1, self.search.steps // _EPOCHS))

    def make_baseline(self) -> tuple[str, Architecture]:
        """Attention and feed-forward in turn, as it has always been."""
        order = plain_order(self.slots)
        arch = parse(order, defaults=self.family).bind(known_task(self.task).frame)
        return f"plain order {order}", arch.check()

    def for_task(self, task: str) -> Self:
        """The same on another task, timed at its length unless text goes on from a memory."""
        made = replace(self, second=None)
        remembers = self.target is not None and self.target.past > 0
        return replace(made, task=task) if remembers else super(Par, made).for_task(task)

    def trained(self, folder: Path) -> Estimator:
        if self.second is None:
            return super().trained(folder)
        first = (self.task, self.training)
        return Phased(self.second.task, self.second.training, before=first)

    def searched(self, session: Session, price: float) -> dict[str, Any]:
        """The decisions that the policy ends at, and how much of each option was on then."""
        supernet = self.supernet(self.make_space())
        policy = GumbelPolicy(
            supernet,
            temperature=self.temperature,
            hard=self.hard,
            prices=self.costs(session, supernet),
            price=price,
        )

        def tell(event: Mapping[str, Any]) -> None:
            if event["kind"] == "step":
                loss = event.get("loss", event.get("choice_loss"))
                order = letters_of(policy.space.resolve(policy.derive()))
                session.say(f"step {event['step']:,}: {order}, loss {loss:.3f}")

        orders = supernet.space.size()
        at = f" at price {price:g}" if price else ""
        session.say(f"searching {orders:,} orders for {self.search.steps:,} steps{at}")
        folder = session.folder / self.place(price)
        found = session.search(supernet, policy, self.search, self.choices, folder, tell)
        return {"decisions": dict(found.decisions), "shares": found.probabilities}

    def liked(self, found: Mapping[str, Any]) -> Sequence[Decisions]:
        return [found["decisions"]]

    def told(self, found: Mapping[str, Any]) -> str:
        return letters_of(self.make_space().resolve(found["decisions"]))

    def candidates(self, session: Session) -> Sequence[Proposal]:
        """What the supernet found, once each, and orders made by hand."""
        rows: dict[str, Proposal] = {}
        for price in self.tried(session):
            found = session.recall(f"found-{price:g}")
            at = f", price {price:g}" if self.several else ""
            details = {"methods": [method_of(price)]} if at else {}
            for how, decisions in self.orders(found, price):
                row = Proposal(
                    decisions=decisions, origin=FOUND, note=f"{how}{at}", details=details
                )
                rows.setdefault(word_of(decisions), row)
        named = (("sandwich", sandwich_order(self.slots)), ("design rule", par_order(self.slots)))
        for name, text in named:
            decisions = decisions_of(text, self.family)
            row = Proposal(decisions=decisions, origin=SEED, note=f"{name} {text}")
            rows.setdefault(word_of(decisions), row)
        return list(rows.values())

    def orders(self, found: Mapping[str, Any], price: float) -> list[tuple[str, Decisions]]:
        """What came of one search: its order, shorter ones, and others that it thinks likely."""
        best, shares = dict(found["decisions"]), found["shares"]
        rows: list[tuple[str, Decisions]] = [("found by the supernet", best)]
        kept = [name for name, option in best.items() if option != NOTHING]
        kept.sort(key=lambda name: -shares[name][NOTHING])
        for number in range(1, self.shorter + 1):
            less = min(len(kept) - 1, max(number, number * len(kept) // 4))
            if less > 0:
                short = {**best, **dict.fromkeys(kept[:less], NOTHING)}
                rows.append(("shorter than found", compacted(short)))
        rng, drawn = Random(f"{self.seed}/orders at {price:g}"), 0
        known = {word_of(decisions) for _, decisions in rows}
        for _ in range(_TRIES * self.draws):
            if drawn == self.draws:
                break
            picked = {n: rng.choices(range(len(row)), row)[0] for n, row in shares.items()}
            if word_of(picked) and word_of(picked) not in known:
                known.add(word_of(picked))
                rows.append(("drawn from its probabilities", compacted(picked)))
                drawn += 1
        return rows


# --- the published numbers, and smaller ones --------------------------------------------


def paper(variant: str = "xl") -> Par:
    """The published search: 32 slots on the words of WikiText-103, or 24 of BERT base.

    ``large`` has the 36 slots of the large Transformer-XL, ``24b`` the 24 that were trained on the
    bytes of enwik8, ``chars`` the same on the characters of text8. Texts are read from ``data``;
    name another one with ``replace(.., task=..)``.
    """
    known_variant("PAR Transformer", variant, VARIANTS.values())
    choices = SearchConfig(warmup=10_000, every=5, lr=1e-2, weight_decay=5e-4, stable=4500)
    lamb = TrainConfig(
        steps=40_000, optimiser="lamb", lr=1e-2, warmup=1000, weight_decay=1e-4, clip=0.25,
        batch_tokens=128 * 192, dropout=0.1, memory=192, betas=(0.9, 0.999),
    )  # fmt: skip
    xl = Par(
        name=f"par-{variant}-paper",
        task="lm:data/wikitext-103?tokenizer=spaces&length=192",
        family=transformer_xl_base(),
        slots=32,
        search=lamb,
        choices=choices,
        training=lamb.replace(
            lr_end=1e-3, weight_decay=0.0, batch_tokens=256 * 192, score_memory=640, score_clamp=400
        ),
        target=Target(length=64, past=640),
        prices=(0.2 if variant == "fast" else 0.0,),
    )
    if variant in ("large", "24b", "chars"):
        return _wider(xl, variant)
    if variant != "bert":
        return xl
    # batch of 65,536 texts and warm-up as published for BERT; the rate is that of its NVLAMB
    training = TrainConfig(
        steps=7038, optimiser="lamb", lr=6e-3, schedule="linear", warmup=2001, clip=1.0,
        batch_tokens=64 * 128, accumulate=1024, dropout=0.1, attention_dropout=0.1,
        betas=(0.9, 0.999),
    )  # fmt: skip
    return replace(
        xl,
        task="mlm:data/wikipedia?tokenizer=wordpiece:30522&length=128",
        family=style("bert"),
        slots=24,
        search=lamb.replace(memory=0, batch_tokens=128 * 128),
        training=training,
        second=Second(
            task="mlm:data/wikipedia?tokenizer=wordpiece:30522&length=512",
            training=training.replace(
                steps=1563, lr=4e-3, warmup=200, batch_tokens=16 * 512, accumulate=2048
            ),
        ),
        target=Target(length=128),
    )


def _wider(base: Par, variant: str) -> Par:
    """The other Transformer-XLs of the paper, each searched as the base model is."""
    if variant == "large":
        memory = {"memory": 384, "score_memory": 1600, "score_clamp": 1000}
        return replace(
            base,
            task="lm:data/wikitext-103?tokenizer=spaces&length=384",
            family=transformer_xl_large(),
            slots=36,
            search=base.search.replace(memory=384, batch_tokens=128 * 384, dropout=0.2),
            training=base.training.replace(
                steps=100_000, warmup=16_000, lr_end=1e-4, batch_tokens=128 * 384, dropout=0.2,
                attention_dropout=0.2, **memory,
            ),
            target=Target(length=128, past=1600),
        )  # fmt: skip
    bytes_ = variant == "24b"
    adam = TrainConfig(  # the numbers of the published code for these texts
        steps=400_000, lr=2.5e-4, warmup=0, weight_decay=0.0, clip=0.25, batch_tokens=22 * 512,
        dropout=0.1, memory=512, score_memory=2100, score_clamp=820, betas=(0.9, 0.999),
    )  # fmt: skip
    text, symbols = ("enwik8", "bytes") if bytes_ else ("text8", "chars")
    return replace(
        base,
        task=f"lm:data/{text}?tokenizer={symbols}&length=512",
        family=style("transformer_xl"),
        slots=24,
        search=base.search.replace(memory=512, batch_tokens=22 * 512),
        training=adam,
        target=Target(length=80, past=2100),
    )


def small(variant: str = "xl") -> Par:
    """The same on bytes of the standard library: minutes on two cores."""
    whole = paper(variant)
    reads = variant != "bert"
    weights = TrainConfig(
        steps=1200, batch_tokens=768, lr=2e-3, warmup=50, memory=32 if reads else 0,
        checkpoint_every=100, log_every=40,
    )  # fmt: skip
    return replace(
        whole,
        name=f"par-{variant}-small",
        task=f"stdlib{'' if reads else '-masked'}?length=32",
        family=style("transformer_xl" if reads else "bert", 48, heads=4),
        slots=8,
        search=weights,
        # a thirtieth of the updates: at the published rate they would leave all undecided
        choices=replace(whole.choices, warmup=300, lr=3e-2, stable=0, held=0.2),
        prices=(0.1, 0.2, 0.4),
        warm=1.0,
        shorter=1,
        draws=1,
        second=None,
        training=weights.replace(steps=800, score_batches=64),
        longer=3,
        entrants=4,
        target=Target(length=16, past=256) if reads else Target(length=32),
        workers=2,
    )


def smoke(variant: str = "xl") -> Par:
    """The same path in seconds, for tests."""
    made = small(variant)
    few = {"batch_tokens": 256, "warmup": 1}
    return replace(
        made,
        name=f"par-{variant}-smoke",
        family=style("transformer_xl" if variant != "bert" else "bert", 16, heads=2),
        slots=4,
        search=made.search.replace(steps=30, log_every=5, checkpoint_every=5, **few),
        choices=replace(made.choices, warmup=10),
        prices=made.prices[:2],
        training=made.training.replace(steps=3, score_batches=1, **few),
        random=2,
        seconds=0.02,
        workers=1,
    )


published_recipe(VARIANTS, paper, small, smoke)
