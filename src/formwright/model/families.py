"""What folders in Hugging Face's format hold: their options, and where each tensor belongs here.

A family says which architecture a ``config.json`` describes, and which of its tensors is which of
ours. To add one, write its class below and name it in ``FAMILIES``.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from torch import Tensor

from formwright.arch import Architecture, Attention, FeedForward, Frame, LayerNorm, Residual, style
from formwright.arch.architecture import Backbone
from formwright.arch.frame import Classify, Features, Head, LanguageModel, MaskedLM, Span, Tag
from formwright.arch.layer import RMSNorm, Stack
from formwright.arch.position import Rotary
from formwright.errors import InputError
from formwright.files import read_json
from formwright.model.model import Model

CONFIG = "config.json"
LARGEST = 10_000_000  # bytes of a JSON file
_MOST = {"layers": 1000, "size": 10_000_000}  # above which config.json is surely damaged
_ACTIVATIONS: Mapping[str, Any] = {
    "gelu": "gelu",
    "gelu_new": "gelu_tanh",
    "gelu_pytorch_tanh": "gelu_tanh",
    "relu": "relu",
    "relu2": "squared_relu",
    "silu": "silu",
    "swish": "silu",
    "tanh": "tanh",
}

Shapes = Mapping[str, tuple[int, ...]]
Form = Callable[[Tensor], Tensor]
Pairs = Iterator[tuple[str, str, Form]]  # our name, their name, theirs as ours


class Config:
    """The options of a checkpoint, each looked at before it is believed."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        if not (folder / CONFIG).is_file():
            raise InputError(f"{folder} holds no model: {CONFIG} is missing.")
        self.data = read_json(folder / CONFIG, "a model's configuration", LARGEST)
        if not isinstance(self.data, dict):
            raise InputError(f"{folder / CONFIG} is no configuration of a model.")

    @property
    def kind(self) -> str:
        """``bert``, ``gpt2``, ``llama``."""
        return str(self.data.get("model_type"))

    @property
    def module(self) -> str:
        """What Hugging Face calls it, ``BertForMaskedLM``; nothing where it is not said."""
        names = self.data.get("architectures")
        return str(names[0]) if isinstance(names, list) and names else ""

    def size(self, name: str, usual: int | None = None, most: str = "size") -> int:
        """A whole number above 0."""
        value = self.data.get(name)
        value = usual if value is None else value
        if not isinstance(value, int) or isinstance(value, bool) or not 0 < value <= _MOST[most]:
            raise self.wrong(name, value, f"a whole number from 1 to {_MOST[most]:,}")
        return value

    def number(self, name: str, usual: float) -> float:
        """A number above 0."""
        value = self.data.get(name, usual)
        if not isinstance(value, int | float) or isinstance(value, bool) or not 0 < value < 1e12:
            raise self.wrong(name, value, "a number above 0")
        return float(value)

    def flag(self, name: str, usual: bool) -> bool:
        """True or false."""
        value = self.data.get(name, usual)
        if not isinstance(value, bool):
            raise self.wrong(name, value, "true or false")
        return value

    def activation(self, name: str, usual: str) -> Any:
        """Our word for a function."""
        value = self.data.get(name, usual)
        if not isinstance(value, str) or value not in _ACTIVATIONS:
            raise self.wrong(name, value, f"one of {', '.join(_ACTIVATIONS)}")
        return _ACTIVATIONS[value]

    def only(self, name: str, *allowed: Any) -> None:
        """Refuse a variant that computes something else; the first is meant where none is given."""
        value = self.data.get(name, allowed[0])
        if value not in allowed:
            raise self.wrong(name, value, f"{allowed[0]!r}")

    def wrong(self, name: str, value: Any, allowed: str) -> InputError:
        """What to raise."""
        return InputError(
            f"{self.folder / CONFIG}: {name}={value!r} cannot be read; it must be {allowed}."
        )


@dataclass(frozen=True)
class Family:
    """How one kind of checkpoint is read.

    Names in ``pairs`` are those of the bare layers; ``prefix`` stands before them where there is a
    head, whose own names are written with a slash in front.
    """

    config: Config
    prefix: ClassVar[str] = ""

    def architecture(self, shapes: Shapes) -> Architecture:
        """What config.json describes, with the head that the weights have."""
        raise NotImplementedError

    def pairs(self, model: Model) -> Pairs:
        """Where every tensor of a model comes from."""
        raise NotImplementedError

    def framed(
        self, pair: tuple[Residual, Residual], backbone: Backbone, length: str, head: Head
    ) -> Architecture:
        """Layers in a row within a frame."""
        frame = Frame(self.config.size("vocab_size"), self.config.size(length), head)
        return Architecture(Stack(pair * self.layers), backbone, frame=frame).check()

    @property
    def layers(self) -> int:
        """Attention and feed-forward count as one."""
        name = "n_layer" if "n_layer" in self.config.data else "num_hidden_layers"
        return self.config.size(name, most="layers")

    def heads(self, width: str, heads: str) -> tuple[int, int]:
        """Width and heads, if they go together."""
        found = self.config.size(width), self.config.size(heads)
        if found[0] % found[1]:
            raise self.config.wrong(heads, found[1], f"a divisor of the width {found[0]}")
        return found

    def causal(self, shapes: Mapping[str, Any], *, tied: bool) -> Head:
        """Scores for the next symbol, where the checkpoint has them."""
        module = self.config.module
        scores = module.endswith(("LMHeadModel", "ForCausalLM")) if module else tied
        return LanguageModel() if scores or "lm_head.weight" in shapes else Features()


class _Bert(Family):
    """``BertModel`` and the heads of masked symbols, classes, tags and spans."""

    prefix = "bert."

    def architecture(self, shapes: Shapes) -> Architecture:
        config = self.config
        config.only("position_embedding_type", "absolute")
        config.only("is_decoder", False)
        config.only("add_cross_attention", False)
        config.only("pruned_heads", {}, None)
        width, heads = self.heads("hidden_size", "num_attention_heads")
        inner = config.size("intermediate_size")
        norm = LayerNorm(config.number("layer_norm_eps", 1e-12))
        feed = FeedForward(inner, config.activation("hidden_act", "gelu"))
        head = self._head(shapes, width, norm.eps, feed.activation)
        backbone = style("bert", width).backbone
        embedding = backbone.embedding.replace(
            segments=config.size("type_vocab_size", 2),
            norm=norm,
            tied=config.flag("tie_word_embeddings", True) or not isinstance(head, MaskedLM),
        )
        branch = Residual(Attention(heads), place="post", norm=norm)
        pair = (branch, branch.replace(inner=feed))
        return self.framed(
            pair, backbone.replace(embedding=embedding), "max_position_embeddings", head
        )

    def _head(self, shapes: Shapes, width: int, eps: float, activation: str) -> Head:
        module, pooler = self.config.module, any("pooler.dense.weight" in n for n in shapes)
        if "cls.predictions.transform.dense.weight" in shapes:
            if (eps, activation) != (1e-12, "gelu"):
                raise InputError(
                    f"{self.config.folder}: the masked language model's head has {activation} and "
                    f"norms of eps {eps:g}; only gelu and 1e-12 can be read."
                )
            return MaskedLM()
        if "qa_outputs.weight" in shapes:
            return Span()
        if "classifier.weight" in shapes:
            answers = shapes["classifier.weight"][0]
            if module.endswith("ForTokenClassification"):
                return Tag(answers)
            if module.endswith("ForSequenceClassification") and pooler:
                return Classify(answers, "first", (width,), "tanh")
        return Features(pooler)

    def pairs(self, model: Model) -> Pairs:
        yield "embedding.tables.0", "embeddings.word_embeddings.weight", _same
        yield "embedding.segments", "embeddings.token_type_embeddings.weight", _same
        yield "absolute.weight", "embeddings.position_embeddings.weight", _same
        yield from _linear("embedding.norm", "embeddings.LayerNorm")
        for i in range(self.layers):
            s, f = (f"stacks.layers.layers.{2 * i + part}" for part in (0, 1))
            layer = f"encoder.layer.{i}"
            for name in ("query", "key", "value"):
                yield from _linear(f"{s}.inner.{name}", f"{layer}.attention.self.{name}")
            yield from _linear(f"{s}.inner.out", f"{layer}.attention.output.dense")
            yield from _linear(f"{s}.norm", f"{layer}.attention.output.LayerNorm")
            yield from _linear(f"{f}.inner.up", f"{layer}.intermediate.dense")
            yield from _linear(f"{f}.inner.down", f"{layer}.output.dense")
            yield from _linear(f"{f}.norm", f"{layer}.output.LayerNorm")
        yield from self._head_pairs(model)

    def _head_pairs(self, model: Model) -> Pairs:
        head = model.frame.head
        if isinstance(head, Features) and head.pooler:
            yield from _linear("head.pooler", "pooler.dense")
        elif isinstance(head, Classify):
            yield from _linear("head.maps.maps.0", "pooler.dense")
            yield from _linear("head.maps.maps.1", "/classifier")
        elif isinstance(head, Tag):
            yield from _linear("head.map", "/classifier")
        elif isinstance(head, Span):
            yield from _linear("head.map", "/qa_outputs")
        elif isinstance(head, MaskedLM):
            yield from _linear("head.dense", "/cls.predictions.transform.dense")
            yield from _linear("head.norm", "/cls.predictions.transform.LayerNorm")
            if model.arch.backbone.embedding.tied:
                yield "head.output.bias", "/cls.predictions.bias", _same
            else:  # which then is not the one that is used
                yield "head.output.bias", "/cls.predictions.decoder.bias", _same
                yield "head.output.tables.0", "/cls.predictions.decoder.weight", _same


class _Gpt2(Family):
    """``GPT2Model`` and ``GPT2LMHeadModel``."""

    prefix = "transformer."

    def architecture(self, shapes: Shapes) -> Architecture:
        config = self.config
        config.only("scale_attn_weights", True)
        config.only("scale_attn_by_inverse_layer_idx", False)
        config.only("add_cross_attention", False)
        width, heads = self.heads("n_embd", "n_head")
        norm = LayerNorm(config.number("layer_norm_epsilon", 1e-5))
        feed = FeedForward(
            config.size("n_inner", 4 * width), config.activation("activation_function", "gelu_new")
        )
        tied = config.flag("tie_word_embeddings", True)
        head = self.causal(shapes, tied=tied)
        backbone = style("gpt2", width).backbone
        embedding = backbone.embedding.replace(tied=tied or isinstance(head, Features))
        pair = (Residual(Attention(heads), norm=norm), Residual(feed, norm=norm))
        return self.framed(
            pair, backbone.replace(embedding=embedding, norm=norm), "n_positions", head
        )

    def pairs(self, model: Model) -> Pairs:
        yield "embedding.tables.0", "wte.weight", _same
        yield "absolute.weight", "wpe.weight", _same
        yield from _linear("norms.layers", "ln_f")
        for i in range(self.layers):
            s, f = (f"stacks.layers.layers.{2 * i + part}" for part in (0, 1))
            yield from _linear(f"{s}.norm", f"h.{i}.ln_1")
            yield from _linear(f"{f}.norm", f"h.{i}.ln_2")
            for third, name in enumerate(("query", "key", "value")):
                yield f"{s}.inner.{name}.weight", f"h.{i}.attn.c_attn.weight", _third(third)
                yield f"{s}.inner.{name}.bias", f"h.{i}.attn.c_attn.bias", _third(third)
            for ours, theirs in (
                (f"{s}.inner.out", f"h.{i}.attn.c_proj"),
                (f"{f}.inner.up", f"h.{i}.mlp.c_fc"),
                (f"{f}.inner.down", f"h.{i}.mlp.c_proj"),
            ):
                yield f"{ours}.weight", f"{theirs}.weight", _turned
                yield f"{ours}.bias", f"{theirs}.bias", _same
        if not model.arch.backbone.embedding.tied:
            yield "head.output.tables.0", "/lm_head.weight", _same


class _Llama(Family):
    """``LlamaModel`` and ``LlamaForCausalLM``, with keys shared by heads or not."""

    prefix = "model."

    def architecture(self, shapes: Shapes) -> Architecture:
        config = self.config
        config.only("pretraining_tp", 1)
        width, heads = config.size("hidden_size"), config.size("num_attention_heads")
        shared = config.size("num_key_value_heads", heads)
        each = config.size("head_dim", max(1, width // heads))
        attention = Attention(
            heads,
            kv_heads=shared if shared != heads else None,
            key=each if each * heads != width else None,
            bias=config.flag("attention_bias", False),
        )
        feed = FeedForward(
            config.size("intermediate_size"),
            config.activation("hidden_act", "silu"),
            gate=True,
            bias=config.flag("mlp_bias", False),
        )
        norm = RMSNorm(config.number("rms_norm_eps", 1e-6))
        tied = config.flag("tie_word_embeddings", False)
        head = self.causal(shapes, tied=tied)
        backbone = style("llama", width).backbone
        backbone = backbone.replace(
            embedding=backbone.embedding.replace(tied=tied or isinstance(head, Features)),
            position=Rotary(self._base()),
            norm=norm,
        )
        pair = (Residual(attention, norm=norm), Residual(feed, norm=norm))
        return self.framed(pair, backbone, "max_position_embeddings", head)

    def _base(self) -> float:
        """Of the angles, by its old or its new name."""
        config = self.config
        for name in ("rope_parameters", "rope_scaling"):
            turned = config.data.get(name) or {}
            kind = turned.get("rope_type", turned.get("type")) if isinstance(turned, dict) else ""
            if kind not in (None, "default"):
                raise config.wrong(name, turned, "plain angles, rope_type 'default'")
        found = config.data.get("rope_parameters") or {}
        usual = found.get("rope_theta", 10_000.0)
        return config.number("rope_theta", usual)

    def pairs(self, model: Model) -> Pairs:
        yield "embedding.tables.0", "embed_tokens.weight", _same
        yield "norms.layers.weight", "norm.weight", _same
        own = model.state_dict()
        for i in range(self.layers):
            s, f = (f"stacks.layers.layers.{2 * i + part}" for part in (0, 1))
            names = {
                f"{s}.norm": "input_layernorm",
                f"{f}.norm": "post_attention_layernorm",
                f"{s}.inner.query": "self_attn.q_proj",
                f"{s}.inner.key": "self_attn.k_proj",
                f"{s}.inner.value": "self_attn.v_proj",
                f"{s}.inner.out": "self_attn.o_proj",
                f"{f}.inner.gate": "mlp.gate_proj",
                f"{f}.inner.up": "mlp.up_proj",
                f"{f}.inner.down": "mlp.down_proj",
            }
            for ours, theirs in names.items():
                for pair in _linear(ours, f"layers.{i}.{theirs}"):
                    if pair[0] in own:  # biases are an option
                        yield pair
        if not model.arch.backbone.embedding.tied:
            yield "head.output.tables.0", "/lm_head.weight", _same


def _linear(ours: str, theirs: str) -> Pairs:
    for what in ("weight", "bias"):
        yield f"{ours}.{what}", f"{theirs}.{what}", _same


def _same(tensor: Tensor) -> Tensor:
    return tensor


def _turned(tensor: Tensor) -> Tensor:
    """GPT-2 stores matrices transposed."""
    return tensor.transpose(0, -1)


def _third(number: int) -> Form:
    """Queries, keys and values of GPT-2 are one tensor."""
    return lambda tensor: tensor.transpose(0, -1).chunk(3)[number]


FAMILIES: Mapping[str, type[Family]] = {"bert": _Bert, "gpt2": _Gpt2, "llama": _Llama}


def family_of(config: Config) -> Family:
    """Who can read a checkpoint."""
    if config.kind not in FAMILIES:
        raise InputError(
            f"{config.folder / CONFIG}: models of the type {config.kind!r} cannot be read; "
            f"{', '.join(FAMILIES)} can."
        )
    return FAMILIES[config.kind](config)
