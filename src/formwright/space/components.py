"""A BERT cut into components, and the networks that selected and connected components make.

Paper: "Finding Fast Transformers", Tsai et al. 2020, https://arxiv.org/abs/2008.06808.

Two spaces of the same networks. In the space of components, which a supernet is made from, every
part is a layer of its own behind a decision, in a chain of connectors. In the space of members,
which trials come from, parts that read the same input are one operator again, because only so are
they fast: ``heads0`` and ``inner0`` say how the kept parts of layer 0 are grouped.
Differs from the paper: channels of queries, keys and values are kept in all heads of a layer or
in none, so that what is left is one attention again.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from math import gcd
from typing import Any, Literal

from formwright.arch import Architecture, Attention, FeedForward, Layer, LayerNorm, Parallel
from formwright.arch.components import feedforward_part, shares
from formwright.arch.connector import Connected
from formwright.arch.frame import Frame, MaskedLM
from formwright.arch.layer import Residual, Stack
from formwright.arch.style import style
from formwright.errors import InputError
from formwright.space.choice import Maybe, OneOf, stack_of
from formwright.space.part import Decisions
from formwright.space.registry import published_space
from formwright.space.tree import TreeSpace

PAPER = "https://arxiv.org/abs/2008.06808"
BERT_FRAME = Frame(vocab=30522, length=512, head=MaskedLM())
Groups = tuple[int, ...]  # how many parts stand side by side, group after group
Pricing = Literal["alone", "parts"]  # what is saved when a component alone goes; what adds up


@dataclass(frozen=True, kw_only=True)
class Cut:
    """A BERT and how finely it is cut.

    Args:
        layers, width, heads, inner: Of the whole.
        head_parts: Components that the heads are dealt into; each may go, or close its layer.
        key_parts: Slices of the query-key channels; without any, values are averaged.
        value_parts: Slices of the value channels.
        inner_parts: Components that the feed-forward is cut into.
    """

    layers: int
    width: int
    heads: int
    inner: int
    head_parts: int
    key_parts: int = 2
    value_parts: int = 2
    inner_parts: int = 8

    def __post_init__(self) -> None:
        if self.width % self.heads or self.heads % self.head_parts:
            raise InputError(
                f"{self.heads} heads in {self.head_parts} parts do not deal out a width of "
                f"{self.width} evenly; each must divide the one before."
            )
        shares(self.channels, self.key_parts, "query-key channels")
        shares(self.channels, self.value_parts, "value channels")
        if self.inner % self.inner_parts:
            raise InputError(
                f"An inner width of {self.inner} cannot be cut into {self.inner_parts} equal "
                "parts; choose a divisor."
            )

    @property
    def channels(self) -> int:
        """Of one head."""
        return self.width // self.heads

    @property
    def heads_each(self) -> int:
        """Heads of one component."""
        return self.heads // self.head_parts

    @property
    def inner_each(self) -> int:
        """Channels of one feed-forward component."""
        return self.inner // self.inner_parts

    @cached_property
    def norm(self) -> LayerNorm:
        """The norm after each sub-layer."""
        letter = style("bert", self.width).letters["f"]
        assert isinstance(letter, Residual)
        assert isinstance(letter.norm, LayerNorm)
        return letter.norm

    @property
    def whole(self) -> FeedForward:
        """The feed-forward as it is."""
        return FeedForward(self.inner)

    def baseline(self, frame: Frame) -> Architecture:
        """The network that is cut: an ordinary BERT."""
        family = style("bert", self.width, self.heads, self.inner)
        pair = (family.letters["s"], family.letters["f"])
        return Architecture(Stack(pair * self.layers), family.backbone, frame=frame).check()

    # --- the space of components ----------------------------------------------------------

    def components(self, frame: Frame) -> TreeSpace:
        """Every part behind a decision, every connection open."""
        layers: list[Any] = []
        for i in range(self.layers):
            heads = [self._head(i, part) for part in range(self.head_parts)]
            layers.append(_chain(heads, f"head{i}", f"close_head{i}"))
            layers.append(_norm(self.norm, f"mean{i}a"))
            parts = [self._slice(part) for part in range(self.inner_parts)]
            layers.append(_chain(parts, f"slice{i}", f"close_slice{i}"))
            layers.append(_norm(self.norm, f"mean{i}f"))
        backbone = style("bert", self.width).backbone
        declared = Architecture(stack_of(*layers), backbone, frame=frame)
        return TreeSpace(declared, name="components of a Transformer")

    def _head(self, layer: int, part: int) -> Attention:
        sizes = {
            "key": OneOf(f"key{layer}", steps(self.channels, self.key_parts)),
            "value": OneOf(f"value{layer}", steps(self.channels, self.value_parts)),
        }
        own = Attention(self.heads_each, key=self.channels, out_bias=None if part == 0 else False)
        return own.replace(**sizes)

    def _slice(self, part: int) -> FeedForward:
        return feedforward_part(self.whole, self.inner_each, out_bias=part == 0)

    # --- the space of members -------------------------------------------------------------

    def members(self, frame: Frame) -> TreeSpace:
        """What selected and connected components make, as fast networks."""
        layers: list[Any] = []
        for i in range(self.layers):
            heads = tuple(self.attentions(i, groups) for groups in groupings(self.head_parts))
            inner = tuple(self.feedforwards(groups) for groups in groupings(self.inner_parts))
            layers += [OneOf(f"heads{i}", heads), _norm(self.norm, f"mean{i}a")]
            layers += [OneOf(f"inner{i}", inner), _norm(self.norm, f"mean{i}f")]
        backbone = style("bert", self.width).backbone
        declared = Architecture(stack_of(*layers), backbone, frame=frame)
        return TreeSpace(declared, name="Transformers of components")

    def attentions(self, layer: int, groups: Groups) -> tuple[Layer, ...]:
        """One attention per group, sizes open."""
        sizes = {
            "key": OneOf(f"key{layer}", steps(self.channels, self.key_parts)),
            "value": OneOf(f"value{layer}", steps(self.channels, self.value_parts)),
            "query_key": OneOf(f"compare{layer}", ("none", "separate")),
        }
        found = []
        for number, parts in enumerate(groups):
            own = Attention(parts * self.heads_each, out_bias=None if number == 0 else False)
            branch = Residual(own, norm=None)
            found.append(branch.replace(inner=own.replace(**sizes)))
        return tuple(found)

    def feedforwards(self, groups: Groups) -> tuple[Layer, ...]:
        """One feed-forward per group; the bias of the last map stands once."""
        return tuple(
            Residual(
                feedforward_part(self.whole, parts * self.inner_each, out_bias=number == 0),
                norm=None,
            )
            for number, parts in enumerate(groups)
        )

    def member(self, kept: Sequence["Kept"]) -> Decisions:
        """The decisions that stand for what is kept of each layer."""
        found: dict[str, int | float] = {}
        for i, layer in enumerate(kept):
            found[f"heads{i}"] = groupings(self.head_parts).index(layer.heads)
            if layer.heads:
                found[f"compare{i}"] = int(layer.key > 0)
                found[f"key{i}"] = layer.key or self.channels
                found[f"value{i}"] = layer.value
            found[f"inner{i}"] = groupings(self.inner_parts).index(layer.inner)
            found[f"mean{i}a"], found[f"mean{i}f"] = layer.means
        return found

    def everything(self) -> list["Kept"]:
        """The whole network: all parts side by side."""
        full = Kept((self.head_parts,), self.channels, self.channels, (self.inner_parts,))
        return [full] * self.layers


BERT = Cut(layers=12, width=768, heads=12, inner=3072, head_parts=2, inner_parts=2)


@published_space("fft", PAPER)
def fft(frame: Frame = BERT_FRAME) -> TreeSpace:
    """Finding Fast Transformers: BERT base of selected and connected components."""
    return BERT.members(frame)


@published_space("fft-components", PAPER)
def fft_components(frame: Frame = BERT_FRAME) -> TreeSpace:
    """Finding Fast Transformers: every component of BERT base behind a decision, for supernets."""
    return BERT.components(frame)


@dataclass(frozen=True)
class Kept:
    """What is left of a layer: groups of parts, channels of each head, means taken out or not.

    ``key`` is 0 where nothing is compared.
    """

    heads: Groups
    key: int
    value: int
    inner: Groups
    means: tuple[float, float] = (1.0, 1.0)


def cut_of(arch: Architecture, cut: Cut) -> Cut | None:
    """The cut of a BERT, as fine as ``cut`` where its sizes allow; None where it is none."""
    heads = {node.heads for _, node in arch.walk() if isinstance(node, Attention)}
    inner = {node.inner for _, node in arch.walk() if isinstance(node, FeedForward)}
    layers, width = len(arch.layers.layers) // 2, arch.backbone.width
    if len(heads) != 1 or len(inner) != 1 or not layers or width % min(heads):
        return None
    (h,), (i,) = heads, inner
    parts = {"head_parts": gcd(h, cut.head_parts), "inner_parts": gcd(i, cut.inner_parts)}
    each = {n: min(getattr(cut, n), width // h) for n in ("key_parts", "value_parts")}
    found = replace(cut, layers=layers, width=width, heads=h, inner=i, **parts, **each)
    return found if arch.frame is not None and found.baseline(arch.frame) == arch else None


@lru_cache
def groupings(parts: int) -> tuple[Groups, ...]:
    """Every way to group up to ``parts`` parts in order: 2 ** parts of them, none first."""
    found: list[Groups] = [()]
    for size in range(1, parts + 1):
        for closes in range(2 ** (size - 1)):
            flags = [bool(closes >> bit & 1) for bit in range(size - 1)]
            found.append(grouped([True] * size, flags))
    return tuple(found)


def grouped(on: Sequence[bool], closes: Sequence[bool]) -> Groups:
    """The groups that connectors make of the parts that are on.

    A connector of a part that is off still closes the layer before it, if there is one.
    """
    groups: list[int] = []
    size = 0
    for here, close in zip(on, (*closes, False), strict=True):
        size += here
        if close and size:
            groups.append(size)
            size = 0
    return (*groups, size) if size else tuple(groups)


def steps(whole: int, parts: int) -> tuple[int, ...]:
    """Sizes that the first few of ``parts`` slices have together."""
    sizes = shares(whole, parts, "channels")
    return tuple(sum(sizes[: number + 1]) for number in range(parts))


def prices(
    cut: Cut, times: Mapping[str, float], pricing: Pricing = "alone"
) -> dict[str, list[float]]:
    """What each decision costs, over the time of the whole.

    ``alone`` is what is saved when it alone is taken back. A head takes its share of comparing
    queries with keys and of mixing values with it, although slices of those have prices too: all
    prices together exceed the whole's time. With ``parts`` they add up to what components take: a
    head is what is left of attention without queries, keys and values, which is next to nothing
    (0.1 of 100 in the paper's Table 1), and slices carry the rest.

    Args:
        cut: What was cut.
        times: Shares of the time by the names of ``cost.components``, and ``close_head`` and
            ``close_slice``, the share of one connection.
        pricing: What a head is charged with.
    """
    layers, found = cut.layers, {}
    attention = times["heads"]
    if pricing == "alone":
        attention += times["query_key"] + times["value"]
    head = attention / (layers * cut.head_parts)
    inner = times["feedforward"] / (layers * cut.inner_parts)
    mean = times["norm_mean"] / (2 * layers)
    for i in range(layers):
        for part in range(cut.head_parts):
            found[f"head{i}.{part}"] = [0.0, head]
        for part in range(cut.inner_parts):
            found[f"slice{i}.{part}"] = [0.0, inner]
        for name, parts in (("key", cut.key_parts), ("value", cut.value_parts)):
            share = times["query_key" if name == "key" else "value"] / layers
            sizes = shares(cut.channels, parts, "channels")
            found[f"{name}{i}"] = [share * size / cut.channels for size in sizes]
        for kind, parts in (("close_head", cut.head_parts), ("close_slice", cut.inner_parts)):
            for part in range(parts - 1):
                found[f"{kind}{i}.{part}"] = [0.0, times[kind]]
        found[f"mean{i}a"] = found[f"mean{i}f"] = [0.0, mean]
    return found


def predicted(cut: Cut, times: Mapping[str, float], decisions: Decisions) -> float:
    """The time of a member over that of the whole, by adding up what it has.

    Args:
        cut: What was cut.
        times: As ``prices`` takes them, with ``rest``.
        decisions: Of the member.
    """
    total = times["rest"] + times.get("vertical", 0.0)
    for i in range(cut.layers):
        number: Any = decisions[f"heads{i}"]
        heads = groupings(cut.head_parts)[number]
        if heads:
            key = _number(decisions, f"compare{i}") * _number(decisions, f"key{i}") / cut.channels
            value = _number(decisions, f"value{i}") / cut.channels
            each = times["heads"] + key * times["query_key"] + value * times["value"]
            total += sum(heads) / cut.head_parts * each / cut.layers
            total += (len(heads) - 1) * times["close_head"]
        number = decisions[f"inner{i}"]
        inner = groupings(cut.inner_parts)[number]
        total += sum(inner) / cut.inner_parts * times["feedforward"] / cut.layers
        total += max(0, len(inner) - 1) * times["close_slice"]
        means = _number(decisions, f"mean{i}a") + _number(decisions, f"mean{i}f")
        total += means * times["norm_mean"] / (2 * cut.layers)
    return total


def _number(decisions: Decisions, name: str) -> float:
    value: Any = decisions[name]
    return float(value)


def _chain(parts: Sequence[Layer], name: str, close: str) -> Any:
    """Parts in connectors, each behind a decision; the last connection says nothing."""
    behind = tuple(
        Parallel((part,)).replace(branches=(Maybe(f"{name}.{number}", part),))
        for number, part in enumerate(parts)
    )
    weights = tuple(OneOf(f"{close}.{number}", (0.0, 1.0)) for number in range(len(parts) - 1))
    plain = Connected(tuple(parts), (0.0,) * len(parts))
    return plain.replace(layers=behind, weights=(*weights, 0.0))


def _norm(norm: LayerNorm, name: str) -> Any:
    return norm.replace(mean=OneOf(name, (0.0, 1.0)))
