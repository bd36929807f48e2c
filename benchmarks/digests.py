"""Digests of what every search gives under a fixed seed, on a machine whose times are counted.

A refactoring must leave them as they are: run this before and after, and compare.

    python benchmarks/digests.py --out before.json
    python benchmarks/digests.py --compare before.json

Clocks are replaced by counts, so that latencies, and everything that follows from them, repeat.
"""

import argparse
import hashlib
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

import torch

from formwright.study import Study
from formwright.testing.clock import counted_clock

SEARCHES = {
    "usual": ["--cost", "flops", "--trials", "14", "--steps", "4", "--width", "32", "--set",
              "batch_tokens=256", "--set", "score_batches=2", "--workers", "1"],
    "usual-proxy": ["--cost", "params", "--estimator", "decoder_params", "--trials", "40",
                    "--workers", "1"],
    "lts": ["lts", "--preset", "smoke"],
    "par": ["par", "--preset", "smoke"],
    "par-fast": ["par-fast", "--preset", "smoke"],
    "fft": ["fft", "--preset", "smoke"],
    "fft-mini": ["fft-mini", "--preset", "smoke"],
    "dartformer": ["dartformer", "--preset", "smoke"],
    "dartformer-prune": ["dartformer-prune", "--preset", "smoke"],
    "dartformer-layers": ["dartformer-layers", "--preset", "smoke"],
    "dartformer-oneshot": ["dartformer-oneshot", "--preset", "smoke"],
}  # fmt: skip
# values that follow from a real clock
CLOCKED = ("seconds", "tokens_per_second", "step_seconds", "processor_share")


def main() -> None:
    """Run all searches and print, write or compare their digests."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, help="write the digests here")
    parser.add_argument("--compare", type=Path, help="digests to compare with")
    parser.add_argument("--only", nargs="*", default=list(SEARCHES))
    asked = parser.parse_args()
    torch.set_num_threads(1)
    with counted_clock():
        found = {name: digest(SEARCHES[name]) for name in asked.only}
    if asked.out:
        asked.out.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    before = json.loads(asked.compare.read_text(encoding="utf-8")) if asked.compare else {}
    for name, parts in found.items():
        for part, value in parts.items():
            known = before.get(name, {}).get(part)
            verdict = "" if known is None else "  same" if known == value else f"  WAS {known}"
            print(f"{name:20}{part:12}{value}{verdict}")
    if any(before.get(name, parts) != parts for name, parts in found.items()):
        sys.exit(1)


def digest(words: list[str]) -> dict[str, str]:
    """One search from its command to its files."""
    from formwright.cli.main import main as formwright

    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / "run"
        argv = ["search", *words, "--out", str(folder), "--json"]
        with open(Path(place) / "printed", "w", encoding="utf-8") as printed:
            stdout, typed, sys.stdout = sys.stdout, sys.argv, printed
            sys.argv = ["formwright", *argv]
            try:
                formwright()
            except SystemExit as ended:
                if ended.code:
                    raise
            finally:
                sys.stdout, sys.argv = stdout, typed
        study = Study.open(folder)
        trials = study.trials
        return {
            "trials": short([[t.arch, sorted(t.decisions.items()), t.state] for t in trials]),
            "values": short([sorted(kept(t.values).items()) for t in trials]),
            "strings": short([study.notation(t.number) for t in trials]),
            "weights": short(weights(folder)),
        }


def kept(values: Any) -> dict[str, float]:
    """What does not follow from a clock."""
    return {name: value for name, value in values.items() if name not in CLOCKED}


def weights(folder: Path) -> list[str]:
    """The trained weights that a search left, wherever they lie: only their bytes count."""
    models = folder.rglob("model.safetensors")
    return sorted(hashlib.sha256(path.read_bytes()).hexdigest() for path in models)


def short(value: Any) -> str:
    """The digest of a JSON value."""
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:16]


if __name__ == "__main__":
    main()
