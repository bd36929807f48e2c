"""Torch as it is, in fp32 or bf16, or with matrices quantised to int8 while running."""

import warnings

import torch
from torch import Tensor, nn

from formwright.cost.paired import Run
from formwright.cost.step import Step
from formwright.cost.target import Target
from formwright.model import Model


def prepare(step: Step, arguments: tuple[Tensor, ...], target: Target) -> Run:
    """Run the module itself."""
    if target.dtype == "int8":
        quantise(step)

    @torch.inference_mode()
    def run() -> None:
        step(*arguments)

    return run


def quantise(step: Step) -> None:
    """Matrices of layers and head to int8. Tables and what is tied to them stay as they are."""
    quantise_model(step.model)


def quantise_model(model: Model) -> None:
    """The same for a model."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # announces a successor that is slower on a CPU
        for part in (model.stacks, model.head):
            torch.ao.quantization.quantize_dynamic(part, {nn.Linear}, torch.qint8, inplace=True)
