"""Encoder-decoders: T5 and Marian."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any, ClassVar

from formwright.arch import Architecture, Attention, FeedForward, Frame, LayerNorm, Residual
from formwright.arch.architecture import Seq2Seq
from formwright.arch.frame import Embedding, Features, Head, LanguageModel
from formwright.arch.layer import Identity, RMSNorm, Stack
from formwright.arch.position import Sinusoid, T5Buckets
from formwright.errors import InputError
from formwright.model.families.base import (
    CAUSAL,
    Family,
    Shapes,
    Sizes,
    Usual,
    Words,
    depth,
    first,
    pairs,
)
from formwright.model.families.config import THEIRS
from formwright.model.families.form import FLAT, SAME, Row, layered, row, times


class _Translator(Family):
    """An encoder and a decoder."""

    backbone = Seq2Seq

    def translating(self) -> Head:
        """Scores of the next symbol, where the class has them; other classes are refused."""
        module = self.config.module
        ends: dict[str, Head] = {self.exits[0].module: LanguageModel(), "Model": Features()}
        for end, head in ends.items():
            if module in ("", self.stem + end):
                return head
        raise InputError(
            f"{self.config.folder}: of {self.kind} only {' and '.join(self.stem + e for e in ends)}"
            f" can be read, not {module}."
        )


class T5(_Translator):
    """``T5Model`` and ``T5ForConditionalGeneration``.

    Their scores are not divided by the root of the key size, so queries are multiplied by it; where
    they scale what the output layer reads, that is folded into the last norm.
    """

    kind, stem = "t5", "T5"
    words = Words(
        width="d_model",
        heads="num_heads",
        inner="d_ff",
        layers="num_layers",
        length="n_positions",
        eps="layer_norm_epsilon",
        activation=None,
    )
    usual = Usual(eps=1e-06, length=512)
    exits = (replace(CAUSAL, module="ForConditionalGeneration"),)
    scales: ClassVar[bool] = True
    surplus = ("embed_tokens.weight", "EncDecAttention.relative_attention_bias.weight")

    def architecture(self, shapes: Shapes) -> Architecture:
        config, head = self.config, self.translating()
        sizes, gate = self.sizes(), self._function.startswith("gated-")
        each = config.size("d_kv", 64)
        attention = Attention(
            sizes.heads, key=each if each * sizes.heads != sizes.width else None, bias=False
        )
        feed = FeedForward(sizes.inner, sizes.activation, gate=gate, bias=False)
        own = isinstance(head, LanguageModel) and CAUSAL.sign in shapes and not self._scaled
        backbone = Seq2Seq(
            sizes.width,
            Embedding(tied=not own),
            T5Buckets(
                config.size("relative_attention_num_buckets", 32),
                config.size("relative_attention_max_distance", 128),
            ),
            RMSNorm(sizes.eps),
            init="t5",
        )
        like = Residual(Identity(), norm=RMSNorm(sizes.eps))
        writing = config.size("num_decoder_layers", sizes.layers, most="layers")
        return translator(
            pairs(attention, feed, like) * sizes.layers,
            _with_source(attention, feed, like) * writing,
            backbone,
            Frame(config.size("vocab_size"), sizes.length, head),
        )

    @property
    def _function(self) -> str:
        return str(self.config.data.get("feed_forward_proj", "relu"))

    def activation(self) -> Any:
        """With a gate, gelu means its approximation."""
        said = self._function
        plain = "gelu_new" if said == "gated-gelu" else said.removeprefix("gated-")
        return self.config.function("feed_forward_proj", plain)

    @property
    def _scaled(self) -> bool:
        """Whether the output layer reads smaller vectors; once that meant a tied one."""
        tied = self.config.flag("tie_word_embeddings", True)
        return self.scales and self.config.flag("scale_decoder_outputs", tied)

    def body(self, arch: Architecture) -> Iterable[Row]:
        found = first(arch)
        assert found is not None
        assert arch.encoder is not None
        assert arch.frame is not None
        queries = times(found[0].key_size(arch.backbone.width) ** 0.5)
        smaller = self._scaled and isinstance(arch.frame.head, LanguageModel)
        last = times(arch.backbone.width**-0.5) if smaller else SAME
        near = "block.0.layer.0.SelfAttention.relative_attention_bias.weight"
        yield row("embedding.tables.0", "shared.weight")
        yield row("positions.encoder.weight", f"encoder.{near}")
        yield row("positions.decoder.weight", f"decoder.{near}")
        yield row("norms.encoder", "encoder.final_layer_norm")
        yield row("norms.decoder", "decoder.final_layer_norm", last)
        reading = [
            *_t5_attention("{s}", "encoder.block.{i}.layer.0", "SelfAttention", queries),
            *_t5_feed("encoder.block.{i}.layer.1", gate=found[1].gate),
        ]
        writing = [
            *_t5_attention("{s}", "decoder.block.{i}.layer.0", "SelfAttention", queries),
            *_t5_attention("{m}", "decoder.block.{i}.layer.1", "EncDecAttention", queries),
            *_t5_feed("decoder.block.{i}.layer.2", gate=found[1].gate),
        ]
        yield from layered(reading, depth(arch.encoder), "encoder")
        yield from layered(writing, depth(arch.layers), "decoder", "smf")

    @classmethod
    def options(cls, arch: Architecture) -> dict[str, Any]:
        found, position = first(arch), arch.backbone.position
        if found is None or not isinstance(position, T5Buckets):
            return {}
        attention, feed, _ = found
        name = THEIRS.get(feed.activation, "")
        if feed.gate:
            name = "gated-gelu" if feed.activation == "gelu_tanh" else f"gated-{name}"
        return {
            "d_kv": attention.key_size(arch.backbone.width),
            "feed_forward_proj": name,
            "num_decoder_layers": depth(arch.layers),
            "relative_attention_num_buckets": position.buckets,
            "relative_attention_max_distance": position.distance,
            "is_encoder_decoder": True,
            "pad_token_id": 0,
            "decoder_start_token_id": 0,
        }


class MT5(T5):
    """T5 for many languages, which never scales what the output layer reads."""

    kind, stem = "mt5", "MT5"
    scales = False


class Marian(_Translator):
    """``MarianModel`` and ``MarianMTModel``."""

    kind, stem, prefix = "marian", "Marian", "model."
    words = Words(
        width="d_model",
        heads="encoder_attention_heads",
        inner="encoder_ffn_dim",
        layers="encoder_layers",
        eps=None,
        activation="activation_function",
    )
    usual = Usual(eps=1e-05, activation="gelu")
    exits = (
        replace(
            CAUSAL,
            module="MTModel",
            rows=(*CAUSAL.rows, row("head.output.bias", "/final_logits_bias", FLAT)),
        ),
    )
    surplus = ("embed_tokens.weight", "embed_positions.weight")

    def architecture(self, shapes: Shapes) -> Architecture:
        config, head, sizes = self.config, self.translating(), self.even(self.sizes())
        vocab = config.size("vocab_size")
        config.only("share_encoder_decoder_embeddings", True)
        config.only("decoder_vocab_size", vocab, None)
        for name in ("normalize_before", "normalize_embedding", "add_final_layer_norm"):
            config.only(name, False)
        like = Residual(Identity(), place="post", norm=LayerNorm(sizes.eps))
        there = replace(
            sizes,
            heads=config.size("decoder_attention_heads", sizes.heads),
            inner=config.size("decoder_ffn_dim", sizes.inner),
            layers=config.size("decoder_layers", sizes.layers, most="layers"),
        )
        backbone = Seq2Seq(
            sizes.width,
            Embedding(
                tied=config.flag("tie_word_embeddings", True) or isinstance(head, Features),
                bias=True,
                scale=config.flag("scale_embedding", False),
            ),
            Sinusoid(),
            None,
            init="fan",
        )
        return translator(
            pairs(*_plain(sizes), like) * sizes.layers,
            _with_source(*_plain(there), like) * there.layers,
            backbone,
            Frame(vocab, sizes.length, head),
        )

    def body(self, arch: Architecture) -> Iterable[Row]:
        assert arch.encoder is not None
        yield row("embedding.tables.0", "shared.weight")
        reading = [
            *_marian_attention("{s}", "encoder.layers.{i}.self_attn"),
            *_marian_feed("encoder.layers.{i}"),
        ]
        writing = [
            *_marian_attention("{s}", "decoder.layers.{i}.self_attn"),
            *_marian_attention("{m}", "decoder.layers.{i}.encoder_attn"),
            *_marian_feed("decoder.layers.{i}"),
        ]
        yield from layered(reading, depth(arch.encoder), "encoder")
        yield from layered(writing, depth(arch.layers), "decoder", "smf")

    @classmethod
    def sketch(cls, arch: Architecture) -> dict[str, Any] | None:
        """Without a head their class wants its waves stored, which are not kept here."""
        scores = arch.frame is not None and isinstance(arch.frame.head, LanguageModel)
        return super().sketch(arch) if scores else None

    @classmethod
    def options(cls, arch: Architecture) -> dict[str, Any]:
        found = first(arch.replace(encoder=None))
        if found is None or arch.frame is None:
            return {}
        return {
            "decoder_attention_heads": found[0].heads,
            "decoder_ffn_dim": found[1].inner,
            "decoder_layers": depth(arch.layers),
            "decoder_vocab_size": arch.frame.vocab,
            "scale_embedding": arch.backbone.embedding.scale,
            "is_encoder_decoder": True,
            "pad_token_id": arch.frame.vocab - 1,
            "decoder_start_token_id": arch.frame.vocab - 1,
        }


def translator(
    encoder: tuple[Residual, ...], decoder: tuple[Residual, ...], backbone: Seq2Seq, frame: Frame
) -> Architecture:
    """Both stacks in their frame."""
    return Architecture(Stack(decoder), backbone, Stack(encoder), frame).check()


def _plain(sizes: Sizes) -> tuple[Attention, FeedForward]:
    return Attention(sizes.heads), FeedForward(sizes.inner, sizes.activation)


def _with_source(
    attention: Attention, feed: FeedForward, like: Residual
) -> tuple[Residual, Residual, Residual]:
    """One layer of a decoder that looks at the encoder's output."""
    reading, forward = pairs(attention, feed, like)
    return reading, like.replace(inner=attention.replace(over="source")), forward


def _t5_attention(ours: str, theirs: str, name: str, queries: Any) -> list[Row]:
    return [
        row(f"{ours}.norm", f"{theirs}.layer_norm"),
        row(f"{ours}.inner.query", f"{theirs}.{name}.q", queries),
        row(f"{ours}.inner.key", f"{theirs}.{name}.k"),
        row(f"{ours}.inner.value", f"{theirs}.{name}.v"),
        row(f"{ours}.inner.out", f"{theirs}.{name}.o"),
    ]


def _t5_feed(theirs: str, *, gate: bool) -> list[Row]:
    return [
        row("{f}.norm", f"{theirs}.layer_norm"),
        row("{f}.inner.gate", f"{theirs}.DenseReluDense.wi_0"),
        row("{f}.inner.up", f"{theirs}.DenseReluDense.{'wi_1' if gate else 'wi'}"),
        row("{f}.inner.down", f"{theirs}.DenseReluDense.wo"),
    ]


def _marian_attention(ours: str, theirs: str) -> list[Row]:
    return [
        row(f"{ours}.norm", f"{theirs}_layer_norm"),
        row(f"{ours}.inner.query", f"{theirs}.q_proj"),
        row(f"{ours}.inner.key", f"{theirs}.k_proj"),
        row(f"{ours}.inner.value", f"{theirs}.v_proj"),
        row(f"{ours}.inner.out", f"{theirs}.out_proj"),
    ]


def _marian_feed(theirs: str) -> list[Row]:
    return [
        row("{f}.norm", f"{theirs}.final_layer_norm"),
        row("{f}.inner.up", f"{theirs}.fc1"),
        row("{f}.inner.down", f"{theirs}.fc2"),
    ]
