"""Run a study with as many workers as wished: the usual way to search."""

from collections.abc import Callable
from typing import Any

from formwright.execute.processes import Processes
from formwright.execute.ray import Ray
from formwright.execute.serial import Serial
from formwright.registry import Registry
from formwright.study import Ending, Evaluate, Executor, Study, run
from formwright.study.loop import OnEvent

# What is called with (evaluate, workers, time_limit=seconds or None).
executors: Registry[Callable[..., Executor]] = Registry("executor", "formwright.executors")
executors.add("serial", Serial)
executors.add("processes", Processes)
executors.add("ray", Ray)


def search(
    study: Study,
    evaluate: Evaluate,
    *,
    workers: int = 1,
    trials: int | None = None,
    seconds: float | None = None,
    time_limit: float | None = None,
    stop: Callable[[], bool] | None = None,
    on_event: OnEvent | None = None,
) -> Ending:
    """Search until the budget is spent. Calling it again continues.

    Args:
        study: What to search, and the record of it.
        evaluate: Measures one member of the space. For processes it must be picklable: a function
            or an object of a class that stands at the top of a module.
        workers: 1 evaluates in this process, unless there is a time limit; more use processes.
        trials: How many the study is to have in all.
        seconds: How long it may be worked on in all.
        time_limit: Seconds that one trial may take.
        stop: Asked several times a second; True ends the search within seconds.
        on_event: Told what has happened.
    """
    executor = executor_for(evaluate, workers, time_limit)
    return run(study, executor, trials=trials, seconds=seconds, stop=stop, on_event=on_event)


def executor_for(
    evaluate: Evaluate,
    workers: int = 1,
    time_limit: float | None = None,
    *,
    name: str = "",
    **options: Any,
) -> Executor:
    """Who evaluates: one of ``executors``; this process or several others when not named.

    ``options`` are the executor's own, such as the ``address`` of a cluster.
    """
    usual = "processes" if workers > 1 or time_limit is not None else "serial"
    return executors.get(name or usual)(evaluate, workers, time_limit=time_limit, **options)
