"""Three published models side by side: described, drawn, built and measured on this machine.

Run with `make demo`. The models are Transformer-XL base, its sandwich reordering, and PAR, which
keeps 6 of 16 attentions and was published as equally good and 0.65 times as slow.
"""

import statistics
import time
from collections.abc import Callable, Mapping

import torch

import formwright as fw
from formwright.arch.draw import compare_text
from formwright.model import Model

MODELS = ("transformer-xl-base", "sandwich-base", "par-base")
NEW, REMEMBERED = 64, 640  # tokens, as PAR was measured
ROUNDS = 15
PUBLISHED_MS = {"transformer-xl-base": 15.2, "sandwich-base": 15.2, "par-base": 9.9}


def main() -> None:
    """Describe, draw, build, measure."""
    archs = {name: fw.zoo.get(name).build() for name in MODELS}
    torch.set_num_threads(1)  # steadier on a machine that does other things too
    print("Three Transformers of the same depth and width, one cell per layer:\n")
    print(compare_text(archs))
    print(f"\n{'':22}{'parameters':>14}{'GFLOPs':>10}   id")
    for name, arch in archs.items():
        counts = fw.count(arch, length=NEW, past=REMEMBERED)
        print(f"{name:22}{counts.params:14,}{counts.flops / 1e9:10.1f}   {fw.arch_id(arch)}")

    print(f"\nBuilding them and reading {NEW} new tokens after {REMEMBERED} remembered ones ...")
    steps = {name: one_step(fw.build(arch)) for name, arch in archs.items()}
    times = measured(steps)
    base = MODELS[0]
    print(f"\n{'':22}{'ms here':>10}{'ratio here':>14}{'ratio published':>18}")
    for name in MODELS:
        ratios = sorted(a / b for a, b in zip(times[name], times[base], strict=True))
        tail = len(ratios) // 5  # a fifth on each side is left out of the range shown
        low, middle, high = ratios[tail], statistics.median(ratios), ratios[-1 - tail]
        spread = f"{middle:.2f} ({low:.2f}-{high:.2f})" if name != base else "1"
        published = PUBLISHED_MS[name] / PUBLISHED_MS[base]
        print(f"{name:22}{statistics.median(times[name]):10.0f}{spread:>18}{published:>14.2f}")
    print("\nNext: .venv/bin/formwright zoo")
    print('      .venv/bin/formwright describe "(sfff)x6(f)x8" --svg par.svg')


def one_step(model: Model) -> Callable[[], None]:
    """A function that reads the new tokens once, from the same memory each time."""
    generator = torch.Generator().manual_seed(0)
    model.eval()

    def tokens(count: int) -> torch.Tensor:
        # mostly frequent words, as in a text: rare ones cost more in an adaptive softmax
        return torch.randint(19_000, (1, count), generator=generator)

    before, new, targets = tokens(REMEMBERED), tokens(NEW), tokens(NEW)

    @torch.no_grad()
    def step() -> None:
        past = remembered.copy()
        model.loss(new, targets, past=past)

    with torch.no_grad():
        remembered = fw.Past(limit=REMEMBERED)
        model.features(before, past=remembered)
    return step


def measured(steps: Mapping[str, Callable[[], None]]) -> dict[str, list[float]]:
    """Milliseconds of each step, all models in turn, so that a busy machine slows all alike."""
    times: dict[str, list[float]] = {name: [] for name in steps}
    for round_ in range(ROUNDS + 2):
        for name, step in steps.items():
            start = time.perf_counter()
            step()
            if round_ >= 2:  # the first rounds warm up
                times[name].append(1e3 * (time.perf_counter() - start))
    return times


if __name__ == "__main__":
    main()
