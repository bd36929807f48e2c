"""The zoo against what was published.

Most tests run over every entry, so a new one is tested for free; it only needs its id added (see
``tests/zoo/golden.py``) and, if it belongs to a new system, a tolerance below.
"""

import subprocess
import sys
from collections.abc import Sequence
from functools import cache

import pytest
from tests.zoo.golden import stored

from formwright import zoo
from formwright.arch import (
    Architecture,
    Attention,
    Load,
    Residual,
    Site,
    Stack,
    arch_id,
    diff,
    from_json,
    notation,
    parse,
    to_json,
)
from formwright.arch.style import WIKITEXT_FRAME
from formwright.arch.writer import letter_of
from formwright.cost import Counts, count
from formwright.errors import InputError, UnknownName
from formwright.zoo import autodistil, evolved, nas_bert, transformer_xl
from formwright.zoo.registry import Entry, published

every_entry = pytest.mark.parametrize("name", zoo.names())
with_figure = pytest.mark.parametrize(
    "name", [entry.name for entry in zoo.entries() if entry.published_params is not None]
)

EXACT = {
    "transformer-xl-base": 191_950_298,
    "sandwich-base": 191_950_298,
    "par-base": 199_840_218,
    "par-table1-f32": 204_574_170,
    "transformer-xl-large": 285_167_482,
    "transformer-xl-24b": 41_055_436,
    "par-24b": 46_578_380,
    "bert-base": 109_482_240,
    "distilbert": 66_362_880,
    "minibert": 33_221_376,
    "minilm-l6-h384": 22_713_216,
    "autobert-zero-base": 103_577_448,
    "gpt2-small": 124_439_808,
    "smollm2-135m": 134_515_008,
    "stories15m": 15_191_712,
    "lite-gpt2-random-0": 8_505_006,
    "lite-transformer-xl-random-0": 41_443_618,
}

# How far a count may be from the published figure: half of its last printed digit, or nothing
# where released weights were counted. AutoDistil and NAS-BERT have tests of their own.
TOLERANCE = {
    "Transformer-XL": 500_000,
    "sandwich": 500_000,
    "PAR": 500_000,
    "BERT": 0,
    "Finding Fast Transformers": 500_000,
    "MiniLM": 0,
    "AutoBERT-Zero": 500_000,
    "GPT-2": 0,
    "Llama": 0,
    "LiteTransformerSearch": 0,
    "Evolved Transformer": 50_000,
    "Primer": 500_000,
    "Long Range Arena": 100_000,
}
OWN_TEST = {"AutoDistil", "NAS-BERT"}


@cache
def built(name: str) -> Architecture:
    return zoo.get(name).build()


@cache
def counted(name: str) -> Counts:
    return count(built(name))


# --- every entry --------------------------------------------------------------------------------


@every_entry
def test_notation_gives_the_architecture_back(name: str) -> None:
    assert parse(notation(built(name))) == built(name)


@every_entry
def test_json_gives_the_architecture_back(name: str) -> None:
    assert from_json(to_json(built(name))) == built(name)


@every_entry
def test_building_twice_gives_equal_architectures(name: str) -> None:
    assert zoo.get(name).build() == built(name)


@with_figure
def test_counts_agree_with_the_published_figure(name: str) -> None:
    entry = zoo.get(name)
    assert entry.published_params is not None
    if entry.system not in OWN_TEST:
        difference = counted(name).params - entry.published_params
        assert abs(difference) <= TOLERANCE[entry.system]


@every_entry
def test_the_id_never_changes(name: str) -> None:
    ids = stored()
    assert name in ids, "a new entry: run `python -m tests.zoo.golden`"
    assert arch_id(built(name)) == ids[name]


@every_entry
def test_an_entry_says_where_it_comes_from(name: str) -> None:
    entry = zoo.get(name)
    assert entry.name == name == name.lower()
    assert not set(name) - set("abcdefghijklmnopqrstuvwxyz0123456789-")
    assert entry.paper.title
    assert entry.paper.url.startswith("https://")
    assert entry.system


def test_no_released_entry_has_disappeared() -> None:
    assert set(stored()) <= set(zoo.names())


def test_architectures_are_different_unless_a_note_says_so() -> None:
    first: dict[str, str] = {}
    for name in zoo.names():
        twin = first.setdefault(arch_id(built(name)), name)
        assert twin == name or f"The same as {twin}." in zoo.get(name).note


# --- the registry -------------------------------------------------------------------------------


def test_an_unknown_name_suggests_the_closest_one() -> None:
    with pytest.raises(UnknownName, match=r"'par-bse'\. Did you mean 'par-base'\?") as caught:
        zoo.get("par-bse")
    assert "Run `formwright zoo` to list all of them." in str(caught.value)


def test_a_name_cannot_be_taken_twice() -> None:
    zoo.names()  # all families are loaded
    register = published("par-base", system="PAR", paper=transformer_xl.PAR)
    with pytest.raises(InputError, match="zoo entry 'par-base' is already registered"):
        register(lambda: built("par-base"))


def test_reported_figures_cannot_be_changed() -> None:
    entry = zoo.get("par-base")
    with pytest.raises(TypeError):
        entry.reported["ppl_wikitext103"] = 1.0  # type: ignore[index]


def test_names_and_entries_come_in_the_same_order() -> None:
    found = list(zoo.entries())
    assert all(isinstance(entry, Entry) for entry in found)
    assert [entry.name for entry in found] == zoo.names()
    assert len(set(zoo.names())) == len(zoo.names())


def test_listing_the_zoo_does_not_import_torch() -> None:
    code = "import sys; from formwright import zoo; zoo.names(); sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


# --- exact figures ------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "params"), EXACT.items())
def test_parameters_are_exact(name: str, params: int) -> None:
    assert counted(name).params == params


def test_the_string_of_the_paper_is_par_base() -> None:
    arch = parse("(sfff)x6(f)x8").bind(WIKITEXT_FRAME)
    assert arch_id(arch) == arch_id(built("par-base"))


@pytest.mark.parametrize(("row", "layers"), [row[:2] for row in transformer_xl.TABLE_1])
def test_rows_of_table_1_follow_the_closed_form(row: str, layers: str) -> None:
    letters = [letter_of(layer) for layer in built(f"par-table1-{row}").layers.layers]
    assert len(letters) == 32
    expected = 137_350_618 + letters.count("s") * 1_311_744 + letters.count("f") * 2_100_736
    assert counted(f"par-table1-{row}").params == expected
    assert built(f"par-table1-{row}") == parse(layers).bind(WIKITEXT_FRAME)


@pytest.mark.parametrize(("name", "gflops"), [("transformer-xl-base", 26.61), ("par-base", 16.17)])
def test_flops_of_the_par_paper(name: str, gflops: float) -> None:
    # 64 new tokens, 640 remembered, queries for the new ones only; printed as 27 and 17
    flops = count(built(name), length=64, past=640).flops
    assert flops / 1e9 == pytest.approx(gflops, abs=0.005)


def test_sandwich_only_reorders_the_blocks() -> None:
    for size in ("base", "large", "24b"):
        plain, sandwich = built(f"transformer-xl-{size}"), built(f"sandwich-{size}")
        assert sorted(map(str, plain.layers.layers)) == sorted(map(str, sandwich.layers.layers))
        assert arch_id(plain) != arch_id(sandwich)


# --- LiteTransformerSearch ----------------------------------------------------------------------


def decoder_params_gpt2(width: int, heads: Sequence[int], inner: Sequence[int]) -> int:
    """The closed form that LTS ranks GPT-2 models by."""
    total = 2 * width
    for head, size in zip(heads, inner, strict=True):
        across = head * (width // head)
        attention = 3 * width * across + 3 * across + across * width + width
        total += attention + 2 * width * size + size + width + 4 * width
    return total


def decoder_params_transformer_xl(width: int, heads: Sequence[int], inner: Sequence[int]) -> int:
    """The closed form that LTS ranks Transformer-XL models by."""
    total = 0
    for head, size in zip(heads, inner, strict=True):
        across = head * (width // head)
        attention = 5 * width * across + 2 * across
        total += attention + 2 * width * size + size + width + 4 * width
    return total


@pytest.mark.parametrize("name", [name for name in zoo.names() if name.startswith("lite-")])
def test_decoder_parameters_follow_the_closed_form(name: str) -> None:
    arch = built(name)
    heads = [attention.heads for attention in arch.self_attentions()]
    inner = [layer.inner.inner for layer in arch.layers.layers[1::2]]  # type: ignore[attr-defined]
    formula = decoder_params_gpt2 if "gpt2" in name else decoder_params_transformer_xl
    decoder_params = counted(name).non_embedding
    assert decoder_params == formula(arch.backbone.width, heads, inner)
    assert decoder_params == zoo.get(name).reported.get("decoder_params", decoder_params)


@pytest.mark.parametrize("name", ["lite-gpt2-random-0", "lite-transformer-xl-random-0"])
def test_attention_and_feed_forward_are_counted_as_released(name: str) -> None:
    width = built(name).backbone.width
    for part, letter in (("attention", "s"), ("feedforward", "f")):
        layers = [p.count.params - 2 * width for p in counted(name).parts if p.letter == letter]
        assert sum(layers) == zoo.get(name).reported[part]


# --- AutoDistil ---------------------------------------------------------------------------------

BY_FORMULA = {"agnostic": 26.77, "proxy-b": 50.11, "proxy-s": 26.09, "proxy-t": 6.89}
BY_COUNTING = {"agnostic": 31.93, "proxy-b": 53.61, "proxy-s": 29.94, "proxy-t": 9.14}
FLOPS_BY_FORMULA = {"agnostic": 2.128, "proxy-b": 4.403, "proxy-s": 2.019, "proxy-t": 0.275}


@pytest.mark.parametrize("student", BY_FORMULA)
def test_students_are_larger_than_their_paper_says(student: str) -> None:
    entry = zoo.get(f"autodistil-{student}")
    formula = float(entry.reported["params_by_formula"])
    assert formula / 1e6 == pytest.approx(BY_FORMULA[student], abs=0.005)
    assert counted(entry.name).params / 1e6 == pytest.approx(BY_COUNTING[student], abs=0.005)
    assert entry.published_params is not None
    assert abs(formula - entry.published_params) <= 50_000
    gigaflops = float(entry.reported["flops_by_formula"]) / 1e9
    assert gigaflops == pytest.approx(FLOPS_BY_FORMULA[student], abs=0.0005)


def test_the_formula_is_right_for_bert_itself() -> None:
    bert = autodistil.Shape(12, 768, 4.0, 12)
    assert autodistil.formula_params(bert) == pytest.approx(109.48e6, abs=0.005e6)
    assert autodistil.formula_flops(bert) == pytest.approx(11.249e9, abs=0.0005e9)


def test_a_student_of_berts_own_shape_is_bert() -> None:
    student = autodistil.student(autodistil.Shape(12, 768, 4.0, 12))
    assert {change.path.rsplit(".", 1)[-1] for change in diff(built("bert-base"), student)} <= {
        "key"  # the students say the size of a head, in BERT it follows from the width
    }
    assert count(student).params == EXACT["bert-base"]


# --- NAS-BERT -----------------------------------------------------------------------------------

NAS_BERT_MILLIONS = {
    60: 48.5,
    55: 44.3,
    50: 39.5,
    45: 36.9,
    40: 34.2,
    35: 26.0,
    30: 27.1,
    25: 22.4,
    20: 14.9,
    15: 12.4,
    10: 8.8,
    5: 3.2,
}
NAS_BERT_FLOPS = {60: 1.26e10, 30: 7.02e9, 10: 2.33e9, 5: 8.60e8}
NAS_BERT_OPERATORS = {60: 24, 55: 23, 50: 22, 30: 20, 25: 16, 20: 16, 15: 24, 10: 12, 5: 12}


@pytest.mark.parametrize(("size", "millions"), NAS_BERT_MILLIONS.items())
def test_nas_bert_counts_without_the_untied_output_map(size: int, millions: float) -> None:
    arch, params = built(f"nas-bert-{size}"), counted(f"nas-bert-{size}").params
    if arch.out_width != arch.backbone.width:  # one model ends wider than it begins
        params -= arch.out_width * nas_bert.SIZES[size][0]
    assert params / 1e6 == pytest.approx(millions, abs=0.05)
    assert params < size * 1e6  # the label is a budget


@pytest.mark.parametrize(("size", "flops"), NAS_BERT_FLOPS.items())
def test_nas_bert_flops_at_128_tokens(size: int, flops: float) -> None:
    assert count(built(f"nas-bert-{size}"), length=128).flops == pytest.approx(flops, rel=0.02)


@pytest.mark.parametrize(("size", "operators"), NAS_BERT_OPERATORS.items())
def test_nas_bert_has_as_many_operators_as_printed(size: int, operators: int) -> None:
    layers = built(f"nas-bert-{size}").layers.layers
    assert sum(isinstance(layer, Residual) for layer in layers) == operators
    assert operators <= 24


def test_a_wider_kernel_costs_little() -> None:
    wide, small = (nas_bert.encoder(128, ((384, kernel),)) for kernel in ("S7", "S3"))
    assert count(wide).params - count(small).params == 2 * 4 * 384


# --- Evolved Transformer ------------------------------------------------------------------------


def test_cells_of_the_evolved_transformer_are_exact() -> None:
    place = Site(width=512, causal=True, source=512)
    cells = evolved.encoder_cell(512, 8), evolved.decoder_cell(512, 8)
    params = [Stack(cell).count(place, Load()).params for cell in cells]
    assert params == [5_668_864, 7_503_104]


@pytest.mark.parametrize(("heads", "doubled"), [(4, 8), (8, 16), (16, 16), (32, 32)])
def test_the_first_attention_doubles_its_heads_up_to_16(heads: int, doubled: int) -> None:
    cell = Stack(evolved.decoder_cell(512, heads))
    found = [node.heads for _, node in cell.walk() if isinstance(node, Attention)]
    assert found == [doubled, heads, heads, heads]


def test_the_deep_transformer_is_close_to_the_printed_size() -> None:
    entry = zoo.get("transformer-deep")
    assert entry.published_params is None  # its shape is inferred
    printed = float(entry.reported["params_in_paper"])
    assert counted(entry.name).params == pytest.approx(printed, abs=70_000)


# --- Primer -------------------------------------------------------------------------------------

PRIMER_MILLIONS = {
    "t5-decoder-small": 35.35,
    "primer-ez-small": 35.38,
    "primer-small": 35.37,
    "t5-decoder-medium": 109.69,
    "primer-ez-medium": 109.78,
    "primer-medium": 109.75,
    "t5-decoder-large": 536.54,
    "primer-ez-large": 536.76,
    "primer-large": 536.69,
}


@pytest.mark.parametrize(("name", "millions"), PRIMER_MILLIONS.items())
def test_primer_counts(name: str, millions: float) -> None:
    assert counted(name).params / 1e6 == pytest.approx(millions, abs=0.01)


@pytest.mark.parametrize(("size", "layers"), [("small", 6), ("medium", 12), ("large", 24)])
def test_what_primers_changes_cost(size: str, layers: int) -> None:
    width = built(f"primer-{size}").backbone.width
    plain, ez, full = (
        counted(f"{kind}-{size}").params for kind in ("t5-decoder", "primer-ez", "primer")
    )
    assert ez - plain == layers * 9 * width
    assert full - ez == -layers * 3 * width
