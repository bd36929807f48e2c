"""Drawings: nothing is lost, nothing is too wide, nothing breaks the page it stands in."""

import re
from xml.etree import ElementTree

import pytest

from formwright.arch import (
    GLU,
    Activation,
    Architecture,
    Attention,
    Classify,
    Conv,
    Decoder,
    DynamicConv,
    Embedding,
    Encoder,
    FeedForward,
    Frame,
    Identity,
    LanguageModel,
    Layer,
    LayerNorm,
    Learned,
    Linear,
    Parallel,
    Residual,
    SeparableConv,
    Seq2Seq,
    Stack,
    notation,
    parse,
)
from formwright.draw import Block, Run, compare_text, draw_svg, draw_text, outline, strip_svg
from formwright.errors import InputError

WORDS = Frame(50257, 1024, LanguageModel())
SVG = "{http://www.w3.org/2000/svg}"


def nas_bert() -> Architecture:
    layers: list[Layer] = []
    before = 128
    for width, inner in [
        (128, SeparableConv(3, units=2)),
        (192, Attention(3)),
        (192, FeedForward(768)),
        (512, Identity()),
        (512, FeedForward(2048)),
    ]:
        layers += [Linear(width)] if width != before else []
        layers.append(Residual(inner, place="post"))
        before = width
    backbone = Encoder(128, Embedding(size=64, segments=2), position=Learned(), norm=None)
    return Architecture(Stack(tuple(layers)), backbone, frame=Frame(30522, 512, Classify(2)))


def evolved() -> Architecture:
    wide = Stack((Linear(2048), Activation("relu")))
    near = Stack((Conv(3, out=256), Activation("relu")))
    cell = Stack((Parallel((wide, near), pad=True), LayerNorm(), SeparableConv(9, out=256)))
    encoder = (Residual(GLU()), Residual(cell, pad=True), Residual(Attention(8)))
    looks = Parallel((Attention(16), Attention(8, over="source")))
    decoder = (Residual(looks), Residual(Attention(8, over="source")), Residual(FeedForward(2048)))
    return Architecture(Stack(decoder * 3), Seq2Seq(512), Stack(encoder * 3), WORDS)


def many_attentions() -> Architecture:
    kinds = (
        *[Attention(1, key=64)] * 3,
        Attention(2, query_key="none"),
        Attention(4, conv=3),
        Attention(8, query_key="shared", value=32),
        DynamicConv(7, heads=8),
        SeparableConv(31),
    )
    mix = Residual(Parallel(kinds, join="mean"), place="post")
    return Architecture(Stack((mix, Residual(FeedForward(2048)), Attention(8))), Encoder(512))


def deep() -> Architecture:
    layer: Layer = Attention(8)
    for _ in range(12):
        layer = Parallel((Stack((layer, LayerNorm())), FeedForward(1024)), join="mean")
    return Architecture(Stack((Residual(layer),)), Decoder(512))


ARCHS: dict[str, Architecture] = {
    "par": parse("(sfff)x6(f)x8"),
    "par-bound": parse("(sfff)x6(f)x8").bind(Frame(267735, 192, LanguageModel())),
    "sandwich": parse("(s)x6(sf)x10(f)x6"),
    "gpt2": parse("(sf)x12 in gpt2(768)").bind(WORDS),
    "llama": parse(
        "(sf)x30 where s=residual(attention(9, kv_heads=3, bias=false), norm=rmsnorm),"
        "f=residual(feedforward(1536, silu, gate=true, bias=false), norm=rmsnorm)"
        " in llama(576) for frame(49152, 8192, lm)"
    ),
    "bert": parse("(sf)x12 in bert(768) for frame(30522, 512, mlm)"),
    "translator": parse("(sf)x6 | (smf)x6 in translator(512) for frame(37000, 256, lm)"),
    "folded-twice": parse("((sfc)x2 f)x3 in gpt2(768)"),
    "nas-bert": nas_bert(),
    "evolved": evolved(),
    "many-attentions": many_attentions(),
    "deep": deep(),
    "empty": Architecture(Stack(()), Decoder(64)),
}
every_arch = pytest.mark.parametrize("name", ARCHS)


def texts(svg: str) -> list[str]:
    return [element.text or "" for element in ElementTree.fromstring(svg).iter(f"{SVG}text")]


def rows(drawing: str) -> list[str]:
    return [line for line in drawing.splitlines() if re.search(r"│ \w  \w", line)]


def written(run: Run) -> str:
    """The fold of an outline, written as notation writes it."""
    body = "".join(p.letter if isinstance(p, Block) else written(p) for p in run.parts)
    return f"({body})x{run.times}" if run.times > 1 else body


# --- outline -----------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["par", "sandwich", "gpt2", "translator", "folded-twice"])
def test_repeats_are_folded_as_notation_prints_them(name: str) -> None:
    printed = notation(ARCHS[name]).split(" where ")[0]
    assert " | ".join(written(stack.run) for stack in outline(ARCHS[name]).stacks) == printed


@every_arch
def test_unfolding_an_outline_gives_every_layer(name: str) -> None:
    arch = ARCHS[name]
    stacks = [stack for _, stack, _ in arch.stacks()]
    assert [len(s.cells()) for s in outline(arch).stacks] == [len(s.layers) for s in stacks]


def test_equal_layers_at_different_widths_do_not_share_their_numbers() -> None:
    layers = Stack((Linear(256), Residual(Attention(4))) * 4)
    (stack,) = outline(Architecture(layers, Decoder(512))).stacks
    linear, attention = stack.run.blocks()
    assert stack.run.parts == (Run((linear, attention), 4),)
    assert linear.facts == ()  # 512 to 256, then 256 to 256
    assert attention.facts == ("4 heads × 64",)  # noqa: RUF001


def test_equal_branches_are_counted_not_repeated() -> None:
    block = outline(ARCHS["many-attentions"]).stacks[0].cells()[0]
    assert [run.times for run in block.branches] == [3, 1, 1, 1, 1, 1]


def test_branches_that_are_concatenated_keep_their_order() -> None:
    mix = Parallel((Linear(8), GLU(), Linear(8)), join="concat")
    block = outline(Architecture(Stack((mix,)), Decoder(8))).stacks[0].cells()[0]
    assert [next(run.blocks()).title for run in block.branches] == [
        "linear map",
        "gated linear unit",
        "linear map",
    ]


# --- text --------------------------------------------------------------------------------


@every_arch
@pytest.mark.parametrize("width", [40, 61, 80, 120])
@pytest.mark.parametrize("ascii", [False, True])
def test_no_line_is_wider_than_asked(name: str, width: int, ascii: bool) -> None:
    lines = draw_text(ARCHS[name], width, ascii=ascii).splitlines()
    assert max(map(len, lines)) <= width


@every_arch
def test_boxes_are_closed_and_stand_in_line(name: str) -> None:
    lines = draw_text(ARCHS[name]).splitlines()
    (edge,) = {line.index("┐") for line in lines if "┌" in line and "┐" in line}
    boxed = [line for line in lines if re.match(r"( .{3})?│ ", line)]
    assert boxed
    assert all(line[edge] == "│" for line in boxed)


@every_arch
def test_ascii_drawings_hold_only_plain_characters(name: str) -> None:
    drawing = draw_text(ARCHS[name], ascii=True)
    assert drawing.isascii()
    assert "?" not in drawing  # everything has a plain counterpart


@every_arch
def test_every_drawn_layer_has_its_row(name: str) -> None:
    drawn = [b for stack in outline(ARCHS[name]).stacks for b in stack.run.blocks()]
    found = rows(draw_text(ARCHS[name]))
    assert len(found) == len(drawn)
    for line, block in zip(found, drawn, strict=True):
        assert f"│ {block.letter}  {block.title}" in line


def test_a_drawing_says_the_numbers_that_matter() -> None:
    llama = draw_text(ARCHS["llama"], ascii=True)
    for words in ("9 heads x 64, 3 kv heads", "1536, silu, gated", "x 30", "rotary", "RMS norm"):
        assert words in llama
    assert "tied to the embedding" in llama
    par = draw_text(ARCHS["par-bound"], ascii=True)
    for words in ("x 6", "x 8", "267,735 symbols x 512", "4 clusters", "pre-norm (layer norm)"):
        assert words in par


def test_width_changes_are_shown() -> None:
    drawing = draw_text(ARCHS["nas-bert"])
    for words in ("64 → 128", "128 → 192", "192 → 512", "post-norm"):
        assert words in drawing


def test_a_layer_without_a_residual_branch_is_marked() -> None:
    *_, last = rows(draw_text(ARCHS["many-attentions"]))
    assert "no residual" in last
    assert "no residual" not in draw_text(ARCHS["nas-bert"])  # nobody expects one around a map


def test_the_encoder_is_linked_to_every_layer_that_reads_it() -> None:
    lines = draw_text(ARCHS["evolved"]).splitlines()
    linked = [line for line in lines if "►" in line]
    assert ["parallel" in linked[0], "cross-attention" in linked[1]] == [True, True]
    assert len(linked) == 2
    assert "►" not in draw_text(ARCHS["gpt2"])


def test_what_is_too_deep_is_counted_instead_of_drawn() -> None:
    drawing = draw_text(ARCHS["deep"])
    assert "layers inside" in drawing
    assert len(drawing.splitlines()) < 60


def test_a_sheet_too_narrow_to_draw_on_is_refused() -> None:
    with pytest.raises(InputError, match="at least 40"):
        draw_text(ARCHS["par"], 39)


# --- comparing ---------------------------------------------------------------------------


def test_strips_have_one_letter_per_layer() -> None:
    lines = compare_text({"par": ARCHS["par"], "tr": ARCHS["translator"]}).splitlines()
    assert lines[1].split() == ["par", *("sfff" * 6 + "f" * 8)]
    assert lines[2].split() == ["tr", *"sfsfsfsfsfsf", "│", *("smf" * 6)]
    assert "par  32 layers = 6 s + 26 f" in lines


@pytest.mark.parametrize("ascii", [False, True])
def test_strips_of_long_models_are_broken_not_cut(ascii: bool) -> None:
    archs = [ARCHS["llama"], ARCHS["par"], ARCHS["evolved"]]
    text = compare_text(archs, ascii=ascii)
    assert max(map(len, text.splitlines())) <= 80
    letters = "".join(
        line[1:] for line in text.splitlines() if line.startswith("A") and "=" not in line
    )
    assert letters.replace(" ", "") == "sf" * 30


def test_names_cannot_break_a_strip() -> None:
    text = compare_text({"evil\n\x1b[2J" + "w" * 200: ARCHS["par"], "漢字" * 20: ARCHS["gpt2"]})
    assert "\x1b" not in text
    broad = [len(line) + sum(c in "漢字" for c in line) for line in text.splitlines()]
    assert max(broad) <= 80
    assert "sfsf" in text


def test_colour_changes_no_letter() -> None:
    archs = [ARCHS["par"], ARCHS["evolved"]]
    coloured = compare_text(archs, colour=True)
    assert "\x1b[" in coloured
    assert re.sub(r"\x1b\[[\d;]*m", "", coloured) == compare_text(archs)


# --- svg ---------------------------------------------------------------------------------


@every_arch
def test_svg_is_xml_and_says_what_it_is(name: str) -> None:
    root = ElementTree.fromstring(draw_svg(ARCHS[name], title=name))
    assert root.tag == f"{SVG}svg"
    assert root.findtext(f"{SVG}title") == name
    assert outline(ARCHS[name]).heading in (root.findtext(f"{SVG}desc") or "")


@every_arch
def test_svg_is_self_contained_and_knows_the_dark(name: str) -> None:
    drawing = draw_svg(ARCHS[name])
    assert "prefers-color-scheme:dark" in drawing
    for outside in ("<script", "href", "url(", "@import", "<image", " id="):
        assert outside not in drawing


@every_arch
def test_every_layer_stands_in_the_svg(name: str) -> None:
    found = texts(draw_svg(ARCHS[name]))
    drawn = [b for stack in outline(ARCHS[name]).stacks for b in stack.run.blocks()]
    for title in {block.title for block in drawn}:
        assert found.count(title) >= sum(block.title == title for block in drawn)


@every_arch
def test_nothing_is_drawn_outside_the_page(name: str) -> None:
    root = ElementTree.fromstring(draw_svg(ARCHS[name]))
    width, height = float(root.attrib["width"]), float(root.attrib["height"])
    for shape in root.iter(f"{SVG}rect"):
        x, y = float(shape.get("x", 0)), float(shape.get("y", 0))
        assert 0 <= x <= x + float(shape.attrib["width"]) <= width
        assert 0 <= y <= y + float(shape.attrib["height"]) <= height


def test_broader_blocks_are_larger_inside() -> None:
    root = ElementTree.fromstring(draw_svg(ARCHS["gpt2"]))
    breadth = {
        (shape.findtext(f"{SVG}title") or "").split(",")[0]: float(shape.attrib["width"])
        for shape in root.iter(f"{SVG}rect")
    }
    assert breadth["feed-forward"] > breadth[["self-attention", "12", "heads"][0]]


HOSTILE = "</title><script>alert('x')</script>&amp;\"]]>\x00\x1b\ud800<"


def test_hostile_titles_stay_text() -> None:
    root = ElementTree.fromstring(draw_svg(ARCHS["par"], title=HOSTILE))
    assert not list(root.iter(f"{SVG}script"))
    shown = root.findtext(f"{SVG}title") or ""
    assert shown.startswith("</title><script>alert('x')</script>&amp;\"]]>")
    assert "\x00" not in shown


def test_hostile_names_in_a_strip_stay_text() -> None:
    root = ElementTree.fromstring(strip_svg({HOSTILE: ARCHS["par"]}))
    assert not list(root.iter(f"{SVG}script"))


def test_a_strip_has_one_cell_per_layer_of_every_model() -> None:
    twins = {"x" * 50 + end: ARCHS["gpt2"] for end in "ab"}  # names that are cut to the same
    strips = strip_svg({"par": ARCHS["par"], "tr": ARCHS["translator"]} | twins)
    root = ElementTree.fromstring(strips)
    cells = [shape for shape in root.iter(f"{SVG}rect") if shape.find(f"{SVG}title") is not None]
    assert len(cells) == 32 + 30 + 24 + 24
    kinds = [cell.attrib["class"] for cell in cells[:8]]
    assert kinds == ["fw-attention", *["fw-feed-forward"] * 3] * 2


def test_comparing_nothing_is_refused() -> None:
    with pytest.raises(InputError, match="nothing to compare"):
        compare_text([])
    with pytest.raises(InputError, match="nothing to compare"):
        strip_svg({})
