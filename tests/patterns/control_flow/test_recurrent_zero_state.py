"""Zeros from which both directions of a recurrent layer start."""

import numpy as np
import pytest

import xoptim
from tests.support import parse, same_results, types


@pytest.mark.parametrize(
    ("second", "found"),
    [("h", ["LSTM"]), ("o", ["Shape", "Cast", "Concat", "Cast", "ConstantOfShape"])],
)
def test_the_states_of_both_directions(second: str, found: list[str]) -> None:
    """Converters of Keras write sizes in 32 bits, and join the states of the directions."""
    model = parse(
        "agraph (float[s,b,3] x, float[2,8,3] w, float[2,8,2] r, float[1,b,2] o) =>"
        " (float[s,2,b,2] y) <int32[1] i = {1}, int32[1] k = {2}> { n = Shape <start = 1, end"
        " = 2> (x) c = Cast <to = 6> (n) v = Concat <axis = 0> (i, c, k) t = Cast <to = 7> (v) h ="
        f" ConstantOfShape(t) q = Concat <axis = 0> (h, {second}) y = LSTM <hidden_size = 2,"
        ' direction = "bidirectional"> (x, w, r, , , q, q) }'
    )
    after = xoptim.optimize(model, strict=True)
    assert types(after)[: len(found)] == found
    rng = np.random.default_rng(0)
    shapes = {"x": (5, 3, 3), "w": (2, 8, 3), "r": (2, 8, 2), "o": (1, 3, 2)}
    same_results(
        model,
        after,
        {name: rng.standard_normal(shape).astype(np.float32) for name, shape in shapes.items()},
    )
