"""LiteTransformerSearch's proxy, decoder parameters, inside the surrogate strategy: no training."""

import sys

from formwright.estimate import Counted
from formwright.execute import search
from formwright.space import named_space
from formwright.study import Study
from formwright.trial import Objective

objectives = [Objective("decoder_params", "max"), Objective("flops", "min")]
folder = sys.argv[1] if len(sys.argv) > 1 else "runs/proxy"
study = Study.create(
    folder, space=named_space("lts-gpt2"), objectives=objectives, strategy="surrogate"
)
search(study, Counted(length=192), trials=60)
for trial in study.front[:5]:
    print(trial.number, f"{trial.values['decoder_params']:.3g}", study.notation(trial.number)[:60])
