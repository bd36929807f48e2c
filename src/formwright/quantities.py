"""Numbers as people write them: ``5ms``, ``30m``, ``10M``."""

from formwright.errors import InputError

_TIMES = {"ms": 1e-3, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86_400.0}
_LATENCIES = {"ms": 1.0, "us": 1e-3, "s": 1e3}
_AMOUNTS = {"k": 1e3, "K": 1e3, "M": 1e6, "G": 1e9, "B": 1e9, "T": 1e12}
Quantity = str | int | float


def seconds(text: Quantity) -> float:
    """``90s``, ``5m`` or ``1h`` as seconds; a plain number is one of seconds.

    >>> seconds("5m"), seconds(90)
    (300.0, 90.0)
    """
    found = _read(text, _TIMES, 1e9)
    if found is None:
        raise InputError(f"{text!r} is no length of time; write for example 90s, 5m or 1h.")
    return found


def milliseconds(text: Quantity) -> float:
    """``5ms`` or ``0.1s`` as milliseconds; a plain number is one of milliseconds.

    >>> milliseconds("0.1s")
    100.0
    """
    return _needed(text, _LATENCIES, "5ms")


def amount(text: Quantity) -> float:
    """``10M`` or ``2G`` as a number.

    >>> amount("10M")
    10000000.0
    """
    return _needed(text, _AMOUNTS, "10M")


def _needed(text: Quantity, units: dict[str, float], example: str) -> float:
    found = _read(text, units, 1e18)
    if found is None:
        raise InputError(f"{text!r} is no quantity above 0; write for example {example}.")
    return found


def _read(text: Quantity, units: dict[str, float], most: float) -> float | None:
    """The number, if it is one above 0 and below ``most``."""
    words = text if isinstance(text, str) else str(float(text))
    unit = max((u for u in units if words.endswith(u)), key=len, default="")
    try:
        found = float(words.removesuffix(unit)) * units.get(unit, 1.0)
    except ValueError:
        return None
    return found if 0 < found < most else None
