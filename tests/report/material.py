"""Studies to report on: small ones made by hand, and one full of hostile words."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.study import toy

from formwright.execute.serial import Serial
from formwright.report.material import Material
from formwright.study import Job, Progress, Study, front, run
from formwright.study.outcome import Baseline, Outcome, write_outcome
from formwright.trial import Objective, Trial

TWO = (Objective("loss"), Objective("speed", "max"))


def done(number: int, *values: float, **changes: Any) -> Trial:
    """A finished trial with values for loss, speed and size, as many as are given."""
    named = dict(zip(("loss", "speed", "size"), values, strict=False))
    fixed = {"decisions": {"place": number}, "state": "done", "values": named, "seconds": 1.0}
    return Trial(number, **(fixed | changes))


def failed(number: int, reason: str) -> Trial:
    return Trial(number, {"place": number}, state="failed", reason=reason, seconds=1.0)


def material(
    trials: Sequence[Trial], objectives: Sequence[Objective] = TWO, **changes: Any
) -> Material:
    states = [trial.state for trial in trials]
    counts = {s: states.count(s) for s in ("waiting", "running", "done", "failed")}
    fixed = {
        "name": "study",
        "meta": {
            "space": {},
            "strategy": {"name": "random", "options": {}},
            "seed": 0,
            "rules": {"window": 1, "control": 0, "limits": {}},
        },
        "objectives": tuple(objectives),
        "limits": {},
        "trials": trials,
        "front": front(trials, objectives),
        "outcome": Outcome(),
        "state": Progress(**counts, seconds=1.0, coordinator=""),
    }
    return Material(**(fixed | changes))


def noted(job: Job) -> dict[str, float]:
    """Of ten trials one fails."""
    if job.trial.number % 10 == 9:
        raise ValueError(f"{Path.home()}/data is not to be read by trial {job.trial.number}")
    return toy.values_of(job.trial)


def studied(folder: Path, trials: int = 60, **changes: Any) -> Study:
    """A study that was searched, with an outcome."""
    options = {"population": 10, "tournament": 4}
    study = toy.study(folder, control=5, **({"options": options} | changes))
    run(study, Serial(noted), trials=trials)
    if study.front:
        chosen = next((trial for trial in study.front if trial.parents), study.front[0])
        notation = study.notation(chosen.number)
        baseline = Baseline("by hand", notation, chosen.arch, {"loss": 2.0, "speed": 4.0})
        facts = {"speedup": 2.5, "speedup_low": 2.25, "speedup_high": 2.75}
        write_outcome(folder, Outcome(baseline, "Twice as fast.", chosen.number, facts))
    return study


_SHAPES = (
    "<script>alert({n})</script>",
    "<img src=x onerror=alert({n})>",
    "'\"><svg/onload=alert({n})>",
    "</script><script>alert({n})</script>",
    "</style><script>alert({n})</script>",
    "</title><script>alert({n})</script>",
    "</textarea><iframe src=javascript:alert({n})>",
    "<a href=javascript:alert({n})>x</a>",
    '" onmouseover="alert({n})" x="',
    "' autofocus onfocus='alert({n})",
    "<!--<script>alert({n})//-->",
    "<math><mtext><img src onerror=alert({n})>",
    "<link rel=stylesheet href=http://evil.example/{n}.css>",
    "<img src=http://evil.example/{n}.png>",
    "<meta http-equiv=refresh content='0;url=http://evil.example/{n}'>",
    "<base href=http://evil.example/{n}>",
    "<form action=http://evil.example/{n}><button>x",
    "{{{{constructor.constructor('alert({n})')()}}}}",
    "]]><script>alert({n})</script>",
    "&lt;script&gt;alert({n})&lt;/script&gt;",
    "\u2028alert({n})\u2029",
    "<scr\x00ipt>alert({n})</scr\x00ipt>",
    "<details open ontoggle=alert({n})>",
    "<style>@import 'http://evil.example/{n}';</style>",
    "${{alert({n})}}`",
)


def payloads() -> list[str]:
    """Two hundred strings that would do harm where text is taken for markup."""
    around = ("", "x", "\\", "<b>", "'", '"', "--!>", "javascript:")
    return [
        before + shape.format(n=8 * i + j)
        for i, shape in enumerate(_SHAPES)
        for j, before in enumerate(around)
    ]


def hostile() -> Material:
    """A study every word of which is a payload."""
    words = payloads()
    names = words[:3]
    objectives = tuple(Objective(name) for name in names)
    trials = [
        Trial(
            i,
            {words[(i + k) % 200]: words[(i + 2 * k) % 200] for k in (1, 2, 3)},
            arch=f"a{i}",
            state="failed" if i % 4 == 3 else "done",
            values={}
            if i % 4 == 3
            else {name: 1.0 + (i * (k + 3)) % 17 for k, name in enumerate(names)},
            reason=word if i % 4 == 3 else "",
            note=word,
            parents=(i - 4,) if i > 3 else (),
        )
        for i, word in enumerate(words)
    ]
    meta = {
        "space": {"name": words[5]},
        "strategy": {"name": words[6], "options": {words[7]: words[8]}},
        "seed": words[9],
        "rules": {"window": 1, "control": 0, "limits": {}},
        "task": words[10],
        "command": words[11],
        "created": words[12],
        "versions": {words[13]: words[14]},
    }
    values = {name: 3.0 for name in names}
    baseline = Baseline(words[15], words[16], words[17], values)
    outcome = Outcome(baseline, words[18], 0, {words[19]: 2.0})
    notations = dict(enumerate(words))
    return material(
        trials, objectives, name=words[20], meta=meta, outcome=outcome, notations=notations
    )
