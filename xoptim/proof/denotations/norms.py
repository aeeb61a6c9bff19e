"""Elements divided by a norm."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from xoptim.facts.dtypes import is_float
from xoptim.proof.calls import Call, axis_within, denotes
from xoptim.proof.denotations.sums import is_covered, summed_over
from xoptim.proof.elements import ZERO, Element, inverse
from xoptim.proof.kinds import EQUAL, MAXIMUM
from xoptim.proof.laws import comparison, extreme, root
from xoptim.proof.tensors import Tensor, elementwise


@denotes("LpNormalization")
def lp_normalization(call: Call) -> Tensor | None:
    """Elements divided by their L1 or L2 norm along an axis; 0 where the norm is 0."""
    x, power = call.operand(0), call.attribute("p", 2)
    if not is_covered(call, 0) or power not in (1, 2) or not is_float(x.dtype):
        return None
    axis = axis_within(call.attribute("axis", -1), x.rank)
    change = _MAGNITUDES[power]
    sums = summed_over(call.case, x, [axis], keeps=True, change=change)

    def compute(a: Element, total: Element) -> Element:
        norm = root(total) if power == 2 else total
        is_zero = comparison(EQUAL, x.dtype, norm, ZERO)
        quotient = a * inverse(norm)
        return quotient - is_zero * quotient

    return elementwise(compute, [x, sums], x.shape, x.dtype)


_MAGNITUDES: Final[dict[int, Callable[[Element], Element]]] = {
    1: lambda e: extreme(MAXIMUM, e, -e),
    2: lambda e: e * e,
}
