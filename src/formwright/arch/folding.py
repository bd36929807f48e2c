"""Words in a row, repeated stretches written once: ``sfffsfffff`` is ``(sfff)x2ff``.

The shortest writing of the first n words is the shortest one of fewer words with one more piece
behind it, a word or a stretch that repeats. Writings are kept as chains of pieces, and compared
from where they part, so that the work grows with the number of words and not with its square.
"""

from collections import deque
from collections.abc import Iterator, Sequence
from functools import lru_cache

_LONGEST_PATTERN = 24  # repeated stretches longer than this are not looked for
Option = tuple[int, str]  # so many words as they are best written, and a piece behind them


@lru_cache(maxsize=4096)
def folded(words: tuple[str, ...], between: str = "") -> str:
    """The shortest writing of the words; of equally short ones, the first in alphabetical order."""
    best = _Writings(between)
    patterns = [_Pattern(n, best) for n in range(1, min(len(words) // 2, _LONGEST_PATTERN) + 1)]
    for end, word in enumerate(words, start=1):
        options = [(end - 1, word)]
        for pattern in patterns:
            for begin in pattern.begins(words, end):
                size = pattern.size
                inner = word if size == 1 else folded(words[end - size : end], between)
                options.append((begin, f"({inner})x{(end - begin) // size}"))
        best.add(options)
    return between.join(best.pieces(len(words)))


class _Writings:
    """The best writing of the first n words, for every n so far: a piece behind an earlier one."""

    def __init__(self, between: str) -> None:
        self.between = between
        self.lengths = [0]
        self.options: list[Option] = [(0, "")]

    def add(self, options: Sequence[Option]) -> None:
        """Keep the best option for one word more."""
        lengths = [self._length(option) for option in options]
        least = min(lengths)
        best, *others = (o for o, n in zip(options, lengths, strict=True) if n == least)
        for other in others:
            if self._first(other, best):
                best = other
        self.options.append(best)
        self.lengths.append(least)

    def better(self, one: int, other: int) -> bool:
        """Whether the writing of so many words is better than that of so many others."""
        if self.lengths[one] != self.lengths[other]:
            return self.lengths[one] < self.lengths[other]
        return self._first(self.options[one], self.options[other])

    def pieces(self, words: int) -> list[str]:
        """The best writing of the first so many words."""
        return [] if words == 0 else [*self._back(self.options[words], 0)][::-1]

    def _length(self, option: Option) -> int:
        words, piece = option
        return self.lengths[words] + len(self.between) * (words > 0) + len(piece)

    def _first(self, one: Option, other: Option) -> bool:
        """Whether ``one`` comes first in alphabetical order; both are equally long."""
        a, b = one[0], other[0]
        while a != b:  # a step back from whichever has more words, until they are the same
            a, b = (self.options[a][0], b) if a > b else (a, self.options[b][0])
        left, right = ([*self._back(option, a)][::-1] for option in (one, other))
        return self.between.join(left) < self.between.join(right)

    def _back(self, option: Option, shared: int) -> Iterator[str]:
        """The pieces behind the first ``shared`` words, the last one first."""
        words, piece = option
        yield piece
        while words > shared:
            words, piece = self.options[words]
            yield piece


class _Pattern:
    """Stretches of one size that repeat, and where writing them once had best begin.

    With so many digits, the number of repetitions takes the same room wherever the stretch begins,
    so that only the best writing of what stands before matters: the minimum of a sliding window.
    """

    def __init__(self, size: int, best: _Writings) -> None:
        self.size, self.best = size, best
        self.alike = 0  # words in a row that equal the one a stretch before them
        # For each place within the stretch and each number of digits, the begins worth keeping.
        self.windows: list[list[deque[int]]] = [[] for _ in range(size)]

    def begins(self, words: Sequence[str], end: int) -> Iterator[int]:
        """The best place to begin for each number of digits of the repetitions up to ``end``."""
        last, size = end - 1, self.size
        self.alike = self.alike + 1 if last >= size and words[last] == words[last - size] else 0
        times = self.alike // size + 1
        windows = self.windows[end % size]
        if times < 2:
            windows.clear()
            return
        if times == 2 or times == 10 ** len(windows):
            windows.append(deque())
        for digits, window in enumerate(windows):
            fewest, most = max(2, 10**digits), 10 ** (digits + 1) - 1
            self._enter(window, end - fewest * size)
            if window[0] < end - most * size:
                window.popleft()
            yield window[0]

    def _enter(self, window: deque[int], begin: int) -> None:
        while window and self.best.better(begin, window[-1]):
            window.pop()
        window.append(begin)
