"""MatMul and Gemm with a following sum, or with a bias of zeros."""

from typing import Any

import numpy as np

from xoptim.facts.dtypes import FLOATS
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

from .._folding import Array, constant, doubles, rounded
from .._shapes import broadcasts_to
from ._matmul import contracts


class _GemmSum(EasyPatternOptimization):
    """A MatMul or Gemm, and a summand ``c`` that becomes the bias of a Gemm."""

    phase = "specialize"
    priority = 2
    exactness = "rounding"
    derives = ("bias",)

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        if not broadcasts_to(g, m.c, m.nodes[0].output[0]):  # (2)
            return self.none(m.nodes[1], msg="the bias is not known to broadcast to the MatMul")
        return m.derive(bias=m.c)

    def apply_pattern(
        self,
        g: PatternRewriter,
        a: str,
        b: str,
        bias: str | Array | None,
        attributes: dict[str, Any] | None = None,
    ) -> str:
        # The attribute ``beta`` is dropped, because its value was for the old bias.
        return g.op.Gemm(
            a,
            b,
            bias,
            **{name: value for name, value in (attributes or {}).items() if name != "beta"},
        )


class GemmAddPattern(_GemmSum):
    """Add(Gemm(a, b), c) → Gemm(a, b, c); Sum of two operands likewise

    What: makes c the bias of the Gemm.
    Why: saves one pass over the result.
    Refuses when:
    1. Gemm has a bias already.
    2. c does not broadcast to the shape of the result.
    """

    min_opset = 11

    def match_pattern(self, g: PatternBuilder, a: Symbol, b: Symbol, c: Symbol) -> Symbol:
        y = g.op.Gemm(a, b, None, attributes=g.capture("attributes"))
        return g.op.Sum(y, c) if g.option("several") else g.op.Add(y, c)  # (1)

    examples = Example.pairs(
        "agraph (float[n,4] x, float[3,4] w, float[3] b) => (float[n,3] y) "
        "{ t = Gemm <transB = 1, beta = 0.5> (x, w) y = Add(b, t) }",
        "{ y = Gemm <transB = 1> (x, w, b) }",
        "agraph (float[n,4] x, float[4,3] w, float[n,3] z) => (float[n,3] y) { t = Gemm(x, w) "
        "y = Sum(t, z) }",
        "{ y = Gemm(x, w, z) }",
    )


class GemmBiasAddPattern(_GemmSum):
    """Add(Gemm(a, b, c), d) → Gemm(a, b, beta · c + d)

    What: adds the two constants at optimization time.
    Why: saves one pass over the result.
    Refuses when:
    1. a constant differs from row to row, or would change the shape of the result.
    2. the sums cancel, or leave the range of their type.
    3. ``beta`` is not 1, and the summed dimension may be 0: onnxruntime ignores ``beta`` then.
    4. the constants are integers: ``beta`` may be a fraction.
    """

    min_opset = 7
    operand_types = {"d": FLOATS}  # (4)
    derives = ("bias",)

    def match_pattern(
        self, g: PatternBuilder, a: Symbol, b: Symbol, c: Constant, d: Constant
    ) -> Symbol:
        return g.op.Add(g.op.Gemm(a, b, c, attributes=g.capture("attributes")), d)

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        result, addend = g.try_infer_shape(m.nodes[0].output[0]), constant(g, m.d)
        rows = [array.shape[:-1] for array in (constant(g, m.c), addend)]
        is_same = all(shape in ((), (1,)) for shape in rows) and addend.shape[-1:] in (
            (),
            (1,),
            (result or ())[-1:],
        )
        if result is None or not is_same:  # (1)
            return self.none(m.nodes[1], msg="a bias differs from row to row, or changes the shape")
        beta, shift = m.attributes.get("beta", 1.0), doubles(g, m.d)
        present = doubles(g, m.c) * beta
        bias = rounded(present + shift, addend.dtype, terms=(present, shift))  # (2)
        if beta != 1 and not contracts(g, m.a, m.b, m.attributes):  # (3)
            return self.none(m.nodes[0], msg="the summed dimension may be 0")
        return m.derive(bias=bias)

    examples = Example.only(
        "agraph (float[n,4] x, float[4,2] w) "
        "=> (float[n,2] y) <float[2] c = {2, 4}, float[2] d = {5, 6}> { "
        "t = Gemm <beta = 0.5> (x, w, c) y = Add(t, d) }",
        "<float[2] c = {6, 8}> { y = Gemm(x, w, c) }",
    )


class MatMulAddPattern(_GemmSum):
    """Add(MatMul(a, b), c) → Gemm(a, b, c)

    What: makes c the bias of a Gemm.
    Why: saves one pass over the result.
    Refuses when:
    1. a or b is not a matrix, or the type is an integer type, for which Gemm has no kernel.
    2. c does not broadcast to the shape of the result.
    """

    min_opset = 7
    operand_types = {"a": FLOATS}  # (1)
    operand_ranks = {"a": 2, "b": 2}  # (1)

    def match_pattern(self, g: PatternBuilder, a: Symbol, b: Symbol, c: Symbol) -> Symbol:
        return g.op.Add(g.op.MatMul(a, b), c)

    examples = Example.only(
        "agraph (float[n,4] x, float[4,3] w) => (float[n,3] y) <float[3] b = {1, 2, 3}> { "
        "t = MatMul(x, w) y = Add(b, t) }",
        "<float[3] b = {1, 2, 3}> { y = Gemm(x, w, b) }",
    )


class GemmZeroBiasPattern(_GemmSum):
    """Gemm(a, b, c) → Gemm(a, b), if c or ``beta`` is 0

    What: drops a bias that adds 0. At most the sign of a zero changes, as in `NeutralAdd`. MatMuls
    exported from JAX have such a bias.
    Why: the kernel does not fill the result with the bias first. A following Add can become the
    bias, and the Gemm can be quantized.
    Refuses when:
    1. the bias is not constant, or ``beta`` · bias is not 0. (0 times infinity is NaN.)
    2. ``beta`` is 0, the bias is not, and the summed dimension may be 0: onnxruntime ignores
       ``beta`` then.
    """

    min_opset = 11
    priority = 1
    derives = ("bias",)

    def match_pattern(self, g: PatternBuilder, a: Symbol, b: Symbol, c: Constant) -> Symbol:
        return g.op.Gemm(a, b, c, attributes=g.capture("attributes"))

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        bias, beta = doubles(g, m.c), m.attributes.get("beta", 1.0)
        with np.errstate(invalid="ignore"):  # 0 times an infinity is NaN, which is not 0
            adds = (bias * beta).any()
        if adds:  # (1)
            return self.none(m.nodes[0], msg="neither the bias nor beta is 0")
        if bias.any() and not contracts(g, m.a, m.b, m.attributes):  # (2)
            return self.none(m.nodes[0], msg="the summed dimension may be 0")
        return m.derive(bias=None)

    examples = Example.pairs(
        "agraph (float[n,4] x, float[4,3] w) => (float[n,3] y) <float[3] c = {0, 0, 0}> { "
        "y = Gemm <alpha = 2.0> (x, w, c) }",
        "{ y = Gemm <alpha = 2.0> (x, w) }",
        "agraph (float[n,4] x, float[3,4] w) => (float[n,3] y) <float c = {7}> { "
        "y = Gemm <beta = 0.0, transB = 1> (x, w, c) }",
        "{ y = Gemm <transB = 1> (x, w) }",
    )
