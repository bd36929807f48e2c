"""Texts in two languages: two files that agree line by line, or a table with two columns."""

from pathlib import Path

from formwright.errors import InputError
from formwright.tasks.files import Sources, fill_splits, find_splits, read_lines, suffix_of
from formwright.tasks.guide import PACKED, Column
from formwright.tasks.tables import TABLES, Table, find_column, no_column, read_table

SOURCES = ("source", "src", "source_text", "from")
TARGETS = ("target", "tgt", "target_text", "translation", "to")
_CODES = (
    "ar bg bn ca cs cy da de el en es et eu fa fi fr ga gl hi hr hu hy id it ja ka ko lt lv mk ms "
    "nb nl nn pl pt ro ru sk sl sq sr sv sw ta te th tr uk ur vi zh"
)
# a line of these is a header, not a sentence and its translation
_LANGUAGES = frozenset(_CODES.split())
FORMATS = {
    "SRC,TGT": "Two text files that agree line by line.",
    "tsv, csv": "A column for each language; without a header the first two.",
    "jsonl, json, parquet": "An object or row for each pair.",
    **PACKED,
}
COLUMNS = (
    Column("source", "What is read.", SOURCES),
    Column("target", "What is written.", TARGETS),
)
SPLITS = (
    "Files named train.de, valid.de, test.de and so on beside the training files, or given as "
    "valid=SRC,TGT and test=SRC,TGT (one file each for tables). Without valid, 5 % of the "
    "training rows are set aside by their content; single files are split 90/5/5."
)
Lines = dict[str, list[tuple[str, str]]]


def find_parallel(paths: str, valid: str | None, test: str | None) -> list[Sources]:
    """The files of each split: of one table, or of both languages."""
    alone = Path(paths).expanduser()
    if alone.exists() or "," not in paths:
        if alone.is_file() and suffix_of(alone) not in TABLES:
            _two(paths, "translate:SRC,TGT")  # one of two files
        if alone.is_dir() and not any(suffix_of(file) in TABLES for file in alone.iterdir()):
            raise InputError(
                f"{paths} holds no table; name two files that agree line by line, as in "
                f"translate:{paths}/train.de,{paths}/train.en."
            )
        return [find_splits(alone, TABLES, valid, test)]
    source, target = _two(paths, "translate:SRC,TGT")
    sides = []
    for place, path in enumerate((source, target)):
        given = [_two(where, "SRC,TGT")[place] if where else None for where in (valid, test)]
        sides.append(find_splits(Path(path).expanduser(), (), *given))
    if set(sides[0].paths) != set(sides[1].paths):
        found = [", ".join(side.paths) for side in sides]
        raise InputError(
            f"{source} has the splits {found[0]}, but {target} has {found[1]}. "
            "Both languages need the same splits."
        )
    return sides


def _two(text: str, form: str) -> tuple[str, str]:
    first, comma, second = text.partition(",")
    if not (first.strip() and comma and second.strip()):
        raise InputError(f"Two files are needed, written {form}; {text!r} is not.")
    return first.strip(), second.strip()


def read_parallel(
    sides: list[Sources], source: str | None = None, target: str | None = None
) -> tuple[Lines, list[str]]:
    """Pairs of texts of each split, and notes; missing splits are cut from the training rows."""
    known: Lines = {}
    notes: list[str] = []
    for split, path in sides[0].paths.items():
        if len(sides) == 1:
            table = read_table(path, known=_known(path, source, target))
            notes += [*table.notes, *_about(table)]
            known[split] = _pairs(table, source, target)
        else:
            known[split] = _agreeing(path, sides[1].paths[split])
    return fill_splits(known, "\0".join), notes


def _about(table: Table) -> list[str]:
    if not table.header:
        return []
    name = table.path.name
    return [f"{name} has no header: the first column is the source, the second the target"]


def _known(path: Path, *given: str | None) -> list[str]:
    """Names that make the first line of a table a header."""
    names = [*SOURCES, *TARGETS, *(name for name in given if name)]
    first = read_lines(path)[0].lower() if suffix_of(path) in (".csv", ".tsv") else ""
    cells = {cell.strip(' "') for cell in first.replace(";", "\t").replace(",", "\t").split("\t")}
    return [*names, *cells] if len(cells) > 1 and cells <= _LANGUAGES else names


def _pairs(table: Table, source: str | None, target: str | None) -> list[tuple[str, str]]:
    columns = _columns(table, source, target)
    made = []
    for number, row in enumerate(table.rows):
        pair = tuple(str(row.get(name) or "") for name in columns)
        for text, what in zip(pair, ("source", "target"), strict=True):
            if not text.strip():
                raise InputError(f"{table.where(number)} has no {what}.")
        made.append((pair[0], pair[1]))
    return made


def _columns(table: Table, source: str | None, target: str | None) -> tuple[str, str]:
    first = find_column(table, source, SOURCES)
    second = find_column(table, target, TARGETS)
    free = [name for name in table.columns if name not in (first, second)]
    languages = all(name.lower() in _LANGUAGES for name in free)
    if len(table.columns) >= 2 and (table.header or languages):
        first = first or (free.pop(0) if free else None)
        second = second or next((name for name in free if name != first), None)
    if first is None:
        raise no_column(table, SOURCES, ("source", "target"))
    if second is None:
        raise no_column(table, TARGETS, ("target",), [first])
    return first, second


def _agreeing(path: Path, other: Path) -> list[tuple[str, str]]:
    left, right = read_lines(path), read_lines(other)
    if len(left) != len(right):
        raise InputError(
            f"{path.name} has {len(left)} lines and {other.name} {len(right)}; they should "
            "agree line by line."
        )
    pairs = list(zip(left, right, strict=True))
    for number, pair in enumerate(pairs, 1):
        for file, line in zip((path, other), pair, strict=True):
            if not line.strip():
                raise InputError(f"row {number} of {file.name} has no text.")
    return pairs
