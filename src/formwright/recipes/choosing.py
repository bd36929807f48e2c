"""What the time of a compression goes into besides blocks: other methods, and teaching on.

``auto`` chooses by figures. Every method says how long it would take, by what a step of the teacher
took. Those that fit into the budget find their students, whose answers before any teaching are
compared with the teacher's on the same texts as those of the blocks. Who is closer than the blocks
is taught beside them; the rest is not worth the time.
"""

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from formwright.arch import notation
from formwright.distil.blocks import Blocks
from formwright.distil.limits import Limit
from formwright.distil.methods import AUTO, ESTIMATES, METHODS, Found, known_method
from formwright.errors import InputError
from formwright.model import load_model, with_frame
from formwright.recipes.session import Session
from formwright.recipes.summary import ON, best_rows
from formwright.trial import RIVAL, Proposal, Trial

if TYPE_CHECKING:
    from formwright.recipes.compress import Compress

WHY = "auto"  # what is kept of the choice
_OTHERS = 0.5  # of the time that is left besides teaching may go into other methods
_LEAST = 0.25  # steps of teaching on, as a share of those before, that are worth their while
_RESERVE = 0.05  # of the budget, for the last measurements


# --- other methods ------------------------------------------------------------------------


def of_methods(session: Session, recipe: "Compress", blocks: Blocks) -> list[Proposal]:
    """Students that another method found: the one that was asked for, or what auto took."""
    if recipe.method == AUTO:
        asked = len(recipe.asked(session))  # later limits are asked of the same folder
        known = session.kept(f"{WHY}-{asked}", partial(_tried, session, recipe, blocks))
        return [_proposal(session, **row) for row in known["students"]]
    method = known_method(recipe.method)
    if method is None:
        return []
    found = method(recipe.asked_of_method(session, recipe.method))
    return [_proposal(session, **_row(session, recipe.method, each)) for each in found]


def _row(session: Session, name: str, found: Found) -> dict[str, str]:
    place = found.model.resolve()
    root = session.folder.resolve()
    model = str(place.relative_to(root)) if place.is_relative_to(root) else str(place)
    return {"method": name, "limit": found.limit.text, "model": model, "note": found.note}


def _proposal(session: Session, method: str, limit: str, model: str, note: str) -> Proposal:
    folder = session.folder / model  # which a path from the root replaces
    about = {"limit": limit, "role": method, "start": str(folder)}
    rival = {"rival": notation(load_model(folder).arch)}
    return Proposal(decisions=rival, origin=RIVAL, note=f"{method}: {note}", details=about)


def _tried(session: Session, recipe: "Compress", blocks: Blocks) -> dict[str, Any]:
    """Who had time, what came of it, and why, in words."""
    room, cannot = _room(session, recipe), list[str]()
    fits, late = list[tuple[float, str]](), list[tuple[float, str]]()
    for name in METHODS:
        if name not in ESTIMATES:
            continue
        try:
            needs = ESTIMATES[name](recipe.asked_of_method(session, name))
        except InputError as error:
            cannot.append(f"{name} cannot: {error}")
            continue
        (fits if needs <= room else late).append((needs, name))
    why, students, left = [], [], room
    for needs, name in sorted(fits):
        if needs > left:
            late.append((needs, name))
            continue
        left -= needs
        rows, words = _compared(session, recipe, blocks, name)
        students += rows
        why += words
    if late:
        said = ", ".join(f"{name} {_minutes(needs)}" for needs, name in sorted(late))
        why.append(f"too long for the {_minutes(room)} that could be spared: {said}")
    why += cannot
    first = "auto teaches blocks alone" if not students else (
        f"auto teaches blocks and {', '.join(sorted({row['method'] for row in students}))}"
    )  # fmt: skip
    sentence = f"{first}: {'; '.join(why) or 'no other method is known'}".rstrip(".") + "."
    session.say(sentence)
    return {"students": students, "why": sentence, "room": room}


def _room(session: Session, recipe: "Compress") -> float:
    """Seconds that other methods may take; teaching has its own."""
    if recipe.seconds is None:
        return float("inf")
    plan = session.recall("plan")
    teaching = plan["steps"] * plan["step_seconds"] * plan["students"] * len(recipe.asked(session))
    return max(0.0, _OTHERS * (recipe.seconds - session.spent() - teaching))


def _compared(
    session: Session, recipe: "Compress", blocks: Blocks, name: str
) -> tuple[list[dict[str, str]], list[str]]:
    """What a method found that is closer to the teacher than blocks are, and what is to say."""
    try:
        method = known_method(name)
        assert method is not None
        found = method(recipe.asked_of_method(session, name))
    except InputError as error:
        return [], [f"{name} found nothing ({str(error).rstrip('.')})"]
    rows, words = [], []
    for each in found:
        model = with_frame(load_model(each.model), blocks.teacher.model.frame)
        theirs = blocks.judge.apart(model.to(blocks.teacher.device))
        ours = session.recall(f"found-{each.limit.text}")["rounds"][-1]["found"]
        if theirs < ours:
            rows.append(_row(session, name, each))
        words.append(
            f"{each.limit.words}, the answers of {name} are {theirs:.3g} from the teacher's before "
            f"teaching, those of blocks {ours:.3g}"
        )
    return rows, words


def _minutes(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 60 else f"{seconds / 60:.0f} min"


# --- what is tried ------------------------------------------------------------------------


def to_try(session: Session, wanted: Sequence[Proposal]) -> list[Proposal]:
    """All candidates in order: what is on record, then what is wanted and is not."""
    trials = session.study.trials
    known = {(trial.details.get("limit"), trial.details.get("role")) for trial in trials}
    return [
        *(Proposal(decisions=trial.decisions) for trial in trials),
        *(p for p in wanted if (p.details["limit"], p.details["role"]) not in known),
    ]


def taught_on(session: Session, recipe: "Compress", text: str, share: int) -> dict[str, Any]:
    """Which trial of a limit is taught on, and for how many steps: what the budget leaves.

    Where steps were asked for, all students have those and no more.

    Args:
        session: At work.
        recipe: Of the compression.
        text: The limit.
        share: Limits that the time that is left is for.
    """
    nothing = {"trial": None, "steps": 0}
    plan, best = session.recall("plan"), best_rows(session, recipe)[text]
    if recipe.steps or recipe.seconds is None or best is None or best["trial"] is None:
        return nothing
    trial = session.study.trials[best["trial"]]
    each = trial.values.get("step_seconds", plan["step_seconds"])
    left = ((1 - _RESERVE) * recipe.seconds - session.spent()) / share
    steps = min(plan["longest"], int(left / max(each, 1e-9)))
    if steps < max(1, _LEAST * plan["steps"]):
        return nothing
    session.say(
        f"teaching the best student that is {Limit.read(text).words} on for {steps:,} steps, in "
        "the time that is left"
    )
    return {"trial": trial.number, "steps": steps, "limit": text}


def continued(trial: Trial, limit: str, steps: int) -> Proposal:
    """A student that is taught on from where it ended."""
    return Proposal(
        decisions=trial.decisions,
        origin=trial.origin,
        rung=trial.rung + 1,
        steps=steps,
        continues=trial.number,
        note=f"{trial.note}{ON}" if trial.note else "",
        details={"limit": limit, "role": f"{trial.details['role']}{ON}"},
    )
