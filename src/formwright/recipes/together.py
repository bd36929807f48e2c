"""The training of a supernet by several processes of this machine, led by the one that searches.

The others are started for the time of one training, are given the same supernet and the same
numbers, and end with it; what they do is in ``train.engine``.
"""

import multiprocessing
import os
import signal
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from multiprocessing.process import BaseProcess
from typing import Any

from formwright.cost.meter import using_threads
from formwright.errors import FormwrightError, Stopped
from formwright.estimate.known import known_task
from formwright.execute.worker import die_with
from formwright.strategy.gradient import SearchResult, search_supernet
from formwright.train.distributed import leave_world
from formwright.train.launch import check_processes, meeting

_PATIENCE = 10.0  # seconds in which the others may end after the one that leads has


def search_together(count: int, task: str, asked: Mapping[str, Any], **heard: Any) -> SearchResult:
    """Train a supernet in so many processes.

    Args:
        count: Of all, this one included.
        task: Its name; every process reads it by itself.
        asked: The other arguments of ``search_supernet``, as they are sent to the others.
        heard: Those that are this process's own: who is told, and who may stop it.
    """
    if check_processes(count) == 1:
        return search_supernet(**asked, task=known_task(task), **heard)
    with meeting(count) as environment, _helped(count, environment, task, asked) as helpers:
        try:
            with _surrounded(environment(0)):
                return search_supernet(**asked, task=known_task(task), **heard)
        except RuntimeError as error:  # what torch raises when another process is gone
            lost = [helper for helper in helpers if helper.exitcode not in (None, 0)]
            if not lost:
                raise
            raise FormwrightError(
                f"One of the {count} processes that train the supernet was lost (it ended with "
                f"code {lost[0].exitcode}). The same command goes on from the last checkpoint."
            ) from error
        finally:
            leave_world()


@contextmanager
def _helped(
    count: int, environment: Any, task: str, asked: Mapping[str, Any]
) -> Iterator[list[BaseProcess]]:
    """The other processes, for as long as they are needed."""
    context = multiprocessing.get_context("spawn")
    helpers: list[BaseProcess] = [
        context.Process(
            target=_help, args=(environment(rank), os.getpid(), task, dict(asked)), daemon=True
        )
        for rank in range(1, count)
    ]
    for helper in helpers:
        helper.start()
    try:
        yield helpers
    finally:
        for helper in helpers:
            helper.join(_PATIENCE)
            if helper.exitcode is None:
                helper.kill()
                helper.join()


def _help(environment: Mapping[str, str], parent: int, task: str, asked: Mapping[str, Any]) -> None:
    """What another process does: the same search, told of nothing and asked nothing."""
    die_with(parent)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # stopping is decided by the one that leads
    os.environ.update(environment)
    try:
        with using_threads(1):
            search_supernet(**asked, task=known_task(task), stop=lambda search: False)
    except (FormwrightError, Stopped):  # the one that leads has met it too, and says so
        return
    finally:
        leave_world()


@contextmanager
def _surrounded(environment: Mapping[str, str]) -> Iterator[None]:
    """Have some variables of the environment for a while."""
    before = {name: os.environ.get(name) for name in environment}
    os.environ.update(environment)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
