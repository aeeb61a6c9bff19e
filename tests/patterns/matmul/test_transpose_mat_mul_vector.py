"""MatMuls of a transposed matrix and a vector, which onnxruntime 1.32 computes wrongly when it
optimizes them itself.
"""

import numpy as np
import pytest

import xoptim
from tests.support import parse, run

MATRICES = {"n,4": "1, 0", "b,n,4": "0, 2, 1", "b,2,n,4": "0, 1, 3, 2"}


@pytest.mark.parametrize("shape", MATRICES)
def test_numbers_are_right_with_all_optimizations_of_onnxruntime(shape: str) -> None:
    leading = shape.removesuffix("n,4")
    head = f"agraph (float[{shape}] x, float[n] v) => (float[{leading}4] y)"
    model = parse(f"{head} {{ t = Transpose <perm = [{MATRICES[shape]}]> (x) y = MatMul(t, v) }}")
    result = xoptim.optimize(model)
    assert [node.op_type for node in result.graph.node] == ["MatMul"]
    sizes = [{"b": 3, "n": 5}.get(each) or int(each) for each in shape.split(",")]
    rng = np.random.default_rng(0)
    feeds = {"x": rng.standard_normal(sizes, np.float32), "v": rng.standard_normal(5, np.float32)}
    expected = np.swapaxes(feeds["x"], -1, -2) @ feeds["v"]
    np.testing.assert_allclose(
        run(result, feeds, optimized=True)[0], expected, rtol=1e-5, atol=1e-5
    )


OTHERS = {
    "permutations": (
        "agraph (float[n,4,b] x, float[n] v) => (float[b,4] y) { t = Transpose(x) "
        "y = MatMul(t, v) }"
    ),
    "vectors before the matrix": (
        "agraph (float[n,4] x, float[4] v) => (float[n] y) { t = Transpose(x) y = MatMul(v, t) }"
    ),
}


@pytest.mark.parametrize("others", OTHERS)
def test_others_stay(others: str) -> None:
    """A matrix by a vector would take many times as long as the vector by the transposed matrix,
    whose Transpose is merged.
    """
    model = parse(OTHERS[others])
    assert [node.op_type for node in xoptim.optimize(model).graph.node] == ["Transpose", "MatMul"]
