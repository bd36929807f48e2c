"""Rows of the peers that do the same work as we do: theirs and ours in one run, in turns."""

from collections.abc import Mapping
from statistics import fmean, stdev
from typing import Any

from claims.row import Row, Told, around, missing
from claims.shape import Each, Maybe

GROUP = "archai, whittle, NNI, Model Optimizer"
MEMBERS = ("largest", "middle", "smallest")


def _column(rows: list[Mapping[str, Any]], field: str, name: str) -> list[float]:
    return [row[field][name] for row in rows]


def archai(part: Mapping[str, Any]) -> Told:
    """Cost of a candidate."""
    rows = part["seeds"]
    cost = [row["ms"]["ours"] / row["ms"]["archai"] for row in rows]
    counts = part["counts_of_each"]
    found = (
        f"processor time of a candidate, ours over archai's: {around(cost, 4)} "
        f"({around(_column(rows, 'ms', 'ours'), 2)} ms, record on the disk included, and "
        f"{around(_column(rows, 'ms', 'archai'), 0)} ms, which builds each model); drawn and "
        f"counted without any search, "
        f"{around(_column(rows, 'ms_drawn_and_counted', 'ours'), 2)} and "
        f"{around(_column(rows, 'ms_drawn_and_counted', 'archai'), 0)} ms. Each search looked at "
        f"{around((row['candidates'] for row in rows), 0)}. Both count "
        f"{counts['same']} of {counts['members']} drawn members alike: without drawing weights, "
        "which is its faster way, archai takes the untied output layer for part of the decoder; "
        f"with it taken off, {counts['same_when_tied']}. So what both find is not compared"
    )
    return Told("yes" if max(cost) < 1 else "partly" if fmean(cost) < 1 else "no", found, len(rows))


def latency(part: Mapping[str, Any]) -> Told:
    """What one measured latency costs."""
    rows = part["rows"]
    if not rows:
        return Told("open", part["error"], 0)
    cost = [row["seconds"]["ours"] / row["seconds"]["archai"] for row in rows]
    return Told(
        "yes" if max(cost) < 1 else "partly" if fmean(cost) < 1 else "no",
        f"processor time to export and measure one member, ours over archai's: {around(cost, 2)} "
        f"({around(_column(rows, 'seconds', 'ours'), 1)} and "
        f"{around(_column(rows, 'seconds', 'archai'), 1)} s). archai's runs only without its "
        "optimiser, shared weights and layers of different sizes, and says seconds of one model; "
        "ours is paired with a reference",
        len(rows),
    )


def whittle(part: Mapping[str, Any]) -> Told:
    """Members of one supernet after equal processor seconds."""
    ways: dict[str, list[Mapping[str, Any]]] = {}
    for row in part["rows"]:
        ways.setdefault(row["way"], []).append(row)
    means = {
        way: {m: fmean(_column(rows, "nats", m)) for m in MEMBERS} for way, rows in ways.items()
    }
    theirs = min(
        (way for way in ways if way.startswith("whittle")), key=lambda w: sum(means[w].values())
    )
    ahead = 0
    for member in MEMBERS:
        ours, rival = (_column(ways[way], "nats", member) for way in ("ours muon", theirs))
        noise = sum(stdev(v) ** 2 / len(v) for v in (ours, rival) if len(v) > 1) ** 0.5
        ahead += fmean(rival) - fmean(ours) > 2 * noise
    told = [
        f"{way} (rate {part['rates'][way]:g}, {around((r['steps'] for r in rows), 0)} updates) "
        + ", ".join(around(_column(rows, "nats", m)) for m in MEMBERS)
        for way, rows in ways.items()
    ]
    return Told(
        "yes" if ahead == len(MEMBERS) else "partly" if ahead else "no",
        f"nats per byte of the largest, middle and smallest member after {part['seconds']:g} s: "
        f"{'; '.join(told)}. whittle's rates are the best of three, the Muon of whittle's rows is "
        "torch's; with AdamW on both sides the difference is that of the methods",
        min(len(rows) for rows in ways.values()),
    )


def nni(part: Mapping[str, Any]) -> Told:
    """Milliseconds of a trial that does nothing."""
    rows = part["seeds"]
    own = [row["ours"]["processor_ms"] for row in rows]
    told, less = [], 0
    for engine in ("sequential", "default"):
        found = [row for row in rows if row[engine] is not None]
        if not found:
            told.append(f"NNI's {engine} engine did not run")
            continue
        theirs = [row[engine]["processor_ms"] for row in found]
        less += max(own) < min(theirs)
        told.append(
            f"NNI's {engine} engine {around(theirs, 1)} ({found[0][engine]['trials']:g} trials in "
            "a run)"
        )
    return Told(
        "yes" if less == 2 else "partly" if less else "no",
        f"milliseconds of the processor for a trial that does nothing: ours {around(own, 2)}, one "
        f"fsync each; {'; '.join(told)}. The default engine starts a server for the run and a "
        "process for each trial, the sequential one keeps trials in memory alone",
        len(rows),
    )


def kept(part: Mapping[str, Any]) -> Told:
    """Trials that are on record after SIGKILL."""
    lost = {name: part[name]["done"] - part[name]["on_record"] for name in ("ours", "nni")}
    told = ", ".join(
        f"{words} {part[name]['on_record']} of {part[name]['done']}"
        for name, words in (("ours", "ours"), ("nni", "NNI's sequential engine"))
    )
    why = part["nni"].get("error")
    told += f" (its own loader cannot read its checkpoint: {why.split(':')[0]})" if why else ""
    return Told("yes" if lost["ours"] <= 0 < lost["nni"] else "no", f"on the disk: {told}", 1)


_ARCHAI = {
    "counts_of_each": {"members": int, "same": int, "same_when_tied": int},
    "seeds": [
        {
            "candidates": int,
            "ms": {"archai": float, "ours": float},
            "ms_drawn_and_counted": {"archai": float, "ours": float},
        }
    ],
}
_TRIAL = {"trials": float, "wall_ms": float, "processor_ms": float}

ROWS = (
    Row(
        name="archai-side-by-side",
        group=GROUP,
        claim="LiteTransformerSearch here costs less a candidate than its own code",
        published="rival: archai 1.0.0, run here in turns",
        data="per-layer inner sizes, 1 to 6 layers, 128 to 512 wide: decoder parameters against "
        "all parameters",
        file="peers",
        part=("archai",),
        shape=_ARCHAI,
        tell=archai,
        script="peers.py",
        full="archai --python ENVS/archai/bin/python --seeds 3",
        short="archai --python {peers}/archai/bin/python --seeds 1 --short",
        minutes=1.5,
        rooms=("strategy/blackbox/lts.py", "space", "arch/counting.py", "study"),
    ),
    Row(
        name="archai-latency",
        group=GROUP,
        claim="a latency measured by ONNX Runtime costs less than in archai",
        published="rival: archai 1.0.0, run here in turns",
        data="members of the same space, 128 tokens, one thread",
        file="peers",
        part=("archai", "latency"),
        shape={
            "error": str,
            "rows": [{"seconds": {"archai": float, "ours": float}}],
        },
        tell=latency,
        script="peers.py",
        full="archai --python ENVS/archai/bin/python --seeds 3",
        short="archai --python {peers}/archai/bin/python --seeds 1 --short",
        minutes=1.5,
        rooms=("cost", "model/export.py"),
    ),
    Row(
        name="whittle-side-by-side",
        group=GROUP,
        claim="sub-networks of a supernet are better for the same training than whittle's",
        published="rival: whittle 0.6.0, its SandwichStrategy, run here in turns",
        data="tiny Shakespeare, a decoder of 0.86M weights and its members, equal on both sides",
        file="peers",
        part=("whittle",),
        shape={
            "seconds": float,
            "rates": Each(float),
            "rows": [{"way": str, "seed": int, "steps": int, "nats": Each(float)}],
        },
        tell=whittle,
        script="peers.py",
        full="whittle --python ENVS/whittle/bin/python --data FOLDER/tiny_shakespeare --seconds 18",
        short="whittle --python {peers}/whittle/bin/python --data {data}/tiny_shakespeare "
        "--seeds 1 --seconds 9 --short",
        minutes=2,
        rooms=("supernet", "strategy/gradient", "train"),
    ),
    Row(
        name="nni-side-by-side",
        group=GROUP,
        claim="a trial costs less beside its training than in NNI",
        published="rival: NNI 3.0, both of its engines, run here in turns",
        data="random search, six layers with two decisions each, trials that do nothing",
        file="peers",
        part=("nni",),
        shape={"seeds": [{"ours": _TRIAL, "sequential": Maybe(_TRIAL), "default": Maybe(_TRIAL)}]},
        tell=nni,
        script="peers.py",
        full="nni --python ENVS/nni/bin/python",
        short="nni --python {peers}/nni/bin/python --seeds 1 --short",
        minutes=1,
        rooms=("study", "execute/serial.py", "strategy/blackbox/random.py"),
    ),
    Row(
        name="nni-killed",
        group=GROUP,
        claim="trials that are done survive a kill, which those of NNI's cheap engine do not",
        published="rival: NNI 3.0, its sequential engine, killed here after ten trials",
        data="trials of 0.05 s in a process that is killed by SIGKILL",
        file="peers",
        part=("nni", "killed"),
        shape={
            "nni": {"done": int, "on_record": int},
            "ours": {"done": int, "on_record": int},
        },
        tell=kept,
        script="peers.py",
        full="nni --python ENVS/nni/bin/python",
        short="nni --python {peers}/nni/bin/python --seeds 1 --short",
        minutes=1,
        rooms=("study",),
    ),
    missing(
        name="model-optimizer-side-by-side",
        group=GROUP,
        claim="a compressed model is better at equal latency",
        published="rival: Model Optimizer 0.47.0, which installs here; nothing runs it beside ours",
        rooms=(),
    ),
)
