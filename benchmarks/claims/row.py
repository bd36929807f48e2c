"""A row of the evidence: what was published, what was found here, and how to repeat it."""

import statistics
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

Verdict = Literal["yes", "partly", "no", "open"]
WORDS: dict[Verdict, str] = {
    "yes": "holds",
    "partly": "holds in part",
    "no": "**does not hold**",
    "open": "**not measured**",
}


@dataclass(frozen=True)
class Told:
    """What the figures of a row say. The verdict follows from the figures, never from a wish.

    Args:
        verdict: Whether the effect is there at our scale.
        found: The figures, with their spread.
        seeds: How many.
        control: The same for random search, or another trivial rival; empty where there is none.
    """

    verdict: Verdict
    found: str
    seeds: int
    control: str = ""


@dataclass(frozen=True, kw_only=True)
class Row:
    """One claim.

    Args:
        name: By which ``evidence.py run`` knows it.
        group: System, peer or part of the program, under which it stands on the page.
        claim: What should be so, in a few words.
        published: The paper's own figure; for the program, what was wanted.
        data: What was measured on, and at which scale.
        file: The results file, without its ending; empty where nothing measures the claim.
        part: Keys that lead to the row's figures in it.
        shape: Their form.
        tell: Makes words of them.
        script: The benchmark that measures it.
        full: Its arguments for the figures of the page.
        short: The same for the short form; None where it has none.
        minutes: What the short form takes on a quiet core, about; it is stopped after four times
            that, and never before five minutes.
        rooms: Paths below src/formwright on whose code the figures depend.
    """

    name: str
    group: str
    claim: str
    published: str
    data: str
    file: str
    script: str
    shape: Any
    tell: Callable[[Any], Told]
    rooms: Sequence[str]
    part: tuple[str, ...] = ()
    full: str = ""
    short: str | None = None
    minutes: float = 2.0

    @property
    def command(self) -> str:
        """What repeats the figures of the page; empty where no benchmark measures it."""
        return f"python benchmarks/{self.script} {self.full}".strip() if self.script else ""

    def pick(self, data: Any) -> Any:
        """The row's own figures in the whole results file; None where they are not there."""
        for key in self.part:
            data = data.get(key) if isinstance(data, dict) else None
        return data


def missing(*, name: str, group: str, claim: str, published: str, rooms: Sequence[str]) -> Row:
    """A claim that no benchmark measures, which the page says as plainly as any other."""
    return Row(
        name=name,
        group=group,
        claim=claim,
        published=published,
        data="none",
        file="",
        script="",
        shape=object,
        tell=lambda _: Told("open", "", 0),
        rooms=rooms,
    )


def around(values: Iterable[float], digits: int = 3) -> str:
    """Mean and standard deviation."""
    listed = list(values)
    mean = f"{statistics.fmean(listed):.{digits}f}"
    return f"{mean} ± {statistics.stdev(listed):.{digits}f}" if len(listed) > 1 else mean


def each(values: Iterable[float], digits: int = 2) -> str:
    """One after the other."""
    return ", ".join(f"{value:.{digits}f}" for value in values)
