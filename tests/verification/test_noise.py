from pathlib import Path

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import numpy_helper, parser

from xoptim.verification import Session, Value
from xoptim.verification.judging.noise import (
    NoisyModel,
    move_one_ulp,
    noisy_feeds,
    noisy_graph,
    noisy_weights,
)

TEXT = (
    '<ir_version: 10, opset_import: ["" : 21]> g (float[N,8] x) => (float[N,8] y) <float e = {2}> {'
    " w = Cast <to = 1> (h) a = MatMul(x, w) p = Pow(a, e) b = Add(p, v) s = Shape(b) y ="
    " Reshape(b, s) }"
)


def generator() -> np.random.Generator:
    return np.random.default_rng(0)


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.float16, ml_dtypes.bfloat16])
def test_numbers_move_to_their_neighbours(dtype: type) -> None:
    values: np.ndarray = np.random.default_rng(1).standard_normal((40, 50)).astype(dtype)
    moved = move_one_ulp(values, generator())
    up, down = np.nextafter(values, dtype(9)), np.nextafter(values, dtype(-9))
    assert moved.dtype == values.dtype
    assert np.all((moved == up) | (moved == down))
    assert 0.4 < np.mean(moved == up) < 0.6


def test_what_has_no_neighbour_stays() -> None:
    top, tiny = np.finfo(np.float32).max, np.finfo(np.float32).smallest_subnormal
    values = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1.0], np.float32)
    for seed in range(4):
        rng = np.random.default_rng(seed)
        assert np.array_equal(move_one_ulp(values, rng)[:5], values[:5], equal_nan=True)
        edge = move_one_ulp(np.array([top, tiny], np.float32), rng)
        assert np.all(np.isfinite(edge) & (edge > 0))
    assert move_one_ulp(np.ones((), np.float32), generator()).shape == ()


def test_masks_and_integers_are_fed_as_they_are() -> None:
    feeds: dict[str, Value] = {
        "mask": np.array([0.0, 1.0], np.float32),
        "ids": np.arange(3),
        "small": np.array([1, -2], ml_dtypes.int4),
        "words": np.array(["a"], object),
        "nothing": None,
        "items": [np.array([0.3], np.float32)],
        "x": np.array([0.3, 0.7], np.float32),
    }
    moved = noisy_feeds(feeds, generator())
    assert all(moved[name] is feeds[name] for name in ("mask", "ids", "small", "words", "nothing"))
    for a, b in ((moved["x"], feeds["x"]), (moved["items"][0], feeds["items"][0])):  # type: ignore[index]
        assert np.all(a != b)
        assert np.allclose(a, b, rtol=1e-6)  # type: ignore[arg-type]


def test_weights_stored_narrow_and_small_constants_stay() -> None:
    model = parser.parse_model(TEXT)
    rng = np.random.default_rng(2)
    model.graph.initializer.append(
        numpy_helper.from_array(rng.standard_normal((8, 8)).astype(np.float16), "h")
    )
    model.graph.initializer.append(
        numpy_helper.from_array(rng.standard_normal((40, 1, 8)).astype(np.float32), "v")
    )
    assert set(noisy_weights(model, None, generator())) == {"v"}


def test_results_that_round_are_multiplied_by_factors_next_to_one() -> None:
    model = parser.parse_model(TEXT)
    rng = np.random.default_rng(2)
    model.graph.initializer.append(
        numpy_helper.from_array(rng.standard_normal((8, 8)).astype(np.float16), "h")
    )
    model.graph.initializer.append(
        numpy_helper.from_array(rng.standard_normal(8).astype(np.float32), "v")
    )
    before = model.SerializeToString(deterministic=True)
    noisy = NoisyModel(model, None, generator())
    assert model.SerializeToString(deterministic=True) == before
    kinds = [node.op_type for node in noisy.proto.graph.node]
    assert kinds == ["Cast", "MatMul", "Mul", "Pow", "Mul", "Add", "Mul", "Shape", "Reshape"]
    feeds: dict[str, Value] = {"x": np.ones((3, 8), np.float32)}
    session = Session(noisy.proto)
    (expected,), (same,) = Session(model).run(feeds), session.run(feeds)
    assert np.array_equal(expected, same)  # type: ignore[arg-type]
    first, second = (
        session.run(noisy.feeds(feeds, np.random.default_rng(seed)))[0] for seed in range(2)
    )
    for moved in (first, second):
        assert not np.array_equal(expected, moved)  # type: ignore[arg-type]
        assert np.allclose(expected, moved, rtol=1e-5)  # type: ignore[arg-type]
    assert not np.array_equal(first, second)  # type: ignore[arg-type]


def test_old_models() -> None:
    old = parser.parse_model(
        '<ir_version: 3, opset_import: ["" : 6]> g (float[9] x) => (float[9] y) { y = Exp(x) }'
    )
    assert len(noisy_graph(old)[0].graph.node) == 1
    text = """<ir_version: 3, opset_import: ["" : 9]> g (float[9] x,
      float[1] w) => (float[9] y) <float[1] w = {2}>
        { y = Add(x, w) }"""
    noisy = NoisyModel(parser.parse_model(text), None, generator())
    feeds: dict[str, Value] = {"x": np.ones(9, np.float32)}
    (moved,) = Session(noisy.proto).run(noisy.feeds(feeds, generator()))
    assert np.all(moved != 3)
    assert np.allclose(moved, 3)  # type: ignore[arg-type]


def test_large_external_weights_are_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = parser.parse_model(TEXT)
    for name, shape in (("h", (8, 8)), ("v", (40, 1, 8)), ("u", (100,))):
        model.graph.initializer.append(numpy_helper.from_array(np.ones(shape, np.float32), name))
    onnx.save(model, tmp_path / "m.onnx", save_as_external_data=True, size_threshold=0)
    external = onnx.load(tmp_path / "m.onnx", load_external_data=False)
    monkeypatch.setattr("xoptim.verification.judging.noise._MAX_EXTERNAL", 200)
    assert set(noisy_weights(external, tmp_path, generator())) == {"u"}


def test_results_inside_of_functions_round() -> None:
    model = parser.parse_model("""
        <ir_version: 10, opset_import: ["" : 21, "acme" : 1]>
        g (float[N,8] x) => (float[N,8] y) { y = acme.Twice(x) }
        <domain: "acme", opset_import: ["" : 21]>
        Twice (a) => (c) { b = Add(a, a) c = Relu(b) }""")
    noisy = NoisyModel(model, None, generator())
    assert [node.op_type for node in noisy.proto.graph.node] == ["Add", "Mul", "Relu"]


@pytest.mark.parametrize(("operator", "gates"), [("RNN", 1), ("GRU", 3)])
def test_small_results_of_an_rnn_have_errors_of_numbers_near_one(operator: str, gates: int) -> None:
    model = parser.parse_model(f"""
        <ir_version: 10, opset_import: ["" : 21]>
        g (float[2,N,3] x, float[1,{8 * gates},3] w, float[1,{8 * gates},8] r)
        => (float[2,1,N,8] y) {{ y = {operator} <hidden_size = 8> (x, w, r) }}""")
    rng = generator()
    feeds: dict[str, Value] = {
        "x": rng.standard_normal((2, 4, 3)).astype(np.float32) * np.float32(1e-5),
        "w": rng.standard_normal((1, 8 * gates, 3)).astype(np.float32),
        "r": rng.standard_normal((1, 8 * gates, 8)).astype(np.float32),
    }
    noisy = NoisyModel(model, None, rng)
    (expected,), (moved,) = (
        Session(model).run(feeds),
        Session(noisy.proto).run(noisy.feeds(feeds, rng)),
    )
    change = np.max(np.abs(np.asarray(moved) - np.asarray(expected)))
    assert (change > 1e-8) == (operator == "RNN")
    assert change < 1e-6
