"""What a drawing says about each part of an architecture: a short title and the numbers."""

from collections.abc import Sequence
from functools import singledispatch
from typing import NamedTuple

from formwright.arch import Attention, Backbone, Cell, Formula, Node, Program, Site, Softmax
from formwright.arch.conv import (
    Conv,
    Convolution,
    DepthwiseConv,
    DynamicConv,
    LightConv,
    SeparableConv,
)
from formwright.arch.frame import (
    Classify,
    Features,
    Frame,
    Head,
    LanguageModel,
    MaskedLM,
    Match,
    Span,
    Tag,
)
from formwright.arch.graph.formulas import expression
from formwright.arch.layer import (
    GLU,
    Activation,
    FeedForward,
    Layer,
    LayerNorm,
    Linear,
    Norm,
    Parallel,
    Stack,
)
from formwright.arch.writer import write

TIMES = "\N{MULTIPLICATION SIGN}"
_LONGEST_FACT = 40  # a formula inside a node must not fill the drawing


class Words(NamedTuple):
    """A part in words. ``size`` is its broadest point inside, in channels."""

    title: str
    facts: tuple[str, ...]
    size: int


@singledispatch
def words(layer: Layer, site: Site) -> Words:
    """The words for a layer at its place; kinds that are not known here describe themselves."""
    out = layer.out_width(site)
    return Words(_spaced(layer.NAME), (*settings(layer), *_change(site.width, out)), out)


@words.register
def _(layer: Attention, site: Site) -> Words:
    plain, width = isinstance(layer.kind, Softmax), site.width
    base = "cross-attention" if layer.over == "source" else "attention"
    title = f"{_spaced(layer.kind.NAME)} {base}" if not plain else base
    key, value = layer.key_size(width), layer.value_size(width)
    facts = [f"{_many(layer.heads, 'head')} {TIMES} {key}"]
    if layer.groups != layer.heads:
        facts.append(_many(layer.groups, "kv head"))
    if value != key:
        facts.append(f"values {TIMES} {value}")
    if layer.query_key != "separate":
        facts.append(_QUERY_KEY[layer.query_key])
    if layer.conv:
        facts.append(f"conv {layer.conv}")
    if layer.head_norm is not None:
        facts.append("normed queries and keys")
    if not layer.project_out:
        facts.append("no output map")
    title = "self-attention" if title == "attention" else title
    facts.extend(settings(layer.kind))
    return Words(title, tuple(facts), layer.heads * max(key, value))


@words.register
def _(layer: FeedForward, site: Site) -> Words:
    facts = (str(layer.inner), _spaced(layer.activation), *(("gated",) if layer.gate else ()))
    return Words("feed-forward", facts, layer.inner)


@words.register
def _(layer: Formula, site: Site) -> Words:
    size = layer.key_size(site.width)
    facts = (f"{_many(layer.heads, 'head')} {TIMES} {size}", expression(layer))
    return Words("formula", facts, layer.heads * size)


@words.register
def _(layer: Program, site: Site) -> Words:
    steps = layer.straight_line(site).steps
    facts = (
        _many(len(layer.subprograms), "subprogram"),
        _many(sum(len(sub.code) for sub in layer.subprograms), "instruction"),
        _many(len(steps), "step") + " in all",
    )
    rows = (step.result for step in steps if step.result.kind == "rows")
    return Words("program", facts, max(value.lanes * value.width for value in rows))


@words.register
def _(layer: Convolution, site: Site) -> Words:
    title = f"{_CONVOLUTION.get(type(layer), _spaced(layer.NAME))} {layer.kernel}"
    facts = [*_change(site.width, layer.out_width(site))]
    heads, units = getattr(layer, "heads", 1), getattr(layer, "units", 1)
    if heads > 1:
        facts.append(_many(heads, "head"))
    if units > 1:
        facts.append(_many(units, "unit"))
    return Words(title, tuple(facts), max(site.width, layer.out_width(site)))


@words.register
def _(layer: Linear, site: Site) -> Words:
    return Words("linear map", (f"{site.width} → {layer.out}",), max(site.width, layer.out))


@words.register
def _(layer: GLU, site: Site) -> Words:
    out = layer.out_width(site)
    return Words("gated linear unit", _change(site.width, out) or (str(out),), out)


@words.register
def _(layer: Activation, site: Site) -> Words:
    return Words(_spaced(layer.function), (), site.width)


@words.register
def _(layer: Norm, site: Site) -> Words:
    return Words(norm_words(layer), (), site.width)


@words.register
def _(layer: Parallel, site: Site) -> Words:
    out = layer.out_width(site)
    title = f"parallel: {_JOIN[layer.join]} of {len(layer.branches)}"
    facts = (*(("padded",) if layer.pad else ()), *_change(site.width, out))
    return Words(title, facts, out)


@words.register
def _(layer: Cell, site: Site) -> Words:
    facts = [_many(len(layer.blocks), "block")]
    if layer.unit is not None:
        facts.append(f"in steps of {layer.unit}")
    return Words("cell", tuple(facts), max(layer.plan(site).widths))


@words.register
def _(layer: Stack, site: Site) -> Words:
    out = layer.out_width(site)
    return Words(f"series of {len(layer.layers)}", _change(site.width, out), out)


_QUERY_KEY = {
    "shared": "queries are keys",
    "solo": "queries from keys",
    "none": "mean of values",
}
_CONVOLUTION: dict[type[Convolution], str] = {
    Conv: "conv",
    DepthwiseConv: "depthwise conv",
    SeparableConv: "separable conv",
    LightConv: "lightweight conv",
    DynamicConv: "dynamic conv",
}
_JOIN = {"sum": "sum", "mean": "mean", "concat": "concat", "multiply": "product"}
_NORM = {"layernorm": "layer norm", "rmsnorm": "RMS norm", "primernorm": "Primer norm"}
_POSITION = {
    "sinusoid": "sinusoid, added",
    "learned": "learned, added",
    "xl": "relative (Transformer-XL)",
    "t5": "relative buckets (T5)",
    "rotary": "rotary",
    "alibi": "ALiBi",
}
_POOL = {
    "first": "from the first vector",
    "last": "from the last vector",
    "mean": "from the mean",
    "cls": "from a CLS vector",
}


def norm_words(norm: Norm) -> str:
    """A norm's name: ``layer norm``, ``layer norm without mean``."""
    name = _NORM.get(norm.NAME, _spaced(norm.NAME))
    if isinstance(norm, LayerNorm) and norm.mean != 1:
        name += " without mean" if norm.mean == 0 else f", {norm.mean:g} of the mean"
    return name


def embedding_words(backbone: Backbone, frame: Frame | None) -> tuple[str, ...]:
    """How symbols become vectors."""
    embedding, width = backbone.embedding, backbone.width
    size = embedding.size or width
    symbols = f"{frame.vocab:,} symbols" if frame is not None else "symbols"
    facts = [f"{symbols} {TIMES} {size}", *_change(size, width)]
    if embedding.clusters:
        cuts = " / ".join(f"{cut:,}" for cut in embedding.clusters)
        facts.append(f"{len(embedding.clusters) + 1} clusters cut at {cuts}")
        if embedding.divide > 1:
            facts.append(f"each {embedding.divide} times smaller")
    if embedding.segments:
        facts.append(_many(embedding.segments, "segment"))
    if embedding.scale:
        facts.append("scaled")
    if embedding.norm is not None:
        facts.append(norm_words(embedding.norm))
    return tuple(facts)


def position_words(backbone: Backbone) -> tuple[str, ...]:
    """How the model knows where a token stands."""
    position = backbone.position
    if position is None:
        return ("none",)
    return (_POSITION.get(position.NAME, _spaced(position.NAME)), *settings(position))


def head_words(backbone: Backbone, frame: Frame | None) -> tuple[str, ...]:
    """What becomes of the last layer's vectors."""
    if frame is None:
        return ("open until a task is bound",)
    facts = _answer(frame.head)
    if isinstance(frame.head, LanguageModel | MaskedLM):
        tied = "tied to the embedding" if backbone.embedding.tied else "own output map"
        facts = (*facts, tied)
    return facts


def _answer(head: Head) -> tuple[str, ...]:
    match head:
        case LanguageModel():
            return ("language model",)
        case MaskedLM():
            return ("masked language model", *(() if head.transform else ("no transform",)))
        case Classify() | Match():
            what = "classify" if isinstance(head, Classify) else "match two texts"
            hidden = " / ".join(map(str, head.hidden))
            between = (f"hidden {hidden}",) if hidden else ()
            return (what, f"{head.classes} classes", *between, _POOL[head.pool])
        case Tag():
            return ("tag each token", _many(head.tags, "tag"))
        case Span():
            return ("span: begin and end",)
        case Features():
            return ("vectors", *(("pooler",) if head.pooler else ()))
        case _:
            return (_spaced(head.NAME), *settings(head))


def settings(node: Node) -> tuple[str, ...]:
    """Fields that are not at their default, in words; layers inside are drawn, not said."""
    facts = []
    for name, value in node.changed().items():
        inside = value if isinstance(value, tuple) else (value,)
        if any(isinstance(item, Layer) for item in inside):
            continue
        if isinstance(value, bool):
            facts.append(_spaced(name) if value else f"no {_spaced(name)}")
        else:
            facts.append(shortened(f"{_spaced(name)} {write(value)}", _LONGEST_FACT))
    return tuple(facts)


def _change(before: int, after: int) -> tuple[str, ...]:
    return (f"{before} → {after}",) if before != after else ()


def _many(number: int, word: str) -> str:
    return f"{number} {word}" if number == 1 else f"{number} {word}s"


def _spaced(name: str) -> str:
    return name.replace("_", " ")


def shortened(text: str, room: int) -> str:
    """At most ``room`` characters; what is cut off leaves an ellipsis."""
    return text if len(text) <= room else text[: max(0, room - 1)] + "…"


def wrapped(facts: Sequence[str], room: int) -> list[str]:
    """Facts in lines of at most ``room`` characters, broken between facts; at least one line."""
    lines = [""]
    for fact in facts:
        longer = f"{lines[-1]}, {fact}" if lines[-1] else fact
        if len(longer) < room or not lines[-1]:
            lines[-1] = longer
        else:
            lines[-1] += ","
            lines.append(fact)
    return [shortened(line, room) for line in lines]
