"""One-shot search at several prices on time: each gives something, and all of it is a front.

``supernet/`` is the folder of the search where there is one price; of several, each has a folder
``supernet/price-P``, and the trace of ``supernet`` names them.
"""

from abc import abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from formwright.arch.layer import Layer
from formwright.arch.site import Load, Site
from formwright.cost import Meter
from formwright.cost.table import Table, measured_entries, pieces_of
from formwright.errors import InputError
from formwright.estimate.training import known_task
from formwright.recipes.life import SUPERNET, Session
from formwright.recipes.oneshot import OneShot
from formwright.space import TreeSpace
from formwright.supernet import Supernet, option_prices
from formwright.trace import Trace


@dataclass(frozen=True, kw_only=True)
class Swept(OneShot):
    """A one-shot recipe whose supernet is searched once for each of some prices.

    Args:
        prices: Nats that the dearest member of all would pay for its time; a search for each.
    """

    prices: tuple[float, ...] = (0.0,)

    def __post_init__(self) -> None:
        if not self.prices or min(self.prices) < 0 or len({*self.prices}) < len(self.prices):
            raise InputError(f"prices={self.prices} must be different numbers from 0 on.")

    def find(self, session: Session) -> None:
        """What the supernet comes to like best, at each price."""
        for price in self.prices:
            found = session.kept(f"found-{price:g}", partial(self.searched, session, price))
            at = f" at price {price:g}" if price else ""
            session.say(f"the supernet found {self.told(found)}{at}")
            trace, place = Trace(session.folder / SUPERNET), self.place(price)
            about = {"method": method_of(price), "price": price, "folder": place}
            if len(self.prices) > 1 and {"kind": "found", **about} not in trace.lines():
                trace.add("found", **about)

    @abstractmethod
    def searched(self, session: Session, price: float) -> dict[str, Any]:
        """What a search at a price came to, as plain JSON."""

    @abstractmethod
    def told(self, found: Mapping[str, Any]) -> str:
        """The same in words."""

    def place(self, price: float) -> str:
        """Where the search of a price is kept, from the study's folder on."""
        return SUPERNET if len(self.prices) == 1 else f"{SUPERNET}/price-{price:g}"

    def costs(self, session: Session, supernet: Supernet) -> dict[str, list[float]] | None:
        """What each option of each decision takes, measured once; None where nothing is priced."""
        if not any(self.prices):
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


def method_of(price: float) -> str:
    """What the search of a price is called in the record."""
    return f"price {price:g}"
