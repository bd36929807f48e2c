"""Graph-shaped layers as maths, as drawings, and as code that computes the same elsewhere."""

import subprocess
import sys
import xml.etree.ElementTree as ET
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest
import torch
from tests.cli_helpers import InProcess

from formwright.arch import (
    Architecture,
    Layer,
    Program,
    Seq2Seq,
    Site,
    Stack,
    Style,
    notation,
    parse,
)
from formwright.arch.graph import formulas, genes
from formwright.arch.graph.cell import Block, Branch, Cell
from formwright.arch.graph.programs import primer_ez_program, primer_program, transformer_program
from formwright.arch.layer import FeedForward
from formwright.draw.explain import explained, standalone_code
from formwright.draw.graph import graph_svg, marks_of
from formwright.draw.maths import maths_of
from formwright.errors import InputError, SpecError
from formwright.ops import Builder, Context
from formwright.space import named_space
from formwright.space.formulas import drawn_formula
from formwright.space.programs import mutated

WIDTH = 16
PROGRAMS = (transformer_program, primer_ez_program, primer_program)


def loaded(code: str) -> Any:
    """The module that a file defines; it may import torch alone."""
    imported = [line for line in code.splitlines() if line.startswith(("import", "from"))]
    assert all("torch" in line for line in imported), imported
    names: dict[str, Any] = {}
    exec(compile(code, "found.py", "exec"), names)
    return names["Found"]()


def agree(layer: Layer, *, causal: bool, seed: int = 0, source: bool = False) -> None:
    """The code of a layer computes what the layer computes, also with padding."""
    torch.manual_seed(seed)
    site = Site(width=WIDTH, causal=causal, source=WIDTH if source else None)
    ours = Builder().build(layer, site)
    with torch.no_grad():
        for parameter in ours.parameters():
            parameter.normal_(0.0, 0.3)
    copy = loaded(standalone_code(layer, site))
    copy.load(ours.state_dict())
    x, real = torch.randn(2, 9, WIDTH), torch.ones(2, 9, dtype=torch.bool)
    mask = real.clone()
    mask[0, 6:] = False
    read = {"source": torch.randn(2, 5, WIDTH)} if source else {}
    for given in (None, mask):
        theirs = copy(x, given, **read)
        mine = ours(x, Context(mask=given, **read))
        keep = real if given is None else given
        if bool(torch.isfinite(mine[keep]).all()):
            torch.testing.assert_close(theirs[keep], mine[keep], rtol=1e-4, atol=1e-5)


# --- code ---------------------------------------------------------------------------------


@pytest.mark.parametrize("make", PROGRAMS)
@pytest.mark.parametrize("causal", [True, False])
def test_the_code_of_published_programs_computes_the_same(
    make: Callable[..., Program], causal: bool
) -> None:
    agree(make(WIDTH, 4, 32), causal=causal)


@pytest.mark.parametrize("seed", range(40))
def test_the_code_of_mutated_programs_computes_the_same(seed: int) -> None:
    rng = Random(seed)
    program = rng.choice(PROGRAMS)(WIDTH, 4, 32)
    for _ in range(rng.randint(1, 6)):
        program = mutated(rng, program, WIDTH)
    agree(program, causal=bool(seed % 2), seed=seed)


@pytest.mark.parametrize("seed", range(16))
def test_the_code_of_formulas_computes_the_same(seed: int) -> None:
    causal = bool(seed % 2)
    agree(drawn_formula(Random(seed), 4, causal=causal), causal=causal, seed=seed)


@pytest.mark.parametrize("found", [f for f in formulas.AUTOBERT_ZERO if not isinstance(f, int)])
def test_the_code_of_published_formulas_computes_the_same(found: Any) -> None:
    agree(found(4), causal=False)


@pytest.mark.parametrize(
    "make", [genes.transformer_encoder, genes.evolved_encoder, genes.evolved_decoder]
)
def test_the_code_of_published_cells_computes_the_same(make: Callable[..., Cell]) -> None:
    decodes = make is genes.evolved_decoder
    agree(make(4), causal=decodes, source=decodes)


@pytest.mark.parametrize("seed", range(10))
def test_the_code_of_random_cells_computes_the_same(seed: int) -> None:
    space = named_space("evolved", family=Style(Seq2Seq(WIDTH), {}))
    arch = space.resolve(space.draw(Random(seed)))
    cell = (arch.encoder if seed % 2 else arch.layers).layers[0]
    agree(cell, causal=not seed % 2, seed=seed, source=not seed % 2)


def test_what_cannot_be_said_in_stand_alone_code_is_refused() -> None:
    cell = Cell((Block(Branch(0, FeedForward(8))),))
    with pytest.raises(SpecError, match=r"feedforward.* cannot be written as stand-alone code"):
        standalone_code(cell, Site(width=WIDTH))


def test_the_file_runs_in_an_interpreter_without_formwright(tmp_path: Path) -> None:
    path = tmp_path / "found.py"
    path.write_text(standalone_code(primer_ez_program(16, 4, 32), Site(width=16, causal=True)))
    program = (
        "import sys; sys.modules['formwright'] = None; import torch, found; "
        "print(tuple(found.Found()(torch.randn(2, 5, 16)).shape))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "(2, 5, 16)"


# --- maths --------------------------------------------------------------------------------


def test_the_transformer_reads_as_it_is_printed_in_papers() -> None:
    found = maths_of(transformer_program(64, 4, 256), 64)
    assert found.plain == (
        "n1 = layernorm(x)\n"
        "a1 = x + concat(softmax(0.25 (n1 W1 (n1 W2)^T)) (n1 W3)) W4\n"
        "y = a1 + max(layernorm(a1) W5 + b1, 0) W6 + b2"
    )
    assert found.sizes[0] == "W1: 64 to 16, in each of 4 heads"
    assert found.sizes[-1] == "W6: 256 to 64"
    assert found.latex.startswith("\\begin{aligned}\nn_{1} &= ")
    assert r"\operatorname{softmax}" in found.latex


def test_what_primer_found_shows_in_its_maths() -> None:
    ez = maths_of(primer_ez_program(64, 4, 256), 64).plain
    assert "^2 W6" in ez
    assert ez.count("depthwise3") == 3
    primer = maths_of(primer_program(64, 4, 256), 64).plain
    assert "y = a2 + layernorm(max(a2 W5 + b1, 0)^2 W6 + b2)" in primer


def test_formulas_and_cells_have_lines_too() -> None:
    formula = maths_of(formulas.standard(4), 64)
    assert formula.plain.splitlines()[-1] == "y = concat(softmax(Q K^T / sqrt(d)) V) W_O"
    cell = maths_of(genes.evolved_encoder(4), 64).plain.splitlines()
    assert cell[0] == "s1 = [glu](layernorm(x)) + x"
    assert "to 4d" in cell[1]
    assert cell[-1].startswith("y = ")


@pytest.mark.parametrize("seed", range(20))
def test_brackets_balance_whatever_was_mutated(seed: int) -> None:
    rng = Random(seed)
    program = transformer_program(WIDTH, 4, 32)
    for _ in range(4):
        program = mutated(rng, program, WIDTH)
    found = maths_of(program, WIDTH)
    for opening, closing in ("()", "{}"):
        assert found.latex.count(opening) == found.latex.count(closing)
    assert found.plain.splitlines()[-1].startswith("y = ")


# --- drawings and the command -------------------------------------------------------------


@pytest.mark.parametrize(
    "layer",
    [primer_program(WIDTH, 4, 32), formulas.autobert_zero_10(4), genes.evolved_decoder(4)],
)
def test_a_drawing_is_xml_with_a_box_for_each_step(layer: Layer) -> None:
    drawn = ET.fromstring(graph_svg(layer, WIDTH, "a <title>"))
    boxes = [e for e in drawn.iter() if e.tag.endswith("rect")]
    assert len(boxes) == 1 + len(marks_of(layer, WIDTH))


def whole() -> Architecture:
    return parse("(sf)x1 in gpt2(16)").replace(layers=Stack((primer_ez_program(16, 4, 32),) * 2))


def test_equal_layers_are_explained_once_and_others_refused() -> None:
    assert [one.name for one in explained(whole())] == ["program 1"]
    with pytest.raises(InputError, match="no graph-shaped layer"):
        explained(parse("(sf)x2 in gpt2(16)"))


def test_the_command_prints_maths_and_writes_drawing_and_code(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    formwright = InProcess(monkeypatch, capsys)
    text = notation(whole())
    code, svg = tmp_path / "found.py", tmp_path / "found.svg"
    done = formwright("explain", text, "--code", str(code), "--svg", str(svg))
    assert done.returncode == 0, done.stderr
    assert "softmax(" in done.stdout
    assert "class Found" in code.read_text()
    assert svg.read_text().startswith("<svg")
    assert "\\begin{aligned}" in formwright("explain", text, "--latex").stdout
    refused = formwright("explain", text, "--layer", "3")
    assert refused.returncode == 2
    assert "give 1 to 1" in refused.stderr
    plain = formwright("explain", "(sf)x2 in gpt2(16)")
    assert (plain.returncode, len(plain.stderr.splitlines())) == (2, 1)
