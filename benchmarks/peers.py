"""archai, whittle and NNI beside ours, in one run and in turns.

    python benchmarks/peers.py archai --python ENV/bin/python [--seeds 3]
    python benchmarks/peers.py whittle --python ENV/bin/python --data FOLDER [--seconds 60]
    python benchmarks/peers.py nni --python ENV/bin/python

Each peer runs in the interpreter of an environment of its own (docs/evidence-data.md says how to
make it), by a script of ours in ``benchmarks/rivals`` that calls its public interface. The two
sides take turns, one thread each, and seconds are of the processor. What is compared, and how the
peer was given its best form, is said in ``benchmarks/beside``. FOLDER holds a text as train.txt
and valid.txt, or the same with .xz. ``--short`` takes a fraction of the work, ``--seconds`` is of
one training. What is on record is not measured again. Results, one key for each peer:
benchmarks/results/peers.json.
"""

import json
from pathlib import Path
from typing import Any

from beside import archai, nni, whittle
from harness import Parts, arguments
from rival import Rival

PEERS = {"archai": archai, "whittle": whittle, "nni": nni}


def main() -> None:
    """Measure one peer and ours."""
    parser = arguments(__doc__, seeds=3, data=False)
    parser.add_argument("peer", choices=PEERS)
    parser.add_argument("--python", type=Path, required=True, help="the peer's interpreter")
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--short", action="store_true")
    asked = parser.parse_args()
    if asked.peer in ("whittle", "modelopt") and asked.data is None:
        parser.error(f"{asked.peer} needs --data FOLDER, with train.txt and valid.txt")
    results = Parts("peers")

    def keep(**found: Any) -> None:
        """Write down what was found so far."""
        before = results.read().get(asked.peer, {})
        results.keep(asked.peer, {**before, **found, "short": asked.short}, say=False)
        print(json.dumps(found), flush=True)

    with Rival(asked.python, f"{asked.peer}_side.py") as rival:
        known = results.read().get(asked.peer, {})
        PEERS[asked.peer].measured(rival, asked, known, keep)


if __name__ == "__main__":
    main()
