"""Writes architectures as one readable line; ``reader`` reads them back.

    LAYERS where s=..., f=... in decoder(512, ...) for frame(267735, 192, lm)

Layers that occur are given letters by what they do; repeated stretches are written once, as in
``(sfff)x6(f)x8``. Any node, written alone, is ``name(fields that are not at their default)``.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import MISSING
from typing import Any

from formwright.arch.architecture import Architecture
from formwright.arch.attention import Attention
from formwright.arch.connector import Connected
from formwright.arch.conv import Convolution
from formwright.arch.folding import folded
from formwright.arch.graph.cell import Cell
from formwright.arch.graph.formula import Formula
from formwright.arch.layer import GLU, FeedForward, Identity, Layer, Linear, Norm, Parallel, Stack
from formwright.arch.node import Node, field_default, field_types


def notation(arch: Architecture) -> str:
    """The whole architecture on one line; ``reader.parse`` gives it back.

    >>> from formwright import parse
    >>> parse(notation(parse("sfsf in gpt2(64)"))) == parse("(sf)x2 in gpt2(64)")
    True
    """
    stacks = [s for s in (arch.encoder, arch.layers) if s is not None]
    names = _letters([layer for stack in stacks for layer in stack.layers])
    text = " | ".join(folded(tuple(names[layer] for layer in s.layers)) or "()" for s in stacks)
    if names:
        text += " where " + ", ".join(f"{name}={write(layer)}" for layer, name in names.items())
    text += f" in {write(arch.backbone)}"
    return text + (f" for {write(arch.frame)}" if arch.frame is not None else "")


def short(arch: Architecture) -> str:
    """Only the order of layers, numbers left out: ``(sfff)x6(f)x8``."""
    stacks = [s for s in (arch.encoder, arch.layers) if s is not None]
    return " | ".join(folded(tuple(letter_of(layer) for layer in s.layers)) or "()" for s in stacks)


def write(value: Any) -> str:
    """Any value of a field, in notation."""
    if isinstance(value, Stack):
        return f"({folded(tuple(write(layer) for layer in value.layers), ' ')})"
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
    letters = {layer: letter_of(layer) for layer in dict.fromkeys(layers)}
    alike = Counter(letters.values())
    seen: Counter[str] = Counter()
    for layer, letter in letters.items():
        seen[letter] += 1
        if alike[letter] > 1:
            letters[layer] = f"{letter}{seen[letter]}"
    return letters
