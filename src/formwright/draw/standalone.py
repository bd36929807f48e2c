"""Programs and formulas as stand-alone torch code: it needs torch and nothing else.

What is written is one file with one module, ``Found``, from a stream to a stream, and only those
helpers that it calls. Its weights can be taken over from a model trained here: ``WEIGHTS`` says
which is which. Cells are written by ``standalone_cell``.

Positions of a backbone that act inside attention are no part of a graph-shaped layer, and of the
code neither; dropout is left out.
"""

from collections.abc import Iterable, Sequence

from formwright.arch.graph.formula import Formula
from formwright.arch.graph.formula_plan import Instruction
from formwright.arch.graph.fuse import fused
from formwright.arch.graph.instruction import CONVOLUTIONS, DEPTHWISE
from formwright.arch.graph.program import Program
from formwright.arch.graph.straightline import Step, StraightLine
from formwright.arch.graph.unfold import straight_line
from formwright.arch.site import Site
from formwright.draw.standalone_parts import HELPERS, IMPORTS, LOADING, NEEDS

_PLAIN = {
    "add": "{0} + {1}",
    "difference": "{0} - {1}",
    "divide": "{0} / {1}",
    "multiply": "{0} * {1}",
    "abs": "{0}.abs()",
    "abs_root": "{0}.abs().sqrt()",
    "square": "{0}.square()",
    "exp": "{0}.exp()",
    "log": "{0}.abs().log()",
    "recip": "{0}.reciprocal()",
    "sign": "{0}.sign()",
    "cos": "{0}.cos()",
    "sin": "{0}.sin()",
    "tanh": "{0}.tanh()",
    "sigmoid": "{0}.sigmoid()",
    "relu": "{0}.relu()",
    "max": "{0}.clamp_min({c})",
    "min": "{0}.clamp_max({c})",
    "c_mul": "{0} * {c}",
    "turn": "{0}.transpose(2, 3).unsqueeze(-1)",
    "spread": "{0}.repeat_interleave({n}, dim=1)",
    "hide": "hide({0}, seen, {c})",
    "softmax": "hide({0}, seen, float('-inf')).softmax(dim=-1)",
    "fit": "fit({0}, {n})",
}
_REDUCED = {
    "reduce_mean": "mean",
    "reduce_sum": "sum",
    "reduce_min": "amin",
    "reduce_max": "amax",
    "reduce_prod": "prod",
}


def program_code(program: Program, site: Site, title: str = "") -> str:
    """A program as a module of its own."""
    return _ProgramCode(fused(straight_line(program, site.width)), site).text(title)


class _ProgramCode:
    """Writes one line of code for each step."""

    def __init__(self, line: StraightLine, site: Site) -> None:
        self.line, self.site = line, site
        self.weights: list[tuple[str, str, str]] = []  # name, how it begins, name in formwright
        self.used: set[str] = set()

    def text(self, title: str) -> str:
        body = [f"v{index} = {self.value(step)}" for index, step in enumerate(self.line.steps)]
        last = len(self.line.steps) - 1
        sees = any("seen" in line for line in body)
        first = [f"seen = visible(x, mask, {self.site.causal})"] if sees else []
        self.used |= {"visible"} if sees else set()
        begin = [f"self.{name} = {start}" for name, start, _ in self.weights]
        known = {name: theirs for name, _, theirs in self.weights}
        head = _forward("x, mask=None", [*first, *body, f"return v{last}.squeeze(1)"])
        return assembled(title, self.used, known, begin, head)

    def weight(self, step: Step) -> str:
        """The name of a step's weights."""
        name = f"w{len(self.weights) + 1}"
        shape = ", ".join(map(str, step.weight))
        path = "_".join(map(str, step.path))
        inner = "map.weight" if step.op == "conv1" else "weight"
        start = f"torch.randn({shape}) * {step.weight[-1]}**-0.5"
        if step.op in ("scale", "shift"):
            start = f"torch.{'ones' if step.op == 'scale' else 'zeros'}({shape})"
        elif step.op in DEPTHWISE:
            start = f"taps({shape}, {self.site.causal})"
            self.used.add("taps")
        self.weights.append((name, f"nn.Parameter({start})", f"code.at_{path}.{inner}"))
        return f"self.{name}"

    def call(self, name: str, *arguments: object) -> str:
        self.used.add(name)
        return f"{name}({', '.join(map(str, arguments))})"

    def value(self, step: Step) -> str:
        of = [f"v{i}" for i in step.inputs]
        if step.op == "stream":
            return "x.unsqueeze(1)  # lanes are the second axis: (b, l, n, w)"
        if step.op in _PLAIN:
            self.used |= {step.op} & HELPERS.keys()
            self.used |= {"hide"} if step.op == "softmax" else set()
            constant = {float("inf"): "float('inf')", float("-inf"): "float('-inf')"}.get(
                step.constant, repr(step.constant)
            )
            return _PLAIN[step.op].format(*of, c=constant, n=step.number)
        if step.op.startswith(("reduce_", "cum_")):
            return self.gathered(step, of[0])
        if step.weight or step.op in ("norm", "dense"):
            return self.learned(step, of[0])
        if step.op.startswith("mat_mul"):
            return self.product(step, of)
        if step.op == "attend":
            plain = f"{self.site.causal} and mask is None and x.shape[1] > 1"
            return self.call("attend", *of, "seen", plain, step.number, repr(step.constant))
        return self.call(f"{step.op}_{step.result.kind}", of[0], step.number)  # join, repeat

    def learned(self, step: Step, value: str) -> str:
        if step.op == "norm":
            weights = [f"{self.weight(part)}.view(-1)" for part in step.parts] or ["None"] * 2
            given = ", ".join(weights)
            return f"F.layer_norm({value}, {value}.shape[-1:], {given}, {step.constant!r})"
        if step.op == "dense":
            matrix, bias = (self.weight(part) for part in step.parts)
            return f"F.linear({value}, {matrix}, {bias}.view(-1))"
        weight = self.weight(step)
        if step.op in ("scale", "shift"):
            return f"{value} {'*' if step.op == 'scale' else '+'} {weight}"
        if step.op == "conv1":
            return self.call("dense", value, weight, step.result.lanes)
        return self.convolved(step, value, weight)

    def convolved(self, step: Step, value: str, weight: str) -> str:
        lanes, about = step.result.lanes, f"{step.number}, {self.site.causal}, mask"
        self.used.add("around")
        if step.op in DEPTHWISE:
            return self.call("depthwise", f"around({value}, {about})", weight, lanes)
        shared = self.line.steps[step.inputs[0]].result.lanes == 1
        assert step.op in CONVOLUTIONS
        groups = 1 if shared else lanes
        return self.call("convolution", f"around({value}, {about})", weight, lanes, groups)

    def gathered(self, step: Step, value: str) -> str:
        over_keys = self.line.kinds(step) == ("scores",)
        if step.op.startswith("cum_"):
            if over_keys:
                return f"{value}.{step.op.replace('_', '')}(dim=-1)"
            return self.call("cumulate", value, repr(step.op), "mask")
        if not over_keys:
            return f"{value}.{_REDUCED[step.op]}(dim=-1, keepdim=True)"
        if step.op == "reduce_mean":
            return self.call("mean_keys", value, "seen")
        return f"{value}.{_REDUCED[step.op]}(dim=-1).transpose(2, 3)"

    def product(self, step: Step, of: Sequence[str]) -> str:
        transposed = step.op == "mat_mul_transposed"
        if self.line.kinds(step) == ("scores", "scores"):
            return f"{of[0]} @ {of[1]}" + (".transpose(-1, -2)" if transposed else "")
        self.used.add("dealt")
        if transposed:
            maps = step.result.width
            return f"dealt({of[0]}, {maps}) @ dealt({of[1]}, {maps}).transpose(-1, -2)"
        return self.call("mix", *of)


# --- formulas -----------------------------------------------------------------------------

_FORMULA = {
    "neg": "-{0}",
    "logsigmoid": "F.logsigmoid({0})",
    "softsign": "F.softsign({0})",
    "add": "{0} + {1}",
    "matmul": "{0} @ {1}",
    "transpose": "{0}.transpose(-2, -1)",
    "softmax": "{0}.softmax(dim=-1)",
    "cosine": "F.normalize({0}, dim=-1) @ F.normalize({1}, dim=-1).transpose(-2, -1)",
    "euclidean": "torch.cdist({0}, {1}, compute_mode='donot_use_mm_for_euclid_dist')",
    "weigh": "weigh({0}, seen)",
    "softmax_tokens": "softmax_tokens({0}, mask)",
    "real_rows": "real({0}, mask, -2)",
    "real_columns": "real({0}, mask, -1)",
}


def formula_code(formula: Formula, site: Site, title: str = "") -> str:
    """A formula of attention as a module of its own."""
    size = formula.key_size(site.width)
    inner, paths = formula.heads * size, formula.used_paths()
    begin = [
        f"self.project{path} = nn.Linear({site.width}, {inner}, bias={formula.bias})"
        for path in paths
    ]
    begin.append(f"self.out = nn.Linear({inner}, {site.width}, bias={formula.bias})")
    heads = f"unflatten(-1, ({formula.heads}, {size})).transpose(1, 2)"
    split = [f"p{path} = self.project{path}(x).{heads}" for path in paths]
    body: list[str] = []
    used: set[str] = set()
    for at, line in enumerate(formula.plan().lines):
        text = _formula_line(line, size)
        used |= {name for name in HELPERS if f"{name}(" in text}
        body.append(f"v{at} = {text}")
    if any("seen" in line for line in body):
        used.add("visible")
        split.append(f"seen = visible(x, mask, {site.causal})")
        split.append("seen = None if seen is None else seen.squeeze(1)")
    last = f"return self.out(v{len(body) - 1}.transpose(1, 2).flatten(2))"
    known: dict[str, str] = {}
    for name in ("weight", "bias") if formula.bias else ("weight",):
        known |= {f"project{path}.{name}": f"projections.{path}.{name}" for path in paths}
        known[f"out.{name}"] = f"out.{name}"
    return assembled(title, used, known, begin, _forward("x, mask=None", [*split, *body, last]))


def _formula_line(line: Instruction, size: int) -> str:
    of = [f"v{i}" for i in line.of]
    if line.op == "input":
        return f"p{line.number}"
    if line.op == "scale":
        return f"{of[0]} / {size}**0.5"
    if line.op == "attend":
        scale = f"{size}**{-line.number / 2}"
        return (
            f"F.scaled_dot_product_attention({of[0]}, {of[1]}.transpose(-2, -1), {of[2]}, seen, "
            f"scale={scale})"
        )
    return _FORMULA[line.op].format(*of)


# --- the file -----------------------------------------------------------------------------


def _forward(arguments: str, lines: Iterable[str]) -> str:
    body = "\n".join(f"        {line}" for line in lines)
    return f"    def forward(self, {arguments}):\n{body}\n"


def assembled(
    title: str, used: set[str], known: dict[str, str], begin: Sequence[str], forward: str
) -> str:
    """The whole file: imports, helpers that are called, the module."""
    wanted = set(used)
    for name in used:
        wanted |= NEEDS.get(name, set())
    helpers = [HELPERS[name] for name in HELPERS if name in wanted]
    names = "\n".join(f'    "{ours}": "{theirs}",' for ours, theirs in known.items())
    inits = "\n".join(f"        {line}" for line in begin)
    module = (
        f'class Found(nn.Module):\n    """{title or "A layer that was found by a search."}"""\n\n'
        f"    def __init__(self):\n        super().__init__()\n{inits}\n\n{forward}{LOADING}"
    )
    weights = f"# names of weights here, and in a model of formwright\nWEIGHTS = {{\n{names}\n}}"
    return "\n\n\n".join([IMPORTS, weights, *helpers, module]) + "\n"
