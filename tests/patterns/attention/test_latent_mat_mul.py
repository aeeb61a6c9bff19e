"""Few queries multiply latents instead of the keys and values that are projected from them."""

import numpy as np
import pytest
from onnx import numpy_helper

from tests.support import parse, types
from xoptim import optimize

HEADS, RANK, SIZE = 4, 128, 32


@pytest.mark.parametrize(
    ("queries", "keys", "is_applied"),
    [("8", "n", True), ("8", "512", True), ("8", "8", False), ("1", "2", True), ("64", "n", False)],
)
def test_latents_of_few_keys_are_projected(queries: str, keys: str, is_applied: bool) -> None:
    model = parse(f"""agraph (float[2,{HEADS},{queries},{keys}] s, float[2,{keys},{RANK}] c)
        => (float[2,{HEADS},{queries},{SIZE}] y) <int64[4] t = {{0, 0, {HEADS}, {SIZE}}}> {{
            p = Softmax(s)
            v = MatMul(c, w)
            h = Reshape(v, t)
            u = Transpose <perm = [0, 2, 1, 3]> (h)
            y = MatMul(p, u)
        }}""")
    weights = np.random.default_rng(0).standard_normal((RANK, HEADS * SIZE)).astype(np.float32)
    model.graph.initializer.append(numpy_helper.from_array(weights, "w"))
    result = optimize(model, patterns="LatentValues", strict=True)
    is_changed = types(result) != types(model)
    assert is_changed == is_applied
