"""One more option in a space that exists: a layer that was found elsewhere, or a user's own."""

from typing import Any

from formwright.arch.layer import Layer
from formwright.arch.node import Node
from formwright.errors import InputError
from formwright.space.choice import OneOf
from formwright.space.tree import TreeSpace


def with_layer(space: TreeSpace, layer: Layer, decision: str = "layer") -> TreeSpace:
    """The same space with one more option where it chooses among layers.

    Args:
        space: A declared space.
        layer: What may also stand there. Options that were there keep their numbers.
        decision: What the decisions are called, as the declaration has it, whatever stands in
            front (``read_layer``) of it.
    """
    adding = _Adding(layer, decision)
    declared = adding.changed(space.declared)
    if not adding.places:
        raise InputError(
            f"The space {space.name!r} has no decision called {decision!r} that chooses among "
            "layers, so a block cannot be one of its options."
        )
    return TreeSpace(declared, space.constraints, space.name)


class _Adding:
    """Walks over a declaration."""

    def __init__(self, layer: Layer, decision: str) -> None:
        self.layer, self.decision, self.places = layer, decision, 0

    def changed(self, value: Any) -> Any:
        if isinstance(value, tuple):
            return tuple(map(self.changed, value))
        if not isinstance(value, Node):
            return value
        if isinstance(value, OneOf) and self._fits(value):
            self.places += 1
            return value.replace(options=(*value.options, self.layer))
        fields = value.values()
        new = {name: self.changed(field) for name, field in fields.items()}
        different = {name: field for name, field in new.items() if field is not fields[name]}
        return value.replace(**different) if different else value

    def _fits(self, choice: OneOf) -> bool:
        named = choice.name == self.decision or choice.name.endswith(f"_{self.decision}")
        return named and all(isinstance(option, Layer) for option in choice.options)
