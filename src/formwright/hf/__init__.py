"""formwright's models inside Hugging Face's library: ``import formwright.hf`` makes them known.

After that ``AutoModelForSequenceClassification.from_pretrained(folder)``, ``AutoTokenizer``,
``pipeline``, ``Trainer`` and ``generate`` work on folders that ``formwright export --to hf`` wrote,
and no code is taken from anywhere else. ``save_pretrained`` writes what ``load_model`` reads.
"""

try:
    import transformers
except ImportError as error:
    raise ImportError(
        "formwright.hf needs the transformers library; run: pip install 'formwright[hf]'"
    ) from error

from formwright.hf.models import (
    CLASSES,
    KIND,
    FormwrightConfig,
    FormwrightForCausalLM,
    FormwrightForMaskedLM,
    FormwrightForQuestionAnswering,
    FormwrightForSeq2SeqLM,
    FormwrightForSequenceClassification,
    FormwrightForTokenClassification,
    FormwrightModel,
    FormwrightPreTrainedModel,
    class_of,
    label_names,
)
from formwright.hf.texts import SPECIALS, TOKENIZER_FILE, FormwrightTokenizer, symbol_names

__all__ = [
    "SPECIALS",
    "TOKENIZER_FILE",
    "FormwrightConfig",
    "FormwrightForCausalLM",
    "FormwrightForMaskedLM",
    "FormwrightForQuestionAnswering",
    "FormwrightForSeq2SeqLM",
    "FormwrightForSequenceClassification",
    "FormwrightForTokenClassification",
    "FormwrightModel",
    "FormwrightPreTrainedModel",
    "FormwrightTokenizer",
    "class_of",
    "label_names",
    "symbol_names",
]


def _register() -> None:
    """Make the classes known to the library's Auto classes."""
    transformers.AutoConfig.register(KIND, FormwrightConfig, exist_ok=True)
    for kind, auto in CLASSES:
        auto.register(FormwrightConfig, kind, exist_ok=True)
    transformers.AutoTokenizer.register(
        FormwrightConfig, slow_tokenizer_class=FormwrightTokenizer, exist_ok=True
    )


_register()
