"""Numbers and names as people read them."""

from math import floor, isfinite, log10

from formwright.trial import FINAL_RUNG, SIMPLER_RUNG, Objective


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


# What a value is called where its own name would not say it, and its unit.
_NAMES = {
    "latency": ("latency", "ms"),
    "params": ("parameters", ""),
    "decoder_params": ("parameters without embeddings", ""),
    "flops": ("FLOPs of one call", ""),
    "memory": ("peak memory", "bytes"),
    "latency_ratio": ("latency", "times the reference"),
    "step_seconds": ("processor time of a step", "s"),
    "train_seconds": ("training", "s"),
    "seconds": ("cost", "s"),
    "tokens_per_second": ("training speed", "tokens/s"),
    "processor_share": ("share of a processor", ""),
    "rate": ("factor of the rate", ""),
    "slope": ("gain of the last doubling of steps", ""),
    "slope_error": ("its standard error", ""),
    "steps": ("training steps", ""),
    "epochs": ("passes over the data", ""),
    "agreement": ("answers as the teacher's", ""),
}
_SUFFIXES = {"ms": "ms", "s": "s", "bytes": "bytes", "mib": "MiB", "gib": "GiB"}
_ENDS = {"_low": ", lower end", "_high": ", upper end"}


def readable(name: str) -> str:
    """The name of a value with its unit: latency becomes latency (ms)."""
    for end, words in _ENDS.items():
        if name.endswith(end) and len(name) > len(end):
            stem, unit = _parts(name.removesuffix(end))
            return f"{stem}{words}" + (f" ({unit})" if unit else "")
    stem, unit = _parts(name)
    return f"{stem} ({unit})" if unit else stem


def plain_name(name: str) -> str:
    """The name of a value without its unit, for a sentence that says the unit elsewhere."""
    return _parts(name)[0]


def measured(name: str, value: float, digits: int = 4) -> str:
    """A value with its unit: 5.828 ms, 469.9k, 12 MiB."""
    unit = _parts(name)[1]
    if unit == "bytes":
        return size_words(value)
    return f"{figure(value, digits)} {unit}".rstrip()


def size_words(count: float) -> str:
    """Bytes as people say them: 12.3 MiB."""
    for power, unit in ((3, "GiB"), (2, "MiB"), (1, "KiB")):
        if abs(count) >= 1024**power:
            return f"{count / 1024**power:.1f} {unit}"
    return f"{count:.0f} bytes"


def between(low: float, high: float) -> str:
    """The ends of an interval, to as many digits as tell them apart."""
    digits = 4
    while digits < 7 and low != high and figure(low, digits) == figure(high, digits):
        digits += 1
    return f"{figure(low, digits)} to {figure(high, digits)}"


def _parts(name: str) -> tuple[str, str]:
    if name in _NAMES:
        return _NAMES[name]
    stem, _, unit = name.rpartition("_")
    if stem and unit in _SUFFIXES:
        return stem.replace("_", " "), _SUFFIXES[unit]
    return name.replace("_", " "), ""


def share_words(share: float) -> str:
    """A share as people say it: 36.4 %, under 0.1 %, nothing."""
    if share <= 0:
        return "nothing"
    return "under 0.1 %" if share < 0.001 else f"{100 * share:.1f} %"


def stage(rung: int) -> str:
    """What the trials of a rung are called."""
    if rung >= FINAL_RUNG:
        return "finals"
    return "simplifying the winner" if rung == SIMPLER_RUNG else f"stage {rung}"


def wish(objective: Objective) -> str:
    """Which way is better."""
    return "smaller is better" if objective.direction == "min" else "larger is better"


def _digits(value: float, digits: int) -> str:
    """To so many digits, of which the part before the point is never cut."""
    before = floor(log10(abs(value))) + 1 if value else 1
    return f"{value:.{max(0, digits - before)}f}"
