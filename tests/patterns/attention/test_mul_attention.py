"""A factor of the queries moves into the scale of Attention."""

import numpy as np

from tests.support import parse, same_results, types
from xoptim import optimize


def test_the_default_scale_of_heads_on_an_axis_of_their_own() -> None:
    """Attention ignores the numbers of heads."""
    model = parse(
        "agraph (float[b,2,3,4] q, float[b,2,5,4] k, float[b,2,5,6] v) => (float[b,2,3,6] y) "
        "<float two = {2}> { x = Mul(two, q) "
        "y = Attention <q_num_heads = 2, kv_num_heads = 2> (x, k, v) }",
        opset=23,
    )
    after = optimize(model, patterns="MulAttention", strict=True)
    (attention,) = after.graph.node
    rng = np.random.default_rng(0)
    feeds = {
        name: rng.normal(size=shape).astype(np.float32)
        for name, shape in {"q": (1, 2, 3, 4), "k": (1, 2, 5, 4), "v": (1, 2, 5, 6)}.items()
    }
    assert attention.op_type == "Attention"
    same_results(model, after, feeds)


def test_no_heads() -> None:
    """The model is invalid."""
    model = parse(
        "agraph (float[b,3,8] q, float[b,5,8] k, float[b,5,8] v) => (float[b,3,8] y) "
        "<float two = {2}> { x = Mul(two, q) "
        "y = Attention <q_num_heads = 0, kv_num_heads = 2> (x, k, v) }",
        opset=23,
    )
    assert types(optimize(model, patterns="MulAttention", strict=True)) == ["Mul", "Attention"]
