"""Rows of other programs: the same figure of theirs and of ours, from one run."""

from collections.abc import Mapping
from statistics import fmean
from typing import Any

from claims import side_by_side
from claims.row import Row, Told, Verdict, around, each
from claims.shape import Each, Maybe

OPTUNA, TRAINER = "Optuna", "Hugging Face Trainer"
KERNELS, HAT = "Public attention implementations", "HAT's latency predictor"


def error(one: float, ones: int, other: float, others: int) -> float:
    """The standard error of a difference of two means."""
    return (one**2 / ones + other**2 / others) ** 0.5


def strategies(rows: Mapping[str, Any]) -> Told:
    """Our default strategy against Optuna's samplers on a measured table."""
    at = {name: dict(zip(row["marks"], row["mean"], strict=True)) for name, row in rows.items()}
    dev = {n: dict(zip(r["marks"], r["spread"], strict=True)) for n, r in rows.items()}
    rivals = [name for name in rows if name.startswith("optuna")]
    told, ahead, seeds = [], 0, rows["surrogate"]["seeds"]
    marks = [mark for mark in (50, 200) if mark in at["surrogate"]]
    for mark in marks:
        best = max((n for n in rivals if mark in at[n]), key=lambda n: at[n][mark])
        lead = at["surrogate"][mark] - at[best][mark]
        noise = error(dev["surrogate"][mark], seeds, dev[best][mark], rows[best]["seeds"])
        ahead += lead > 2 * noise
        told.append(
            f"at {mark} trials ours {at['surrogate'][mark]:.3f} ± "
            f"{dev['surrogate'][mark]:.3f}, {best} {at[best][mark]:.3f} ± {dev[best][mark]:.3f}"
            f" ({rows[best]['seeds']} seeds); lead {lead:.3f}, its error {noise:.3f}"
        )
    drawn = ", ".join(f"{at['random'][mark]:.3f} at {mark}" for mark in marks)
    return Told(
        "yes" if ahead == len(marks) else "partly" if ahead else "no",
        f"share of the best known hypervolume: {'; '.join(told)}. Ours was tuned on seeds 100 "
        "to 105 of the RTX 2080 table; the rivals were not tuned",
        seeds,
        f"random search {drawn}",
    )


def ladder(part: Mapping[str, Any]) -> Told:
    """The default of staged trials against other ways of spending training steps."""
    rows = part["our curves"]["hypervolume"]
    rivals = {n: r for n, r in rows.items() if n != "ladder" and "random" not in n}
    marks = rows["ladder"]["budgets"]
    told, ahead, lowest = [], 0, 1.0
    for i, mark in enumerate(marks):
        best = max(rivals, key=lambda n: rivals[n]["mean"][i])
        lead = rows["ladder"]["mean"][i] - rivals[best]["mean"][i]
        devs = rows["ladder"]["spread"][i], rivals[best]["spread"][i]
        noise = error(devs[0], rows["ladder"]["seeds"], devs[1], rivals[best]["seeds"])
        ahead += lead > 2 * noise
        lowest = min(lowest, lead)
        told.append(
            f"{mark}: ours {rows['ladder']['mean'][i]:.3f} ± {rows['ladder']['spread'][i]:.3f}, "
            f"{best} {rivals[best]['mean'][i]:.3f} ± {devs[1]:.3f} (lead {lead:.3f}, its "
            f"error {noise:.3f}), Optuna's TPE {rows['optuna tpe']['mean'][i]:.3f}"
        )
    return Told(
        "yes" if ahead == len(marks) else "partly" if lowest > 0 else "no",
        f"hypervolume for so many whole trainings: {'; '.join(told)}. Stages were chosen on these "
        "curves, which flatters ours; on half of NAS-Bench-NLP it is behind ASHA with one "
        "objective (log)",
        rows["ladder"]["seeds"],
        f"random search, judged at the last stage: {each(rows['random']['mean'], 3)}",
    )


def trainer(part: Mapping[str, Any]) -> Told:
    """Steps in turns with transformers' Trainer and with a bare loop."""
    ours = {name: row["ours_over_it"] for name, row in part.items() if name != "formwright"}
    verdict: Verdict = "yes" if min(ours.values()) >= 0.95 else "no"
    listed = ", ".join(f"{name} {ratio:.2f}" for name, ratio in ours.items())
    return Told(verdict, f"speed of our loop over it: {listed}", 1)


def tuned(part: list[Mapping[str, Any]]) -> Told:
    """A pre-trained encoder tuned by both, and a rival without a network."""
    told, ahead, beaten = [], 0, []
    cases = sorted({row["case"] for row in part})
    for case in cases:
        ways: dict[str, list[float]] = {}
        for row in part:
            if row["case"] == case:
                ways.setdefault(row["way"], []).append(row["accuracy"])
        ahead += fmean(ways["ours"]) > fmean(ways["trainer"])
        words = f"{case}: ours {around(ways['ours'])}, Trainer {around(ways['trainer'])}"
        if "default" in ways:
            words += f", ours by default {around(ways['default'])} ({len(ways['default'])} seeds)"
        if "tf-idf" in ways:
            words += f", TF-IDF {ways['tf-idf'][0]:.3f}"
            beaten += [case] if ways["tf-idf"][0] > fmean(ways["ours"]) else []
        told.append(words)
    told += [f"with the same numbers TF-IDF is ahead of both on {', '.join(beaten)}"] * bool(beaten)
    full = ahead == len(cases) and not beaten
    return Told(
        "yes" if full else "partly" if ahead else "no",
        "; ".join(told),
        max(row["seed"] for row in part) + 1,
    )


def kernels(part: list[Mapping[str, Any]]) -> Told:
    """Ours over a public implementation of the same mechanism, at length 4096."""
    rows = [r for r in part if r["length"] == 4096 and r["forward_over_public"] is not None]
    if not rows:
        return Told("open", "length 4096 was not measured", 0)
    slow = [r["mechanism"] for r in rows if r["forward_over_public"] > 1.02]
    listed = ", ".join(
        f"{r['mechanism']} {r['forward_over_public']:.2f} and "
        f"{r['forward_backward_over_public']:.2f}"
        for r in rows
    )
    return Told(
        "no" if len(slow) == len(rows) else "partly" if slow else "yes",
        f"our time over theirs, forward and with backward, length 4096: {listed}",
        1,
    )


def hat(part: Mapping[str, Any]) -> Told:
    """HAT's own table and split."""
    own, drawn = part["last_tenth"]["1600"], part["random"]["1600"]
    return Told(
        "yes" if own["mean_error"] < 0.048 else "no",
        f"mean error {own['mean_error']:.1%} on HAT's split, {drawn['mean_error']:.1%} on "
        "random splits (neighbours in the file share a drift)",
        1,
    )


MARKED = {"marks": [int], "mean": [float], "spread": [float], "seeds": int}
_TABLES = (
    ("gpt rtx2080", "HW-GPT-Bench, perplexity against latency on an RTX 2080"),
    ("gpt cpu", "HW-GPT-Bench, perplexity against latency on a processor"),
    ("bert", "NAS-Bench-BERT, GLUE against parameters, 500 rows"),
)

ROWS = (
    *(
        Row(
            name=f"optuna-{where.replace(' ', '-')}",
            group=OPTUNA,
            claim="our default strategy finds more with as many trials",
            published="rival: Optuna's samplers, run here on the same table",
            data=words,
            file="strategies",
            part=(where,),
            shape=Each(MARKED),
            tell=strategies,
            script="strategies.py",
            full="--data FOLDER/nas_benchmarks",
            short="--data {data}/nas_benchmarks --cache {work}/strategies --seeds 3 --where "
            f"'{where}' --only 'surrogate,random,optuna tpe multivariate'",
            minutes=1,
            rooms=("strategy/blackbox", "strategy/belief.py", "strategy/features.py", "space"),
        )
        for where, words in _TABLES
    ),
    Row(
        name="optuna-curves",
        group=OPTUNA,
        claim="trials in stages find more for the same training than ASHA, halving and TPE",
        published="rival: ASHA, halving, hurdles and Optuna's TPE, run here on the same curves",
        data="24 recorded learning curves of the open space on the Python standard library",
        file="ladder",
        shape={
            "our curves": {
                "hypervolume": Each(
                    {"budgets": [float], "mean": [float], "spread": [float], "seeds": int}
                )
            }
        },
        tell=ladder,
        script="ladder.py",
        full="--data FOLDER/nas_benchmarks",
        short="--data {data}/nas_benchmarks --seeds 3 --where 'our curves'",
        minutes=1,
        rooms=("strategy/blackbox", "strategy/forecast.py", "recipes/plan.py"),
    ),
    Row(
        name="trainer-speed",
        group=TRAINER,
        claim="our training loop is as fast as a bare loop and as the Trainer",
        published="rival: transformers' Trainer, run here in turns; at least 0.95 of its speed",
        data="a 4-layer GPT of width 128 on bytes, 40 to 60 steps",
        file="training",
        part=("steps",),
        shape=Each({"ours_over_it": float}),
        tell=trainer,
        script="training.py",
        full="--steps 60",
        short="--steps 20",
        minutes=0.5,
        rooms=("train",),
    ),
    Row(
        name="trainer-quality",
        group=TRAINER,
        claim="a tuned encoder is as good as with the Trainer",
        published="rival: transformers' Trainer, run here on the same rows and numbers",
        data="MiniLM on banking77 (test rows) and on 3,000 rows of SST-2 (validation rows), "
        "2 epochs",
        file="tuning",
        shape=[{"case": str, "way": str, "seed": int, "accuracy": float}],
        tell=tuned,
        script="tuning.py",
        full="--model FOLDER --data FOLDER --seeds 3",
        short="--model {minilm} --data {data} --only sst2 --seeds 1 --ways ours trainer",
        minutes=7,
        rooms=("use/tuning.py", "train", "model"),
    ),
    Row(
        name="attention-kernels",
        group=KERNELS,
        claim="our mechanisms are as fast as public implementations",
        published="rival: transformers, linformer, local-attention, performer-pytorch and "
        "linear-attention-transformer, run here in turns",
        data="width 512, 8 heads, batch 1, one thread, seven rounds",
        file="operators",
        part=("records",),
        shape=[{"mechanism": str, "length": int, "forward_over_public": Maybe(float)}],
        tell=kernels,
        script="operators.py",
        short="--lengths 4096",
        minutes=3,
        rooms=("ops/attention",),
    ),
    Row(
        name="hat-predictor",
        group=HAT,
        claim="latency is predicted as well as by HAT's network",
        published="HAT's own network has a mean error of 4.8 %",
        data="HAT's table of 2,000 measured models, 1,600 of them learned from",
        file="predictors",
        part=("hat",),
        shape={
            "last_tenth": Each({"mean_error": float}),
            "random": Each({"mean_error": float}),
        },
        tell=hat,
        script="predictors.py",
        full="--data FOLDER/nas_benchmarks",
        short="--data {data}/nas_benchmarks --splits 2",
        minutes=1,
        rooms=("cost",),
    ),
    *side_by_side.ROWS,
)
