"""What a compiled program or formula takes beside the same layer written by hand.

    python benchmarks/programs.py [--rounds 30]

Training steps of both, in turns on one thread; the ratio is the median over rounds, in seconds of a
processor. Rows are appended to results/programs.json as they are done; rows that are there are not
measured again.
"""

import statistics
import time
from collections.abc import Callable
from functools import partial

import torch
from harness import Rows, arguments

from formwright.arch import (
    Architecture,
    Attention,
    Decoder,
    Embedding,
    FeedForward,
    Frame,
    LanguageModel,
    Layer,
    LayerNorm,
    PrimerNorm,
    Residual,
    Stack,
    primer_ez_program,
    primer_program,
    transformer_program,
)
from formwright.arch.graph import formulas
from formwright.model import Model, build

RESULTS = Rows("programs")
NORM = LayerNorm(eps=1e-6)
SIZES = ((64, 4, 256), (128, 4, 512), (192, 12, 768))
LENGTH, BATCH, LAYERS = 128, 8, 2


def pairs(width: int, heads: int, inner: int) -> dict[str, tuple[tuple[Layer, ...], ...]]:
    """Name to the layers written by hand, and as a graph."""
    plain = Residual(FeedForward(inner, "relu"), norm=NORM)
    squared = FeedForward(inner, "squared_relu")
    solo = Attention(heads, conv=3, query_key="solo", bias=False)
    found = {
        "transformer": (
            (Residual(Attention(heads, bias=False), norm=NORM), plain),
            (transformer_program(width, heads, inner),),
        ),
        "primer-ez": (
            (
                Residual(Attention(heads, conv=3, bias=False), norm=NORM),
                Residual(squared, norm=NORM),
            ),
            (primer_ez_program(width, heads, inner),),
        ),
        "primer": (
            (
                Residual(solo, norm=PrimerNorm()),
                Residual(squared, place="after", norm=PrimerNorm()),
            ),
            (primer_program(width, heads, inner),),
        ),
    }
    hand = (Residual(Attention(heads), norm=NORM), plain)
    formula = (Residual(formulas.standard(heads), norm=NORM), plain)
    return {**found, "standard formula": (hand, formula)}


def model(width: int, layers: tuple[Layer, ...]) -> Model:
    backbone = Decoder(width, Embedding(scale=True), norm=NORM, init="t5")
    frame = Frame(256, LENGTH, LanguageModel())
    return build(Architecture(Stack(layers * LAYERS), backbone, frame=frame), seed=0)


def step(made: Model, tokens: torch.Tensor) -> float:
    began = time.process_time()
    made(tokens).square().mean().backward()
    for parameter in made.parameters():
        parameter.grad = None
    return time.process_time() - began


def ratio(ours: Callable[[], float], theirs: Callable[[], float], rounds: int) -> float:
    for _ in range(3):
        ours(), theirs()
    return statistics.median(ours() / theirs() for _ in range(rounds))


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--rounds", type=int, default=30)
    rounds = parser.parse_args().rounds
    for width, heads, inner in SIZES:
        tokens = torch.randint(256, (BATCH, LENGTH))
        for name, (hand, graph) in pairs(width, heads, inner).items():
            if RESULTS.find({"name": name, "width": width}) is not None:
                continue
            by_hand, compiled = model(width, hand), model(width, graph)
            found = ratio(partial(step, compiled, tokens), partial(step, by_hand, tokens), rounds)
            RESULTS.add({"name": name, "width": width, "heads": heads, "ratio": round(found, 3)})


if __name__ == "__main__":
    main()
