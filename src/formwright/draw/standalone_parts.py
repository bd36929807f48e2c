"""Text of the functions that stand-alone code may call."""

IMPORTS = '''"""A layer found by a search, as stand-alone PyTorch code.

x (batch, tokens, channels); mask (batch, tokens) is True where a token is real, None where all are.
b batch, l lane (a head with weights of its own), n token, t key, w channel, m map of scores
"""

import torch
import torch.nn.functional as F
from torch import nn'''

LOADING = '''
    def load(self, state, prefix=""):
        """Take over weights of a trained model: ``prefix`` is the place of the layer in it."""
        own = self.state_dict()
        for ours, theirs in WEIGHTS.items():
            own[ours].copy_(state[prefix + theirs].view_as(own[ours]))
        return self'''

HELPERS = {
    "visible": '''def visible(x, mask, causal):
    """Which keys each query may look at, (b or 1, 1, 1, n, t); None when it is all of them."""
    n = x.shape[1]
    seen = torch.ones(n, n, dtype=torch.bool, device=x.device)
    seen = (seen.tril() if causal else seen)[None, None, None]
    if mask is None:
        return seen if causal and n > 1 else None
    return seen & (mask[:, None, None, None, :] | ~mask[:, None, None, :, None])''',
    "hide": '''def hide(scores, seen, fill):
    """Scores with ``fill`` where a query may not look."""
    return scores if seen is None else scores.masked_fill(~seen, fill)''',
    "taps": '''def taps(channels, kernel, causal):
    """Kernels as Primer begins with them: the token itself weighs 0.5, the others share 0.5."""
    weight = torch.full((channels, kernel), 0.5 / kernel)
    weight[:, -1 if causal else kernel // 2] = 0.5
    return weight''',
    "around": '''def around(x, kernel, causal, mask):
    """The stream (b, l w, n + kernel - 1) with the tokens that a convolution looks at."""
    x = x.transpose(1, 2).flatten(2)
    if mask is not None:
        x = x * mask.unsqueeze(-1).to(x.dtype)
    before = kernel - 1 if causal else kernel // 2
    return F.pad(x, (0, 0, before, kernel - 1 - before)).transpose(1, 2)''',
    "depthwise": '''def depthwise(x, weight, lanes):
    """One kernel per channel."""
    x = F.conv1d(x, weight.unsqueeze(1), groups=weight.shape[0])
    return x.unflatten(1, (lanes, -1)).transpose(2, 3).contiguous()''',
    "convolution": '''def convolution(x, weight, lanes, groups):
    """A convolution over tokens; lanes with inputs of their own are groups."""
    return F.conv1d(x, weight, groups=groups).unflatten(1, (lanes, -1)).transpose(2, 3)''',
    "dense": '''def dense(x, weight, lanes):
    """A dense map of each token; each lane has its own."""
    if x.shape[1] == 1:
        return F.linear(x.squeeze(1), weight).unflatten(-1, (lanes, -1)).transpose(1, 2)
    return torch.einsum("blnw,low->blno", x, weight.unflatten(0, (lanes, -1)))''',
    "dealt": '''def dealt(rows, maps):
    """(b, l, n, m e) to (b, l, m, n, e): each map has its share of the channels."""
    return rows.unflatten(-1, (maps, -1)).transpose(2, 3)''',
    "mix": '''def mix(scores, rows):
    """Scores times rows."""
    return (scores @ dealt(rows, scores.shape[2])).transpose(2, 3).flatten(3)''',
    "attend": '''def attend(q, k, v, seen, plain, maps, scale):
    """softmax(scale q k^T) v, each map with its share of the channels."""
    lanes = max(part.shape[1] for part in (q, k, v))
    q, k, v = (dealt(part.expand(-1, lanes, -1, -1), maps).flatten(1, 2) for part in (q, k, v))
    mask = None if plain or seen is None else seen.squeeze(2)
    x = F.scaled_dot_product_attention(q, k, v, mask, is_causal=plain, scale=scale)
    return x.unflatten(1, (lanes, maps)).transpose(2, 3).flatten(3)''',
    "mean_keys": '''def mean_keys(scores, seen):
    """The mean over visible keys; hidden ones are zero already."""
    if seen is None:
        return scores.mean(dim=-1).transpose(2, 3)
    return (scores.sum(dim=-1) / seen.sum(dim=-1)).transpose(2, 3)''',
    "cumulate": '''def cumulate(x, word, mask):
    """Running totals over tokens; padding adds nothing."""
    if mask is not None:
        x = x.masked_fill(~mask[:, None, :, None], 0.0 if word == "cum_sum" else 1.0)
    return x.cumsum(dim=-2) if word == "cum_sum" else x.cumprod(dim=-2)''',
    "fit": '''def fit(x, width):
    """Rows of another width: one channel is repeated, others are cut off or filled up."""
    if x.shape[-1] == 1:
        return x.expand(*x.shape[:-1], width)
    return F.pad(x, (0, width - x.shape[-1]))''',
    "join_rows": '''def join_rows(x, branches):
    """(b, l k, n, w) to (b, l, n, k w)."""
    return x.unflatten(1, (-1, branches)).transpose(2, 3).flatten(3)''',
    "join_scores": '''def join_scores(x, branches):
    """(b, l k, m, n, t) to (b, l, k m, n, t)."""
    return x.unflatten(1, (-1, branches)).flatten(2, 3)''',
    "repeat_rows": '''def repeat_rows(x, branches):
    """The channels again and again."""
    return x.repeat(1, 1, 1, branches)''',
    "repeat_scores": '''def repeat_scores(x, branches):
    """The maps again and again."""
    return x.repeat(1, 1, branches, 1, 1)''',
    "weigh": '''def weigh(scores, seen):
    """Softmax over the keys that each query may see."""
    scores = scores if seen is None else scores.masked_fill(~seen, float("-inf"))
    return scores.softmax(dim=-1)''',
    "softmax_tokens": '''def softmax_tokens(x, mask):
    """Softmax over all real tokens."""
    if mask is not None:
        hidden = ~mask & mask.any(dim=-1, keepdim=True)
        x = x.masked_fill(hidden[:, None, None, :], float("-inf"))
    return x.softmax(dim=-1)''',
    "real": '''def real(x, mask, axis):
    """Padding set to zero along an axis of tokens."""
    if mask is None:
        return x
    keys = mask[:, None, None, :]
    return x * (keys if axis == -1 else keys.transpose(-2, -1)).to(x.dtype)''',
}
NEEDS = {"mix": {"dealt"}, "attend": {"dealt"}}
