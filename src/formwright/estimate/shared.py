"""How good members are with the weights that they share in a trained supernet: no training at all.

Paper: single path one-shot, Guo et al. 2019, https://arxiv.org/abs/1904.00420, which lets an
evolution search a trained supernet so. Any black-box strategy can: a member takes as long as some
batches of validation data.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from formwright.estimate.base import Estimator, Work
from formwright.estimate.inherited import searched_supernet
from formwright.estimate.training import known_task
from formwright.supernet import Supernet


@dataclass(frozen=True)
class Shared(Estimator):
    """The scores of a member under the weights of a supernet.

    Args:
        task: Name of the task.
        folder: Of the supernet's search, with a checkpoint.
        batch_tokens: Positions of a batch.
        batches: Validation batches, evenly spread; None takes all.
        memory: Tokens that language models remember from batch to batch.
        prefix: Put in front of the name of each score.
    """

    task: str
    folder: str
    batch_tokens: int = 2048
    batches: int | None = None
    memory: int = 0
    prefix: str = ""

    def __call__(self, work: Work) -> Mapping[str, float]:
        supernet = _supernet(self.folder, _stamp(Path(self.folder)))
        with supernet.gated(work.trial.decisions):
            found = known_task(self.task).score(
                supernet,
                "valid",
                batch_tokens=self.batch_tokens,
                memory=self.memory or None,
                limit=self.batches,
                stop=getattr(work, "stop", None),
            )
        return {f"{self.prefix}{name}": value for name, value in found.items()}


@lru_cache(maxsize=2)
def _supernet(folder: str, stamp: str) -> Supernet:
    """A supernet is read once, as long as its last checkpoint is the same."""
    return searched_supernet(Path(folder)).eval()


def _stamp(folder: Path) -> str:
    return max((place.name for place in folder.glob("checkpoint-*")), default="")
