"""A strategy of one's own: asked for the next trial, told of all that have ended."""

import sys

import formwright as fw
from formwright.strategy.blackbox import Strategy, strategy


@strategy("climb")
class Climb(Strategy):
    """Change the best that is known; begin anew at every tenth trial."""

    def ask(self, number, pending=()):
        if not self.trials or number % 10 == 0:
            return self.drawn(number, pending)
        return self.mutated(self.ordered(self.trials)[0], self.rng(number), pending)


if __name__ == "__main__":
    out = sys.argv[1] if len(sys.argv) > 1 else "runs/own-strategy"
    free = {
        "estimator": "decoder_params",
        "cost": "flops",
        "trials": 20,
        "budget": None,
    }  # no training
    found = fw.search("stdlib?length=32", strategy="climb", out=out, **free)
    print({trial.origin for trial in found.trials}, len(found.front))
