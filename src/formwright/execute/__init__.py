"""Executors: who carries a study's jobs to evaluators, and how many at once. No torch."""

from formwright.execute.cluster import Request
from formwright.execute.processes import Processes
from formwright.execute.ray import Ray
from formwright.execute.search import executor_for, executors, search
from formwright.execute.serial import Serial

__all__ = ["Processes", "Ray", "Request", "Serial", "executor_for", "executors", "search"]
