"""Writes architectures as one readable line; ``reader`` reads them back.

    LAYERS where s=..., f=... in decoder(512, ...) for frame(267735, 192, lm)

Layers that occur are given letters by what they do; repeated stretches are written once, as in
``(sfff)x6(f)x8``. Any node, written alone, is ``name(fields that are not at their default)``.
"""

from collections.abc import Sequence
from dataclasses import MISSING
from functools import lru_cache
from typing import Any

from formwright.arch.architecture import Architecture
from formwright.arch.attention import Attention
from formwright.arch.connector import Connected
from formwright.arch.conv import Convolution
from formwright.arch.graph.cell import Cell
from formwright.arch.graph.formula import Formula
from formwright.arch.layer import GLU, FeedForward, Identity, Layer, Linear, Norm, Parallel, Stack
from formwright.arch.node import Node, field_default, field_types

_LONGEST_PATTERN = 24  # repeated stretches longer than this are not looked for


def notation(arch: Architecture) -> str:
    """The whole architecture on one line; ``reader.parse`` gives it back."""
    stacks = [s for s in (arch.encoder, arch.layers) if s is not None]
    names = _letters([layer for stack in stacks for layer in stack.layers])
    text = " | ".join(_sequence([names[layer] for layer in s.layers]) or "()" for s in stacks)
    if names:
        text += " where " + ", ".join(f"{name}={write(layer)}" for layer, name in names.items())
    text += f" in {write(arch.backbone)}"
    return text + (f" for {write(arch.frame)}" if arch.frame is not None else "")


def short(arch: Architecture) -> str:
    """Only the order of layers, numbers left out: ``(sfff)x6(f)x8``."""
    stacks = [s for s in (arch.encoder, arch.layers) if s is not None]
    return " | ".join(_sequence([letter_of(layer) for layer in s.layers]) or "()" for s in stacks)


def write(value: Any) -> str:
    """Any value of a field, in notation."""
    if isinstance(value, Stack):
        return f"({_sequence([write(layer) for layer in value.layers], ' ')})"
    if isinstance(value, Node):
        return _call(value)
    if isinstance(value, tuple):
        return "[" + ", ".join(write(item) for item in value) + "]"
    if value is None or isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return repr(int(value)) if value.is_integer() and abs(value) < 1e15 else repr(value)
    return str(value)


def letter_of(layer: Layer) -> str:
    """The letter that fits what a layer does."""
    if isinstance(layer, Identity):
        return "i"
    if isinstance(layer, Norm):
        return "n"
    for _, node in layer.walk():
        if isinstance(node, Attention):
            return "m" if node.over == "source" else "s"
        if isinstance(node, Parallel):
            return "p"
        for kinds, letter in _BY_KIND:
            if isinstance(node, kinds):
                return letter
    return "k"


_BY_KIND: tuple[tuple[type[Node], str], ...] = (
    (Cell, "k"),
    (Connected, "p"),
    (Formula, "s"),
    (FeedForward, "f"),
    (Convolution, "c"),
    (GLU, "g"),
    (Linear, "l"),
)


def _call(node: Node) -> str:
    required: list[str] = []
    named: list[str] = []
    changed = node.changed()
    for name in field_types(type(node)):
        if name not in changed:
            continue
        if field_default(type(node), name) is MISSING and not named:
            required.append(write(changed[name]))
        else:
            named.append(f"{name}={write(changed[name])}")
    arguments = ", ".join(required + named)
    return f"{node.NAME}({arguments})" if arguments else node.NAME


def _letters(layers: Sequence[Layer]) -> dict[Layer, str]:
    """A name for each different layer: ``s``, or ``s1``, ``s2`` when there are several."""
    by_letter: dict[str, list[Layer]] = {}
    for layer in dict.fromkeys(layers):
        by_letter.setdefault(letter_of(layer), []).append(layer)
    names: dict[Layer, str] = {}
    for layer in dict.fromkeys(layers):
        letter = letter_of(layer)
        alike = by_letter[letter]
        names[layer] = letter if len(alike) == 1 else f"{letter}{alike.index(layer) + 1}"
    return names


def _sequence(words: Sequence[str], between: str = "") -> str:
    """The words in a row, with repeated stretches folded so that the result is shortest."""
    return _folded(tuple(words), between)


@lru_cache(maxsize=4096)
def _folded(words: tuple[str, ...], between: str) -> str:
    best = [""]  # shortest writing of the first n words
    for end in range(1, len(words) + 1):
        options = [_joined(best[end - 1], words[end - 1], between)]
        for period in range(1, min(end, _LONGEST_PATTERN) + 1):
            pattern, begin = words[end - period : end], end - 2 * period
            while begin >= 0 and words[begin : begin + period] == pattern:
                inner = pattern[0] if period == 1 else _folded(pattern, between)
                folded = f"({inner})x{(end - begin) // period}"
                options.append(_joined(best[begin], folded, between))
                begin -= period
        best.append(min(options, key=lambda text: (len(text), text)))
    return best[-1]


def _joined(head: str, tail: str, between: str) -> str:
    return head + between + tail if head else tail
