"""Rows of PAR, Finding Fast Transformers and DARTFormer: searches of a supernet."""

from statistics import fmean
from typing import Any

from claims.row import Row, Told, Verdict, around, each
from claims.shape import Each

SUPERNET = ("supernet", "strategy/gradient", "train", "model", "ops")
_FOUND = ("found by the supernet", "shorter than found", "drawn from its")
PAR, FFT, DART = "PAR Transformer", "Finding Fast Transformers", "DARTFormer"


def table_one(part: dict[str, list[float]]) -> Told:
    """No attention is far worse; then the rest are close."""
    none, plain, fewer = part["ffffffff"], part["(sf)x4"], part["(sf)x3ff"]
    cliff = min(a - b for a, b in zip(none, plain, strict=True))
    close = max(abs(a - b) for a, b in zip(fewer, plain, strict=True))
    one = part["sffffffff"]
    return Told(
        "yes" if cliff > 0.3 and close < 0.05 else "no",
        f"bits per byte: no attention {around(none)}, one attention {around(one)}, (sf)x3ff "
        f"{around(fewer)}, (sf)x4 {around(plain)}; without attention it is worse by at least "
        f"{cliff:.2f}, and (sf)x3ff is within {close:.3f} of (sf)x4, on every seed",
        len(plain),
    )


def par_latency(part: dict[str, Any]) -> Told:
    """The published ratio lies inside our interval."""
    inside = part["low"] <= part["published"] <= part["high"]
    return Told(
        "yes" if inside else "no",
        f"ratio {part['ratio']:.3f} (95 %: {part['low']:.3f} to {part['high']:.3f})",
        1,
    )


def par_search(part: list[dict[str, Any]]) -> Told:
    """An order that was found must be 1.3 times as fast within 0.03 bits, in every search."""
    held = {text: [_par_seed(row) for row in part if row["text"] == text] for text in _texts(part)}
    told = [_par_text(text, seeds) for text, seeds in held.items()]
    drawn = (f"{t} {around([s['drawn'] for s in seeds])} bits" for t, seeds in held.items())
    every = [seed for seeds in held.values() for seed in seeds]
    won = [seed["gain"] >= 1.3 and seed["drawn"] >= 0.05 for seed in every]
    return Told(
        "yes" if all(won) else "partly" if any(won) else "no",
        "the fastest order that was found within 0.03 bits per character of the plain one, and the "
        f"best as fast as the design rule: {'; '.join(told)}. It holds in {sum(won)} of {len(won)}",
        min(len(seeds) for seeds in held.values()),
        f"random orders, against the best that was found and is as fast: {'; '.join(drawn)} worse",
    )


def _texts(part: list[dict[str, Any]]) -> list[str]:
    return list(dict.fromkeys(row["text"] for row in part))


def _par_seed(row: dict[str, Any]) -> dict[str, float]:
    """What one search is held to: speed within 0.03 bits, distance to rule and random orders."""
    models = [(m["note"], m["bits_per_character"], m["speedup"]) for m in row["models"]]
    found = [(bits, speed) for note, bits, speed in models if note.startswith(_FOUND)]

    def one(start: str) -> tuple[float, float]:
        return next((bits, speed) for note, bits, speed in models if note.startswith(start))

    def ahead(of: tuple[float, float]) -> float:
        """Bits by which the best that is as fast (to 5 %) is ahead of another order."""
        return of[0] - min((bits for bits, speed in found if speed >= 0.95 * of[1]), default=9.9)

    plain = one("plain order")[0]
    drawn = [ahead((bits, speed)) for note, bits, speed in models if note.startswith("random")]
    return {
        "plain": plain,
        "gain": max((speed for bits, speed in found if bits <= plain + 0.03), default=0.0),
        "rule": ahead(one("design rule")),
        "rule_speed": one("design rule")[1],
        "drawn": fmean(drawn),
    }


def _par_text(text: str, seeds: list[dict[str, float]]) -> str:
    def over(key: str, digits: int = 3) -> str:
        return around([seed[key] for seed in seeds], digits)

    return (
        f"{text}: {over('gain', 2)} times the speed of the plain order, which has "
        f"{over('plain')} bits; {over('rule')} bits better than the design rule at "
        f"{over('rule_speed', 2)} times the speed ({len(seeds)} seeds)"
    )


def par_planted(part: dict[str, Any]) -> Told:
    """A truth that was planted is found."""
    won, seeds = part["won"], part["seeds"]
    return Told(
        "yes" if won == seeds else "partly" if won > seeds / 2 else "no",
        f"{won} of {seeds} searches attend where the task needs it and nowhere else",
        seeds,
    )


def fft_speed(part: list[dict[str, Any]]) -> Told:
    """Accepted networks are faster than the whole one, and better than random ones as dear."""
    rows = [{row["what"]: row for row in run["rows"]} for run in part]
    kinds = [k for k in ("do", "sdo") if all(k in run for run in rows)]  # it may accept nothing
    if not kinds:
        return Told("no", f"nothing was accepted in {len(part)} searches", len(part))

    def points(name: str) -> list[float]:
        lost = [(run[name]["new_test"], run["whole network"]["test"]) for run in rows]
        return [100 * (new - whole) for new, whole in lost]

    def speeds(name: str) -> list[float]:
        return [run[name]["speedup"][0] for run in rows]

    drawn = {k: f"random: as dear as {k}" for k in kinds}
    won = {k: sum(a > b for a, b in zip(points(k), points(drawn[k]), strict=True)) for k in kinds}
    faster = all(value > 1 for k in kinds for value in speeds(k))
    return Told(
        "yes"
        if faster and all(won[k] == len(rows) for k in kinds)
        else "partly"
        if faster
        else "no",
        "; ".join(
            f"{k.upper()} {each(speeds(k))} times as fast, test accuracy {each(points(k), 1)} "
            "points from the whole network's, both trained from new weights"
            for k in kinds
        ),
        len(rows),
        "; ".join(
            f"random networks as dear as {k.upper()} by the same table: {each(speeds(drawn[k]))} "
            f"times as fast, {each(points(drawn[k]), 1)} points; {k.upper()} is better in {won[k]} "
            f"of {len(rows)}"
            for k in kinds
        ),
    )


def fft_planted(part: dict[str, Any]) -> Told:
    """Frozen components, and no others, are dropped."""
    right = {k: (part[k]["right"], len(part[k]["runs"])) for k in ("do", "sdo")}
    missed = sum(all_ - won for won, all_ in right.values())
    return Told(
        "yes" if not missed else "partly",
        ", ".join(f"{k.upper()} in {won} of {all_}" for k, (won, all_) in right.items()),
        right["do"][1],
    )


def fft_overhead(part: dict[str, Any]) -> Told:
    """No dearer than the paper's."""
    fine = all(part[k]["ratio"] <= part["paper"] for k in ("do", "sdo"))
    return Told(
        "yes" if fine else "no",
        ", ".join(
            f"{k.upper()} {part[k]['ratio']:.2f} (95 %: {part[k]['low']:.2f} to "
            f"{part[k]['high']:.2f})"
            for k in ("do", "sdo")
        ),
        1,
    )


def step_of_search(part: dict[str, Any]) -> Told:
    """Steps of the search over plain ones, against the limits that were wanted."""
    limits = part["limits"]
    fine = all(part[name]["ratio"] <= limit for name, limit in limits.items())
    told = [
        f"{name} {part[name]['ratio']:.2f} (95 %: {part[name]['low']:.2f} to "
        f"{part[name]['high']:.2f}), wanted at most {limit:g}"
        for name, limit in limits.items()
    ]
    return Told("yes" if fine else "no", "; ".join(told), 1)


def nine_blocks(part: dict[str, Any]) -> Told:
    """A step of the supernet over the sum of its nine blocks."""
    fine = all(row["low"] <= 1.05 for row in part.values())
    told = [
        f"width {row['width']}: {row['ratio']:.2f} (95 %: {row['low']:.2f} to {row['high']:.2f})"
        for row in part.values()
    ]
    return Told("yes" if fine else "no", "; ".join(told), 1)


def dartformer(part: dict[str, Any]) -> Told:
    """Scores of blocks must rank the nine homogeneous models."""
    told = part["summary"]
    places, mean = told["place_of_chosen"], told["mean_test_accuracy"]
    drawn = sum(mean.values()) / len(mean)
    best = mean[told["best_single"]]
    chosen = sum(run["accuracy"][run["chosen"]]["test"] for run in part["runs"]) / len(places)
    ranks = [run["spearman"] for run in part["runs"]]
    rank = fmean(ranks)
    better = rank > 0.3 and chosen > drawn
    verdict: Verdict = "yes" if better and min(ranks) > 0.5 else "partly" if better else "no"
    return Told(
        verdict,
        f"rank correlation of score and accuracy {around(ranks, 2)}; the "
        f"chosen mechanism has {chosen:.3f} and comes {', '.join(map(str, places))} of nine; the "
        f"best one, {told['best_single']}, has {best:.3f}",
        told["seeds"],
        f"a mechanism drawn at random has {drawn:.3f}",
    )


def dart_planted(part: dict[str, Any]) -> Told:
    """The mechanism that alone solves a task is chosen."""
    rows = {name: (row["right"], len(row["runs"])) for name, row in part.items()}
    missed = sum(all_ - won for won, all_ in rows.values())
    return Told(
        "yes" if not missed else "partly",
        ", ".join(f"{name}: {won} of {all_}" for name, (won, all_) in rows.items()),
        min(all_ for _, all_ in rows.values()),
    )


SCORED = {
    "runs": [{"chosen": str, "spearman": float, "accuracy": Each({"test": float})}],
    "summary": {
        "seeds": int,
        "mean_test_accuracy": Each(float),
        "best_single": str,
        "place_of_chosen": [int],
    },
}
PLANT = {"right": int, "runs": [dict]}
RATIO = {"ratio": float, "low": float, "high": float}

ROWS = (
    Row(
        name="par-table-1",
        group=PAR,
        claim="most attention is not needed: a cliff without any, then quick saturation",
        published="WikiText-103 test perplexity 252.9 without attention, 31.5 with one, 22.7 with "
        "6 of 16, 22.7 with all",
        data="bytes of the Python standard library, 8 to 9 sub-layers of width 48, 800 steps",
        file="shapes",
        part=("par",),
        shape=Each([float]),
        tell=table_one,
        script="shapes.py",
        full="--only par --seeds 3",
        short="--only par --seeds 1 --share 0.25",
        minutes=1.5,
        rooms=("train", "model", "ops", "arch"),
    ),
    Row(
        name="par-latency",
        group=PAR,
        claim="PAR base is as much faster than Transformer-XL base as published",
        published="9.9 / 15.2 ms = 0.651 on an A100",
        data="published architectures at full size with random weights, 64 new tokens after 640, "
        "one thread of a shared processor",
        file="latency",
        part=("par",),
        shape={**RATIO, "published": float},
        tell=par_latency,
        script="latency.py",
        full="--parts par",
        short="--parts par --seconds 1",
        minutes=1.2,
        rooms=("cost", "model", "ops", "zoo"),
    ),
    Row(
        name="par-search",
        group=PAR,
        claim="the searched order is as good as the plain one, and faster",
        published="equal perplexity (22.7) at 0.65 of the latency, by the design rule read off the "
        "search",
        data="characters of text8 (10 MB) and tiny Shakespeare, Transformer-XL with memory, 8 "
        "slots of width 64, 1,500 steps of search, 1,000 of training",
        file="oneshot-par",
        shape=[
            {
                "text": str,
                "seed": int,
                "models": [{"note": str, "bits_per_character": float, "speedup": float}],
            }
        ],
        tell=par_search,
        script="oneshot_par.py",
        full="--data FOLDER --seeds 3",
        short="--data {data} --texts shakespeare --seeds 1 --share 0.2 --runs {work}",
        minutes=5,
        rooms=(*SUPERNET, "recipes/par.py", "recipes/orders.py", "recipes/oneshot.py"),
    ),
    Row(
        name="par-planted",
        group=PAR,
        claim="attention is put where a task needs it and nowhere else",
        published="no figure in the paper",
        data="planted-table, a task of our own whose right order is known",
        file="planted-par",
        shape={"won": int, "seeds": int},
        tell=par_planted,
        script="planted_par.py",
        full="--seeds 10",
        short="--seeds 1",
        minutes=3,
        rooms=(*SUPERNET, "space/order.py", "tasks/planted.py"),
    ),
    Row(
        name="par-overhead",
        group=PAR,
        claim="a step of the search is no dearer than its limit",
        published="no figure in the paper",
        data="8 slots of width 128, length 64; five steps in turns, soft and sampled options",
        file="overhead-par",
        shape={"soft": RATIO, "sampled": RATIO, "limits": Each(float)},
        tell=step_of_search,
        script="overhead_par.py",
        short="--seconds 20",
        minutes=0.5,
        rooms=SUPERNET,
    ),
    *(
        Row(
            name=name,
            group=FFT,
            claim="parts of a network can be dropped at almost no loss, and it is faster",
            published=published,
            data=data,
            file="oneshot-fft",
            part=(part,),
            shape=[{"seed": int, "rows": [{"what": str}]}],
            tell=fft_speed,
            script="oneshot_fft.py",
            full=f"--data FOLDER --only {part} --seeds 3",
            short=short,
            minutes=11,
            rooms=(*SUPERNET, "recipes/fft.py", "recipes/priced.py", "space/components.py"),
        )
        for name, part, published, data, short in (
            (
                "fft-speed",
                "runs",
                "DO 1.7, SDO 1.8 times MiniBERT's speed on part-of-speech tags at 0.4 points "
                "below it (34 and 36 against 20 times the teacher)",
                "Universal Dependencies English EWT, three layers of width 128, at most 0.3 points "
                "below the whole network on the development part",
                "--data {data} --only runs --seeds 1 --runs {work}/fft",
            ),
            (
                "fft-spanish",
                "spanish",
                "no figure for one language alone",
                "2,100 sentences of Universal Dependencies Spanish GSD and PUD, the same network",
                None,
            ),
        )
    ),
    Row(
        name="fft-planted",
        group=FFT,
        claim="components frozen at zero, and no others, are dropped",
        published="no figure in the paper",
        data="planted-tag, two layers, half of the slices frozen",
        file="planted-fft",
        shape={"do": PLANT, "sdo": PLANT},
        tell=fft_planted,
        script="planted_fft.py",
        full="--seeds 10",
        short="--seeds 2",
        minutes=0.5,
        rooms=(*SUPERNET, "space/components.py"),
    ),
    Row(
        name="fft-overhead",
        group=FFT,
        claim="a step of the search takes little more than a training step",
        published="1.4 times",
        data="three layers of width 256, batches of 2,048 tokens, steps in turns",
        file="overhead-fft",
        shape={"paper": float, "do": RATIO, "sdo": RATIO},
        tell=fft_overhead,
        script="overhead_fft.py",
        short="--blocks 4",
        minutes=1.5,
        rooms=SUPERNET,
    ),
    *(
        Row(
            name=f"dartformer-{task}",
            group=DART,
            claim="the score of a block tells how good its homogeneous model is",
            published=published,
            data=data,
            file="oneshot-dartformer",
            part=(task,),
            shape=SCORED,
            tell=dartformer,
            script="oneshot_dartformer.py",
            full=f"--tasks {task} --seeds 3 --data FOLDER",
            short=short,
            minutes=3,
            rooms=(*SUPERNET, "recipes/dartformer.py", "space/dartformer.py"),
        )
        for task, published, data, short in (
            (
                "listops",
                "right on two of three tasks; from its Table 1, Spearman +0.43 on ListOps",
                "short ListOps, generated; nine blocks of width 32 to 64",
                "--tasks listops --seeds 1",
            ),
            (
                "csv",
                "no figure in the paper",
                "the same kind of rows as a user's own tables",
                None,
            ),
            (
                "imdb",
                "right on two of three tasks; from its Table 1, Spearman +0.28 on IMDb",
                "IMDb, 5,000 reviews, the first 512 bytes of each",
                None,
            ),
        )
    ),
    Row(
        name="dartformer-planted",
        group=DART,
        claim="the mechanism that alone solves a task is chosen",
        published="no figure in the paper",
        data="planted-mirror (Synthesizer) and planted-sofar (Sparse)",
        file="planted-dartformer",
        shape=Each({"planted": str, **PLANT}),
        tell=dart_planted,
        script="planted_dartformer.py",
        full="--seeds 10",
        short="--seeds 1",
        minutes=3,
        rooms=(*SUPERNET, "recipes/dartformer.py", "space/dartformer.py", "tasks/planted.py"),
    ),
    Row(
        name="dartformer-overhead",
        group=DART,
        claim="a step of the nine-block supernet takes no more than its blocks together",
        published="no figure in the paper",
        data="two sizes, 200 rounds in turns, what blocks share counted once",
        file="overhead-dartformer",
        shape=Each({**RATIO, "width": int}),
        tell=nine_blocks,
        script="overhead_dartformer.py",
        short="--rounds 30",
        minutes=1,
        rooms=SUPERNET,
    ),
)
