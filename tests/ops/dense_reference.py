"""Every attention mechanism once more, written as its definition: dense, slow, obviously right.

Nothing here is shared with the kernels. Patterns are boolean matrices filled by asking the rule of
the paper for each pair of positions, and attention is a softmax over the whole row.
"""

import math
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

# b batch, h head, n position, d query/key size per head, e value size per head


def pattern(n: int, rule: Callable[[int, int], bool]) -> Tensor:
    """visible[i, j] = rule(i, j)."""
    return torch.tensor([[rule(i, j) for j in range(n)] for i in range(n)])


def local(n: int, block: int) -> Tensor:
    return pattern(n, lambda i, j: i // block == j // block)


def longformer(n: int, window: int, global_tokens: int = 0) -> Tensor:
    left, right = window - window // 2 - 1, window // 2
    return pattern(
        n, lambda i, j: -left <= j - i <= right or i < global_tokens or j < global_tokens
    )


def sparse(n: int, block: int, summary: int, *, first_column: bool, cls: bool = False) -> Tensor:
    def rule(i: int, j: int) -> bool:
        if cls:
            if i == 0 or j == 0:
                return True
            i, j = i - 1, j - 1
        column = j % block >= block - summary or (first_column and j % block == 0)
        return j <= i and (i // block == j // block or column)

    return pattern(n, rule)


def bigbird(n: int, block: int, plan: Tensor) -> Tensor:
    """One pattern per head, (h, n, n)."""
    last = math.ceil(n / block) - 1
    rows = plan.tolist()

    def rule(head: int, i: int, j: int) -> bool:
        row, column = i // block, j // block
        if row in (0, last) or column in (0, last) or abs(row - column) <= 1:
            return True
        return column in rows[head][row - 1]

    heads = range(len(rows))
    return torch.stack([pattern(n, lambda i, j, h=head: rule(h, i, j)) for head in heads])


def restrict(visible: Tensor, mask: Tensor | None, causal: bool) -> Tensor:
    """Take padded keys and, if causal, the future out of a pattern: (b or 1, h or 1, n, n)."""
    n = visible.shape[-1]
    visible = visible.view(1, -1, n, n)
    if causal:
        visible = visible & pattern(n, lambda i, j: j <= i)
    return visible if mask is None else visible & mask[:, None, None, :]


def softmax_attention(
    q: Tensor, k: Tensor, v: Tensor, visible: Tensor, *, scale: float | None = None
) -> Tensor:
    scale = 1 / math.sqrt(q.shape[-1]) if scale is None else scale
    scores = (q @ k.transpose(-1, -2) * scale).masked_fill(~visible, -math.inf)
    return torch.softmax(scores, -1).nan_to_num(0.0) @ v


def weighted_average(weights: Tensor, v: Tensor, visible: Tensor, eps: float = 0.0) -> Tensor:
    """Attention whose weights are not a softmax: A v / (A 1 + eps)."""
    weights = weights * visible
    return weights @ v / (weights.sum(-1, keepdim=True) + eps)


def linear(q: Tensor, k: Tensor, v: Tensor, visible: Tensor) -> Tensor:
    def phi(x: Tensor) -> Tensor:
        return torch.where(x > 0, x + 1, torch.exp(x.clamp(max=0)))

    return weighted_average(phi(q) @ phi(k).transpose(-1, -2), v, visible, 1e-6)


def performer_relu(q: Tensor, k: Tensor, v: Tensor, visible: Tensor) -> Tensor:
    q, k = q.clamp(min=0) + 1e-3, k.clamp(min=0) + 1e-3
    return weighted_average(q @ k.transpose(-1, -2), v, visible)


def performer_favor(
    q: Tensor, k: Tensor, v: Tensor, visible: Tensor, *, projection: Tensor, mask: Tensor | None,
    causal: bool,
) -> Tensor:  # fmt: skip
    m, d = projection.shape

    def phi(x: Tensor, maximum: Callable[[Tensor], Tensor | float]) -> Tensor:
        x = x / d**0.25
        scores = torch.einsum("bhnd,md->bhnm", x, projection)
        norm = (x * x).sum(-1, keepdim=True) / 2
        return (torch.exp(scores - norm - maximum(scores)) + 1e-6) / math.sqrt(m)

    def over_real_positions(scores: Tensor) -> Tensor | float:
        if causal:
            return 0.0
        if mask is not None:
            scores = scores.masked_fill(~mask[:, None, :, None], -math.inf)
        return scores.amax((-1, -2), keepdim=True)

    q_features = phi(q, lambda scores: scores.amax(-1, keepdim=True))
    k_features = phi(k, over_real_positions)
    return weighted_average(q_features @ k_features.transpose(-1, -2), v, visible)


def linformer(
    q: Tensor, k: Tensor, v: Tensor, projections: tuple[Tensor, Tensor], mask: Tensor | None
) -> Tensor:
    if mask is not None:
        k, v = k * mask[:, None, :, None], v * mask[:, None, :, None]
    keys, values = (
        torch.einsum("nr,bhnd->bhrd", projection[: q.shape[2]], x)
        for projection, x in zip(projections, (k, v), strict=True)
    )
    return torch.softmax(q @ keys.transpose(-1, -2) / math.sqrt(q.shape[-1]), -1) @ values


def synthesizer(
    q: Tensor | None, k: Tensor | None, v: Tensor, factors: tuple[Tensor, Tensor], visible: Tensor
) -> Tensor:
    n = v.shape[2]
    scores = (factors[0] @ factors[1])[None, :, :n, :n].expand(v.shape[0], -1, -1, -1)
    if q is not None and k is not None:
        scores = scores + q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1])
    return torch.softmax(scores.masked_fill(~visible, -math.inf), -1).nan_to_num(0.0) @ v


def hash_buckets(x: Tensor, rotations: Sequence[Tensor]) -> Tensor:
    """(hashes, n) buckets of the tokens of one head, (n, d)."""
    result = torch.zeros(rotations[0].shape[0], x.shape[0], dtype=torch.long)
    for rotation in rotations:
        for hash_round, matrix in enumerate(rotation):
            turned = x @ matrix.to(x.dtype)
            side = torch.cat([turned, -turned], -1).argmax(-1)
            result[hash_round] = result[hash_round] * 2 * matrix.shape[-1] + side
    return result


def reformer_pairs(
    buckets: Sequence[int], real: Sequence[bool], chunk: int, *, causal: bool, within_bucket: bool
) -> Tensor:
    """visible[i, j] of one head and one round, by walking through the sorted tokens."""
    n = len(buckets)
    fill = -n % chunk
    tokens = sorted(range(n), key=lambda i: (not real[i], buckets[i], i))
    tokens = [*tokens, *[-1] * fill]
    chunks = [tokens[start : start + chunk] for start in range(0, n + fill, chunk)]
    visible = torch.zeros(n, n, dtype=torch.bool)
    for number, own in enumerate(chunks):
        for i in own:
            for j in {*own, *chunks[number - 1]}:
                if i < 0 or j < 0 or not real[j]:
                    continue
                if (causal and j > i) or (within_bucket and buckets[i] != buckets[j]):
                    continue
                visible[i, j] = True
    return visible


def reformer(
    qk: Tensor, v: Tensor, rotations: Sequence[Tensor], mask: Tensor | None, chunk: int,
    *, causal: bool = False, within_bucket: bool = False, corrected: bool = True,
) -> Tensor:  # fmt: skip
    """All rounds in one softmax, a key counted once for each round in which it is visible."""
    batch, heads, n, d = qk.shape
    rows = []
    for b in range(batch):
        real = [True] * n if mask is None else mask[b].tolist()
        for h in range(heads):
            rounds = [
                reformer_pairs(row, real, chunk, causal=causal, within_bucket=within_bucket)
                for row in hash_buckets(qk[b, h].detach(), rotations).tolist()
            ]
            times = torch.stack(rounds).sum(0).to(qk.dtype)  # (n, n)
            times[times.sum(-1) == 0] = 1  # padding that sees nothing: any finite row will do
            q = k = qk[b, h]
            if corrected:
                k = k / ((k * k).mean(-1, keepdim=True) + 1e-6).sqrt() / math.sqrt(d)
                scores = q @ k.T - 1e5 * torch.eye(n, dtype=qk.dtype)
            else:
                scores = q @ k.T * math.sqrt(d)
            rows.append(torch.softmax(scores + times.log(), -1) @ v[b, h])
    return torch.stack(rows).view(batch, heads, n, -1)
