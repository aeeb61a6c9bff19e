"""Constants that repeat along axes take no room: they are computed, by one node each, where they do
not fit into the model.
"""

from typing import Any

import numpy as np
import onnx
import pytest

from tests.support import parse, run, types
from xoptim import optimize

SHAPE = "int64[4] size = {40, 30, 3, 3}"
NORM = "float[40] s = {%s}, float[40] b = {%s}, float[40] m = {%s}, float[40] v = {%s}"


def norm(scale: str = "") -> str:
    ones, twos = ", ".join(["1"] * 40), ", ".join(["2"] * 40)
    return NORM % (scale or twos, ones, ones, twos)


def layers(scale: str = "") -> onnx.ModelProto:
    """Two convolutions with equal weights, which the model computes, and a normalization behind
    each.
    """
    text = (
        "agraph (float[n,30,h,w] x, float[n,30,h,w] x2) "
        f"=> (float[n,40,p,q] y, float[n,40,p,q] y2) <{SHAPE}, "
        f"{norm(scale)}> {{w = ConstantOfShape <value = float[1] {{0.5}}> (size) "
        "w2 = ConstantOfShape <value = float[1] {0.5}> (size)t = Conv(x, w) t2 = Conv(x2, w2) "
        "y = BatchNormalization(t, s, b, m, v) y2 = BatchNormalization(t2, s, b, m, v) }"
    )
    return parse(text)


def equal(
    before: onnx.ModelProto,
    after: onnx.ModelProto,
    feeds: dict[str, np.ndarray],
    rtol: float = 1e-5,
) -> None:
    results = [run(model, feeds, optimized=True) for model in (before, after)]
    for one, other in zip(*results, strict=True):
        assert one.dtype == other.dtype
        np.testing.assert_allclose(np.asarray(other, float), np.asarray(one, float), rtol)


@pytest.mark.parametrize(
    ("scale", "maker"),
    [("", "ConstantOfShape"), (", ".join(map(str, range(1, 41))), "Expand")],
    ids=["one", "per channel"],
)
def test_a_normalization_is_folded_into_weights_that_are_computed(scale: str, maker: str) -> None:
    before = layers(scale)
    after = optimize(before, max_growth=0)
    assert types(after) == [maker, "Conv", "Conv"]
    assert sum(len(t.raw_data) for t in after.graph.initializer) < 1000
    image = np.random.default_rng(0).normal(size=(1, 30, 5, 5)).astype(np.float32)
    equal(before, after, {"x": image, "x2": image + 1}, 1e-4)
    assert optimize(after, max_growth=0).SerializeToString() == after.SerializeToString()


def test_they_are_stored_whole_where_there_is_room() -> None:
    assert types(optimize(layers())) == ["Conv", "Conv"]


def test_stored_weights_stay_stored() -> None:
    """Weights that happen to be equal numbers are not replaced by nodes, however little room there
    is.
    """
    before = layers()
    whole = optimize(before, patterns=None)
    assert "ConstantOfShape" not in types(whole)
    assert types(optimize(whole, max_growth=0)) == ["Conv", "Conv"]


@pytest.mark.parametrize("dtype", ["float", "float16", "double", "int64", "int32", "bool"])
def test_types(dtype: str) -> None:
    """A chain of computed constants is one node of its result."""
    kind = {"float": 1, "float16": 10, "double": 11, "int64": 7, "int32": 6, "bool": 9}[dtype]
    text = (
        f"agraph ({dtype}[50,40] x) => ({dtype}[50,40] y) <int64[2] size = {{40, "
        f"50}}> {{a = ConstantOfShape <value = float[1] {{1}}> (size) b = Cast <to = {kind}> (a) "
        f"c = Transpose <perm = [1, 0]> (b)y = {'Xor' if dtype == 'bool' else 'Mul'}(x, c) }}"
    )
    before = parse(text)
    after = optimize(before, max_growth=0, patterns=None)
    assert types(after) == ["ConstantOfShape", "Xor" if dtype == "bool" else "Mul"]
    values = np.arange(2000).reshape(50, 40).astype(onnx.helper.tensor_dtype_to_np_dtype(kind))
    equal(before, after, {"x": values})


@pytest.mark.parametrize(("options", "count"), [({"max_growth": 0}, 1), ({}, 0)])
def test_inside_a_branch(options: dict[str, Any], count: int) -> None:
    body = "ConstantOfShape <value = float[1] {3}> (size) bd = Add(bc, bc)"
    text = (
        "agraph (float[50,40] x, bool c) => (float[50,40] y) <int64[2] size = {50, 40}> {"
        f"y = If (c) <then_branch = a () => (float[50,40] t) {{ bc = {body} t = Mul(x, bd) }},"
        "else_branch = b () => (float[50,40] e) { e = Neg(x) }> }"
    )
    before = parse(text)
    after = optimize(before, patterns=None, **options)
    branch = after.graph.node[0].attribute[0].g
    assert [node.op_type for node in branch.node].count("ConstantOfShape") == count
    assert "Add" not in [node.op_type for node in branch.node]
    for which in (True, False):
        equal(before, after, {"x": np.ones((50, 40), np.float32), "c": np.array(which)})


def test_a_node_that_nothing_changes_stays_as_it_is() -> None:
    text = (
        "agraph (float[50,40] x) => (float[50,40] y) <int64[2] size = {50, 40}> {"
        "[mine] c = ConstantOfShape <value = float[1] {3}> (size) y = Add(x, c) }"
    )
    before = parse(text)
    after = optimize(before, max_growth=0, drop=("EqualAxisBroadcast",))
    assert after.graph.node == before.graph.node


def test_a_scale_that_only_an_annotation_names() -> None:
    before = parse(
        "agraph (float[n,4] x) => (float[n,4] y) <int64[1] size = {4000}> "
        "{ s = ConstantOfShape <value = float[1] {0.5}> (size) y = Neg(x) }"
    )
    annotation = before.graph.quantization_annotation.add(tensor_name="x")
    annotation.quant_parameter_tensor_names.add(key="SCALE_TENSOR", value="s")
    after = optimize(before, max_growth=0, strict=True)
    assert after.graph.quantization_annotation[0] == annotation
    assert types(after) == ["Neg"]
