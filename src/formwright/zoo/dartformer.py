"""DARTFormer: nine attention mechanisms on three tasks of the Long Range Arena, and their mixes.

Paper: https://arxiv.org/abs/2210.00641 (search), https://arxiv.org/abs/2011.04006 (arena). The
encoder, its sizes and the mechanisms follow the Long Range Arena code (``lra=true``): a leading
CLS vector, sinusoids, pre-norm without attention biases, a hidden layer in the head.

Inferred: vocabularies (17 symbols for ListOps, bytes and padding for text); a mix averages one
block per mechanism with as many heads as were kept of it, and one per kept Reformer head.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from formwright.arch import (
    Architecture,
    Attention,
    Classify,
    Encoder,
    FeedForward,
    Frame,
    Head,
    LayerNorm,
    Match,
    Mechanism,
    Parallel,
    Residual,
    Stack,
)
from formwright.arch.mechanism import (
    BigBird,
    LinearTransformer,
    Linformer,
    Local,
    Longformer,
    Performer,
    Reformer,
    Softmax,
    Sparse,
    Synthesizer,
)
from formwright.zoo.registry import Paper, published

DARTFORMER = Paper(
    "DARTFormer: Finding The Best Type Of Attention", "https://arxiv.org/abs/2210.00641"
)
ARENA = Paper(
    "Long Range Arena: A Benchmark for Efficient Transformers", "https://arxiv.org/abs/2011.04006"
)
NORM = LayerNorm(eps=1e-6)


@dataclass(frozen=True)
class Setting:
    """The sizes of one task, and the steps of its training and of the warm-up."""

    width: int
    heads: int
    inner: int
    layers: int
    vocab: int
    length: int
    head: Head
    steps: int
    warmup: int


TEXT = Setting(512, 8, 2048, 6, 257, 1000, Classify(2, "cls", (2048,)), 30_000, 8000)
LISTOPS = Setting(512, 8, 2048, 6, 17, 2000, Classify(10, "cls", (2048,)), 10_000, 1000)
MATCHING = Setting(128, 4, 512, 4, 257, 4000, Match(2, "first", (512, 256)), 10_000, 8000)
ARENA_TEXT = Setting(256, 4, 1024, 4, 257, 4000, Classify(2, "cls", (1024,)), 20_000, 8000)
TASKS = {"text": TEXT, "listops": LISTOPS, "matching": MATCHING}

MECHANISMS: Mapping[str, Mechanism] = {
    "bigbird": BigBird(),
    "linear": LinearTransformer(lra=True),
    "linformer": Linformer(lra=True),
    "local": Local(lra=True),
    "longformer": Longformer(lra=True),
    "performer": Performer(lra=True),
    "reformer": Reformer(lra=True),
    "sparse": Sparse(lra=True),
    "synthesizer": Synthesizer(lra=True),
}

# Test accuracy of the homogeneous model, and score of the block in the supernet (points).
FOUND = {
    "bigbird": {"text": (62.7, 0.30), "listops": (36.7, 0.25), "matching": (63.9, 0.011)},
    "linear": {"text": (64.4, 0.17), "listops": (37.1, -0.40), "matching": (64.2, -0.006)},
    "linformer": {"text": (58.6, -0.28), "listops": (29.9, 0.00), "matching": (64.5, 0.006)},
    "local": {"text": (56.3, 0.14), "listops": (36.8, 0.30), "matching": (58.0, 0.000)},
    "longformer": {"text": (61.8, -0.20), "listops": (36.8, 0.40), "matching": (61.2, 0.039)},
    "performer": {"text": (64.5, 0.51), "listops": (36.2, 0.30), "matching": (65.0, 0.000)},
    "reformer": {"text": (55.7, 0.44), "listops": (37.8, 11.85), "matching": (58.3, 0.028)},
    "sparse": {"text": (61.3, 0.02), "listops": (37.0, 0.50), "matching": (63.2, 0.000)},
    "synthesizer": {"text": (61.4, -0.03), "listops": (36.5, 0.30), "matching": (71.1, -0.006)},
}

# Mechanism to heads, and the accuracy of the mix: found by pruning, and by one shot.
MIXES: Mapping[str, tuple[str, Mapping[str, int], float]] = {
    f"{task}-{how}": (task, kept, accuracy)
    for task, how, kept, accuracy in (
        ("text", "prune", dict(linear=1, performer=2, reformer=2, sparse=2, synthesizer=1), 63.9),
        ("text", "one-shot", dict(bigbird=2, linear=2, performer=2, reformer=2), 64.4),
        ("listops", "prune", dict(linear=1, longformer=1, performer=1, reformer=3, sparse=2), 36.3),
        ("listops", "one-shot", dict(local=2, longformer=2, reformer=2, sparse=2), 37.1),
        ("matching", "prune", dict(bigbird=1, linear=1, sparse=1, synthesizer=1), 67.0),
        ("matching", "one-shot", dict(bigbird=1, linformer=1, longformer=1, reformer=1), 64.7),
    )
}
LAYER_WISE = ("performer", "bigbird", "performer", "sparse", "performer", "sparse")


def attention(task: str, name: str, heads: int, key: int | None = None) -> Attention:
    """One block of a mechanism, with the exceptions that the arena's tasks make."""
    kind = MECHANISMS[name]
    if name == "reformer":  # its heads always share the whole width
        return Attention(heads, kind, query_key="shared", bias=False, project_out=False)
    if name == "synthesizer" and task == "text":
        return Attention(heads, kind, key=key, query_key="none", bias=False)
    if name == "performer" and task == "listops":
        kind = Performer("favor", random_features=2, lra=True)
    return Attention(heads, kind, key=key, bias=False)


def homogeneous(task: str, name: str) -> Architecture:
    """Every layer with one mechanism."""
    return encoder(TASKS[task], [attention(task, name, TASKS[task].heads)])


def mix(task: str, kept: Mapping[str, int]) -> Architecture:
    """Every layer the mean of several mechanisms."""
    setting = TASKS[task]
    key = setting.width // setting.heads
    blocks: list[Attention] = []
    for name, heads in kept.items():
        if name == "reformer":  # a kept block was one head as wide as the stream
            blocks += [attention(task, name, 1)] * heads
        else:
            blocks.append(attention(task, name, heads, key))
    return encoder(setting, [Parallel(tuple(blocks), "mean")])


def layer_wise() -> Architecture:
    """Another mechanism in each layer (appendix B)."""
    return encoder(TEXT, [attention("text", name, TEXT.heads) for name in LAYER_WISE])


def full(setting: Setting) -> Architecture:
    """The same encoder with plain softmax attention."""
    return encoder(setting, [Attention(setting.heads, Softmax(), bias=False)])


def encoder(setting: Setting, mixers: Sequence[Attention | Parallel]) -> Architecture:
    """The arena's encoder; the mixers take turns."""
    layers: list[Residual] = []
    for index in range(setting.layers):
        layers.append(Residual(mixers[index % len(mixers)], norm=NORM))
        layers.append(Residual(FeedForward(setting.inner, "gelu_tanh"), norm=NORM))
    return Architecture(
        Stack(tuple(layers)),
        Encoder(setting.width, norm=NORM, init="lra"),
        frame=Frame(setting.vocab, setting.length, setting.head),
    )


def _publish_all() -> None:
    for task in TASKS:
        for name, found in FOUND.items():
            accuracy, score = found[task]
            _publish(
                f"dartformer-{task}-{name}",
                partial(homogeneous, task, name),
                {"test_accuracy": accuracy, "score_points": score},
            )
    for name, (task, kept, accuracy) in MIXES.items():
        _publish(f"dartformer-{name}", partial(mix, task, kept), {"test_accuracy": accuracy})
    _publish("dartformer-text-layer-wise", layer_wise, {"test_accuracy": 64.6})
    arena = {
        "listops": (LISTOPS, 19_900_000),
        "matching": (MATCHING, 1_087_000),
        "text": (ARENA_TEXT, 3_500_000),
    }
    for task, (setting, params) in arena.items():
        published(f"lra-{task}-full", system="Long Range Arena", paper=ARENA, params=params)(
            partial(full, setting)
        )
    _publish("dartformer-text-full", partial(full, TEXT), {})


def _publish(
    name: str, build: Callable[[], Architecture], reported: Mapping[str, float | str]
) -> None:
    published(name, system="DARTFormer", paper=DARTFORMER, reported=reported)(build)


_publish_all()
