"""Decoders: GPT-2, OPT, GPT-NeoX, and Llama with those who are made like it."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any, ClassVar

from formwright.arch import Architecture, Attention, FeedForward, LayerNorm, Residual, style
from formwright.arch.architecture import Decoder
from formwright.arch.layer import Identity, Parallel, RMSNorm, Stack
from formwright.arch.mechanism import Longformer, Softmax
from formwright.arch.position import Rotary
from formwright.errors import InputError
from formwright.model.families.base import (
    CAUSAL,
    LAST,
    Family,
    Shapes,
    Sizes,
    Usual,
    Words,
    depth,
    first,
    pairs,
    tags,
)
from formwright.model.families.encoders import SPAN
from formwright.model.families.form import (
    SAME,
    THIRDS,
    TURNED,
    Form,
    Row,
    behind,
    layered,
    plus,
    row,
    thirds_by_head,
)

_QUERY_KEY_VALUE = ("query", "key", "value")


def _of(part: str) -> tuple[str, ...]:
    """Queries, keys and values of an attention, where they are stored as one."""
    return tuple(f"{part}.{name}" for name in _QUERY_KEY_VALUE)


class _Decoder(Family):
    """A family that reads left to right."""

    backbone = Decoder


class Gpt2(_Decoder):
    """``GPT2Model`` and its heads."""

    kind, stem, prefix = "gpt2", "GPT2", "transformer."
    words = Words(
        width="n_embd",
        heads="n_head",
        inner="n_inner",
        layers="n_layer",
        length="n_positions",
        eps="layer_norm_epsilon",
        activation="activation_function",
    )
    usual = Usual(eps=1e-05, activation="gelu_new")
    exits = (replace(CAUSAL, module="LMHeadModel"), LAST, tags("classifier"), SPAN)

    def architecture(self, shapes: Shapes) -> Architecture:
        config = self.config
        config.only("scale_attn_weights", True)
        config.only("scale_attn_by_inverse_layer_idx", False)
        config.only("add_cross_attention", False)
        return plain_decoder(self, self.even(self.sizes()), shapes)

    def body(self, arch: Architecture) -> Iterable[Row]:
        yield row("embedding.tables.0", "wte.weight")
        yield row("absolute.weight", "wpe.weight")
        yield row("norms.layers", "ln_f")
        layer = (
            row("{s}.norm", "h.{i}.ln_1"),
            row("{f}.norm", "h.{i}.ln_2"),
            row(_of("{s}.inner"), "h.{i}.attn.c_attn", THIRDS),
            row("{s}.inner.out", "h.{i}.attn.c_proj", TURNED),
            row("{f}.inner.up", "h.{i}.mlp.c_fc", TURNED),
            row("{f}.inner.down", "h.{i}.mlp.c_proj", TURNED),
        )
        yield from layered(layer, depth(arch.layers))


class Opt(_Decoder):
    """``OPTModel`` and its heads: GPT-2 by other names, positions from the third row on."""

    kind, stem, prefix = "opt", "OPT", "model."
    words = Words(
        inner="ffn_dim",
        eps=None,
        activation="activation_function",
    )
    usual = Usual(eps=1e-05, activation="relu")
    exits = (CAUSAL, LAST, SPAN)

    def architecture(self, shapes: Shapes) -> Architecture:
        config, sizes = self.config, self.even(self.sizes())
        if config.size("word_embed_proj_dim", sizes.width) != sizes.width:
            raise InputError(
                f"{config.folder}: project_in and project_out of OPT, maps between an embedding of "
                f"{config.data['word_embed_proj_dim']} and layers of {sizes.width} without a bias, "
                "cannot be read."
            )
        config.only("do_layer_norm_before", True)
        config.only("_remove_final_layer_norm", False)
        config.only("enable_bias", True)
        config.only("layer_norm_elementwise_affine", True)
        return plain_decoder(self, sizes, shapes)

    def body(self, arch: Architecture) -> Iterable[Row]:
        yield row("embedding.tables.0", "decoder.embed_tokens.weight")
        yield row("absolute.weight", "decoder.embed_positions.weight", behind(2))
        yield row("norms.layers", "decoder.final_layer_norm")
        layer = (
            row("{s}.norm", "decoder.layers.{i}.self_attn_layer_norm"),
            row("{f}.norm", "decoder.layers.{i}.final_layer_norm"),
            row("{s}.inner.query", "decoder.layers.{i}.self_attn.q_proj"),
            row("{s}.inner.key", "decoder.layers.{i}.self_attn.k_proj"),
            row("{s}.inner.value", "decoder.layers.{i}.self_attn.v_proj"),
            row("{s}.inner.out", "decoder.layers.{i}.self_attn.out_proj"),
            row("{f}.inner.up", "decoder.layers.{i}.fc1"),
            row("{f}.inner.down", "decoder.layers.{i}.fc2"),
        )
        yield from layered(layer, depth(arch.layers))


def plain_decoder(family: Family, sizes: Sizes, shapes: Shapes) -> Architecture:
    """Learned positions and a norm before each branch, as GPT-2 has them."""
    norm = LayerNorm(sizes.eps)
    tied = family.config.flag("tie_word_embeddings", True)
    head = family.next_symbol(shapes, sizes, tied=tied)
    backbone = style("gpt2", sizes.width).backbone
    embedding = backbone.embedding.replace(tied=tied or not isinstance(head, CAUSAL.kind))
    layer = pairs(
        Attention(sizes.heads),
        FeedForward(sizes.inner, sizes.activation),
        Residual(Identity(), norm=norm),
    )
    backbone = backbone.replace(embedding=embedding, norm=norm)
    return family.framed(layer * sizes.layers, backbone, sizes, head)


class GptNeoX(_Decoder):
    """``GPTNeoXModel`` and its heads: attention and feed-forward read the same stream.

    Only some channels of each head are turned by their position.
    """

    kind, stem, prefix = "gpt_neox", "GPTNeoX", "gpt_neox."
    words = Words()
    usual = Usual(eps=1e-05, activation="gelu")
    exits = (
        replace(
            CAUSAL,
            sign="embed_out.weight",
            rows=(row("head.output.tables.0", "/embed_out.weight", untied=True),),
        ),
        LAST,
        tags("classifier"),
        SPAN,
    )

    def architecture(self, shapes: Shapes) -> Architecture:
        config, sizes = self.config, self.even(self.sizes())
        config.only("use_parallel_residual", True)
        norm = LayerNorm(sizes.eps)
        attention = Attention(sizes.heads, bias=config.flag("attention_bias", True))
        feed = FeedForward(sizes.inner, sizes.activation)
        both = Parallel((Stack((norm, attention)), Stack((norm, feed))))
        tied = config.flag("tie_word_embeddings", False)
        head = self.next_symbol(shapes, sizes, tied=tied)
        backbone = style("llama", sizes.width).backbone
        backbone = backbone.replace(
            embedding=backbone.embedding.replace(tied=tied or not isinstance(head, CAUSAL.kind)),
            position=self._turned(sizes.width // sizes.heads),
            norm=norm,
        )
        layers = (Residual(both, norm=None),) * sizes.layers
        return self.framed(layers, backbone, sizes, head)

    def _turned(self, key: int) -> Rotary:
        said = self.config.turning()
        base = said.get("rope_theta", said.get("rotary_emb_base", 10_000.0))
        share = said.get("partial_rotary_factor", said.get("rotary_pct", 0.25))
        if not isinstance(share, int | float) or not 0 < int(share * key) <= key:
            raise self.config.wrong("rotary_pct", share, "a share of the channels of a head")
        channels = int(share * key)
        return Rotary(float(base), None if channels == key else channels)

    def body(self, arch: Architecture) -> Iterable[Row]:
        found = first(arch)
        assert found is not None
        branch = "{p}.inner.branches"
        fused = thirds_by_head(found[0].heads)
        layer = (
            row(branch + ".0.layers.0", "layers.{i}.input_layernorm"),
            row(branch + ".1.layers.0", "layers.{i}.post_attention_layernorm"),
            row(_of(branch + ".0.layers.1"), "layers.{i}.attention.query_key_value", fused),
            row(branch + ".0.layers.1.out", "layers.{i}.attention.dense"),
            row(branch + ".1.layers.1.up", "layers.{i}.mlp.dense_h_to_4h"),
            row(branch + ".1.layers.1.down", "layers.{i}.mlp.dense_4h_to_h"),
        )
        yield row("embedding.tables.0", "embed_in.weight")
        yield row("norms.layers", "final_layer_norm")
        yield from layered(layer, depth(arch.layers), parts="p")

    @classmethod
    def options(cls, arch: Architecture) -> dict[str, Any]:
        found, position = first(arch), arch.backbone.position
        if found is None or not isinstance(position, Rotary):
            return {}
        key = found[0].key_size(arch.backbone.width)
        share = (position.channels or key) / key
        turned = {**_rope(position.base), "partial_rotary_factor": share}
        old = {"rotary_emb_base": position.base, "rotary_pct": share}
        return {"rope_parameters": turned, "attention_bias": found[0].bias, **old}


# --- Llama and those who are made like it -----------------------------------------------------


class Llama(_Decoder):
    """``LlamaModel`` and its heads, with keys shared by heads or not."""

    kind, stem, prefix = "llama", "Llama", "model."
    words = Words(
        eps="rms_norm_eps",
    )
    usual = Usual(eps=1e-06, activation="silu")
    exits = (CAUSAL, LAST, tags("score"), replace(SPAN, prefix="transformer."))
    tied: ClassVar[bool] = False  # where config.json does not say it
    scaled: ClassVar[bool] = False  # whether embeddings are multiplied by the root of the width
    norms: ClassVar[Form] = SAME

    def architecture(self, shapes: Shapes) -> Architecture:
        config, sizes = self.config, self.sizes()
        config.only("pretraining_tp", 1)
        norm = RMSNorm(sizes.eps)
        feed = FeedForward(
            sizes.inner, sizes.activation, gate=True, bias=config.flag("mlp_bias", False)
        )
        tied = config.flag("tie_word_embeddings", self.tied)
        head = self.next_symbol(shapes, sizes, tied=tied)
        backbone = style("llama", sizes.width).backbone
        backbone = backbone.replace(
            embedding=backbone.embedding.replace(
                tied=tied or not isinstance(head, CAUSAL.kind), scale=self.scaled
            ),
            position=Rotary(self._base()),
            norm=norm,
        )
        like, attention = Residual(Identity(), norm=norm), self.attention(sizes)
        layers = [
            branch
            for window in self.windows(sizes)
            for branch in pairs(_within(attention, window, sizes.length), feed, like)
        ]
        return self.framed(layers, backbone, sizes, head)

    def attention(self, sizes: Sizes) -> Attention:
        """The attention of every layer."""
        config, heads = self.config, sizes.heads
        shared = config.size("num_key_value_heads", heads)
        each = config.size("head_dim", max(1, sizes.width // heads))
        return Attention(
            heads,
            kv_heads=shared if shared != heads else None,
            key=each if each * heads != sizes.width else None,
            bias=config.flag("attention_bias", False),
        )

    def windows(self, sizes: Sizes) -> list[int | None]:
        """How many tokens each layer sees, itself included; None where it sees all."""
        return [None] * sizes.layers

    def _base(self) -> float:
        base = self.config.turning().get("rope_theta", 10_000.0)
        if not isinstance(base, int | float) or not 0 < base < 1e12:
            raise self.config.wrong("rope_theta", base, "a number above 0")
        return float(base)

    def body(self, arch: Architecture) -> Iterable[Row]:
        yield row("embedding.tables.0", "embed_tokens.weight")
        yield row("norms.layers", "norm", self.norms)
        layer = (
            row("{s}.norm", "layers.{i}.input_layernorm", self.norms),
            row("{f}.norm", "layers.{i}.post_attention_layernorm", self.norms),
            row("{s}.inner.query", "layers.{i}.self_attn.q_proj"),
            row("{s}.inner.key", "layers.{i}.self_attn.k_proj"),
            row("{s}.inner.value", "layers.{i}.self_attn.v_proj"),
            row("{s}.inner.out", "layers.{i}.self_attn.o_proj"),
            row("{s}.inner.query_norm", "layers.{i}.self_attn.q_norm"),
            row("{s}.inner.key_norm", "layers.{i}.self_attn.k_norm"),
            row("{f}.inner.gate", "layers.{i}.mlp.gate_proj"),
            row("{f}.inner.up", "layers.{i}.mlp.up_proj"),
            row("{f}.inner.down", "layers.{i}.mlp.down_proj"),
        )
        yield from layered(layer, depth(arch.layers))

    @classmethod
    def options(cls, arch: Architecture) -> dict[str, Any]:
        found, position = first(arch), arch.backbone.position
        if found is None or not isinstance(position, Rotary):
            return {}
        attention, feed, _ = found
        return {
            "num_key_value_heads": attention.groups,
            "head_dim": attention.key_size(arch.backbone.width),
            "attention_bias": attention.bias,
            "mlp_bias": feed.bias,
            "rope_theta": position.base,
            "rope_parameters": _rope(position.base),
        }


class Mistral(Llama):
    """Llama whose layers see no further back than a window."""

    kind, stem = "mistral", "Mistral"
    exits = (CAUSAL, LAST, tags("score"), SPAN)

    def windows(self, sizes: Sizes) -> list[int | None]:
        window = self.config.data.get("sliding_window")
        seen = None if window is None else self.config.size("sliding_window")
        return [seen] * sizes.layers

    @classmethod
    def options(cls, arch: Architecture) -> dict[str, Any]:
        found = first(arch)
        kind = found[0].kind if found else None
        window = kind.window // 2 if isinstance(kind, Longformer) else None
        return {**super().options(arch), "sliding_window": window}


class Qwen2(Llama):
    """Llama with biases on queries, keys and values; some layers may have a window."""

    kind, stem = "qwen2", "Qwen2"

    def attention(self, sizes: Sizes) -> Attention:
        return super().attention(sizes).replace(bias=True, out_bias=False)

    def windows(self, sizes: Sizes) -> list[int | None]:
        config = self.config
        if not config.flag("use_sliding_window", False):
            return [None] * sizes.layers
        seen, from_layer = config.size("sliding_window", 4096), config.size("max_window_layers", 28)
        kinds = config.data.get("layer_types") or [
            "sliding_attention" if i >= from_layer else "full_attention"
            for i in range(sizes.layers)
        ]
        known = {"sliding_attention": seen, "full_attention": None}
        if len(kinds) != sizes.layers or not set(kinds) <= set(known):
            raise config.wrong("layer_types", kinds, f"one of {', '.join(known)} for each layer")
        return [known[kind] for kind in kinds]


class Qwen3(Qwen2):
    """Llama that norms the queries and keys of each head."""

    kind, stem = "qwen3", "Qwen3"

    def attention(self, sizes: Sizes) -> Attention:
        return Llama.attention(self, sizes).replace(head_norm=sizes.eps)


class Gemma(Llama):
    """Llama with a GELU gate, embeddings that are scaled, and norms stored without their 1."""

    kind, stem = "gemma", "Gemma"
    usual = Usual(eps=1e-06, activation="gelu_pytorch_tanh")
    tied, scaled, norms = True, True, plus(1.0)

    def architecture(self, shapes: Shapes) -> Architecture:
        self.config.only("use_bidirectional_attention", None, False)
        return super().architecture(shapes)

    def activation(self) -> Any:
        """Old files say gelu and mean its approximation, or say it by another name."""
        said = self.config.data.get("hidden_activation") or self.config.data.get("hidden_act")
        usual = self.usual.activation
        return self.config.function("hidden_act", usual if said in (None, "gelu") else said)


def _within(attention: Attention, window: int | None, length: int) -> Attention:
    """The same attention that sees ``window`` tokens back, itself included.

    A window of Longformer reaches as far to either side; in a decoder only one side counts.
    """
    if window is None or window >= length:
        return attention.replace(kind=Softmax())
    return attention.replace(kind=Longformer(2 * window))


def _rope(base: float) -> dict[str, Any]:
    return {"rope_type": "default", "rope_theta": base}
