"""The laws that every layer must obey, as a test case that plug-in authors can subclass.

    from formwright.testing import OperatorTestCase

    class TestMine(OperatorTestCase):
        node = MyLayer(heads=2)                          # a layer, or
        node = Attention(2, kind=MyMechanism())          # an attention with a mechanism

``breaks`` says which laws the operator does not keep by definition; an operator that claims to
break a law and keeps it all the same passes too.
"""

from typing import ClassVar

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from formwright.arch import (
    Architecture,
    Attention,
    Backbone,
    Decoder,
    Encoder,
    Frame,
    Layer,
    Residual,
    Sinusoid,
    Stack,
    Tag,
    from_json,
    notation,
    parse,
    to_json,
)
from formwright.cost import count
from formwright.errors import ShapeError
from formwright.model import Model, build
from formwright.ops.past import Past

_WIDTH, _LENGTH, _VOCAB, _TAGS = 16, 21, 30, 5


class OperatorTestCase:
    """Tests one layer in an encoder and, where it can stand there, in a decoder."""

    node: ClassVar[Layer]
    width: ClassVar[int] = _WIDTH
    breaks: ClassVar[frozenset[str]] = frozenset()
    exact_flops: ClassVar[bool] = True  # False only with an explanation beside it

    def test_notation_and_json_read_back(self) -> None:
        for arch in self.architectures():
            assert parse(notation(arch)) == arch
            assert from_json(to_json(arch)) == arch

    def test_parameters_are_counted_exactly(self) -> None:
        for arch in self.architectures():
            model = build(arch, device="meta")
            assert count(arch).params == sum(p.numel() for p in model.parameters())

    def test_flops_are_what_torch_counts(self) -> None:
        if not self.exact_flops:
            pytest.skip("this operator counts FLOPs in another way than torch")
        for arch in self.architectures():
            for length in (1, 7, _LENGTH):
                model = build(arch, device="meta")
                tokens = torch.zeros(2, length, dtype=torch.long, device="meta")
                with FlopCounterMode(display=False) as counter:
                    model(tokens)
                counted = count(arch, batch=2, length=length).flops
                assert counted == counter.get_total_flops(), (notation(arch), length)

    def test_every_length_works_and_gradients_are_finite(self) -> None:
        for arch in self.architectures():
            model = build(arch)
            for length in (1, 2, 5, _LENGTH):
                model.zero_grad()
                model(self.tokens(length)).square().sum().backward()
                for parameter in model.parameters():
                    assert parameter.grad is None or torch.isfinite(parameter.grad).all()

    def test_the_past_does_not_see_the_future(self) -> None:
        for model in self.decoders(law="causal"):
            tokens = self.tokens(_LENGTH)
            edited = tokens.clone()
            edited[:, 9:] = (edited[:, 9:] + 1) % _VOCAB
            torch.testing.assert_close(
                model(tokens)[:, :9], model(edited)[:, :9], rtol=0, atol=1e-12
            )

    def test_padding_does_not_change_real_tokens(self) -> None:
        if "padding" in self.all_breaks():
            pytest.skip("this operator sees padding by definition")
        for model in (self.built(arch) for arch in self.architectures()):
            tokens = self.tokens(_LENGTH)
            mask = torch.ones_like(tokens, dtype=torch.bool)
            mask[1, 12:] = False
            edited = torch.where(mask, tokens, (tokens + 3) % _VOCAB)
            a, b = model(tokens, mask), model(edited, mask)
            assert torch.isfinite(a).all()
            torch.testing.assert_close(a[mask], b[mask], rtol=0, atol=1e-12)

    def test_reading_in_pieces_equals_reading_at_once(self) -> None:
        for model in self.decoders(law="pieces"):
            tokens, past = self.tokens(_LENGTH), Past()
            pieces = [model(piece, past=past) for piece in tokens.split([8, 1, 1, 11], dim=1)]
            torch.testing.assert_close(torch.cat(pieces, 1), model(tokens), rtol=0, atol=1e-11)

    def test_the_same_seed_builds_the_same_layer(self) -> None:
        for arch in self.architectures():
            one, two = build(arch, seed=1).state_dict(), build(arch, seed=1).state_dict()
            assert all(torch.equal(one[name], two[name]) for name in one)

    # --- what the tests are made of -----------------------------------------------------

    def all_breaks(self) -> frozenset[str]:
        """Laws broken by definition: declared here or by the attention's mechanism."""
        own = self.node.kind.breaks if isinstance(self.node, Attention) else frozenset()
        return self.breaks | own

    def architectures(self) -> list[Architecture]:
        """The layer twice, in an encoder and, where it may stand there, in a decoder."""
        found = []
        for backbone in (Encoder, Decoder):
            try:
                found.append(self.around(backbone(self.width, position=Sinusoid())))
            except ShapeError:
                continue
        assert found, "the layer can stand neither in an encoder nor in a decoder"
        return found

    def around(self, backbone: Backbone) -> Architecture:
        """A small tagger of the layer; a branch where it keeps the width."""
        frame = Frame(_VOCAB, _LENGTH, Tag(_TAGS))
        bare = Architecture(Stack((self.node,)), backbone, frame=frame).check()
        layer = Residual(self.node) if bare.out_width == self.width else self.node
        return bare.replace(layers=Stack((layer, layer)[: 1 + isinstance(layer, Residual)])).check()

    def decoders(self, law: str) -> list[Model]:
        """The built decoders, unless the operator breaks the law by definition."""
        if law in self.all_breaks():
            pytest.skip(f"this operator does not keep the law {law!r} by definition")
        archs = [a for a in self.architectures() if isinstance(a.backbone, Decoder)]
        return [self.built(arch) for arch in archs]

    @staticmethod
    def built(arch: Architecture) -> Model:
        """In float64, with all weights drawn afresh so that nothing is zero by chance."""
        model = build(arch, dtype=torch.float64).eval()
        generator = torch.Generator().manual_seed(0)
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.copy_(torch.randn(parameter.shape, generator=generator) * 0.3)
        return model

    @staticmethod
    def tokens(length: int) -> torch.Tensor:
        """Random symbols (2, length), always the same."""
        return torch.randint(_VOCAB, (2, length), generator=torch.Generator().manual_seed(length))
