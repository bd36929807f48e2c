"""Configuration and models: one class for each kind of head.

b batch, n token, v symbol
"""

import json
from pathlib import Path
from typing import Any, ClassVar

import torch
import torch.nn.functional as F
import transformers
from torch import Tensor, nn
from transformers import modeling_outputs as outputs
from transformers.generation import GenerationMixin

from formwright.arch import Architecture, Decoder, Seq2Seq, from_json, to_json
from formwright.arch.frame import (
    Classify,
    Head,
    LanguageModel,
    MaskedLM,
    Match,
    Span,
    Tag,
)
from formwright.errors import InputError
from formwright.model import Model, save_model
from formwright.model.init import initialise
from formwright.ops.base import Builder

KIND = "formwright"
_IGNORED = -100  # a label that is not scored


class FormwrightConfig(transformers.PretrainedConfig):
    """An architecture, the names of its answers, and dropout for further training."""

    model_type = KIND

    def __init__(
        self,
        architecture: dict[str, Any] | None = None,
        task: str | None = None,
        dropout: float = 0.0,
        attention_dropout: float = 0.0,
        **others: Any,
    ) -> None:
        self.architecture, self.task = architecture, task
        self.dropout, self.attention_dropout = dropout, attention_dropout
        if architecture is not None:
            arch = from_json(json.dumps(architecture))
            assert arch.frame is not None
            self.vocab_size, self.max_position_embeddings = arch.frame.vocab, arch.frame.length
            self.hidden_size, self.num_hidden_layers = arch.backbone.width, len(arch.layers.layers)
            self.is_decoder = isinstance(arch.backbone, Decoder)
            others["is_encoder_decoder"] = isinstance(arch.backbone, Seq2Seq)
        others.setdefault("use_cache", False)
        super().__init__(**others)

    @classmethod
    def of(cls, model: Model, labels: list[str], **others: Any) -> "FormwrightConfig":
        """The configuration of a model; its class is that of its head."""
        names = label_names(labels)
        if not labels and isinstance(model.frame.head, Classify | Match):
            names["num_labels"] = model.frame.head.classes
        architecture = json.loads(to_json(model.arch))
        made = cls(architecture=architecture, **names, **others)
        made.architectures = [class_of(model.arch).__name__]
        return made


def label_names(labels: list[str]) -> dict[str, Any]:
    """The names of answers as a configuration holds them."""
    if not labels:
        return {}
    return {
        "id2label": dict(enumerate(labels)),
        "label2id": {label: number for number, label in enumerate(labels)},
    }


# --- models -------------------------------------------------------------------------------------


class FormwrightPreTrainedModel(transformers.PreTrainedModel):
    """What the classes below share: ``model`` is formwright's own, and weights go by its names."""

    config_class = FormwrightConfig
    base_model_prefix = "model"
    accepts_loss_kwargs = False  # losses are means over what is scored in a batch
    heads: ClassVar[tuple[type[Head], ...]] = ()

    def __init__(self, config: FormwrightConfig) -> None:
        super().__init__(config)
        if config.architecture is None:
            raise InputError("A FormwrightConfig needs architecture=..., as its JSON.")
        arch = from_json(json.dumps(config.architecture))
        assert arch.frame is not None
        if not self.fits(arch):
            raise InputError(
                f"{type(self).__name__} cannot be made of a model with the head "
                f"{arch.frame.head.NAME}; use {class_of(arch).__name__}."
            )
        builder = Builder(dropout=config.dropout, attention_dropout=config.attention_dropout)
        self.model = Model(arch, builder)
        if not any(weight.is_meta for weight in self.model.parameters()):
            initialise(self.model)  # on the meta device weights are about to be loaded
            for weight in (*self.model.parameters(), *self.model.buffers()):
                weight._is_hf_initialized = True  # type: ignore[attr-defined]
        self.post_init()

    @classmethod
    def fits(cls, arch: Architecture) -> bool:
        """Whether models of that architecture are of this class."""
        assert arch.frame is not None
        two = issubclass(cls, FormwrightForSeq2SeqLM)
        return isinstance(arch.frame.head, cls.heads) and isinstance(arch.backbone, Seq2Seq) == two

    def _init_weights(self, module: nn.Module) -> None:
        """Called for what a folder lacks: a model of ours is whole or no model."""
        missing = [
            name
            for name, weight in module.named_parameters(recurse=False)
            if not getattr(weight, "_is_hf_initialized", False)
        ]
        if missing:
            raise InputError(
                f"The weights are not complete: {missing[0]} of a {type(module).__name__} is "
                "missing."
            )

    def get_input_embeddings(self) -> nn.Module:
        """The entrance of the model."""
        return self.model.embedding

    def save_pretrained(self, save_directory: Any, **options: Any) -> None:
        """Write the folder: config.json, and weights that formwright reads too."""
        folder = Path(save_directory)
        folder.mkdir(parents=True, exist_ok=True)
        state = options.get("state_dict")
        if state is not None:
            prefix = f"{self.base_model_prefix}."
            self.model.load_state_dict({k.removeprefix(prefix): v for k, v in state.items()})
        self.config.architectures = [type(self).__name__]
        self.config.dtype = self.dtype
        self.config.save_pretrained(folder)
        if self.can_generate() and self.generation_config is not None:
            self.generation_config.save_pretrained(folder)
        save_model(self.model, folder)

    def answer(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        token_type_ids: Tensor | None = None,
        **others: Tensor,
    ) -> Tensor:
        """The head's answer."""
        mask = None if attention_mask is None else attention_mask.bool()
        return self.model(input_ids, mask, segments=token_type_ids, **others)


class FormwrightModel(FormwrightPreTrainedModel):
    """Vectors of the tokens, whatever the head: (b, n, width)."""

    heads = (Head,)

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        token_type_ids: Tensor | None = None,
        return_dict: bool | None = None,
    ) -> Any:
        """The vectors after the last layer."""
        mask = None if attention_mask is None else attention_mask.bool()
        found, _ = self.model.features(input_ids, mask, segments=token_type_ids)
        found = found[:, -input_ids.shape[1] :]  # an extra vector in front is the head's
        made = outputs.BaseModelOutput(last_hidden_state=found)
        return _given(made, return_dict)


class FormwrightForSequenceClassification(FormwrightPreTrainedModel):
    """A class or a number for each text, or for two that are read by themselves."""

    heads = (Classify, Match)

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        token_type_ids: Tensor | None = None,
        labels: Tensor | None = None,
        other_input_ids: Tensor | None = None,
        other_attention_mask: Tensor | None = None,
        return_dict: bool | None = None,
    ) -> Any:
        """Scores (b, classes), and the loss where labels are given."""
        other = {}
        if other_input_ids is not None:
            other["other"] = other_input_ids
        if other_attention_mask is not None:
            other["other_mask"] = other_attention_mask.bool()
        logits = self.answer(input_ids, attention_mask, token_type_ids, **other)
        loss = None
        if labels is not None and logits.shape[-1] == 1:
            loss = F.mse_loss(logits.squeeze(-1), labels.to(logits.dtype).view(-1))
        elif labels is not None:
            loss = F.cross_entropy(logits, labels.view(-1))
        made = outputs.SequenceClassifierOutput(loss=loss, logits=logits)
        return _given(made, return_dict)


class FormwrightForTokenClassification(FormwrightPreTrainedModel):
    """A tag for each token."""

    heads = (Tag,)

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        token_type_ids: Tensor | None = None,
        labels: Tensor | None = None,
        return_dict: bool | None = None,
    ) -> Any:
        """Scores (b, n, tags), and the loss where labels are given."""
        logits = self.answer(input_ids, attention_mask, token_type_ids)
        made = outputs.TokenClassifierOutput(loss=_token_loss(logits, labels), logits=logits)
        return _given(made, return_dict)


class FormwrightForMaskedLM(FormwrightPreTrainedModel):
    """The symbols of a text, hidden ones too."""

    heads = (MaskedLM,)

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        token_type_ids: Tensor | None = None,
        labels: Tensor | None = None,
        return_dict: bool | None = None,
    ) -> Any:
        """Scores (b, n, v), and the loss where labels are given."""
        logits = self.answer(input_ids, attention_mask, token_type_ids)
        made = outputs.MaskedLMOutput(loss=_token_loss(logits, labels), logits=logits)
        return _given(made, return_dict)


class FormwrightForQuestionAnswering(FormwrightPreTrainedModel):
    """Where an answer begins and ends."""

    heads = (Span,)

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        token_type_ids: Tensor | None = None,
        start_positions: Tensor | None = None,
        end_positions: Tensor | None = None,
        return_dict: bool | None = None,
    ) -> Any:
        """Two scores for each token (b, n), and the loss where both ends are given."""
        start, end = self.answer(input_ids, attention_mask, token_type_ids).unbind(-1)
        loss = None
        if start_positions is not None and end_positions is not None:
            ends = ((start, start_positions), (end, end_positions))
            parts = [F.cross_entropy(x, at.view(-1), ignore_index=_IGNORED) for x, at in ends]
            loss = (parts[0] + parts[1]) / 2
        made = outputs.QuestionAnsweringModelOutput(loss=loss, start_logits=start, end_logits=end)
        return _given(made, return_dict)


class FormwrightForCausalLM(FormwrightPreTrainedModel, GenerationMixin):
    """The next symbol. Texts of a batch may be filled up on either side.

    ``generate`` reads the whole text for every new symbol; ``formwright.generate`` remembers it.
    """

    heads = (LanguageModel,)

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        labels: Tensor | None = None,
        return_dict: bool | None = None,
    ) -> Any:
        """Scores (b, n, v), and the loss of each next symbol where labels are given."""
        if attention_mask is None or bool(attention_mask[:, 0].all()):
            logits = self.answer(input_ids, attention_mask)
        else:
            logits = self._turned(input_ids, attention_mask)
        loss = None if labels is None else _token_loss(logits[:, :-1], labels[:, 1:])
        return _given(outputs.CausalLMOutput(loss=loss, logits=logits), return_dict)

    def _turned(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        """Scores where filling stands in front: it is read behind the text, and put back."""
        order = attention_mask.bool().logical_not().long().argsort(dim=1, stable=True)
        logits = self.answer(input_ids.gather(1, order), attention_mask.gather(1, order))
        back = order.argsort(dim=1).unsqueeze(-1).expand_as(logits)
        return logits.gather(1, back)

    def prepare_inputs_for_generation(
        self, input_ids: Tensor, attention_mask: Tensor | None = None, **others: Any
    ) -> dict[str, Any]:
        """What one step of ``generate`` reads: everything so far."""
        return {"input_ids": input_ids, "attention_mask": attention_mask}


class FormwrightForSeq2SeqLM(FormwrightPreTrainedModel, GenerationMixin):
    """A text for a text: translation. The source is read once, what is written anew each time."""

    heads = (LanguageModel,)
    main_input_name = "input_ids"

    def __init__(self, config: FormwrightConfig) -> None:
        super().__init__(config)
        self._encoder = (_Encoder(self.model),)  # no part: its weights are the model's

    def get_encoder(self, *_: Any, **__: Any) -> nn.Module:
        """What reads the source."""
        return self._encoder[0]

    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        decoder_input_ids: Tensor | None = None,
        decoder_attention_mask: Tensor | None = None,
        encoder_outputs: Any = None,
        labels: Tensor | None = None,
        return_dict: bool | None = None,
    ) -> Any:
        """Scores (b, n, v) of each next symbol, and the loss where labels are given."""
        if decoder_input_ids is None and labels is not None:
            decoder_input_ids = self.prepare_decoder_input_ids_from_labels(labels)
        if decoder_input_ids is None:
            raise InputError("An encoder-decoder needs decoder_input_ids, or labels.")
        if encoder_outputs is None:
            encoder_outputs = self._encoder[0](input_ids, attention_mask)
        mask, source_mask = (
            None if given is None else given.bool()
            for given in (decoder_attention_mask, attention_mask)
        )
        x, mask = self.model.features(
            decoder_input_ids, mask, source_mask=source_mask, encoded=encoder_outputs[0]
        )
        logits = self.model.head(x, mask, self.model.embedding)
        loss = _token_loss(logits, labels)
        encoded = encoder_outputs[0]
        made = outputs.Seq2SeqLMOutput(loss=loss, logits=logits, encoder_last_hidden_state=encoded)
        return _given(made, return_dict)

    def prepare_decoder_input_ids_from_labels(self, labels: Tensor) -> Tensor:
        """What is read while labels are guessed: the same, one place later."""
        begun = labels.new_full((labels.shape[0], 1), self.config.decoder_start_token_id)
        fill = self.config.pad_token_id or 0
        return torch.cat((begun, labels[:, :-1].masked_fill(labels[:, :-1] < 0, fill)), dim=1)

    def prepare_inputs_for_generation(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        encoder_outputs: Any = None,
        **others: Any,
    ) -> dict[str, Any]:
        """What one step of ``generate`` reads: everything so far, beside what the source gave."""
        return {
            "decoder_input_ids": input_ids,
            "attention_mask": attention_mask,
            "encoder_outputs": encoder_outputs,
        }


class _Encoder(nn.Module):
    """The encoder of a model, for ``generate``; it has no weights of its own."""

    main_input_name = "input_ids"

    def __init__(self, model: Model) -> None:
        super().__init__()
        self._whole = (model,)

    def forward(
        self, input_ids: Tensor, attention_mask: Tensor | None = None, **_: Any
    ) -> outputs.BaseModelOutput:
        """Vectors of the source (b, m, width)."""
        mask = None if attention_mask is None else attention_mask.bool()
        return outputs.BaseModelOutput(last_hidden_state=self._whole[0].encode(input_ids, mask))


def _given(made: Any, return_dict: bool | None) -> Any:
    return made.to_tuple() if return_dict is False else made


def _token_loss(logits: Tensor, labels: Tensor | None) -> Tensor | None:
    """The mean over the labels that are scored."""
    if labels is None:
        return None
    return F.cross_entropy(logits.flatten(0, 1), labels.flatten(), ignore_index=_IGNORED)


CLASSES: tuple[tuple[type[FormwrightPreTrainedModel], Any], ...] = (
    (FormwrightForSequenceClassification, transformers.AutoModelForSequenceClassification),
    (FormwrightForTokenClassification, transformers.AutoModelForTokenClassification),
    (FormwrightForMaskedLM, transformers.AutoModelForMaskedLM),
    (FormwrightForQuestionAnswering, transformers.AutoModelForQuestionAnswering),
    (FormwrightForCausalLM, transformers.AutoModelForCausalLM),
    (FormwrightForSeq2SeqLM, transformers.AutoModelForSeq2SeqLM),
    (FormwrightModel, transformers.AutoModel),
)


def class_of(arch: Architecture) -> type[FormwrightPreTrainedModel]:
    """The class for models of that architecture."""
    return next(kind for kind, _ in CLASSES if kind.fits(arch))
