"""Studies: durable records of searches, and the loop that drives one. No torch."""

from formwright.study.front import front
from formwright.study.job import Answer, Evaluate, Executor, Job
from formwright.study.loop import Ending, Event, run
from formwright.study.study import Progress, Rules, Study

__all__ = [
    "Answer",
    "Ending",
    "Evaluate",
    "Event",
    "Executor",
    "Job",
    "Progress",
    "Rules",
    "Study",
    "front",
    "run",
]
