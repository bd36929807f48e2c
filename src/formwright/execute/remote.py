"""What happens on a node of a cluster: a trial, or a stage of one, is evaluated and told of.

A job arrives as plain data and its answer leaves as plain data. Where the node sees the study's
folder, files are read and written there. Elsewhere the files of earlier trials come with the job,
and those that the trial leaves go back with its answer.
"""

import os
import shutil
import socket
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from formwright.errors import StorageError
from formwright.execute.quiet import alone, in_company, scratch
from formwright.space import Space
from formwright.study.folder import record_path
from formwright.study.job import Evaluate, Job, attempt, member_of
from formwright.study.store import boot_id
from formwright.trial import Objective, Trial

THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
Files = dict[str, bytes]  # by path below a trial's folder


@dataclass(frozen=True)
class Stages:
    """What is sent once for all trials, and shared by all workers of a node.

    Args:
        key: Of this session.
        folder: Of the study, on the machine that coordinates.
        place: Which disk of which machine that is.
        evaluators: One for each stage of a trial.
        space: What members are resolved from.
        objectives: What the last stage must give.
    """

    key: str
    folder: Path
    place: str
    evaluators: tuple[Any, ...]
    space: Space
    objectives: tuple[Objective, ...]


def place_of(folder: Path) -> str:
    """Which file the record of a study is, among those of all machines; empty where it is not."""
    try:
        found = record_path(folder).stat()
    except OSError:
        return ""
    return f"{boot_id()}/{found.st_dev}/{found.st_ino}"


def wire(job: Job, folder: Path, threads: int = 1) -> dict[str, Any]:
    """A job as plain data; folders are told from the study's on."""

    def within(path: Path) -> str:
        return path.relative_to(folder).as_posix()

    trial = {each.name: getattr(job.trial, each.name) for each in fields(job.trial)}
    return {
        "trial": {**trial, "decisions": dict(job.trial.decisions)},
        "folder": within(job.folder),
        "previous": None if job.previous is None else within(job.previous),
        "parents": [within(parent) for parent in job.parents],
        "seed": job.seed,
        "threads": threads,
    }


def unwire(data: Mapping[str, Any], space: Space, root: Path) -> Job:
    """The inverse of ``wire``, in another folder perhaps."""
    trial = Trial(**data["trial"])
    previous = data["previous"]
    return Job(
        trial,
        member_of(space, trial),
        root / data["folder"],
        None if previous is None else root / previous,
        data["seed"],
        tuple(root / parent for parent in data["parents"]),
    )


def needed(data: Mapping[str, Any]) -> list[str]:
    """The folders that a job reads, from the study's on; the first is its own."""
    before = {*data["parents"], *([data["previous"]] if data["previous"] else [])}
    return [data["folder"], *sorted(before)]


# --- on the node --------------------------------------------------------------------------------

_sent: dict[str, Stages] = {}  # read once per process, not once per trial


def evaluated(
    shared: list[Any],
    key: str,
    data: dict[str, Any],
    stage: int,
    found: dict[str, float],
    files: list[Any] | None,
) -> Iterator[dict[str, Any]]:
    """Evaluate one stage of a trial; says that it begins, then how it ended.

    Args:
        shared: Where the stages are found, in a list so that they are not fetched for each trial.
        key: Of the session.
        data: The job.
        stage: Which.
        found: What earlier stages have found.
        files: Those of the folders that the job reads, where they travel; None where not yet known.
    """
    stages = _stages(shared, key, data["threads"])
    here = place_of(stages.folder) == stages.place
    if not here and files is None:
        yield {"what": "elsewhere"}
        return
    root = stages.folder if here else _unpacked(key, data, files or [])
    job = unwire(data, stages.space, root)
    evaluate = stages.evaluators[stage]
    last = stage + 1 == len(stages.evaluators)
    with alone() if is_quiet(evaluate, job.trial) else in_company():
        yield {"what": "began", "worker": f"process {os.getpid()} on {socket.gethostname()}"}
        values: dict[str, float] = {}
        if found:
            evaluate = evaluate.given(found)
        if last:
            answer = attempt(evaluate, job, stages.objectives)
        else:
            answer = attempt(_noting(evaluate, values), job, ())
    sent: Files = {} if here else packed(job.folder)
    if not here:  # before the last word, after which nobody waits for this process
        shutil.rmtree(root, ignore_errors=True)
    yield {
        "what": "ended",
        "values": values if values and not answer.reason else dict(answer.values),
        "reason": answer.reason,
        "seconds": answer.seconds,
        "files": sent,
    }


def _noting(evaluate: Evaluate, values: dict[str, float]) -> Evaluate:
    """The same, with all that it finds kept, also what is no number: a later stage judges it."""

    def noted(job: Job, /) -> Mapping[str, float]:
        values.update(evaluate(job))
        return values

    return noted


def fits(shared: list[Any], key: str, stage: int) -> bool:
    """Whether what a stage measures can be measured on this node."""
    asked = getattr(_stages(shared, key, 1).evaluators[stage], "fits", None)
    return asked is None or bool(asked())


def is_quiet(evaluate: Any, trial: Trial) -> bool:
    """Whether an evaluator must have a machine for itself."""
    asked = getattr(evaluate, "quiet", None)
    return asked is not None and bool(asked(trial))


def _stages(shared: list[Any], key: str, threads: int) -> Stages:
    if key not in _sent:
        import ray  # noqa: PLC0415  # optional

        # before torch is loaded, which the evaluator does
        os.environ.update(dict.fromkeys(THREADS, str(threads)))
        _sent.clear()
        _sent[key] = ray.get(shared[0])
    return _sent[key]


def _unpacked(key: str, data: Mapping[str, Any], files: list[Any]) -> Path:
    """A folder of this node that holds what the job reads."""
    import ray  # noqa: PLC0415  # optional

    root = scratch() / key / str(data["trial"]["number"])
    shutil.rmtree(root / data["folder"], ignore_errors=True)  # of a try that was given up
    for name, content in zip(needed(data), files, strict=True):
        if sent := ray.get(content):
            unpack(root / name, sent)
    return root


# --- files that travel --------------------------------------------------------------------------


def packed(folder: Path) -> Files:
    """The files of a folder, links and the like left out."""
    found = (path for path in sorted(folder.rglob("*")) if path.is_file() and not path.is_symlink())
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in found}


def unpack(folder: Path, files: Files) -> None:
    """Write files below a folder in place of what is there, and never anywhere else."""
    for name in files:
        parts = Path(name).parts
        if not parts or Path(name).is_absolute() or ".." in parts or "\0" in name:
            raise StorageError(f"A worker sent a file named {name!r}, which lies outside {folder}.")
    temporary = folder.with_name(f".{folder.name}.arriving")
    shutil.rmtree(temporary, ignore_errors=True)
    temporary.mkdir(parents=True)
    for name, content in files.items():
        (temporary / name).parent.mkdir(parents=True, exist_ok=True)
        (temporary / name).write_bytes(content)
    shutil.rmtree(folder, ignore_errors=True)
    os.replace(temporary, folder)
