"""Who evaluates: chosen by the number of workers and the time limit, or by name."""

import pytest
from tests.study.toy import free

from formwright.errors import InputError, UnknownName
from formwright.execute import Processes, Serial, executor_for


def test_processes_are_taken_for_several_workers_and_for_a_time_limit() -> None:
    assert isinstance(executor_for(free), Serial)
    many, limited = executor_for(free, 3), executor_for(free, 1, 2.5)
    assert isinstance(many, Processes)
    assert isinstance(limited, Processes)
    assert (many.workers, limited.time_limit) == (3, 2.5)


def test_an_executor_is_taken_by_name() -> None:
    assert isinstance(executor_for(free, name="processes"), Processes)
    with pytest.raises(InputError, match=r"workers=2 .* need the executor 'processes'"):
        executor_for(free, 2, name="serial")
    with pytest.raises(UnknownName, match="Did you mean 'processes'"):
        executor_for(free, name="process")
