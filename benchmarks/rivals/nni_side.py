"""NNI 3.0 at work: trials that cost nothing, by both of its engines.

    python nni_side.py FOLDER        a search that goes on until it is killed, a line for each trial

Its default engine starts a server and a process for each trial; its sequential engine runs them in
this process.
"""

import os
import sys
import time
from pathlib import Path
from typing import Any

from lines import one_thread, seeded, serve, versions

CHOICES = 6


def begin() -> dict[str, str]:
    """Import everything, so that no trial of this process pays for it."""
    one_thread()
    import nni.nas.experiment  # noqa: F401

    patient()
    return versions("nni", "torch")


def experiment(engine: str, trials: int, folder: Path, evaluate: Any, **given: Any) -> Any:
    """A random search over six layers with two decisions in each, as ours."""
    import nni
    import torch
    from nni.nas.evaluator import FunctionalEvaluator
    from nni.nas.experiment import NasExperiment, NasExperimentConfig
    from nni.nas.nn.pytorch import ModelSpace, ParametrizedModule
    from nni.nas.strategy import Random

    class Layer(ParametrizedModule):
        """Two numbers."""

        def __init__(self, heads: int, inner: int) -> None:
            super().__init__()
            self.size = heads + inner

    class Net(ModelSpace):
        """Layers of such numbers."""

        def __init__(self) -> None:
            super().__init__()
            self.layers = torch.nn.ModuleList(
                Layer(
                    nni.choice(f"heads{i}", [1, 2, 4, 8]),
                    nni.choice(f"inner{i}", list(range(64, 1025, 64))),
                )
                for i in range(CHOICES)
            )

    config = {} if engine == "default" else {"config": NasExperimentConfig(engine, "raw", "local")}
    made = NasExperiment(Net(), FunctionalEvaluator(evaluate, **given), Random(), **config)
    made.config.max_trial_number = trials
    made.config.experiment_working_directory = str(folder)
    if engine == "default":
        made.config.trial_concurrency = 1
    return made


def free(model: Any, log: str = "") -> None:
    """Costs nothing; a process of its own says what it took to come so far."""
    import nni

    nni.report_final_result(float(sum(layer.size for layer in model.layers)))
    if log:
        with open(log, "a", encoding="utf-8") as file:
            file.write(f"{time.process_time()}\n")


def run(engine: str, trials: int, seed: int, port: int) -> dict[str, Any]:
    """So many trials: seconds of the wall, and of the processor with all child processes."""
    seeded(seed)
    folder = Path.cwd() / f"{engine}-{seed}-{time.monotonic_ns()}"
    folder.mkdir()
    log, given = folder / "spent.txt", {}
    if engine == "default":  # its server does not wait for them, so nobody adds up their time
        given = {"log": str(log)}
    made = experiment(engine, trials, folder, free, **given)
    began, before = time.monotonic(), os.times()
    made.run(**({"port": port} if engine == "default" else {}))
    wall, after = time.monotonic() - began, os.times()
    apart = [float(line) for line in log.read_text().split()] if log.exists() else []
    return {
        "trials": len(made.export_top_models(top_k=trials, formatter="dict")),
        "wall": wall,
        "processor": sum(after[:4]) - sum(before[:4]) + sum(apart),
    }


def kept(file: str) -> dict[str, Any]:
    """What a checkpoint of its holds of the trials."""
    from nni.nas.utils.serializer import get_default_serializer

    return dict(get_default_serializer().load(Path(file))["engine"])


def patient() -> None:
    """Its server has three seconds to start, which a busy machine does not keep: give it sixty."""
    from nni.experiment import launcher

    launcher._check_rest_server.__defaults__ = (60, None)


def main(folder: Path) -> None:
    """Search until killed."""
    one_thread()

    def slow(model: Any) -> None:
        time.sleep(0.05)
        free(model)
        with open(folder / "told.txt", "a", encoding="utf-8") as file:
            file.write("done\n")

    experiment("sequential", 10**6, folder / "kept", slow).run()


if __name__ == "__main__":
    if len(sys.argv) > 1:
        main(Path(sys.argv[1]))
    else:
        serve({"begin": begin, "run": run, "kept": kept})
