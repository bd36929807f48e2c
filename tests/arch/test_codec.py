"""JSON, ids and differences."""

import json
import pickle
import subprocess
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.helpers import ZOO_FAMILIES, given_architecture

from formwright.arch import (
    Architecture,
    Attention,
    Identity,
    Residual,
    Stack,
    arch_id,
    canonical,
    diff,
    from_json,
    parse,
    to_json,
)
from formwright.arch.counting import count
from formwright.errors import FormatError, FormwrightError


@given_architecture(examples=300)
def test_json_reads_back_the_same(arch: Architecture) -> None:
    assert from_json(to_json(arch)) == arch
    assert from_json(to_json(arch, indent=2)) == arch
    assert arch_id(from_json(to_json(arch))) == arch_id(arch)


@given_architecture(examples=200)
def test_the_canonical_form_is_its_own_canonical_form(arch: Architecture) -> None:
    once = canonical(arch)
    assert canonical(once) == once
    assert arch_id(once) == arch_id(arch)


def test_a_node_sent_to_another_process_is_equal_to_one_made_there() -> None:
    arch = parse("(sf)x2 in gpt2(64) for frame(99, 16, lm)")
    hash(arch), count(arch)  # which it remembers, but hashes of words differ between processes
    code = (
        "import pickle, sys; from formwright.arch import from_json; "
        f"made = from_json({to_json(arch)!r}); "
        "sent = pickle.load(sys.stdin.buffer); print(sent in {made})"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], input=pickle.dumps(arch), capture_output=True, check=True
    )
    assert done.stdout.split() == [b"True"]


def test_ids_do_not_change_between_versions() -> None:
    # Written down once. If this fails, a default or the canonical form has changed: old studies
    # would no longer find their architectures.
    assert arch_id(parse("(sfff)x6(f)x8")) == "6a571891856db5e5"
    assert arch_id(parse(ZOO_FAMILIES["translator"])) == "cf7d444907fc6e56"


def test_equal_meanings_share_an_id() -> None:
    arch = parse("sfsf in gpt2(64)")
    layers = arch.layers.layers
    nested = arch.replace(layers=Stack((Stack(layers[:2]), Identity(), Stack(layers[2:]))))
    assert nested != arch
    assert arch_id(nested) == arch_id(arch)
    grouped = parse("s where s=residual(attention(4, kv_heads=4)) in gpt2(64)")
    plain = parse("s where s=residual(attention(4)) in gpt2(64)")
    assert arch_id(grouped) == arch_id(plain)


def test_whole_numbers_and_fractions_of_equal_value_share_an_id() -> None:
    texts = [f"n where n=layernorm(mean={mean}) in gpt2(64)" for mean in ("0", "0.0", "-0.0")]
    assert len({arch_id(parse(text)) for text in texts}) == 1
    default = parse("n where n=layernorm in gpt2(64)")
    assert arch_id(parse("n where n=layernorm(mean=1) in gpt2(64)")) == arch_id(default)
    out = [f"f where f=feedforward(4{bias}) in gpt2(64)" for bias in ("", ", out_bias=true")]
    assert len({arch_id(parse(text)) for text in out}) == 1


def test_different_meanings_have_different_ids() -> None:
    texts = ["sf", "fs", "ss", "sff", "sf in gpt2(64)", "sf in gpt2(65)", "sf in bert(64)"]
    assert len({arch_id(parse(text)) for text in texts}) == len(texts)


@pytest.mark.parametrize(
    ("document", "says"),
    [
        ("nonsense", "not JSON"),
        ("[]", "formwright"),
        ('{"formwright": 99}', "version 99"),
        ('{"formwright": 1}', "must hold"),
        ('{"formwright": 1, "architecture": {"node": "residul"}}', "Did you mean 'residual'"),
        ('{"formwright": 1, "architecture": {"nod": "x"}}', '"node" key'),
        ('{"formwright": 1, "architecture": {"node": "architecture", "deep": 1}}', "no field"),
        ('{"formwright": 1, "architecture": {"node": "architecture"}}', "missing"),
        ('{"formwright": 1, "architecture": {"node": "attention", "heads": "8"}}', "heads"),
        ('{"formwright": 1, "architecture": ' + "[" * 500 + "]" * 500 + "}", "deep"),
        ("[" * 100_000, "not JSON"),
    ],
)
def test_a_wrong_document_is_named_not_guessed(document: str, says: str) -> None:
    with pytest.raises(FormatError) as caught:
        from_json(document)
    assert says in str(caught.value)


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_a_damaged_document_gives_only_our_errors(data: st.DataObject) -> None:
    text = to_json(parse(ZOO_FAMILIES["llama"]))
    at = data.draw(st.integers(0, len(text) - 1))
    cut = data.draw(st.integers(0, 5))
    damaged = text[:at] + data.draw(st.text(max_size=3)) + text[at + cut :]
    try:
        arch = from_json(damaged)
    except FormwrightError:
        return
    assert from_json(to_json(arch)) == arch


def test_a_number_of_thousands_of_digits_is_refused() -> None:
    with pytest.raises(FormatError, match="This is not JSON"):
        from_json(f'{{"formwright": {"9" * 5000}}}')


def test_json_is_plain_and_small() -> None:
    document = json.loads(to_json(parse("s in gpt2(64)")))
    assert document["formwright"] == 1
    layer = document["architecture"]["layers"]["layers"][0]
    assert layer == {"node": "residual", "inner": {"node": "attention", "heads": 2}}


def test_a_difference_names_what_changed() -> None:
    before = parse("(sf)x2 in gpt2(64)")
    wider = before.layers.layers[1].replace(inner=before.layers.layers[1].inner.replace(inner=99))  # type: ignore[attr-defined]
    layers = before.layers.layers
    after = before.replace(layers=Stack((layers[0], wider, *layers[2:], Residual(Attention(1)))))
    changes = [str(change) for change in diff(before, after)]
    assert changes == [
        "layers[1].inner.inner: 256 -> 99",
        "layers[4]: added residual(attention(1))",
    ]
    assert diff(before, before) == []


@given_architecture(examples=100)
def test_equal_architectures_and_only_those_have_no_difference(arch: Architecture) -> None:
    other = parse("sf in gpt2(64)")
    assert diff(arch, arch) == []
    assert diff(arch, other)
    assert diff(other, arch)
