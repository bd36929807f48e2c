"""What cannot be built is refused before anything is built, with a message that helps."""

import pytest

from formwright.arch import Architecture, Attention, Decoder, FeedForward, Stack, parse
from formwright.arch.node import Node, node
from formwright.errors import InputError, NotationError, ShapeError, SpecError, UnknownName


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("s where s=residual(attention(4, kv_heads=3)) in gpt2(64)", "kv_heads must divide"),
        ("m in gpt2(64)", "needs an encoder"),
        ("c where c=residual(separable(4)) in bert(64)", "must be odd"),
        ("c where c=residual(lightconv(3, heads=7)) in gpt2(64)", "divides the width"),
        ("p where p=parallel([linear(3), linear(4)]) in gpt2(64)", "cannot be joined by sum"),
        ("p where p=parallel([]) in gpt2(64)", "no branch"),
        ("s where s=residual(attention(2, key=3)) in llama(64)", "odd"),
        ("s in decoder(64, position=rotary(channels=66))", "cannot turn 66 channels of heads of"),
        (
            "s where s=residual(attention(2, query_key=shared, head_norm=1e-6)) in gpt2(64)",
            "needs query_key=separate",
        ),
        (
            "s where s=residual(attention(2, longformer(8, 1), head_norm=1e-6)) in bert(64)",
            "know no head_norm",
        ),
        ("s t where t=residual(attention(4)) in transformer_xl(64)", "differ in heads"),
        ("s where s=residual(attention(2, query_key=shared, kv_heads=1)) in gpt2(64)", "kv_heads"),
        ("(sf)x2 | (smf)x2 in gpt2(64)", "seq2seq"),
        ("(sf)x2 in translator(64)", "two stacks"),
        ("l | s where l=residual(linear(3)) in translator(64)", "encoder: layer 1 of 1"),
        ("s | l where l=residual(linear(3)) in translator(64)", "decoder: layer 1 of 1"),
        ("l where l=linear(9) in gpt2(64) for frame(9, 9, lm)", "tied"),
        ("s in decoder(64, embedding=embedding(clusters=[9, 5])) for frame(10, 9, lm)", "rise"),
        (
            "s in decoder(4, embedding=embedding(clusters=[2, 4], divide=4)) for frame(10, 9, lm)",
            "cannot be divided",
        ),
        ("s | m in translator(64) for frame(9, 9, match)", "match head"),
    ],
)
def test_parts_that_do_not_fit_are_refused(text: str, says: str) -> None:
    with pytest.raises(NotationError) as caught:
        parse(text)
    assert says in str(caught.value)


def test_the_message_says_which_layer_is_wrong() -> None:
    arch = Architecture(Stack((Attention(2), FeedForward(4), Attention(4, kv_heads=3))), Decoder(8))
    with pytest.raises(ShapeError, match="layer 3 of 3"):
        arch.check()


def test_fields_are_checked_when_a_node_is_made() -> None:
    with pytest.raises(SpecError, match="heads must be a whole number of at least 1"):
        Attention(heads=0)
    with pytest.raises(SpecError, match="heads must be"):
        Attention(heads=True)
    with pytest.raises(SpecError, match="activation must be one of relu"):
        FeedForward(4, activation="rellu")  # type: ignore[arg-type]
    with pytest.raises(UnknownName, match="Did you mean 'heads'"):
        Attention(2).replace(head=3)


def test_a_name_is_declared_once() -> None:
    with pytest.raises(InputError, match="'attention' is already registered by formwright"):

        @node("attention")
        class Another(Node):
            pass


def test_nodes_are_plain_hashable_data() -> None:
    assert Attention(2) == Attention(2)
    assert len({Attention(2), Attention(2), Attention(4)}) == 2
    with pytest.raises(AttributeError):
        Attention(2).heads = 3  # type: ignore[misc]
