import numpy as np
import pytest
from onnx import numpy_helper

from tests.support import parse, run, types
from xoptim import optimize


@pytest.mark.parametrize(
    ("body", "indices", "rows", "moved"),
    [
        ("d = DequantizeLinear(W, s, z) y = Gather(d, i)", "n", 300, True),
        ("d = DequantizeLinear(W, s, z) y = Gather(d, i)", "40", 64, True),
        ("d = DequantizeLinear <axis = 1> (W, t) y = Gather(d, i)", "1,n", 300, True),
        (
            (
                "d = DequantizeLinear(W, s, z) a = Gather(d, i) j = Neg(i) b = Gather(d, j) "
                "y = Sub(a, b)"
            ),
            "1,n",
            300,
            True,
        ),
        ("d = DequantizeLinear(W, s, z) y = Gather(d, i)", "n", 64, False),
        ("d = DequantizeLinear(W, s, z) y = Gather(d, i)", "80", 64, False),
        ("d = DequantizeLinear <axis = 1> (W, t) y = Gather <axis = 1> (d, one)", "n", 300, False),
        (
            "d = DequantizeLinear(W, s, z) a = Gather(d, i) b = ReduceMax(d) y = Sub(a, b)",
            "n",
            300,
            False,
        ),
    ],
    ids=[
        "some size",
        "40 of 64",
        "columns",
        "twice",
        "few rows",
        "80 of 64",
        "axis of the scales",
        "read elsewhere",
    ],
)
def test_rows_of_a_table(body: str, indices: str, rows: int, moved: bool) -> None:
    before = parse(
        f"agraph (int64[{indices}] i) => (float y) <float s = {{0.1}}, int8 z = {{9}}, "
        f"float[2] t = {{0.1, 0.2}}, int64 one = {{1}}> {{ {body} }}"
    )
    before.graph.output[0].type.tensor_type.ClearField("shape")
    table = np.random.default_rng(0).integers(-128, 128, (rows, 2)).astype(np.int8)
    before.graph.initializer.append(numpy_helper.from_array(table, "W"))
    after = optimize(before, patterns="DequantizeLinearGather", strict=True)
    assert (types(after).index("Gather") < types(after).index("DequantizeLinear")) == moved
    shape = tuple(int(size) if size.isdigit() else 7 for size in indices.split(","))
    feeds = {"i": np.random.default_rng(1).integers(0, rows, shape)}
    for expected, found in zip(run(before, feeds), run(after, feeds), strict=True):
        np.testing.assert_array_equal(found, expected)
