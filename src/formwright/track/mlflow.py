"""MLflow: a run at MLFLOW_TRACKING_URI, else in ``mlflow.db`` beside the folder of the run."""

import os
import re
import time
from typing import Any

from formwright.files import discreet
from formwright.track.base import Numbers, Tracker, trackers

EXPERIMENT = "formwright"
_LONGEST = 500  # characters of a parameter


@trackers("mlflow")
class MLflow(Tracker):
    """Writes to a tracking server or to a file."""

    NAME = "mlflow"
    NEEDS = ("mlflow", "sqlalchemy", "alembic")
    INSTALL = "pip install 'formwright[trackers]'"

    def begin(self) -> None:
        # a server that is gone is given up within seconds, not after MLflow's quarter of an hour
        os.environ.setdefault("MLFLOW_HTTP_REQUEST_TIMEOUT", "10")
        os.environ.setdefault("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "2")
        from mlflow.entities import Metric, Param  # noqa: PLC0415  # optional, and slow
        from mlflow.tracking import MlflowClient  # noqa: PLC0415

        self.metric = Metric
        usual = f"sqlite:///{self.folder.resolve().parent / 'mlflow.db'}"
        client: Any = MlflowClient(tracking_uri=os.environ.get("MLFLOW_TRACKING_URI") or usual)
        found = client.get_experiment_by_name(EXPERIMENT)
        number = found.experiment_id if found else client.create_experiment(EXPERIMENT)
        made = client.create_run(number, run_name=self.folder.name)
        self.client, self.run = client, made.info.run_id
        params = [Param(name, _short(value)) for name, value in self.about.items()]
        client.log_batch(self.run, params=params[:100])

    def log(self, numbers: Numbers, step: int) -> None:
        now = int(time.time() * 1000)
        metrics = [self.metric(_name(n), value, now, step) for n, value in numbers.items()]
        for start in range(0, len(metrics), 500):  # as many as a server takes at once
            self.client.log_batch(self.run, metrics=metrics[start : start + 500])

    def end(self) -> None:
        self.client.set_terminated(self.run)


def _name(words: str) -> str:
    return re.sub(r"[^\w\-. /]", "_", words)


def _short(value: Any) -> str:
    return discreet(str(value))[:_LONGEST]
