"""Where a tensor belongs, and in which form it is stored there: ways that lead there and back."""

from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, replace

import torch
import torch.nn.functional as F
from torch import Tensor


@dataclass(frozen=True)
class Form:
    """How a tensor of theirs becomes ours, one or several, and how ours become theirs again."""

    there: Callable[[Tensor], tuple[Tensor, ...]]
    back: Callable[..., Tensor]


SAME = Form(lambda x: (x,), lambda x: x)
TURNED = Form(lambda x: (x.transpose(0, -1),), lambda x: x.transpose(0, -1))  # as GPT-2 stores them
FLAT = Form(lambda x: (x.flatten(),), lambda x: x[None])  # one row
THIRDS = Form(  # queries, keys and values of GPT-2 are one matrix, transposed
    lambda x: tuple(x.transpose(0, -1).chunk(3)),
    lambda *parts: torch.cat(parts).transpose(0, -1),
)


def thirds_by_head(heads: int) -> Form:
    """Queries, keys and values are one matrix, the three of a head beside each other."""
    return Form(
        lambda x: tuple(part.flatten(0, 1) for part in x.unflatten(0, (heads, 3, -1)).unbind(1)),
        lambda *parts: torch.stack([x.unflatten(0, (heads, -1)) for x in parts], 1).flatten(0, 2),
    )


def behind(rows: int) -> Form:
    """A table whose first rows are never looked up."""
    return Form(lambda x: (x[rows:],), lambda x: F.pad(x, (0, 0, rows, 0)))


def times(factor: float) -> Form:
    """What they multiply later, or not at all."""
    return Form(lambda x: (x * factor,), lambda x: x / factor)


def plus(number: float) -> Form:
    """What they add when they compute."""
    return Form(lambda x: (x + number,), lambda x: x - number)


@dataclass(frozen=True)
class Row:
    """Our names and their name of one tensor, or of a module: its weight and its bias.

    Their names are those of the bare layers; a slash in front says that it belongs to the head.
    Without a name of theirs, ours is zero. ``untied`` rows hold only where the output layer has a
    table of its own.
    """

    ours: tuple[str, ...]
    theirs: str
    form: Form = SAME
    untied: bool = False


def row(
    ours: str | tuple[str, ...], theirs: str, form: Form = SAME, *, untied: bool = False
) -> Row:
    """A row of a table of names."""
    return Row((ours,) if isinstance(ours, str) else ours, theirs, form, untied)


def layered(rows: Iterable[Row], count: int, stack: str = "layers", parts: str = "sf") -> list[Row]:
    """The rows of one layer for each of ``count``: {i} is its number, {s} and {f} its parts."""
    made = []
    for i in range(count):
        first = i * len(parts)
        places = {part: f"stacks.{stack}.layers.{first + n}" for n, part in enumerate(parts)}
        made += [
            replace(
                found,
                ours=tuple(name.format(**places) for name in found.ours),
                theirs=found.theirs.format(i=i),
            )
            for found in rows
        ]
    return made


def spelled(rows: Iterable[Row], own: Collection[str], *, tied: bool) -> Iterator[Row]:
    """Rows with the names of tensors, of those that a model has."""
    for found in rows:
        if found.untied and tied:
            continue
        if found.ours[0] in own:
            yield found
            continue
        for what in ("weight", "bias"):
            if f"{found.ours[0]}.{what}" in own:
                ours = tuple(f"{name}.{what}" for name in found.ours)
                yield replace(found, ours=ours, theirs=f"{found.theirs}.{what}")
