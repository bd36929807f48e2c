"""TensorBoard: event files in ``RUN/tensorboard``, read by ``tensorboard --logdir RUN``."""

import json
from typing import Any

from formwright.track.base import Numbers, Tracker, trackers


@trackers("tensorboard")
class TensorBoard(Tracker):
    """Writes event files."""

    NAME = "tensorboard"
    NEEDS = ("tensorboard",)
    INSTALL = "pip install 'formwright[trackers]'"

    def begin(self) -> None:
        from torch.utils.tensorboard import SummaryWriter  # noqa: PLC0415  # optional

        writer: Any = SummaryWriter(str(self.folder / "tensorboard"), flush_secs=10)
        self.writer = writer
        writer.add_text("run", f"```\n{json.dumps(self.about, indent=1, default=str)}\n```")

    def log(self, numbers: Numbers, step: int) -> None:
        for name, value in numbers.items():
            self.writer.add_scalar(name, value, step)

    def end(self) -> None:
        self.writer.close()
