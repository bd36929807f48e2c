"""What do hostile files do to the readers?

    python benchmarks/fuzz.py [--texts 100000] [--folders 10000] [--only notation json ...]

Notations, JSON documents of architectures, spaces and targets, data files of every format, and
whole run folders (the record, its meta data and trials, phases, outcome, trace, checkpoints,
models) are damaged at random and read: as a user's commands would, resuming included. Allowed is a
result or one ``FormwrightError`` with a message of a few lines. Counted as faults: any other
exception, more than a second of a processor for one reading, more than 1 GiB of memory, an end of
the process. Results go to benchmarks/results/fuzz.json; examples of each fault stand beside the
counts. What is on record there is not done again, so the command goes on where it was stopped;
--anew begins from nothing.
"""

import contextlib
import gzip
import io
import json
import lzma
import multiprocessing
import os
import resource
import shutil
import signal
import sqlite3
import tempfile
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from multiprocessing.connection import Connection
from pathlib import Path
from random import Random
from typing import Any
from unittest.mock import patch

import pyarrow
from harness import Parts, arguments
from pyarrow import parquet

from formwright.arch import (
    Architecture,
    Attention,
    Decoder,
    FeedForward,
    Residual,
    Stack,
    arch_id,
    from_json,
    notation,
    parse,
    to_json,
)
from formwright.arch.counting import count
from formwright.cost.target import Target, load_target
from formwright.errors import FormwrightError
from formwright.execute import Serial
from formwright.space import OneOf, Span, TreeSpace
from formwright.space.files import read_space
from formwright.space.registry import named_space, space_data, space_names
from formwright.study import Job, Study, run
from formwright.study.outcome import Outcome, read_outcome, write_outcome
from formwright.tasks import load_task
from formwright.testing.mutants import mutated_bytes, mutated_json, mutated_text
from formwright.trace import Trace
from formwright.trial import Objective
from formwright.zoo import entries

RESULTS = Parts("fuzz")
LONGEST = 1.0  # seconds of a processor
MEMORY = 1 << 30
PART = 400  # cases in one process
WORDS = 2500  # letters of a message
PATIENCE = 900.0  # seconds of the clock without a sign of life, on a busy machine
Report = dict[str, Any]


class Hang(BaseException):
    """A reading took too long."""


def attempted(read: Callable[[], Any]) -> tuple[str, str]:
    """How one reading went: ``read``, ``refused`` or a fault, and what to look at."""
    began = time.process_time()
    signal.setitimer(signal.ITIMER_PROF, 3 * LONGEST)
    try:
        read()
        went, what = "read", ""
    except FormwrightError as error:
        went, what = "refused", str(error)
        if len(what) > WORDS or not what.strip():
            went = "unclear message"
    except Hang:
        went, what = "hang", "".join(traceback.format_exc()[-1500:])
    except MemoryError:
        went, what = "memory", traceback.format_exc()[-800:]
    except Exception:
        went, what = "exception", traceback.format_exc()[-1500:]
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
    if went in ("read", "refused") and time.process_time() - began > LONGEST:
        went, what = "hang", f"{time.process_time() - began:.1f} s: {what[:200]}"
    return went, what


def _ring(signum: int, frame: Any) -> None:
    raise Hang


# --- texts ------------------------------------------------------------------------------


def seeds() -> list[Architecture]:
    """Every published architecture, and some of our own."""
    return [entry.build() for entry in entries()]


def used(arch: Architecture) -> None:
    """What commands do with an architecture that was read."""
    arch_id(arch)
    count(arch)
    assert arch_id(parse(notation(arch))) == arch_id(arch)


def notations(rng: Random, folder: Path) -> Iterator[Callable[[], Any]]:
    """Damaged notations."""
    texts = [notation(arch) for arch in seeds()]
    texts += ["(sfff)x6(f)x8", "(sf)x4 in gpt2(256)", "sf in bert(64) for frame(8, 8, lm)"]
    texts += ["(sf)x2 | (smf)x2 in translator(64)", "s where s=attention(2) in decoder(64)"]
    texts = [text for text in texts if len(text) < 4000]
    while True:
        text = mutated_text(rng.choice(texts), texts, rng)
        yield lambda text=text: used(parse(text))


def documents(rng: Random, folder: Path) -> Iterator[Callable[[], Any]]:
    """Damaged JSON of architectures."""
    texts = [to_json(arch) for arch in seeds()]
    texts = [text for text in texts if len(text) < 20_000]
    while True:
        text = rng.choice(texts)
        if rng.random() < 0.5:
            text = mutated_text(text, texts, rng)
        else:
            text = mutated_json(json.loads(text), rng)
        yield lambda text=text: used(from_json(text))


def spaces(rng: Random, folder: Path) -> Iterator[Callable[[], Any]]:
    """Damaged files of spaces."""
    made = [space_data(named_space(name)) for name in space_names()]
    made = [data for data in made if len(json.dumps(data)) < 50_000]
    path = folder / "space.json"
    while True:
        text = mutated_json(rng.choice(made), rng)

        def read(text: str = text, seed: int = rng.randrange(100)) -> None:
            path.write_text(text, encoding="utf-8", errors="replace")
            space = read_space(path)
            space.resolve(space.draw(Random(seed)))  # limits that nothing keeps are searched for

        yield read


def targets(rng: Random, folder: Path) -> Iterator[Callable[[], Any]]:
    """Damaged files of targets."""
    document = {"formwright_target": 1, "target": vars(Target())}
    path = folder / "target.json"
    while True:
        text = mutated_json(document, rng)

        def read(text: str = text) -> None:
            path.write_text(text, encoding="utf-8", errors="replace")
            str(load_target(path).text)

        yield read


# --- data -------------------------------------------------------------------------------

_ROWS = [
    (f"The {i}th film, “{'very ' * (i % 4)}good”", "yes" if i % 3 else "no") for i in range(60)
]


def data_files() -> dict[str, tuple[bytes, str]]:
    """Small files of every format: name to content and the task that reads it."""
    csv = "text,label\n" + "".join(f'"{text}",{label}\n' for text, label in _ROWS)
    lines = "".join(json.dumps({"text": t, "label": y}) + "\n" for t, y in _ROWS)
    pairs = "".join(json.dumps({"source": t, "target": t[::-1]}) + "\n" for t, _ in _ROWS)
    asked = [
        {"context": t, "question": "which", "answers": {"text": [t[:3]], "answer_start": [0]}}
        for t, _ in _ROWS
    ]
    tags = ("DET", "NOUN", "VERB")
    words = [f"{n}\tfilm{n}\tfilm\t{tag}\t_\t_\t0\troot\t_\t_" for n, tag in enumerate(tags, 1)]
    table = io.BytesIO()
    columns = {"text": [t for t, _ in _ROWS], "label": [y for _, y in _ROWS]}
    parquet.write_table(pyarrow.table(columns), table)
    texts = {
        "a.csv": (csv, "classify"),
        "b.csv": (
            "text_a,text_b,score\n" + "".join(f'"{t}","{t}",0.5\n' for t, _ in _ROWS),
            "match",
        ),
        "a.tsv": (csv.replace('",', "\t").replace('"', ""), "classify"),
        "a.jsonl": (lines, "classify"),
        "b.jsonl": (pairs, "translate"),
        "c.jsonl": ("".join(json.dumps(row) + "\n" for row in asked), "span"),
        "a.conllu": (("# text = film\n" + "\n".join(words) + "\n\n") * 40, "tag"),
        "a.txt": ("\n".join(text for text, _ in _ROWS) * 20, "lm"),
        "b.txt": ("\n".join(text for text, _ in _ROWS) * 20, "mlm"),
    }
    found = {name: (text.encode(), task) for name, (text, task) in texts.items()}
    packed = {
        "a.csv.gz": gzip.compress(found["a.csv"][0]),
        "a.txt.xz": lzma.compress(b"abc " * 900),
    }
    whole = {"a.parquet": table.getvalue(), **packed}
    return found | {
        name: (data, "lm" if ".txt" in name else "classify") for name, data in whole.items()
    }


def data(rng: Random, folder: Path) -> Iterator[Callable[[], Any]]:
    """Damaged data files, each read as a task: its rows, and a batch of them."""
    own = {"FORMWRIGHT_CACHE": str(folder / "cache")}
    files = data_files()
    others = [content.decode(errors="replace") for content, _ in files.values()]
    number = 0
    while True:
        name = rng.choice(sorted(files))
        content, _ = files[name]
        if rng.random() < 0.5 and not name.endswith(("gz", "xz", "parquet")):
            text = mutated_text(content.decode(), others, rng)
            content = text.encode(errors="surrogatepass")
        else:
            content = mutated_bytes(content, rng)
        number += 1
        place = folder / str(number % 50)

        def read(place: Path = place, name: str = name, content: bytes = content) -> None:
            shutil.rmtree(place, ignore_errors=True)
            place.mkdir()
            (place / name).write_bytes(content)
            with patch.dict(os.environ, own):
                task = load_task(f"{files[name][1]}:{place / name}")
                task.describe()
                task.sampler(batch_tokens=1024, seed=0).batch(0)
                next(iter(task.batches("valid", batch_tokens=1024)))

        yield read


# --- run folders ------------------------------------------------------------------------


def values_of(job: Job) -> Mapping[str, float]:
    """Two numbers that follow from the decisions, whatever those are."""
    numbers = [v for v in job.trial.decisions.values() if isinstance(v, int | float)]
    total = float(sum(numbers) % 1000) + 1
    return {"loss": 900 / total, "speed": total}


def small_space() -> TreeSpace:
    """Two layers, three decisions."""
    inner: Any = Span("inner", 16, 64, 16)
    heads: Any = OneOf("heads", (1, 2, 4))
    stack = (Residual(Attention(heads=heads)), Residual(FeedForward(inner)))
    return TreeSpace(Architecture(Stack(stack), Decoder(16)), name="small")


def make_folder(folder: Path) -> None:
    """A run folder with everything that a search leaves."""
    from formwright.model import build, save_model
    from formwright.recipes.session import described
    from formwright.train.checkpoint import Checkpoint, write_checkpoint

    study = Study.create(
        folder,
        space=small_space(),
        objectives=(Objective("loss"), Objective("speed", "max")),
        strategy="evolution",
        seed=1,
        recipe="usual-search",
        task="stdlib",
        target=vars(Target()),
        command="formwright search",
        hyperparameters={},
        changed=[],
        free={},
    )
    run(study, Serial(values_of), trials=12)
    study.close()
    arch = parse("sf in gpt2(16) for frame(32, 8, lm)")
    baseline = described("GPT-2", arch, {"0": {"loss": 1.0}})
    write_outcome(folder, Outcome(baseline, "It is good.", 3, {"speedup": 2.0}))
    (folder / "clock.json").write_text("12.5")
    (folder / "phases").mkdir()
    for name in ("plans", "rivals", "samples", "finals-0"):
        document = [{"seconds": 5, "stages": [1, 3], "given": "a", "said": "b", "trials": [1]}]
        (folder / "phases" / f"{name}.json").write_text(json.dumps(document))
    trace = Trace(folder / "supernet")
    for step in range(3):
        trace.add_gates(step, {"heads": [0.2, 0.3, 0.5]})
    model = build(arch)
    save_model(model, folder / "best", card={"metric": "loss", "scores": {"loss": 1.0}})
    run_folder = folder / "trials" / "000001" / "run"
    for step in (5, 10):
        tensors = {"model": dict(model.state_dict())}
        write_checkpoint(run_folder, Checkpoint(step, {"loss": 1.0}, tensors))
    (run_folder / "run.json").write_text(json.dumps({"config": {}, "task": "stdlib"}))


def damage(folder: Path, rng: Random) -> None:
    """Change one thing of a run folder: a bad disk's doing, or a stranger's."""
    if rng.random() < 0.5:  # a stranger makes hashes that fit
        for seal in folder.rglob(".sha256.json"):
            seal.unlink()
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    kind = rng.randrange(4)
    if kind == 0:
        _damage_rows(folder / "study.db", rng)
        return
    path = folder / "study.db" if kind == 1 else rng.choice(files)
    if kind == 3 and path.suffix == ".json":
        with contextlib.suppress(ValueError):
            path.write_text(mutated_json(json.loads(path.read_text()), rng), errors="replace")
            return
    path.write_bytes(mutated_bytes(path.read_bytes(), rng))


def _damage_rows(path: Path, rng: Random) -> None:
    """Hostile values in the record itself; its triggers do not stop who deletes them."""
    connection = sqlite3.connect(path)
    triggers = connection.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'")
    for (name,) in triggers.fetchall():
        connection.execute(f"DROP TRIGGER {name}")
    connection.execute("DELETE FROM events")
    if rng.random() < 0.5:
        rows = connection.execute("SELECT key, value FROM meta").fetchall()
        key, value = rng.choice(rows)
        told = mutated_json({"it": json.loads(value)}, rng)
        with contextlib.suppress(ValueError, KeyError, TypeError, RecursionError):
            told = json.dumps(json.loads(told)["it"])
        connection.execute("UPDATE meta SET value = ? WHERE key = ?", (told, key))
    else:
        column = rng.choice(
            ("decisions", "results", "parents", "details", "arch", "notation", "rung", "steps",
             "continues", "origin", "note", "original", "reason", "seconds", "clock", "losses")
        )  # fmt: skip
        hostile: list[Any] = ["", "[]", "{}", "null", "x", -1, 10**6, 1e300, "[" * 5000, b"\xff\0"]
        hostile += ['{"a":NaN}', '{"loss":1e999,"speed":"x"}', '[0,99,-1,"a"]', "9" * 5000, "\x1b["]
        with contextlib.suppress(sqlite3.Error):
            connection.execute(
                f"UPDATE trials SET {column} = ? WHERE number = ?",  # our own words
                (rng.choice(hostile), rng.randrange(12)),
            )
    connection.commit()
    connection.close()


def readings(folder: Path, thorough: bool) -> list[Callable[[], Any]]:
    """What commands read of a run folder."""
    from formwright.cli.search import _print_samples
    from formwright.cli.show import print_study, study_data
    from formwright.model import load_model
    from formwright.recipes.reopen import recipe_of, target_of
    from formwright.report import write_report
    from formwright.train.checkpoint import read_latest
    from formwright.train.run import read_run

    def shown() -> None:
        with contextlib.closing(Study.open(folder)) as study:
            with contextlib.redirect_stdout(io.StringIO()):
                json.dumps(study_data(study))
                print_study(study)
                _print_samples(study)
            study.best(), study.events, study.space
            for trial in study.trials[:3]:
                study.member(trial), study.notation(trial.number)

    def known() -> None:
        with contextlib.closing(Study.open(folder)) as study:
            target_of(study), recipe_of(study)

    def resumed() -> None:
        with contextlib.closing(Study.open(folder)) as study:
            run(study, Serial(values_of), trials=14)

    found = [
        shown,
        known,
        lambda: read_outcome(folder),
        lambda: list(Trace(folder / "supernet").lines()),
        lambda: load_model(folder / "best"),
        lambda: read_latest(folder / "trials" / "000001" / "run"),
        lambda: read_run(folder / "trials" / "000001" / "run"),
        resumed,
    ]
    return [*found, lambda: write_report(folder)] if thorough else found


def folders(rng: Random, folder: Path) -> Iterator[Callable[[], Any]]:
    """Damaged run folders, each read in every way; the first fault is the folder's."""
    whole, place = folder / "whole", folder / "damaged"
    make_folder(whole)
    number = 0
    while True:
        shutil.rmtree(place, ignore_errors=True)
        shutil.copytree(whole, place)
        damage(place, rng)
        number += 1
        yield from readings(place, thorough=number % 25 == 0)


KINDS = {
    "notation": notations,
    "json": documents,
    "space": spaces,
    "target": targets,
    "data": data,
    "folder": folders,
}


# --- counting ---------------------------------------------------------------------------


def fuzz(kind: str, cases: int, seed: int, link: Connection | None = None) -> Report:
    """Read so many damaged things of a kind in this process."""
    signal.signal(signal.SIGPROF, _ring)
    warnings.simplefilter("ignore")  # sections of a report that say they cannot be drawn
    rng, counts, examples = Random(f"{kind}/{seed}"), Counter[str](), {}
    slowest, begun = 0.0, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    with tempfile.TemporaryDirectory() as place:
        readers = KINDS[kind](rng, Path(place))
        for number in range(cases):
            read = next(readers)
            began = time.process_time()
            went, what = attempted(read)
            slowest = max(slowest, time.process_time() - began)
            counts[went] += 1
            if went not in ("read", "refused"):
                examples.setdefault(went, [])
                last = what.strip()[-160:].splitlines()[-1:]
                if len(examples[went]) < 12 and last not in [e[0] for e in examples[went]]:
                    examples[went].append([last, what])
            if link is not None and number % 20 == 0:
                link.send(number)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    if peak > max(MEMORY, begun + MEMORY // 4):  # a process of tests may have had more before
        counts["memory"] += 1
    return {
        "cases": cases,
        "counts": dict(counts),
        "slowest_seconds": round(slowest, 3),
        "peak_bytes": peak,
        "faults": {name: [what for _, what in rows] for name, rows in examples.items()},
    }


def warm() -> None:
    """Import once what every process needs."""
    with tempfile.TemporaryDirectory() as place:
        next(folders(Random(0), Path(place)))


def _child(kind: str, cases: int, seed: int, link: Connection) -> None:
    soft = resource.getrlimit(resource.RLIMIT_AS)[1]
    resource.setrlimit(resource.RLIMIT_AS, (8 << 30, soft))  # what is mapped; torch maps much
    link.send(fuzz(kind, cases, seed, link))


def watched(kind: str, cases: int, seed: int) -> Report:
    """The same in a process of its own, whose end is no surprise."""
    here, there = multiprocessing.Pipe()
    process = multiprocessing.get_context("fork").Process(
        target=_child, args=(kind, cases, seed, there)
    )
    process.start()
    there.close()
    last = -1
    try:
        while here.poll(PATIENCE):
            said = here.recv()
            if isinstance(said, dict):
                process.join()
                return said
            last = said
    except EOFError:
        pass
    process.kill()
    process.join()
    ended = f"after case {last} of seed {seed}, code {process.exitcode}"
    return {"cases": last, "counts": {"crash": 1}, "faults": {"crash": [ended]}}


def merged(known: Report, more: Report) -> Report:
    """Two reports of a kind as one."""
    counts = Counter(known.get("counts", {})) + Counter(more["counts"])
    faults = {name: list(rows) for name, rows in known.get("faults", {}).items()}
    for name, rows in more["faults"].items():
        faults.setdefault(name, []).extend(rows)
    return {
        "cases": known.get("cases", 0) + more["cases"],
        "counts": dict(counts),
        "slowest_seconds": max(known.get("slowest_seconds", 0), more.get("slowest_seconds", 0)),
        "peak_bytes": max(known.get("peak_bytes", 0), more.get("peak_bytes", 0)),
        "faults": faults,
    }


def main() -> None:
    """Fuzz every kind, a part at a time, and keep the counts."""
    parser = arguments(__doc__, only=tuple(KINDS))
    parser.add_argument("--texts", type=int, default=100_000)
    parser.add_argument("--folders", type=int, default=10_000)
    parser.add_argument("--anew", action="store_true")
    args = parser.parse_args()
    shares = {"notation": 0.45, "json": 0.45, "space": 0.05, "target": 0.05, "data": 0.1}
    warm()
    if args.anew:
        RESULTS.replace({})
    for kind in args.only or KINDS:
        wanted = int(args.texts * shares[kind]) if kind in shares else 8 * args.folders
        known: Report = RESULTS.read().get(kind, {})
        while (done := known.get("cases", 0)) < wanted:
            found = watched(kind, min(PART, wanted - done), seed=done)
            known = merged(known, found)
            print(kind, {k: v for k, v in known.items() if k != "faults"}, flush=True)
            for name, rows in found["faults"].items():
                for row in rows:
                    print(f"--- {name}\n{row[-700:]}", flush=True)
            RESULTS.keep(kind, known, say=False)
            if "crash" in found["counts"]:
                raise SystemExit("A reader ended its process; see above.")


if __name__ == "__main__":
    main()
