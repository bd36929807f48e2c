"""whittle 0.6.0 at work: a LitGPT super-network trained by its sandwich strategy.

``SandwichStrategy`` accumulates gradients of the largest, the smallest and two random sub-networks
for each update. The rest of the loop is the user's own, here the same as ours: batches of the same
size drawn from the same bytes, warmup and a cosine to zero, gradients cut at a norm of 1. The
optimiser is AdamW, as in whittle's own scripts, or Muon (torch's own) for the matrices.
"""

import math
import time
from pathlib import Path
from typing import Any

from lines import one_thread, seeded, serve, versions

LENGTH, BATCH, WARMUP, TRIED = 64, 16, 40, 6
BYTES: dict[str, Any] = {}
CONFIG = {
    "n_embd": 128, "n_layer": 4, "n_head": 8, "head_size": 16, "intermediate_size": 512,
    "vocab_size": 256, "padded_vocab_size": 256, "block_size": LENGTH, "rotary_percentage": 1.0,
    "bias": True, "norm_class_name": "LayerNorm", "mlp_class_name": "GptNeoxMLP",
    "parallel_residual": False, "gelu_approximate": "none",
}  # fmt: skip


def begin(data: str) -> dict[str, str]:
    """Import everything and read the text."""
    one_thread()
    import torch
    import whittle.models.gpt
    import whittle.training_strategies  # noqa: F401

    for name in ("train", "valid"):
        text = bytearray(Path(data, f"{name}.txt").read_bytes())
        BYTES[name] = torch.frombuffer(text, dtype=torch.uint8).long()
    return versions("whittle", "litgpt", "torch")


def member(given: dict[str, int]) -> dict[str, int]:
    """Ours in its words: heads of 16 channels, an inner size by a ratio."""
    return {
        "sub_network_n_embd": given["width"],
        "sub_network_intermediate_size": given["width"] * given["ratio"],
        "sub_network_num_heads": given["width"] // 16,
        "sub_network_n_layers": given["depth"],
    }


class Space:
    """The same members as ours, as whittle's samplers expect a space."""

    def __init__(self) -> None:
        from syne_tune.config_space import choice

        self.config_space = {
            "width": choice([64, 96, 128]),
            "ratio": choice([2, 3, 4]),
            "depth": choice([2, 3, 4]),
        }

    cast = staticmethod(member)


def optimisers(model: Any, kind: str, rate: float) -> list[Any]:
    """AdamW for all, or Muon for the layers' matrices and AdamW for the rest."""
    import torch

    adam = {"betas": (0.9, 0.95), "weight_decay": 0.1}
    if kind == "adamw":
        return [torch.optim.AdamW(model.parameters(), lr=rate, **adam)]
    inner = {id(p) for p in model.transformer.h.parameters() if p.ndim == 2}
    matrices = [p for p in model.parameters() if id(p) in inner]
    others = [p for p in model.parameters() if id(p) not in inner]
    return [
        torch.optim.Muon(matrices, lr=rate, weight_decay=0.1, adjust_lr_fn="match_rms_adamw"),
        torch.optim.AdamW(others, lr=rate, **adam),
    ]


def trained(kind: str, rate: float, seed: int, steps: int) -> tuple[Any, float]:
    """A super-network after so many updates, and the processor seconds that they took."""
    import torch
    from litgpt import Config
    from whittle.models.gpt import GPT
    from whittle.sampling.random_sampler import RandomSampler
    from whittle.training_strategies import SandwichStrategy

    seeded(seed)
    model = GPT(Config(**CONFIG))
    model.apply(model._init_weights)
    sandwich = SandwichStrategy(
        sampler=RandomSampler(Space(), seed=seed), loss_function=nats, device="cpu"
    )
    made = optimisers(model, kind, rate)
    began = time.process_time()
    for step in range(steps):
        done = (step - WARMUP) / max(1, steps - WARMUP)
        share = (step + 1) / WARMUP if step < WARMUP else 0.5 * (1 + math.cos(math.pi * done))
        at = torch.randint(len(BYTES["train"]) - LENGTH - 1, (BATCH,))
        rows = torch.stack([BYTES["train"][i : i + LENGTH + 1] for i in at.tolist()])
        sandwich(model, rows[:, :-1], rows[:, 1:], scale_loss=0.25)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        for optimiser in made:
            for group in optimiser.param_groups:
                group["lr"] = rate * share
            optimiser.step()
            optimiser.zero_grad()
    return model, time.process_time() - began


def nats(logits: Any, targets: Any) -> Any:
    """Mean cross entropy of a batch."""
    import torch

    return torch.nn.functional.cross_entropy(logits.flatten(0, 1), targets.flatten())


def train(
    kind: str, rate: float, seed: int, seconds: float, members: dict[str, dict[str, int]]
) -> dict[str, Any]:
    """A super-network after so many seconds; nats per byte of some members."""
    import torch

    trained(kind, rate, seed, 2)
    steps = max(20, int(seconds * TRIED / trained(kind, rate, seed, TRIED)[1]))
    model, spent = trained(kind, rate, seed, steps)
    found = {"steps": steps, "seconds": spent, "nats": {}}
    text = BYTES["valid"]
    number = (len(text) - 1) // LENGTH
    x = text[: number * LENGTH].view(number, LENGTH)
    y = text[1 : number * LENGTH + 1].view(number, LENGTH)
    model.eval()
    for name, given in members.items():
        model.set_sub_network(**member(given))
        with torch.no_grad():
            total = sum(
                float(nats(model(a), b)) * b.numel()
                for a, b in zip(x.split(64), y.split(64), strict=True)
            )
        found["nats"][name] = total / y.numel()
        model.reset_super_network()
    found["params"] = sum(p.numel() for p in model.parameters())
    return found


if __name__ == "__main__":
    serve({"begin": begin, "train": train})
