"""Every operator through the conformance suite that plug-in authors use."""

from dataclasses import dataclass

import pytest

from formwright.arch import (
    GLU,
    Activation,
    Attention,
    BigBird,
    Conv,
    DepthwiseConv,
    DynamicConv,
    FeedForward,
    Identity,
    Layer,
    LayerNorm,
    LightConv,
    Linear,
    LinearTransformer,
    Linformer,
    Local,
    Longformer,
    Mechanism,
    Parallel,
    Performer,
    PrimerNorm,
    Reformer,
    Residual,
    RMSNorm,
    SeparableConv,
    Sparse,
    Stack,
    Synthesizer,
)
from formwright.arch.node import nodes
from formwright.errors import ShapeError
from formwright.ops.base import operators
from formwright.testing import OperatorTestCase


def shared(kind: Mechanism, **fields: bool) -> Attention:
    return Attention(2, kind, query_key="shared", **fields)  # type: ignore[arg-type]


ATTENTIONS: dict[str, Attention] = {
    "softmax": Attention(4, kv_heads=2),
    "softmax-mean": Attention(4, query_key="none"),
    "softmax-primer": Attention(4, query_key="solo", conv=3),
    "local": Attention(2, Local(8)),
    "local-lra": Attention(2, Local(8, lra=True)),
    "local-grouped": Attention(4, Local(6), kv_heads=2, value=3),
    "longformer": Attention(2, Longformer(6)),
    "longformer-wide": Attention(2, Longformer(100)),
    "longformer-global": Attention(2, Longformer(6, global_tokens=2)),
    "longformer-lra": Attention(2, Longformer(7, lra=True)),
    "sparse": Attention(2, Sparse(5, summary=2)),
    "sparse-lra": Attention(2, Sparse(5, summary=2, lra=True)),
    "bigbird": Attention(2, BigBird(2, random_blocks=2)),
    "bigbird-short": Attention(2, BigBird(16)),
    "linear": Attention(2, LinearTransformer()),
    "linear-convolved": Attention(2, LinearTransformer(), conv=3, value=5),
    "linear-lra": Attention(2, LinearTransformer(lra=True)),
    "performer": Attention(2, Performer()),
    "performer-favor": Attention(2, Performer("favor", random_features=6)),
    "performer-lra": Attention(2, Performer(lra=True)),
    "linformer": Attention(2, Linformer(4)),
    "linformer-own-values": Attention(2, Linformer(4, shared=False)),
    "linformer-lra": Attention(2, Linformer(4, lra=True)),
    "reformer": shared(Reformer(4)),
    "reformer-two-hashes": shared(Reformer(4, hashes=2, buckets=6)),
    "reformer-lra": shared(Reformer(lra=True), project_out=False),
    "synthesizer": Attention(2, Synthesizer(3)),
    "synthesizer-alone": Attention(2, Synthesizer(3), query_key="none"),
    "synthesizer-lra": Attention(2, Synthesizer(3, lra=True), query_key="none"),
}
LAYERS: dict[str, Layer] = {
    "identity": Identity(),
    "stack": Stack((Linear(8), Activation("gelu"), Linear(16))),
    "residual": Residual(FeedForward(8), "after"),
    "parallel": Parallel((Linear(16), Linear(4)), "multiply", pad=True),
    "layernorm": LayerNorm(mean=0.5),
    "rmsnorm": RMSNorm(),
    "primernorm": PrimerNorm(),
    "linear": Linear(7),
    "activation": Activation("squared_relu"),
    "feedforward": FeedForward(24, "silu", gate=True),
    "glu": GLU(),
    "conv": Conv(3),
    "depthwise": DepthwiseConv(5, bias=True),
    "separable": SeparableConv(3, units=2),
    "lightconv": LightConv(3, heads=4),
    "dynamicconv": DynamicConv(3, heads=2),
}
EXAMPLES = {**LAYERS, **ATTENTIONS}


@pytest.mark.parametrize("example", EXAMPLES, scope="class")
class TestEveryOperator(OperatorTestCase):
    @pytest.fixture(autouse=True)
    def chosen(self, example: str) -> None:
        self.node = EXAMPLES[example]  # type: ignore[misc]


def test_every_node_that_is_an_operator_is_implemented() -> None:
    for name, cls in nodes.items():
        if issubclass(cls, Layer | Mechanism):
            assert name in operators, name


def test_every_plain_operator_has_an_example_here() -> None:
    tested = {type(n) for example in EXAMPLES.values() for _, n in example.walk()}
    graphs = {"cell", "connected", "formula", "program"}  # these have tests of their own
    for cls in map(nodes.get, operators):
        if issubclass(cls, Layer | Mechanism) and cls.__module__.startswith("formwright.arch"):
            assert cls in tested or cls.NAME in graphs | {"reducedconv"}, cls.NAME


def test_the_suite_finds_an_operator_that_breaks_the_laws() -> None:
    # The Long Range Arena form of linear attention sees padding. Claim that it does not.
    class Honest(OperatorTestCase):
        node = ATTENTIONS["linear"]

    @dataclass
    class Claim:
        breaks: frozenset[str] = frozenset()

    class Liar(OperatorTestCase):
        node = ATTENTIONS["linear-lra"]

        def all_breaks(self) -> frozenset[str]:
            return Claim().breaks

    Honest().test_padding_does_not_change_real_tokens()
    with pytest.raises(AssertionError):
        Liar().test_padding_does_not_change_real_tokens()


def test_what_a_mechanism_cannot_do_is_refused_before_building() -> None:
    cases = {
        "bigbird": "looks ahead|sees the future",
        "linformer": "looks ahead|sees the future",
        "reformer-lra": "no causal form",
    }
    for name, says in cases.items():
        with pytest.raises(ShapeError, match=says):
            EXAMPLES[name].out_width(site(causal=True))
    with pytest.raises(ShapeError, match="query_key=shared"):
        Attention(2, Reformer()).out_width(site())
    with pytest.raises(ShapeError, match="over=source needs softmax"):
        Attention(2, Local(), over="source").out_width(site(source=16))


def site(**fields: object):  # type: ignore[no-untyped-def]
    from formwright.arch import Site

    return Site(width=16, longest=21, **fields)  # type: ignore[arg-type]
