"""How a model is trained: every number of a run, in one frozen record."""

from dataclasses import asdict, dataclass, fields, replace
from typing import Any, Literal, Self

from formwright.errors import InputError

OptimiserKind = Literal["adamw", "adafactor", "lamb", "muon"]
ScheduleKind = Literal["cosine", "linear", "inverse_sqrt", "constant", "wsd"]
Precision = Literal["fp32", "bf16"]


@dataclass(frozen=True, kw_only=True)
class TrainConfig:
    """One training run. Steps are updates of the weights; times are in seconds."""

    steps: int | None = 1000  # None: until the time is up
    seconds: float | None = None  # stop after this long, counted over all restarts
    batch_tokens: int = 2048  # tokens of one batch, padding included
    accumulate: int = 1  # batches per update
    seed: int = 0  # data order, dropout and initial weights follow from it

    optimiser: OptimiserKind = "adamw"
    lr: float = 1e-3
    lr_end: float = 0.0  # where cosine, linear and wsd schedules end
    schedule: ScheduleKind = "cosine"
    warmup: int = 100
    cooldown: float = 0.3  # wsd: the share of the run, its last, over which the rate falls
    weight_decay: float = 0.01
    betas: tuple[float, float] = (0.9, 0.98)
    layer_decay: float = 1.0  # of the rate, from each layer to the one below it
    clip: float = 1.0  # largest norm of the gradient; 0 leaves it alone

    dropout: float = 0.0
    attention_dropout: float = 0.0
    precision: Precision = "fp32"
    compile: bool = False  # worth its minute of compiling only for long runs
    memory: int = 0  # tokens remembered between segments (Transformer-XL); language models only
    shard: bool = False  # with several processes: shard weights instead of copying them

    evaluate_every: int = 0  # steps between looks at the validation set; 0: only at the end
    valid_batches: int | None = None  # batches of such a look; None: the whole set
    score_batches: int | None = None  # of the score at the end; None: all; 0: no score, no model
    score_memory: int = 0  # tokens remembered while scoring, where ``memory`` is; 0: as many
    score_clamp: int = 0  # farthest distance while scoring; what lies beyond counts as it; 0: any
    patience: int = 0  # stop after so many looks without a better metric; 0: never
    keep_best: bool = False  # score and save the weights of the best look, not the last ones
    checkpoint_every: int = 200
    log_every: int = 20

    def __post_init__(self) -> None:
        if self.steps is None and self.seconds is None:
            raise InputError("A run needs an end: give it steps or seconds.")
        for name in ("batch_tokens", "accumulate", "checkpoint_every", "log_every"):
            if getattr(self, name) < 1:
                raise InputError(f"{name}={getattr(self, name)} must be at least 1.")
        if self.steps is not None and self.steps < 1:
            raise InputError(f"steps={self.steps} must be at least 1.")
        if not 0 < self.lr < 10:
            raise InputError(f"lr={self.lr} must lie above 0 and below 10.")
        if not 0 < self.layer_decay <= 1:
            raise InputError(f"layer_decay={self.layer_decay} must lie above 0 and be at most 1.")
        if not 0 <= self.cooldown <= 1:
            raise InputError(f"cooldown={self.cooldown} must be a share, from 0 to 1.")
        if self.keep_best and self.evaluate_every < 1:
            raise InputError(
                "keep_best=True keeps the weights of the best look at the validation set; say how "
                "often to look with evaluate_every."
            )
        if self.precision not in ("fp32", "bf16"):
            raise InputError(
                f"precision={self.precision!r} cannot be used; choose fp32 or bf16 "
                "(fp16 is slower than fp32 on a CPU and overflows without loss scaling)."
            )

    def replace(self, **changes: Any) -> Self:
        """A copy with some numbers changed."""
        return replace(self, **changes)

    def to_data(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return asdict(self)

    @classmethod
    def from_data(cls, data: dict[str, Any]) -> Self:
        """The inverse of ``to_data``."""
        known = {field.name for field in fields(cls)}
        unknown = sorted(set(data) - known)
        if unknown:
            raise InputError(f"A training configuration has no {', '.join(unknown)}.")
        values: dict[str, Any] = dict(data)
        values["betas"] = tuple(values.get("betas", cls.betas))
        return cls(**values)


def default_lr(width: int) -> float:
    """A peak rate for AdamW that suits a width: the wider, the smaller."""
    return min(3e-3, 3e-3 * (64 / width) ** 0.5)
