"""Parts that are taken before the operators that compute all positions."""

from collections import Counter

import numpy as np
import onnx
import pytest

from tests.support import parse, run, types
from xoptim import optimize

W = "float[4,6] w, float[6] c, float[4] n, float[b,s,4] z, float[s,4] r, float[1,s,4] p"
BODIES = {
    "elementwise": "y = Exp(x)",
    "both operands": "y = Sub(x, x)",
    "a row": "y = Mul(x, n)",
    "rows": "m = MatMul(x, w) y = Add(m, c)",
    "normalization": "y = LayerNormalization(x, n)",
    "normalization along a later axis": "y = LayerNormalization <axis = 2> (x, n)",
    "softmax": "y = Softmax(x)",
    "softmax along a later axis": "y = Softmax <axis = 2> (x)",
    "softmax along the first axis": "y = Softmax <axis = -3> (x)",
    "mean": "m = ReduceMean(x, last) y = Mul(m, x)",
    "mean of an axis from the front": "m = ReduceMean(x, two) y = Mul(m, x)",
    "heads": "m = MatMul(x, w) h = Reshape(m, heads) y = Exp(h)",
    "transposed": (
        "t = Transpose <perm = [1, 0, 2]> (x) e = Exp(t) y = Transpose <perm = [1, 0, 2]> (e)"
    ),
    "residual": "l = LayerNormalization(x, n) e = Relu(l) y = Add(e, x)",
}
PARTS = {
    "one": ("Gather <axis = 1> (y, i)", "int64 i = {-1}"),
    "one, kept": ("Gather <axis = 1> (y, i)", "int64[1] i = {0}"),
    "last": (
        "Slice(y, i, k, a)",
        "int64[1] i = {-1}, int64[1] k = {9223372036854775807}, int64[1] a = {1}",
    ),
    "second, if any": ("Slice(y, i, k, a)", "int64[1] i = {1}, int64[1] k = {2}, int64[1] a = {1}"),
}


def model(body: str, part: str) -> onnx.ModelProto:
    take, stored = PARTS[part]
    constants = "int64[1] last = {-1}, int64[1] two = {2}, int64[4] heads = {0, 0, 2, 3}"
    return parse(
        f"agraph (float[b,s,4] x, {W}) => (float[] o) <{stored}, {constants}> {{ {body} "
        f"o = {take} }}"
    )


def optimized(before: onnx.ModelProto) -> onnx.ModelProto:
    return optimize(before, patterns="GatherSliceRegion", strict=True)


def same(before: onnx.ModelProto, after: onnx.ModelProto) -> None:
    for b, s in ((2, 5), (1, 2), (3, 1)):
        rng = np.random.default_rng(b)
        shapes = {
            "x": (b, s, 4),
            "w": (4, 6),
            "c": (6,),
            "n": (4,),
            "z": (b, s, 4),
            "r": (s, 4),
            "p": (1, s, 4),
        }
        feeds = {
            name: rng.standard_normal(shape).astype(np.float32) for name, shape in shapes.items()
        }
        names = {value.name for value in before.graph.input}
        feeds = {name: value for name, value in feeds.items() if name in names}
        for x, y in zip(run(before, feeds), run(after, feeds), strict=True):
            assert x.shape == y.shape
            np.testing.assert_allclose(x, y, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES)
def test_operators_that_compute_only_the_part(body: str) -> None:
    for part in PARTS:
        before = model(body, part)
        after = optimized(before)
        taken = "Gather" if part.startswith("one") else "Slice"
        assert (
            after.graph.node[0].op_type == taken
            or types(after).index(taken) < len(types(after)) - 1
        ), part
        assert Counter(types(after))[taken] == 1
        same(before, after)


@pytest.mark.parametrize(
    "body",
    [
        "y = Softmax <axis = 1> (x)",
        "y = CumSum(x, one)",
        "y = Add(x, z)",
        "y = Add(x, r)",
        "m = ReduceMax(x, one) y = Sub(x, m)",
        "h = Exp(x) y = Reshape(h, flat)",
    ],
    ids=[
        "along the axis",
        "sums",
        "two sources",
        "two sources of other ranks",
        "reduced",
        "merged axes",
    ],
)
def test_operators_that_need_more(body: str) -> None:
    before = parse(
        f"agraph (float[b,s,4] x, {W}) "
        "=> (float[] o) <int64 i = {-1}, int64[1] one = {1}, int64[3] flat = {0, 2, "
        f"-1}}> {{ {body} o = Gather <axis = 1> (y, i) }}"
    )
    assert types(optimized(before)) == types(before)


def test_results_that_are_read_as_a_whole_too() -> None:
    before = parse(
        "agraph (float[b,s,4] x) => (float[b,4] o, float[b,s,4] q) <int64 i = {0}> "
        "{ e = Exp(x) q = Relu(e) t = Tanh(e) o = Gather <axis = 1> (t, i) }"
    )
    after = optimized(before)
    assert types(after) == ["Exp", "Relu", "Gather", "Tanh"] or types(after) == [
        "Exp",
        "Gather",
        "Tanh",
        "Relu",
    ]
    same(before, after)


def test_a_value_that_the_region_reads_as_a_whole_stays_outside() -> None:
    before = parse(
        "agraph (float[b,s,4] x) => (float[b,4] o) <int64 i = {0}> { e = Exp(x) "
        "t = Transpose <perm = [0, 2, 1]> (e) p = Sigmoid(t) m = MatMul(p, e) "
        "o = Gather <axis = 1> (m, i) }"
    )
    after = optimized(before)
    assert Counter(types(after)) == Counter(types(before))
    same(before, after)


@pytest.mark.parametrize(("count", "moves"), [(2, True), (3, False)])
def test_a_part_of_known_size_is_at_most_half(count: int, moves: bool) -> None:
    before = parse(
        f"agraph (float[b,4] x) => (float[b,{count}] o) <int64[1] i = {{0}}, "
        f"int64[1] k = {{{count}}}, int64[1] a = {{1}}> {{ y = Exp(x) o = Slice(y, i, k, a) }}"
    )
    assert (types(optimized(before)) == ["Slice", "Exp"]) == moves


def test_columns_of_a_stored_weight() -> None:
    before = parse(
        "agraph (float[b,s,4] x) => (float[b,s,1] o) <float[4,3] w = {1,2,3,4,5,6,7,8,9,8,7,6}, "
        "int64[1] i = {1}> { y = MatMul(x, w) o = Gather <axis = 2> (y, i) }"
    )
    after = optimized(before)
    assert types(after) == ["MatMul"]
    assert [list(tensor.dims) for tensor in after.graph.initializer] == [[4, 1]]
    same(before, after)
