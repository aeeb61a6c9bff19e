"""The forms in which exporters write normalizations, in 32 and in 16 bits, in old and new operator
sets.
"""

import ml_dtypes
import numpy as np
import onnx
import pytest

import xoptim
from tests.support import parse, run, types

pytestmark = pytest.mark.slow

ALL = "default+onnxruntime"
SQUARES = {"power": "q = Pow(d, two)", "product": "q = Mul(d, d)"}
ROOTS = {
    "division": "s = Sqrt(w) t = Div(d, s)",
    "division by a power": "s = Pow(w, half) t = Div(d, s)",
    "Reciprocal": "s = Sqrt(w) r = Reciprocal(s) t = Mul(d, r)",
    "quotient": "s = Sqrt(w) r = Div(one, s) t = Mul(r, d)",
    "inverse of a power": "s = Pow(w, half) r = Reciprocal(s) t = Mul(r, d)",
    "inverse power": "r = Pow(w, minus) t = Mul(d, r)",
}
NUMBERS = (
    "float two = {2}, float half = {0.5}, float minus = {-0.5}, float one = {1}, float e = "
    "{0.00001}, int64[1] i = {-1}"
)
WEIGHTS = {"vectors": "4", "rows": "1,1,4"}


def mean(opset: int, x: str) -> str:
    """A mean over the last axis."""
    return f"ReduceMean({x}, i)" if opset >= 18 else f"ReduceMean <axes = [-1]> ({x})"


def check(model: onnx.ModelProto, expected: list[str], rtol: float = 1e-5) -> onnx.ModelProto:
    """Optimize for all of onnxruntime, and compare operators and numbers."""
    found = xoptim.optimize(model, patterns=ALL, strict=True)
    assert types(found) == expected
    dtype = (
        np.float16
        if model.graph.input[0].type.tensor_type.elem_type == onnx.TensorProto.FLOAT16
        else np.float32
    )
    feeds = {"x": (np.random.default_rng(0).standard_normal((2, 3, 4)) * 3).astype(dtype)}
    for optimized in (False, True):
        before, after = (
            run(model, feeds, optimized=optimized)[0],
            run(found, feeds, optimized=optimized)[0],
        )
        assert before.dtype == after.dtype
        np.testing.assert_allclose(
            after.astype(np.float64), before.astype(np.float64), rtol=rtol, atol=rtol
        )
    return found


@pytest.mark.parametrize("opset", [11, 13, 17, 18, 23])
@pytest.mark.parametrize("root", ROOTS)
@pytest.mark.parametrize("square", SQUARES)
def test_layer_normalization(square: str, root: str, opset: int) -> None:
    """With scale and bias, in operator sets that have the operator and in older ones."""
    shape = WEIGHTS["rows" if opset == 13 else "vectors"]
    model = parse(
        f"agraph (float[a,b,4] x) => (float[a,b,4] y) <{NUMBERS}, float[{shape}] k = {{1, 2, 3, "
        f"4}}, float[{shape}] c = {{4, 3, 2, 1}}> {{ m = {mean(opset, 'x')} "
        f"d = Sub(x, m) {SQUARES[square]} v = {mean(opset, 'q')} w = Add(v, e) {ROOTS[root]} "
        "p = Mul(t, k) y = Add(p, c) }",
        opset,
    )
    found = check(model, ["LayerNormalization"])
    if opset >= 17:
        onnx.checker.check_model(found, full_check=True)


@pytest.mark.parametrize("opset", [13, 18])
@pytest.mark.parametrize("distance", ["Sub(x, m)", "Sub(m, x)"])
def test_layer_normalization_of_tensorflow(distance: str, opset: int) -> None:
    """Scale and bias stand in between; epsilon is so small that a model of TensorFlow has it."""
    model = parse(
        "agraph (float[a,b,4] x) => (float[a,b,4] y) <float e = {0.000000000001}, "
        "int64[1] i = {-1}, float[4] k = {1, 2, 3, 4}, float[4] c = {4, 3, 2, 1}> { "
        f"m = {mean(opset, 'x')} d = {distance} q = Mul(d, d) v = {mean(opset, 'q')} "
        "w = Add(v, e) s = Sqrt(w) r = Reciprocal(s) f = Mul(k, r) p = Mul(f, x) n = Mul(f, m) "
        "o = Sub(c, n) y = Add(p, o) }",
        opset,
    )
    check(model, ["LayerNormalization"])


@pytest.mark.parametrize("opset", [13, 18, 23])
@pytest.mark.parametrize("epsilon", [True, False])
@pytest.mark.parametrize("root", ROOTS)
def test_root_mean_square(root: str, epsilon: bool, opset: int) -> None:
    """With and without epsilon; the scale is a weight."""
    shifted = "w = Add(e, v)" if epsilon else "w = Identity(v)"
    model = parse(
        f"agraph (float[a,b,4] x) => (float[a,b,4] y) <{NUMBERS}, float[4] k = {{1, 2, 3, 4}}> {{ "
        f"d = Identity(x) q = Mul(d, d) v = {mean(opset, 'q')} {shifted} {ROOTS[root]} "
        "y = Mul(k, t) }",
        opset,
    )
    check(model, ["RMSNormalization" if opset >= 23 else "SimplifiedLayerNormalization"])


@pytest.mark.parametrize("opset", [18, 23])
@pytest.mark.parametrize("model_type", ["llama", "gemma", "plain"])
def test_sixteen_bits(model_type: str, opset: int) -> None:
    """Computed in 32 bits between casts, the weight before or after the second one; or in 16 bits
    altogether.
    """
    # the bits of 1, 2, 3, 4 and of 2^-14
    half = "float16[4] k = {15360, 16384, 16896, 17408}, float16 h = {1024}"
    rest = f"q = Mul(d, d) v = {mean(opset, 'q')} w = Add(v, e) {ROOTS['Reciprocal']}"
    text = {
        "llama": (
            f"<{NUMBERS}, {half}> {{ d = Cast <to = 1> (x) {rest} n = Cast <to = 10> (t) "
            "y = Mul(k, n) }"
        ),
        "gemma": (
            f"<{NUMBERS}, float[4] g = {{0, 1, 2, 3}}> {{ d = Cast <to = 1> (x) {rest} "
            "f = Add(g, one) p = Mul(t, f) y = Cast <to = 10> (p) }"
        ),
        "plain": (
            f"<int64[1] i = {{-1}}, {half}> {{ "
            f"d = Identity(x) {rest.replace('Add(v, e)', 'Add(v, h)')} y = Mul(k, t) }}"
        ),
    }[model_type]
    model = parse(f"agraph (float16[a,b,4] x) => (float16[a,b,4] y) {text}", opset)
    check(model, ["RMSNormalization" if opset >= 23 else "SimplifiedLayerNormalization"], 8e-3)


def test_distances_without_epsilon() -> None:
    """The rounding of the mean decides whether equal numbers give NaN, so the mean stays."""
    model = parse(
        f"agraph (float[a,7] x) => (float[a,7] y) <{NUMBERS}> {{ m = ReduceMean(x, i) "
        "d = Sub(x, m) q = Mul(d, d) w = ReduceMean(q, i) s = Sqrt(w) y = Div(d, s) }",
        23,
    )
    found = xoptim.optimize(model, patterns=ALL)
    assert types(found) == ["ReduceMean", "Sub", "RMSNormalization"]
    feeds = {"x": np.array([[3.1] * 7, [0] * 7, range(7)], np.float32)}
    np.testing.assert_allclose(run(found, feeds)[0], run(model, feeds)[0], rtol=1e-5)


@pytest.mark.parametrize(
    "lines",
    [
        # Outside of the root, epsilon is another function.
        (
            "m = ReduceMean(x, i) d = Sub(x, m) q = Mul(d, d) w = ReduceMean(q, i) s = Sqrt(w) "
            "z = Add(s, e) y = Div(d, z)"
        ),
        "q = Mul(x, x) w = ReduceMean(q, i) s = Sqrt(w) z = Add(s, e) y = Div(x, z)",
    ],
)
def test_other_formulas_stay(lines: str) -> None:
    model = parse(f"agraph (float[a,b,4] x) => (float[a,b,4] y) <{NUMBERS}> {{ {lines} }}", 23)
    assert not {"LayerNormalization", "RMSNormalization"} & set(
        types(xoptim.optimize(model, patterns=ALL))
    )


@pytest.mark.parametrize("size", [0, 1, 5])
def test_an_axis_of_unknown_length(size: int) -> None:
    """It may be empty, which the kernels refuse."""
    model = parse(
        f"agraph (float[a,b,n] x) => (float[a,b,n] y) <{NUMBERS}> "
        "{ q = Mul(x, x) v = ReduceMean(q, i) w = Add(v, e) s = Sqrt(w) y = Div(x, s) }",
        23,
    )
    found = xoptim.optimize(model, patterns=ALL)
    feeds = {"x": np.linspace(-1, 1, 6 * size, dtype=np.float32).reshape(2, 3, size)}
    np.testing.assert_allclose(run(found, feeds)[0], run(model, feeds)[0], rtol=1e-6)


def test_bfloat16_keeps_its_casts_where_there_is_no_kernel() -> None:
    """RMSNormalization has no kernel for bfloat16 on the CPU."""
    model = parse(
        f"agraph (float[a,4] u) => (float[a,4] z) <{NUMBERS}> {{ x = Cast <to = 16> (u) "
        "d = Cast <to = 1> (x) q = Mul(d, d) v = ReduceMean(q, i) w = Add(v, e) s = Sqrt(w) "
        "t = Div(d, s) y = Cast <to = 16> (t) z = Cast <to = 1> (y) }",
        23,
    )
    found = xoptim.optimize(model, patterns=ALL)
    feeds = {"u": np.linspace(-3, 3, 12, dtype=np.float32).reshape(3, 4)}
    step = float(ml_dtypes.finfo(ml_dtypes.bfloat16).eps)  # type: ignore[no-untyped-call]
    np.testing.assert_allclose(run(found, feeds)[0], run(model, feeds)[0], rtol=step)


@pytest.mark.parametrize("opset", [11, 18])
def test_onnxruntime_does_not_fuse_a_normalized_sum(opset: int) -> None:
    """On the CPU, its operator for both is slower than the two.

    It fuses the operator of older operator sets too, but no Sum.
    """
    model = parse(
        "agraph (float[a,b,4] x, float[a,b,4] r) "
        f"=> (float[a,b,4] y) <{NUMBERS}, float[4] k = {{1, 2, 3, 4}}, float[4] c = {{4, 3, 2, "
        f"1}}> {{ z = Add(x, r) m = {mean(opset, 'z')} d = Sub(z, m) q = Mul(d, d) "
        f"v = {mean(opset, 'q')} w = Add(v, e) {ROOTS['division']} p = Mul(t, k) y = Add(p, c) }}",
        opset,
    )
    found = xoptim.optimize(model, patterns=ALL)
    assert types(found) == ["Sum" if opset >= 17 else "Add", "LayerNormalization"]
    scale = next(
        tensor for tensor in found.graph.initializer if tensor.name == found.graph.node[1].input[1]
    )
    assert list(scale.dims) == [1, 4]


def test_an_image_that_may_be_empty() -> None:
    """onnxruntime's InstanceNormalization ends the process on one after a Relu."""
    model = parse(
        "agraph (float[a,2,h,w] x) => (float[a,2,h,w] y) <float e = {0.00001}, "
        "int64[2] i = {2, 3}, float[2,1,1] k = {1, 2}, float[2,1,1] c = {1, 2}> { r = Relu(x) "
        "m = ReduceMean(r, i) d = Sub(r, m) q = Mul(d, d) v = ReduceMean(q, i) w = Add(v, e) "
        "s = Sqrt(w) t = Div(d, s) p = Mul(t, k) y = Add(p, c) }"
    )
    assert "InstanceNormalization" not in types(xoptim.optimize(model, patterns=ALL))
    filled = xoptim.optimize(model, patterns=ALL, assume=("h >= 1", "w >= 1"))
    assert types(filled) == ["Relu", "InstanceNormalization"]


@pytest.mark.parametrize(
    ("shape", "axes", "scale", "expected"),
    [
        ("a,2,5,7", "2, 3", "2,1,1", "InstanceNormalization"),
        ("a,2,4", "2", "1,2,1", "InstanceNormalization"),
        ("a,2,4", "2", "4", "LayerNormalization"),
        ("a,2,3,4", "3", "2,1,1", "LayerNormalization"),
        ("a,2,3,4", "1, 2, 3", "2,1,1", "LayerNormalization"),
    ],
)
def test_channels(shape: str, axes: str, scale: str, expected: str) -> None:
    """One number for each channel, where all axes after the channels are normalized."""
    numbers = "{1, 2, 3, 4}" if scale == "4" else "{1, 2}"
    model = parse(
        f"agraph (float[{shape}] x) => (float[{shape}] y) <float e = {{0.00001}}, "
        f"int64[{axes.count(',') + 1}] i = {{{axes}}}, float[{scale}] "
        f"k = {numbers}, float[{scale}] c = {numbers}> {{ m = ReduceMean(x, i) d = Sub(x, m) "
        "q = Mul(d, d) v = ReduceMean(q, i) w = Add(v, e) s = Sqrt(w) t = Div(d, s) p = Mul(t, k) "
        "y = Add(p, c) }"
    )
    found = xoptim.optimize(model, patterns=ALL, strict=True)
    assert expected in types(found)
    sizes = [int(size) if size.isdigit() else 3 for size in shape.split(",")]
    x = np.random.default_rng(0).standard_normal(sizes).astype(np.float32)
    x[0, 0] = 2.5
    np.testing.assert_allclose(
        run(found, {"x": x})[0], run(model, {"x": x})[0], rtol=1e-5, atol=1e-4
    )


@pytest.mark.parametrize("opset", [15, 18, 23])
@pytest.mark.parametrize("factor", ["", "k"])
def test_lengths_that_are_not_known(factor: str, opset: int) -> None:
    """The scale is made of ones, or is the factor; a caller does not give an empty second axis."""
    given = "float[a,b] x, float[b] k" if factor else "float[a,b] x"
    last = "t = Mul(x, r) y = Mul(t, k)" if factor else "y = Mul(x, r)"
    model = parse(
        f"agraph ({given}) => (float[a,b] y) <{NUMBERS}> {{ q = Mul(x, x) v = {mean(opset, 'q')} "
        f"w = Add(v, e) s = Sqrt(w) r = Reciprocal(s) {last} }}",
        opset,
    )
    found = xoptim.optimize(model, patterns=ALL, strict=True)
    operator = "RMSNormalization" if opset == 23 else "SimplifiedLayerNormalization"
    assert types(found) == ([operator] if factor else ["Shape", "ConstantOfShape", operator])
    rng = np.random.default_rng(0)
    for width in (1, 5, 64):
        feeds = {"x": rng.standard_normal((3, width)), "k": rng.standard_normal(width)}
        given_feeds = {
            value.name: feeds[value.name].astype(np.float32) for value in model.graph.input
        }
        np.testing.assert_allclose(
            run(found, given_feeds)[0], run(model, given_feeds)[0], rtol=1e-5, atol=1e-5
        )


def test_the_refusal_names_the_assumption() -> None:
    model = parse(
        f"agraph (float[a,b,width] x) => (float[a,b,width] y) <{NUMBERS}> "
        "{ q = Mul(x, x) v = ReduceMean(q, i) w = Add(v, e) s = Sqrt(w) y = Div(x, s) }",
        23,
    )
    assert "RMSNormalization" not in types(xoptim.optimize(model))
    assert any("width >= 1" in str(each) for each in xoptim.explain(model, "RMSNormalization"))


@pytest.mark.parametrize(
    "pattern", ["LayerNormalization", "RMSNormalization", "InstanceNormalization"]
)
def test_scalars_have_no_axes(pattern: str) -> None:
    center = "a = ReduceMean(x, i) d = Sub(x, a)" if pattern[0] in "LI" else "d = Mul(x, one)"
    model = parse(
        "agraph (float x) => (float y) <int64[1] i = {-1}, float e = {0.001}, float one = {1}> "
        f"{{ {center} q = Mul(d, d) v = ReduceMean(q, i) w = Add(v, e) r = Sqrt(w) t = Div(d, r) "
        "p = Mul(t, one) y = Add(p, one) }",
        23,
    )
    assert types(xoptim.optimize(model, patterns=pattern, strict=True)) == types(model)


def test_a_known_shape_of_an_unknown_type() -> None:
    model = parse(
        "agraph (float[n,4] a) => (y) <int64[1] i = {-1}, float e = {0.001}> { x = acme.Make(a) "
        "q = Mul(x, x) v = ReduceMean(q, i) w = Add(v, e) r = Sqrt(w) y = Div(x, r) }",
        23,
        domains={"acme": 1},
    )
    model.graph.value_info.append(onnx.helper.make_tensor_value_info("x", 0, [None, 4]))
    optimized = xoptim.optimize(model, patterns="RMSNormalization", strict=True)
    assert types(optimized) == types(model)
