"""Executors: who carries a study's jobs to evaluators, and how many at once. No torch."""

from formwright.execute.processes import Processes
from formwright.execute.search import executor_for, executors, search
from formwright.execute.serial import Serial

__all__ = ["Processes", "Serial", "executor_for", "executors", "search"]
