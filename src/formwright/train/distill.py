"""Losses that let a student learn from a teacher: answers, hidden vectors, attention relations.

Logits: Hinton et al. 2015, https://arxiv.org/abs/1503.02531. Relations: MiniLMv2, Wang et al. 2020,
https://arxiv.org/abs/2012.15828, as AutoDistil uses them, https://arxiv.org/abs/2201.12507.

b batch, n token, w width, h relation head
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Literal

import torch.nn.functional as F
from torch import Tensor, nn

from formwright.errors import InputError
from formwright.ops.attention.attention import AttentionOp

# ``softmax`` as the paper of AutoDistil has it; ``scores`` before it, as its released code.
RelationForm = Literal["softmax", "scores"]
# ``cut``: channels side by side are a relation head, as published; ``dealt``: one to each in turn.
RelationSplit = Literal["cut", "dealt"]


def logit_loss(
    student: Tensor, teacher: Tensor, *, temperature: float = 1.0, mask: Tensor | None = None
) -> Tensor:
    """KL divergence from the teacher's answer to the student's, times temperature squared.

    Both are scores (..., classes); ``mask`` (...) says which positions count.
    """
    log_student = (student / temperature).log_softmax(dim=-1)
    log_teacher = (teacher / temperature).log_softmax(dim=-1)
    each = F.kl_div(log_student, log_teacher, reduction="none", log_target=True).sum(dim=-1)
    return _mean(each, mask) * temperature**2


def hidden_loss(student: Tensor, teacher: Tensor, *, mask: Tensor | None = None) -> Tensor:
    """Mean squared difference of vectors (b, n, w); widths must agree."""
    if student.shape != teacher.shape:
        raise InputError(
            f"hidden vectors of shapes {tuple(student.shape)} and {tuple(teacher.shape)} cannot "
            "be compared; map the student's to the teacher's width first."
        )
    return _mean((student - teacher).square().mean(dim=-1), mask)


def relations(
    x: Tensor,
    heads: int,
    mask: Tensor | None = None,
    form: RelationForm = "softmax",
    *,
    split: RelationSplit = "cut",
) -> Tensor:
    """How alike tokens are in one kind of vector: softmax(A A^T / sqrt(d)), (b, h, n, n).

    x (b, n, w) is split anew into ``heads``, whatever its own heads were, so that student and
    teacher can have different numbers; channels left over are dropped. With ``scores`` they stay
    as they are before the softmax, and padded columns are 0.

    Cut into neighbours, a channel belongs to another relation head in students of another width,
    so that students that share it pull it to and fro. Dealt out in turn, it stays with its relation
    head in all of them.
    """
    own = x.shape[-1] // heads
    if own < 1:
        raise InputError(
            f"{x.shape[-1]} channels cannot be split into {heads} relation heads; give a student "
            "with more heads, or fewer relation heads."
        )
    kept = x[..., : heads * own]
    if split == "cut":
        parts = kept.unflatten(-1, (heads, own)).transpose(1, 2)  # (b, h, n, d)
    else:
        parts = kept.unflatten(-1, (own, heads)).permute(0, 3, 1, 2)
    scores = parts @ parts.transpose(-1, -2) * own**-0.5
    if form == "scores":
        return scores if mask is None else scores.masked_fill(~mask[:, None, None, :], 0.0)
    if mask is not None:
        scores = scores.masked_fill(~mask[:, None, None, :], float("-inf"))
    return scores.softmax(dim=-1)


def relation_loss(
    student: Mapping[str, Tensor],
    teacher: Mapping[str, Tensor],
    *,
    heads: int,
    mask: Tensor | None = None,
    form: RelationForm = "softmax",
) -> Tensor:
    """Sum over queries, keys and values of the mean squared difference of their relations."""
    known = {name: relations(x, heads, mask, form) for name, x in teacher.items()}
    return relation_distance(student, known, mask=mask, form=form)


def relation_distance(
    student: Mapping[str, Tensor],
    known: Mapping[str, Tensor],
    *,
    mask: Tensor | None = None,
    form: RelationForm = "softmax",
    split: RelationSplit = "cut",
) -> Tensor:
    """``relation_loss`` against relations (b, h, n, n) of a teacher that are known already."""
    total = next(iter(known.values())).new_zeros(())
    for name, theirs in known.items():
        ours = relations(student[name], theirs.shape[1], mask, form, split=split)
        each = (ours - theirs).square().mean(dim=1)  # over heads: (b, n, n)
        total = total + (each.mean() if mask is None else _mean(each.mean(dim=-1), mask))
    return total


@contextmanager
def captured(attention: nn.Module) -> Iterator[dict[str, Tensor]]:
    """Collect the queries, keys and values (b, n, w) that an attention makes while inside."""
    if not isinstance(attention, AttentionOp):
        raise InputError("Only an attention layer makes queries, keys and values.")
    found: dict[str, Tensor] = {}

    def keep(name: str) -> object:
        def hook(module: nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> None:
            found[name] = output

        return hook

    parts = {name: getattr(attention, name) for name in ("query", "key", "value")}
    handles = [
        part.register_forward_hook(keep(name)) for name, part in parts.items() if part is not None
    ]
    try:
        yield found
    finally:
        for handle in handles:
            handle.remove()


def _mean(each: Tensor, mask: Tensor | None) -> Tensor:
    if mask is None:
        return each.mean()
    weight = mask.to(each.dtype)
    return (each * weight).sum() / weight.sum().clamp(min=1)
