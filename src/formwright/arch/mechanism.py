"""Attention mechanisms: which keys a query sees, and how what it sees is weighed.

A mechanism is the ``kind`` of an ``attention`` node, which owns the projections around it. Counts
are those of the computation as it runs: blocked where the mechanism is, never a dense n x n.
``lra`` asks for what the Long Range Arena code does where that differs from the paper.
"""

from typing import TYPE_CHECKING, ClassVar, Literal

from formwright.arch.node import Node, NonNegative, Positive, node
from formwright.arch.site import Count, Load, Site, dense
from formwright.errors import ShapeError

if TYPE_CHECKING:
    from formwright.arch.attention import Attention

Law = Literal["causal", "padding", "pieces"]


class Mechanism(Node):
    """What happens between the projections of an attention."""

    paper: ClassVar[str] = ""
    complexity: ClassVar[str] = "n^2"  # of time, in the length
    can_be_causal: ClassVar[bool] = True
    positions: ClassVar[Literal["all", "turned", "none"]] = "none"  # which reach its scores
    broken_by_lra: ClassVar[frozenset[Law]] = frozenset()  # laws that ``lra`` breaks

    @property
    def breaks(self) -> frozenset[Law]:
        """Laws that the mechanism breaks by definition.

        ``causal``: in a decoder a later token can still change an earlier result; ``padding``:
        padding is seen; ``pieces``: a text cannot be read piece by piece.
        """
        return self.broken_by_lra if getattr(self, "lra", False) else frozenset()

    def check(self, attention: "Attention", site: Site) -> None:
        """Raise ``ShapeError`` when the mechanism cannot work in that attention."""
        if attention.over == "source":
            raise ShapeError(
                f"{self.NAME} attention compares a text with itself; over=source needs softmax."
            )
        if attention.query_key == "none":
            raise ShapeError(f"{self.NAME} attention compares queries with keys; none are made.")
        if site.causal and not self.can_be_causal:
            raise ShapeError(
                f"{self.NAME} attention sees the future; it cannot stand in a decoder."
            )

    def count(self, attention: "Attention", site: Site, load: Load) -> Count:
        """Own parameters, and the work between the projections."""
        raise NotImplementedError


def compared(attention: "Attention", site: Site, load: Load, cells: int) -> Count:
    """The work of comparing and mixing ``cells`` pairs of a query and a key, per head and text."""
    key, value = attention.key_size(site.width), attention.value_size(site.width)
    pairs = load.batch * attention.heads * cells
    # kept: the result, and one number per query to make the weights again
    kept = load.tokens * attention.heads * (value + 1)
    return Count(flops=2 * pairs * (key + value), kept=kept)


def filled(length: int, block: int) -> int:
    """The length when the last block is filled up."""
    return -(-length // block) * block


@node("softmax")
class Softmax(Mechanism):
    """Every query sees every key (or every earlier one), weighed by the softmax of q.k."""

    paper = "https://arxiv.org/abs/1706.03762"
    positions = "all"

    def check(self, attention: "Attention", site: Site) -> None:
        """Softmax works everywhere."""

    def count(self, attention: "Attention", site: Site, load: Load) -> Count:
        if attention.query_key == "none":  # a mean takes no product
            return Count(kept=load.tokens * attention.mixed_width(site.width))
        keys = load.source if attention.over == "source" else load.length + load.past
        total = compared(attention, site, load, load.length * keys)
        if attention.groups != attention.heads:  # grouped keys and values are spelled out
            key, value = attention.key_size(site.width), attention.value_size(site.width)
            total += Count(kept=load.batch * keys * attention.heads * (key + value))
        return total


@node("local")
class Local(Mechanism):
    """A query sees the keys of its own block; blocks do not overlap.

    ``lra``: zeros that fill up the last block can be seen.
    """

    block: Positive = 50
    lra: bool = False
    paper = "https://arxiv.org/abs/2011.04006"
    complexity = "n"
    positions = "turned"

    def count(self, attention: "Attention", site: Site, load: Load) -> Count:
        tail = load.length % self.block
        seen = self.block if self.lra and tail else tail
        return compared(attention, site, load, (load.length - tail) * self.block + tail * seen)


@node("longformer")
class Longformer(Mechanism):
    """A query sees a window of keys around it, and the first ``global_tokens`` see everything.

    Global tokens have projections of their own; ``lra`` builds those even when there are none.
    """

    window: Positive = 512
    global_tokens: NonNegative = 0
    lra: bool = False
    paper = "https://arxiv.org/abs/2004.05150"
    complexity = "n"
    positions = "turned"

    SMALLEST_CHUNK: ClassVar[int] = 32

    @property
    def breaks(self) -> frozenset[Law]:
        return frozenset({"pieces"}) if self.global_tokens else frozenset()

    def check(self, attention: "Attention", site: Site) -> None:
        super().check(attention, site)
        if (self.global_tokens or self.lra) and attention.query_key != "separate":
            raise ShapeError("longformer's global projections need query_key=separate.")
        if (self.global_tokens or self.lra) and attention.head_norm is not None:
            raise ShapeError("longformer's global projections know no head_norm.")

    def count(self, attention: "Attention", site: Site, load: Load) -> Count:
        n = load.length
        left = min(self.window - self.window // 2 - 1, n - 1)
        right = 0 if site.causal else min(self.window // 2, n - 1)
        chunk = min(max(left, right, self.SMALLEST_CHUNK), n)
        blocks = 1 + (left > 0 and n > chunk) + (right > 0 and n > chunk)
        seen = min(self.global_tokens, n)
        cells = filled(n, chunk) * (blocks * chunk + seen) + seen * n
        total = compared(attention, site, load, cells)
        if self.global_tokens or self.lra:
            used = load.tokens if self.global_tokens else 0
            query = attention.heads * attention.key_size(site.width)
            key = attention.groups * attention.key_size(site.width)
            value = attention.groups * attention.value_size(site.width)
            for channels in (query, key, value):
                total += dense(used, site.width, channels, bias=attention.bias)
        return total


@node("sparse")
class Sparse(Mechanism):
    """Sparse Transformer, fixed pattern: the own block, and the last keys of earlier blocks.

    Causal by itself. ``summary`` keys per block are seen by all later ones. ``lra``: the first
    key of each block too, and a leading CLS vector sees and is seen by all.
    """

    block: Positive = 50
    summary: NonNegative = 10
    lra: bool = False
    paper = "https://arxiv.org/abs/1904.10509"
    complexity = "n^2; n^1.5 with blocks of sqrt(n)"
    positions = "turned"
    broken_by_lra = frozenset({"pieces"})

    def count(self, attention: "Attention", site: Site, load: Load) -> Count:
        n = load.length
        tokens = n - self.lra
        if tokens == 0:
            return compared(attention, site, load, 1)
        block = min(self.block, tokens)
        columns = len({*range(max(self.block - self.summary, 0), self.block)} | self.first)
        rows = filled(tokens, block)
        summary = (rows // block - 1) * columns + self.lra
        return compared(attention, site, load, rows * (block + summary) + self.lra * n)

    @property
    def first(self) -> set[int]:
        """The extra column that the Long Range Arena code makes visible."""
        return {0} if self.lra else set()


@node("bigbird")
class BigBird(Mechanism):
    """A query block sees its neighbours, some random blocks, and the first and last block."""

    block: Positive = 64
    random_blocks: NonNegative = 3
    paper = "https://arxiv.org/abs/2007.14062"
    complexity = "n"
    can_be_causal = False
    positions = "turned"

    def count(self, attention: "Attention", site: Site, load: Load) -> Count:
        n = filled(load.length, self.block)
        blocks = n // self.block
        if blocks <= 3:
            return compared(attention, site, load, load.length**2)
        inner = (blocks - 2) * self.block
        seen = (2 + 3 + self.random_blocks) * self.block
        return compared(attention, site, load, inner * seen + 2 * self.block * n)


class Featured(Mechanism):
    """Weights are products of positive features of query and key, so that sums can be swapped."""

    complexity = "n"
    CAUSAL_CHUNK: ClassVar[int] = 128

    def features(self, attention: "Attention", site: Site) -> int:
        """Features of one query or key."""
        return attention.key_size(site.width)

    def count(self, attention: "Attention", site: Site, load: Load) -> Count:
        n, m = load.length, self.features(attention, site)
        value = attention.value_size(site.width)
        rows = load.batch * attention.heads
        if site.causal:
            chunk = min(self.CAUSAL_CHUNK, n)
            n = filled(n, chunk)
            flops = 2 * rows * n * (chunk * (m + value) + 2 * m * value + m)
        else:
            flops = 2 * rows * n * (2 * m * value + m)
        kept = load.tokens * attention.heads * (2 * m + value + 1) + rows * m * (value + 1)
        return Count(flops=flops, kept=kept)


@node("linear_transformer")
class LinearTransformer(Featured):
    """Features elu(x) + 1. ``lra``: padding is seen."""

    lra: bool = False
    paper = "https://arxiv.org/abs/2006.16236"
    broken_by_lra = frozenset({"padding"})


@node("performer")
class Performer(Featured):
    """Features that stand for softmax (``favor``: random and orthogonal), or plain ReLU.

    ``count`` random features are drawn once and kept. ``lra``: padding is seen.
    """

    kernel: Literal["relu", "favor"] = "relu"
    random_features: Positive = 64
    lra: bool = False
    paper = "https://arxiv.org/abs/2009.14794"
    broken_by_lra = frozenset({"padding"})

    def features(self, attention: "Attention", site: Site) -> int:
        return super().features(attention, site) if self.kernel == "relu" else self.random_features

    def count(self, attention: "Attention", site: Site, load: Load) -> Count:
        total = super().count(attention, site, load)
        if self.kernel == "favor":
            rows = load.tokens * attention.heads
            key = attention.key_size(site.width)
            total += Count(flops=2 * 2 * rows * key * self.random_features)
        return total


@node("linformer")
class Linformer(Mechanism):
    """Keys and values are mixed along the length into a few ``slots``, by a learned matrix.

    One matrix serves keys, values and all heads unless ``shared=false`` gives values their own.
    ``lra``: padding is seen.
    """

    slots: Positive = 16
    shared: bool = True
    lra: bool = False
    paper = "https://arxiv.org/abs/2006.04768"
    broken_by_lra = frozenset({"padding"})
    complexity = "n"
    can_be_causal = False

    def count(self, attention: "Attention", site: Site, load: Load) -> Count:
        key, value = attention.key_size(site.width), attention.value_size(site.width)
        rows = load.batch * attention.heads * load.length
        params = (2 - self.shared) * self.slots * (site.longest or 0)
        kept = load.tokens * attention.heads * (value + self.slots)
        return Count(params, 4 * rows * self.slots * (key + value), kept)


@node("reformer")
class Reformer(Mechanism):
    """Tokens are sorted by a hash and see their own and the previous chunk.

    Queries are the keys. In a decoder a later token can move an earlier one to another chunk, so
    that not only the past decides. ``lra``: ``chunks`` chunks instead of ``chunk`` tokens each,
    scores multiplied by sqrt(d), no mask at all, and heads joined without transposing.
    """

    chunk: Positive = 64
    hashes: Positive = 1
    buckets: Positive | None = None
    chunks: Positive = 10
    lra: bool = False
    paper = "https://arxiv.org/abs/2001.04451"
    complexity = "n; n^2 with lra (fixed number of chunks)"
    broken_by_lra = frozenset({"padding"})

    @property
    def breaks(self) -> frozenset[Law]:
        return super().breaks | {"causal", "pieces"}

    def check(self, attention: "Attention", site: Site) -> None:
        super().check(attention, site)
        if attention.query_key != "shared":
            raise ShapeError("reformer attention compares keys with keys: set query_key=shared.")
        if self.lra and site.causal:
            raise ShapeError("reformer(lra=true) has no causal form; it cannot stand in a decoder.")
        if (self.buckets or 2) % 2:
            raise ShapeError(f"reformer needs an even number of buckets, not {self.buckets}.")
        if self.lra and (attention.project_out or self.hashes > 1):
            raise ShapeError("reformer(lra=true) has one hash and no output: project_out=false.")

    def bucket_count(self, longest: int | None) -> int:
        """Buckets; unless given, two per chunk of the longest input, which must be known."""
        if self.buckets is not None:
            return self.buckets
        return 10 if self.lra else max(2, 2 * (-(-(longest or 1) // self.chunk)))

    def count(self, attention: "Attention", site: Site, load: Load) -> Count:
        n = load.length
        if self.lra:
            rows = n + self.chunks - n % self.chunks
            chunk, several = rows // self.chunks, self.chunks > 1
        else:
            chunk = min(self.chunk, n)
            rows = filled(n, chunk)
            several = rows > chunk
        total = compared(attention, site, load, self.hashes * rows * chunk * (1 + several))
        key = attention.key_size(site.width)
        sides = self.bucket_count(site.longest) // 2
        hashed = 2 * load.batch * attention.heads * self.hashes * rows * key * sides
        return total + Count(flops=hashed)


@node("synthesizer")
class Synthesizer(Mechanism):
    """A learned score for every pair of positions, of low rank, beside the dot product.

    With ``query_key=none`` there is no dot product, and weights do not depend on the text.
    ``lra``: then padding is seen.
    """

    rank: Positive = 32
    lra: bool = False
    paper = "https://arxiv.org/abs/2005.00743"
    broken_by_lra = frozenset({"padding"})
    complexity = "n^2 by definition"

    def check(self, attention: "Attention", site: Site) -> None:
        if attention.query_key != "none":
            super().check(attention, site)
        elif attention.over == "source":
            raise ShapeError("synthesizer attention knows positions of one text only.")

    def count(self, attention: "Attention", site: Site, load: Load) -> Count:
        value = attention.value_size(site.width)
        key = 0 if attention.query_key == "none" else attention.key_size(site.width)
        size = max(key + self.rank, value)  # the fused kernel wants equal sizes
        cells = load.batch * attention.heads * load.length**2
        params = 2 * attention.heads * (site.longest or 0) * self.rank
        kept = load.tokens * attention.heads * (3 * size + 1)
        return Count(params, 4 * cells * size, kept)
