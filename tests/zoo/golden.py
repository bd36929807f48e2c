"""The ids of the zoo's architectures, which must never change once they are released.

After adding an entry to the zoo, add its id to the file:

    python -m tests.zoo.golden

Ids that are already in the file are left as they are, even when the entry or the format has
changed since: the test that compares them then fails, which is its purpose. An entry that was
wrong and is put right before a release is taken out of the file by hand first.
"""

import json
from pathlib import Path

from formwright import zoo
from formwright.arch import arch_id

GOLDEN = Path(__file__).parents[1] / "golden" / "zoo_ids.json"


def stored() -> dict[str, str]:
    """Name to id, as written down."""
    ids: dict[str, str] = json.loads(GOLDEN.read_text()) if GOLDEN.exists() else {}
    return ids


def add_new() -> list[str]:
    """Write down the ids of new entries; return their names."""
    ids = stored()
    new = [name for name in zoo.names() if name not in ids]
    ids |= {name: arch_id(zoo.get(name).build()) for name in new}
    GOLDEN.parent.mkdir(exist_ok=True)
    GOLDEN.write_text(json.dumps(ids, indent=2, sort_keys=True) + "\n")
    return new


if __name__ == "__main__":
    print("\n".join(f"added {name}" for name in add_new()) or "nothing to add")
