"""Records of earlier formats brought up to date: a copy is kept, then one transaction.

Format 1 said in the prose of ``note`` how a trial came about; format 2 says it by ``origin``, has
steps and details, and names the kind of its space.
"""

import json
import re
import sqlite3
from pathlib import Path
from typing import Any

from formwright.locks import Lock
from formwright.study.database import connect, trouble
from formwright.study.folder import check_disk, record_path
from formwright.study.rows import dumped
from formwright.study.schema import FORMAT_VERSION, RULES
from formwright.trial import (
    CONTROL,
    CORNER,
    CROSSING,
    FOUND,
    LISTED,
    MUTATION,
    PREDICTED,
    PROMOTED,
    RANDOM,
    SEED,
    WAITING,
)

_ORIGINS = {
    "sample": RANDOM, "random": CONTROL, "corner": CORNER, "next": LISTED, "predicted": PREDICTED,
    "mutation": MUTATION, "mutant": MUTATION, "neighbour": MUTATION, "child": CROSSING,
    "promotion": PROMOTED, "confirmed": PROMOTED, "waiting for the first rung": WAITING,
    "tpe": PREDICTED, "gp": PREDICTED, "nsgaii": PREDICTED, "nsgaiii": PREDICTED,
}  # fmt: skip
# What the plan of a search and its training were where nothing else was said.
_PLAN: dict[str, Any] = {
    "space": "open", "width": 128, "baseline": "", "strategy": "", "options": {},
    "estimator": "train", "minimise": [], "maximise": [], "order": [], "cost": "latency",
    "max_latency": None, "max_params": None, "max_flops": None, "eta": 3, "rungs": 2, "control": 5,
}  # fmt: skip
_TRAINING: dict[str, Any] = {
    "steps": 60, "batch_tokens": 1024, "lr": 2e-3, "warmup": 20, "schedule": "constant",
    "score_batches": 32,
}  # fmt: skip
_TRAIN_DEFAULTS: dict[str, Any] = {
    "steps": 1000, "batch_tokens": 2048, "lr": 1e-3, "warmup": 100, "schedule": "cosine",
    "score_batches": None,
}  # fmt: skip
_COPY = re.compile(r" ?\(as trial \d+\)$")
_COLUMNS = (
    "steps INTEGER",
    "train_seconds REAL",
    "origin TEXT NOT NULL DEFAULT ''",
    "details TEXT NOT NULL DEFAULT '{}'",
)


def upgrade(folder: Path) -> None:
    """Bring the record of a study to the format of this program; ``study.format-1.db`` stays."""
    path = record_path(folder)
    check_disk(folder)
    lock = Lock(folder)
    try:
        connection = connect(path, readonly=False)
        try:
            _keep_copy(connection, path.with_name("study.format-1.db"))
            _upgrade(connection)
        finally:
            connection.close()
    except sqlite3.Error as error:
        raise trouble(path, error) from error
    finally:
        lock.close()


def _keep_copy(connection: sqlite3.Connection, path: Path) -> None:
    """The record as it is, whole, also what is still in its log."""
    temporary = path.with_name(f".{path.name}.writing")
    temporary.unlink(missing_ok=True)
    copy = sqlite3.connect(temporary)
    try:
        connection.backup(copy)
    finally:
        copy.close()
    temporary.replace(path)


def _upgrade(connection: sqlite3.Connection) -> None:
    """All of it or nothing: also tables and triggers are part of the transaction."""
    connection.create_function("said", 2, _said, deterministic=True)
    connection.execute("BEGIN IMMEDIATE")
    try:
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        if version == 1:  # or somebody else has done it meanwhile
            _change(connection)
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def _change(connection: sqlite3.Connection) -> None:
    names = connection.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall()
    for (name,) in names:
        connection.execute(f"DROP TRIGGER {name}")
    for column in _COLUMNS:
        connection.execute(f"ALTER TABLE trials ADD COLUMN {column}")
    connection.execute(
        "UPDATE trials SET origin = said(note, 'origin'), details = said(note, 'details'), "
        "note = said(note, 'note'), steps = CAST(json_extract(results, '$.steps') AS INTEGER)"
    )
    meta = dict(connection.execute("SELECT key, value FROM meta").fetchall())
    for key, value in _meta({key: json.loads(value) for key, value in meta.items()}).items():
        connection.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", (key, dumped(value)))
    for statement in RULES.split("\n\n"):
        connection.execute(statement)
    connection.execute(f"PRAGMA user_version = {FORMAT_VERSION}")


def _said(note: str, part: str) -> str:
    """Origin, note or details of a trial of format 1, which kept all of it in its note."""
    note = _COPY.sub("", note)
    if note in _ORIGINS:
        return {"origin": _ORIGINS[note], "note": "", "details": "{}"}[part]
    origin, words, details = SEED, note, "{}"
    if note.startswith("rung "):
        origin, words = PROMOTED, ""
    elif note.startswith("random, "):
        origin, words = CONTROL, note.removeprefix("random, ")
    elif note.startswith("found"):
        origin = FOUND
    elif set(methods := note.split(" and ")) <= {"do", "sdo"}:
        origin, details = FOUND, dumped({"methods": methods})
    elif not note:
        origin = ""
    return {"origin": origin, "note": words, "details": details}[part]


def _meta(meta: dict[str, Any]) -> dict[str, Any]:
    """What else is said differently now; a plan was what is now the recipe of the usual search."""
    found = {"format": FORMAT_VERSION, "space": {"kind": "tree", **meta["space"]}}
    if "numbers" in meta:
        found["hyperparameters"] = meta["numbers"]
    strategy, plan = meta["strategy"], meta.get("plan")
    if strategy["name"] == "confirmed":
        found["strategy"] = {**strategy, "name": "two_stage"}
    if not plan:
        return found
    training = {**_TRAINING, "steps": plan["steps"], **plan["settings"]}
    hyper = {k: v for k, v in plan.items() if k in _PLAN and v != _PLAN[k]}
    if training != _TRAINING:
        hyper["training"] = {k: v for k, v in training.items() if v != _TRAIN_DEFAULTS.get(k)}
    if "rungs" in strategy["options"] and plan["estimator"] == "train":
        steps = {"steps": training["steps"], "train_seconds": training.get("seconds")}
        strategy = {**strategy, "options": {**steps, **strategy["options"]}}
    free = {name: plan[name] for name in ("seconds", "trials", "workers")}
    recipe = {"recipe": "usual-search", "hyperparameters": hyper, "free": free}
    return {**found, **recipe, "strategy": strategy}
