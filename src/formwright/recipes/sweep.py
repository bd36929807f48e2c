"""One-shot search at several prices on time: each gives something, and all of it is a front.

A limit on latency steers the price: from the lowest one it rises until what is found keeps the
limit, then comes closer from above, so that the search spends what it may.

``supernet/`` is the folder of the search where there is one price; of several, each has a folder
``supernet/price-P``, and the trace of ``supernet`` names them.
"""

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from formwright.arch.layer import Layer
from formwright.arch.site import Load, Site
from formwright.cost import Meter
from formwright.cost.table import Table, measured_entries, pieces_of, thinned
from formwright.errors import InputError
from formwright.estimate.training import known_task
from formwright.recipes.oneshot import OneShot
from formwright.recipes.session import SUPERNET, Session
from formwright.recipes.taught import Timer
from formwright.space import Decisions, TreeSpace
from formwright.strategy.gradient.ladder import MORE, lowest_kept
from formwright.supernet import Supernet, option_prices
from formwright.trace import Trace

_MEASURED = 100  # kinds and sizes of layers that are timed, about; others lie between them
_TRIED = "tried"  # what is kept of the prices that a limit led to


@dataclass(frozen=True, kw_only=True)
class Swept(OneShot):
    """A one-shot recipe whose supernet is searched once for each of some prices.

    Args:
        prices: Nats that the dearest member of all would pay for its time; a search for each.
        closer: Where a limit steers the price: searches between the last price that broke it and
            the first that kept it.
    """

    prices: tuple[float, ...] = (0.0,)
    closer: int = 2

    def __post_init__(self) -> None:
        if not self.prices or min(self.prices) < 0 or len({*self.prices}) < len(self.prices):
            raise InputError(f"prices={self.prices} must be different numbers from 0 on.")
        if self.closer < 0:
            raise InputError(f"closer={self.closer} must be at least 0.")

    @property
    def steered(self) -> bool:
        """Whether the price follows a limit."""
        return self.max_latency is not None

    @property
    def weighs_slices(self) -> bool:
        """Whether its policy gives gates to the slices of sizes."""
        return False

    @property
    def several(self) -> bool:
        """Whether there may be more than one price."""
        return self.steered or len(self.prices) > 1

    @property
    def searches(self) -> int:
        """Prices that are searched at, at most."""
        return len(self.prices) + (MORE + self.closer if self.steered else 0)

    def tried(self, session: Session) -> tuple[float, ...]:
        """The prices that were searched at, rising."""
        return tuple(session.recall(_TRIED)) if self.steered else self.prices

    def find(self, session: Session) -> None:
        """What the supernet comes to like best, at each price."""
        if not self.steered:
            for price in self.prices:
                self.found(session, price)
            return
        tried: list[float] = []

        def kept(price: float) -> bool:
            tried.append(price)
            return self.keeps(session, price, self.found(session, price))

        if lowest_kept(sorted(self.prices), self.closer, kept) is None:
            session.say(
                f"no price up to {max(tried):g} led to a latency of {self.max_latency:g} ms; "
                "give a higher one, or a looser limit"
            )
        session.keep(_TRIED, sorted(tried))

    def found(self, session: Session, price: float) -> dict[str, Any]:
        """What the search of a price came to; it is on record."""
        found: dict[str, Any] = session.kept(
            f"found-{price:g}", partial(self.searched, session, price)
        )
        at = f" at price {price:g}" if price else ""
        session.say(f"the supernet found {self.told(found)}{at}")
        trace, place = Trace(session.folder / SUPERNET), self.place(price)
        about = {"method": method_of(price), "price": price, "folder": place}
        if self.several and {"kind": "found", **about} not in trace.lines():
            trace.add("found", **about)
        return found

    def keeps(self, session: Session, price: float, found: Mapping[str, Any]) -> bool:
        """Whether what was found at a price is as fast as it must be, measured once."""
        assert self.max_latency is not None
        timer, space = Timer(session, self.seconds), self.make_space()

        def fastest() -> float:
            return min(timer(space.resolve(member)) for member in self.liked(found))

        took = session.kept(f"latency-{price:g}", fastest)
        kept = bool(took <= self.max_latency)
        session.say(
            f"price {price:g}: {took:.3g} ms, {'within' if kept else 'above'} the limit of "
            f"{self.max_latency:g} ms"
        )
        return kept

    @abstractmethod
    def liked(self, found: Mapping[str, Any]) -> Sequence[Decisions]:
        """The members that a search came to."""

    @abstractmethod
    def searched(self, session: Session, price: float) -> dict[str, Any]:
        """What a search at a price came to, as plain JSON."""

    @abstractmethod
    def told(self, found: Mapping[str, Any]) -> str:
        """The same in words."""

    def place(self, price: float) -> str:
        """Where the search of a price is kept, from the study's folder on."""
        return f"{SUPERNET}/price-{price:g}" if self.several else SUPERNET

    def costs(self, session: Session, supernet: Supernet) -> dict[str, list[float]] | None:
        """What each option of each decision takes, measured once; None where nothing is priced."""
        if not any(self.prices) and not self.steered:
            return None

        def measured() -> dict[str, list[float]]:
            session.say("measuring what each kind of layer takes")
            price = self.price_of_layer(supernet.space, partial(_heard, session))
            return option_prices(supernet, price, slices=self.weighs_slices)

        found: dict[str, list[float]] = session.kept("prices", measured)
        return session.priced(found)

    def price_of_layer(
        self, space: TreeSpace, heard: Callable[[float], None] = lambda share: None
    ) -> Callable[[Layer, Site], float]:
        """Time by a table measured on the target; FLOPs where there is no target.

        Args:
            space: Whose layers have prices.
            heard: Told how much is done, from 0 to 1, before each measurement.
        """
        target = self.target
        if target is None:
            load = Load(length=known_task(self.task).frame.length, past=self.search.memory)
            return lambda layer, site: float(layer.count(site, load).flops)
        pieces, meter = thinned(pieces_of(space, target), _MEASURED), Meter(target)
        models = dict.fromkeys(m for p in pieces for m in (p.whole, p.without) if m is not None)
        ratios = {}
        for number, model in enumerate(models):
            heard(number / len(models))
            ratios[model] = meter.measure(model, seconds=max(self.seconds, 0.1)).ratio
        return Table(tuple(measured_entries(pieces, ratios)), target).of_layer


def _heard(session: Session, share: float) -> None:
    session.check()
    session.on_stage("timing layers", share)


def method_of(price: float) -> str:
    """What the search of a price is called in the record."""
    return f"price {price:g}"
