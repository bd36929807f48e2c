"""How a model in Hugging Face's format reads texts: its own tokeniser, its own labels."""

from pathlib import Path

from formwright.arch import Classify, Decoder, Features, Head, LanguageModel, MaskedLM, Span, Tag
from formwright.errors import InputError
from formwright.model import Model
from formwright.model.beside import labels_of, pooling_of
from formwright.tasks.reading import Kind, Reading
from formwright.tasks.text import make_tokenizer

_KINDS: tuple[tuple[type[Head], Kind], ...] = (
    (Classify, "classify"),
    (Tag, "tag"),
    (Span, "span"),
    (MaskedLM, "mlm"),
    (Features, "vectors"),
)
_SPECIALS: dict[Kind, tuple[str, ...]] = {
    "lm": ("end",),
    "translate": ("pad", "begin", "end"),
    "mlm": ("pad", "mask"),
    "span": ("pad", "separate"),
}


def foreign_reading(folder: Path, model: Model) -> Reading:
    """How the model in a folder of Hugging Face's format reads texts."""
    kind = _kind(model)
    tokenizer = make_tokenizer(str(folder), (), _SPECIALS.get(kind, ("pad",)))
    if tokenizer.vocab > model.frame.vocab:
        raise InputError(
            f"{folder}: the tokenizer has {tokenizer.vocab:,} symbols and the model knows "
            f"{model.frame.vocab:,}; one of the two belongs to another model."
        )
    pooling = pooling_of(folder)
    return Reading(
        kind,
        tokenizer,
        model.frame.length,
        tuple(labels_of(folder)) if kind in ("classify", "tag") else (),
        pair=kind == "span",
        pool="mean" if pooling is None else pooling.how,
        normalise=pooling is not None and pooling.normalise,
    )


def _kind(model: Model) -> Kind:
    head = model.frame.head
    if isinstance(head, LanguageModel):
        return "lm" if isinstance(model.arch.backbone, Decoder) else "translate"
    return next(kind for what, kind in _KINDS if isinstance(head, what))
