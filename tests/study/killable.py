"""A search that a test starts as a process of its own, in order to kill it.

python -m tests.study.killable FOLDER TRIALS PAUSE WORKERS
"""

import signal
import sys
from pathlib import Path

from tests.study.toy import Logged

from formwright.execute import search
from formwright.study import Study


def main() -> None:
    # Where the tests run in the background of a shell, Ctrl-C is ignored unless asked for.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    folder, trials, pause, workers = sys.argv[1:]
    study = Study.open(folder)
    evaluate = Logged(Path(folder) / "evaluated.txt", float(pause))
    print("open", flush=True)
    search(
        study,
        evaluate,
        workers=int(workers),
        trials=int(trials),
        on_event=lambda event: print(event.kind, flush=True),
    )


if __name__ == "__main__":
    main()
