"""Cells of the Evolved Transformer as stand-alone torch code.

Modules and weights have the names that they have in a model of formwright, so that the state of a
trained cell loads as it is.
"""

from formwright.arch.attention import Attention
from formwright.arch.conv import Conv, ReducedConv, SeparableConv
from formwright.arch.graph.cell import Cell, CellPlan, PlacedBlock, PlacedBranch
from formwright.arch.layer import GLU, Identity, Layer, LayerNorm, Linear
from formwright.arch.mechanism import Softmax
from formwright.arch.site import Site
from formwright.arch.writer import write
from formwright.draw.standalone_parts import IMPORTS
from formwright.errors import SpecError

_ACTIVATIONS = {"silu": "F.silu", "relu": "F.relu", "leaky_relu": "F.leaky_relu", "gelu": "F.gelu"}
_NEUTRAL = {"add": ("0.0", "+"), "multiply": ("1.0", "*")}

_AROUND = '''def around(x, kernel, causal, mask):
    """The stream (b, w, n + kernel - 1) with the tokens that a convolution looks at."""
    if mask is not None:
        x = x * mask.unsqueeze(-1).to(x.dtype)
    before = kernel - 1 if causal else kernel // 2
    return F.pad(x, (0, 0, before, kernel - 1 - before)).transpose(1, 2)'''

PARTS = {
    "Conv": '''class Conv(nn.Module):
    """Every output channel sees every input channel of every neighbour."""

    def __init__(self, width, out, kernel, causal, bias):
        super().__init__()
        self.kernel, self.causal = kernel, causal
        self.weight = nn.Parameter(torch.empty(out, width, kernel))
        self.bias = nn.Parameter(torch.zeros(out)) if bias else None
        nn.init.xavier_uniform_(self.weight)

    def forward(self, x, mask, source, source_mask):
        x = around(x, self.kernel, self.causal, mask)
        return F.conv1d(x, self.weight, self.bias).transpose(1, 2)''',
    "Separable": '''class Depthwise(nn.Module):
    """One kernel per channel."""

    def __init__(self, width, kernel, causal):
        super().__init__()
        self.kernel, self.causal = kernel, causal
        self.weight = nn.Parameter(torch.empty(width, kernel).uniform_(-1, 1) * kernel**-0.5)

    def forward(self, x, mask):
        x = around(x, self.kernel, self.causal, mask)
        x = F.conv1d(x, self.weight.unsqueeze(1), groups=self.weight.shape[0])
        return x.transpose(1, 2)


class Separable(nn.Module):
    """Depthwise, then dense over channels; several units are stacked with ReLU between."""

    def __init__(self, width, out, kernel, units, causal):
        super().__init__()
        widths = [width] + [out] * (units - 1)
        self.depthwise = nn.ModuleList(Depthwise(w, kernel, causal) for w in widths)
        self.pointwise = nn.ModuleList(nn.Linear(w, out) for w in widths)

    def forward(self, x, mask, source, source_mask):
        for unit, (spread, mix) in enumerate(zip(self.depthwise, self.pointwise)):
            x = mix(spread(F.relu(x) if unit else x, mask))
        return x''',
    "Reduced": '''class Reduced(nn.Module):
    """A lightweight convolution: kernels that sum to 1, shared by channels in turn."""

    def __init__(self, width, out, kernel, reduction, causal):
        super().__init__()
        self.width, self.kernel, self.reduction, self.causal = width, kernel, reduction, causal
        kernels = width // reduction + width % reduction
        self.weight = nn.Parameter(torch.empty(kernels, out // width, kernel))
        nn.init.xavier_uniform_(self.weight)

    def forward(self, x, mask, source, source_mask):
        weight, shared = self.weight.softmax(dim=-1), self.width // self.reduction
        weight = torch.cat((weight[:shared].repeat(self.reduction, 1, 1), weight[shared:]))
        x = around(x, self.kernel, self.causal, mask)
        return F.conv1d(x, weight.flatten(0, 1).unsqueeze(1), groups=self.width).transpose(1, 2)''',
    "Attention": '''class Attention(nn.Module):
    """Softmax attention over the stream, or over the encoder's output."""

    def __init__(self, width, out, heads, bias, causal, into, over_source):
        super().__init__()
        self.heads, self.causal, self.over_source = heads, causal, over_source
        self.query = nn.Linear(width, width, bias)
        self.key, self.value = nn.Linear(into, width, bias), nn.Linear(into, width, bias)
        self.out = nn.Linear(width, out, bias)

    def forward(self, x, mask, source, source_mask):
        rows, keys = (source, source_mask) if self.over_source else (x, mask)
        q, k, v = self.query(x), self.key(rows), self.value(rows)
        q, k, v = (part.unflatten(-1, (self.heads, -1)).transpose(1, 2) for part in (q, k, v))
        seen = None if keys is None else keys[:, None, None, :]
        if seen is not None and self.causal:
            n = x.shape[1]
            seen = seen & torch.ones(n, n, dtype=torch.bool, device=x.device).tril()
        if seen is not None and not self.over_source:
            seen = seen | ~keys[:, None, :, None]
        plain = self.causal and seen is None
        mixed = F.scaled_dot_product_attention(q, k, v, seen, is_causal=plain)
        return self.out(mixed.transpose(1, 2).flatten(2))''',
    "Resize": '''class Resize(nn.Module):
    """Back to the width of the stream."""

    def __init__(self, width, out):
        super().__init__()
        self.map = nn.Linear(width, out)

    def forward(self, x):
        return self.map(x)''',
    "Gated": '''class Gated(nn.Module):
    """One half of a dense map times the sigmoid of the other."""

    def __init__(self, width, out, bias):
        super().__init__()
        self.map = nn.Linear(width, 2 * out, bias)

    def forward(self, x, mask, source, source_mask):
        return F.glu(self.map(x), dim=-1)''',
}


def cell_code(cell: Cell, site: Site, title: str = "") -> str:
    """A cell as a module of its own; what it cannot say is refused."""
    return _CellCode(cell, site).text(title)


class _CellCode:
    def __init__(self, cell: Cell, site: Site) -> None:
        self.cell, self.site = cell, site
        self.plan: CellPlan = cell.plan(site)
        self.begin: list[str] = []
        self.body: list[str] = []
        self.used: dict[str, str] = {}
        if not isinstance(cell.norm, LayerNorm) or cell.norm.mean != 1:
            raise _unsaid(cell.norm)

    def text(self, title: str) -> str:
        for state in self.plan.normed():
            width, eps = self.plan.widths[state], getattr(self.cell.norm, "eps", 1e-5)
            self.begin.append(f"self.norm{state} = nn.LayerNorm({width}, eps={eps!r})")
        normed: set[int] = set()
        for number, block in enumerate(self.plan.blocks, start=1):
            self.block(number, block, normed)
        self.end()
        begin = "\n".join(f"        {line}" for line in self.begin)
        body = "\n".join(f"        {line}" for line in ["s0 = x", *self.body])
        arguments = "self, x, mask=None, source=None, source_mask=None"
        module = (
            f'class Found(nn.Module):\n    """{title or "A cell that was found by a search."}"""\n'
            f"\n    def __init__(self):\n        super().__init__()\n{begin}\n\n"
            f"    def forward({arguments}):\n{body}\n\n"
            '    def load(self, state, prefix=""):\n'
            '        """Take over weights: ``prefix`` is the place of the cell in a model."""\n'
            '        mark = prefix + "body."\n'
            "        own = {k[len(mark):]: v for k, v in state.items() if k.startswith(mark)}\n"
            "        self.load_state_dict(own)\n        return self"
        )
        around = [_AROUND] if any("around(" in part for part in self.used.values()) else []
        return "\n\n\n".join([IMPORTS, *around, *self.used.values(), module]) + "\n"

    def block(self, number: int, block: PlacedBlock, normed: set[int]) -> None:
        names = ("left", "right") if len(block.branches) == 2 else ("alone",)
        results = []
        for name, placed in zip(names, block.branches, strict=True):
            state = placed.branch.input
            if placed.branch.norm and state not in normed:
                normed.add(state)
                self.body.append(f"n{state} = self.norm{state}(s{state})")
            results.append(self.branch(f"block{number}_{name}", placed))
        if len(results) == 1:
            value = results[0]
        elif block.combine == "concat":
            value = f"torch.cat(({results[0]}, {results[1]}), dim=-1)"
        else:
            neutral, sign = _NEUTRAL[block.combine]
            sides = [
                _filled(result, placed.width, block.width, neutral)
                for result, placed in zip(results, block.branches, strict=True)
            ]
            value = f" {sign} ".join(sides)
        self.body.append(f"s{number} = {value}")

    def branch(self, name: str, placed: PlacedBranch) -> str:
        branch = placed.branch
        value = f"{'n' if branch.norm else 's'}{branch.input}"
        if not isinstance(placed.layer, Identity):
            self.begin.append(f"self.{name} = {self.part(placed.layer, placed.site)}")
            value = f"self.{name}({value}, mask, source, source_mask)"
        if branch.activation == "none":
            return value
        if branch.activation not in _ACTIVATIONS:
            raise SpecError(f"{branch.activation} cannot be written as stand-alone code.")
        return f"{_ACTIVATIONS[branch.activation]}({value})"

    def part(self, layer: Layer, site: Site) -> str:
        """How a layer is made."""
        width, out, causal = site.width, layer.out_width(site), site.causal
        match layer:
            case Conv():
                return self.made("Conv", width, out, layer.kernel, causal, layer.bias)
            case SeparableConv():
                return self.made("Separable", width, out, layer.kernel, layer.units, causal)
            case ReducedConv():
                return self.made("Reduced", width, out, layer.kernel, layer.reduction, causal)
            case GLU():
                return self.made("Gated", width, out, layer.bias)
            case Attention() if _is_plain(layer, site):
                over = layer.over == "source"
                into = site.source if over and site.source is not None else width
                causal = causal and not over
                return self.made(
                    "Attention", width, out, layer.heads, layer.bias, causal, into, over
                )
        raise _unsaid(layer)

    def made(self, name: str, *numbers: object) -> str:
        self.used[name] = PARTS[name]
        return f"{name}({', '.join(map(str, numbers))})"

    def end(self) -> None:
        plan = self.plan
        ends = [_filled(f"s{e}", plan.widths[e], plan.width, "0.0") for e in plan.ends]
        total = " + ".join(ends)
        if isinstance(plan.resized, Linear):
            self.begin.append(f"self.resize = {self.made('Resize', plan.width, plan.resized.out)}")
            total = f"self.resize({total})"
        self.body.append(f"return {total}")


def _is_plain(layer: Attention, site: Site) -> bool:
    """Whether attention has nothing beside its four maps."""
    usual = (layer.query_key, layer.conv, layer.head_norm) == ("separate", 0, None)
    alone = layer.groups == layer.heads and layer.project_out
    size = layer.key_size(site.width)
    same = size == layer.value_size(site.width) == site.width // layer.heads
    return usual and alone and same and layer.kind == Softmax() and layer.has_out_bias == layer.bias


def _filled(value: str, width: int, wanted: int, neutral: str) -> str:
    return value if width == wanted else f"F.pad({value}, (0, {wanted - width}), value={neutral})"


def _unsaid(node: object) -> SpecError:
    return SpecError(f"{write(node)} cannot be written as stand-alone code; draw the cell instead.")
