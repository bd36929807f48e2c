"""Rows of what a search survives: faults, hostile input, many workers, lost nodes."""

from collections.abc import Mapping
from typing import Any

from claims.program import RECORD
from claims.row import Row, Told
from claims.shape import Each

_READINGS = 8  # of each mutated run folder, by benchmarks/fuzz.py


def faults(part: Mapping[str, Any]) -> Told:
    """Searches that were disturbed end as those that nobody disturbed."""
    kinds = part["kinds"].values()
    survived = sum(kind["survived"] for kind in kinds)
    return Told(
        "yes" if survived == part["faults"] >= 200 else "no",
        f"{survived} of {part['faults']} faults of {len(part['kinds'])} kinds survived: nothing "
        "lost, doubled or changed, and every search could be resumed",
        1,
    )


def fuzzed(part: Mapping[str, Any]) -> Told:
    """Mutated input is read or refused."""
    texts = sum(kind["cases"] for name, kind in part.items() if name != "folder")
    wrong = sum(len(rows) for kind in part.values() for rows in kind["faults"].values())
    slowest = max(kind["slowest_seconds"] for kind in part.values())
    largest = max(kind["peak_bytes"] for kind in part.values())
    folders = part["folder"]["cases"] // _READINGS
    whole = texts >= 100_000 and folders >= 10_000
    fine = not wrong and slowest <= 1 and largest <= 1 << 30
    return Told(
        "no" if not fine else "yes" if whole else "partly",
        f"{texts:,} mutated texts and data files, and {folders:,} mutated run folders, each read "
        f"in {_READINGS} ways: {wrong} crashes, the slowest took {slowest:.2f} s, at most "
        f"{largest / 1e6:.0f} MB",
        1,
    )


def controller(part: Mapping[str, Any]) -> Told:
    """The loop and the record with simulated workers."""
    return Told(
        "yes" if part["results_per_second"] >= 1000 else "partly",
        f"{part['trials']:,} trials of {part['workers']:,} simulated workers: "
        f"{part['results_per_second']:,} results a second by the clock, "
        f"{part['results_per_processor_second']:,} a second of a processor; "
        f"{part['memory_mb'] / part['trials'] * 1e3:.1f} KB a trial, {part['memory_mb']:,} MB in "
        "all",
        1,
    )


def live(part: Mapping[str, Any]) -> Told:
    """The live page while trials arrive."""
    opening, click = part["opening_seconds"], part["click_seconds"]
    fine = opening < 3 and click["p95"] < 0.2 and part["report_megabytes"] < 15
    return Told(
        "yes" if fine else "no",
        f"with {part['trials']:,} trials the report has {part['report_megabytes']:.1f} MB and "
        f"opens in {opening:.2f} s; while {part['rate']:g} trials a second arrive, a click is "
        f"answered in {1e3 * click['median']:.0f} ms (95 %: {1e3 * click['p95']:.0f} ms)",
        1,
    )


def cluster(part: Mapping[str, Any]) -> Told:
    """A node that dies changes nothing."""
    fine = part["exactly_once"] and part["same_as_serial"]
    return Told(
        "yes" if fine else "no",
        f"{part['recorded']} of {part['trials']} trials on record once, one of two nodes killed "
        f"after {part['killed_after']}, the same as one process: {part['same_as_serial']}",
        1,
    )


def cluster_speed(part: Mapping[str, Any]) -> Told:
    """What a second worker is worth."""
    return Told(
        "yes" if part["speed_up"] >= 1.8 else "no",
        f"{part['trials']} trials: {part['speed_up']:.2f} times as fast by the clock at a load of "
        f"{part['load_before']:.1f}; {part['speed_up_without_other_load']:.2f} by the trials that "
        "were under way",
        1,
    )


ROWS = (
    Row(
        name="faults",
        group=RECORD,
        claim="kills, full disks, damaged files and clocks that jump change no search",
        published="wanted: at least 200 faults, all survived",
        data="small searches with a made-up estimator",
        file="faults",
        shape={"faults": int, "kinds": Each({"injected": int, "survived": int})},
        tell=faults,
        script="faults.py",
        rooms=("study", "execute", "files.py"),
    ),
    Row(
        name="fuzz",
        group=RECORD,
        claim="input from strangers is read or refused in a sentence",
        published="wanted: 100,000 texts and 10,000 run folders; none over 1 s or 1 GiB",
        data="mutated notations, JSON, spaces, targets, data files and run folders",
        file="fuzz",
        shape=Each(
            {"cases": int, "slowest_seconds": float, "peak_bytes": int, "faults": Each([str])}
        ),
        tell=fuzzed,
        script="fuzz.py",
        rooms=("arch", "space", "study", "tasks"),
    ),
    Row(
        name="controller",
        group=RECORD,
        claim="the loop keeps up with 1,000 results a second, to a million trials",
        published="wanted: 1,000",
        data="simulated workers whose trials cost nothing",
        file="scale",
        part=("controller",),
        shape={
            "workers": int,
            "trials": int,
            "results_per_second": float,
            "results_per_processor_second": float,
            "memory_mb": float,
        },
        tell=controller,
        script="scale.py",
        full="--only controller",
        rooms=("study", "execute"),
    ),
    Row(
        name="live",
        group=RECORD,
        claim="a page of tens of thousands of trials opens at once and stays smooth",
        published="wanted: 20,000 trials in under 3 s and 15 MB, smooth at 50 more a second",
        data="trials of a made-up estimator, Chromium on the same two busy cores",
        file="live",
        shape={
            "trials": int,
            "rate": float,
            "report_megabytes": float,
            "opening_seconds": float,
            "click_seconds": {"median": float, "p95": float},
        },
        tell=live,
        script="live.py",
        short="--trials 20000 --seconds 20",
        minutes=1,
        rooms=("report", "serve"),
    ),
    Row(
        name="ray-node-lost",
        group=RECORD,
        claim="a search on a Ray cluster survives the loss of a node",
        published="wanted: every trial once, the same as one process",
        data="200 trials, a head and two nodes on one machine",
        file="ray",
        part=("loss",),
        shape={
            "trials": int,
            "recorded": int,
            "killed_after": int,
            "exactly_once": bool,
            "same_as_serial": bool,
        },
        tell=cluster,
        script="ray_cluster.py",
        full="--only loss",
        rooms=("execute", "study"),
    ),
    Row(
        name="ray-speed",
        group=RECORD,
        claim="two workers of a Ray cluster are 1.8 times as fast as one",
        published="wanted: 1.8",
        data="trials that keep a processor busy for 0.4 s",
        file="ray",
        part=("speed",),
        shape={
            "trials": int,
            "speed_up": float,
            "load_before": float,
            "speed_up_without_other_load": float,
        },
        tell=cluster_speed,
        script="ray_cluster.py",
        full="--only speed",
        rooms=("execute",),
    ),
)
