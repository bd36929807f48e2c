"""The attention that runs last, in a plain model or in a supernet under its gates.

A teacher's queries, keys and values are compared with those of a student; in a supernet the module
that makes them is another for each size.
"""

from collections.abc import Iterator

from torch import nn

from formwright.errors import InputError
from formwright.model import Model
from formwright.ops.attention.attention import AttentionOp
from formwright.supernet.elastic import ElasticOp
from formwright.supernet.extract import live
from formwright.supernet.supernet import Supernet


def last_attention(model: Model) -> AttentionOp:
    """The attention nearest to the end of a model's stack, as it is run at the moment."""
    if isinstance(model, Supernet):
        holder = model.holder
        layers = model._sized(
            lambda sized: [kept for item in _layers(sized) for kept, _ in live(item, holder)]
        )
    else:
        layers = list(_layers(model))
    for layer in reversed(layers):
        found = list(_attentions(layer))
        if found:
            return found[-1]
    raise InputError("The model has no attention whose queries, keys and values could be compared.")


def _layers(model: Model) -> Iterator[nn.Module]:
    for stack in model.stacks.values():
        layers = stack.get_submodule("layers")
        yield from layers.children()


def _attentions(module: nn.Module) -> Iterator[AttentionOp]:
    """Attentions inside a layer, in their order."""
    if isinstance(module, ElasticOp):
        module = module.running()
    if isinstance(module, AttentionOp):
        yield module
        return
    for child in module.children():
        yield from _attentions(child)
