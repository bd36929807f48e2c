"""How fast is each attention mechanism, and how does it grow with length?

    python benchmarks/operators.py            # lengths 512 to 8192, ten to fifteen minutes
    python benchmarks/operators.py --quick    # lengths 512 to 2048, about two minutes

Every mechanism runs inside the same layer (width 512, 8 heads, batch 1, bias-free projections) on
one thread; times are processor time, which on one thread is what a clock shows when the machine is
idle. All contenders of a length take turns, so a slow moment of the machine hits them alike; what
is compared is the median over rounds of the ratio within a round. Public implementations run
with the same projections around them. Results go to ``benchmarks/results/``.
"""

import importlib.metadata
import math
import os
import platform
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

os.environ.setdefault("KINETO_LOG_LEVEL", "99")  # the memory profiler chats otherwise

import torch
import torch.nn.functional as F
from harness import Parts, arguments, results
from torch import Tensor, nn

from formwright.ops.attention import kernels

WIDTH, HEADS = 512, 8
HEAD = WIDTH // HEADS
SLOTS, FAVOR_FEATURES, LOCAL_BLOCK, CHUNK = 16, 256, 64, 64
ROUNDS = {512: 11, 1024: 9, 2048: 9, 4096: 7, 8192: 3}

Kernel = Callable[[Tensor, Tensor, Tensor], Tensor]


# ------------------------------------------------------------------------------- the contenders


def split_heads(x: Tensor) -> Tensor:
    return x.unflatten(-1, (HEADS, HEAD)).transpose(1, 2)


class Layer(nn.Module):
    """Four bias-free projections around a kernel; three when queries and keys are shared."""

    def __init__(self, kernel: Kernel, *, shared_qk: bool = False) -> None:
        super().__init__()
        names = ["query", "value", "out"] if shared_qk else ["query", "key", "value", "out"]
        self.projections = nn.ModuleDict({n: nn.Linear(WIDTH, WIDTH, bias=False) for n in names})
        self.kernel = kernel

    def forward(self, x: Tensor) -> Tensor:
        heads = {
            name: split_heads(projection(x))
            for name, projection in self.projections.items()
            if name != "out"
        }
        out = self.kernel(heads["query"], heads.get("key", heads["query"]), heads["value"])
        return self.projections["out"](out.transpose(1, 2).flatten(2))


class Public(nn.Module):
    """A public attention module that lacks the output projection, plus that projection."""

    def __init__(self, attention: nn.Module, call: Callable[[nn.Module, Tensor], Tensor]) -> None:
        super().__init__()
        self.attention, self.call = attention, call
        self.out = nn.Linear(WIDTH, WIDTH, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.out(self.call(self.attention, x))


def ours_bigbird(n: int) -> nn.Module:
    plan = kernels.random_plan(n, HEADS, seed=0)
    return Layer(partial(kernels.bigbird_attention, plan=plan))


class LinformerLayer(nn.Module):
    """Length first, width second: the key and value weights only meet the slots."""

    def __init__(self, n: int) -> None:
        super().__init__()
        names = ["query", "key", "value", "out"]
        self.projections = nn.ModuleDict({n: nn.Linear(WIDTH, WIDTH, bias=False) for n in names})
        self.slots = nn.ParameterDict(
            {name: torch.randn(n, SLOTS) / math.sqrt(n) for name in ("key", "value")}
        )

    def forward(self, x: Tensor) -> Tensor:
        q = split_heads(self.projections["query"](x))
        k, v = (
            split_heads(self.projections[name](kernels.project_length(x, self.slots[name])))
            for name in ("key", "value")
        )
        out = kernels.slot_attention(q, k, v)
        return self.projections["out"](out.transpose(1, 2).flatten(2))


def ours_favor(n: int) -> nn.Module:
    features = kernels.orthogonal_features(FAVOR_FEATURES, HEAD, torch.Generator().manual_seed(0))
    return Layer(partial(kernels.performer_favor_attention, projection=features))


def bucket_factors(n: int) -> tuple[int, int]:
    """About two buckets per chunk, as a product of two powers of two (transformers' rule)."""
    power = (2 * n // CHUNK).bit_length() - 1
    return 2 ** (power // 2), 2 ** (power - power // 2)


def ours_reformer(n: int) -> nn.Module:
    rotations = kernels.lsh_rotations(HEAD, bucket_factors(n), torch.Generator().manual_seed(0))

    def kernel(q: Tensor, _: Tensor, v: Tensor) -> Tensor:
        return kernels.reformer_attention(q, v, rotations=rotations, chunk_length=CHUNK)

    return Layer(kernel, shared_qk=True)


def ours_reformer_lra(n: int) -> nn.Module:
    rotations = kernels.lsh_rotations(HEAD, 10, torch.Generator().manual_seed(0))

    def kernel(q: Tensor, _: Tensor, v: Tensor) -> Tensor:
        return kernels.reformer_lra_attention(q, v, rotations=rotations)

    return Layer(kernel, shared_qk=True)


def ours_synthesizer(n: int) -> nn.Module:
    left = nn.Parameter(torch.randn(HEADS, n, 32) / 8)
    right = nn.Parameter(torch.randn(HEADS, 32, n) / 8)
    return Layer(partial(kernels.synthesizer_attention, left=left, right=right))


def hf_longformer(n: int) -> nn.Module:
    from transformers import LongformerConfig
    from transformers.models.longformer.modeling_longformer import LongformerSelfAttention

    config = LongformerConfig(
        hidden_size=WIDTH,
        num_attention_heads=HEADS,
        attention_window=[512],
        attention_probs_dropout_prob=0.0,
    )
    nothing = torch.zeros(1, n, dtype=torch.bool)

    def call(attention: nn.Module, x: Tensor) -> Tensor:
        return attention(
            x,
            attention_mask=torch.zeros(1, n),
            is_index_masked=nothing,
            is_index_global_attn=nothing,
            is_global_attn=False,
        )[0]

    return Public(LongformerSelfAttention(config, 0), call)


def hf_bigbird(n: int) -> nn.Module:
    from transformers import BigBirdConfig
    from transformers.models.big_bird.modeling_big_bird import (
        BigBirdBlockSparseAttention,
        BigBirdModel,
    )

    config = BigBirdConfig(
        hidden_size=WIDTH,
        num_attention_heads=HEADS,
        max_position_embeddings=n,
        attention_probs_dropout_prob=0.0,
        use_bias=False,
    )
    masks = BigBirdModel.create_masks_for_block_sparse_attn(torch.ones(1, n), 64)
    blocked, band, rows, columns = masks

    def call(attention: nn.Module, x: Tensor) -> Tensor:
        return attention(x, band, rows, columns, blocked, blocked)[0]

    return Public(BigBirdBlockSparseAttention(config, seed=0), call)


def hf_reformer(n: int) -> nn.Module:
    from transformers import ReformerConfig
    from transformers.models.reformer.modeling_reformer import LSHSelfAttention

    config = ReformerConfig(
        hidden_size=WIDTH,
        num_attention_heads=HEADS,
        attention_head_size=HEAD,
        lsh_attn_chunk_length=CHUNK,
        num_hashes=1,
        num_buckets=list(bucket_factors(n)),
        is_decoder=False,
        lsh_attention_probs_dropout_prob=0.0,
    )
    return Public(LSHSelfAttention(config), lambda attention, x: attention(x).hidden_states)


def performer_relu(n: int) -> nn.Module:
    from performer_pytorch.performer_pytorch import generalized_kernel, linear_attention

    features = partial(generalized_kernel, projection_matrix=None, normalize_data=False)
    return Layer(lambda q, k, v: linear_attention(features(q), features(k), v))


def performer_favor(n: int) -> nn.Module:
    from performer_pytorch import FastAttention

    return Layer(FastAttention(HEAD, nb_features=FAVOR_FEATURES))


def linformer(n: int) -> nn.Module:
    from linformer import LinformerSelfAttention

    return LinformerSelfAttention(WIDTH, n, k=SLOTS, heads=HEADS)


def local_attention(n: int) -> nn.Module:
    from local_attention import LocalAttention

    attention = LocalAttention(LOCAL_BLOCK, look_backward=0, look_forward=0, autopad=True)
    return Layer(attention)


def linear_attention_transformer(n: int) -> nn.Module:
    from linear_attention_transformer.linear_attention_transformer import linear_attn

    return Layer(linear_attn)


@dataclass(frozen=True)
class Mechanism:
    """One line of the table: what we built, what it is measured against, what it must reach."""

    name: str
    build: Callable[[int], nn.Module]
    public: Callable[[int], nn.Module] | None = None
    package: str = ""
    exponent: float | None = None  # the growth allowed from 2048 to 8192; None: quadratic


def simple(kernel: Kernel) -> Callable[[int], nn.Module]:
    return lambda n: Layer(kernel)


def square_root_blocks(n: int) -> nn.Module:
    return Layer(partial(kernels.sparse_attention, block=math.isqrt(n - 1) + 1))


DENSE = Mechanism("dense", simple(F.scaled_dot_product_attention))
MECHANISMS = (
    Mechanism("bigbird", ours_bigbird, hf_bigbird, "transformers", 1.25),
    Mechanism(
        "linear",
        simple(kernels.linear_attention),
        linear_attention_transformer,
        "linear-attention-transformer",
        1.25,
    ),
    Mechanism("linformer", LinformerLayer, linformer, "linformer", 1.25),
    Mechanism(
        "local",
        simple(partial(kernels.local_attention, block=LOCAL_BLOCK)),
        local_attention,
        "local-attention",
        1.25,
    ),
    Mechanism(
        "longformer", simple(kernels.longformer_attention), hf_longformer, "transformers", 1.25
    ),
    Mechanism(
        "performer-relu",
        simple(kernels.performer_relu_attention),
        performer_relu,
        "performer-pytorch",
        1.25,
    ),
    Mechanism("performer-favor", ours_favor, performer_favor, "performer-pytorch", 1.25),
    Mechanism("reformer", ours_reformer, hf_reformer, "transformers", 1.25),
    Mechanism("sparse-sqrt", square_root_blocks, exponent=1.65),
    Mechanism("sparse-50", simple(kernels.sparse_attention)),
    Mechanism("reformer-lra", ours_reformer_lra),
    Mechanism("synthesizer", ours_synthesizer),
)


# ------------------------------------------------------------------------------------ measuring


@dataclass
class Series:
    """What one contender took at one length, a value per round."""

    forward: list[float] = field(default_factory=list)  # milliseconds
    both: list[float] = field(default_factory=list)  # forward and backward, milliseconds
    peak_bytes: int = 0  # of forward and backward, beyond parameters and input


def milliseconds(action: Callable[[], object]) -> float:
    start = time.process_time()  # of this process: what the machine does besides does not count
    action()
    return (time.process_time() - start) * 1e3


def forward(layer: nn.Module, x: Tensor) -> None:
    with torch.no_grad():
        layer(x)


def forward_backward(layer: nn.Module, x: Tensor, weight: Tensor) -> None:
    x.grad = None
    layer.zero_grad()
    layer(x).backward(weight)


def peak_bytes(action: Callable[[], object]) -> int:
    """The highest sum of what torch's allocator handed out while ``action`` ran."""
    with torch.profiler.profile(profile_memory=True) as profile:
        action()
    results = profile.profiler.kineto_results  # type: ignore[union-attr]
    changes = [
        (event.start_ns(), event.nbytes())
        for event in results.events()
        if event.name() == "[memory]"
    ]
    held = peak = 0
    for _, change in sorted(changes):
        held += change
        peak = max(peak, held)
    return peak


def measure(layers: dict[str, nn.Module], n: int, rounds: int) -> dict[str, Series]:
    """Let all layers take turns; the first turn only warms up and counts memory."""
    generator = torch.Generator().manual_seed(n)
    x = torch.randn(1, n, WIDTH, generator=generator).requires_grad_()
    weight = torch.randn(1, n, WIDTH, generator=generator)
    series = {name: Series() for name in layers}
    for name, layer in layers.items():
        forward(layer, x)
        forward_backward(layer, x, weight)
        series[name].peak_bytes = peak_bytes(partial(forward_backward, layer, x, weight))
    turns = list(layers.items())
    for number in range(rounds):
        # Every other round runs backwards, so that nobody always follows the same neighbour.
        for name, layer in turns if number % 2 else reversed(turns):
            series[name].forward.append(milliseconds(partial(forward, layer, x)))
            series[name].both.append(milliseconds(partial(forward_backward, layer, x, weight)))
    return series


def ratio(mine: Sequence[float], other: Sequence[float]) -> float:
    return statistics.median(a / b for a, b in zip(mine, other, strict=True))


def exponent(times: dict[int, float]) -> float:
    """Slope of log time over log length, by least squares."""
    points = [(math.log(n), math.log(ms)) for n, ms in times.items()]
    mean_x, mean_y = (statistics.fmean(axis) for axis in zip(*points, strict=True))
    spread = sum((x - mean_x) ** 2 for x, _ in points)
    return sum((x - mean_x) * (y - mean_y) for x, y in points) / spread


def missing_packages() -> set[str]:
    """Packages of public implementations that cannot be imported here, named with the remedy."""
    missing = set()
    for mechanism in MECHANISMS:
        if mechanism.public is None or mechanism.package in missing:
            continue
        try:
            mechanism.public(512)
        except ImportError as error:
            missing.add(mechanism.package)
            print(f"{mechanism.package} is not installed ({error}); its columns stay empty.")
            print(f"  pip install torch=={torch.__version__} {mechanism.package}")
    return missing


def run(lengths: Sequence[int], chosen: Sequence[Mechanism]) -> Iterator[dict[str, Any]]:
    """One record per mechanism and length, measured length by length."""
    missing = missing_packages()
    for n in lengths:
        layers = {"dense": DENSE.build(n)}
        for mechanism in chosen:
            layers[mechanism.name] = mechanism.build(n)
            if mechanism.public and mechanism.package not in missing:
                layers[f"{mechanism.name}/public"] = mechanism.public(n)
        series = measure(layers, n, ROUNDS[n])
        for mechanism in (DENSE, *chosen):
            yield record(mechanism, n, series)


def record(mechanism: Mechanism, n: int, series: dict[str, Series]) -> dict[str, Any]:
    mine, dense = series[mechanism.name], series["dense"]
    public = series.get(f"{mechanism.name}/public")
    return {
        "mechanism": mechanism.name,
        "length": n,
        "forward_ms": statistics.median(mine.forward),
        "forward_backward_ms": statistics.median(mine.both),
        "peak_mib": mine.peak_bytes / 2**20,
        "forward_over_dense": ratio(mine.forward, dense.forward),
        "forward_backward_over_dense": ratio(mine.both, dense.both),
        "forward_over_public": public and ratio(mine.forward, public.forward),
        "forward_backward_over_public": public and ratio(mine.both, public.both),
        "peak_over_public": public and mine.peak_bytes / public.peak_bytes,
    }


# ---------------------------------------------------------------------------------- the reports


def cell(value: float | None, width: int, digits: int = 2) -> str:
    return f"{'-':>{width}}" if value is None else f"{value:>{width}.{digits}f}"


HEADER = (
    "                         milliseconds        MiB   ours / dense   ours / public     peak\n"
    "mechanism       length   fwd   fwd+bwd      peak   fwd  fwd+bwd   fwd  fwd+bwd  /public"
)


def row(r: dict[str, Any]) -> str:
    return (
        f"{r['mechanism']:<16}{r['length']:>6}{r['forward_ms']:>8.1f}"
        f"{r['forward_backward_ms']:>9.1f}{r['peak_mib']:>10.0f}"
        + cell(r["forward_over_dense"], 7)
        + cell(r["forward_backward_over_dense"], 8)
        + cell(r["forward_over_public"], 8)
        + cell(r["forward_backward_over_public"], 8)
        + cell(r["peak_over_public"], 9)
    )


@dataclass(frozen=True)
class Growth:
    mechanism: str
    forward: float
    both: float
    allowed: float | None

    def __str__(self) -> str:
        worst = max(self.forward, self.both)
        verdict = "quadratic by definition"
        if self.allowed is not None:
            verdict = f"below {self.allowed}: {'yes' if worst < self.allowed else 'NO'}"
        return f"{self.mechanism:<16}{self.forward:>8.2f}{self.both:>9.2f}   {verdict}"


def growths(records: Sequence[dict[str, Any]], lengths: Sequence[int]) -> list[Growth]:
    found = []
    for mechanism in (DENSE, *MECHANISMS):
        rows = {
            r["length"]: r
            for r in records
            if r["mechanism"] == mechanism.name and r["length"] in lengths
        }
        if len(rows) < 2:
            continue
        slopes = [
            exponent({n: r[key] for n, r in rows.items()})
            for key in ("forward_ms", "forward_backward_ms")
        ]
        found.append(Growth(mechanism.name, slopes[0], slopes[1], mechanism.exponent))
    return found


COLOURS = (
    "#000000", "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#8c564b",
    "#7f7f7f", "#17becf", "#bcbd22", "#9467bd", "#2ca02c",
)  # fmt: skip


def plot(records: Sequence[dict[str, Any]]) -> str:
    """Time over length on two logarithmic axes, as SVG."""
    width, height, left, top, right, bottom = 760, 460, 70, 40, 170, 50
    lengths = sorted({r["length"] for r in records})
    times = [r["forward_backward_ms"] for r in records]
    low = 10 ** math.floor(math.log10(min(times)))
    high = 10 ** math.ceil(math.log10(max(times)))

    def place(n: float, ms: float) -> tuple[float, float]:
        across = math.log(n / lengths[0]) / max(math.log(lengths[-1] / lengths[0]), 1e-9)
        up = math.log(ms / low) / math.log(high / low)
        return (
            left + across * (width - left - right),
            height - bottom - up * (height - top - bottom),
        )

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
        'font-family="sans-serif" font-size="12">',
        f'<rect width="{width}" height="{height}" fill="white"/>',
        f'<text x="{left}" y="24" font-size="14">Forward and backward of one attention layer, '
        f"width {WIDTH}, {HEADS} heads, one thread</text>",
    ]
    for n in lengths:
        x, y = place(n, low)
        parts.append(f'<path d="M{x:.1f} {top}V{y:.1f}" stroke="#ddd"/>')
        parts.append(f'<text x="{x:.1f}" y="{y + 18:.1f}" text-anchor="middle">{n}</text>')
    ms = low
    while ms <= high:
        x, y = place(lengths[0], ms)
        parts.append(f'<path d="M{x:.1f} {y:.1f}H{width - right}" stroke="#ddd"/>')
        parts.append(f'<text x="{x - 8:.1f}" y="{y + 4:.1f}" text-anchor="end">{ms:g} ms</text>')
        ms *= 10
    parts.append(f'<text x="{left}" y="{height - 10}">length (tokens)</text>')
    names = list(dict.fromkeys(r["mechanism"] for r in records))
    ends = sorted(names, key=lambda name: -max(
        r["forward_backward_ms"] for r in records if r["mechanism"] == name))  # fmt: skip
    for number, name in enumerate(ends):
        colour = COLOURS[names.index(name) % len(COLOURS)]
        spots = [place(r["length"], r["forward_backward_ms"]) for r in records
                 if r["mechanism"] == name]  # fmt: skip
        line = "L".join(f"{x:.1f} {y:.1f}" for x, y in spots)
        parts.append(f'<path d="M{line}" fill="none" stroke="{colour}" stroke-width="1.8"/>')
        y = top + 14 + number * 20
        x = width - right + 14
        parts.append(f'<path d="M{x} {y - 4}h18" stroke="{colour}" stroke-width="3"/>')
        parts.append(f'<text x="{x + 24}" y="{y}">{name}</text>')
    return "\n".join([*parts, "</svg>", ""])


def environment() -> dict[str, Any]:
    packages = {}
    for name in ("torch", *sorted({m.package for m in MECHANISMS if m.package})):
        try:
            packages[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            packages[name] = None
    return {"python": platform.python_version(), "machine": platform.machine(),
            "cpu": torch.backends.cpu.get_cpu_capability(), "packages": packages}  # fmt: skip


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--quick", action="store_true", help="lengths up to 2048 only")
    parser.add_argument("--only", nargs="+", metavar="NAME", help="these mechanisms only")
    parser.add_argument("--lengths", nargs="+", type=int, choices=sorted(ROUNDS), metavar="N")
    folder = results("operators").parent
    parser.add_argument("--out", type=Path, default=folder, help="folder of the JSON and SVG")
    args = parser.parse_args()

    torch.manual_seed(0)
    lengths = args.lengths or [n for n in ROUNDS if n <= 2048 or not args.quick]
    chosen = [m for m in MECHANISMS if not args.only or m.name in args.only]
    records: list[dict[str, Any]] = []
    shown = None
    for found in run(lengths, chosen):
        if found["length"] != shown:
            shown = found["length"]
            print(f"\n{HEADER}", flush=True)
        print(row(found), flush=True)
        records.append(found)

    fitted = [n for n in lengths if n >= 2048] if max(lengths) > 2048 else lengths
    slopes = growths(records, fitted)
    print(f"\ngrowth exponent, length {min(fitted)} to {max(fitted)}\n")
    print("mechanism            fwd  fwd+bwd")
    for growth in slopes:
        print(growth)

    result = {
        "environment": environment(),
        "records": records,
        "exponents": {g.mechanism: {"forward": g.forward, "forward_backward": g.both}
                      for g in slopes},
    }  # fmt: skip
    Parts(args.out / "operators.json").replace(result)
    (args.out / "operators.svg").write_text(plot(records))
    print(f"\nWrote {args.out / 'operators.json'} and {args.out / 'operators.svg'}.")


if __name__ == "__main__":
    main()
