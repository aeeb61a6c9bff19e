"""Rewrites that were dumped are checked again, numerically."""

import logging
import re
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from tests.cli.bad_patterns import WrongReluPattern
from tests.meta.sources import ROOT
from tests.properties.strategy import random_model
from tests.share import is_pattern_in_share
from tests.support import in_parts, parse
from xoptim import PatternOptimization, XoptimError, installed_patterns, optimize, replay
from xoptim.engine.environment import DebugSettings
from xoptim.match.quantization import RangedPattern
from xoptim.testing import parse as parse_example

RELU = "agraph (float[a] x) => (float[a] y) { t = Relu(x) y = Exp(t) }"


def _dump(
    folder: Path, model: onnx.ModelProto | Path, patterns: Any, provider: str = "cpu"
) -> None:
    optimize(model, patterns=patterns, provider=provider, debug=DebugSettings(dump=folder))


@pytest.mark.slow
def test_all_rewrites_of_a_real_model_are_equal(tmp_path: Path) -> None:
    _dump(tmp_path, ROOT / "examples" / "models" / "tiny_bert.onnx", "default+onnxruntime")
    found = replay(tmp_path)
    assert len(found) > 10
    assert {each.status for each in found} == {"equal"}
    assert {each.pattern for each in found} >= {"ShapeBasedReshape", "UnsqueezeUnsqueeze"}
    assert [each.name for each in found] == sorted(path.stem for path in tmp_path.glob("*.txt"))


@pytest.mark.parametrize("seed", [7, 36])
def test_all_rewrites_of_random_graphs_are_equal(tmp_path: Path, seed: int) -> None:
    _dump(tmp_path, random_model(seed), "default+onnxruntime")
    found = replay(tmp_path)
    assert found
    assert [(each.name, each.reason) for each in found if each.status != "equal"] == []


UNRUN = "Could not find an implementation"
REASONS = {
    "AttentionGuard": "with b=2, values that decide a condition: nan instead of 0.0",
    "ConcatEmpty": "had no element",
    "LatentKeys": "NaN and infinities: -inf instead of nan",
    "LatentValues": "NaN and infinities: nan instead of -inf",
    "LowerMatMulNBits": "with ORT graph optimizations",
}
"""The guard hides NaN of earlier keys. The result of ConcatEmpty is empty whatever is fed. Infinite
latents and weights make NaN or an infinity, by the order of the sums.

Onnxruntime rounds the other operand of dequantized weights.
"""


@in_parts("part", 4)
def test_all_rewrites_of_the_examples_are_equal(
    tmp_path: Path, part: int, caplog: pytest.LogCaptureFixture
) -> None:
    """Of every fourth pattern; the harness compares the models of all."""
    caplog.set_level(logging.ERROR)
    shared = [c for name, c in installed_patterns().items() if is_pattern_in_share(c, name, 4)]
    # How much integers of 8 bits err is not a matter of rounding.
    patterns = [
        c
        for c in shared[part::4]
        if c.examples and not issubclass(c, RangedPattern) and c.exactness != "approximate"
    ]
    for cls in patterns:
        example = cls.examples[0]
        provider = cls.providers[0] if cls.providers else "cpu"
        _dump(
            tmp_path, parse_example(example.before, example.opset, example.domains), [cls], provider
        )
    found = replay(tmp_path)
    names = {cls.name() for cls in patterns if issubclass(cls, PatternOptimization)}
    assert len({each.pattern for each in found}) > 0.9 * len(names)
    wrong = [(each.name, each.status, each.reason) for each in found if each.status != "equal"]
    assert all(
        REASONS.get(each.rpartition("_")[2], UNRUN) in reason for each, _, reason in wrong
    ), wrong


def test_a_wrong_rewrite_is_noticed(tmp_path: Path) -> None:
    _dump(tmp_path, parse(RELU), WrongReluPattern)
    (found,) = replay(tmp_path)
    assert (found.status, found.pattern) == ("different", "WrongRelu")
    assert found.largest is not None
    assert found.largest > 0
    assert "output 't'" in found.reason
    told: Any = found.to_json()
    assert (told["status"], told["name"], told["report"]["status"]) == (
        "different",
        "00000_WrongRelu",
        "different",
    )


def test_the_tolerance_follows_the_exactness(tmp_path: Path) -> None:
    _dump(tmp_path, parse(RELU), WrongReluPattern)
    path = next(tmp_path.glob("*.before.onnx"))
    before, after = (
        parse(RELU),
        parse(RELU.replace("Exp(t)", "Exp(u)").replace("y =", "u = Add(t, e) y =")),
    )
    after.graph.initializer.append(onnx.numpy_helper.from_array(np.array(1e-7, np.float32), "e"))
    for exactness, status in (("exact", "different"), ("rounding", "equal")):
        onnx.helper.set_model_props(
            before, {"xoptim.pattern": "Close", "xoptim.exactness": exactness}
        )
        onnx.save(before, path)
        onnx.save(after, next(tmp_path.glob("*.after.onnx")))
        (found,) = replay(str(tmp_path))
        assert (found.pattern, found.status) == ("Close", status)


def test_what_cannot_be_run_is_explained(tmp_path: Path) -> None:
    text = (
        "agraph (float[a] x) => (float[a] y) { y = local.f(x) } "
        '<domain: "local", opset_import: ["" : 18]> f (p) => (q) { r = Relu(p) q = Exp(r) }'
    )
    _dump(tmp_path, parse(text, domains={"local": 1}), WrongReluPattern)
    (found,) = replay(tmp_path)
    assert (found.status, found.largest) == ("not verified", None)
    expected = "the type of input 'p' is unknown; all types within a local function are unknown"
    assert found.reason == expected


def test_damaged_dumps(tmp_path: Path) -> None:
    for _ in range(4):
        _dump(tmp_path, parse(RELU), WrongReluPattern)
    (tmp_path / "00000_WrongRelu.txt").unlink()
    (tmp_path / "00001_WrongRelu.after.onnx").unlink()
    (tmp_path / "00002_WrongRelu.before.onnx").write_bytes(b"\x08\x0a\x12")
    (tmp_path / "notes.txt").write_text("mine")
    found = replay(tmp_path)
    assert [each.status for each in found] == ["damaged", "damaged", "damaged", "different"]
    assert found[0].reason.startswith("00000_WrongRelu.txt is missing")
    assert found[1].reason.startswith("00001_WrongRelu.after.onnx is missing")
    assert "00002_WrongRelu.before.onnx' is not " in found[2].reason
    assert found[2].to_json()["report"] is None
    model = onnx.load(tmp_path / "00003_WrongRelu.before.onnx")
    onnx.helper.set_model_props(model, {"xoptim.exactness": "quite"})
    onnx.save(model, tmp_path / "00003_WrongRelu.before.onnx")
    assert re.match("00003_WrongRelu.before.onnx: .*'quite'", replay(tmp_path)[3].reason)


def test_no_dump(tmp_path: Path) -> None:
    with pytest.raises(XoptimError, match="DUMPPATTERNS="):
        replay(tmp_path)
    with pytest.raises(XoptimError, match="gone"):
        replay(tmp_path / "gone")
