"""Quality by training in two phases: most of it on short texts, the rest on long ones.

Paper: BERT, Devlin et al. 2018, https://arxiv.org/abs/1810.04805, trains nine tenths of its steps
on 128 tokens and the last ones on 512, which its later positions need.
"""

from dataclasses import dataclass

from formwright.arch import Architecture
from formwright.estimate.base import Work
from formwright.estimate.inherited import dropouts
from formwright.estimate.training import Training, known_task
from formwright.model import Model, build
from formwright.tasks import Task
from formwright.train import TrainConfig


@dataclass(frozen=True)
class Phased(Training):
    """Training that goes on from an earlier phase on another task, which it trains itself.

    The model has the longer frame from the beginning. The first phase is kept in ``first``, in the
    folder of the trial, and is not scored.

    Args:
        before: Task and numbers of the first phase; None leaves it out.
    """

    before: tuple[str, TrainConfig] | None = None

    def begun(self, work: Work, task: Task) -> Architecture | Model:
        arch = super().begun(work, task)
        if self.before is None or isinstance(arch, Model):
            return arch
        name, config = self.before
        model = build(arch.check(), seed=work.seed, **dropouts(config))
        numbers = config.replace(seed=work.seed, score_batches=0)
        stop = getattr(work, "stop", None)
        place = work.folder / "first"
        found, _ = self._train(model, known_task(name), numbers, place, stop=stop, loss=None)
        return found
