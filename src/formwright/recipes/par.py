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
``par-bert`` searches a BERT, which the paper gives the order found elsewhere, and trains it with
the first of two phases only. What an option has missed is missing in its memory too.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

from formwright.arch import Architecture, notation, parse
from formwright.arch.layer import Layer
from formwright.arch.site import Load, Site
from formwright.arch.style import Style, style, transformer_xl_base
from formwright.cost import Meter, Target
from formwright.cost.table import Table, measured_entries, pieces_of
from formwright.errors import InputError
from formwright.estimate.training import known_task
from formwright.recipes.life import SUPERNET, Session
from formwright.recipes.oneshot import OneShot
from formwright.recipes.recipe import known_variant, published_recipe
from formwright.space import Decisions, TreeSpace
from formwright.space.order import order_space
from formwright.strategy.gradient import GumbelPolicy, SearchConfig, Temperature
from formwright.supernet import Supernet, option_prices
from formwright.train import TrainConfig
from formwright.trial import FOUND, SEED, Proposal

LETTERS = "sfi"
VARIANTS = {"par": "xl", "par-xl": "xl", "par-fast": "fast", "par-bert": "bert"}
_EPOCHS = 90  # of FBNet, which its temperature falls over


@dataclass(frozen=True, kw_only=True)
class Par(OneShot):
    """Every number of the system, besides those of all one-shot recipes.

    Args:
        family: What the letters mean.
        slots: Sub-layers, an even number.
        choices: When and how the architecture is updated.
        hard: Straight-through: one option of each slot is drawn instead of a mixture.
        price: Nats that the dearest order of all would pay for its time.
    """

    family: Style
    slots: int
    choices: SearchConfig
    hard: bool = False
    price: float = 0.0

    def __post_init__(self) -> None:
        if self.slots < 2 or self.slots % 2:
            raise InputError(f"slots={self.slots} cannot be used; give an even number from 2 on.")
        if self.search.steps is None:
            raise InputError("The temperature falls over the steps of the search; give them.")

    @property
    def expected(self) -> int:
        """Trials: what was found, the sandwich, the rule's order, random ones."""
        return 3 + self.random

    def make_space(self) -> TreeSpace:
        """Three to the power of ``slots`` orders, with the frame of the task."""
        frame = known_task(self.task).frame
        return order_space(self.family, frame, slots=self.slots, letters=LETTERS)

    @property
    def temperature(self) -> Temperature:
        """How soft a mixture is."""
        assert self.search.steps is not None
        return Temperature(5.0, 0.956, max(1, self.search.steps // _EPOCHS))

    def make_baseline(self) -> tuple[str, Architecture]:
        """Attention and feed-forward in turn, as it has always been."""
        order = plain_order(self.slots)
        arch = parse(order, defaults=self.family).bind(known_task(self.task).frame)
        return f"plain order {order}", arch.check()

    def for_task(self, task: str) -> Self:
        """The same on another task, timed at its length unless text goes on from a memory."""
        remembers = self.target is not None and self.target.past > 0
        return replace(self, task=task) if remembers else super().for_task(task)

    def find(self, session: Session) -> None:
        """What the supernet comes to like best."""
        decisions = session.kept("found", lambda: self.searched(session))
        session.say(f"the supernet found {letters_of(session.study.space.resolve(decisions))}")

    def searched(self, session: Session) -> dict[str, Any]:
        """The decisions that the policy ends at."""
        supernet = self.supernet(self.make_space())
        policy = GumbelPolicy(
            supernet,
            temperature=self.temperature,
            hard=self.hard,
            prices=self.prices(session, supernet),
            price=self.price,
        )

        def tell(event: Mapping[str, Any]) -> None:
            if event["kind"] == "step":
                loss = event.get("loss", event.get("choice_loss"))
                order = letters_of(policy.space.resolve(policy.derive()))
                session.say(f"step {event['step']:,}: {order}, loss {loss:.3f}")

        orders = supernet.space.size()
        session.say(f"searching {orders:,} orders for {self.search.steps:,} steps")
        folder = session.folder / SUPERNET
        return dict(
            session.search(supernet, policy, self.search, self.choices, folder, tell).decisions
        )

    def candidates(self, session: Session) -> Sequence[Proposal]:
        """What the supernet found, and orders made by hand."""
        found = session.recall("found")
        named = (("sandwich", sandwich_order(self.slots)), ("design rule", par_order(self.slots)))
        return [
            Proposal(decisions=found, origin=FOUND, note="found by the supernet"),
            *(
                Proposal(
                    decisions=decisions_of(text, self.family), origin=SEED, note=f"{name} {text}"
                )
                for name, text in named
            ),
        ]

    def prices(self, session: Session, supernet: Supernet) -> dict[str, list[float]] | None:
        """What each option of each slot takes, measured once; None where nothing is priced."""
        if self.price == 0:
            return None

        def measured() -> dict[str, list[float]]:
            session.say("measuring what each kind of layer takes")
            return option_prices(supernet, self.price_of_layer(supernet.space))

        found: dict[str, list[float]] = session.kept("prices", measured)
        return session.priced(found)

    def price_of_layer(self, space: TreeSpace) -> Callable[[Layer, Site], float]:
        """Time by a table measured on the target; FLOPs where there is no target."""
        target = self.target
        if target is None:
            load = Load(length=known_task(self.task).frame.length, past=self.search.memory)
            return lambda layer, site: float(layer.count(site, load).flops)
        pieces, meter = pieces_of(space, target), Meter(target)
        models = dict.fromkeys(m for p in pieces for m in (p.whole, p.without) if m is not None)
        ratios = {m: meter.measure(m, seconds=max(self.seconds, 0.1)).ratio for m in models}
        return Table(tuple(measured_entries(pieces, ratios)), target).of_layer


# --- the published numbers, and smaller ones --------------------------------------------


def paper(variant: str = "xl") -> Par:
    """The published search: 32 slots on the words of WikiText-103, or 24 of BERT base.

    The text is read from ``data/wikitext-103``; name another one with ``replace(.., task=..)``.
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
        training=lamb.replace(lr_end=1e-3, weight_decay=0.0, batch_tokens=256 * 192),
        target=Target(length=64, past=640),
        price=0.2 if variant == "fast" else 0.0,
    )
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
        target=Target(length=128),
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
        choices=replace(whole.choices, warmup=300, lr=3e-2, stable=135),
        training=weights.replace(steps=800, score_batches=64),
        longer=3,
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
        choices=replace(made.choices, warmup=10, stable=0),
        training=made.training.replace(steps=3, score_batches=1, **few),
        random=2,
        seconds=0.02,
        workers=1,
    )


published_recipe(VARIANTS, paper, small, smoke)


# --- orders -----------------------------------------------------------------------------


def plain_order(slots: int) -> str:
    """Attention and feed-forward in turn."""
    return f"(sf)x{slots // 2}"


def sandwich_order(slots: int) -> str:
    """Sandwich Transformers (https://arxiv.org/abs/1911.03864): k attentions first, k feed-forwards
    last. k is 6, as PAR compares with at 24, 32 and 36 blocks; half the pairs of shorter ones."""
    pairs = slots // 2
    ends = max(1, min(6, pairs // 2))
    middle = f"(sf)x{pairs - ends}" if pairs > ends else ""
    return f"(s)x{ends}{middle}(f)x{ends}"


def par_order(slots: int) -> str:
    """The paper's design rule: a fifth of the blocks attend, evenly over the first two thirds.

    Both counts are rounded to the nearest, which gives the published orders of 32 and 24 blocks.
    """
    attends = max(1, (2 * slots + 5) // 10)  # slots / 5
    period = max(1, (4 * slots + 3 * attends) // (6 * attends))  # (2/3 slots) / attends
    rest = slots - attends * period
    unit = "s" + "f" * (period - 1)
    return f"({unit})x{attends}" + (f"(f)x{rest}" if rest else "")


def decisions_of(order: str, family: Style) -> Decisions:
    """What a string of letters decides, slot by slot."""
    options = [family.letters[letter] for letter in LETTERS]
    layers = parse(order, defaults=family).layers.layers
    return {f"layer{i}": options.index(layer) for i, layer in enumerate(layers)}


def letters_of(arch: Architecture) -> str:
    """The order of an architecture's layers, repetitions folded: what its notation begins with."""
    return notation(arch).partition(" ")[0]
