"""Rows of LiteTransformerSearch and of the searches by evolution: Primer, Evolved, AutoBERT."""

from collections.abc import Callable, Sequence
from statistics import fmean
from typing import Any

from claims.row import Row, Told, Verdict, around, each
from claims.shape import Each

LTS, PRIMER = "LiteTransformerSearch", "Primer"
EVOLVED, AUTOBERT = "Evolved Transformer", "AutoBERT-Zero"
EVOLUTION = ("recipes/evolving.py", "strategy/blackbox", "strategy/hurdles.py", "train")


def lts_proxy(part: dict[str, Any]) -> Told:
    """Decoder parameters rank the losses better than the width alone does."""
    ours = [row["decoder_params"] for row in part["spearman"]]
    width = [row["width"] for row in part["spearman"]]
    won = sum(a > b for a, b in zip(ours, width, strict=True))
    verdict: Verdict = "yes" if won == len(ours) else "partly" if fmean(ours) > 0.8 else "no"
    return Told(
        verdict,
        f"rank correlation with the loss {each(ours, 3)} for {part['models']} models a draw; ahead "
        f"of the width alone in {won} of {len(ours)} draws. On GPT-2's backbone it was behind it "
        "(log: 0.79 against 0.98)",
        len(ours),
        f"the width alone, a trivial proxy: {each(width, 3)}",
    )


def lts_front(part: dict[str, Any]) -> Told:
    """The search covers more than random search, at equal numbers of candidates."""
    values = {name: row["values"] for name, row in part["hypervolume"].items()}
    won = sum(a > b for a, b in zip(values["lts"], values["random"], strict=True))
    seeds = len(values["lts"])
    return Told(
        "yes" if won == seeds else "partly" if 2 * won > seeds else "no",
        f"hypervolume {around(values['lts'], 5)} after {part['candidates']:,} candidates, above "
        f"random search in {won} of {seeds}",
        seeds,
        f"random {around(values['random'], 5)}, Optuna's NSGA-II {around(values['optuna'], 5)}",
    )


def lts_faster(part: dict[str, Any]) -> Told:
    """A found model with as many decoder parameters as the published one is faster."""
    words = part["outcome"]
    ratio = float(words.partition(" takes ")[2].partition(" times the latency")[0])
    return Told("yes" if ratio < 1 else "no", words.rstrip("."), 1)


def lts_budget(part: dict[str, Any]) -> Told:
    """Members chosen for a budget keep it when they are measured again."""
    kept = sum(row["over"] <= 0 for row in part["rows"])
    return Told(
        "yes" if kept == len(part["rows"]) else "no",
        f"{kept} of {len(part['rows'])} budgets kept; the closest by "
        f"{-100 * part['worst_over']:.0f} %",
        1,
    )


def primer_order(part: dict[str, list[float]]) -> Told:
    """Each change helps, alone and on top of the other, on every seed."""
    names = ("vanilla", "squared relu", "depthwise", "primer-ez")
    rows = list(zip(*(part[name] for name in names), strict=True))
    held = sum(a > b and a > c and min(b, c) > d for a, b, c, d in rows)
    return Told(
        "yes" if held == len(rows) else "partly" if held else "no",
        "nats per byte: "
        + ", ".join(f"{name} {around(part[name])}" for name in names)
        + f"; in this order in {held} of {len(rows)} seeds. With GPT-2's first weights squaring "
        "shows no effect (log)",
        len(rows),
    )


def hurdles(part: list[dict[str, Any]]) -> Told:
    """Progressive hurdles are ahead of short and of long training, for certain, in every case."""
    told, ahead = [], 0
    for case in part:
        short, long = case["progressive against short"], case["progressive against long"]
        ahead += short["low"] > 0 and long["low"] > 0
        told.append(
            f"{case['case']}: {short['gain']:+.3f} over short training ({short['low']:+.3f} to "
            f"{short['high']:+.3f}), {long['gain']:+.3f} over long ({long['low']:+.3f} to "
            f"{long['high']:+.3f})"
        )
    return Told(
        "yes" if ahead == len(part) else "partly" if ahead else "no",
        f"gain, 95 %: {'; '.join(told)}. Ahead of both for certain in {ahead} of {len(part)} cases",
        min(case["seeds"] for case in part),
    )


def evolution(system: str) -> Callable[[Any], Told]:
    """Of a search by evolution: finals of what was found, of its rivals, and of random search."""

    def tell(part: list[dict[str, Any]]) -> Told:
        known = [r for r in part if r["system"] == system and "found" in r and r["rivals"]]
        preset = [r for r in known if not r["set"]]
        rows = preset if any(not r["random"] for r in preset) else known
        other = sorted({" ".join(r["set"]) for r in rows} - {""})
        ours = {(r["task"], r["seed"]): r for r in rows if not r["random"]}
        drawn = {(r["task"], r["seed"]): r for r in rows if r["random"]}
        if not ours:
            return Told("open", "no search is on record", 0)
        up = -1 if next(iter(ours.values()))["metric"] in ("accuracy", "bleu") else 1
        seeds = [next(iter(row["rivals"].values())) for row in ours.values()]  # it stands first
        found = [row["found"] for row in ours.values()]
        over = sum(up * a < up * b for a, b in zip(found, seeds, strict=True))
        beats = sum(
            up * row["found"] < min(up * value for value in row["rivals"].values())
            for row in ours.values()
        )
        pairs = [(row["found"], drawn[key]["found"]) for key, row in ours.items() if key in drawn]
        won = sum(up * a < up * b for a, b in pairs)
        both = beats == len(ours) and won == len(pairs)
        metric = next(iter(ours.values()))["metric"]
        best = [min((up * v, v) for v in row["rivals"].values())[1] for row in ours.values()]
        return Told(
            "yes" if both else "partly" if beats or won or over == len(ours) else "no",
            f"{metric} of finals: found {each(found, 3)}, the Transformer {each(seeds, 3)} (better "
            f"in {over} of {len(ours)}), the best published layer {each(best, 3)} (better in "
            f"{beats} of {len(ours)})" + (f"; with {', '.join(other)}" if other else ""),
            len(ours),
            f"random search {each((b for _, b in pairs), 3)}; evolution is ahead in {won} of "
            f"{len(pairs)}",
        )

    return tell


def genes(part: list[dict[str, Any]]) -> Told:
    """Random and mutated genes keep the laws of models."""
    rows = [row for row in part if row["system"] == "genes"]
    if not rows:
        return Told("open", "no genes are on record", 0)
    wrong = sum(len(row["broke_a_law"]) + len(row["errors"]) for row in rows)
    told = "; ".join(f"{r['space']} {r['finite']:,} of {r['genes']:,}" for r in rows)
    enough = all(row["genes"] >= 1000 for row in rows)
    return Told(
        "no" if wrong else "yes" if enough else "partly",
        f"{wrong} broke a law; with finite losses after ten steps: {told}; a search passes over "
        "the others",
        1,
    )


def travelled(part: list[dict[str, Any]]) -> Told:
    """A kept layer in other shapes and on other tasks, beside the shape's own layers."""
    about = {"task", "width", "depth", "steps", "model", "seed", "params", "state"}
    told, won = [], 0
    tasks = list(dict.fromkeys(row["task"] for row in part))
    for task in tasks:
        rows = [row for row in part if row["task"] == task]
        metric = next(key for key in rows[0] if key not in about)
        models = {name: [r[metric] for r in rows if r["model"] == name]
                  for name in dict.fromkeys(r["model"] for r in rows)}  # fmt: skip
        up = -1 if metric in ("accuracy", "bleu", "f1") else 1
        kept = [name for name in models if name not in ("plain", "primer-ez")]
        best = min((up * fmean(models[name]) for name in kept), default=float("inf"))
        won += best < up * fmean(models["plain"])
        named = task.partition(":")[0]
        listed = ", ".join(f"{name} {around(values)}" for name, values in models.items())
        told.append(f"{named} {metric}: {listed}")
    return Told(
        "yes" if won == len(tasks) else "partly" if won else "no",
        "; ".join(told),
        max(row["seed"] for row in part) + 1,
    )


def programs(names: Sequence[str]) -> Callable[[Any], Told]:
    """Of layers written as graphs: what a step takes beside the same layer written by hand."""

    def tell(part: list[dict[str, Any]]) -> Told:
        rows = [row for row in part if row["name"] in names]
        if not rows:
            return Told("open", "not measured", 0)
        worst = max(row["ratio"] for row in rows)
        told = [f"{r['name']}, {r['width']} wide, {r['ratio']:.2f}" for r in rows]
        return Told("yes" if worst <= 1.1 else "no", "; ".join(told), 1)

    return tell


SEARCHED = [{"system": str}]
VALUES = {"values": [float], "mean": float}
ON_RECORD = [{"name": str, "width": int, "ratio": float}]
AGAINST = {"gain": float, "low": float, "high": float}


def _searched(name: str, group: str, published: str, data: str, recipe: str, task: str = "") -> Row:
    return Row(
        name=f"{name}-search",
        group=group,
        claim="what evolution finds is better than the Transformer, than the best layer made by "
        "hand and than random search at equal cost",
        published=published,
        data=data,
        file="evolution",
        shape=SEARCHED,
        tell=evolution(name),
        script="evolution.py",
        full=f"{name} --seeds 3 --first 1{task}",
        short=f"{name} --seeds 1 --preset smoke --runs {{work}}/evolution",
        minutes=0.5,
        rooms=(*EVOLUTION, f"recipes/{recipe}.py"),
    )


ROWS = (
    Row(
        name="lts-proxy",
        group=LTS,
        claim="decoder parameters rank models without training",
        published="rank correlation with perplexity 0.97 over 200 models of its released table "
        "(width alone 0.95 and 0.89)",
        data="bytes of the Python standard library, 16 Transformer-XL models of width 8 to 48",
        file="lts",
        part=("proxy",),
        shape={"models": int, "spearman": [{"decoder_params": float, "width": float}]},
        tell=lts_proxy,
        script="lts.py",
        full="--only proxy --seeds 3",
        short="--only proxy --seeds 1 --out {work}/lts",
        minutes=4,
        rooms=("train", "model", "space/lts.py", "estimate/proxy"),
    ),
    Row(
        name="lts-front",
        group=LTS,
        claim="the evolution covers more of the front than random search",
        published="no comparison with random search at equal cost in the paper",
        data="lts-gpt2 at full size, decoder parameters against latency by a predictor fitted to "
        "measurements on one thread",
        file="lts",
        part=("search",),
        shape={"candidates": int, "outcome": str, "hypervolume": Each(VALUES)},
        tell=lts_front,
        script="lts.py",
        full="--only search --seeds 5",
        short="--only search --seeds 1 --out {work}/lts",
        minutes=9,
        rooms=("strategy/blackbox", "space", "cost", "recipes/lts.py"),
    ),
    Row(
        name="lts-faster",
        group=LTS,
        claim="a found model with as many decoder parameters as the 16-layer GPT-2 is faster",
        published="up to 1.5 times faster at equal perplexity, with 1.2 times less memory",
        data="the same search, its front measured on one thread; nothing was trained",
        file="lts",
        part=("search",),
        shape={"outcome": str},
        tell=lts_faster,
        script="lts.py",
        full="--only search --seeds 5",
        short="--only search --seeds 1 --out {work}/lts",
        minutes=9,
        rooms=("strategy/blackbox", "space", "cost", "recipes/lts.py"),
    ),
    Row(
        name="lts-budget",
        group=LTS,
        claim="a model chosen for a latency keeps it in a fresh process",
        published="no figure in the paper",
        data="ten budgets of 250 to 771 ms, lts-gpt2, measured again",
        file="lts",
        part=("budget",),
        shape={"worst_over": float, "rows": [{"over": float}]},
        tell=lts_budget,
        script="lts.py",
        full="--only budget",
        rooms=("cost",),
    ),
    Row(
        name="primer-order",
        group=PRIMER,
        claim="squared ReLU helps, a convolution after the projections helps more, both most",
        published="these two of its changes carry almost all of the gain (Primer-EZ)",
        data="bytes of the Python standard library, two layers of T5's decoder, 64 wide, 400 steps",
        file="shapes",
        part=("primer",),
        shape={n: [float] for n in ("vanilla", "squared relu", "depthwise", "primer-ez")},
        tell=primer_order,
        script="shapes.py",
        full="--only primer --seeds 3",
        short="--only primer --seeds 1 --share 0.5",
        minutes=1,
        rooms=("train", "model", "ops", "arch"),
    ),
    Row(
        name="genes",
        group=PRIMER,
        claim="every drawn or mutated gene of the three spaces builds, trains, and is causal and "
        "blind to padding where it must be",
        published="wanted: 1,000 of each space",
        data="random genes of Primer, the Evolved Transformer and AutoBERT-Zero, ten steps each",
        file="evolution",
        shape=SEARCHED,
        tell=genes,
        script="evolution.py",
        full="genes",
        short="genes --genes 20",
        minutes=0.4,
        rooms=("space", "model", "arch"),
    ),
    _searched(
        "primer",
        PRIMER,
        "C4, 537M: perplexity 13.25 after 3.8 thousand TPU hours, T5 after 15.7",
        "bytes of the Python standard library, preset small",
        "primer",
    ),
    Row(
        name="primer-programs",
        group=PRIMER,
        claim="a layer written as a program trains as fast as one written by hand",
        published="no figure in the paper; wanted: at most 1.10 times the time",
        data="training steps in turns, 2 layers, 8 texts of 128 tokens",
        file="programs",
        shape=ON_RECORD,
        tell=programs(("transformer", "primer-ez", "primer")),
        script="programs.py",
        full="--rounds 50",
        short="--rounds 10",
        minutes=0.5,
        rooms=("arch/graph", "ops"),
    ),
    Row(
        name="primer-travel",
        group=PRIMER,
        claim="a layer that was found on one text helps in other shapes and tasks",
        published="Primer helps in other code bases and sizes, less in encoder-decoders",
        data="a kept layer in Llama's shapes on other tasks, equally long by steps",
        file="travel",
        shape=[{"task": str, "model": str, "seed": int}],
        tell=travelled,
        script="travel.py",
        full="my_block --task lm:FILE --task tag:FILE --seeds 3",
        rooms=("arch/graph", "ops", "train"),
    ),
    Row(
        name="evolved-hurdles",
        group=EVOLVED,
        claim="progressive dynamic hurdles find more than fixed training at equal cost",
        published="an ablation at equal compute in its favour; its figures could not be confirmed",
        data="three made-up sets of learning curves and our own recorded ones",
        file="hurdles",
        shape=[
            {
                "case": str,
                "seeds": int,
                "progressive against short": AGAINST,
                "progressive against long": AGAINST,
            }
        ],
        tell=hurdles,
        script="hurdles.py",
        full="--seeds 20",
        short="--seeds 5",
        minutes=0.5,
        rooms=("strategy/hurdles.py", "strategy/blackbox"),
    ),
    _searched(
        "evolved",
        EVOLVED,
        "WMT'14 English to German, BLEU 28.4 against 28.2 (base), +0.7 at 7M parameters",
        "Multi30k, English to German, 29,000 pairs, preset small",
        "evolved",
        " --task 'translate:FOLDER/uncertain_licence/multi30k/train.en.xz,"
        "FOLDER/uncertain_licence/multi30k/train.de.xz?tokenizer=bpe:1000&metric=perplexity'",
    ),
    _searched(
        "autobert",
        AUTOBERT,
        "GLUE development average 86.3 against 83.1 for BERT base",
        "hidden bytes of the Python standard library, preset small",
        "autobert",
    ),
    Row(
        name="autobert-formulas",
        group=AUTOBERT,
        claim="a formula of attention trains as fast as the layer written by hand",
        published="no figure in the paper; wanted: at most 1.10 times the time",
        data="training steps in turns, 2 layers, 8 texts of 128 tokens",
        file="programs",
        shape=ON_RECORD,
        tell=programs(("standard formula",)),
        script="programs.py",
        full="--rounds 50",
        short="--rounds 10",
        minutes=0.5,
        rooms=("arch/graph", "ops"),
    ),
)
