"""Files of certificates: what is written can be read, and everything else is one line of error."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from tests.support import parse
from xoptim.proof.certificate import (
    MAX_OBLIGATIONS,
    Certificate,
    CertificateError,
    Obligation,
    fingerprint,
)

MODEL = "g (float[N] x) => (float[N] y) { y = Exp(x) }"
SIDE = parse(MODEL).SerializeToString()
CERTIFICATE = Certificate(
    "a" * 64, "b" * 64, ["n >= 2"], [Obligation(1, "P", "same bits", ["p"], SIDE, SIDE)]
)


def _written(folder: Path, **changes: Any) -> Path:
    path = folder / "c.json"
    path.write_text(json.dumps({**CERTIFICATE.to_json(), **changes}))
    return path


def _changed(**changes: Any) -> dict[str, Any]:
    (entry,) = CERTIFICATE.to_json()["obligations"]
    return {"obligations": [{**entry, **changes}]}


def test_what_is_written_is_read(tmp_path: Path) -> None:
    CERTIFICATE.write(tmp_path / "c.json")
    assert Certificate.read(tmp_path / "c.json") == CERTIFICATE
    before, after = CERTIFICATE.obligations[0].models()
    assert before == after == parse(MODEL)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"format": 2}, "format '2'; "),
        ({"original": 3}, "damaged: original "),
        ({"obligations": {}}, "damaged: obligations "),
        ({"obligations": [3]}, "damaged: a rewrite "),
        ({"obligations": [{}]}, "damaged: 'grade' "),
        ({"obligations": [{}] * (MAX_OBLIGATIONS + 1)}, f" {MAX_OBLIGATIONS} "),
        ({"assumptions": [3]}, "damaged: assumptions "),
        (_changed(grade="proved"), "damaged: 'proved' "),
        (_changed(before="*"), "damaged: "),
        (_changed(number="1"), "damaged: number "),
    ],
)
def test_damaged_files(tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    path = _written(tmp_path, **changes)
    with pytest.raises(CertificateError) as caught:
        Certificate.read(path)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("content", [b"", b"{", b"[" * 100_000, b"\xff\xfe", b"[]", b"{}", b"3"])
def test_no_certificates(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "c.json"
    path.write_bytes(content)
    with pytest.raises(CertificateError, match="not a certificate"):
        Certificate.read(path)


def test_a_missing_file(tmp_path: Path) -> None:
    with pytest.raises(CertificateError, match="cannot read"):
        Certificate.read(tmp_path / "c.json")


def test_the_fingerprint_covers_the_weights(tmp_path: Path) -> None:
    model = parse("g (float[N,4] x) => (float[N,4] y) { y = Add(x, w) }")
    model.graph.initializer.append(onnx.numpy_helper.from_array(np.ones(4, np.float32), "w"))
    path = tmp_path / "model.onnx"
    onnx.save(model, path, save_as_external_data=True, location="w.bin", size_threshold=0)
    first = fingerprint(path)
    raw = bytearray((tmp_path / "w.bin").read_bytes())
    raw[0] ^= 1
    (tmp_path / "w.bin").write_bytes(raw)
    assert fingerprint(path) != first
