"""The producers of a product's operands decide which kernel runs it: equal numbers, but not equal
bits.
"""

from dataclasses import replace
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from tests.support import parse, types
from xoptim import GraphBuilder, OptimizationOptions, OptimizationReport, optimize
from xoptim.verification import VerificationOptions, verify_models

W = np.random.default_rng(0).standard_normal((300, 200)).astype(np.float32)
KERNEL = np.random.default_rng(1).standard_normal((8, 4, 3, 3)).astype(np.float32)

PLAIN = {
    "identity": "agraph (float[n,300] x) => (float[n,200] y) { v = Identity(w) y = MatMul(x, v) }",
    "behind a node": (
        "agraph (float[n,300] x) => (float[n,200] y) { a = Neg(x) v = Identity(w) "
        "y = MatMul(a, v) }"
    ),
    "gemm": "agraph (float[n,300] x) => (float[n,200] y) { v = Identity(w) y = Gemm(x, v) }",
    "if": (
        """agraph (float[n,300] x, bool b) => (float[n,200] y) { v = Identity(w) y = If(b)
        <then_branch = t () => (float[n,200] p) { p = MatMul(x, v) },
         else_branch = e () => (float[n,200] q) { r = MatMul(x, v) q = Neg(r) }> }"""
    ),
    "within a branch": (
        """agraph (float[n,300] x, bool b) => (float[n,200] y) { y = If(b)
        <then_branch = t () => (float[n,200] p) { v = Identity(w) p = MatMul(x, v) },
         else_branch = e () => (float[n,200] q) { r = MatMul(x, w) q = Neg(r) }> }"""
    ),
}
FUNCTION = """agraph (float[n,300] x) => (float[n,200] y)
  { v = Identity(w) y = local.product(x, v) }
    <domain: "local", opset_import: ["" : 18]> product (a, b) => (c) { c = MatMul(a, b) }"""


def model_of(text: str, **options: Any) -> onnx.ModelProto:
    model = parse(text, **options)
    model.graph.initializer.append(numpy_helper.from_array(KERNEL if "Conv" in text else W, "w"))
    return model


def optimized(
    model: onnx.ModelProto, patterns: Any = ()
) -> tuple[onnx.ModelProto, OptimizationReport]:
    reports: list[OptimizationReport] = []
    return optimize(model, patterns=patterns, report=reports.append), reports[0]


@pytest.mark.parametrize("patterns", [None, [], "default"])
@pytest.mark.parametrize("text", PLAIN.values(), ids=PLAIN)
def test_identity_in_front_of_a_stored_operand(text: str, patterns: Any) -> None:
    model = model_of(text)
    result, report = optimized(model, patterns)
    bodies = [attribute.g for node in result.graph.node for attribute in node.attribute]
    assert not any("Identity" in types(graph) for graph in (result.graph, *bodies))
    assert report.exactness == "rounding"
    assert verify_models(model, result, VerificationOptions(exactness=report.exactness)).ok


def test_the_bits_do_differ() -> None:
    """The runtime packs a stored operand, and adds up in another order then."""
    model = model_of(PLAIN["identity"])
    result, report = optimized(model)
    options = VerificationOptions(exactness=report.exactness)
    assert verify_models(model, result, options).ok
    assert verify_models(model, result, replace(options, exactness="exact")).status == "different"


def test_identity_in_front_of_a_call() -> None:
    model = model_of(FUNCTION, domains={"local": 1})
    result, report = optimized(model)
    assert types(result) == ["product"]
    assert report.exactness == "rounding"
    assert verify_models(model, result, VerificationOptions(exactness=report.exactness)).ok
    _, report = optimized(model, "default")
    assert report.exactness == "rounding"


@pytest.mark.parametrize(
    "inside",
    [
        "v = Transpose(w) z = Transpose(v)",
        "v = Cast<to = 11>(w) z = Cast<to = 1>(v)",
        "v = Reshape(w, s) z = Identity(v)",
    ],
)
@pytest.mark.parametrize("limit", ["unlimited", "1MB"])
def test_constants_that_are_computed(inside: str, limit: str) -> None:
    text = (
        f"agraph (float[n,300] x) => (float[n,200] y) <int64[2] s = {{300, 200}}> {{ {inside} "
        "y = MatMul(x, z) }"
    )
    model = model_of(text)
    reports: list[OptimizationReport] = []
    result = optimize(model, max_growth=limit, report=reports.append)
    assert types(result) == ["MatMul"]
    assert reports[0].exactness == "rounding"
    assert verify_models(model, result, VerificationOptions(exactness="rounding")).ok


def test_a_convolution() -> None:
    text = "agraph (float[n,4,9,9] x) => (float[n,8,7,7] y) { v = Identity(w) y = Conv(x, v) }"
    assert optimized(model_of(text))[1].exactness == "rounding"


@pytest.mark.parametrize(
    "text",
    [
        "agraph (float[n,300] x) => (float[n,200] y) { z = Identity(x) y = MatMul(z, w) }",
        "agraph (float[n,300] x) => (float[n,200] y) { z = MatMul(x, w) y = Identity(z) }",
        (
            "agraph (float[n,300] x) => (float[n,200] y) { z = MatMul(x, w) u = MatMul(x, w) "
            "y = Max(z, u) }"
        ),
        (
            "agraph (float[n,300] x) => (float[n,200] y) { z = Identity(x) v = Identity(w) "
            "u = MatMul(z, v) y = MatMul(x, w) }"
        ),
        (
            "agraph (float[n,300] x) => (float[n,200] y) { v = Identity(w) z = ReduceMax(v) "
            "m = MatMul(x, w) y = Max(m, z) }"
        ),
    ],
)
def test_bits_stay_where_no_product_is_concerned(text: str) -> None:
    model = model_of(text)
    result, report = optimized(model)
    assert len(result.graph.node) < len(model.graph.node)
    assert report.exactness == "exact"
    assert verify_models(model, result, VerificationOptions(exactness="exact")).ok


def test_products_of_integers_are_exact() -> None:
    model = parse("agraph (int32[n,4] x) => (int32[n,4] y) { v = Identity(w) y = MatMul(x, v) }")
    model.graph.initializer.append(numpy_helper.from_array(np.ones((4, 4), np.int32), "w"))
    assert optimized(model)[1].exactness == "exact"


def test_a_builder_that_starts_from_nothing() -> None:
    builder = GraphBuilder(18, optimization_options=OptimizationOptions(patterns=None))
    builder.make_tensor_input("x", onnx.TensorProto.FLOAT, ["n", 300])
    builder.make_initializer("w", W)
    y = builder.op.MatMul("x", builder.op.Identity("w"), outputs=["y"])
    builder.make_tensor_output(y)
    builder.optimize()
    assert builder.report().exactness == "rounding"
    builder.optimize()
    assert builder.report().exactness == "exact"
