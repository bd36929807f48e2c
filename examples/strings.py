"""A space, a strategy, a recipe and a report section of one's own, each in a few lines.

Put this file into a package of yours and announce what it holds:

    [project.entry-points."formwright.spaces"]
    strings = "strings:Strings"
    [project.entry-points."formwright.strategies"]
    climb = "strings:Climb"
    [project.entry-points."formwright.recipes"]
    letters = "strings:Letters"
    [project.entry-points."formwright.sections"]
    alphabet = "strings"

Then ``formwright search --space strings``, ``--strategy climb`` and ``formwright search letters``
work as the built-in ones do, and every report has the section.
"""

from collections import Counter
from dataclasses import dataclass

from formwright.arch import parse
from formwright.arch.codec import from_data, to_data
from formwright.arch.style import style
from formwright.estimate import Counted, Together, Training
from formwright.estimate.training import known_task
from formwright.recipes.headline import conclude
from formwright.recipes.recipe import Recipe
from formwright.report.html import tag
from formwright.report.section import section
from formwright.space import Space
from formwright.strategy.blackbox import Strategy
from formwright.train import TrainConfig
from formwright.trial import Objective


class Strings(Space):
    """Any order of three to six letters."""

    name = "strings"

    def __init__(self, frame=None, width=32):
        self.frame, self.width = frame, width

    def draw(self, rng):
        return {"text": "".join(rng.choices("sfc", k=rng.randint(3, 6)))}

    def change(self, parent, rng, rate=None):
        text, place = parent["text"], rng.randrange(len(parent["text"]))
        other = rng.choice([letter for letter in "sfc" if letter != text[place]])
        return {"text": text[:place] + other + text[place + 1 :]}

    def resolve(self, decisions):
        arch = parse(decisions["text"], defaults=style("gpt2", self.width))
        return arch.bind(self.frame) if self.frame is not None else arch

    def for_frame(self, frame):
        return Strings(frame, self.width)

    def to_data(self):
        return {"width": self.width, "frame": self.frame and to_data(self.frame)}

    @classmethod
    def from_data(cls, data):
        return cls(data["frame"] and from_data(data["frame"], "frame"), data["width"])


class Climb(Strategy):
    """Always changes the best so far."""

    def ask(self, number, pending=()):
        if not self.trials:
            return self.drawn(number, pending)
        return self.mutated(self.ordered(self.trials)[0], self.rng(number), pending)


@dataclass(frozen=True, kw_only=True)
class Letters(Recipe):
    """Ten strings by climbing, then the best of them in words."""

    task: str = "stdlib?length=32"
    training: TrainConfig = TrainConfig(steps=4, batch_tokens=256, score_batches=2)  # noqa: RUF009

    def make_space(self):
        return Strings(known_task(self.task).frame)

    def make_baseline(self):
        return "plain order sfsf", self.make_space().resolve({"text": "sfsf"})

    def objectives(self):
        return known_task(self.task).objective, Objective("flops")

    def make_strategy(self):
        return "climb", {}

    def phases(self):
        return self.search, self.conclude

    def search(self, session):
        estimator = Together(Counted(), Training(self.task, self.training))
        session.evaluate_baseline(estimator)
        session.run(estimator, trials=10)

    def conclude(self, session):
        session.conclude(conclude(session))


@section("alphabet", "Letters that were tried")
def alphabet_html(material):
    """How often each letter stands in a string."""
    texts = [trial.decisions["text"] for trial in material.trials if "text" in trial.decisions]
    count = Counter("".join(texts))
    return tag("p", ", ".join(f"{k}: {n}" for k, n in sorted(count.items()))) if count else None
