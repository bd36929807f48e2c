"""What an architecture's time is made of, as numbers: the terms a predictor weighs.

Every term is a sum over layers of something that takes time: products, weights to fetch, numbers
to pass over, calls to make, apart for each kind of layer. They come from the count rules of the
nodes themselves, so that any architecture of the language has them, and a layer remembers its
own: a search asks for thousands of architectures made from the same layers.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np

from formwright.arch import Attention, Cell, Connected, Count, Load, Site
from formwright.arch.architecture import Architecture, Backbone, Seq2Seq
from formwright.arch.conv import Convolution
from formwright.arch.counting import count
from formwright.arch.frame import Frame, Match, Seat
from formwright.arch.layer import (
    GLU,
    FeedForward,
    Identity,
    Layer,
    Linear,
    Norm,
    Parallel,
    Residual,
    Stack,
)
from formwright.arch.node import recalled
from formwright.cost.target import Phase, Target
from formwright.errors import InputError

Array = np.ndarray[Any, np.dtype[np.float64]]

_KINDS = ("feedforward", "conv", "linear", "other")
COLUMNS: tuple[str, ...] = (
    "constant",
    *("attention layers", "attention heads", "attention projection flops"),
    *("attention weights", "attention score flops", "attention pairs", "attention activations"),
    *(
        f"{kind} {what}"
        for kind in _KINDS
        for what in ("layers", "flops", "weights", "activations")
    ),
    *("norm layers", "norm numbers", "branches", "branch numbers"),
    *("embedding flops", "embedding numbers", "head flops", "head weights", "head numbers"),
)
_AT = {name: place for place, name in enumerate(COLUMNS)}
_LAYERS_OF_KIND: tuple[tuple[str, tuple[type[Layer], ...]], ...] = (
    ("feedforward", (FeedForward,)),
    ("conv", (Convolution,)),
    ("linear", (Linear, GLU)),
)


@lru_cache(maxsize=64)
def load_of(target: Target) -> Load:
    """What passes through the layers in one run on a target."""
    return Load(
        batch=target.batch, length=target.new_tokens, past=target.past, source=target.length
    )


def features(archs: Sequence[Architecture], target: Target) -> Array:
    """One row of terms per architecture, in the order of ``COLUMNS``."""
    rows: list[Array] = []
    begins: list[int] = []
    for arch in archs:
        if arch.frame is None:
            raise InputError(
                "An architecture without a frame has no size; bind it to a task first."
            )
        load = load_of(target)
        if target.phase == "prefill" and isinstance(arch.backbone, Seq2Seq):
            load = replace(load, length=1)  # it reads the source and begins the answer
        begins.append(len(rows))
        rows.append(_around(arch.backbone, arch.frame, arch.out_width, load, target.phase))
        rows.extend(_rows(arch, arch.frame, load, target.phase))
    if not rows:
        return np.zeros((0, len(COLUMNS)))
    return np.add.reduceat(np.concatenate(rows).reshape(len(rows), -1), begins, axis=0)


def leaves(layer: Layer, site: Site) -> Iterator[tuple[Layer, Site]]:
    """Every layer at or below this one that does work of its own, with its place."""
    if isinstance(layer, Stack | Cell):
        for inner, place in layer.placed(site):
            yield from leaves(inner, place)
    elif isinstance(layer, Residual):
        yield from leaves(layer.inner, site)
        if layer.norm is not None:
            yield layer.norm, site
        yield layer, site
    elif isinstance(layer, Parallel | Connected):
        for inner in layer.branches if isinstance(layer, Parallel) else layer.layers:
            yield from leaves(inner, site)
        yield layer, site
    elif not isinstance(layer, Identity):
        yield layer, site


def _rows(arch: Architecture, frame: Frame, load: Load, phase: Phase) -> Iterator[Array]:
    if isinstance(frame.head, Match):  # two texts pass through the same layers
        load = replace(load, batch=2 * load.batch)
    if getattr(frame.head, "pool", "") == "cls":  # one vector more, in front
        load = replace(load, length=load.length + 1)
    for name, stack, site in arch.stacks():
        inner = load
        if name == "encoder":  # which reads the source once, before the first word is written
            if phase == "decode":
                continue
            inner = Load(batch=load.batch, length=load.source)
        for layer, place in stack.placed(site):
            yield terms(layer, place, inner)


@recalled
def terms(layer: Layer, site: Site, load: Load) -> Array:
    """The row of one layer at its place."""
    row = np.zeros(len(COLUMNS))
    for leaf, place in leaves(layer, site):
        _add(row, leaf, place, load)
    row.setflags(write=False)
    return row


def _add(row: Array, layer: Layer, site: Site, load: Load) -> None:
    if isinstance(layer, Residual | Parallel | Connected):
        row[_AT["branches"]] += 1
        row[_AT["branch numbers"]] += load.tokens * site.width
        return
    counted = layer.count(site, load)
    if isinstance(layer, Norm):
        row[_AT["norm layers"]] += 1
        row[_AT["norm numbers"]] += load.tokens * site.width
    elif isinstance(layer, Attention):
        _add_attention(row, layer, site, load, counted)
    else:
        kind = next((k for k, types in _LAYERS_OF_KIND if isinstance(layer, types)), "other")
        row[_AT[f"{kind} layers"]] += 1
        row[_AT[f"{kind} flops"]] += counted.flops
        row[_AT[f"{kind} weights"]] += counted.params
        row[_AT[f"{kind} activations"]] += counted.kept


def _add_attention(row: Array, layer: Attention, site: Site, load: Load, counted: Count) -> None:
    scores = layer.kind.count(layer, site, load)
    each = 2 * (layer.key_size(site.width) + layer.value_size(site.width))
    row[_AT["attention layers"]] += 1
    row[_AT["attention heads"]] += layer.heads
    row[_AT["attention projection flops"]] += counted.flops - scores.flops
    row[_AT["attention weights"]] += counted.params
    row[_AT["attention score flops"]] += scores.flops
    row[_AT["attention pairs"]] += scores.flops / each  # a softmax passes over every one
    row[_AT["attention activations"]] += counted.kept


@lru_cache(maxsize=256)
def _around(backbone: Backbone, frame: Frame, out: int, load: Load, phase: Phase) -> Array:
    """What stands around the layers: the constant, embedding, last norm and head."""
    row = np.zeros(len(COLUMNS))
    answered = load.length if phase == "pass" else 1  # else scores of the next word only
    entered = load.tokens
    if isinstance(backbone, Seq2Seq) and phase != "decode":
        entered += load.batch * load.source
    row[_AT["constant"]] = 1
    embedding = backbone.embedding.count(frame.vocab, backbone.width, Load(length=entered))
    row[_AT["embedding flops"]] = embedding.flops
    row[_AT["embedding numbers"]] = entered * backbone.width
    if backbone.norm is not None:
        row[_AT["norm layers"]] += 1
        row[_AT["norm numbers"]] += load.tokens * backbone.width
    seat = Seat(backbone.embedding, frame.vocab, backbone.width, out)
    head = frame.head.count(seat, Load(batch=load.batch, length=answered))
    row[_AT["head flops"]] = head.flops
    row[_AT["head weights"]] = head.params or backbone.width * frame.vocab
    row[_AT["head numbers"]] = head.kept
    row.setflags(write=False)
    return row


def size_of(archs: Sequence[Architecture], target: Target) -> tuple[Array, Array]:
    """FLOPs and parameters of each: the two simplest guesses at a time."""
    found = [
        count(arch, batch=target.batch, length=target.new_tokens, past=target.past)
        for arch in archs
    ]
    return np.array([float(c.flops) for c in found]), np.array([float(c.params) for c in found])
