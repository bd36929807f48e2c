"""What the training loop costs: against a bare loop, a plain GPT, and Hugging Face's Trainer.

    python benchmarks/training.py [--steps 60]

All take turns, step by step, in one process with one thread, so that a busy machine slows all
alike; figures are medians of ratios. Hugging Face's Trainer is measured where ``transformers`` and
``accelerate`` are installed: it trains its own GPT-2 of the same shape on the same batches, and
after each of its steps one of ours is taken. Results go to benchmarks/results/training.json.
"""

import statistics
import tempfile
import time
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from harness import Parts, arguments
from torch import Tensor, nn

from formwright.model import build
from formwright.tasks import load_task
from formwright.tasks.base import Task
from formwright.train import TrainConfig
from formwright.train.distributed import World
from formwright.train.engine import Engine

RESULTS = Parts("training")
WIDTH, LAYERS, HEADS, LENGTH, ROWS = 128, 4, 4, 128, 16
UNTIMED = 5  # first steps, which allocate
CONFIG = TrainConfig(steps=1000, batch_tokens=LENGTH * ROWS, lr=1e-3)


class PlainBlock(nn.Module):
    """A Transformer layer as it is written by hand: one matrix for q, k and v."""

    def __init__(self) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = (
            t.unflatten(-1, (HEADS, -1)).transpose(1, 2)
            for t in self.qkv(self.norm1(x)).chunk(3, -1)
        )
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(mixed.transpose(1, 2).flatten(2))
        return x + self.down(F.gelu(self.up(self.norm2(x)), approximate="tanh"))


class PlainGPT(nn.Module):
    """GPT-2 in a page of plain torch."""

    def __init__(self, vocab: int) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(vocab, WIDTH), nn.Embedding(LENGTH, WIDTH)
        self.blocks = nn.ModuleList(PlainBlock() for _ in range(LAYERS))
        self.norm = nn.LayerNorm(WIDTH)

    def forward(self, tokens: Tensor, targets: Tensor) -> Tensor:
        x = self.words(tokens) + self.places.weight[: tokens.shape[1]]
        for block in self.blocks:
            x = block(x)
        scores = F.linear(self.norm(x), self.words.weight)
        return F.cross_entropy(scores.flatten(0, 1), targets.flatten())


def bare_step(
    loss_of: Callable[[Tensor, Tensor], Tensor], model: nn.Module, plan: Any
) -> Callable[[int], None]:
    """The smallest loop that trains: batch, loss, backward, clip, update."""
    optimiser = torch.optim.AdamW(model.parameters(), lr=1e-3, betas=(0.9, 0.98), foreach=True)

    def step(number: int) -> None:
        batch = plan.batch(number)
        loss = loss_of(batch.inputs["tokens"], batch.targets)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0, foreach=True)
        optimiser.step()
        optimiser.zero_grad(set_to_none=True)

    return step


def contenders(task: Task) -> dict[str, Callable[[int], None]]:
    """Functions that take one step each, by name."""
    arch = task.architecture(f"(sf)x{LAYERS} in gpt2({WIDTH}, heads={HEADS})", WIDTH)
    ours = Engine(build(arch), task, CONFIG, torch.device("cpu"), World())
    same = build(arch).train()
    plain = PlainGPT(task.frame.vocab)
    plan = task.sampler(batch_tokens=CONFIG.batch_tokens, seed=0)

    def loss_of(tokens: Tensor, targets: Tensor) -> Tensor:
        return same.loss(tokens, targets).mean()

    return {
        "formwright": lambda number: ours.step() and None,
        "bare loop, same model": bare_step(loss_of, same, plan),
        "bare loop, plain GPT": bare_step(plain, plain, plan),
    }


def hugging_face(
    task: Task, ours: Callable[[int], None], steps: int
) -> tuple[list[float], list[float]] | None:
    """Seconds of our steps and of the Trainer's, in turns; None where it is not installed."""
    try:
        import accelerate  # noqa: F401
        from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainerCallback
        from transformers import TrainingArguments as Arguments
    except ImportError:
        return None
    plan = task.sampler(batch_tokens=CONFIG.batch_tokens, seed=0)
    rows = [plan.batch(n).inputs["tokens"] for n in range(steps + UNTIMED)]
    data = [{"input_ids": row, "labels": row} for batch in rows for row in batch]
    shape = {"n_positions": LENGTH, "n_embd": WIDTH, "n_layer": LAYERS, "n_head": HEADS}
    config = GPT2Config(
        vocab_size=task.frame.vocab, resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0, **shape
    )
    arguments = Arguments(
        output_dir=tempfile.mkdtemp(),  # nothing is saved there
        per_device_train_batch_size=ROWS,
        max_steps=steps + UNTIMED,
        save_strategy="no",
        report_to=[],
        disable_tqdm=True,
        use_cpu=True,
        learning_rate=1e-3,
    )
    our_times: list[float] = []
    their_times: list[float] = []

    class Turns(TrainerCallback):  # type: ignore[misc]
        """Times the Trainer from the end of one step to the end of the next, without our step."""

        began = 0.0

        def on_step_end(self, args: Any, state: Any, control: Any, **rest: Any) -> None:
            ended = time.perf_counter()
            ours(state.global_step)
            now = time.perf_counter()
            if state.global_step > UNTIMED:
                their_times.append(ended - self.began)
                our_times.append(now - ended)
            self.began = now

    Trainer(GPT2LMHeadModel(config), arguments, train_dataset=data, callbacks=[Turns()]).train()
    return our_times, their_times


def compared(ours: list[float], theirs: list[float]) -> dict[str, float]:
    """Their speed, and how long a step of ours takes beside one of theirs."""
    ratios = [a / b for a, b in zip(ours, theirs, strict=True)]
    return {
        "tokens_per_second": CONFIG.batch_tokens / statistics.median(theirs),
        "ours_over_it": statistics.median(ratios),
    }


def padding_waste() -> dict[str, float]:
    """Share of padded positions over an epoch of tasks with texts of different lengths."""
    found = {}
    for name in ("listops-tiny", "reverse"):
        task = load_task(name)
        plan = task.sampler(batch_tokens=2048, seed=0)
        batches = [plan.batch(n) for n in range(min(200, plan.steps_per_epoch))]
        found[name] = statistics.fmean(batch.padding for batch in batches)
    return found


def main() -> None:
    """Measure and print."""
    parser = arguments(__doc__)
    parser.add_argument("--steps", type=int, default=60)
    args = parser.parse_args()
    task = load_task(f"stdlib?length={LENGTH}")
    steps = contenders(task)
    times: dict[str, list[float]] = {name: [] for name in steps}
    for number in range(args.steps + UNTIMED):
        for name, step in steps.items():
            began = time.perf_counter()
            step(number)
            if number >= UNTIMED:
                times[name].append(time.perf_counter() - began)
    results = {name: compared(times["formwright"], found) for name, found in times.items()}
    both = hugging_face(task, steps["formwright"], args.steps)
    if both is not None:
        results["Hugging Face Trainer"] = compared(*both)
    else:
        print("Hugging Face's Trainer is not measured: pip install transformers accelerate")
    print(f"{'':26}{'tokens/s':>12}{'ours / it':>12}")
    for name, row in results.items():
        print(f"{name:26}{row['tokens_per_second']:12,.0f}{row['ours_over_it']:12.3f}")
    waste = padding_waste()
    print("padding:", ", ".join(f"{name} {share:.1%}" for name, share in waste.items()))
    RESULTS.replace({"steps": results, "padding": waste})


if __name__ == "__main__":
    main()
