"""From file to file: a written model is whole, and weights are neither held nor read more than
once.
"""

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from tests.optimizing.test_verified import WrongReluPattern
from tests.support import parse, run, types
from xoptim import DifferentModelError, ModelError, OptimizationReport, optimize_file
from xoptim.graph import expanded as viewing
from xoptim.graph.load import read_proto
from xoptim.graph.save import shared_files
from xoptim.graph.views import View
from xoptim.passes import fold

SIDE = 64
FEEDS = {"x": np.linspace(-1, 1, 3 * SIDE, dtype=np.float32).reshape(3, SIDE)}


def model(folder: Path, text: str = "", name: str = "model.onnx") -> Path:
    """Products with weights as torch's exporter writes them, the weights in a file of their own."""
    folder.mkdir(exist_ok=True, parents=True)
    layers = "a = Transpose(w) b = MatMul(x, a) c = Relu(b) d = Transpose(v) e = MatMul(c, d)"
    text = text or f"{layers} y = Add(e, u)"
    proto = parse(f"agraph (float[N,{SIDE}] x) => (float[N,{SIDE}] y) {{ {text} }}")
    random = np.random.default_rng(0)
    for weight, shape in (("w", (SIDE, SIDE)), ("v", (SIDE, SIDE)), ("u", (SIDE,))):
        proto.graph.initializer.append(
            numpy_helper.from_array(random.standard_normal(shape).astype(np.float32), weight)
        )
    onnx.save(
        proto, folder / name, save_as_external_data=True, location="weights.bin", size_threshold=0
    )
    return folder / name


def results(path: Path) -> np.ndarray:
    found: np.ndarray = run(onnx.ModelProto(), FEEDS, str(path))[0]
    return found


@pytest.fixture(autouse=True)
def _all_views(monkeypatch: pytest.MonkeyPatch) -> None:
    """Weights of this size count as large, and none may be read for folding."""
    monkeypatch.setattr(viewing, "VIEW_LEAST", 1024)
    monkeypatch.setattr(fold, "EXTERNAL_LIMIT", 1024)


def test_weights_are_moved_without_being_held(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = model(tmp_path / "in")
    expected = results(source)
    reports: list[OptimizationReport] = []
    with monkeypatch.context() as patch:
        patch.setattr(View, "numpy", lambda _: pytest.fail("held in memory"))
        written = optimize_file(source, tmp_path / "out.onnx", report=reports.append)
    assert written == [tmp_path / "out.onnx.data", tmp_path / "out.onnx"]
    assert types(read_proto(written[1])) == ["MatMul", "Relu", "Gemm"]
    assert reports[0].verification[0].ok
    shutil.rmtree(tmp_path / "in")
    np.testing.assert_allclose(results(written[1]), expected, rtol=1e-5)


@pytest.mark.parametrize("growth", [None, 0, "0%"])
def test_no_limit_of_growth_keeps_a_moved_weight(tmp_path: Path, growth: Any) -> None:
    written = optimize_file(
        model(tmp_path / "in"), tmp_path / "out.onnx", max_growth=growth, verify=False
    )
    assert "Transpose" not in types(read_proto(written[-1]))


def test_views_of_several_kinds_are_written(tmp_path: Path) -> None:
    text = f"""
      h = Constant <value = float[1] {{0.5}}> ()
        s = Constant <value_ints = [{SIDE // 2}, 2, {SIDE}]> ()
      t = Constant <value_ints = [{SIDE}, {SIDE}]> ()
      a = Transpose(w) b = Mul(a, h) c0, c1 = Split <axis = 0, num_outputs = 2> (v)
        c = Concat <axis = 0> (c1, c0)
      r = Reshape(c, s) q = Transpose <perm = [1, 0, 2]> (r) p = Reshape(q, t)
      d = MatMul(x, b) e = MatMul(d, p) y = Add(e, u)
    """
    source = model(tmp_path / "in", text)
    written = optimize_file(source, tmp_path / "out.onnx", patterns=None)
    assert types(read_proto(written[-1])) == ["MatMul", "MatMul", "Add"]
    np.testing.assert_allclose(results(written[-1]), results(source), rtol=1e-4, atol=1e-4)


def test_equal_weights_are_found_wherever_they_are(tmp_path: Path) -> None:
    """Two tensors with the same bytes at different places, and a transposition that gives the bytes
    of a third one.
    """
    path = model(
        tmp_path / "in",
        "a = Transpose(w) b = MatMul(x, a) c = MatMul(b, k) d = MatMul(c, l) y = Add(d, u)",
    )
    proto = onnx.load(path)
    w = numpy_helper.to_array(proto.graph.initializer[0])
    for name, array in (("k", w.T.copy()), ("l", w.T.copy())):
        proto.graph.initializer.append(numpy_helper.from_array(array, name))
    onnx.save(proto, path, save_as_external_data=True, location="weights.bin", size_threshold=0)
    written = optimize_file(path, tmp_path / "out.onnx", patterns=None)
    found = read_proto(written[-1])
    assert sorted(list(t.dims) for t in found.graph.initializer) == [[SIDE], [SIDE, SIDE]]
    np.testing.assert_allclose(results(written[-1]), results(path), rtol=1e-4)


def test_shared_weights_are_named(tmp_path: Path) -> None:
    source = model(tmp_path, "a = MatMul(x, w) b = Transpose(v) c = MatMul(a, b) y = Add(c, u)")
    written = optimize_file(source, tmp_path / "out.onnx", share_weights=True)
    assert written == [
        tmp_path / "out.onnx.data",
        tmp_path / "out.onnx",
    ], "what was transposed is not there as it is"
    assert shared_files(read_proto(written[-1])) == ["weights.bin"]
    assert (tmp_path / "out.onnx.data").stat().st_size == 4 * SIDE * SIDE
    again = optimize_file(written[-1], tmp_path / "again.onnx")
    assert shared_files(read_proto(again[-1])) == [], "it needs no other file"
    (tmp_path / "weights.bin").unlink()
    (tmp_path / "out.onnx.data").unlink()
    assert results(again[-1]).shape == (3, SIDE)


def test_in_place(tmp_path: Path) -> None:
    source = model(tmp_path)
    expected, weights = results(source), (tmp_path / "weights.bin").read_bytes()
    assert optimize_file(source, source) == [tmp_path / "model.onnx.data", source]
    assert (tmp_path / "weights.bin").read_bytes() == weights, "other models may need it"
    (tmp_path / "weights.bin").unlink()
    np.testing.assert_allclose(results(source), expected, rtol=1e-5)
    assert optimize_file(source, source)[0] == tmp_path / "model.onnx.1.data", (
        "the file in use is never overwritten"
    )
    np.testing.assert_allclose(results(source), expected, rtol=1e-5)


def test_a_model_that_came_in_one_file_stays_in_one(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    onnx.save(onnx.load(model(tmp_path / "in")), path)
    assert optimize_file(path, tmp_path / "out.onnx") == [tmp_path / "out.onnx"]
    assert optimize_file(path, tmp_path / "e.onnx", external_data=True) == [
        tmp_path / "e.onnx.data",
        tmp_path / "e.onnx",
    ]


def test_nothing_is_written_when_the_result_is_wrong(tmp_path: Path) -> None:
    source = model(tmp_path / "in")
    (tmp_path / "out").mkdir()
    with pytest.raises(DifferentModelError):
        optimize_file(source, tmp_path / "out" / "out.onnx", patterns=WrongReluPattern, strict=True)
    assert list((tmp_path / "out").iterdir()) == []


def test_a_refuted_rewrite_is_dropped_and_its_weights_are_removed(tmp_path: Path) -> None:
    source = model(tmp_path / "in")
    (tmp_path / "out").mkdir()
    written = optimize_file(source, tmp_path / "out" / "out.onnx", patterns=WrongReluPattern)
    assert sorted((tmp_path / "out").iterdir()) == sorted(written)
    np.testing.assert_allclose(results(written[-1]), results(source), rtol=1e-5)


def test_a_source_that_is_damaged_writes_nothing(tmp_path: Path) -> None:
    source = model(tmp_path / "in")
    (tmp_path / "in" / "weights.bin").write_bytes(b"short")
    with pytest.raises(ModelError, match="too short"):
        optimize_file(source, tmp_path / "out.onnx")
    assert {path.name for path in tmp_path.iterdir()} == {"in"}
