"""The shape of the exponent of a Pow, on which the last bits of onnxruntime's results depend."""

import numpy as np
import pytest

from tests.support import parse, run
from xoptim import optimize

THREES = ", ".join(["3"] * 4096)


@pytest.mark.parametrize(
    ("patterns", "dims", "nodes"),
    [
        ("ShapeBasedExpandBroadcast", "64,64", "s = Shape(x) t = Expand(e, s) y = Pow(x, t)"),
        (
            "ExpandElementwise",
            "64,64",
            "s = Shape(x) t = Expand(e, s) n = Neg(t) m = Neg(n) y = Pow(x, m)",
        ),
        (
            "UniformBroadcast",
            "n,m",
            "s = Shape(x) t = ConstantOfShape <value = float[1] {3}> (s) y = Pow(x, t)",
        ),
        ("EqualAxisBroadcast", "64,64", "y = Pow(x, threes)"),
    ],
)
def test_the_exponent_keeps_its_shape(patterns: str, dims: str, nodes: str) -> None:
    before = parse(
        f"agraph (float[{dims}] x, float[1,1] e) => (y) <float[64,64] threes = {{{THREES}}}> "
        f"{{ {nodes} }}"
    )
    after = optimize(before, patterns=patterns, strict=True)
    x = np.abs(np.random.default_rng(0).standard_normal((64, 64))).astype(np.float32)
    feeds = {"x": x, "e": np.full((1, 1), 3, np.float32)}
    np.testing.assert_array_equal(run(after, feeds)[0], run(before, feeds)[0])
