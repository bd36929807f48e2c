"""A trained model as a teacher: its answers, hidden states, queries, keys and values for a batch.

A teacher is any folder that ``load_model`` reads, ours or Hugging Face's, together with a task that
is read with the model's own tokeniser. Nothing of the model is copied: the pass is its own, and
attentions are listened to while it runs.

b batch, n token, w width
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from formwright.arch.frame import LanguageModel, MaskedLM, Span, Tag
from formwright.errors import InputError
from formwright.files import read_json
from formwright.model import Model, read_architecture
from formwright.model.build import TASK
from formwright.ops.attention.attention import AttentionOp
from formwright.ops.base import Context
from formwright.tasks import Task
from formwright.tasks.base import IGNORED, Batch
from formwright.tasks.examples import ExampleTask
from formwright.tasks.lm import StreamTask
from formwright.train.config import TrainConfig
from formwright.train.distill import captured, logit_loss
from formwright.use.tuning import Tuning, task_of

_LARGEST = 1_000_000_000  # bytes of a file of JSON
_NEVER = -1e4  # the score of what cannot be the answer: far below all others, and a number


@dataclass(frozen=True)
class Teacher:
    """A trained model with the task that it teaches.

    Args:
        folder: Of the model.
        model: It, in the frame of the task, not to be trained.
        task: Read with the model's tokeniser.
        answers: Whether its head is one that learnt this task; else it is new, and only hidden
            states, queries, keys and values mean something.
    """

    folder: Path
    model: Model
    task: Task
    answers: bool = True

    @classmethod
    def of(
        cls,
        folder: str | Path,
        task: str = "",
        *,
        device: torch.device | str = "cpu",
        unsafe_pickle: bool = False,
    ) -> "Teacher":
        """The teacher in a folder.

        Args:
            folder: Of the model.
            task: What is taught; what the model was trained on when not given.
            device: Where it runs.
            unsafe_pickle: As of ``load_model``.
        """
        tuning = Tuning.of(Path(folder), task or task_of(Path(folder)), unsafe_pickle=unsafe_pickle)
        return cls.tuned(tuning, device=device)

    @classmethod
    def tuned(cls, tuning: Tuning, *, device: torch.device | str = "cpu") -> "Teacher":
        """The same from a model and a task that are read already."""
        model = tuning.begun(TrainConfig(steps=1), seed=0).to(device).eval().requires_grad_(False)
        return cls(tuning.folder, model, tuning.task, answers_task(tuning))

    def check_answers(self) -> "Teacher":
        """Itself, if its head learnt the task."""
        if not self.answers:
            raise InputError(
                f"The model in {self.folder} has no head that learnt {self.task.name}: it ends in "
                f"{_stored_head(self)}. Tune it first, formwright train {self.folder} --task "
                f"{self.task.name}."
            )
        return self

    @property
    def depth(self) -> int:
        """Layers of its stack, as the architecture counts them."""
        stack: Any = self.model.stacks["layers"]
        return len(stack.layers)

    @property
    def device(self) -> torch.device:
        """Where it runs."""
        return next(self.model.parameters()).device

    # --- what it says -------------------------------------------------------------------

    @torch.no_grad()
    def logits(self, batch: Batch) -> Tensor:
        """Scores (rows, classes), one row for each answer that the task counts."""
        batch = batch.to(self.device)
        x, ctx = self.model.enter(**batch.inputs)
        return counted_answers(self.model, self.model.run(x, ctx), ctx, batch)

    @torch.no_grad()
    def hidden(
        self, batch: Batch, layers: Sequence[int] | None = None
    ) -> tuple[list[Tensor], Tensor | None]:
        """The stream (b, n, w) before each of some layers, and which tokens are real (b, n).

        By default before all of them, and after the last.
        """
        x, ctx = self.model.enter(**batch.to(self.device).inputs)
        return self.model.hidden(x, ctx, layers), ctx.mask

    @torch.no_grad()
    def attended(self, batch: Batch, layers: Iterable[int]) -> dict[int, dict[str, Tensor]]:
        """Queries, keys and values (b, n, w) of some layers; runs no further than the last."""
        x, ctx = self.model.enter(**batch.to(self.device).inputs)
        wanted = sorted(set(layers))
        with ExitStack() as listening:
            found = {n: listening.enter_context(captured(self.attention(n))) for n in wanted}
            self.model.run(x, ctx, 0, wanted[-1] + 1 if wanted else 0)
        return found

    def attention(self, layer: int) -> AttentionOp:
        """The attention of a layer of the stack."""
        found = attention_of(self.model, layer)
        if found is None:
            raise InputError(f"Layer {layer} of {self.folder} has no attention.")
        return found

    def attentions(self) -> list[int]:
        """The layers that have an attention."""
        return [n for n in range(self.depth) if attention_of(self.model, n) is not None]

    # --- what it teaches with -----------------------------------------------------------

    def calibration(
        self, count: int, *, batch_tokens: int, seed: int = 0, first: int = 0
    ) -> Iterator[Batch]:
        """Batches of the training data that never change, from ``first`` of a seed's order."""
        plan = self.task.sampler(batch_tokens=batch_tokens, seed=seed)
        for number in range(first, first + count):
            yield plan.batch(number)

    def loss(
        self, *, task: float = 0.5, answers: float = 0.5, temperature: float = 1.0
    ) -> Callable[[Any, Any, Any], Tensor]:
        """A loss for the engine: the task's own, and the distance to the teacher's answers.

        Args:
            task: Weight of the task's loss.
            answers: Weight of the divergence from the teacher's answers.
            temperature: Of both answers.
        """

        def both(model: Model, batch: Batch, past: Any) -> Tensor:
            x, ctx = model.enter(**batch.inputs)
            ours = counted_answers(model, model.run(x, ctx), ctx, batch)
            taught = answer_loss(ours, self.logits(batch), temperature=temperature) * answers
            if not task:
                return taught
            return taught + task * task_loss(self.task, model, ours, batch)

        return both


# --- answers ------------------------------------------------------------------------------


def counted_answers(model: Model, x: Tensor, ctx: Context, batch: Batch) -> Tensor:
    """Scores (rows, classes) from the stream after the last layer, only where the task counts.

    A language model or a tagger has one row for each symbol that is scored; a span has two rows
    for each text, over its tokens; others have one for each example.
    """
    head = model.frame.head
    if isinstance(head, LanguageModel | MaskedLM | Tag):
        x = model.finish(x, ctx)
        places = (batch.targets.flatten() != IGNORED).nonzero().squeeze(-1)
        return model.head(x.flatten(0, 1)[places], None, model.embedding)
    found = model.answer(x, ctx)
    if isinstance(head, Span):
        return found.transpose(1, 2).flatten(0, 1).clamp(min=_NEVER)
    return found


def answer_loss(ours: Tensor, theirs: Tensor, *, temperature: float = 1.0) -> Tensor:
    """How far one model's answers are from another's: divergence, or squares of single numbers."""
    if ours.shape[-1] == 1:
        return F.mse_loss(ours, theirs)
    return logit_loss(ours, theirs, temperature=temperature)


def task_loss(task: Task, model: Model, answers: Tensor, batch: Batch) -> Tensor:
    """The task's loss of answers that were computed already.

    A task of another kind than ours computes it from the model.
    """
    if not isinstance(task, ExampleTask | StreamTask):
        return task.loss(model, batch)
    targets = batch.targets.flatten()
    if targets.is_floating_point():
        return F.mse_loss(answers.squeeze(-1).float(), targets.float())
    if isinstance(model.frame.head, LanguageModel | MaskedLM | Tag):
        targets = targets[targets != IGNORED]
    return F.cross_entropy(answers.float(), targets, ignore_index=IGNORED)


def attention_of(model: Model, layer: int) -> AttentionOp | None:
    """The first attention inside a layer of a model's stack, if there is one."""
    stack: Any = model.stacks["layers"]
    return next((m for m in stack.layers[layer].modules() if isinstance(m, AttentionOp)), None)


# --- does the head know the task? ---------------------------------------------------------


def answers_task(tuning: Tuning) -> bool:
    """Whether a model's head learnt a task: the same kind of answer, and the same labels."""
    if tuning.model.frame.head != tuning.frame.head:
        return False
    place, reading = tuning.folder / TASK, tuning.task.reading()
    if not place.is_file() or reading is None:  # a language model, or a head of somebody else's
        return True
    known = read_json(place, "what a model needs to read texts", _LARGEST)
    return list(known.get("labels", ())) == list(reading.labels)


def _stored_head(teacher: Teacher) -> str:
    frame = read_architecture(teacher.folder).frame
    return "nothing" if frame is None else frame.head.NAME


def retrained(teacher: Teacher, model: Model) -> Teacher:
    """The same teacher with weights that learnt its task."""
    return replace(teacher, model=model.eval().requires_grad_(False), answers=True)
