"""A space of one's own: an architecture with choices left open where a search may decide."""

import sys

import formwright as fw
from formwright.arch import Architecture, Attention, Decoder, FeedForward, Residual, Stack
from formwright.space import OneOf, Span, TreeSpace

attention = Residual(Attention(heads=OneOf("heads", (1, 2, 4))))
layers = [Residual(FeedForward(Span(f"inner{i}", 64, 256, 64))) for i in range(3)]
space = TreeSpace(Architecture(Stack((attention, *layers)), Decoder(64)), name="three widths")

if __name__ == "__main__":
    out = sys.argv[1] if len(sys.argv) > 1 else "runs/own-space"
    free = {
        "estimator": "decoder_params",
        "cost": "flops",
        "trials": 20,
        "budget": None,
    }  # no training
    found = fw.search("stdlib?length=32", space, out=out, **free)
    print(space.size(), "members;", found.notation(found.front[0].number))
