"""Weights & Biases: a run as its own settings have it (WANDB_MODE, WANDB_PROJECT, ...)."""

import os
from typing import Any

from formwright.track.base import Numbers, Tracker, trackers


@trackers("wandb")
class Wandb(Tracker):
    """Sends to wandb's server, or writes below the folder where it is offline."""

    NAME = "wandb"
    NEEDS = ("wandb",)
    INSTALL = "pip install wandb"

    def begin(self) -> None:
        import wandb  # noqa: PLC0415  # optional

        self.folder.mkdir(parents=True, exist_ok=True)
        project = os.environ.get("WANDB_PROJECT") or "formwright"
        made: Any = wandb.init(
            project=project, name=self.folder.name, dir=str(self.folder), config=self.about
        )
        self.run = made

    def log(self, numbers: Numbers, step: int) -> None:
        # an axis of our own: numbers of one step may come in several pieces, which its own refuses
        self.run.log({**numbers, "step": step})

    def end(self) -> None:
        self.run.finish()
