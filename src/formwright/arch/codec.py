"""Architectures as JSON, and their ids. The format is specified in docs/format.md.

A node is an object whose ``node`` key is its name; fields at their default are left out. An id
is the hash of the canonical form, so equal architectures share it, in every version.
"""

import hashlib
import json
import operator
from typing import Any

from formwright.arch.architecture import Architecture
from formwright.arch.attention import Attention
from formwright.arch.connector import Connected, unrolled
from formwright.arch.graph.cell import Cell, simplest
from formwright.arch.graph.formula import Formula, tidied
from formwright.arch.graph.program import Program
from formwright.arch.graph.tidy_program import tidy_program
from formwright.arch.layer import FeedForward, Identity, Residual, Stack
from formwright.arch.node import Node, field_types, nodes, recalled
from formwright.errors import FormatError, SpecError

FORMAT_VERSION = 1  # raised on any change that an older reader could not load
_CANONICAL = "_canonical_form"  # what a node remembers of itself
_DEEPEST = 100  # nodes within nodes; a hostile file must not exhaust the stack


def to_json(arch: Architecture, *, indent: int | None = None) -> str:
    """The architecture as a JSON document."""
    document = {"formwright": FORMAT_VERSION, "architecture": to_data(arch)}
    return json.dumps(document, indent=indent, ensure_ascii=False)


def from_json(text: str) -> Architecture:
    """Read a JSON document. Anything but a valid architecture raises ``FormatError``."""
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:  # numbers of thousands of digits, too
        raise FormatError(f"This is not JSON: {error}.") from None
    if not isinstance(document, dict) or "formwright" not in document:
        raise FormatError('This JSON is not an architecture: the key "formwright" is missing.')
    version = document["formwright"]
    if version != FORMAT_VERSION:
        raise FormatError(
            f"This architecture is written in format version {version!r}; this program reads "
            f"version {FORMAT_VERSION}. Use a matching version of formwright."
        )
    arch = from_data(document.get("architecture"), "architecture")
    if not isinstance(arch, Architecture):
        raise FormatError('"architecture" must hold a node named "architecture".')
    return arch.check()


def to_data(value: Any) -> Any:
    """A node as plain dicts, lists and scalars."""
    if isinstance(value, Node):
        return {"node": value.NAME} | {k: to_data(v) for k, v in value.changed().items()}
    if isinstance(value, tuple):
        return [to_data(item) for item in value]
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e15:
        return int(value)  # as notation writes it, so that 1 and 1.0 share an id
    return value


def from_data(data: Any, path: str = "", depth: int = 0) -> Any:
    """The inverse of ``to_data``; errors name the path to what is wrong."""
    if depth > _DEEPEST:
        raise FormatError(f"{path}: nodes are nested more than {_DEEPEST} deep.")
    if isinstance(data, list | tuple):
        return tuple(from_data(item, f"{path}[{i}]", depth + 1) for i, item in enumerate(data))
    if not isinstance(data, dict):
        return data
    if not isinstance(data.get("node"), str):
        raise FormatError(f'{path}: an object must have a "node" key with the name of a node.')
    try:
        cls = nodes.get(data["node"])
        known = field_types(cls)
        for key in data:
            if key != "node" and key not in known:
                raise FormatError(
                    f"{path}: {data['node']} has no field {key!r}; it has {', '.join(known)}."
                )
        fields = {
            key: from_data(value, f"{path}.{key}", depth + 1)
            for key, value in data.items()
            if key != "node"
        }
        return cls(**fields)
    except FormatError:
        raise
    except (SpecError, TypeError) as error:
        raise FormatError(f"{path}: {error}") from None


def canonical(arch: Architecture) -> Architecture:
    """The one form that stands for all ways of writing the same architecture.

    Stacks inside stacks are flattened, layers that do nothing are left out, and values that say
    what the default says anyway are dropped.
    """
    result = _settled(arch)
    assert isinstance(result, Architecture)
    return result


def arch_id(arch: Architecture) -> str:
    """A short hash of the canonical form: equal architectures have equal ids.

    >>> from formwright import parse
    >>> arch_id(parse("(sf)x2")) == arch_id(parse("sfsf"))
    True
    """
    return hashlib.sha256(_canonical_text(canonical(arch)).encode()).hexdigest()[:16]


def _canonical_text(value: Any) -> str:
    """JSON with sorted keys and no spaces, as the id is made from."""
    if isinstance(value, tuple):
        return "[" + ",".join(map(_canonical_text, value)) + "]"
    return _node_text(value) if isinstance(value, Node) else json.dumps(to_data(value))


@recalled
def _node_text(node: Node) -> str:
    parts = {key: _canonical_text(item) for key, item in node.changed().items()}
    parts["node"] = json.dumps(node.NAME)
    return "{" + ",".join(f'"{key}":{parts[key]}' for key in sorted(parts)) + "}"


def _settled(value: Any) -> Any:
    """The canonical form of a node or of a list of them; every node remembers its own."""
    if isinstance(value, tuple):
        settled = tuple(map(_settled, value))
        return value if all(map(operator.is_, settled, value)) else settled
    if not isinstance(value, Node):
        return value
    if _CANONICAL not in value.__dict__:
        old = value.values()
        new = {name: _settled(item) for name, item in old.items()}
        same = all(new[name] is old[name] for name in old)
        found = _simplified(value if same else type(value)(**new))
        # None says "this very node": a node that held itself would only be freed by a collection
        object.__setattr__(value, _CANONICAL, None if found is value else found)
    found = value.__dict__[_CANONICAL]
    return value if found is None else found


def _simplified(node: Node) -> Node:
    if isinstance(node, Stack):
        flat = any(isinstance(layer, Stack | Identity) for layer in node.layers)
        return Stack(tuple(_flat(node))) if flat else node
    if isinstance(node, Residual) and isinstance(node.inner, Stack) and len(node.inner.layers) == 1:
        return node.replace(inner=node.inner.layers[0])
    if isinstance(node, Attention | FeedForward) and node.out_bias == node.bias:
        node = node.replace(out_bias=None)
    if isinstance(node, Attention) and node.kv_heads == node.heads:
        return node.replace(kv_heads=None)
    if isinstance(node, Connected):
        return unrolled(node)
    if isinstance(node, Formula):
        return tidied(node)
    if isinstance(node, Program):
        return tidy_program(node)
    return simplest(node) if isinstance(node, Cell) else node


def _flat(stack: Stack) -> list[Any]:
    layers: list[Any] = []
    for layer in stack.layers:
        if isinstance(layer, Stack):
            layers.extend(_flat(layer))
        elif not isinstance(layer, Identity):
            layers.append(layer)
    return layers
