"""The card of a model: what is known of it, as the README.md of its folder."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from formwright.arch import notation
from formwright.arch.counting import count
from formwright.export.source import Source
from formwright.files import write_atomically

# The library's names for what a model answers; pipelines are asked for by them.
PIPELINES = {
    "classify": "text-classification",
    "tag": "token-classification",
    "lm": "text-generation",
    "mlm": "fill-mask",
    "vectors": "feature-extraction",
}


def write_card(source: Source, folder: Path, name: str, *, alone: bool) -> None:
    """Write README.md.

    Args:
        source: What went out.
        folder: Where to.
        name: Its class in transformers.
        alone: Whether it needs no formwright.
    """
    parts = [_header(source), _about(source, name), _use(source, alone)]
    parts += [_measured(source.card), _found(source.card), _licence(source.card)]
    text = "\n\n".join(part for part in parts if part) + "\n"
    write_atomically(folder / "README.md", text.encode())


def _header(source: Source) -> str:
    """What the hub reads: licence, library and kind of task."""
    lines = ["---", "library_name: transformers"]
    if source.kind in PIPELINES:
        lines.append(f"pipeline_tag: {PIPELINES[source.kind]}")
    licence = str(source.card.get("licence") or "")
    known = licence and len(licence.split()) == 1  # a name, or words that stand below
    lines.append(f"license: {licence.lower() if known else 'other'}")
    return "\n".join([*lines, "---"])


def _about(source: Source, name: str) -> str:
    arch = source.model.arch
    params = sum(weight.numel() for weight in source.model.parameters())
    flops = count(arch, length=source.length).flops
    lines = [
        "# Model",
        "",
        f"A `{name}` with {params:,} parameters, {flops:,} FLOPs for a text of "
        f"{source.length} tokens.",
        "",
        f"    {notation(arch)}",
    ]
    if source.task is not None and source.task.get("task"):
        lines += ["", f"Trained for `{source.task['task']}`."]
    return "\n".join(lines)


def _use(source: Source, alone: bool) -> str:
    needs = "transformers" if alone else "formwright[hf]"
    lines = ["## Use", "", f"    pip install '{needs}'"]
    first = "" if alone else "import formwright.hf; "
    kind = PIPELINES.get(source.kind)
    call = f'pipeline("{kind}", "FOLDER")("a text")' if kind else ""
    if call:
        lines.append(f"    python -c '{first}from transformers import pipeline; print({call})'")
    lines.append('    formwright predict FOLDER "a text"')
    return "\n".join(lines)


def _measured(card: Mapping[str, Any]) -> str:
    lines = []
    interval = card.get("interval")
    for name, value in (card.get("scores") or {}).items():
        span = ""
        if interval is not None and name == card.get("metric"):
            span = f" (95 % interval {interval[0]:.4g} to {interval[1]:.4g})"
        shown = f"{value:.4g}" if isinstance(value, int | float) else str(value)
        lines.append(f"- {name}: {shown}{span}")
    latency = card.get("latency") or {}
    if latency:
        lines.append(f"- latency: {_listed(latency)}")
    return "\n".join(["## Measured", "", *lines]) if lines else ""


def _found(card: Mapping[str, Any]) -> str:
    known = [(key, card.get(key)) for key in ("found", "trained", "versions")]
    lines = [f"- {key}: {_listed(value)}" for key, value in known if value]
    return "\n".join(["## How it came about", "", *lines]) if lines else ""


def _licence(card: Mapping[str, Any]) -> str:
    licence = card.get("licence")
    return f"## Licence\n\n{licence}" if licence else "## Licence\n\nNothing is said about it."


def _listed(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{key} {_listed(inner)}" for key, inner in value.items())
    return f"{value:.4g}" if isinstance(value, float) else str(value)
