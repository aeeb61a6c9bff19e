"""Earlier failures are checked in each run; and the ways to find, shrink and keep a failure
work.
"""

import logging
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import xoptim
from tests.properties import checks, hunting
from tests.properties.growing import Drawn
from tests.properties.regressions import load, save, saved
from tests.support import parse
from xoptim.testing.variant import serialized


@pytest.mark.parametrize("path", saved(), ids=lambda path: path.name)
@pytest.mark.filterwarnings("ignore")
def test_what_once_failed(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.ERROR)
    assert checks.fault(load(path), each=True) == ""


def test_what_is_kept_comes_back(tmp_path: Path) -> None:
    model = parse(
        "agraph (float[n,3] x, string[n] s) => (float[n,3] y, string[n] t) { y = Relu(x) "
        "t = Identity(s) }"
    )
    feeds = {"x": np.ones((2, 3), np.float32), "s": np.array(["a", "b"], dtype=object)}
    drawn = Drawn(
        model,
        (feeds, {"x": np.ones((0, 3), np.float32), "s": np.array([], dtype=object)}),
        {"y": 2.5},
    )
    again = load(save(drawn, "it fails\nbadly", tmp_path))
    assert again.errors == drawn.errors
    assert again.model.doc_string == "it fails"
    assert [n.op_type for n in again.model.graph.node] == ["Relu", "Identity"]
    for before, after in zip(drawn.feeds, again.feeds, strict=True):
        assert {n: v.tolist() for n, v in before.items()} == {
            n: v.tolist() for n, v in after.items()
        }


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_a_wrong_rewrite_is_found_and_shrinks(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """An optimizer that makes Relu of Abs is given away by a graph of few nodes."""
    caplog.set_level(logging.ERROR)
    right = xoptim.optimize

    def wrong(model: onnx.ModelProto, *chosen: Any, **options: Any) -> onnx.ModelProto:
        result = right(model, *chosen, **options)
        for node in result.graph.node:
            if node.op_type == "Abs":
                node.op_type = "Relu"
        return result

    monkeypatch.setattr(xoptim, "optimize", wrong)
    found = hunting.hunt(2, 300)
    assert found.failure is not None
    assert "instead of" in found.fault
    assert "Abs" in {node.op_type for node in found.failure.model.graph.node}
    assert len(found.failure.model.graph.node) <= 4


@pytest.mark.filterwarnings("ignore")
def test_other_faults_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    model = parse("agraph (float[n,3] x) => (float[n,3] y) { a = Neg(x) y = Relu(a) }")
    drawn = Drawn(model, ({"x": np.ones((2, 3), np.float32)},), {"y": 0.0})
    assert checks.fault(drawn, each=True) == ""
    right, calls = xoptim.optimize, [0]

    def changing(model: onnx.ModelProto, *chosen: Any, **options: Any) -> onnx.ModelProto:
        calls[0] += 1
        result = right(model, *chosen, **options)
        result.producer_version = str(calls[0])
        return result

    def invading(model: onnx.ModelProto, *chosen: Any, **options: Any) -> onnx.ModelProto:
        model.doc_string += "!"
        return right(model, *chosen, **options)

    def lying(model: onnx.ModelProto, *chosen: Any, **options: Any) -> onnx.ModelProto:
        result = right(model, *chosen, **options)
        result.graph.output[0].type.tensor_type.shape.dim[1].dim_value = 5
        return result

    for wrong, words in (
        (changing, "different results"),
        (invading, "was modified"),
        (lying, "onnx.checker"),
    ):
        copy = onnx.ModelProto.FromString(serialized(model))
        monkeypatch.setattr(xoptim, "optimize", wrong)
        assert words in (checks.fault(drawn._replace(model=copy)) or "")
    monkeypatch.setattr(xoptim, "optimize", right)
    assert (
        checks.fault(
            drawn._replace(model=parse("agraph (float[3] x) => (float[3] y) { y = Relu(x) }"))
        )
        is None
    )
