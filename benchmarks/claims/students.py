"""Rows of AutoDistil and NAS-BERT, and of what compresses a model that the user has."""

from typing import Any

from claims.row import Row, Told, Verdict, around, each
from claims.shape import Each

AUTODISTIL, NASBERT, OWN = "AutoDistil", "NAS-BERT", "Compressing a model"
ROOMS = ("distil", "supernet", "recipes/autodistil.py", "strategy/gradient", "train")


def rank(part: dict[str, Any]) -> Told:
    """Students ranked inside the supernet as when each is trained alone."""
    ours = [row for row in part["seeds"] if row.get("form", "ours") == "ours"]
    printed = [row["spearman"] for row in part["seeds"] if row.get("form") == "published"]
    values = [row["spearman"] for row in ours]
    alone = [row["by_size_alone"] for row in ours]
    beside = f"; as published {each(printed)}" if printed else ""
    return Told(
        "yes" if min(values) >= part["wanted"] else "no",
        f"rank correlation {each(values)}, wanted at least {part['wanted']:g}{beside}",
        len(values),
        f"by the number of parameters alone: {each(alone)}",
    )


def shots(part: dict[str, Any]) -> Told:
    """Several supernets are no worse than one with all the steps."""
    words = [
        f"{name} {found['few']:.1e} against {found['one']:.1e}"
        for row in part["seeds"]
        for name, found in row["ranges"].items()
    ]
    return Told(
        "yes" if part["no_worse"] == part["of"] else "partly",
        f"relation loss, three supernets against one: {', '.join(words)}",
        len(part["seeds"]),
    )


def sandwich(part: dict[str, Any]) -> Told:
    """Members of one supernet are as good as plain models at a third of the time each."""
    means, level = part["means"], 0
    told = []
    for name, row in means.items():
        level += row["supernet"] <= row["plain_third"]
        told.append(
            f"{name} {row['supernet']:.2f} ± {row['supernet_sd']:.2f} against "
            f"{row['plain_third']:.2f} ± {row['plain_third_sd']:.2f}"
        )
    verdict: Verdict = "yes" if level == len(means) else "partly" if level else "no"
    return Told(verdict, f"bits per byte: {', '.join(told)}", len(part["seeds"]))


def step(part: dict[str, Any]) -> Told:
    """A small student's step is cheap inside the large net."""
    ratios = [row["ratio"] for row in part["shapes"].values()]
    return Told(
        "yes" if max(ratios) <= part["wanted"] else "no",
        f"a student with a quarter of the FLOPs takes {each(ratios)} of the supernet's step, "
        f"wanted at most {part['wanted']:g}",
        1,
    )


def table(part: dict[str, Any]) -> Told:
    """Selection from the large table is quick."""
    return Told(
        "yes" if part["most_seconds"] < 2 else "no",
        f"{part['rows']:,} models, {part['pairs']} pairs of limits: {part['median_seconds']:.2f} s "
        f"in the median, {part['most_seconds']:.2f} s at most, "
        f"{part['peak_bytes_of_process'] / 2**20:.0f} MiB",
        1,
    )


def blocks(part: list[dict[str, Any]]) -> Told:
    """What was found in the table, a plain order as large, and random models of the table."""
    plain = "plain order of equal cost"
    ways = {
        name: [row["models"][name]["test"] for row in part]
        for name in ("teacher", "found", plain, "random")
    }
    won = {
        name: sum(a > b for a, b in zip(ways["found"], ways[name], strict=True))
        for name in (plain, "random")
    }
    both = won[plain] == won["random"] == len(part)
    verdict: Verdict = "yes" if both else "partly" if won[plain] == len(part) else "no"
    faster = [1 / row["models"]["found"]["latency"] for row in part]
    return Told(
        verdict,
        f"test accuracy {each(ways['found'], 3)} at {each(faster)} times the teacher's speed "
        f"(teacher {each(ways['teacher'], 3)}); a plain order with as many parameters has "
        f"{each(ways[plain], 3)}: ahead of it in {won[plain]} of {len(part)}",
        len(part),
        f"the best random model of the same table {each(ways['random'], 3)}; ahead of it in "
        f"{won['random']} of {len(part)}",
    )


def compressed(part: list[dict[str, Any]]) -> Told:
    """What the programme chose is better than every simple student as fast, at 2 and 3 times."""
    told, ahead, cases = [], 0, 0
    students = [row for row in part if "speedup" in row]
    longest = max((row.get("steps", 0) for row in students), default=0)
    students = [row for row in students if row.get("steps", 0) == longest]  # like with like
    for case, speedup in sorted({(row["case"], row["speedup"]) for row in students}):
        ways: dict[str, list[float]] = {}
        for row in students:
            if (row["case"], row["speedup"]) == (case, speedup):
                ways.setdefault(row["way"], []).append(row.get("test", row["valid"]))
        if "found" not in ways or len(ways) == 1:
            continue
        mean = {way: sum(values) / len(values) for way, values in ways.items()}
        metric = next(row["metric"] for row in students if row["case"] == case)
        up = 1 if metric in ("accuracy", "f1") else -1
        rival = max((way for way in mean if way != "found"), key=lambda way: up * mean[way])
        cases += 1
        ahead += up * mean["found"] > up * mean[rival]
        told.append(
            f"{case} at {speedup:g} times: {around(ways['found'])}, the best simple student "
            f"({rival}) {around(ways[rival])}, blocks at random "
            + (around(ways["random"]) if "random" in ways else "not run")
        )
    teachers = {r["case"]: r.get("test", r["valid"]) for r in part if r["way"] == "teacher"}
    seeds = len({row["seed"] for row in students})
    if not cases:
        return Told("open", "no student is on record", 0)
    verdict: Verdict = "yes" if ahead == cases else "partly" if ahead else "no"
    taught = ", ".join(f"{case} {value:.3f}" for case, value in teachers.items())
    return Told(verdict, f"test scores, teachers {taught}; {'; '.join(told)}", seeds)


ROWS = (
    Row(
        name="autodistil-rank",
        group=AUTODISTIL,
        claim="the loss inside a supernet ranks students as training each alone does",
        published="students are chosen by it; no rank correlation in the paper",
        data="a teacher of 4 layers, 64 wide, on bytes of the Python standard library; 20 students",
        file="students",
        part=("rank",),
        shape={"seeds": [{"spearman": float, "by_size_alone": float}], "wanted": float},
        tell=rank,
        script="students.py",
        full="rank --seeds 3",
        short="rank --seeds 1 --short",
        minutes=0.6,
        rooms=ROOMS,
    ),
    Row(
        name="autodistil-shots",
        group=AUTODISTIL,
        claim="three supernets for three ranges of size are better than one for all",
        published="MRPC F1 and RTE accuracy of one sub-network: 91.2, 71.8 against 85.1, 62.8",
        data="the same teacher; equal steps in all",
        file="students",
        part=("shots",),
        shape={
            "seeds": [{"ranges": Each({"few": float, "one": float})}],
            "no_worse": int,
            "of": int,
        },
        tell=shots,
        script="students.py",
        full="shots --seeds 3",
        short="shots --seeds 1 --short",
        minutes=0.5,
        rooms=ROOMS,
    ),
    Row(
        name="autodistil-sandwich",
        group=AUTODISTIL,
        claim="one supernet by the sandwich rule replaces three plain models at equal time",
        published="no comparison at equal time in the paper",
        data="tiny Shakespeare, bytes, 45 seconds of a processor",
        file="sandwich",
        shape={
            "seeds": [dict],
            "means": Each({"supernet": float, "supernet_sd": float, "plain_third": float}),
        },
        tell=sandwich,
        script="sandwich.py",
        full="--data FOLDER/tiny_shakespeare --seeds 3 --seconds 45 --together",
        short="--data {data}/tiny_shakespeare --seeds 1 --seconds 15 --together",
        minutes=1.5,
        rooms=("supernet", "strategy/gradient", "train"),
    ),
    Row(
        name="autodistil-step",
        group=AUTODISTIL,
        claim="a step of a small student is cheap inside the supernet",
        published="no figure in the paper",
        data="6 layers of 256 and of 384, forward, backward and AdamW over all weights",
        file="students",
        part=("step",),
        shape={"shapes": Each({"ratio": float}), "wanted": float},
        tell=step,
        script="students.py",
        full="step",
        short="step --short",
        minutes=1,
        rooms=("supernet", "strategy/gradient", "train"),
    ),
    Row(
        name="nasbert-table",
        group=NASBERT,
        claim="the best of 1e8 models for a new pair of limits is found at once",
        published="selection falls from 50 hours to 5 minutes by shrinking to 1e8",
        data="a table of made-up losses",
        file="students",
        part=("table",),
        shape={
            "rows": int,
            "pairs": int,
            "median_seconds": float,
            "most_seconds": float,
            "peak_bytes_of_process": float,
        },
        tell=table,
        script="students.py",
        full="table",
        short="table --short",
        minutes=0.2,
        rooms=("distil", "recipes/nasbert.py"),
    ),
    Row(
        name="nasbert-quality",
        group=NASBERT,
        claim="students found block by block are better than BERTs of the same size",
        published="GLUE development average at 5M: 72.7 against 68.5, at 60M: 84.2 against 83.5",
        data="Universal Dependencies English EWT, a teacher of 4 layers, 64 wide; at most half its "
        "latency",
        file="nasbert",
        shape=[{"seed": int, "models": Each({"test": float, "params": float})}],
        tell=blocks,
        script="nasbert.py",
        full="--data FOLDER --seeds 3",
        short="--data {data} --seeds 1 --preset smoke --runs {work}/nasbert",
        minutes=0.5,
        rooms=("distil", "recipes/nasbert.py", "recipes/shrinking.py", "recipes/taught.py"),
    ),
    Row(
        name="compress",
        group=OWN,
        claim="students chosen by the programme are better than simple ones as fast",
        published="wanted: at most one point below the teacher at twice its speed, and ahead of "
        "layers dropped, narrower layers and random blocks",
        data="MiniLM (22M) tuned on banking77; students learn for 280 steps",
        file="compress",
        shape=[{"case": str, "seed": int, "way": str}],
        tell=compressed,
        script="compress.py",
        full="--data FOLDER --minilm FOLDER --work FOLDER --steps 280 --block-steps 40 --rounds 0",
        short="--data {data} --minilm {minilm} --work {work}/compress --only banking77 --seeds 1 "
        "--speedups 2 --steps 60 --block-steps 20 --tuning-steps 200 --rounds 0 "
        "--ways found layers random",
        minutes=8,
        rooms=("distil", "recipes/compress.py", "recipes/students.py", "train"),
    ),
)
