"""Out for Hugging Face's library: as a class of its own where one computes the same, else as ours.

A class of its own loads with ``transformers`` alone. Any other architecture becomes one of the
classes in ``formwright.hf``, which ``import formwright.hf`` makes known. Both kinds of folder are
read back by ``load_model``.
"""

import contextlib
import json
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save
from torch import Tensor

from formwright.arch import Seq2Seq
from formwright.errors import InputError, SpecError
from formwright.export.card import write_card
from formwright.export.result import Result
from formwright.export.source import (
    Source,
    copy_beside,
    is_foreign,
    marks,
    new_folder,
    write_about,
    write_json,
)
from formwright.files import write_atomically
from formwright.model import Model, load_model, save_model
from formwright.model.export import TOLERANCE, answers_apart, inputs_of, sample_inputs
from formwright.model.stock import stock as stock_of
from formwright.tasks.subword import Subwords
from formwright.tasks.text import Tokenizer

_INSTALL = "pip install 'formwright[hf]'"
_NUMBERS = {"pad": "pad_token_id", "begin": "bos_token_id", "end": "eos_token_id"}


def to_hf(source: Source, out: Path) -> Result:
    """Write a model in Hugging Face's format; it is read back and compared before it is kept."""
    if find_spec("transformers") is None:
        raise InputError(f"--to hf needs a package that is not installed; run: {_INSTALL}")
    with new_folder(out) as folder:
        stock = stock_of(source.model)
        ours = stock is None
        name = _write_ours(source, folder) if ours else _write_stock(source, stock, folder)
        tokenizer = source.tokenizer()
        copied = not ours and is_foreign(source.folder) and copy_beside(source.folder, folder)
        if tokenizer is not None and not copied:
            write_tokenizer(source, tokenizer, folder)
        if not copied:
            write_about(source, folder)
        alone = not ours and (tokenizer is None or isinstance(tokenizer, Subwords))
        write_card(source, folder, name, alone=alone)
        difference = max(
            _ours_apart(source, load_model(folder)), _theirs_apart(source, folder, name)
        )
        if not difference <= TOLERANCE:
            raise SpecError(f"What was written differs from the model by {difference:.2g}.")
    return Result(out, "hf", difference, notes=[_needs(name, ours=ours, alone=alone)])


def _needs(name: str, *, ours: bool, alone: bool) -> str:
    """What it takes to load a folder."""
    if ours:
        return f"class {name}, which `import formwright.hf` makes known"
    beside = "" if alone else "; its tokeniser needs `import formwright.hf`"
    return f"class {name}, which transformers alone loads{beside}"


# --- models -------------------------------------------------------------------------------------


def _write_stock(source: Source, stock: Any, folder: Path) -> str:
    from formwright.hf import label_names  # noqa: PLC0415  # loads a large library

    # said to be none, since the library would take numbers of its own vocabularies
    none = dict.fromkeys(_NUMBERS.values())
    labels = label_names(source.labels)
    config = {**none, **stock.config, **_special_numbers(source), **labels}
    write_json(folder / "config.json", config)
    state = {name: tensor.contiguous() for name, tensor in stock.state.items()}
    write_atomically(folder / "model.safetensors", save(state, {"format": "pt"}))
    return str(config["architectures"][0])


def _special_numbers(source: Source) -> dict[str, int]:
    """Numbers of special symbols as a configuration holds them."""
    tokenizer = source.tokenizer()
    specials = {} if tokenizer is None else tokenizer.specials
    return {_NUMBERS[name]: number for name, number in specials.items() if name in _NUMBERS}


def _write_ours(source: Source, folder: Path) -> str:
    import transformers  # noqa: PLC0415  # large

    from formwright.hf import FormwrightConfig, class_of  # noqa: PLC0415  # large

    model = source.model
    numbers = _special_numbers(source)
    if isinstance(model.arch.backbone, Seq2Seq):
        numbers["decoder_start_token_id"] = numbers.get("bos_token_id", 0)
    kind = source.kind if source.task is not None else None
    config = FormwrightConfig.of(model, source.labels, task=kind, **numbers)
    config.save_pretrained(folder)
    name = str(config.architectures[0])
    if class_of(model.arch).can_generate():
        transformers.GenerationConfig(use_cache=False, **numbers).save_pretrained(folder)
    save_model(model, folder)
    return name


def _sample(source: Source) -> dict[str, Tensor]:
    return sample_inputs(source.model, 3, source.model.frame.length, segments=source.pair)


@torch.no_grad()
def _ours_apart(source: Source, loaded: Model) -> float:
    """How far the folder is from the model when formwright reads it."""
    inputs = _sample(source)
    return answers_apart(loaded.eval()(**inputs), source.model.eval()(**inputs), inputs)


@torch.no_grad()
def _theirs_apart(source: Source, folder: Path, name: str) -> float:
    """The same when the library reads it; whatever is missing or left over is refused."""
    import transformers  # noqa: PLC0415  # large

    from formwright import hf  # noqa: PLC0415  # large

    kind: Any = getattr(hf, name, None) or getattr(transformers, name)
    with _quiet():
        model, told = kind.from_pretrained(folder, output_loading_info=True)
    wrong = sorted(key for words in ("missing_keys", "unexpected_keys") for key in told[words])
    if wrong:
        raise SpecError(f"transformers does not find what it needs in the folder: {wrong[0]}.")
    inputs = _sample(source)
    names = inputs_of(source.model, segments=source.pair)
    found = model.eval()(**{names[ours]: value.long() for ours, value in inputs.items()})
    if "start_logits" in found:
        answer = torch.stack((found.start_logits, found.end_logits), dim=-1)
    else:
        answer = found["logits" if "logits" in found else "last_hidden_state"]
    return answers_apart(answer, source.model.eval()(**inputs), inputs)


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Without the library's progress bars."""
    from transformers.utils import logging  # noqa: PLC0415  # large

    shown = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        if shown:
            logging.enable_progress_bar()


# --- texts --------------------------------------------------------------------------------------


def write_tokenizer(source: Source, tokenizer: Tokenizer, folder: Path) -> None:
    """The files that ``AutoTokenizer`` reads: a fast tokeniser of subwords, else one of ours."""
    from formwright import hf  # noqa: PLC0415  # large

    side = "left" if source.kind == "lm" else "right"
    common = {"model_max_length": source.length, "padding_side": side}
    placed = marks(source, tokenizer)
    if isinstance(tokenizer, Subwords):
        _fast(source, tokenizer, placed, common).save_pretrained(folder)
        return
    known = {"tokenizer": tokenizer.state(), "two": ["A", "B"], **placed, "pair": source.pair}
    path = folder / hf.TOKENIZER_FILE
    path.write_text(json.dumps(known, ensure_ascii=False), encoding="utf-8")
    hf.FormwrightTokenizer(str(path), **common).save_pretrained(folder)


def _fast(source: Source, ours: Subwords, placed: dict[str, Any], common: dict[str, Any]) -> Any:
    """Subwords as a fast tokeniser that puts the same marks around texts."""
    import tokenizers as tk  # noqa: PLC0415  # optional
    import transformers  # noqa: PLC0415  # large

    from formwright.hf import SPECIALS  # noqa: PLC0415  # large

    inner = tk.Tokenizer.from_str(ours.inner.to_str())
    for name, number in sorted(ours.specials.items(), key=lambda item: item[1]):
        if number >= inner.get_vocab_size():  # what a ready-made one lacks stands behind it
            inner.add_special_tokens([tk.AddedToken(f"<{name}>", special=True)])
    used = {n for pieces in placed.values() for n in pieces if isinstance(n, int)}
    spelt = {number: str(inner.id_to_token(number)) for number in (*ours.specials.values(), *used)}
    inner.post_processor = tk.processors.TemplateProcessing(
        single=_template(placed["one"], spelt),
        pair=_template(placed.get("two", ["A", "B"]), spelt),
        special_tokens=[(spelt[number], number) for number in sorted(used)],
    )
    names = {SPECIALS[name]: spelt[number] for name, number in ours.specials.items()}
    inputs = ["input_ids", "attention_mask"] + (["token_type_ids"] if source.pair else [])
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=inner, model_input_names=inputs, **names, **common
    )


def _template(pieces: list[Any], spelt: dict[int, str]) -> list[str]:
    """How texts stand among marks, in the library's words; from the second on it is text 1."""
    found, text = [], 0
    for piece in pieces:
        text = 1 if piece == "B" else text
        found.append(f"${piece}:{text}" if piece in ("A", "B") else f"{spelt[piece]}:{text}")
    return found
