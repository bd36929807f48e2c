"""Hand-designed models that deserve to be beaten: what a practitioner would write today.

For each kind of task several shapes, in present-day form (rotary positions, RMSNorm before each
branch, gated feed-forward, no biases) and in the classical one. Under a limit each is as large as
the limit allows, since nobody who has 5 ms would take a model that needs 2.
"""

from collections.abc import Callable
from dataclasses import dataclass

from formwright.arch import Architecture, Decoder, Encoder, Seq2Seq, Style, parse, style
from formwright.errors import InputError
from formwright.tasks import Task

Fits = Callable[[Architecture], bool]


@dataclass(frozen=True)
class Rival:
    """A hand-designed model.

    Args:
        name: What to call it: ``Llama shape (sf)x4``.
        arch: The model, bound to its task.
    """

    name: str
    arch: Architecture


@dataclass(frozen=True)
class _Shape:
    """Layers of a style, a unit repeated: ``(sf)x4``."""

    name: str
    style: str
    unit: str
    depth: int
    reads: str = ""  # the unit of the encoder, for encoder-decoders

    def layers(self, depth: int) -> str:
        unit = f"({self.unit})x{depth}"
        return f"({self.reads})x{depth} | {unit}" if self.reads else unit


_DECODERS = (
    _Shape("Llama shape", "llama", "sf", 4),
    _Shape("convolution and Llama shape", "llama", "csf", 2),
    _Shape("GPT-2 shape", "gpt2", "sf", 4),
)
_ENCODERS = (
    _Shape("ModernBERT shape", "llama_encoder", "sf", 2),
    _Shape("convolutional", "llama_encoder", "cf", 2),
    _Shape("BERT shape", "bert", "sf", 2),
)
_TRANSLATORS = (
    _Shape("Transformer", "translator", "smf", 2, reads="sf"),
    _Shape("present-day Transformer", "llama_translator", "smf", 2, reads="sf"),
)
# Sizes that a shape is tried in under a limit: width and depth, as factors, the largest first.
_SIZES = ((4, 2), (3, 2), (2, 2), (1.5, 1.5), (1, 1.5), (1, 1), (0.75, 1), (0.5, 1), (0.5, 0.5))


def rivals_for(task: Task, width: int, *, own: str = "", fits: Fits | None = None) -> list[Rival]:
    """The rivals of a search.

    Args:
        task: What is learnt.
        width: Of each, where nothing limits it.
        own: A model of the user's own: layers in the task's style, or a whole notation. It comes
            first and is never scaled; one that breaks a limit is kept, and its name says so.
        fits: Whether a model keeps the user's limits; each shape is then the largest that does,
            and is left out where none does.
    """
    found = [_own(task, own, width, fits)] if own else []
    for shape in _shapes(task):
        rival = (
            _made(task, shape, width, 1.0, 1.0)
            if fits is None
            else _largest(task, shape, width, fits)
        )
        if rival is not None:
            found.append(rival)
    if not found:
        raise InputError(
            f"No hand-designed model of {task.name} keeps the limits, however small; raise them."
        )
    return found


def _shapes(task: Task) -> tuple[_Shape, ...]:
    backbone = task.style(64).backbone
    if isinstance(backbone, Decoder):
        return _DECODERS
    return _ENCODERS if isinstance(backbone, Encoder) else _TRANSLATORS


def _own(task: Task, text: str, width: int, fits: Fits | None) -> Rival:
    arch, asked = task.architecture(text, width), task.style(width).backbone
    if isinstance(asked, Decoder) and not isinstance(arch.backbone, Decoder):
        raise InputError(
            f"{text} cannot be a rival on {task.name}: it does not read from left to right, and "
            "would see what it has to guess. Give a decoder, such as (sf)x4 in llama(128)."
        )
    if isinstance(asked, Seq2Seq) != isinstance(arch.backbone, Seq2Seq):
        needed = "two stacks, encoder | decoder" if isinstance(asked, Seq2Seq) else "one stack"
        raise InputError(f"{text} cannot be a rival on {task.name}, which needs {needed}.")
    kept = fits is None or fits(arch)
    return Rival(text if kept else f"{text} (over the limit)", arch)


def _largest(task: Task, shape: _Shape, width: int, fits: Fits) -> Rival | None:
    """By halving a list of sizes: what one costs falls along it."""
    low, high, best = 0, len(_SIZES), None
    while low < high:
        middle = (low + high) // 2
        rival = _made(task, shape, width, *_SIZES[middle])
        if fits(rival.arch):
            best, high = rival, middle
        else:
            low = middle + 1
    return best


def _made(task: Task, shape: _Shape, width: int, wider: float, deeper: float) -> Rival:
    channels = max(32, round(width * wider / 32) * 32)
    layers = shape.layers(max(1, round(shape.depth * deeper)))
    family = _for_task(style(shape.style, channels), task.style(channels))
    name = f"{shape.name} {layers}" + (f", {channels} wide" if channels != width else "")
    return Rival(name, parse(layers, defaults=family).fitted(task.frame).check())


def _for_task(made: Style, asked: Style) -> Style:
    """A style whose entrance tells two texts apart where the task needs that, and only there."""
    segments = asked.backbone.embedding.segments
    embedding = made.backbone.embedding.replace(segments=segments)
    return Style(made.backbone.replace(embedding=embedding), made.letters)
