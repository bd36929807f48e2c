"""Estimators: how good an architecture is, by training or without, and what it costs."""

from formwright.estimate.base import Check, Diverged, Estimator, Together, Work, estimators
from formwright.estimate.cost import Candidate, Counted, Measured
from formwright.estimate.final import Final
from formwright.estimate.inherited import (
    FromModel,
    FromParent,
    FromSupernet,
    FromTeacher,
    Inherited,
    Source,
)
from formwright.estimate.limits import OverLimit, Within
from formwright.estimate.paced import Paced
from formwright.estimate.proxy import Combined, Proxies, get_proxy
from formwright.estimate.shared import Shared
from formwright.estimate.sound import Sound
from formwright.estimate.stored import Cached, Tabular
from formwright.estimate.training import Training

__all__ = [
    "Cached",
    "Candidate",
    "Check",
    "Combined",
    "Counted",
    "Diverged",
    "Estimator",
    "Final",
    "FromModel",
    "FromParent",
    "FromSupernet",
    "FromTeacher",
    "Inherited",
    "Measured",
    "OverLimit",
    "Paced",
    "Proxies",
    "Shared",
    "Sound",
    "Source",
    "Tabular",
    "Together",
    "Training",
    "Within",
    "Work",
    "estimators",
    "get_proxy",
]
