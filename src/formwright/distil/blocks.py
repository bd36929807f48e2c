"""The method ``blocks``: prices, a library, scores, and the programme, one stage after the other.

What a stage comes to is kept, so that one that was interrupted goes on, and that a new limit is
answered in seconds from what is there. The programme proposes; what it proposes is measured, since
harms of blocks do not quite add up: the best uniform choice is measured beside it, scores are taken
again around the better one, and a choice near it is taken where its students are closer to the
teacher.

Beside what is found stand simple students of the same price: the teacher with whole layers left
out evenly, with every layer equally narrow, and combinations at random.
"""

import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from itertools import islice
from pathlib import Path
from random import Random
from typing import Any

from formwright.arch import Architecture
from formwright.arch.frame import LanguageModel, MaskedLM, Tag
from formwright.cost import Target
from formwright.distil.blockwise import BlockTraining, Library, assembled, train_library
from formwright.distil.cache import MOST_BYTES, States
from formwright.distil.library import NOTHING, Offer, Place, places_of, student
from formwright.distil.prices import LATENCY, Prices, counted, timed, together, worthwhile
from formwright.distil.programme import Choices, best_choice, require_choice
from formwright.distil.scores import Judge
from formwright.distil.teacher import Teacher, thinned
from formwright.model import Model

Choice = tuple[int, ...]
Limits = dict[str, float]
Kept = Callable[[str, Callable[[], Any]], Any]
_FEWEST = 4  # batches that blocks learn from
_SLACK = 1.1  # times its limit that a student of whole layers may cost
_FITS = 4  # times that a limit is adjusted to what was measured
_NEARLY, _OVER = 0.97, 1.01  # times its limit that a measured latency may be
_WIDER = 1.3  # times that a limit is widened at once
_DRAWS = 400  # random combinations, of which the one nearest to the limit is taken


@dataclass(frozen=True)
class BlocksConfig:
    """Every number of the method.

    Args:
        offer: Which blocks there are.
        training: How they are trained.
        batches: Of the training data that blocks learn from.
        held: Of the validation data that replacements are judged on; its labels are not looked at.
        batch_tokens: Tokens of each.
        rounds: How often scores are taken again around what was found.
        changes: Places that may change in such a round.
        most_bytes: That hidden states may take on disk.
    """

    offer: Offer = field(default_factory=Offer)
    training: BlockTraining = field(default_factory=BlockTraining)
    batches: int = 32
    held: int = 8
    batch_tokens: int = 768
    rounds: int = 2
    changes: int = 4
    most_bytes: int = MOST_BYTES


def _compute(name: str, compute: Callable[[], Any]) -> Any:
    return compute()


@dataclass
class Blocks:
    """A teacher's library at work.

    Args:
        teacher: Whose students are wanted.
        folder: Where blocks and states are kept.
        config: The numbers.
        limited: Names of the prices that limits are put on.
        target: Where latency counts; counts are taken at its length.
        measure: Milliseconds of an architecture there.
        kept: Keeps a JSON value by name, computed once.
        check: Raises to stop.
        on_stage: Told a stage and how much of it is done, 0 to 1.
    """

    teacher: Teacher
    folder: Path
    config: BlocksConfig
    limited: tuple[str, ...] = (LATENCY,)
    target: Target | None = None
    measure: Callable[[Architecture], float] | None = None
    kept: Kept = _compute
    check: Callable[[], None] = lambda: None
    on_stage: Callable[[str, float], None] = lambda stage, share: None

    # --- stages -------------------------------------------------------------------------

    @cached_property
    def places(self) -> tuple[Place, ...]:
        """All that could stand in the teacher."""
        return places_of(self.teacher.model.arch, self.config.offer)

    @cached_property
    def all_prices(self) -> Prices:
        """What everything costs; latency only where it is limited or told."""
        return Prices(**self.kept("prices", lambda: self._priced().to_data()))

    def _priced(self) -> Prices:
        arch, measure = self.teacher.model.arch, self.measure
        parts = [counted(arch, self.places, self.target)]
        if measure is not None:

            def on_measured(done: int, total: int) -> None:
                self.check()
                self.on_stage("pricing blocks", done / total)

            parts.append(timed(arch, self.places, measure, on_measured=on_measured))
        return together(*parts)

    @cached_property
    def _worth(self) -> list[list[int]]:
        return worthwhile(self.all_prices, self.places, self.limited)

    @cached_property
    def offered(self) -> tuple[Place, ...]:
        """Places with what saves something; the rest is not worth training."""
        pairs = zip(self.places, self._worth, strict=True)
        return tuple(
            Place(place.number, place.site, tuple(place.alternatives[i] for i in worth))
            for place, worth in pairs
        )

    @cached_property
    def library(self) -> Library:
        """The blocks, trained."""
        library = Library(self.teacher, self.offered, self.folder / "blocks")
        if not all(library.has(place) for place in self.offered):
            config = self.config
            found = self.teacher.calibration(
                self._affordable(), batch_tokens=config.batch_tokens, seed=config.training.seed
            )
            states = States(
                self.teacher, list(found), self.folder / "states" / "train", config.most_bytes
            )
            train_library(
                library,
                states,
                config.training,
                on_place=lambda done, total: self.on_stage("training blocks", done / total),
                check=self.check,
            )
        return library

    def _affordable(self) -> int:
        """Batches whose states fit into the space that they may take, but at least a few."""
        width, config = self.teacher.model.arch.backbone.width, self.config
        each = 4 * config.batch_tokens * width * (self.teacher.depth + 1)
        return min(config.batches, max(_FEWEST, config.most_bytes // each))

    @cached_property
    def judge(self) -> Judge:
        """Compares with the teacher, on texts that no block was trained on."""
        split = self.teacher.task.batches("valid", batch_tokens=self.config.batch_tokens)
        batches = list(islice(split, self.config.held))
        if isinstance(self.teacher.model.frame.head, LanguageModel | MaskedLM | Tag):
            batches = [thinned(batch) for batch in batches]
        held = States(
            self.teacher,
            batches,
            self.folder / "states" / "valid",
            self.config.most_bytes,
        )
        return Judge(self.library, held)

    @cached_property
    def choices(self) -> Choices:
        """Scores and prices of what may be chosen."""
        prices = self.all_prices.kept(self._worth)
        scores = []
        for place in self.offered:
            scores.append(self.kept(f"scores-{place.number:02}", partial(self._scores, place)))
        return Choices(
            tuple(tuple(row) for row in scores),
            {name: tuple(tuple(row) for row in rows) for name, rows in prices.each.items()},
            prices.base,
        )

    def _scores(self, place: Place) -> list[float]:
        found = self.judge.scores(place.number, check=self.check)
        self.on_stage("scoring blocks", (place.number + 1) / len(self.offered))
        return found

    # --- choosing -----------------------------------------------------------------------

    def find(self, limits: Mapping[str, float]) -> tuple[Choice, list[dict[str, Any]]]:
        """The choice for some limits, and the rounds that led to it."""
        best = require_choice(self.choices, limits)
        apart = self.judge.divergence(best)
        rounds = [self._told(best, apart)]
        plain = self.equally_narrow(limits)
        if plain is not None and plain != best and (other := self.judge.divergence(plain)) < apart:
            best, apart = plain, other
            rounds.append(self._told(best, apart))
        for number in range(self.config.rounds):
            self.on_stage("choosing", number / self.config.rounds)
            again = self._near(best, apart, limits)
            if again is None or again == best:
                break
            found = self.judge.divergence(again)
            rounds.append(self._told(again, found))
            if found >= apart:
                break
            best, apart = again, found
        self.on_stage("choosing", 1.0)
        return best, rounds

    def fit(self, most: Mapping[str, float]) -> tuple[Choice, list[dict[str, Any]], Limits]:
        """The same, with limits on latency kept and used up as measured, not as prices add up.

        Also gives the limits that the programme was told, at which simple students cost as much.
        """
        inner = dict(most)
        if LATENCY not in most or self.measure is None:
            return *self.find(inner), inner
        sound: Choice | None = None  # it keeps the limits as measured
        for _ in range(_FITS):
            choice = require_choice(self.choices, inner)
            took = self.measure(self.architecture(choice))
            sound = choice if took <= _OVER * most[LATENCY] else sound
            if _NEARLY * most[LATENCY] <= took <= _OVER * most[LATENCY]:
                break
            scaled = inner[LATENCY] * min(_WIDER, most[LATENCY] / took)
            inner[LATENCY] = max(scaled, self.choices.least(LATENCY))
        found, rounds = self.find(inner)
        took = self.measure(self.architecture(found))
        if took > _OVER * most[LATENCY] and sound is not None:
            return sound, rounds[:1], inner
        return found, rounds, inner

    def _near(self, choice: Choice, apart: float, limits: Mapping[str, float]) -> Choice | None:
        """The best choice with few changes, by what each change alone does to this one.

        At each place only the next cheaper and the next dearer alternative are looked at.
        """
        scores = []
        for number, taken in enumerate(choice):
            row = [math.nan] * len(self.offered[number].alternatives)  # not to be taken
            row[taken] = 0.0
            for other in self._beside(number, taken, next(iter(limits))):
                self.check()
                tried = (*choice[:number], other, *choice[number + 1 :])
                row[other] = self.judge.divergence(tried) - apart
            scores.append(row)
        changes = self.config.changes
        return best_choice(self.choices.rescored(scores), limits, near=choice, changes=changes)

    def _beside(self, place: int, taken: int, name: str) -> list[int]:
        """The alternatives of a place that cost a little less and a little more."""
        prices = self.choices.prices[name][place]
        order = sorted(range(len(prices)), key=lambda i: prices[i])
        at = order.index(taken)
        return [order[i] for i in (at - 1, at + 1) if 0 <= i < len(order)]

    def _told(self, choice: Choice, apart: float) -> dict[str, Any]:
        return {"choice": list(choice), "expected": self.choices.score(choice), "found": apart}

    # --- students -----------------------------------------------------------------------

    def architecture(self, choice: Choice) -> Architecture:
        """Of a student."""
        return student(self.teacher.model.arch, self.offered, choice)

    def model(self, choice: Choice, **dropout: float) -> Model:
        """A student with the weights of its blocks."""
        return assembled(self.library, choice, self.architecture(choice), **dropout)

    def widened(self, choice: Choice) -> Choice:
        """The same choice among all alternatives, as decisions count them."""
        return tuple(worth[taken] for worth, taken in zip(self._worth, choice, strict=True))

    def narrowed(self, choice: Sequence[int]) -> Choice:
        """The inverse of ``widened``."""
        return tuple(worth.index(taken) for worth, taken in zip(self._worth, choice, strict=True))

    def names(self, choice: Choice) -> list[str]:
        """What stands at each place."""
        pairs = zip(self.offered, choice, strict=True)
        return [place.alternatives[taken].name for place, taken in pairs]

    # --- simple students of the same price ----------------------------------------------

    def fewer_layers(self, limits: Mapping[str, float]) -> Choice | None:
        """As many whole layers as the limits allow, left out evenly: the best of three ways.

        Whole layers seldom fill a limit, so that it may be passed by a tenth.
        """
        units = self._units()
        limits = {name: _SLACK * most for name, most in limits.items()}
        for count in range(len(units) - 1, -1, -1):
            kept = [c for c in map(self._keeping, spreads(len(units), count)) if c is not None]
            fitting = [c for c in dict.fromkeys(kept) if self.choices.keeps(c, limits)]
            if fitting:
                return min(fitting, key=self.judge.divergence)
        return None

    def equally_narrow(self, limits: Mapping[str, float]) -> Choice | None:
        """The same slice at all places of a kind: the best that the limits allow."""
        found = [c for c in self._uniform() if self.choices.keeps(c, limits)]
        found.sort(key=self.choices.score)
        return min(found[:4], key=self.judge.divergence, default=None)

    def at_random(self, limits: Mapping[str, float], rng: Random) -> Choice | None:
        """Blocks drawn at random, of a price as near to the limits as chance gives."""
        drawn = []
        for _ in range(_DRAWS):
            share = rng.random()
            choice = tuple(
                rng.randrange(len(place.alternatives)) if rng.random() < share else 0
                for place in self.offered
            )
            if self.choices.keeps(choice, limits):
                name = next(iter(limits))
                drawn.append((-self.choices.price(name, choice), choice))
        return min(drawn)[1] if drawn else None

    def _units(self) -> list[list[int]]:
        """Layers as people count them: an attention and what follows it up to the next."""
        units: list[list[int]] = []
        for place in self.offered:
            if not units or place.kind == "attention":
                units.append([])
            units[-1].append(place.number)
        return units

    def _keeping(self, kept: Sequence[int]) -> Choice | None:
        """The teacher with some of its layers, None where one cannot go."""
        places = {n for unit in kept for n in self._units()[unit]}
        found = []
        for place in self.offered:
            gone = place.index(NOTHING)
            if place.number not in places and gone is None:
                return None
            found.append(0 if place.number in places else int(gone or 0))
        return tuple(found)

    def _uniform(self) -> Iterator[Choice]:
        """Every slice of attentions with every slice of feed-forwards, the same everywhere."""
        kinds = sorted({place.kind for place in self.offered})
        names = [
            sorted(
                {
                    a.name
                    for place in self.offered
                    if place.kind == kind
                    for a in place.alternatives
                    if a.name.split()[0] in ("whole", "heads", "inner")
                }
            )
            for kind in kinds
        ]
        for chosen in itertools.product(*names):
            taken = dict(zip(kinds, chosen, strict=True))
            found = [place.index(taken[place.kind]) for place in self.offered]
            if None not in found:
                yield tuple(int(i or 0) for i in found)


def spreads(total: int, count: int) -> list[tuple[int, ...]]:
    """Ways to keep ``count`` of ``total`` layers evenly: from the first, to the last, both.

    >>> spreads(6, 3)
    [(0, 2, 4), (1, 3, 5), (0, 2, 5)]
    """
    if count == 0:
        return [()]
    first = tuple(i * total // count for i in range(count))
    last = tuple(total - 1 - i for i in reversed(first))
    both = tuple(i * (total - 1) // (count - 1) for i in range(count)) if count > 1 else (0,)
    return list(dict.fromkeys((first, last, both)))
