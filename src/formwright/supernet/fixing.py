"""Taking some decisions of a space beforehand: what a supernet cannot hold open."""

from typing import Any

from formwright.arch.architecture import Architecture
from formwright.arch.node import Node
from formwright.errors import SpecError, UnknownName
from formwright.space.choice import Choice, Derived, Maybe, OneOf, Span, choices_in, raw_fields
from formwright.space.choosing import Choosing
from formwright.space.compile import compiled
from formwright.space.part import Decisions
from formwright.space.tree import TreeSpace

_SHOWN = 12  # values that an error message lists


def closed(space: TreeSpace) -> TreeSpace:
    """The space with the first of each choice that stands outside its layers.

    No supernet can hold one open there; the width and the size of the embedding stay open.
    """
    declared: Any = space.declared
    if not isinstance(declared, Architecture):
        return space
    parts = [declared.frame, *_outside_layers(declared.backbone)]
    outside = {choice.name: choice for part in parts for choice in choices_in(part)}
    if not outside:
        return space
    first = {name: _allowed(choice, {})[0] for name, choice in outside.items()}
    return TreeSpace(taken(declared, first), space.constraints, space.name)


def _outside_layers(backbone: Any) -> list[Any]:
    """What of a backbone must be decided: not its width, its norm, or the embedding's size."""
    if isinstance(backbone, Choice):
        return [backbone]
    found = []
    for key, value in raw_fields(backbone):
        if key == "embedding" and not isinstance(value, Choice):
            found += [inner for name, inner in raw_fields(value) if name != "size"]
        elif key not in ("width", "norm"):
            found.append(value)
    return found


def taken(declared: Any, decisions: Decisions) -> Any:
    """A declaration with some decisions taken; sizes that depend on them stay open."""
    choices: dict[str, Choice] = {}
    for choice in choices_in(declared):
        choices.setdefault(choice.name, choice)
    for name, value in decisions.items():
        if name not in choices:
            raise UnknownName("decision", name, choices)
        declared = with_decision(declared, name, _answer(choices[name], value, decisions))
    return _unbound(declared, decisions)


def _answer(choice: Choice, value: Any, decisions: Decisions) -> Any:
    """What stands in place of a choice when its decision is ``value``."""
    if not isinstance(choice, OneOf | Maybe | Span):
        raise SpecError(f"{choice.NAME} {choice.name!r} cannot be fixed; leave it open.")
    allowed = _allowed(choice, decisions)
    if not isinstance(value, int | float) or value not in allowed:
        shown = [*map(str, allowed)]
        if len(shown) > _SHOWN:
            shown[2:-1] = [".."]
        raise SpecError(
            f"The decision {choice.name} = {value!r} is not allowed here; it is one of "
            f"{', '.join(shown)}."
        )
    if isinstance(choice, Maybe):
        return choice.option if value else None
    if isinstance(choice, OneOf) and not choice.numeric:
        return choice.options[int(value)]
    return value


def _allowed(choice: Choice, decisions: Decisions) -> tuple[Any, ...]:
    """What a decision can be, given the others."""
    part = compiled(choice)
    assert isinstance(part, Choosing)
    return part.domain(decisions)


def _unbound(value: Any, decisions: Decisions) -> Any:
    """Numbers bounded by a decision that was taken get the bound itself."""
    if isinstance(value, tuple):
        return tuple(_unbound(item, decisions) for item in value)
    if isinstance(value, Span) and value.of is not None and value.of in decisions:
        allowed = _allowed(value, decisions)
        if not allowed:
            bound = f"{value.of} = {decisions[value.of]}"
            raise SpecError(f"number {value.name!r} has no value left under {bound}.")
        return Span(value.name, allowed[0], value.high, value.step)
    if isinstance(value, Node):
        return type(value)(**{key: _unbound(v, decisions) for key, v in raw_fields(value)})
    return value


def with_decision(value: Any, name: str, chosen: Any) -> Any:
    """The same tree with one decision taken."""
    if isinstance(value, Choice) and value.name == name:
        return chosen
    if isinstance(value, tuple):
        return tuple(with_decision(item, name, chosen) for item in value)
    if not isinstance(value, Node):
        return value
    fields = {key: with_decision(item, name, chosen) for key, item in raw_fields(value)}
    if isinstance(value, Derived):
        of, ratio = (chosen if value.of == name else fields["of"]), fields["ratio"]
        if type(of) in (int, float) and type(ratio) in (int, float):
            return value.number(of, ratio)
        fields["of"] = of
    return type(value)(**fields)
