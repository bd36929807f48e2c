"""Rows of formwright itself: what its searches announce, what it measures, what it survives."""

from collections.abc import Mapping
from statistics import fmean
from typing import Any

from claims.row import Row, Told, Verdict, around, each
from claims.shape import Each, Maybe

SEARCH, COSTS, RECORD = "The usual search", "Latency and cost", "Records and runs"
LEARN = "Training"


def survival(part: list[Mapping[str, Any]]) -> Told:
    """What was announced is still so after four times the training; and does it pay?"""
    kept = sum(row["survives"] for row in part)
    beat = sum(row["beats_budget"] for row in part)
    faster = [row["times_faster"] for row in part if row["said"] in ("as good", "faster")]
    gain = f"; as good and {each(faster)} times as fast in {len(faster)}" if faster else ""
    ours = [row for row in part if row["said"] not in ("rival", "nothing")]
    beside = [row["control"] for row in part if row["control"] is not None]
    control = sum(row["search"] > row["random"] for row in beside)
    verdict: Verdict = "yes" if kept == beat == len(part) else "partly" if kept else "no"
    return Told(
        verdict,
        f"{kept} of {len(part)} announcements survive{gain}; in {len(part) - len(ours)} of "
        f"{len(part)} searches nothing was as good as the model made by hand, which was then "
        "recommended; "
        f"{beat} of {len(part)} found models beat that model trained with the whole budget",
        len(part),
        f"ahead of its own random control in {control} of {len(beside)}",
    )


def believed(part: Mapping[str, Any]) -> Told:
    """How well the value after a quarter of the steps ranks the end."""
    from formwright.statistics import spearman

    models = [m for m in part["models"] if all(c["final"] is not None for c in m["curves"])]
    ends = [fmean(c["final"] for c in m["curves"]) for m in models]
    ranks = {
        stage: spearman([m["curves"][0]["cooled"][str(stage)] for m in models], ends)
        for stage in part["stages"]
    }
    words = ", ".join(f"{stage} steps {rank:.2f}" for stage, rank in ranks.items())
    last = ranks[part["stages"][-1]]
    return Told(
        "yes" if last >= 0.8 else "partly" if last >= 0.5 else "no",
        f"rank correlation with the end of {part['steps']} steps, {len(models)} models: {words}",
        max(len(m["curves"]) for m in models),
    )


def shared_ranks(part: Mapping[str, Any]) -> Told:
    """How well shared weights rank members that were trained alone."""
    found: dict[str, list[float]] = {}
    for key, row in part["shared"].items():
        space, policy, steps, _ = key.split("/")
        found.setdefault(f"{space}, {policy}, {steps} steps", []).append(row["spearman"])
    if not found:
        return Told("open", "", 0)
    best = max(fmean(values) for values in found.values())
    return Told(
        "yes" if best >= 0.8 else "partly" if best >= 0.5 else "no",
        "rank correlation: " + "; ".join(f"{k} {around(v, 2)}" for k, v in found.items()),
        max(len(values) for values in found.values()),
        f"two seeds of members trained alone agree by {part.get('ceiling')}",
    )


def weights(part: Mapping[str, Any]) -> Told:
    """Weights of a parent rank changed members better than new ones."""
    alone, shared = part["alone"], part["shared"]
    return Told(
        "yes" if shared["correlation"] > alone["correlation"] else "no",
        f"rank correlation with the end {shared['correlation']:.2f} (95 %: "
        f"{shared['interval'][0]:.2f} to {shared['interval'][1]:.2f})",
        1,
        f"new weights {alone['correlation']:.2f}",
    )


def steady(part: Mapping[str, Any]) -> Told:
    """One ratio measured ten times."""
    rows = {name: row for name, row in part.items() if isinstance(row, dict)}
    return Told(
        "yes" if all(row["worst_percent"] <= 3 for row in rows.values()) else "no",
        "; ".join(
            f"{name}: worst {row['worst_percent']:.1f} % from the median (plain timing "
            f"{row['plain_worst_percent']:.0f} %)"
            for name, row in rows.items()
        ),
        1,
    )


def against_itself(part: Mapping[str, Any]) -> Told:
    """A model against itself: intervals contain 1 as often as they say."""
    return Told(
        "yes" if part["contain_1"] >= 0.93 * part["runs"] else "no",
        f"{part['contain_1']} of {part['runs']} intervals contain 1; they are "
        f"{part['median_interval_percent']:.0f} % wide in the median",
        1,
    )


def predicted(part: Mapping[str, Any]) -> Told:
    """The predictor beside FLOPs, on members it never saw."""
    told, better = [], 0
    for runtime, row in part.items():
        ours, flops = row["check"]["predictor"], row["check"]["flops"]
        better += ours["tau"] > flops["tau"] and ours["median"] < flops["median"]
        told.append(
            f"{runtime}: Kendall's tau {ours['tau']:.3f} and median error {ours['median']:.1%}, "
            f"FLOPs {flops['tau']:.3f} and {flops['median']:.1%}"
        )
    nearer = all(
        row["check"]["predictor"]["median"] < row["check"]["flops"]["median"]
        for row in part.values()
    )
    return Told(
        "yes" if better == len(part) else "partly" if nearer else "no",
        "; ".join(told) + (". FLOPs rank as well; what the predictor adds is the value" * nearer),
        1,
    )


def study(part: Mapping[str, Any]) -> Told:
    """Every trial on record once, after workers were killed."""
    fine = part["done"] == part["trials"] and part["same archive"]
    return Told(
        "yes" if fine else "no",
        f"{part['done']} of {part['trials']} trials on record once, {part['kills']} kills of "
        f"{part['workers']} workers, the same archive as without: {part['same archive']}",
        1,
    )


def speed(part: Mapping[str, Any]) -> Told:
    """Trials a second of a free estimator."""
    groups, single = part["recorded in groups"], part["one fsync per trial"]
    return Told(
        "yes" if groups["trials per second"] >= 1000 else "no",
        f"{groups['trials per second']:,} trials a second recorded in groups, "
        f"{single['trials per second']:,} with one fsync each (the disk allows "
        f"{part['disk commits per second']:,})",
        1,
    )


def killed(part: Mapping[str, Any]) -> Told:
    """Runs killed and continued end in the same bytes."""
    kinds = [name for name in ("fp32", "bf16") if name in part]
    same = all(part[k]["same_weights"] == part[k]["kills"] for k in kinds)
    cuts = "; ".join(f"{words} {number}" for words, number in part["cuts"].items())
    return Told(
        "yes" if same and len(kinds) == 2 else "partly" if same else "no",
        ", ".join(f"{k}: {part[k]['same_weights']} of {part[k]['kills']} runs" for k in kinds)
        + f" end in the bytes of an undisturbed one; checkpoints cut short: {cuts}",
        1,
    )


def answers(part: Mapping[str, Any]) -> Told:
    """Answers to a large file against a bare loop."""
    return Told(
        "yes" if part["speed_of_bare_loop"] >= 0.9 else "no",
        f"{part['speed_of_bare_loop']:.2f} of the speed of a bare loop ({min(part['turns']):.2f} "
        f"to {max(part['turns']):.2f} over {len(part['turns'])} turns), {part['rows']:,} rows; "
        f"{part['megabytes_more_for_ten_times_the_rows']:.1f} MB more for ten times the rows",
        1,
    )


def from_scratch(part: Mapping[str, Any]) -> Told:
    """Models from scratch beside the simplest thing that works."""
    lost = [
        name
        for name, row in part.items()
        if (row["mean"] < row["floor"]) != (row["metric"] in ("bits_per_byte", "perplexity"))
    ]
    told = [
        f"{name} {row['metric']} {row['mean']:.3f} (beside: {row['rival']} {row['floor']:.3f})"
        for name, row in part.items()
    ]
    return Told(
        "yes" if not lost else "partly" if len(lost) < len(part) else "no",
        "; ".join(told) + (f". Behind on {', '.join(lost)}" if lost else ""),
        max(len(row["values"]) for row in part.values()),
    )


def muon(part: list[Mapping[str, Any]]) -> Told:
    """The best rate of each optimiser at equal seconds."""
    best: dict[tuple[str, str], dict[str, float]] = {}
    metric: dict[tuple[str, str], str] = {}
    for row in part:
        key = row["case"], row["model"]
        name = next(n for n in ("bits_per_byte", "accuracy") if n in row)
        up = 1 if name == "accuracy" else -1
        metric[key] = name
        kept = best.setdefault(key, {})
        old = kept.get(row["optimiser"])
        kept[row["optimiser"]] = row[name] if old is None or up * row[name] > up * old else old
    won = sum(
        (found["muon"] > found["adamw"]) == (metric[key] == "accuracy")
        and found["muon"] != found["adamw"]
        for key, found in best.items()
    )
    told = [
        f"{case}, {model}: {found['muon']:.3f} against {found['adamw']:.3f} {metric[case, model]}"
        for (case, model), found in best.items()
    ]
    return Told(
        "yes" if won == len(best) else "partly" if won else "no",
        "Muon against AdamW, best of three rates: " + "; ".join(told),
        1,
    )


def dropout(part: Mapping[str, Any]) -> Told:
    """Some dropout is better than none, on all rows and on a quarter of them."""
    told, helped, groups = [], 0, {}
    for name, row in part.items():
        share, _, rest, decay = name.split("/")
        if decay == "decay=0.01":
            groups.setdefault(share, {})[float(rest.split("=")[1])] = row["best"]
    for share, rows in groups.items():
        helped += max(rows.values()) > rows[0.0]
        told.append(
            f"{share}: "
            + ", ".join(f"{rate:g} {value:.3f}" for rate, value in sorted(rows.items()))
        )
    return Told("yes" if helped == len(groups) else "no", "; ".join(told), 1)


def rates(part: Mapping[str, Any]) -> Told:
    """The exponents that ``rate_for`` uses."""
    fit = part["fit"]
    near = abs(fit["width"] + 1) < 0.25 and abs(fit["depth"] + 0.5) < 0.25
    return Told(
        "yes" if near else "no",
        f"the best rate goes with width^{fit['width']:.2f} and depth^{fit['depth']:.2f}",
        1,
    )


CHECKED = {"tau": float, "median": float}
ALIKE = {"correlation": float, "interval": [float]}
KILLED = {"kills": int, "same_weights": int}
ROWS = (
    Row(
        name="survival",
        group=SEARCH,
        claim="what a search announces is still so after four times the training, and pays",
        published="wanted: all announcements survive, and found models beat the best model made "
        "by hand trained with the whole budget",
        data="the Python standard library, banking77, English tags and text8, 10 minutes of one "
        "process each",
        file="survival",
        shape=[
            {
                "said": str,
                "survives": bool,
                "beats_budget": bool,
                "times_faster": Maybe(float),
                "control": Maybe({"random": float, "search": float}),
            }
        ],
        tell=survival,
        script="survival.py",
        full="--data FOLDER --only stdlib-5m banking77-5m tagging-5m text8-5m --workers 1",
        short="--data {data} --only stdlib-5m --seeds 1 --workers 1 --out {work}/survival",
        minutes=17,
        rooms=("recipes", "strategy/blackbox", "space", "train", "study"),
    ),
    Row(
        name="short-trials",
        group=SEARCH,
        claim="short trials rank as long training does",
        published="wanted: a rank correlation of 0.8 with a third of the steps",
        data="24 models of the open space on the Python standard library, 1,200 steps",
        file="curves",
        shape={
            "steps": int,
            "stages": [int],
            "models": [{"curves": [{"final": Maybe(float), "cooled": Each(float)}]}],
        },
        tell=believed,
        script="curves.py",
        full="record --models 24",
        rooms=("train", "space/rich.py"),
    ),
    Row(
        name="shared-ranks",
        group=SEARCH,
        claim="weights that are shared rank members as training alone does",
        published="wanted: a rank correlation of 0.8",
        data="spaces of 31 and 64 members, each trained alone",
        file="rank",
        shape={"shared": Each({"spearman": float})},
        tell=shared_ranks,
        script="rank.py",
        short="--smoke --seeds 1",
        minutes=0.5,
        rooms=("supernet", "strategy/gradient", "estimate/shared.py", "train"),
    ),
    Row(
        name="inherited-weights",
        group=SEARCH,
        claim="weights of a relative make short trials more believable",
        published="wanted: a higher rank correlation than with new weights",
        data="18 changed members of 6 random ones of the open space",
        file="share",
        shape={"alone": ALIKE, "shared": ALIKE},
        tell=weights,
        script="share.py",
        short="--parents 2 --children 2 --steps 20 --end 80",
        minutes=1,
        rooms=("estimate/inherited.py", "train", "space/rich.py"),
    ),
    Row(
        name="latency-repeats",
        group=COSTS,
        claim="a ratio of latencies repeats, also on a busy machine",
        published="wanted: within 3 % of its median",
        data="ten measurements, as it is and with a busy process beside",
        file="latency",
        part=("repeat",),
        shape={
            name: {"worst_percent": float, "plain_worst_percent": float}
            for name in ("as it is", "busy process beside")
        },
        tell=steady,
        script="latency.py",
        full="--parts repeat",
        short="--parts repeat",
        minutes=1.3,
        rooms=("cost",),
    ),
    Row(
        name="latency-intervals",
        group=COSTS,
        claim="intervals hold what they promise",
        published="wanted: 93 of 100 contain 1 when a model is measured against itself",
        data="100 measurements of one model against itself",
        file="latency",
        part=("aa",),
        shape={"runs": int, "contain_1": int, "median_interval_percent": float},
        tell=against_itself,
        script="latency.py",
        full="--parts aa",
        short="--parts aa",
        minutes=1.4,
        rooms=("cost",),
    ),
    Row(
        name="latency-predictor",
        group=COSTS,
        claim="a predictor of latency is better than counting FLOPs",
        published="wanted: ranks better and errs less",
        data="members of lts-gpt2 measured on one thread, 60 that it never saw",
        file="predictors",
        part=("lts_gpt2",),
        shape=Each({"check": {"predictor": CHECKED, "flops": CHECKED}}),
        tell=predicted,
        script="predictors.py",
        full="--data FOLDER/nas_benchmarks --work FOLDER --only-measured",
        rooms=("cost",),
    ),
    Row(
        name="record-kills",
        group=RECORD,
        claim="no trial is lost or doubled when workers are killed",
        published="wanted: none",
        data="1,000 trials of a made-up estimator",
        file="study",
        part=("kills",),
        shape={"trials": int, "done": int, "kills": int, "workers": int, "same archive": bool},
        tell=study,
        script="study.py",
        full="--kills 20",
        short="--kills 4 --trials 200 --workers 2",
        minutes=0.5,
        rooms=("study", "execute"),
    ),
    Row(
        name="record-speed",
        group=RECORD,
        claim="the record keeps up with 1,000 trials a second",
        published="wanted: 1,000",
        data="a free estimator, one worker",
        file="study",
        part=("speed",),
        shape={
            "disk commits per second": float,
            "recorded in groups": {"trials per second": float},
            "one fsync per trial": {"trials per second": float},
        },
        tell=speed,
        script="study.py",
        short="--trials 1000 --stored 5000",
        minutes=0.3,
        rooms=("study",),
    ),
    Row(
        name="run-kills",
        group=RECORD,
        claim="a training that was killed ends in the same weights",
        published="wanted: the same bytes, always",
        data="60 steps of a Transformer-XL 32 wide, a checkpoint every 3 steps",
        file="kills",
        shape={"fp32": KILLED, "cuts": Each(int)},
        tell=killed,
        script="kills.py",
        short="--kills 2 --cuts 6",
        minutes=1.5,
        rooms=("train",),
    ),
    Row(
        name="answers",
        group=RECORD,
        claim="a model answers a large file as fast as a bare loop",
        published="wanted: 0.9 of its speed",
        data="10,000 made-up sentences, csv in and out",
        file="predict",
        shape={
            "rows": int,
            "speed_of_bare_loop": float,
            "turns": [float],
            "megabytes_more_for_ten_times_the_rows": float,
        },
        tell=answers,
        script="predict.py",
        full="--rows 10000 --turns 9",
        short="--rows 2000 --turns 3",
        minutes=0.3,
        rooms=("use",),
    ),
    Row(
        name="learning",
        group=LEARN,
        claim="models learn from scratch, beyond the simplest rival",
        published="wanted: better than the rival beside each",
        data="listops-tiny, SST-2, banking77, UD English, Multi30k, stdlib; small models",
        file="learning",
        shape=Each({"metric": str, "values": [float], "mean": float, "rival": str, "floor": float}),
        tell=from_scratch,
        script="learning.py",
        full="--data FOLDER",
        short="--only listops-tiny --share 0.25",
        minutes=1,
        rooms=("train", "tasks", "model"),
    ),
    Row(
        name="muon",
        group=LEARN,
        claim="Muon is better than AdamW at equal time, or level",
        published="wanted: no worse anywhere; it is the default of searches",
        data="models 128 wide on the standard library, banking77 and UD tags",
        file="muon",
        shape=[{"case": str, "model": str, "optimiser": str}],
        tell=muon,
        script="muon.py",
        full="--data FOLDER",
        short="--data {data} --only banking --share 0.1",
        minutes=1.5,
        rooms=("train/optim.py", "train/rates.py", "train/engine.py"),
    ),
    Row(
        name="dropout",
        group=LEARN,
        claim="dropout helps where data are few",
        published="wanted: better than none",
        data="banking77, a small encoder; standard error 0.010 on all rows, 0.013 on a quarter",
        file="dropout",
        shape=Each({"best": float}),
        tell=dropout,
        script="dropout.py",
        full="FOLDER/banking77",
        rooms=("train/regularise.py", "train/engine.py"),
    ),
    Row(
        name="rates",
        group=LEARN,
        claim="the best rate falls with the width and the root of the depth",
        published="wanted: exponents of -1 and -1/2, which searches use",
        data="five shapes, four rates, 250 steps on the Python standard library",
        file="rates",
        shape={"fit": {"width": float, "depth": float}},
        tell=rates,
        script="rates.py",
        short="--steps 60",
        minutes=1.7,
        rooms=("train/rates.py", "train/optim.py", "model/init.py"),
    ),
)
