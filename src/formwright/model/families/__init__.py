"""What folders in Hugging Face's format hold: their options, and where each tensor belongs here.

| file | |
|---|---|
| config.py | config.json, each option looked at before it is believed |
| form.py | tables of names, and the forms in which tensors are stored |
| base.py | what every family has in common |
| encoders.py, decoders.py, translators.py | the families |

To add one, write its class and name it in ``FAMILIES``; in ``STOCK`` too, if models may leave so.
"""

from collections.abc import Mapping

from formwright.errors import InputError
from formwright.model.families.base import Family
from formwright.model.families.config import CONFIG, Config
from formwright.model.families.decoders import (
    Gemma,
    Gpt2,
    GptNeoX,
    Llama,
    Mistral,
    Opt,
    Qwen2,
    Qwen3,
)
from formwright.model.families.encoders import Bert, DistilBert, Electra, Roberta
from formwright.model.families.translators import MT5, T5, Marian

FAMILIES: Mapping[str, type[Family]] = {
    "bert": Bert,
    "roberta": Roberta,
    "xlm-roberta": Roberta,
    "camembert": Roberta,
    "distilbert": DistilBert,
    "electra": Electra,
    "gpt2": Gpt2,
    "opt": Opt,
    "gpt_neox": GptNeoX,
    "llama": Llama,
    "mistral": Mistral,
    "qwen2": Qwen2,
    "qwen3": Qwen3,
    "gemma": Gemma,
    "t5": T5,
    "mt5": MT5,
    "marian": Marian,
}

# As whom a model may leave, the simplest first. RoBERTa is a BERT here and OPT a GPT-2: they differ
# by rows of the table of positions that are never looked up.
STOCK: tuple[type[Family], ...] = (
    Bert, DistilBert, Electra, Gpt2, Llama, Qwen2, Qwen3, Mistral, Gemma, GptNeoX, T5, Marian,
)  # fmt: skip

# Kinds that are well known, and the part that has no counterpart here.
_UNLIKE: Mapping[str, str] = {
    "deberta": "its disentangled attention compares contents with positions and positions with "
    "contents",
    "deberta-v2": "its disentangled attention compares contents with positions and positions with "
    "contents",
    "mpnet": "it adds learned positions to the embedding and a bias of distance to the scores, and "
    "a model has one kind of positions",
    "albert": "all its layers share one set of weights",
    "gemma2": "it caps its scores by a tanh and norms each branch twice",
    "gemma3": "it norms each branch twice and turns by two bases",
    "gemma3_text": "it norms each branch twice and turns by two bases",
    "xlnet": "its attention has two streams",
    "mixtral": "its feed-forwards are mixtures of experts",
}


def family_of(config: Config) -> Family:
    """Who can read a checkpoint."""
    place, kind = config.folder / CONFIG, config.kind
    if kind in FAMILIES:
        return FAMILIES[kind](config)
    if kind in _UNLIKE:
        raise InputError(f"{place}: models of the type {kind!r} cannot be read: {_UNLIKE[kind]}.")
    if "auto_map" in config.data:
        raise InputError(
            f"{place}: models of the type {kind!r} bring their own code (auto_map), which is never "
            f"run; {', '.join(FAMILIES)} can be read."
        )
    raise InputError(
        f"{place}: models of the type {kind!r} cannot be read; {', '.join(FAMILIES)} can."
    )
