"""Targets: how they are written, read, kept, and refused."""

import json
from pathlib import Path

import pytest

from formwright.cost import Target, load_target, read_target, save_target
from formwright.cost import machine as machine_module
from formwright.cost.machine import fingerprint
from formwright.errors import FormatError, FormwrightError, InputError


def test_the_short_form_says_what_differs_from_the_usual() -> None:
    target = read_target("onnx,threads=2,length=192,dtype=int8")
    assert target == Target(runtime="onnx", threads=2, length=192, dtype="int8")
    assert target.text == "onnx,length=192,threads=2,dtype=int8"
    assert read_target(target.text) == target
    assert read_target("") == read_target("eager") == Target()


def test_a_file_holds_every_field(tmp_path: Path) -> None:
    target = Target(
        name="laptop", past=7, phase="decode", fingerprint="abc", reference="sf", reference_ms=1.5
    )
    assert load_target(save_target(target, tmp_path / "t.json")) == target
    assert read_target(str(tmp_path / "t.json")) == target
    assert [path.name for path in tmp_path.iterdir()] == ["t.json"]  # no temporary file left


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("dtype=fp16", "slower than fp32"),
        ("compile,dtype=int8", "torch.compile does not speed up"),
        ("onnx,dtype=bf16", "no bf16 kernels"),
        ("openvino,dtype=int8", "data to calibrate"),
        ("device=cuda", "only cpu"),
        ("batch=0", "batch=0 cannot be measured"),
        ("length=-1", "whole number"),
        ("threads=two", "whole number"),
        ("phase=decode", "past=128"),
        ("phase=prefill,past=3", "must be left out"),
        ("phase=train", "use pass or prefill or decode"),
        ("onx", "Did you mean 'onnx'"),
        ("lenght=3", "Did you mean 'length'"),
        ("reference_ms=3", "No part of a target"),
        ("missing.json", "cannot be read: No such file"),
    ],
)
def test_what_cannot_be_measured_is_refused_with_the_reason(text: str, says: str) -> None:
    with pytest.raises(FormwrightError) as caught:
        read_target(text)
    assert says in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "content",
    [
        b"\xff\xfe",
        b"{}",
        b"[1",
        b"[" * 9999,
        b'{"target": {}}',
        b'{"formwright_target": 2, "target": {}}',
        b'{"formwright_target": 1, "target": {"batch": "many"}}',
        b'{"formwright_target": 1, "target": {"batch": true}}',
        b'{"formwright_target": 1, "target": {"speed": 3}}',
        b'{"formwright_target": 1, "target": {"dtype": "fp16"}}',
        b'{"formwright_target": 1, "target": {"reference_ms": NaN}}',
    ],
)
def test_a_file_that_is_no_target_is_refused_in_one_sentence(
    tmp_path: Path, content: bytes
) -> None:
    (tmp_path / "bad.json").write_bytes(content)
    with pytest.raises(FormatError, match="bad") as caught:
        load_target(tmp_path / "bad.json")
    assert "\n" not in str(caught.value)


def test_a_target_from_elsewhere_is_noted() -> None:
    assert Target(fingerprint=fingerprint("eager")).check_here() == ()
    (note,) = Target(fingerprint="0123456789ab").check_here()
    assert "another machine" in note


def test_a_missing_runtime_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    known = machine_module.package_version
    monkeypatch.setattr(
        machine_module, "package_version", lambda name: None if "onnx" in name else known(name)
    )
    with pytest.raises(InputError, match=r"pip install 'formwright\[export\]'"):
        Target(runtime="onnx").check_here()
    assert Target().check_here() == ()


def test_a_fingerprint_tells_machines_and_versions_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    before = fingerprint("eager")
    assert fingerprint("eager") == before
    monkeypatch.setattr(machine_module, "package_version", lambda name: "0.0.1")
    assert fingerprint("eager") != before


def test_the_file_is_readable_by_people(tmp_path: Path) -> None:
    path = save_target(Target(name="büro"), tmp_path / "t.json")
    document = json.loads(path.read_text(encoding="utf-8"))
    assert document["formwright_target"] == 1
    assert document["target"]["name"] == "büro"
