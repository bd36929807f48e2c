"""Three published models side by side: described, drawn, built and measured on this machine.

    python examples/par.py

The models are Transformer-XL base, its sandwich reordering, and PAR, which
keeps 6 of 16 attentions and was published as equally good and 0.65 times as slow.
"""

import formwright as fw
from formwright.cost import Meter, Target
from formwright.draw import compare_text

MODELS = ("transformer-xl-base", "sandwich-base", "par-base")
NEW, REMEMBERED = 64, 640  # tokens, as PAR was measured
TARGET = Target(length=NEW, past=REMEMBERED)  # one thread: steadier where others work too
SECONDS = 8.0
PUBLISHED_MS = {"transformer-xl-base": 15.2, "sandwich-base": 15.2, "par-base": 9.9}


def main() -> None:
    """Describe, draw, build, measure."""
    archs = {name: fw.zoo.get(name).build() for name in MODELS}
    print("Three Transformers of the same depth and width, one cell per layer:\n")
    print(compare_text(archs))
    print(f"\n{'':22}{'parameters':>14}{'GFLOPs':>10}   id")
    for name, arch in archs.items():
        counts = fw.count(arch, length=NEW, past=REMEMBERED)
        print(f"{name:22}{counts.params:14,}{counts.flops / 1e9:10.1f}   {fw.arch_id(arch)}")

    print(f"\nBuilding them and reading {NEW} new tokens after {REMEMBERED} remembered ones ...")
    base = MODELS[0]
    meter = Meter(TARGET, archs[base])
    print(f"\n{'':22}{'ms here':>10}{'ratio here':>20}{'ratio published':>18}")
    for name in MODELS:
        published = PUBLISHED_MS[name] / PUBLISHED_MS[base]
        if name == base:
            milliseconds, spread = meter.reference_ms, "1"
        else:
            found = meter.measure(archs[name], seconds=SECONDS)
            milliseconds = found.ms
            spread = f"{found.ratio:.2f} ({found.low:.2f}-{found.high:.2f})"
        print(f"{name:22}{milliseconds:10.0f}{spread:>20}{published:>18.2f}")
    print("\nNext: .venv/bin/formwright zoo")
    print('      .venv/bin/formwright describe "(sfff)x6(f)x8" --svg par.svg')


if __name__ == "__main__":
    main()
