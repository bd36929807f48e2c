"""A search in two processes: what one process finds that reads the batches of both as one."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from tests.helpers import free_port
from tests.strategy.together import CASES, begun, ended
from tests.train.toy import ToyTask

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("how", ["copy", "shard"])
def test_two_processes_search_as_one_that_reads_both_their_batches(
    tmp_path: Path, how: str
) -> None:
    """Also where the two were stopped and went on from a checkpoint."""
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc_per_node=2"]
    command += ["--master_addr=127.0.0.1", f"--master_port={free_port()}"]
    done = subprocess.run(
        [*command, "-m", "tests.strategy.together", str(tmp_path), how],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}"},
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    for case in CASES:
        first, second = (load_file(tmp_path / f"{case}-{rank}.safetensors") for rank in (0, 1))
        wanted = ended(case, ToyTask())
        start = begun(case)[0].state_dict()
        assert any(not torch.equal(start[name], first[name]) for name in start)
        for name, value in wanted.items():
            assert torch.equal(first[name], second[name]), f"{case}: {name}"
            torch.testing.assert_close(first[name], value, rtol=0, atol=1e-9, msg=f"{case}: {name}")
