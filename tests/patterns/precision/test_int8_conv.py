"""Convolutions in the QDQ form."""

from tests.support import parse, types
from xoptim import optimize


def test_a_result_that_nothing_reads() -> None:
    model = parse(
        "agraph (float[n,1,h,w] a) => (float[n,1,h,w] y) <float low = {-128}, float high = {127}, "
        "float[2,1,1,1] k = {127, -63.5}> { x = Clip(a, low, high) c = Conv(x, k) y = Neg(x) }"
    )
    after = optimize(model, patterns="Int8Conv", remove_unused=False, strict=True)
    assert types(after) == types(model)
