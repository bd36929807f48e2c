"""An objective of one's own: a function of the architecture, counted beside what is built in."""

import sys

import formwright as fw


@fw.objective("layers")
def layers(arch):
    """How many layers a model has."""
    return sum(len(stack.layers) for _, stack, _ in arch.stacks())


if __name__ == "__main__":
    goals = [fw.Objective("decoder_params", "max"), fw.Objective("layers", "min")]
    out = sys.argv[1] if len(sys.argv) > 1 else "runs/own-objective"
    free = {
        "estimator": "decoder_params",
        "cost": "flops",
        "trials": 20,
        "budget": None,
    }  # no training
    found = fw.search("stdlib?length=32", objectives=goals, out=out, **free)
    print(*(f"{t.values['decoder_params']:,.0f} in {t.values['layers']:.0f}" for t in found.front))
