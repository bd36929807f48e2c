"""Encoders whose norms stand behind the branches: BERT and its relatives."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from formwright.arch import Architecture, Attention, FeedForward, LayerNorm, Residual, style
from formwright.arch.architecture import Encoder
from formwright.arch.frame import Classify, Features, Head, MaskedLM, Span
from formwright.arch.layer import Identity
from formwright.model.families.base import (
    Exit,
    Family,
    Shapes,
    Sizes,
    Usual,
    Words,
    depth,
    pairs,
    tags,
)
from formwright.model.families.form import SAME, Form, Row, behind, layered, row


def _classes(module_rows: tuple[Row, ...], sign: str, activation: Any) -> Exit:
    """Classes from the first vector, through one map of the same width."""
    return Exit(
        "ForSequenceClassification",
        sign,
        lambda sizes, count: Classify(count, "first", (sizes.width,), activation),
        module_rows,
        Classify,
    )


def _masked(sign: str, rows: tuple[Row, ...], activation: Any = None, also: str = "") -> Exit:
    """Scores of hidden symbols; the activation is that of the layers where none is named."""

    def make(sizes: Sizes, count: int) -> Head | None:
        if count != sizes.width:  # a map to a smaller embedding
            return None
        return MaskedLM(activation=activation or sizes.activation, eps=sizes.eps)

    return Exit("ForMaskedLM", sign, make, rows, MaskedLM, also=also)


SPAN = Exit(
    "ForQuestionAnswering",
    "qa_outputs.weight",
    lambda sizes, count: Span(),
    (row("head.map", "/qa_outputs"),),
    Span,
)
_LAYER = (
    row("{s}.inner.query", "encoder.layer.{i}.attention.self.query"),
    row("{s}.inner.key", "encoder.layer.{i}.attention.self.key"),
    row("{s}.inner.value", "encoder.layer.{i}.attention.self.value"),
    row("{s}.inner.out", "encoder.layer.{i}.attention.output.dense"),
    row("{s}.norm", "encoder.layer.{i}.attention.output.LayerNorm"),
    row("{f}.inner.up", "encoder.layer.{i}.intermediate.dense"),
    row("{f}.inner.down", "encoder.layer.{i}.output.dense"),
    row("{f}.norm", "encoder.layer.{i}.output.LayerNorm"),
)


class Bert(Family):
    """``BertModel`` and the heads of masked symbols, classes, tags and spans."""

    kind, stem, prefix = "bert", "Bert", "bert."
    backbone = Encoder
    words = Words()
    usual = Usual(eps=1e-12, activation="gelu")
    layer = _LAYER
    exits = (
        _masked(
            "cls.predictions.transform.dense.weight",
            (
                row("head.dense", "/cls.predictions.transform.dense"),
                row("head.norm", "/cls.predictions.transform.LayerNorm"),
                row("head.output.bias", "/cls.predictions.bias"),
                # this one is used where the two differ
                row("head.output.bias", "/cls.predictions.decoder.bias", untied=True),
                row("head.output.tables.0", "/cls.predictions.decoder.weight", untied=True),
            ),
            also="ForPreTraining",
        ),
        _classes(
            (row("head.maps.maps.0", "pooler.dense"), row("head.maps.maps.1", "/classifier")),
            "classifier.weight",
            "tanh",
        ),
        tags("classifier"),
        SPAN,
    )

    def architecture(self, shapes: Shapes) -> Architecture:
        self.check()
        sizes = self.even(self.sizes())
        head = self.head(shapes, sizes)
        norm = LayerNorm(sizes.eps)
        backbone = style("bert", sizes.width).backbone
        embedding = backbone.embedding.replace(
            segments=self.segments(),
            size=self.embedded(sizes),
            norm=norm,
            tied=self.config.flag("tie_word_embeddings", True) or not isinstance(head, MaskedLM),
        )
        layer = pairs(
            Attention(sizes.heads),
            FeedForward(sizes.inner, sizes.activation),
            Residual(Identity(), place="post", norm=norm),
        )
        pooled = Features(any(name.endswith("pooler.dense.weight") for name in shapes))
        backbone = backbone.replace(embedding=embedding)
        return self.framed(layer * sizes.layers, backbone, sizes, head or pooled)

    def check(self) -> None:
        """Refuse what the layers here do not compute."""
        self.config.only("position_embedding_type", "absolute")
        self.config.only("is_decoder", False)
        self.config.only("add_cross_attention", False)
        self.config.only("pruned_heads", {}, None)

    def segments(self) -> int:
        """Kinds of tokens, of the first and of the second text."""
        return self.config.size("type_vocab_size", 2)

    def embedded(self, sizes: Sizes) -> int | None:
        """The size of the embedding, where it is not the width."""
        return None

    def positions(self) -> Form:
        """How the table of positions is stored."""
        return SAME

    def body(self, arch: Architecture) -> Iterable[Row]:
        yield row("embedding.tables.0", "embeddings.word_embeddings.weight")
        yield row("embedding.segments", "embeddings.token_type_embeddings.weight")
        yield row("absolute.weight", "embeddings.position_embeddings.weight", self.positions())
        yield row("embedding.norm", "embeddings.LayerNorm")
        yield row("embedding.projections.0", "embeddings_project")
        yield row("head.pooler", "pooler.dense")
        yield from layered(self.layer, depth(arch.layers))

    @classmethod
    def options(cls, arch: Architecture) -> dict[str, Any]:
        return {"type_vocab_size": arch.backbone.embedding.segments}


class Roberta(Bert):
    """RoBERTa and XLM-R: BERT whose positions begin behind the number of the padding."""

    kind, stem, prefix = "roberta", "Roberta", "roberta."
    usual = Usual(eps=1e-05, activation="gelu")
    exits = (
        _masked(
            "lm_head.dense.weight",
            (
                row("head.dense", "/lm_head.dense"),
                row("head.norm", "/lm_head.layer_norm"),
                row("head.output.bias", "/lm_head.bias"),
                row("head.output.bias", "/lm_head.decoder.bias", untied=True),
                row("head.output.tables.0", "/lm_head.decoder.weight", untied=True),
            ),
            "gelu",
        ),
        _classes(
            (
                row("head.maps.maps.0", "/classifier.dense"),
                row("head.maps.maps.1", "/classifier.out_proj"),
            ),
            "classifier.out_proj.weight",
            "tanh",
        ),
        tags("classifier"),
        SPAN,
    )

    def sizes(self) -> Sizes:
        found = super().sizes()
        if found.length <= self._begin:
            raise self.config.wrong(
                self.words.length, found.length, f"more than the {self._begin} first positions"
            )
        return replace(found, length=found.length - self._begin)

    def positions(self) -> Form:
        return behind(self._begin)

    @property
    def _begin(self) -> int:
        padding = self.config.data.get("pad_token_id", 1)
        if not isinstance(padding, int) or not 0 <= padding < 10_000_000:
            raise self.config.wrong("pad_token_id", padding, "the number of a symbol")
        return padding + 1


class DistilBert(Bert):
    """``DistilBertModel``: BERT without segments and pooler."""

    kind, stem, prefix = "distilbert", "DistilBert", "distilbert."
    words = Words(
        width="dim",
        heads="n_heads",
        inner="hidden_dim",
        layers="n_layers",
        eps=None,
        activation="activation",
    )
    layer = (
        row("{s}.inner.query", "transformer.layer.{i}.attention.q_lin"),
        row("{s}.inner.key", "transformer.layer.{i}.attention.k_lin"),
        row("{s}.inner.value", "transformer.layer.{i}.attention.v_lin"),
        row("{s}.inner.out", "transformer.layer.{i}.attention.out_lin"),
        row("{s}.norm", "transformer.layer.{i}.sa_layer_norm"),
        row("{f}.inner.up", "transformer.layer.{i}.ffn.lin1"),
        row("{f}.inner.down", "transformer.layer.{i}.ffn.lin2"),
        row("{f}.norm", "transformer.layer.{i}.output_layer_norm"),
    )
    exits = (
        _masked(
            "vocab_transform.weight",
            (
                row("head.dense", "/vocab_transform"),
                row("head.norm", "/vocab_layer_norm"),
                row("head.output.bias", "/vocab_projector.bias"),
                row("head.output.tables.0", "/vocab_projector.weight", untied=True),
            ),
        ),
        _classes(
            (row("head.maps.maps.0", "/pre_classifier"), row("head.maps.maps.1", "/classifier")),
            "classifier.weight",
            "relu",
        ),
        tags("classifier"),
        SPAN,
    )

    def segments(self) -> int:
        return 0

    @classmethod
    def options(cls, arch: Architecture) -> dict[str, Any]:
        return {}


class Electra(Bert):
    """``ElectraModel``, whose embedding may be smaller than its layers."""

    kind, stem, prefix = "electra", "Electra", "electra."
    exits = (
        _masked(
            "generator_predictions.dense.weight",
            (
                row("head.dense", "/generator_predictions.dense"),
                row("head.norm", "/generator_predictions.LayerNorm"),
                row("head.output.bias", "/generator_lm_head.bias"),
                row("head.output.tables.0", "/generator_lm_head.weight", untied=True),
            ),
            "gelu",
        ),
        _classes(
            (
                row("head.maps.maps.0", "/classifier.dense"),
                row("head.maps.maps.1", "/classifier.out_proj"),
            ),
            "classifier.out_proj.weight",
            "gelu",
        ),
        tags("classifier"),
        SPAN,
    )

    def embedded(self, sizes: Sizes) -> int | None:
        size = self.config.size("embedding_size", 128)
        return None if size == sizes.width else size

    @classmethod
    def options(cls, arch: Architecture) -> dict[str, Any]:
        embedding, width = arch.backbone.embedding, arch.backbone.width
        return {"type_vocab_size": embedding.segments, "embedding_size": embedding.stream(width)}
