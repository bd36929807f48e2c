"""What a compression came to: every student beside its teacher, and the one to take.

Kept in ``phases/students.json`` for the command line and the report.
"""

import copy
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

from formwright.cost.meter import compare, compare_targets
from formwright.cost.runtime.eager import quantise_model
from formwright.distil.blocks import Blocks
from formwright.distil.limits import Limit
from formwright.distil.methods import METHODS
from formwright.distil.whole import same_answers
from formwright.errors import InputError, SpecError
from formwright.estimate.spread import interval, standard_error
from formwright.model import load_model
from formwright.recipes.samples import samples_of
from formwright.recipes.session import Session, described, model_of
from formwright.study.outcome import Outcome
from formwright.trial import Objective

if TYPE_CHECKING:
    from formwright.recipes.compress import Compress

STUDENTS = "students"
FOUND, ON = "found", ", longer"  # roles: what blocks found, and the end of those taught longer
_CHEAPER = 0.97  # times the cost of another that is cheaper for sure


def concluded(session: Session, recipe: "Compress", blocks: Blocks) -> Outcome:
    """The outcome in words; all figures behind it are kept."""
    values: dict[str, float] = session.recall("teacher")  # a rival may be the baseline by now
    baseline = described(*recipe.make_baseline(), {"0": values})
    quality = session.study.objectives[0]
    rows = [_row("teacher", "", values, quality, None)]
    rows += _int8(session, recipe, blocks, quality)
    rows += _students(session, recipe)
    limits = recipe.asked(session)
    best = best_rows(session, recipe)
    taken = _taken(recipe, rows[0], [row for row in best.values() if row is not None], quality)
    session.keep(STUDENTS, {
        "quality": asdict(quality),
        "rows": rows,
        "limits": [{"text": text, "words": Limit.read(text).words} for text in limits],
        "places": [
            {"name": p.name, "kind": p.kind, "alternatives": [a.name for a in p.alternatives]}
            for p in blocks.offered
        ],
        "scores": [list(row) for row in blocks.choices.scores],
        "errors": [blocks.library.errors(place) for place in blocks.offered],
        "found": {text: session.recall(f"found-{text}") for text in limits},
        "examples": _examples(session, blocks, taken),
    })  # fmt: skip
    notes = [_limit_note(text, rows, quality) for text in limits]
    if session.has(f"auto-{len(limits)}"):
        notes.append(session.recall(f"auto-{len(limits)}")["why"])
    if taken is None:
        headline = "No student learnt anything that could be measured; see the reasons below."
        return Outcome(baseline, headline=headline, notes=tuple(notes))
    facts = _paired(session, taken)
    return replace(
        Outcome(baseline),
        headline=_headline(recipe, rows[0], taken, facts, quality),
        chosen=taken["trial"],
        facts=facts,
        notes=tuple(note for note in notes if note),
    )


def _students(session: Session, recipe: "Compress") -> list[dict[str, Any]]:
    """All that was taught, limit by limit."""
    quality, rows = session.study.objectives[0], []
    done = [trial for trial in session.study.trials if trial.done]
    for text in recipe.asked(session):
        mine = [trial for trial in done if trial.details.get("limit") == text]
        for trial in mine:  # a copy of an earlier one has its files
            number = trial.number if trial.original is None else trial.original
            rows.append(_row(trial.details["role"], text, trial.values, quality, number))
    return rows


def best_rows(session: Session, recipe: "Compress") -> dict[str, dict[str, Any] | None]:
    """What to take under each limit, of what has been taught so far."""
    quality, rows = session.study.objectives[0], _students(session, recipe)
    return {text: _best(_within(session, text, rows), quality) for text in recipe.asked(session)}


def _row(
    role: str, limit: str, values: Mapping[str, float], quality: Objective, trial: int | None
) -> dict[str, Any]:
    name = quality.name
    latency = values.get("latency")
    return {
        "role": role,
        "limit": limit,
        "trial": trial,
        "quality": values[name],
        "low": values.get(f"{name}_low", values[name]),
        "high": values.get(f"{name}_high", values[name]),
        "loss": values.get("loss"),
        "latency": latency,
        "latency_low": values.get("latency_low", latency),
        "latency_high": values.get("latency_high", latency),
        "params": values.get("params"),
        "agreement": values.get("agreement"),
    }


def _within(session: Session, text: str, rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """What was found for a limit, and what else keeps it."""
    most = session.recall(f"found-{text}")["limits"]
    return [
        row
        for row in rows
        if row["limit"] == text
        and (
            row["role"].startswith(FOUND)
            or all(row[n] <= 1.02 * v for n, v in most.items() if n in row)
        )
    ]


def _best(rows: Sequence[dict[str, Any]], quality: Objective) -> dict[str, Any] | None:
    """What to take under one limit: what was found, unless a simple student makes it needless.

    That is one that is clearly better, or level with it and cheaper. What was taught on is taken if
    that did no harm.
    """
    alike = [row for row in rows if not row["role"].endswith(ON)]
    found = next((row for row in alike if row["role"] == FOUND), None)
    sign = quality.sign
    if found is None:
        taken = min(alike, key=lambda row: sign * row["quality"], default=None)
    else:
        clear = [
            r for r in alike if max(sign * r["low"], sign * r["high"]) < sign * found["quality"]
        ]
        level = [r for r in alike if _cheaper(r, found) and _level(r, found, sign)]
        taken = min(clear, key=lambda row: sign * row["quality"], default=None)
        taken = taken or min(level, key=_cost, default=found)
    if taken is None:
        return None
    further = [r for r in rows if r["role"] == f"{taken['role']}{ON}"]
    return min((taken, *further), key=lambda row: sign * row["quality"])


def _level(row: Mapping[str, Any], found: Mapping[str, Any], sign: float) -> bool:
    """Whether a student is no worse than another by more than half a standard error."""
    error = abs(found["high"] - found["low"]) / 2 / 1.96
    return bool(sign * (row["quality"] - found["quality"]) <= error / 2)


def _cost(row: Mapping[str, Any]) -> float:
    return float(row["latency"] or row["params"] or 0.0)


def _cheaper(row: Mapping[str, Any], found: Mapping[str, Any]) -> bool:
    return _cost(row) < _CHEAPER * _cost(found)


def _taken(
    recipe: "Compress", teacher: Mapping[str, Any], best: Sequence[dict[str, Any]], q: Objective
) -> dict[str, Any] | None:
    """The student to take: the fastest that loses no more than allowed, else the best one."""
    if not best:
        return None
    if recipe.max_drop is None:
        return best[0]
    kept = [row for row in best if _lost(teacher, row, q) <= recipe.max_drop]
    if kept:
        return min(kept, key=lambda row: row["latency"])
    return min(best, key=lambda row: q.sign * row["quality"])


def _lost(teacher: Mapping[str, Any], row: Mapping[str, Any], quality: Objective) -> float:
    """How much worse than the teacher, as a share of its quality."""
    theirs = teacher["quality"]
    return float(quality.sign * (row["quality"] - theirs) / max(abs(theirs), 1e-12))


def _paired(session: Session, taken: Mapping[str, Any]) -> dict[str, float]:
    """Student and teacher against each other once more."""
    arch = session.study.member(session.study.trials[taken["trial"]])
    session.say("measuring the student against its teacher once more")
    found = compare(arch, session.recipe.make_baseline()[1], session.target, seconds=4.0)
    return {
        "speedup": 1 / found.ratio,
        "speedup_low": 1 / found.high,
        "speedup_high": 1 / found.low,
    }


def _headline(
    recipe: "Compress",
    teacher: Mapping[str, Any],
    taken: Mapping[str, Any],
    facts: Mapping[str, float],
    quality: Objective,
) -> str:
    said = (
        f"The student is {facts['speedup']:.2f} times as fast as its teacher (95 %: "
        f"{facts['speedup_low']:.2f} to {facts['speedup_high']:.2f}), at {quality.name} "
        f"{taken['quality']:.4g} against {teacher['quality']:.4g}, with "
        f"{taken['params'] / 1e6:.2f}M of {teacher['params'] / 1e6:.2f}M parameters; it gives the "
        f"teacher's answer in {100 * taken['agreement']:.1f} % of the cases."
    )
    role = taken["role"].removesuffix(ON)
    if role in METHODS:
        said += f" {role} found it: no combination of blocks was better."
    elif role != FOUND:
        said += f" It is the simple one ({role}): no dearer combination of blocks was better."
    lost = _lost(teacher, taken, quality)
    if recipe.max_drop is not None and lost > recipe.max_drop:
        said += (
            f" It loses {100 * lost:.1f} %, more than the {100 * recipe.max_drop:g} % that were "
            "allowed: ask for a smaller speed-up, or give a larger --budget."
        )
    return said


def _limit_note(text: str, rows: Sequence[Mapping[str, Any]], quality: Objective) -> str:
    """What was found under a limit against the best simple student."""
    mine = [row for row in rows if row["limit"] == text and not row["role"].endswith(ON)]
    found = next((row for row in mine if row["role"] == FOUND), None)
    others = [row for row in mine if row["role"] != FOUND and row["role"] not in METHODS]
    if found is None or not others:
        return ""
    rival = min(others, key=lambda row: quality.sign * row["quality"])
    ahead = quality.sign * (rival["quality"] - found["quality"])
    how = "better than" if ahead > 0 else ("as good as" if ahead == 0 else "worse than")
    return (
        f"{Limit.read(text).words}: {quality.name} {found['quality']:.4g} is {how} the best of "
        f"{len(others)} simple students of equal cost, {rival['role']} with {rival['quality']:.4g}."
    )


def _int8(
    session: Session, recipe: "Compress", blocks: Blocks, quality: Objective
) -> list[dict[str, Any]]:
    """The teacher with matrices of int8, where this machine runs them."""

    def measured() -> dict[str, Any] | None:
        assert session.target is not None
        teacher, task = blocks.teacher, blocks.teacher.task
        arch, target = teacher.model.arch, session.target
        whole = session.recall("teacher")["latency"]
        if str(teacher.device) != "cpu":
            return None
        try:
            times = compare_targets(arch, target.replace(dtype="int8"), target)
        except (InputError, SpecError, RuntimeError):  # no such runtime, or no such engine
            return None
        model = copy.deepcopy(teacher.model)
        quantise_model(model)
        config = recipe.training
        scores = task.score(model, "valid", batch_tokens=config.batch_tokens)
        low, high = interval([scores[task.metric]], [standard_error(task, model, scores, config)])
        values = {
            **scores,
            f"{quality.name}_low": low,
            f"{quality.name}_high": high,
            "agreement": same_answers(model, teacher, batch_tokens=config.batch_tokens),
            "params": session.recall("teacher")["params"],
            "latency": whole * times.value,
            "latency_low": whole * times.low,
            "latency_high": whole * times.high,
        }
        return _row("teacher in int8", "", values, quality, None)

    found = session.kept("int8", measured)
    return [] if found is None else [found]


def _examples(
    session: Session, blocks: Blocks, taken: Mapping[str, Any] | None
) -> list[dict[str, str]]:
    """What teacher and student say to the same texts."""
    if taken is None or taken["trial"] is None:
        return []
    folder = model_of(session.study, taken["trial"])
    if folder is None:
        return []
    task = blocks.teacher.task
    ours, theirs = (
        samples_of(load_model(folder).eval(), task),
        samples_of(blocks.teacher.model, task),
    )
    return [
        {"given": a["given"], "teacher": b["said"], "student": a["said"]}
        for a, b in zip(ours, theirs, strict=True)
    ]
