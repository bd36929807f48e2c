"""The one-line notation: read, written, and its errors."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.helpers import ZOO_FAMILIES, given_architecture

from formwright.arch import (
    Architecture,
    Attention,
    FeedForward,
    Identity,
    Layer,
    Residual,
    arch_id,
    notation,
    parse,
    short,
)
from formwright.arch.node import nodes
from formwright.arch.style import WIKITEXT_FRAME, style, style_names, usual_heads
from formwright.errors import FormwrightError, NotationError


@given_architecture(examples=300)
def test_what_is_written_reads_back_the_same(arch: Architecture) -> None:
    assert parse(notation(arch)) == arch


def test_pars_string_means_what_the_paper_counts() -> None:
    arch = parse("(sfff)x6(f)x8")
    kinds = [type(layer.inner) for layer in arch.layers.layers if isinstance(layer, Residual)]
    assert len(kinds) == 32
    assert kinds.count(Attention) == 6
    assert kinds == ([Attention, *[FeedForward] * 3] * 6) + [FeedForward] * 8
    assert short(arch) == "(sfff)x6(f)x8"


@pytest.mark.parametrize(
    ("written", "means"),
    [
        ("sfsf", "(sf)x2"),
        ("s f  s f", "(sf)x2"),
        ("((sf)x2 f)x2", "sfsffsfsff"),
        ("sfff(f)x2", "s(f)x5"),
        ("(s)x2(sf)x3", "ss sf sf sf"),
    ],
)
def test_different_ways_of_writing_one_order(written: str, means: str) -> None:
    assert parse(written) == parse(means)
    assert arch_id(parse(written)) == arch_id(parse(means))


def test_letters_can_be_defined_and_layers_written_out() -> None:
    arch = parse("s g f identity where g=residual(separable(5)) in gpt2(64)")
    assert [type(layer).__name__ for layer in arch.layers.layers] == [
        *["Residual"] * 3,
        "Identity",
    ]
    assert arch.layers.layers[3] == Identity()


def test_a_definition_may_use_an_earlier_one() -> None:
    arch = parse("b where a=attention(2), b=residual(a) in gpt2(64)")
    assert arch.layers.layers == (Residual(Attention(2)),)


@pytest.mark.parametrize("name", style_names())
def test_every_style_gives_a_valid_transformer(name: str) -> None:
    two_stacks = "(sf)x2 | (smf)x2" if name.endswith("translator") else "(sf)x2"
    arch = parse(f"{two_stacks} in {name}(64)")
    assert arch.backbone.width == 64
    assert parse(notation(arch)) == arch


def test_heads_divide_the_width_and_are_about_64_wide() -> None:
    assert [usual_heads(w) for w in (512, 768, 1024, 256, 96, 7)] == [8, 12, 16, 8, 3, 1]


@pytest.mark.parametrize(
    ("text", "column", "says"),
    [
        ("(sff", 1, "never closed"),
        ("(sq)x3", 3, "'q' is not a layer"),
        ("", 1, "no layers"),
        ("(sf)x0", 5, "between 1 and"),
        ("(sf)x99999999999", 5, "between 1 and"),
        ("((((s)x9999)x9999)x9999)x9999", 2, "More than"),
        ("(sf)x2)", 7, "does not begin a layer"),
        ("(sf)x2 in gpt3", 11, "Did you mean 'gpt2'"),
        ("(sf)x2 in gpt2(0)", 16, "at least 1"),
        ("(sf)x2 in gpt2(64, depth=2)", 20, "takes width, heads and inner"),
        ("s where s=attention(0)", 11, "heads must be a whole number"),
        ("s where s=residual(attention(heds=2))", 30, "no field 'heds'"),
        ("s where s=residual(atention(2))", 20, "Did you mean 'attention'"),
        ("s where x=identity", 9, "Expected a letter"),
        ("s where s=identity in decoder(64) for lm", 39, "cannot stand here"),
        ("s where s=residual(attention(2), norm=attention(2))", 11, "norm must be"),
        (
            "s where s=residual(attention(1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14))",
            73,
            "only",
        ),
        ("s where s=residual(attention(2, heads=3))", 33, "twice"),
        ("s where s=residual()", 11, "needs inner"),
        ("s where s=residual([", 20, "never closed"),
        ("(sf)x2 in decoder(64) for frame(9, 9, lm) and more", 43, "Reading stops"),
    ],
)
def test_an_error_points_at_the_column(text: str, column: int, says: str) -> None:
    with pytest.raises(NotationError) as caught:
        parse(text)
    assert caught.value.column + 1 == column, str(caught.value)
    assert says in str(caught.value)
    pointer = str(caught.value).splitlines()[-1]
    assert pointer == "  " + " " * (column - 1) + "^"


def test_an_architecture_that_cannot_be_built_says_why() -> None:
    with pytest.raises(NotationError, match="3 channels beside a stream of 512"):
        parse("s where s=residual(linear(3))")


def test_deep_nesting_is_refused_not_overflowed() -> None:
    with pytest.raises(NotationError, match="deep"):
        parse("(" * 5000 + "s" + ")" * 5000)


@given(st.text(alphabet="sfcmx123(){}[]|=, wherinfogpt2deco", max_size=60))
def test_any_text_gives_an_architecture_or_a_clear_error(text: str) -> None:
    try:
        arch = parse(text)
    except FormwrightError:
        return
    assert parse(notation(arch)) == arch


def test_no_name_of_a_node_can_be_spelled_with_the_letters_the_writer_uses() -> None:
    written = set("smfcglpnik")
    layers = [name for name, cls in nodes.items() if issubclass(cls, Layer)]
    assert not [name for name in layers if set(name) <= written and len(name) > 2]


def test_a_frame_is_bound_later() -> None:
    arch = parse("(sf)x2 in gpt2(64)")
    assert arch.frame is None
    bound = arch.bind(WIKITEXT_FRAME)
    assert " for frame(267735, 192, lm)" in notation(bound)
    assert parse(notation(bound)) == bound


@pytest.mark.parametrize("text", ZOO_FAMILIES.values(), ids=ZOO_FAMILIES.keys())
def test_every_family_reads_back(text: str) -> None:
    assert parse(notation(parse(text))) == parse(text)


def test_a_style_takes_sizes() -> None:
    wide = style("gpt2", 64, heads=4, inner=100)
    assert wide.letters["s"] == Residual(Attention(4))
    assert wide.letters["f"] == Residual(FeedForward(100, "gelu_tanh"))


def test_usual_heads_are_found_at_once_for_any_width() -> None:
    def slowly(width: int) -> int:
        wished = 64 if width >= 512 else 32
        divisors = [h for h in range(1, width + 1) if width % h == 0]
        return min(divisors, key=lambda h: (abs(width / h - wished), h))

    for width in (*range(1, 300), 509, 512, 768, 1009, 1024, 1536):
        assert usual_heads(width) == slowly(width)
    huge = 10**20 - 1
    assert huge % usual_heads(huge) == 0


@pytest.mark.parametrize("text", ["(sf)xN", "sf in gpt2(N)", "s in gpt2(64) for frame(N, 8, lm)"])
def test_numbers_of_thousands_of_digits_are_refused(text: str) -> None:
    with pytest.raises(NotationError, match=r"repeat must lie|at most 40 digits"):
        parse(text.replace("N", "9" * 5000))
