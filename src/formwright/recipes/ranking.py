"""How far the ranking of a supernet's blocks can be believed, and whether it could rank at all."""

from collections.abc import Sequence

from formwright.statistics import spearman
from formwright.trace import Stage
from formwright.train import TrainConfig

AGREE = 0.5  # a rank correlation below which a ranking is said to be of no use
_ALIKE = ("lr", "schedule", "dropout", "attention_dropout", "weight_decay", "batch_tokens")


def confidence(first: Stage, others: Sequence[Stage]) -> tuple[dict[str, float], list[str]]:
    """How far halves of the data, and supernets of other seeds, agree on a ranking.

    Args:
        first: The first look at the blocks of a supernet.
        others: The same of supernets from other seeds.

    Returns:
        ``ranking_halves`` and ``ranking_seeds``, the least of several, and both in words.
    """
    found: dict[str, float] = {}
    notes = []
    if first.agreement is not None:
        found["ranking_halves"] = first.agreement
        notes.append(
            "Two halves of the validation data rank the blocks alike by "
            f"{first.agreement:+.2f} (Spearman)."
        )
    ((name, worth),) = first.worth.items()
    for other in others:
        pairs = [(worth[option], other.worth[name][option]) for option in worth]
        agreed = spearman(*zip(*pairs, strict=True))
        found["ranking_seeds"] = min(agreed, found.get("ranking_seeds", 1.0))
        notes.append(f"A supernet of another seed ranks them alike by {agreed:+.2f}.")
    return found, notes


def unlike(search: TrainConfig, training: TrainConfig) -> list[str]:
    """What a supernet was trained with otherwise than the models that it ranks."""
    pairs = [(name, getattr(search, name), getattr(training, name)) for name in _ALIKE]
    found = [f"{name} {ours} against {theirs}" for name, ours, theirs in pairs if ours != theirs]
    if not found:
        return []
    return [
        f"The supernet was trained otherwise than the models it ranks ({', '.join(found)}): what "
        "it found may suit the other training."
    ]
