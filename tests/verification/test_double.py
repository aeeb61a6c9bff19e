import math
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from tests.support import parse
from xoptim.verification import verify_models
from xoptim.verification.judging.double import in_doubles, narrow_types, own_constants
from xoptim.verification.runs.protos import Located
from xoptim.verification.runs.session import Session

DOMAINS = {"com.microsoft": 1}
ACTIVATIONS = [
    "Erf(x)",
    "LeakyRelu <alpha = 0.3> (x)",
    "Elu(x)",
    "Selu(x)",
    "Celu(x)",
    "HardSigmoid(x)",
    "HardSwish(x)",
    "Mish(x)",
    "ThresholdedRelu(x)",
    "Softplus(x)",
    "Softsign(x)",
    "Sigmoid(x)",
    "Gelu(x)",
    'Gelu <approximate = "tanh"> (x)',
    "com.microsoft.Gelu(x)",
    "com.microsoft.FastGelu(x)",
    "com.microsoft.QuickGelu(x)",
    "Tan(x)",
    "Sinh(x)",
    "Cosh(x)",
]


def run_double(model: onnx.ModelProto, **feeds: np.ndarray) -> np.ndarray:
    wide = in_doubles(model, None)
    assert wide is not None
    (found,) = Session(wide.proto, weights=wide.weights).run(
        {name: value.astype(np.float64) for name, value in feeds.items()}
    )
    assert isinstance(found, np.ndarray)
    assert found.dtype == np.float64
    return found


@pytest.mark.parametrize("expression", ACTIVATIONS)
def test_activations_without_a_kernel(expression: str) -> None:
    model = parse(
        f"agraph (float[41] x) => (float[41] y) {{ y = {expression} }}", 22, domains=DOMAINS
    )
    x = np.linspace(-6, 6, 41).astype(np.float32)
    (narrow,) = Session(model).run({"x": x})
    assert isinstance(narrow, np.ndarray)
    np.testing.assert_allclose(run_double(model, x=x), narrow, rtol=2e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("fused", "plain"),
    [
        (
            'FusedGemm <activation = "Relu", transB = 1> (x, w, b)',
            "p = Gemm <transB = 1> (x, w, b) y = Relu(p)",
        ),
        (
            (
                'FusedGemm <activation = "LeakyRelu", activation_alpha = 0.25, alpha = 0.5, transB'
                " = 1> (x, w)"
            ),
            "p = Gemm <alpha = 0.5, transB = 1> (x, w) y = LeakyRelu <alpha = 0.25> (p)",
        ),
        (
            'FusedGemm <activation = "Sigmoid", transB = 1> (x, w, b)',
            "p = Gemm <transB = 1> (x, w, b) y = Sigmoid(p)",
        ),
        ('FusedConv <activation = "Tanh"> (i, k)', "p = Conv(i, k) y = Tanh(p)"),
        (
            'FusedConv <activation = "HardSigmoid", activation_params = [0.3, 0.4]> (i, k)',
            "p = Conv(i, k) y = HardSigmoid <alpha = 0.3, beta = 0.4> (p)",
        ),
        (
            'FusedConv <activation = "Clip", activation_params = [-0.5, 0.5]> (i, k, c, i)',
            (
                "p = Conv(i, k, c) s = Add(p, i) l = Constant <value_float = -0.5> () "
                "h = Constant <value_float = 0.5> () y = Clip(s, l, h)"
            ),
        ),
    ],
)
@pytest.mark.parametrize("is_inner", [False, True])
def test_activations_that_are_part_of_an_operator(fused: str, plain: str, is_inner: bool) -> None:
    head = (
        "agraph (float[2,3] x, float[4,3] w, float[4] b, float[1,2,3,3] i) => (float[] y) "
        "<float[2,2,1,1] k = {0.1, -0.7, 1.3, 0.4}, float[2] c = {0.2, -0.1}>"
    )
    bodies = [f"y = com.microsoft.{fused}", plain]
    if is_inner:
        branches = (f"then_branch = g () => (float[] y) {{ {body} }}" for body in bodies)
        always = "always = Constant <value = bool {1}> ()"
        bodies = [
            f"{always} y = If (always) <{each}, else_branch = h () => (float[] z) {{ z = Neg(x) }}>"
            for each in branches
        ]
    rng = np.random.default_rng(0)
    shapes = {"x": (2, 3), "w": (4, 3), "b": (4,), "i": (1, 2, 3, 3)}
    feeds = {name: rng.standard_normal(shape).astype(np.float32) for name, shape in shapes.items()}
    first, second = (
        run_double(parse(f"{head} {{ {body} }}", domains=DOMAINS), **feeds) for body in bodies
    )
    np.testing.assert_array_equal(first, second)


@pytest.mark.parametrize("opset", [18, 21])
def test_group_normalization_of_numbers_close_to_each_other(opset: int) -> None:
    """Where the square of the mean is subtracted, few digits are left."""
    count = 2 if opset == 18 else 4
    text = f"agraph (float[2,4,3,5] x, float[{count}] s, float[{count}] b) => (float[2,4,3,5] y) "
    model = parse(
        text + "{ y = GroupNormalization <num_groups = 2, epsilon = 0.25> (x, s, b) }", opset
    )
    rng = np.random.default_rng(0)
    x = (1000 + rng.standard_normal((2, 4, 3, 5)) / 64).astype(np.float32)
    s, b = (rng.standard_normal(count).astype(np.float32) for _ in range(2))
    grouped = x.astype(np.float64).reshape(2, 2, -1)
    normal = (grouped - grouped.mean(-1, keepdims=True)) / np.sqrt(
        grouped.var(-1, keepdims=True) + 0.25
    )
    scales, biases = (
        np.repeat(each.astype(np.float64), 4 // count)[:, np.newaxis, np.newaxis] for each in (s, b)
    )
    np.testing.assert_allclose(
        run_double(model, x=x, s=s, b=b),
        normal.reshape(x.shape) * scales + biases,
        rtol=0,
        atol=1e-12,
    )


@pytest.mark.parametrize(
    ("attributes", "shape", "scale"),
    [
        ("", (2, 2, 3, 6), 6**-0.5),
        ("scale = 0.4082483", (2, 2, 3, 6), 6**-0.5),
        ("scale = 0.375", (2, 2, 3, 6), 0.375),
        ("scale = 3", (2, 2, 3, 6), 3.0),
        ("q_num_heads = 2, kv_num_heads = 2", (2, 3, 12), 6**-0.5),
    ],
)
def test_attention_scales_with_all_digits(
    attributes: str, shape: tuple[int, ...], scale: float
) -> None:
    dims = ",".join(map(str, shape))
    texts = [f"float[{dims}] {name}" for name in "qkv"]
    head = f"agraph ({', '.join(texts)}) => (float[{dims}] y) "
    model = parse(
        (
            f"{head}{{ y = Attention <{attributes}> (q, k, v) }}"
            if attributes
            else f"{head}{{ y = Attention(q, k, v) }}"
        ),
        23,
    )
    rng = np.random.default_rng(0)
    feeds = {name: rng.standard_normal(shape).astype(np.float32) for name in "qkv"}
    q, k, v = (value.astype(np.float64) for value in feeds.values())
    if len(shape) == 3:
        q, k, v = (each.reshape(2, 3, 2, 6).swapaxes(1, 2) for each in (q, k, v))
    weights = np.exp(scale * (q @ k.swapaxes(2, 3)))
    expected = weights / weights.sum(-1, keepdims=True) @ v
    if len(shape) == 3:
        expected = expected.swapaxes(1, 2).reshape(shape)
    np.testing.assert_allclose(run_double(model, **feeds), expected, rtol=1e-13, atol=1e-13)


@pytest.mark.parametrize("operator", ["Softplus", "Mish"])
def test_results_near_zero_have_all_digits(operator: str) -> None:
    model = parse(f"agraph (float[n] x) => (float[n] y) {{ y = {operator}(x) }}", 22)
    x = np.array([-700.0, -40.0, -21.0, -5.0, 0.0, 3.0, 40.0], np.float32)
    softplus = np.log1p(np.exp(-np.abs(x), dtype=np.float64)) + np.maximum(x, 0)
    expected = softplus if operator == "Softplus" else x * np.tanh(softplus)
    np.testing.assert_allclose(run_double(model, x=x), expected, rtol=1e-13, atol=0)


def test_the_error_function_is_accurate() -> None:
    model = parse("agraph (float[n] x) => (float[n] y) { y = Erf(x) }")
    x = np.linspace(-7, 7, 200).astype(np.float32)
    expected = [math.erf(float(each)) for each in x]
    np.testing.assert_allclose(run_double(model, x=x), expected, rtol=0, atol=1e-15)


@pytest.mark.parametrize(
    ("shape", "weight", "attributes"),
    [
        ((2, 3, 9, 8), (4, 3, 3, 3), {"pads": [1, 1, 1, 1]}),
        ((1, 3, 9, 8), (4, 3, 3, 2), {"strides": [2, 3], "pads": [1, 0, 2, 1]}),
        ((1, 4, 9), (4, 1, 3), {"group": 4, "dilations": [2]}),
        ((1, 4, 9, 9), (6, 2, 3, 3), {"group": 2, "strides": [2, 2]}),
        ((1, 2, 4, 5, 6), (3, 2, 2, 2, 2), {}),
    ],
)
def test_convolutions(
    shape: tuple[int, ...], weight: tuple[int, ...], attributes: dict[str, Any]
) -> None:
    rng = np.random.default_rng(0)
    stored = {
        "w": rng.standard_normal(weight).astype(np.float32),
        "b": rng.standard_normal(weight[0]).astype(np.float32),
    }
    nodes = [
        helper.make_node("Conv", ["x", "w", "b"], ["c"], **attributes),
        helper.make_node("GlobalAveragePool", ["c"], ["p"]),
        helper.make_node("Add", ["c", "p"], ["y"]),
    ]
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [None] * len(shape))
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    graph = helper.make_graph(
        nodes,
        "g",
        [x],
        [y],
        [numpy_helper.from_array(value, name) for name, value in stored.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    values = rng.standard_normal(shape).astype(np.float32)
    (narrow,) = Session(model).run({"x": values})
    assert isinstance(narrow, np.ndarray)
    np.testing.assert_allclose(run_double(model, x=values), narrow, rtol=1e-4, atol=1e-5)


def test_types_in_subgraphs_and_attributes() -> None:
    model = parse("""agraph (float[n] x, bool c) => (float[n] y) {
            one = Constant <value_float = 1.0> ()
            a = If (c) <then_branch = t () => (float[n] u)
              { k = Constant <value = float {0.1}> () u = Mul(x, k) },
                        else_branch = e () => (float[n] v) { v = Identity(x) }>
            i = Cast <to = 6> (a) f = Cast <to = 1> (i)
            s = Shape(x) z = ConstantOfShape(s) b = Add(f, z) d = Add(b, one) y = Add(d, a) }""")
    wide = in_doubles(model, None)
    assert wide is not None
    feeds = {"x": np.array([1.5, -2.25]), "c": np.array(True)}
    (found,) = Session(wide.proto).run(feeds)
    assert isinstance(found, np.ndarray)
    tenth = float(np.float32(0.1))
    np.testing.assert_allclose(found, [1.5 * tenth + 1, -2.25 * tenth + 1], rtol=1e-15)


def test_all_types_of_a_model_become_double() -> None:
    mixed = parse(
        "agraph (float[n] x) => (float[n] y) { a = Cast <to = 10> (x) b = Neg(a) "
        "y = Cast <to = 1> (b) }"
    )
    assert narrow_types(mixed) == {TensorProto.FLOAT, TensorProto.FLOAT16}
    wide = in_doubles(mixed, None)
    assert wide is not None
    assert not narrow_types(wide.proto)
    x = np.array([1 / 3, 1e9])
    assert np.array_equal(np.asarray(Session(wide.proto).run({"x": x})[0]), -x)
    assert in_doubles(parse("agraph (int64[n] x) => (int64[n] y) { y = Neg(x) }"), None) is None


MIXED = """agraph (float16[n,64] x) => (float16[n,64] y) <float k = {1.5}, float wrong = {1.506},
    float third = {0.5}, float whole = {3}> { f = Cast <to = 1> (x) @ y = Cast <to = 10> (m) }"""


@pytest.mark.parametrize(
    ("before", "after", "status"),
    [
        ("m = Mul(f, k)", "m = Mul(f, wrong)", "different"),
        ("m = Gelu(f)", 'm = Gelu <approximate = "tanh"> (f)', "different"),
        ("m = Mul(f, k)", "h = Mul(f, third) m = Mul(h, whole)", "equal"),
        ("m = Gelu(f)", "g = Gelu(f) h = Cast <to = 10> (g) m = Cast <to = 1> (h)", "equal"),
    ],
    ids=["factor", "activation", "two factors", "rounded twice"],
)
def test_models_of_several_types_are_compared(before: str, after: str, status: str) -> None:
    first, second = (parse(MIXED.replace("@", body), 21) for body in (before, after))
    assert verify_models(first, second).status == status


def test_a_cast_that_is_dropped_is_not_taken_for_rounding() -> None:
    """In float64 there is no difference."""
    text = """agraph (float[n,64] x) => (float[n,64] y) { h = Cast <to = 10> (x)
    f = Cast <to = 1> (h) y = Sin(f) }"""
    dropped = parse(text.replace("Sin(f)", "Sin(x)"))
    assert verify_models(parse(text), dropped).status == "different"


def test_constants_that_only_one_model_has() -> None:
    def model(**stored: np.ndarray) -> Located:
        found = parse("agraph (float[n] x) => (float[n] y) { y = Neg(x) }")
        found.graph.initializer.extend(
            numpy_helper.from_array(value, name) for name, value in stored.items()
        )
        return Located(found, None)

    weight = np.random.default_rng(0).standard_normal((3, 4)).astype(np.float32)
    first = model(w=weight, third=np.array(1 / 3, np.float32), half=np.array(0.5, np.float32))
    second = model(
        v=np.ascontiguousarray(weight.T),
        third=np.array(1 / 3, np.float32),
        folded=weight * np.float32(0.3),
    )
    # single numbers may be part of an operator
    assert own_constants(first, second).keys() == {"third"}
    assert own_constants(second, first).keys() == {"third", "folded"}


@pytest.mark.parametrize(("dtype", "name"), [(np.float32, "float"), (np.float16, "float16")])
def test_the_largest_number_of_the_type_stays_the_largest(dtype: Any, name: str) -> None:
    """Twice the lowest number is minus infinity in both types: masks are computed so."""
    model = parse(f"agraph ({name}[3] x) => ({name}[3] y) {{ y = Mul(x, w) }}")
    lowest = np.finfo(dtype).min
    model.graph.initializer.append(numpy_helper.from_array(np.array(lowest, dtype), "w"))
    x = np.array([0, 1, 2], dtype)
    found = run_double(model, x=x)
    assert found.tolist() == [0.0, np.finfo(np.float64).min, -np.inf]
    (narrow,) = Session(model).run({"x": x})
    assert isinstance(narrow, np.ndarray)
    np.testing.assert_array_equal(np.isfinite(narrow), np.isfinite(found))


def test_an_attribute_of_a_local_function_keeps_its_value() -> None:
    text = """<ir_version: 9, opset_import: ["" : 18, "own" : 1]> g (float[4] x) => (float[4] y)
    { y = own.Scale <factor = 0.5> (x) }
    <domain: "own", opset_import: ["" : 18]> Scale <factor: float = 2.0> (x) => (y)
    { c = Constant <value_float: float = @factor> () y = Mul(x, c) }"""
    x = np.arange(4, dtype=np.float32)
    assert np.array_equal(run_double(onnx.parser.parse_model(text), x=x), x / 2)


def test_an_omitted_bias_is_not_added() -> None:
    text = "agraph (float[9] x, float[9] b) => (float[9] y) {{ y = com.microsoft.FastGelu({}) }}"
    x, zero = np.linspace(-3, 3, 9).astype(np.float32), np.zeros(9, np.float32)
    alone, added = (
        run_double(parse(text.format(operands), domains=DOMAINS), x=x, b=zero)
        for operands in ("x", "x, b")
    )
    assert np.array_equal(alone, added)
