"""One page of evidence, made from the results of all benchmarks; and their short forms in one go.

    python benchmarks/evidence.py                      write docs/results.md
    python benchmarks/evidence.py check                say whether docs/results.md is up to date
    python benchmarks/evidence.py age                  what changed since each figure was recorded
    python benchmarks/evidence.py list                 the rows and the commands behind them
    python benchmarks/evidence.py run [NAME ...]       measure rows anew, in their short form

``run`` measures into build/evidence, never into benchmarks/results, so that quick figures cannot
take the place of published ones. Without names it runs every row that has a short form, under two
hours in all (``--hours``). Data sets are read from ``--data FOLDER`` (its folders are named in
docs/evidence-data.md), a MiniLM checkpoint from ``--minilm FOLDER``, other programs from their
environments in ``--peers FOLDER``; rows whose data is not given are passed over, and that is said.
Every row names the results file, the code it depends on and the command that repeats it:
benchmarks/claims.
"""

import argparse
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))  # so that it also works when it is imported

from claims import black_box, faults, one_shot, peers, program, students  # noqa: E402
from claims.page import page_of, told_of  # noqa: E402
from claims.row import Row  # noqa: E402
from claims.running import Setting, run_rows  # noqa: E402
from claims.shape import Misfit  # noqa: E402
from provenance import History  # noqa: E402

ROOT = HERE.parent
PAGE = ROOT / "docs" / "results.md"
ROWS: tuple[Row, ...] = (
    *black_box.ROWS,
    *one_shot.ROWS,
    *students.ROWS,
    *peers.ROWS,
    *program.ROWS,
    *faults.ROWS,
)


def main() -> None:
    """Do what was asked."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    verbs = ("page", "check", "age", "list", "run")
    parser.add_argument("verb", nargs="?", default="page", choices=verbs)
    parser.add_argument("names", nargs="*", help="rows to run; all when there are none")
    parser.add_argument("--data", type=Path, help="folder of the data sets")
    parser.add_argument("--minilm", type=Path, help="folder of a MiniLM checkpoint")
    parser.add_argument("--peers", type=Path, help="folder of the peers' environments")
    parser.add_argument("--work", type=Path, default=ROOT / "build" / "evidence")
    parser.add_argument("--hours", type=float, default=1.95, help="for all rows together")
    asked = parser.parse_args()
    if asked.names and asked.verb != "run":
        parser.error(f"{asked.verb} takes no names of rows")
    try:
        sys.exit(_do(asked))
    except Misfit as error:
        sys.exit(f"evidence: error: {error}")


def _do(asked: argparse.Namespace) -> int:
    results = HERE / "results"
    if asked.verb == "list":
        for row in ROWS:
            print(f"{row.name:24} {row.command or 'no benchmark'}")
    elif asked.verb == "age":
        _age(History(ROOT))
    elif asked.verb == "run":
        seconds = asked.hours * 3600
        setting = Setting(asked.data, asked.minilm, asked.work, seconds, asked.peers)
        failed = run_rows(rows_called(asked.names), setting)
        (asked.work / "results.md").write_text(page_of(ROWS, setting.results, None), "utf-8")
        print(f"Page of what was run: {asked.work / 'results.md'}")
        return int(failed > 0)
    else:
        history = History(ROOT)
        if asked.verb == "check" and history.missing:
            sys.exit(f"evidence: error: {history.missing}, so marks of age cannot be compared.")
        text = page_of(ROWS, results, history)
        if asked.verb == "check":
            same = PAGE.exists() and PAGE.read_text(encoding="utf-8") == text
            print("docs/results.md is up to date." if same else "docs/results.md is out of date: "
                  "run `make evidence-page` and commit it.")  # fmt: skip
            return int(not same)
        PAGE.write_text(text, encoding="utf-8")
        print(f"Wrote {PAGE.relative_to(ROOT)}: {len(ROWS)} rows.")
    return 0


def rows_called(names: list[str]) -> list[Row]:
    """Rows by name; all that can be run where none is named."""
    known = {row.name: row for row in ROWS}
    if unknown := [name for name in names if name not in known]:
        sys.exit(f"evidence: error: no row is called {unknown[0]!r}; `evidence.py list` has them.")
    return [known[name] for name in names] or [row for row in ROWS if row.short is not None]


def _age(history: History) -> None:
    if history.missing:
        sys.exit(f"evidence: error: {history.missing}, so the age of figures is not known.")
    for row in ROWS:
        told, origin = told_of(row, HERE / "results", history)
        if told.verdict == "open" or origin is None:
            print(f"{row.name:24} not measured")
            continue
        changed = history.changed(origin, [f"src/formwright/{room}" for room in row.rooms])
        words = f"{len(changed)} files changed since, such as {changed[0]}" if changed else "fresh"
        print(f"{row.name:24} {origin.date} {origin.commit[:9] or 'not committed':13} {words}")


if __name__ == "__main__":
    main()
