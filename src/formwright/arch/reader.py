"""Reads the one-line notation. The grammar is in docs/format.md; errors point at the column.

text   := stack ['|' stack] ['where' name '=' layer {',' ...}] ['in' backbone] ['for' frame]
stack  := item {item}          item := ( '(' stack ')' | letters | call ) ['x' count]
call   := name ['(' argument {',' argument} ')']
"""

import re
import typing
from collections.abc import Iterator
from dataclasses import MISSING, dataclass, field
from difflib import get_close_matches
from typing import Any, NoReturn

from formwright.arch.architecture import Architecture, Backbone
from formwright.arch.frame import Frame
from formwright.arch.kept import is_kept, kept_layer
from formwright.arch.layer import Layer, Stack
from formwright.arch.node import Node, field_default, field_types, nodes
from formwright.arch.style import Style, plain_letters, style, style_names, transformer_xl_base
from formwright.errors import NotationError, SpecError, UnknownName

_MOST_LAYERS = 10_000
_MOST_DIGITS = 40  # of a whole number; more would only cost time
_DEEPEST = 60
_KEYWORDS = ("where", "in", "for")
_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_KEY = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)\s*=")
_NUMBER = re.compile(r"[-+]?\d+(\.\d+)?([eE][-+]?\d+)?")
_TIMES = re.compile(r"x(\d+)")
_LETTER = re.compile(r"[A-Za-z]\d*")
_DEFINED = re.compile(r"(?:where\s|,)\s*([A-Za-z]\d*)\s*=")
_CONSTANTS = {"true": True, "false": False, "none": None}


def parse(text: str, *, defaults: Style | None = None) -> Architecture:
    """Read an architecture.

    Args:
        text: For example ``(sfff)x6(f)x8`` or ``(sf)x4 in gpt2(256)``.
        defaults: Backbone and letters where the text gives none; Transformer-XL base, as in
            the PAR paper, when left out.

    >>> arch = parse("(sf)x4 in llama(128)")
    >>> arch.backbone.width, len(arch.layers.layers)
    (128, 8)
    """
    return _Reader(text).architecture(defaults)


@dataclass
class _Group:
    """Items in round brackets (or at the top), still without meaning."""

    items: list[tuple[Any, int]]  # (item, how often)
    column: int


@dataclass
class _Call:
    name: str
    column: int
    arguments: list[tuple[str | None, Any, int]] = field(default_factory=list)
    bracketed: bool = False


@dataclass
class _List:
    items: list[Any]
    column: int


@dataclass
class _Number:
    value: int | float
    column: int


class _Reader:
    def __init__(self, text: str) -> None:
        self.text, self.at, self.depth = text, 0, 0
        self.letters: dict[str, Layer] = {}
        self.spelling = {*"sfcmi", *_DEFINED.findall(text)}

    # --- the sentence -------------------------------------------------------------------

    def architecture(self, defaults: Style | None) -> Architecture:
        groups = [self.group_items()]
        if self.take("|"):
            groups.append(self.group_items())
        definitions = self.definitions() if self.keyword("where") else []
        backbone = self.call() if self.keyword("in") else None
        frame = self.call() if self.keyword("for") else None
        self.skip()
        if self.at < len(self.text):
            self.fail("Reading stops here; expected a layer, 'where', 'in', 'for' or the end.")

        chosen = self.style_of(backbone, defaults)
        self.letters = dict(chosen.letters)
        for name, raw in definitions:
            self.letters[name] = self.value(raw, Layer)
        stacks = [Stack(tuple(self.layers(group))) for group in groups]
        bound = self.value(frame, Frame) if frame is not None else None
        encoder = stacks[0] if len(stacks) == 2 else None
        try:
            return Architecture(stacks[-1], chosen.backbone, encoder, bound).check()
        except SpecError as error:
            raise NotationError(f"This cannot be built: {error}", self.text, 0) from None

    def definitions(self) -> list[tuple[str, Any]]:
        found = []
        while True:
            self.skip()
            match = _LETTER.match(self.text, self.at)
            if match is None or match.group().startswith("x"):
                self.fail("Expected a letter to define, such as s or f2 (x is taken by repeats).")
            self.at = match.end()
            self.expect("=")
            found.append((match.group(), self.argument_value()))
            if not self.take(","):
                return found

    def style_of(self, raw: _Call | None, defaults: Style | None) -> Style:
        if raw is None:
            return defaults or transformer_xl_base()
        if raw.name not in style_names():
            self.known_backbone(raw)
            backbone: Backbone = self.value(raw, Backbone)
            return Style(backbone, plain_letters(backbone))
        names = ("width", "heads", "inner")
        sizes: dict[str, int] = {}
        for place, (key, value, column) in enumerate(raw.arguments):
            name = key or (names[place] if place < len(names) else "")
            if name not in names:
                self.fail(f"The style {raw.name} takes width, heads and inner only.", column)
            sizes[name] = self.whole_number(value)
        return style(raw.name, **sizes)

    def whole_number(self, raw: Any) -> int:
        if not isinstance(raw, _Number) or not isinstance(raw.value, int) or raw.value < 1:
            self.fail("Expected a whole number of at least 1.", raw.column)
        return int(raw.value)

    def known_backbone(self, raw: _Call) -> None:
        if raw.name not in nodes or not issubclass(nodes.get(raw.name), Backbone):
            backbones = [n for n, cls in nodes.items() if issubclass(cls, Backbone)]
            error = UnknownName("backbone or style", raw.name, backbones + style_names())
            self.fail(str(error), raw.column)

    # --- syntax -------------------------------------------------------------------------

    def group_items(self, opened: int | None = None) -> _Group:
        """Items up to the closing bracket, the next keyword or the end."""
        self.deeper()
        items: list[tuple[Any, int]] = []
        column = self.at if opened is None else opened
        while True:
            self.skip()
            if self.at >= len(self.text):
                if opened is not None:
                    self.fail("This bracket is never closed.", opened)
                break
            character = self.text[self.at]
            if character == ")" and opened is not None:
                self.at += 1
                break
            if opened is None and (character == "|" or self.at_keyword(*_KEYWORDS)):
                break
            items.append((self.item(), self.times()))
        self.depth -= 1
        if opened is None and not items:
            self.fail("There are no layers here; write for example (sf)x6.", column)
        return _Group(items, column)

    def item(self) -> Any:
        if self.text[self.at] == "(":
            self.at += 1
            return self.group_items(self.at - 1)
        word = _WORD.match(self.text, self.at)
        if word is None:
            return self.fail(f"{self.text[self.at]!r} does not begin a layer.")
        if self.is_layer_name(word.group()) or not self.is_spelled(word.group()):
            return self.call()
        self.at = word.end()  # letters: a bracket that follows them is a group of its own
        return _Call(word.group(), word.start())

    def is_spelled(self, word: str) -> bool:
        """Whether a word is a row of letters that are defined, here or further on."""
        return all(letter in self.spelling for letter in _LETTER.findall(word))

    def times(self) -> int:
        """How often the item before is repeated; only a bracket can be."""
        match = _TIMES.match(self.text, self.at)
        if match is None or self.text[self.at - 1] not in ")":
            return 1
        digits = match.group(1)
        count = int(digits) if len(digits) <= _MOST_DIGITS else 0
        if not 1 <= count <= _MOST_LAYERS:
            self.fail(f"A repeat must lie between 1 and {_MOST_LAYERS}.", self.at)
        self.at = match.end()
        return count

    def call(self) -> _Call:
        self.skip()
        match = _WORD.match(self.text, self.at)
        if match is None:
            self.fail("Expected a name here.")
        call = _Call(match.group(), self.at)
        self.at = match.end()
        if self.text[self.at : self.at + 1] != "(":
            return call
        call.bracketed = True
        opened = self.at
        self.at += 1
        for column in self.listed(opened, ")"):
            key = _KEY.match(self.text, self.at)
            if key is not None:
                self.at = key.end()
            call.arguments.append((key and key.group(1), self.argument_value(opened), column))
        return call

    def listed(self, opened: int, closing: str) -> Iterator[int]:
        """The columns of what stands between commas, up to the closing bracket."""
        self.deeper()
        first = True
        while not self.take(closing):
            if not first:
                self.expect(",", opened)
            first = False
            self.skip()
            yield self.at
        self.depth -= 1

    def argument_value(self, opened: int | None = None) -> Any:
        self.skip()
        column = self.at
        if self.at >= len(self.text):
            if opened is not None:
                self.fail("This bracket is never closed.", opened)
            self.fail("Expected a value here.")
        if self.take("["):
            items = [self.argument_value(column) for _ in self.listed(column, "]")]
            return _List(items, column)
        if self.take("("):
            group = self.group_items(column)
            times = self.times()
            return group if times == 1 else _Group([(group, times)], column)
        number = _NUMBER.match(self.text, self.at)
        if number is not None:
            self.at = number.end()
            text = number.group()
            whole = number.group(1) is None and number.group(2) is None
            if whole and len(text) > _MOST_DIGITS:
                self.fail(f"A number has at most {_MOST_DIGITS} digits.", column)
            return _Number(int(text) if whole else float(text), column)
        if _WORD.match(self.text, self.at):
            return self.call()
        return self.fail(f"{self.text[self.at]!r} does not begin a value.")

    # --- meaning ------------------------------------------------------------------------

    def layers(self, group: _Group) -> list[Layer]:
        found: list[Layer] = []
        for item, times in group.items:
            if isinstance(item, _Group):
                inner = self.layers(item)
            elif item.bracketed or self.is_layer_name(item.name):
                inner = [self.value(item, Layer)]
            else:
                inner = self.spelled(item)
            found.extend(inner * times)
            if len(found) > _MOST_LAYERS:
                self.fail(f"More than {_MOST_LAYERS} layers.", group.column)
        return found

    def spelled(self, word: _Call) -> list[Layer]:
        """A run of letters such as ``sfff`` or ``s1f2``."""
        if word.name in self.letters:
            return [self.letters[word.name]]
        layers, at = [], 0
        while at < len(word.name):
            match = _LETTER.match(word.name, at)
            letter = match.group() if match else word.name[at]
            if letter not in self.letters:
                after = word.column + len(word.name)
                if len(word.name) > 2 and self.text[after : after + 1] == "(":
                    names = [n for n, cls in nodes.items() if issubclass(cls, Layer)]
                    self.fail(str(UnknownName("layer", word.name, names)), word.column)
                known = ", ".join(sorted(self.letters))
                close = get_close_matches(word.name, sorted(nodes), n=1)
                hint = f" Did you mean {close[0]}?" if close else ""
                self.fail(
                    f"{letter!r} is not a layer here; known letters are {known}.{hint}",
                    word.column + at,
                )
            layers.append(self.letters[letter])
            at += len(letter)
        return layers

    def is_layer_name(self, name: str) -> bool:
        if name in self.letters or len(name) < 3:
            return False
        return (name in nodes and issubclass(nodes.get(name), Layer)) or is_kept(name)

    def value(self, raw: Any, wanted: Any) -> Any:
        """The value of a raw piece; ``wanted`` decides between a word and a node."""
        if isinstance(raw, _Number):
            return raw.value
        if isinstance(raw, _List):
            return tuple(self.value(item, wanted) for item in raw.items)
        if isinstance(raw, _Group):
            return Stack(tuple(self.layers(raw)))
        if not raw.bracketed:
            if raw.name in _words(wanted):
                return raw.name
            if raw.name in _CONSTANTS:
                return _CONSTANTS[raw.name]
            classes = _node_classes(wanted)
            if raw.name in self.letters and any(issubclass(Layer, c) for c in classes):
                return self.letters[raw.name]
            if not classes:
                return raw.name
        return self.node(raw, wanted)

    def node(self, raw: _Call, wanted: Any) -> Node:
        try:
            if raw.name not in nodes and not raw.bracketed and is_kept(raw.name):
                return kept_layer(raw.name)
            cls = nodes.get(raw.name)
        except SpecError as error:
            self.fail(str(error), raw.column)
        known = field_types(cls)
        required = [n for n in known if field_default(cls, n) is MISSING]
        names = required + [n for n in known if n not in required]
        fields: dict[str, Any] = {}
        for place, (key, value, column) in enumerate(raw.arguments):
            name = key or (names[place] if place < len(names) else "")
            if name not in known:
                has = ", ".join(known) or "no fields"
                what = f"no field {key!r}" if key else f"only {len(known)} fields"
                self.fail(f"{raw.name} has {what}; it has {has}.", column)
            if name in fields:
                self.fail(f"{raw.name} is given {name} twice.", column)
            fields[name] = self.value(value, known[name])
        missing = [n for n in required if n not in fields]
        if missing:
            self.fail(f"{raw.name} needs {', '.join(missing)}.", raw.column)
        try:
            built = cls(**fields)
        except SpecError as error:
            self.fail(str(error), raw.column)
        if isinstance(wanted, type) and not isinstance(built, wanted):
            self.fail(f"{raw.name} cannot stand here.", raw.column)
        return built

    # --- characters ---------------------------------------------------------------------

    def skip(self) -> None:
        while self.at < len(self.text) and self.text[self.at].isspace():
            self.at += 1

    def take(self, character: str) -> bool:
        self.skip()
        if self.text[self.at : self.at + 1] != character:
            return False
        self.at += 1
        return True

    def expect(self, character: str, opened: int | None = None) -> None:
        if self.take(character):
            return
        if self.at >= len(self.text) and opened is not None:
            self.fail("This bracket is never closed.", opened)
        self.fail(f"Expected {character!r} here.")

    def at_keyword(self, *words: str) -> bool:
        match = _WORD.match(self.text, self.at)
        return match is not None and match.group() in words

    def keyword(self, word: str) -> bool:
        self.skip()
        found = self.at_keyword(word)
        self.at += len(word) * found
        return found

    def deeper(self) -> None:
        self.depth += 1
        if self.depth > _DEEPEST:
            self.fail(f"Brackets are nested more than {_DEEPEST} deep.")

    def fail(self, message: str, column: int | None = None) -> NoReturn:
        raise NotationError(message, self.text, self.at if column is None else column)


def _words(wanted: Any) -> list[str]:
    """The words that a type lists as its values."""
    parts = typing.get_args(wanted)
    if typing.get_origin(wanted) is typing.Literal:
        return list(parts)
    return [word for part in parts for word in _words(part)]


def _node_classes(wanted: Any) -> list[type[Node]]:
    """The classes of nodes that a type admits: none for a plain word or number."""
    if isinstance(wanted, type):
        return [wanted] if issubclass(wanted, Node) else []
    return [cls for part in typing.get_args(wanted) for cls in _node_classes(part)]
