import numpy as np

from xoptim.match import (
    Constant,
    EasyPatternOptimization,
    Example,
    GraphView,
    Match,
    PatternBuilder,
    PatternRewriter,
    Symbol,
)

from .._folding import Array, constant, doubles, is_moderate, rounded

_MAX_NEW_ELEMENTS = 1 << 12
"""Number of elements that new constants may have even if the old ones are smaller."""


class MulAddMulPattern(EasyPatternOptimization):
    """(x · a + b) · c → x · (a · c) + b · c

    What: multiplies the constants a and b by the factor c. The same for all forms with Div and Sub,
    such as (b - x / a) / c.
    Why: one fewer pass over the tensor: measured 0.6 to 0.86 of the time for constants along
    different axes.
    Refuses when:
    1. a constant is not finite, or not a floating-point number.
    2. the new constants would be larger than the old ones, and have more than 4096 elements or
       broadcast x.
    3. a new constant leaves the range of its type, or a divisor is 0.
    4. a or c is so large or small that x · a overflows or becomes 0, but the result does not.
    """

    phase = "specialize"
    exactness = "rounding"
    min_opset = 7
    derives = ("factors", "shifts")

    def match_pattern(
        self, g: PatternBuilder, x: Symbol, a: Constant, b: Constant, c: Constant
    ) -> Symbol:
        t = getattr(g.op, g.choice("first", "Mul", "Div"))(x, a)
        t = (
            g.op.Sub(b, t)
            if g.option("reversed")
            else getattr(g.op, g.choice("shift", "Add", "Sub"))(t, b)
        )
        return getattr(g.op, g.choice("last", "Mul", "Div"))(t, c)

    @np.errstate(all="ignore")  # numbers that are not finite are refused below
    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        constants = [constant(g, name) for name in (m.a, m.b, m.c)]
        # (1)
        if not all(
            array.dtype.kind in "fV" and np.isfinite(array.astype(np.float64)).all()
            for array in constants
        ):
            return self.none(m.nodes[2], msg="a constant is not a finite float")
        a, b, c = (doubles(g, name) for name in (m.a, m.b, m.c))
        c = 1 / c if m.last == "Div" else c
        factors, shifts = np.asarray((1 / a if m.first == "Div" else a) * c), np.asarray(b * c)
        factors, shifts = (
            (-factors if m.reversed else factors),
            (-shifts if m.get("shift") == "Sub" else shifts),
        )
        if not (np.isfinite(factors).all() and np.isfinite(shifts).all()):  # (3)
            return self.none(m.nodes[2], msg="a divisor is 0")
        dtype = constants[0].dtype
        if not (is_moderate(a, dtype) and is_moderate(c, dtype)):  # (4)
            return self.none(m.nodes[2], msg="a factor is very large or very small")
        max_size = max(
            sum(array.size for array in constants),
            _MAX_NEW_ELEMENTS if g.same_shape(m.x, m.outputs[0]) else 0,
        )
        if factors.size + shifts.size > max_size:  # (2)
            return self.none(
                m.nodes[2], msg="the folded constants would be larger than the present ones"
            )
        # (3)
        return m.derive(factors=rounded(factors, dtype), shifts=rounded(shifts, dtype, terms=()))

    def apply_pattern(self, g: PatternRewriter, x: str, factors: Array, shifts: Array) -> str:
        return g.op.Add(g.op.Mul(x, factors), shifts)

    examples = Example.pairs(
        "agraph (float[2] x) => (float[2] y) <float[2] a = {1, 2}, float[2] b = {3, 4}, "
        "float[2] c = {5, 6}> { t = Mul(x, a) u = Add(b, t) y = Mul(u, c) }",
        "<float[2] a = {5,12}, float[2] b = {15,24}> { t = Mul(x,a) y = Add(t,b) }",
        "agraph (float[2] x) => (float[2] y) <float[2] a = {1, 2}, float[2] b = {3, 4}, "
        "float[2] c = {2, 4}> { t = Div(x, a) u = Sub(b, t) y = Div(u, c) }",
        "<float[2] a = {-0.5, -0.125}, float[2] b = {1.5, 1}> { t = Mul(x,a) y = Add(t,b) }",
    )
