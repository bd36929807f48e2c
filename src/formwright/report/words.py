"""Numbers and names as people read them."""

from math import floor, isfinite, log10

from formwright.trial import Objective


def figure(value: float, digits: int = 4) -> str:
    """A number to a few digits: 4.073, 30.7, 142.3M, 1.2e-05."""
    if not isfinite(value):
        return str(value)
    size = abs(value)
    if size >= 1e15 or 0 < size < 1e-4:
        return f"{value:.{digits - 2}e}"
    for limit, unit in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e4, "k")):
        if size >= limit:
            scaled = value / (1e3 if unit == "k" else limit)
            return _digits(scaled, digits) + unit
    return str(int(value)) if value == int(value) else _digits(value, digits)


def duration(seconds: float) -> str:
    """How long: 4.2 ms, 12.3 s, 5 min, 3.4 h."""
    if seconds < 0.9995:
        return f"{seconds * 1e3:.3g} ms"
    for limit, unit in ((86_400.0, "days"), (3600.0, "h"), (60.0, "min")):
        if seconds >= 2 * limit:
            return f"{seconds / limit:.1f} {unit}"
    return f"{seconds:.1f} s"


def plural(count: int, noun: str) -> str:
    """1 trial, 2 trials."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def readable(name: str) -> str:
    """The name of a value: latency_ms becomes latency (ms)."""
    stem, _, unit = name.rpartition("_")
    if stem and unit in ("ms", "s", "bytes", "mib", "gib"):
        return f"{stem.replace('_', ' ')} ({ {'mib': 'MiB', 'gib': 'GiB'}.get(unit, unit) })"
    return name.replace("_", " ")


def wish(objective: Objective) -> str:
    """Which way is better."""
    return "smaller is better" if objective.direction == "min" else "larger is better"


def _digits(value: float, digits: int) -> str:
    """To so many digits, of which the part before the point is never cut."""
    before = floor(log10(abs(value))) + 1 if value else 1
    return f"{value:.{max(0, digits - before)}f}"
