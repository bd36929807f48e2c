"""What a user should know about their data before they believe a number: one sentence each."""

from collections.abc import Mapping

_UNEVEN = 10  # times as many rows of the commonest class as of the rarest
_MOST = 0.8  # share of the commonest class that a model can answer blindly
_NAMED = 3  # labels that a sentence names
_EVEN_METRICS = ("macro_f1", "f1", "matthews", "entity_f1")


def cut(truncated: Mapping[str, int], rows: Mapping[str, int], longest: int) -> list[str]:
    """Which rows are longer than what is read."""
    long = [
        f"{count:,} of {rows[split]:,} in {split}" for split, count in truncated.items() if count
    ]
    if not long:
        return []
    return [
        f"rows longer than {longest:,} tokens are cut at the end: {', '.join(long)}; "
        "length=N reads more"
    ]


def longer(longest: Mapping[str, int], counts: Mapping[str, int]) -> list[str]:
    """Rows that are measured on and longer than any that training shows.

    Args:
        longest: Tokens of the longest row of each split.
        counts: Rows of each split that are longer than the longest training row.
    """
    return [
        f"{count:,} {'row' if count == 1 else 'rows'} of {split} {'is' if count == 1 else 'are'} "
        f"longer than any training row (up to {longest[split]:,} tokens against "
        f"{longest['train']:,})"
        for split, count in counts.items()
        if count
    ]


def uneven(
    counts: Mapping[str, int], metric: str, what: str = "rows", *, rarest: bool = True
) -> list[str]:
    """Classes of very different size, by how often training shows each.

    ``rarest``: also where one is rare, not only where one is nearly everywhere.
    """
    seen = {label: count for label, count in counts.items() if count}
    if len(seen) < 2:
        return []
    most, least = max(seen, key=lambda x: seen[x]), min(seen, key=lambda x: seen[x])
    share = seen[most] / sum(seen.values())
    if share <= _MOST and not (rarest and seen[most] > _UNEVEN * seen[least]):
        return []
    text = (
        f"classes are uneven: {most!r} has {seen[most]:,} training {what} ({100 * share:.0f} %), "
        f"{least!r} has {seen[least]:,}"
    )
    if metric not in _EVEN_METRICS:
        text += f"; {metric} hardly counts the rare ones, metric=macro_f1 counts all alike"
    return [text]


def unseen(counts: Mapping[str, Mapping[str, int]]) -> list[str]:
    """Labels that stand in valid or test and in no training row; counts by split and label."""
    train = counts["train"]
    found = [
        f"{label!r} ({count:,} in {split})"
        for split, labels in counts.items()
        for label, count in labels.items()
        if count and not train.get(label)
    ]
    if not found:
        return []
    more = f" and {len(found) - _NAMED} more" if len(found) > _NAMED else ""
    return [f"labels that training never shows cannot be learnt: {', '.join(found[:_NAMED])}{more}"]
