"""What a program or a formula computes, as one hash: its answer to a fixed random input.

Papers: AutoML-Zero, Real et al. 2020, https://arxiv.org/abs/2003.03384, and Primer skip candidates
whose function was seen before. Weights are drawn by their shape and by how many of that shape came
before them, so that two ways of writing one function get the same ones. What comes out is compared
in a few digits. Where it is not finite, or nothing can be computed, the graph itself is hashed.

Here numpy reads the steps one by one; nothing of this is used for training.

l lane, n token, t key, w channel, m map; rows (l, n, w), scores (l, m, n, t), column (l, m, n, 1)
"""

import hashlib
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from formwright.arch.graph.form import formula_text, line_text
from formwright.arch.graph.formula import Formula
from formwright.arch.graph.instruction import CONVOLUTIONS, DEPTHWISE, LEARNED, REDUCTIONS
from formwright.arch.graph.program import Program
from formwright.arch.graph.straightline import Step, StraightLine
from formwright.arch.graph.unfold import straight_line
from formwright.errors import ShapeError

Array = np.ndarray[Any, np.dtype[np.float64]]
Weights = Callable[[Step], Array]
_TOKENS = 5
_DIGITS = 5  # of what is compared
_CHANNELS = 4  # of a head, in formulas

PLAIN: Mapping[str, Callable[..., Array]] = {
    "add": np.add,
    "difference": np.subtract,
    "divide": np.divide,
    "multiply": np.multiply,
    "abs": np.abs,
    "abs_root": lambda x: np.sqrt(np.abs(x)),
    "square": np.square,
    "exp": np.exp,
    "log": lambda x: np.log(np.abs(x)),
    "recip": lambda x: 1 / x,
    "sign": np.sign,
    "cos": np.cos,
    "sin": np.sin,
    "tanh": np.tanh,
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "max": np.maximum,
    "min": np.minimum,
    "c_mul": np.multiply,
}
_REDUCE: Mapping[str, Callable[..., Array]] = {
    "reduce_mean": np.mean,
    "reduce_sum": np.sum,
    "reduce_min": np.min,
    "reduce_max": np.max,
    "reduce_prod": np.prod,
}


def program_print(program: Program, width: int, *, causal: bool = True) -> str:
    """The hash of what a program computes."""
    line = _narrow(program, width)
    x = np.random.default_rng(0).normal(size=(_TOKENS, line.steps[0].result.width))
    return _print(lambda: run_line(line, x, drawn_weights(), causal=causal), line_text(line))


def formula_print(formula: Formula, *, causal: bool = False) -> str:
    """The hash of what a formula computes, with inputs that are projected already."""
    text = formula_text(formula)
    rng = np.random.default_rng(0)
    inputs = rng.normal(size=(formula.paths, _TOKENS, _CHANNELS))
    about = f"{formula.heads} {formula.key} {formula.bias}"
    return _print(lambda: run_formula(formula, inputs, causal=causal), text, about)


def _print(compute: Callable[[], Array], text: str, about: str = "") -> str:
    with np.errstate(all="ignore"):
        found = compute()
    if np.isfinite(found).all() and np.abs(found).max() > 0:
        scale = 10.0 ** (_DIGITS - 1 - np.floor(np.log10(np.abs(found).max())))
        rounded = np.round(found * scale).astype(np.int64) + 0
        return hashlib.sha256(about.encode() + rounded.tobytes()).hexdigest()[:16]
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def drawn_weights() -> Weights:
    """Weights by their shape, and by how many of that shape came before."""
    counts: dict[tuple[str, tuple[int, ...]], int] = {}

    def weights(step: Step) -> Array:
        key = (step.op, step.weight)
        counts[key] = counts.get(key, 0) + 1
        seed = hashlib.sha256(f"{key} {counts[key]}".encode()).digest()[:8]
        rng = np.random.default_rng(int.from_bytes(seed, "big"))
        small = rng.normal(size=step.weight) / np.sqrt(max(1, step.weight[-1]))
        return 1 + 0.3 * small if step.op == "scale" else small

    return weights


def _narrow(program: Program, width: int) -> StraightLine:
    """The program in the narrowest stream that it fits, which is the quickest."""
    for times in (1, 2, 4, 8):
        if program.stream * times < width:
            try:
                return straight_line(program, program.stream * times)
            except ShapeError:
                continue
    return straight_line(program, width)


# --- programs ----------------------------------------------------------------------------


def run_line(line: StraightLine, x: Array, weights: Weights, *, causal: bool) -> Array:
    """What a program gives for one text, (n, w).

    Args:
        line: The program, written out.
        x: The stream.
        weights: Gives the weights of a step that learns.
        causal: Whether tokens see only what came before.
    """
    n = len(x)
    seen = np.tril(np.ones((n, n), dtype=bool)) if causal else np.ones((n, n), dtype=bool)
    values: list[Array] = []
    for step in line.steps:
        read = [values[i] for i in step.inputs]
        if step.op == "stream":
            values.append(x[None])
        elif step.op in LEARNED:
            values.append(_learned(step, read[0], weights(step), causal))
        elif step.op in PLAIN:
            constant = (step.constant,) if step.op in ("max", "min", "c_mul") else ()
            values.append(PLAIN[step.op](*read, *constant))
        elif step.op.startswith("mat_mul"):
            values.append(_product(step, line.kinds(step), *read))
        elif step.op in REDUCTIONS or step.op.startswith("cum_"):
            values.append(_gathered(step, line.kinds(step)[0], read[0], seen))
        else:
            values.append(_shaped(step, read[0], seen))
    return np.asarray(values[-1][0])


def _learned(step: Step, x: Array, weight: Array, causal: bool) -> Array:
    if step.op == "scale":
        return x * weight
    if step.op == "shift":
        return x + weight
    lanes, kernel = step.result.lanes, step.number
    x = np.broadcast_to(x, (lanes, *x.shape[1:]))
    if step.op in DEPTHWISE:
        taps = weight.reshape(lanes, -1, kernel)
        return np.einsum("lnkw,lwk->lnw", _windows(x, kernel, causal), taps)
    if step.op in CONVOLUTIONS and kernel > 1:
        maps = weight.reshape(lanes, -1, weight.shape[1], kernel)
        return np.einsum("lnkw,lowk->lno", _windows(x, kernel, causal), maps)
    return np.einsum("lnw,low->lno", x, weight.reshape(lanes, -1, weight.shape[1]))


def _windows(x: Array, kernel: int, causal: bool) -> Array:
    """The tokens around each, (l, n, k, w)."""
    before = kernel - 1 if causal else kernel // 2
    wide = np.pad(x, ((0, 0), (before, kernel - 1 - before), (0, 0)))
    return np.stack([wide[:, at : at + x.shape[1]] for at in range(kernel)], axis=2)


def _product(step: Step, kinds: tuple[str, ...], first: Array, second: Array) -> Array:
    transposed = step.op == "mat_mul_transposed"
    if kinds == ("scores", "scores"):
        return first @ (second.swapaxes(-1, -2) if transposed else second)
    if transposed:
        maps = step.result.width
        return _dealt(first, maps) @ _dealt(second, maps).swapaxes(-1, -2)
    mixed = first @ _dealt(second, first.shape[1])  # (l, m, n, e)
    mixed = mixed.swapaxes(1, 2)
    return mixed.reshape(*mixed.shape[:2], -1)


def _dealt(rows: Array, maps: int) -> Array:
    """(l, n, m e) to (l, m, n, e)."""
    return rows.reshape(*rows.shape[:2], maps, -1).swapaxes(1, 2)


def _gathered(step: Step, kind: str, x: Array, seen: Array) -> Array:
    over_keys = kind == "scores"
    if step.op.startswith("cum_"):
        running = np.cumsum if step.op == "cum_sum" else np.cumprod
        return np.asarray(running(x, axis=-1 if over_keys else -2))
    if not over_keys:
        return np.asarray(_REDUCE[step.op](x, axis=-1, keepdims=True))
    if step.op == "reduce_mean":  # hidden ones are zero already
        return np.asarray(x.sum(axis=-1) / seen.sum(axis=-1)).swapaxes(1, 2)
    return np.asarray(_REDUCE[step.op](x, axis=-1)).swapaxes(1, 2)


def _shaped(step: Step, x: Array, seen: Array) -> Array:
    many = step.number
    if step.op == "hide":
        return np.where(seen, x, step.constant)
    if step.op == "turn":
        return x.swapaxes(1, 2)[..., None]
    if step.op == "spread":
        return np.repeat(x, many, axis=0)
    if step.op == "fit":
        if x.shape[-1] == 1:
            return np.repeat(x, many, axis=-1)
        return np.pad(x, ((0, 0), (0, 0), (0, max(0, many - x.shape[-1]))))[..., :many]
    if step.op == "repeat":
        return np.concatenate([x] * many, axis=-1 if step.result.kind == "rows" else 1)
    parts = x.reshape(-1, many, *x.shape[1:])  # join
    if step.result.kind == "rows":
        parts = parts.swapaxes(1, 2)
        return parts.reshape(*parts.shape[:2], -1)
    return parts.reshape(parts.shape[0], -1, *parts.shape[3:])


# --- formulas ----------------------------------------------------------------------------


def run_formula(formula: Formula, inputs: Array, *, causal: bool) -> Array:
    """What a formula gives for one head, (n, d), before the map out.

    Args:
        formula: The maths.
        inputs: Projected inputs, (path, n, d).
        causal: Whether a softmax over scores hides what comes later.
    """
    values: list[Array] = list(inputs)
    size, tokens = inputs.shape[-1], inputs.shape[1]
    for step in formula.steps:
        first, last = values[step.of[0]], values[step.of[-1]]
        if step.op == "softmax":
            square = first.shape == (tokens, tokens)
            values.append(_softmax(first, causal and square))
        elif step.op == "scale":
            values.append(first / np.sqrt(size))
        else:
            values.append(_FORMULA[step.op](*((first, last) if len(step.of) == 2 else (first,))))
    return values[-1]


def _softmax(x: Array, hide: bool) -> Array:
    x = np.where(np.tril(np.ones(x.shape, dtype=bool)), x, -np.inf) if hide else x
    weights = np.exp(x - x.max(axis=-1, keepdims=True))
    return np.asarray(weights / weights.sum(axis=-1, keepdims=True))


def _unit(x: Array) -> Array:
    return np.asarray(x / np.maximum(np.linalg.norm(x, axis=-1, keepdims=True), 1e-12))


def _distances(x: Array, y: Array) -> Array:
    return np.asarray(np.sqrt(((x[:, None] - y[None]) ** 2).sum(-1)))


_FORMULA: Mapping[str, Callable[..., Array]] = {
    "neg": np.negative,
    "transpose": np.transpose,
    "logsigmoid": lambda x: -np.logaddexp(0, -x),
    "softsign": lambda x: x / (1 + np.abs(x)),
    "add": np.add,
    "matmul": np.matmul,
    "cosine": lambda x, y: _unit(x) @ _unit(y).T,
    "euclidean": _distances,
}
