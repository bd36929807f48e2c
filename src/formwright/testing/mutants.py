"""Hostile input: texts, JSON documents and files, damaged at random.

What reads files of strangers must refuse these with a ``FormwrightError``, or read them, and do
neither for long nor in much memory. All chance comes from the generator that is given.
"""

import json
from random import Random
from typing import Any

# Numbers, words and shapes that readers of all kinds have stumbled over.
_NUMBERS = (
    "0", "-1", "1", "2", "3.5", "1e9", "1e308", "-0", "1e-320", "99999999999999999999",
    "9" * 5000, "2147483648", "4294967297", "00", "1.", "x", "7x7", "0x10",
)  # fmt: skip
_TEXTS = (
    "", " ", "\0", "\x1b[2J", "ü", "\u202e", "a" * 3000, "../../etc/passwd", "/dev/zero", "nan",
    "null", "<script>alert(1)</script>", "__class__", "__import__('os')", "%s%n", "node",
)  # fmt: skip
_VALUES: tuple[Any, ...] = (
    None, True, False, 0, -1, 1, 3, 10**20, 10**400, 1e308, -1e308, float("nan"), float("inf"), [],
    {}, [[]], [0] * 1000, {"node": "stack"}, {"node": "architecture"}, {"": 0}, *_TEXTS,
)  # fmt: skip
_MOST = 4  # changes of one thing


def mutated_text(text: str, others: list[str], rng: Random) -> str:
    """A text with a few things changed.

    Args:
        text: What to change.
        others: Texts to take pieces from.
        rng: All chance.
    """
    for _ in range(_few(rng)):
        if rng.random() < 0.3:
            text = _other_number(text, rng)
            continue
        start = rng.randrange(len(text) + 1)
        end = min(len(text), start + rng.choice((0, 1, 1, 2, 5, 20)))
        text = text[:start] + _other_piece(text[start:end], others, rng) + text[end:]
    return text


def _few(rng: Random) -> int:
    """How many changes: one, more often than not."""
    return 1 if rng.random() < 0.6 else rng.randint(2, _MOST)


def _other_piece(piece: str, others: list[str], rng: Random) -> str:
    """What stands in the place of a piece of text."""
    match rng.randrange(8):
        case 0:
            return ""
        case 1:
            return piece * rng.choice((2, 3, 50))
        case 2:
            return rng.choice("()[]{}=,|x \n\"'\\:0123456789sfcmi") + piece
        case 3:
            other = rng.choice(others)
            at = rng.randrange(len(other) + 1)
            return other[at : at + rng.randrange(60)]
        case 4:
            return rng.choice(_NUMBERS)
        case 5:
            return rng.choice(_TEXTS)
        case 6:
            return rng.choice(("(", "[", "{", '{"a":', "s(")) * rng.choice((3, 80, 3000))
    return chr(rng.randrange(0x110000))


def _other_number(text: str, rng: Random) -> str:
    """The text with another number in the place of one of its own."""
    places = [i for i, letter in enumerate(text) if letter.isdigit()]
    if not places:
        return text
    start = end = rng.choice(places)
    while end < len(text) and text[end].isdigit():
        end += 1
    return text[:start] + rng.choice(_NUMBERS) + text[end:]


def mutated_json(document: Any, rng: Random) -> str:
    """A JSON document with a few values, keys or levels changed, as text."""
    document = _copied(document)
    for _ in range(_few(rng)):
        holders = _holders(document)
        if not holders or len(holders) > 20_000:
            break
        _change(rng.choice(holders), holders, rng)
    try:
        return json.dumps(document)
    except (RecursionError, ValueError):  # deeper than Python writes, or longer numbers
        return '{"formwright": 1, "architecture": ' + "[" * 5000


def _change(holder: Any, holders: list[Any], rng: Random) -> None:
    """Change one value, key or level of an object or array."""
    key = rng.choice(list(holder) if isinstance(holder, dict) else range(len(holder)))
    match rng.randrange(8):
        case 0:
            del holder[key]
        case 1 if isinstance(holder, dict):
            holder[rng.choice(_TEXTS)] = holder.pop(key)
        case 2:
            other = rng.choice(holders)
            values = list(other.values()) if isinstance(other, dict) else other
            holder[key] = _copied(rng.choice(values))  # nothing may hold itself
        case 3:
            deep: Any = holder[key]
            for _ in range(rng.choice((2, 60, 500))):
                deep = [deep] if rng.random() < 0.5 else {"node": "stack", "layers": [deep]}
            holder[key] = deep
        case 4 if isinstance(holder, list):
            holder.extend(_copied(holder) * rng.choice((1, 3, 100)))
        case 5 | 6 if type(holder[key]) in (int, float):
            holder[key] = rng.choice((0, 1, 2, 3, 7, 8, 16, 64, 65, 1000, -1, 10**9, 0.5))
        case _:
            holder[key] = _copied(rng.choice(_VALUES))  # or all documents would share it


def _copied(value: Any) -> Any:
    """A copy of JSON; of what is too deep to be copied, nothing."""
    try:
        return json.loads(json.dumps(value))
    except (RecursionError, ValueError):
        return []


def _holders(document: Any) -> list[Any]:
    """Every object and array of a document that is not empty."""
    found, waiting = [], [document]
    while waiting:
        item = waiting.pop()
        if isinstance(item, dict | list) and item:
            found.append(item)
            waiting.extend(item.values() if isinstance(item, dict) else item)
    return found


def mutated_bytes(content: bytes, rng: Random) -> bytes:
    """The content of a file as a bad disk, or a stranger, would leave it."""
    if not content:
        return rng.randbytes(8)
    start = rng.randrange(len(content))
    size = rng.choice((1, 1, 1, 4, 64, 4096))
    match rng.randrange(6):
        case 0:
            return content[:start]
        case 1:
            zeros = bytes(min(size, len(content) - start))
            return content[:start] + zeros + content[start + size :]
        case 2:
            return content[:start] + rng.randbytes(size) + content[start + size :]
        case 3:
            return content[:start] + rng.randbytes(size) + content[start:]
        case _:  # one bit
            flipped = bytearray(content)
            flipped[start] ^= 1 << rng.randrange(8)
            return bytes(flipped)
