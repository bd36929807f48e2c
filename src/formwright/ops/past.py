"""What a decoder remembers between calls, so that a text can be read piece by piece.

Attention remembers keys and values (or, in Transformer-XL, the inputs they are made from);
convolutions remember the last few inputs. Nothing remembered is differentiated through.
"""

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor

_ALL = -1  # in place of a slot: the whole memory


class Past:
    """The memory of one batch of texts.

    Args:
        limit: Tokens that attention remembers at most; all when not given.
        same_length: Let every query see exactly ``limit`` tokens back, as Transformer-XL is
            evaluated, even when more are at hand.
        clamp: Distances beyond this one count as it, where positions are relative (Transformer-XL):
            a memory longer than what was trained with then meets no distance that is new.

    >>> import torch
    >>> from formwright import build, parse
    >>> model = build(parse("sf in gpt2(16) for frame(8, 8, lm)")).eval()
    >>> past, text = Past(), torch.tensor([[1, 2, 3, 4]])
    >>> pieces = [model(text[:, :2], past=past), model(text[:, 2:], past=past)]
    >>> torch.allclose(torch.cat(pieces, dim=1), model(text), atol=1e-5)
    True
    """

    def __init__(
        self,
        limit: int | None = None,
        *,
        same_length: bool = False,
        clamp: int | None = None,
    ) -> None:
        self.limit = limit
        self.same_length = same_length
        self.clamp = clamp
        self.seen = 0  # tokens read by earlier calls
        self._items: dict[int, tuple[Tensor, ...]] = {}
        self._owners: dict[int, str] = {}  # of slots that modules of several sizes share
        self._mask: Tensor | None = None  # (b, remembered) once any call had padding

    @property
    def remembered(self) -> int:
        """Tokens of earlier calls that attention can still see."""
        return self.seen if self.limit is None else min(self.seen, self.limit)

    def extend(self, slot: int, *new: Tensor) -> tuple[Tensor, ...]:
        """What was remembered in ``slot`` with ``new`` behind it, along the token axis (-2)."""
        old = self._items.get(slot)
        if old is not None:
            new = tuple(torch.cat(pair, dim=-2) for pair in zip(old, new, strict=True))
        self._items[slot] = tuple(self._kept(t, self.limit) for t in new)
        return new

    def window(self, slot: int, x: Tensor, size: int) -> Tensor:
        """``x`` with the ``size`` tokens before it in front, zeros where the text began."""
        if size == 0:
            return x
        old = self._items.get(slot)
        before = old[0] if old else x.new_zeros(*x.shape[:-2], size, x.shape[-1])
        x = torch.cat((before, x), dim=-2)
        self._items[slot] = (self._kept(x, size),)
        return x

    def total(self, slot: int, new: Tensor) -> Tensor:
        """``new`` plus what ``slot`` held; only the last token's value is remembered."""
        old = self._items.get(slot)
        if old is not None:
            new = new + old[0]
        self._items[slot] = (self._kept(new, 1),)
        return new

    def forget(self, slots: Iterable[int]) -> None:
        """Drop what these slots hold: who misses a piece must not take older text for it."""
        for slot in slots:
            self._items.pop(slot, None)

    def claim(self, slots: Iterable[int], owner: str) -> None:
        """Forget what these slots hold if it was left there by another owner."""
        for slot in slots:
            if self._owners.setdefault(slot, owner) != owner:
                self._items.pop(slot, None)
                self._owners[slot] = owner

    def claim_all(self, owner: str) -> None:
        """Forget everything that was left by another owner: a model of another width."""
        if self._owners.setdefault(_ALL, owner) != owner:
            self._items.clear()
            self._owners[_ALL] = owner

    def key_mask(self, mask: Tensor | None, batch: int, length: int) -> Tensor | None:
        """Which remembered and new tokens are real, (b, remembered + n); None when all are."""
        if mask is None and self._mask is None:
            return None
        device = mask.device if mask is not None else self._mask.device  # type: ignore[union-attr]
        old, new = self._mask, mask
        if old is None:
            old = torch.ones(batch, self.remembered, dtype=torch.bool, device=device)
        if new is None:
            new = torch.ones(batch, length, dtype=torch.bool, device=device)
        return torch.cat((old, new), dim=1)

    def advance(self, mask: Tensor | None, batch: int, length: int) -> None:
        """Called once at the end of a pass: the new tokens have become old ones."""
        whole = self.key_mask(mask, batch, length)
        self.seen += length
        if whole is not None:
            self._mask = whole[:, whole.shape[1] - self.remembered :]

    def emptied(self) -> "Past":
        """Another of the same kind that remembers nothing yet."""
        return Past(self.limit, same_length=self.same_length, clamp=self.clamp)

    def copy(self) -> "Past":
        """The same memory, to go on from more than once."""
        other = self.emptied()
        other.seen, other._mask = self.seen, self._mask
        other._items = dict(self._items)  # tensors are replaced, never changed
        other._owners = dict(self._owners)
        return other

    def to_tensors(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """The whole memory as named tensors and plain numbers, to be saved."""
        tensors = {
            f"{slot}.{i}": t for slot, items in self._items.items() for i, t in enumerate(items)
        }
        if self._mask is not None:
            tensors["mask"] = self._mask
        numbers: dict[str, Any] = {
            "limit": self.limit,
            "same_length": self.same_length,
            "seen": self.seen,
        }
        if self.clamp is not None:
            numbers["clamp"] = self.clamp
        if self._owners:
            numbers["owners"] = {str(slot): owner for slot, owner in self._owners.items()}
        return tensors, numbers

    @classmethod
    def from_tensors(cls, tensors: dict[str, Tensor], numbers: dict[str, Any]) -> "Past":
        """The inverse of ``to_tensors``."""
        kind = {"same_length": numbers["same_length"], "clamp": numbers.get("clamp")}
        past = cls(numbers["limit"], **kind)
        past.seen, past._mask = numbers["seen"], tensors.get("mask")
        past._owners = {int(slot): owner for slot, owner in numbers.get("owners", {}).items()}
        slots: dict[int, dict[int, Tensor]] = {}
        for name, tensor in tensors.items():
            if name != "mask":
                slot, index = name.split(".")
                slots.setdefault(int(slot), {})[int(index)] = tensor
        past._items = {s: tuple(t for _, t in sorted(items.items())) for s, items in slots.items()}
        return past

    def reorder(self, rows: Tensor) -> None:
        """Keep these rows of the batch, in this order: beam search."""
        self._items = {
            slot: tuple(t.index_select(0, rows) for t in items)
            for slot, items in self._items.items()
        }
        if self._mask is not None:
            self._mask = self._mask.index_select(0, rows)

    @staticmethod
    def _kept(x: Tensor, limit: int | None) -> Tensor:
        x = x.detach()
        return x if limit is None else x[..., max(0, x.shape[-2] - limit) :, :]
