"""What every family of checkpoints has in common.

A family says which architecture a ``config.json`` describes (``architecture``), which tensor of
theirs is which of ours (``body`` and ``exits``), and, for the way out, which ``config.json`` an
architecture would have (``sketch``). A sketch may be careless: it is believed only if reading it
gives the architecture back.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any, ClassVar, cast

from formwright.arch import Architecture, Attention, FeedForward, Frame, Residual
from formwright.arch.architecture import Backbone
from formwright.arch.frame import Classify, Features, Head, LanguageModel, Tag
from formwright.arch.layer import Layer, LayerNorm, Norm, RMSNorm, Stack
from formwright.model.families.config import THEIRS, Config
from formwright.model.families.form import Row, row, spelled

Shapes = Mapping[str, tuple[int, ...]]


@dataclass(frozen=True)
class Exit:
    """A head that some classes of a family have.

    ``module`` ends the name of the class, ``sign`` is a tensor that is there with the head; as many
    rows as it has, as many answers the head gives. ``prefix``: where the layers of this class have
    another name than those of the others.
    """

    module: str
    sign: str
    make: Callable[["Sizes", int], Head | None]
    rows: tuple[Row, ...]
    kind: type[Head]
    prefix: str | None = None
    also: str = ""  # the end of another class's name


@dataclass(frozen=True)
class Sizes:
    """The numbers that every family has, in our words."""

    width: int
    heads: int
    inner: int
    layers: int
    length: int
    eps: float
    activation: Any


@dataclass(frozen=True)
class Words:
    """What config.json calls the sizes; None where it does not say one in this way."""

    width: str = "hidden_size"
    heads: str = "num_attention_heads"
    inner: str = "intermediate_size"
    layers: str = "num_hidden_layers"
    length: str = "max_position_embeddings"
    eps: str | None = "layer_norm_eps"
    activation: str | None = "hidden_act"


@dataclass(frozen=True)
class Usual:
    """What is meant where config.json does not say it."""

    eps: float = 1e-5
    activation: str = "gelu"
    length: int | None = None


@dataclass(frozen=True)
class Family:
    """How one kind of checkpoint is read and written."""

    config: Config

    kind: ClassVar[str]  # model_type
    stem: ClassVar[str]  # how the names of its classes begin
    prefix: ClassVar[str] = ""  # stands before the names of layers that have a head
    backbone: ClassVar[type[Backbone]]
    words: ClassVar[Words] = Words()
    usual: ClassVar[Usual] = Usual()
    exits: ClassVar[tuple[Exit, ...]] = ()
    surplus: ClassVar[tuple[str, ...]] = ()  # ends of names that say nothing new

    def architecture(self, shapes: Shapes) -> Architecture:
        """What config.json describes, with the head that the weights have."""
        raise NotImplementedError

    def body(self, arch: Architecture) -> Iterable[Row]:
        """Where every tensor of the layers comes from."""
        raise NotImplementedError

    @classmethod
    def options(cls, arch: Architecture) -> dict[str, Any]:
        """What config.json says beside the sizes."""
        return {}

    # --- names ------------------------------------------------------------------------------

    def rows(self, arch: Architecture, own: Collection[str]) -> Iterator[Row]:
        """Where every tensor of a model comes from; ``own`` are the names of its tensors."""
        leads = self.leads(arch)
        rows = [*self.body(arch), *(leads.rows if leads else ())]
        return spelled(rows, own, tied=arch.backbone.embedding.tied)

    def leads(self, arch: Architecture) -> Exit | None:
        """The head of an architecture as this family has it."""
        assert arch.frame is not None
        head = arch.frame.head
        return next((found for found in self.exits if isinstance(head, found.kind)), None)

    def prefix_of(self, arch: Architecture) -> str:
        """What stands before the names of layers that have this head."""
        leads = self.leads(arch)
        return self.prefix if leads is None or leads.prefix is None else leads.prefix

    # --- from config.json -------------------------------------------------------------------

    def sizes(self) -> Sizes:
        """The numbers of config.json."""
        word, usual, config = self.words, self.usual, self.config
        width = config.size(word.width)
        return Sizes(
            width=width,
            heads=config.size(word.heads),
            inner=config.size(word.inner, 4 * width),
            layers=config.size(word.layers, most="layers"),
            length=config.size(word.length, usual.length),
            eps=config.number(word.eps, usual.eps) if word.eps else usual.eps,
            activation=self.activation(),
        )

    def activation(self) -> Any:
        """Our word for the function of the feed-forwards."""
        assert self.words.activation is not None
        return self.config.activation(self.words.activation, self.usual.activation)

    def even(self, sizes: Sizes) -> Sizes:
        """The same sizes, if the heads share the width evenly."""
        if sizes.width % sizes.heads:
            raise self.config.wrong(
                self.words.heads, sizes.heads, f"a divisor of the width {sizes.width}"
            )
        return sizes

    def head(self, shapes: Shapes, sizes: Sizes) -> Head | None:
        """The head that the weights have, if there is one like it here."""
        module = self.config.module
        there = [found for found in self.exits if found.sign in shapes]
        if module:
            there = [f for f in there if module.endswith((f.module, f.also or f.module))]
        return there[0].make(sizes, shapes[there[0].sign][0]) if len(there) == 1 else None

    def next_symbol(self, shapes: Shapes, sizes: Sizes, *, tied: bool) -> Head:
        """The head of a decoder: scores for the next symbol, where the checkpoint has them."""
        module = self.config.module
        found = self.head(shapes, sizes)
        if found is not None:
            return found
        ends = ("LMHeadModel", "ForCausalLM")
        return LanguageModel() if (module.endswith(ends) if module else tied) else Features()

    def framed(
        self, layers: Iterable[Layer], backbone: Backbone, sizes: Sizes, head: Head
    ) -> Architecture:
        """Layers in a row within a frame."""
        frame = Frame(self.config.size("vocab_size"), sizes.length, head)
        return Architecture(Stack(tuple(layers)), backbone, frame=frame).check()

    # --- to config.json ---------------------------------------------------------------------

    @classmethod
    def sketch(cls, arch: Architecture) -> dict[str, Any] | None:
        """A config.json that may be that of an architecture; None where it surely is not."""
        sizes = sizes_of(arch)
        if sizes is None or arch.frame is None or not isinstance(arch.backbone, cls.backbone):
            return None
        leads = next((e for e in cls.exits if isinstance(arch.frame.head, e.kind)), None)
        return {
            "architectures": [cls.stem + (leads.module if leads else "Model")],
            "model_type": cls.kind,
            "vocab_size": arch.frame.vocab,
            "tie_word_embeddings": arch.backbone.embedding.tied,
            **_in_words(sizes, cls.words),
            **_labels(arch.frame.head),
            **cls.options(arch),
        }


def _in_words(sizes: Sizes, words: Words) -> dict[str, Any]:
    """The sizes as config.json calls them."""
    named = asdict(words)
    return {named[ours]: size for ours, size in asdict(sizes).items() if named[ours]}


def sizes_of(arch: Architecture) -> Sizes | None:
    """The sizes of the first layers, the function by its name in config.json."""
    layers = first(arch)
    if layers is None or arch.frame is None:
        return None
    attention, feed, norm = layers
    return Sizes(
        width=arch.backbone.width,
        heads=attention.heads,
        inner=feed.inner,
        layers=depth(arch.encoder or arch.layers),
        length=arch.frame.length,
        eps=norm.eps,
        activation=THEIRS.get(feed.activation, ""),
    )


def first(arch: Architecture) -> tuple[Attention, FeedForward, LayerNorm | RMSNorm] | None:
    """The first attention, feed-forward and norm; None where one of them is missing."""
    nodes = [node for _, node in (arch.encoder or arch.layers).walk()]
    found = [
        next((node for node in nodes if isinstance(node, kind)), None)
        for kind in (Attention, FeedForward, Norm)
    ]
    if None in found or not isinstance(found[2], LayerNorm | RMSNorm):
        return None
    return cast(tuple[Attention, FeedForward, LayerNorm | RMSNorm], tuple(found))


def depth(stack: Stack) -> int:
    """How many layers a stack has, each with one attention over the stream itself."""
    nodes = (node for _, node in stack.walk())
    return sum(isinstance(node, Attention) and node.over == "self" for node in nodes)


def pairs(attention: Attention, feed: FeedForward, like: Residual) -> tuple[Residual, Residual]:
    """One layer: an attention and a feed-forward, each in a branch like that one."""
    return like.replace(inner=attention), like.replace(inner=feed)


def _labels(head: Head) -> dict[str, Any]:
    """Names of the answers, as Hugging Face names those that have none."""
    count = getattr(head, "classes", getattr(head, "tags", 0))
    names = [f"LABEL_{number}" for number in range(count)]
    if not names:
        return {}
    return {
        "id2label": {str(number): name for number, name in enumerate(names)},
        "label2id": {name: number for number, name in enumerate(names)},
    }


# --- heads of decoders ----------------------------------------------------------------------

CAUSAL = Exit(
    "ForCausalLM",
    "lm_head.weight",
    lambda sizes, count: LanguageModel(),
    (row("head.output.tables.0", "/lm_head.weight", untied=True),),
    LanguageModel,
)
LAST = Exit(  # their map has no bias
    "ForSequenceClassification",
    "score.weight",
    lambda sizes, count: Classify(count, "last"),
    (row("head.maps.maps.0.weight", "/score.weight"), row("head.maps.maps.0.bias", "")),
    Classify,
)


def tags(name: str) -> Exit:
    """A tag for each token, by a map of that name."""
    return Exit(
        "ForTokenClassification",
        f"{name}.weight",
        lambda sizes, count: Tag(count),
        (row("head.map", f"/{name}"),),
        Tag,
    )
