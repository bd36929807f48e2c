"""A trained model that learns a task of the user's: its own tokeniser, its own weights.

The numbers are those that pre-trained encoders are tuned with (Devlin et al. 2018,
https://arxiv.org/abs/1810.04805): three times over the data, a rate that rises and falls in a
straight line. Lower layers learn more slowly (Howard and Ruder 2018,
https://arxiv.org/abs/1801.06146), and the weights that were best on the validation set are kept.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from formwright.arch import Architecture, Frame, Learned
from formwright.errors import InputError
from formwright.files import read_json
from formwright.model import Model, load_model, with_frame
from formwright.model.build import TASK
from formwright.tasks import Task, load_task
from formwright.tasks.examples import ExampleTask
from formwright.tasks.registry import option_names
from formwright.train import TrainConfig

_LARGEST = 1_000_000_000  # bytes of a file of JSON
_BATCH, _MOST_TOKENS = 16, 4096  # rows of a batch, and tokens
_EPOCHS, _LOOKS, _WARM = 3, 10, 0.06
_LOOKED = 0.03  # of the steps: batches of a look, so that all looks cost a tenth of the training
USUAL = TrainConfig(
    lr=3e-4,  # with the decay below it is 1e-4 to 2e-4 in most layers
    schedule="linear",
    weight_decay=0.01,
    betas=(0.9, 0.999),
    layer_decay=0.95,
    dropout=0.1,
    attention_dropout=0.1,
    keep_best=True,
    evaluate_every=1,
)


@dataclass(frozen=True)
class Tuning:
    """A model that is to learn a task.

    Args:
        folder: Of the model.
        model: It.
        task: Read with the model's tokeniser.
    """

    folder: Path
    model: Model
    task: Task

    @classmethod
    def of(cls, folder: Path, task: str, *, unsafe_pickle: bool = False) -> "Tuning":
        """A model's folder and a task, as long as the model can read."""
        model = load_model(folder, unsafe_pickle=unsafe_pickle)
        return cls(folder, model, task_for(task, folder, model.arch))

    def begun(self, config: TrainConfig, seed: int) -> Model:
        """The model with the task's head, new unless it is the same."""
        return with_frame(
            self.model,
            self.frame,
            seed=seed,
            dropout=config.dropout,
            attention_dropout=config.attention_dropout,
        )

    @property
    def frame(self) -> Frame:
        """The task's frame; a model may have more rows than its own tokeniser has symbols."""
        frame, most = self.task.frame, self.model.frame.vocab
        more = reads_own(self.task.name) and frame.vocab < most
        return frame.replace(vocab=most) if more else frame

    def config(
        self, steps: int | None, seconds: float | None, *, epochs: int = _EPOCHS
    ) -> TrainConfig:
        """The usual numbers, for so many epochs where neither steps nor seconds are given."""
        tokens = self._batch_tokens()
        if steps is None and seconds is None:
            plan = self.task.sampler(batch_tokens=tokens, seed=0)
            steps = max(1, epochs * plan.steps_per_epoch)
        expected = steps or 1000
        return USUAL.replace(
            steps=steps,
            seconds=seconds,
            batch_tokens=tokens,
            warmup=max(1, round(_WARM * expected)),
            evaluate_every=max(1, expected // _LOOKS),
            valid_batches=max(2, round(_LOOKED * expected)),
        )

    def _batch_tokens(self) -> int:
        """Tokens of a batch of the usual number of rows; long texts come in fewer."""
        length = self.task.frame.length
        if isinstance(self.task, ExampleTask):
            length = int(self.task.split("train").lengths.sum(axis=1).mean())
        return min(_MOST_TOKENS, max(self.task.frame.length, length * _BATCH))


def task_of(folder: Path) -> str:
    """The task that a model was trained on."""
    if not (folder / TASK).is_file():
        raise InputError(f"{folder} does not say what it was trained on; name it with --task.")
    data = read_json(folder / TASK, "what a model needs to read texts", _LARGEST)
    name: str = data["task"]
    return name


def reads_own(name: str) -> bool:
    """Whether a task is read with the model's own tokeniser: unless it names another."""
    return "tokenizer" in option_names(name) and "tokenizer=" not in name


def task_for(name: str, folder: Path, arch: Architecture) -> Task:
    """The task as a model reads it: with its tokeniser, no longer than its positions."""
    options: dict[str, Any] = {}
    if reads_own(name):
        options["tokenizer"] = str(folder)
    task = load_task(name, **options)
    longest, learned = arch.longest, isinstance(arch.backbone.position, Learned)
    if learned and longest is not None and task.frame.length > longest:
        if "length" not in option_names(name):
            raise InputError(
                f"{name} has texts of {task.frame.length:,} tokens; the model has positions for "
                f"{longest:,}."
            )
        task = load_task(name, **options, length=longest)
    return task
