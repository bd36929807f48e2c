"""The Ray executor: the same search as alone, whatever happens to workers, nodes and the driver."""

from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from formwright.execute.cluster import _library
from formwright.testing import ExecutorTestCase

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(find_spec("ray") is None, reason="ray is not installed"),
]

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module", autouse=True)
def cluster() -> Iterator[Any]:
    """A head without processors and two nodes with one each, all on this machine's loopback."""
    ray = _library(started=True)
    from ray.cluster_utils import Cluster

    size = {"object_store_memory": 80 << 20, "include_dashboard": False}
    made = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, **size})
    for _ in range(2):
        made.add_node(num_cpus=1, **size)
    ray.init(address=made.address, configure_logging=False, log_to_driver=False)
    yield made
    ray.shutdown()
    made.shutdown()


class TestLaws(ExecutorTestCase):
    name = "ray"
    isolated = True
