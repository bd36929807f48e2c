"""What scripts for a peer's interpreter share: verbs, asked for in lines of JSON.

    serve({"add": add})

A line ``{"verb": "add", "a": 1, "b": 2}`` on standard input calls ``add(a=1, b=2)``, and one line
answers: ``{"value": ..., "seconds": ...}`` with the seconds of processor time that it took, or
``{"error": ...}`` in one sentence. Everything else that a peer prints goes to standard error. Only
the standard library is used, so that it runs in any interpreter.
"""

import json
import os
import random
import re
import time
import traceback
from collections.abc import Callable, Mapping
from typing import Any


def serve(verbs: Mapping[str, Callable[..., Any]]) -> None:
    """Answer until standard input ends."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # what the peer prints is no answer
    asking = os.fdopen(os.dup(0), encoding="utf-8")
    with open(os.devnull, encoding="utf-8") as nothing:
        os.dup2(nothing.fileno(), 0)  # a child that makes its input non-blocking would end ours
    for line in asking:
        asked = json.loads(line)
        name = asked.pop("verb")
        began = time.process_time()
        try:
            found: dict[str, Any] = {"value": verbs[name](**asked)}
        except Exception as error:  # whatever it is, the other side has to know
            traceback.print_exc()
            words = re.sub("\x1b\\[[0-9]*m", "", f"{type(error).__name__}: {error}")  # no colours
            found = {"error": words.splitlines()[0].strip()[:300]}
        found["seconds"] = time.process_time() - began
        answers.write(json.dumps(found) + "\n")
        answers.flush()


def one_thread() -> None:
    """The peer computes in one thread, as ours does."""
    import torch

    torch.set_num_threads(1)


def seeded(seed: int) -> None:
    """Draws of Python, numpy and torch begin anew."""
    import numpy as np
    import torch

    random.seed(seed)
    np.random.seed(seed)
    torch.manual_seed(seed)


def versions(*names: str) -> dict[str, str]:
    """Of installed packages."""
    from importlib.metadata import version

    return {name: version(name) for name in names}
