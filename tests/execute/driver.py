"""A search on a cluster that a test kills: python -m tests.execute.driver ADDRESS FOLDER"""

import sys
from pathlib import Path

from tests.execute.test_ray import Slow

from formwright.execute import Ray
from formwright.study import Study, run

if __name__ == "__main__":
    run(Study.open(Path(sys.argv[2])), Ray(Slow(0.3), 4, address=sys.argv[1]), trials=20)
