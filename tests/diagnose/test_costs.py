"""Parameters, operations and bytes of models, counted by hand."""

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from tests.support import parse
from xoptim import ModelError
from xoptim.diagnose.costs import Cost, costs


def model(nodes: str, x: str = "float[n,8] x", **weights: tuple[int, ...]) -> onnx.ModelProto:
    found = parse(f"agraph ({x}) => (y) {{ {nodes} }}")
    found.graph.initializer.extend(
        numpy_helper.from_array(np.ones(s, np.float32), name) for name, s in weights.items()
    )
    return found


@pytest.mark.parametrize(
    ("proto", "operator", "expected"),
    [
        (
            model("y = MatMul(x, w)", w=(8, 5)),
            "MatMul",
            Cost(1, 40, 2 * 3 * 5 * 8, 4 * (24 + 40), 4 * 15),
        ),
        (
            model("y = Gemm <transB = 1> (x, w, b)", w=(5, 8), b=(5,)),
            "Gemm",
            Cost(1, 45, 3 * 5 * 17, 4 * 69, 60),
        ),
        (
            model("y = Gemm <transA = 1> (w, x)", w=(3, 5)),
            "Gemm",
            Cost(1, 15, 5 * 8 * 6, 4 * 39, 160),
        ),
        (
            model(
                "y = Conv <pads = [1, 1, 1, 1]> (x, w, b)",
                "float[n,4,6,6] x",
                w=(8, 4, 3, 3),
                b=(8,),
            ),
            "Conv",
            Cost(1, 296, 3 * 8 * 36 * (2 * 36 + 1), 4 * (432 + 296), 4 * 864),
        ),
        (
            model("y = Conv <group = 4> (x, w)", "float[n,4,6,6] x", w=(4, 1, 3, 3)),
            "Conv",
            Cost(1, 36, 192 * 18, 1872, 768),
        ),
        (
            model("y = ConvTranspose(x, w)", "float[n,4,6,6] x", w=(4, 2, 3, 3)),
            "ConvTranspose",
            Cost(1, 72, 15552, 2016, 1536),
        ),
        (model("y = Relu(x)"), "Relu", Cost(1, 0, 24, 96, 96)),
        (model("y = Transpose(x)"), "Transpose", Cost(1, 0, 0, 96, 96)),
        (model("y = ReduceSum <keepdims = 0> (x)"), "ReduceSum", Cost(1, 0, 24, 96, 4)),
        (model("y = Softmax(x)"), "Softmax", Cost(1, 0, 120, 96, 96)),
        (model("y = NonZero(x)"), "NonZero", Cost(1, 0, 0, 96, 0, 1)),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_operators(proto: onnx.ModelProto, operator: str, expected: Cost) -> None:
    found = costs(proto, {"n": 3})
    assert found.by_operator == {operator: expected}
    assert (found.total, found.sizes) == (expected, {"n": 3})


def test_a_constant_of_two_nodes_counts_once() -> None:
    found = costs(model("t = Add(x, w) y = Mul(t, w)", w=(8,)), {})
    assert (found.total.parameters, found.total.read, found.sizes) == (8, 4 * 32, {"n": 1})


def test_constants_of_both_branches_count() -> None:
    """Their names may be equal."""
    branches = ", ".join(
        f"{name}_branch = {name}_graph () => (float[4] z) <float[4] w = {{1, 2, 3, {number}}}> "
        "{ z = Add(x, w) }"
        for name, number in {"then": 4, "else": 5}.items()
    )
    found = costs(
        parse(f"agraph (float[4] x, bool c) => (float[4] y) {{ y = If (c) <{branches}> }}"), {}
    )
    assert found.total.parameters == 8


def test_layers_and_subgraphs() -> None:
    text = """agraph (float[4] x, bool c) => (y) {
        ["/encoder/layer.0/act/Relu"] t = Relu(x) ["/encoder/layer.1/act/Relu"] u = Relu(t)
        y = If (c) <then_branch = a () => (p) { ["/head/a/b/c/Neg"] p = Neg(u) },
          else_branch = b () => (q) { q = Exp(u) }>
    }"""
    found = costs(parse(text), {})
    assert {name: cost.nodes for name, cost in found.by_layer.items()} == {
        "encoder/layer.0/act": 1, "encoder/layer.1/act": 1, "(no name)": 2, "head/a/b": 1,
    }  # fmt: skip
    assert found.total.flops == 16


def test_the_peak_of_the_memory() -> None:
    proto = model("a = Neg(x) b = Abs(a) c = Exp(b) y = ReduceSum <keepdims = 0> (c)")
    assert costs(proto, {"n": 10}).peak == 3 * 320
    assert costs(proto, {"n": 20}).peak == 3 * 640


def test_sizes_that_can_only_be_equal() -> None:
    products = parse("agraph (float[k,n] x, float[m,4] y) => (r) { r = MatMul(x, y) }")
    assert costs(products, {"m": 8}).sizes == {"k": 1, "m": 8, "n": 8}
    assert costs(products, {"n": 8}).sizes == {"k": 1, "m": 8, "n": 8}
    with pytest.raises(ModelError, match=r" m .* 8, .* 9"):
        costs(products, {"m": 8, "n": 9})


def test_sizes_of_unknown_names() -> None:
    with pytest.raises(ModelError, match=r"'m' .* n\)"):
        costs(model("y = Neg(x)"), {"m": 3})
