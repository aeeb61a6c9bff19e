"""Standard operators instead of operators of ONNX Runtime that do the same."""

from typing import Any, ClassVar

import numpy as np
from onnx import TensorProto

from xoptim.facts.dtypes import Exactness, numpy_dtype
from xoptim.match import Example, GraphView, Match, PatternBuilder, PatternRewriter
from xoptim.match.trace import Constant, Optional, Symbol

from ._lowering import _Lowering


class _LowerOtherDomain(_Lowering):
    """An operator of ``com.microsoft`` that has a standard form.

    Why: only ONNX Runtime's own providers run the operator.
    """

    exactness: ClassVar[Exactness] = "exact"


class LowerExpandDimsPattern(_LowerOtherDomain):
    """com.microsoft.ExpandDims(x, axis) → Unsqueeze(x, axes=[axis])

    What: adds the axis of size 1 by the standard operator.
    Refuses when:
    1. the axis is not a constant scalar.
    """

    derives = ("axes",)

    def match_pattern(self, g: PatternBuilder, x: Symbol, axis: Constant) -> Symbol:
        return g.op.ExpandDims(x, axis, domain="com.microsoft")

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        axis = g.get_computed_constant(m.axis)
        if axis is None or axis.size != 1:  # (1)
            return self.none(m.nodes[0], msg="the axis is not a constant scalar")
        return m.derive(axes=[int(axis.reshape(()))])

    def apply_pattern(self, g: PatternRewriter, x: str, axes: list[int]) -> str:
        return g.op.Unsqueeze(x, axes=axes)

    examples = Example.pairs(
        "agraph (float[n,4] x) => (float[n,1,4] y) <int32 a = {1}> { "
        "y = com.microsoft.ExpandDims(x, a) }",
        "<int64[1] a = {1}> { y = Unsqueeze(x, a) }",
        "agraph (float[n,4] x) => (float[n,4,1] y) <int32 a = {-1}> { "
        "y = com.microsoft.ExpandDims(x, a) }",
        "<int64[1] a = {-1}> { y = Unsqueeze(x, a) }",
    )


class LowerContribGridSamplePattern(_LowerOtherDomain):
    """com.microsoft.GridSample(x, grid) → GridSample(x, grid)

    What: uses the standard operator. From operator set 20 on, its modes are called linear and cubic
    instead of bilinear and bicubic.
    Refuses when:
    1. the tensors are not float32, or the ranks are not 4 (checked by the matcher).
    """

    exactness = "rounding"
    min_opset = 16
    operand_types = {"x": frozenset((TensorProto.FLOAT,))}  # (1)
    operand_ranks = {"x": 4, "grid": 4}  # (1)

    def match_pattern(self, g: PatternBuilder, x: Symbol, grid: Symbol) -> Symbol:
        return g.op.GridSample(x, grid, domain="com.microsoft", attributes=g.capture("written"))

    def apply_pattern(self, g: PatternRewriter, x: str, grid: str, written: dict[str, Any]) -> str:
        attributes = dict(written)
        if g.main_opset >= 20 and "mode" in attributes:
            names = {"bilinear": "linear", "bicubic": "cubic"}
            attributes["mode"] = names.get(attributes["mode"], attributes["mode"])
        return g.op.GridSample(x, grid, **attributes)

    examples = (
        Example(
            "agraph (float[n,2,h,w] x, float[n,i,j,2] p) => (float[n,2,i,j] y) { y = "
            'com.microsoft.GridSample <mode = "bicubic", padding_mode = "border"> (x, p) }',
            '{ y = GridSample <mode = "bicubic", padding_mode = "border"> (x, p) }',
        ),
        Example(
            "agraph (float[n,2,h,w] x, float[n,i,j,2] p) => (float[n,2,i,j] y) { y = "
            'com.microsoft.GridSample <mode = "bilinear", align_corners = 1> (x, p) }',
            '{ y = GridSample <mode = "linear", align_corners = 1> (x, p) }',
            opset=20,
        ),
    )


class LowerMatMulInteger16Pattern(_LowerOtherDomain):
    """com.microsoft.MatMulInteger16(a, b) → MatMul(Cast(a), Cast(b)) of int32

    What: multiplies in 32 bits. The operator, too, adds the products in 32 bits.
    Refuses when:
    1. an operand is not of type int16 (checked by the matcher).
    """

    min_opset = 9
    operand_types = {
        "a": frozenset((TensorProto.INT16,)),
        "b": frozenset((TensorProto.INT16,)),
    }  # (1)

    def match_pattern(self, g: PatternBuilder, a: Symbol, b: Symbol) -> Symbol:
        return g.op.MatMulInteger16(a, b, domain="com.microsoft")

    def apply_pattern(self, g: PatternRewriter, a: str, b: str) -> str:
        wide = [g.op.Cast(name, to=TensorProto.INT32) for name in (a, b)]
        return g.op.MatMul(*wide)

    examples = Example.only(
        "agraph (int16[n,4] a, int16[4,3] b) => (int32[n,3] y) { "
        "y = com.microsoft.MatMulInteger16(a, b) }",
        "{ c = Cast <to = 6> (a) d = Cast <to = 6> (b) y = MatMul(c, d) }",
        ranges=(("a", -99, 99), ("b", -99, 99)),
    )


class LowerContribPadPattern(_LowerOtherDomain):
    """com.microsoft.Pad(x, pads, value) → Pad(x, pads, value)

    What: uses the standard operator, with the pads as a constant vector.
    Refuses when:
    1. the pads are not constant, or the rank is unknown.
    2. the value is not a scalar.
    """

    min_opset = 11
    derives = ("widths",)

    def match_pattern(
        self, g: PatternBuilder, x: Symbol, pads: Constant, value: Optional
    ) -> Symbol:
        return g.op.Pad(
            *(x, pads, value), domain="com.microsoft", mode=g.capture("mode", optional=True)
        )

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        widths, rank = g.get_computed_constant(m.pads), g.info(m.x).rank
        if widths is None or rank is None or widths.size != 2 * rank:  # (1)
            return self.none(m.nodes[0], msg="pads are not constant, or the rank is unknown")
        if m.value and g.try_infer_shape(m.value) not in ((), (1,)):  # (2)
            return self.none(m.nodes[0], msg="the value is not a scalar")
        return m.derive(widths=widths.reshape(-1))

    def apply_pattern(
        self, g: PatternRewriter, x: str, value: str, widths: np.ndarray, mode: str | None
    ) -> str:
        scalar = value
        if value and g.try_infer_shape(value) == (1,):
            scalar = g.op.Squeeze(value, axes=[0])
        return g.op.Pad(x, widths, scalar or None, mode=mode or "constant")

    examples = Example.pairs(
        "agraph (float[n,4] x, float[1] v) => (float[n,7] y) <int64[1,4] p = {0, 2, 0, 1}> { "
        "y = com.microsoft.Pad(x, p, v) }",
        "<int64[4] p = {0, 2, 0, 1}, int64[1] a = {0}> { s = Squeeze(v, a) y = Pad(x, p, s) }",
        "agraph (float[n,4] x) => (float[n,7] y) <int64[4] p = {0, 2, 0, 1}> { "
        'y = com.microsoft.Pad <mode = "reflect"> (x, p) }',
        '<int64[4] p = {0, 2, 0, 1}> { y = Pad <mode = "reflect"> (x, p) }',
    )


class LowerContribRangePattern(_LowerOtherDomain):
    """com.microsoft.Range(start, limit, delta) → Range(start, limit, delta)

    What: uses the standard operator. An omitted step becomes 1, and vectors of one number become
    scalars.
    Refuses when:
    1. the type is unknown, or int16 (checked by the matcher).
    2. an operand has more than one number.
    """

    min_opset = 11
    operand_types = {
        "start": frozenset(
            (TensorProto.INT32, TensorProto.INT64, TensorProto.FLOAT, TensorProto.DOUBLE)
        )
    }  # (1)

    def match_pattern(
        self, g: PatternBuilder, start: Symbol, limit: Symbol, delta: Optional
    ) -> Symbol:
        return g.op.Range(start, limit, delta, domain="com.microsoft")

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        names = [name for name in (m.start, m.limit, m.delta) if name]
        if any(g.try_infer_shape(name) not in ((), (1,)) for name in names):  # (2)
            return self.none(m.nodes[0], msg="an operand is not known to be one number")
        return True

    def apply_pattern(self, g: PatternRewriter, start: str, limit: str, delta: str) -> str:
        numbers = [
            g.op.Squeeze(name, axes=[0]) if name and g.try_infer_shape(name) == (1,) else name
            for name in (start, limit, delta)
        ]
        step = numbers[2] or np.array(1, numpy_dtype(g.try_infer_type(start)))
        return g.op.Range(numbers[0], numbers[1], step)

    examples = Example.pairs(
        "agraph (int64[1] s, int64 l, int64 d) => (int64[n] y) { "
        "y = com.microsoft.Range(s, l, d) }",
        "<int64[1] a = {0}> { t = Squeeze(s, a) y = Range(t, l, d) }",
        "agraph (float s, float l) => (float[n] y) { y = com.microsoft.Range(s, l) }",
        "<float d = {1}> { y = Range(s, l, d) }",
        ranges=(("s", 0, 3), ("l", 4, 9), ("d", 1, 2)),
    )


class LowerContribUniquePattern(_LowerOtherDomain):
    """com.microsoft.Unique(x) → Unique(x, sorted=0)

    What: uses the standard operator. Its second result, the first positions, is not read.
    Refuses when:
    1. x is not a vector of float32 numbers (checked by the matcher).
    """

    exactness = "finite"  # the kernel of the standard operator drops numbers between NaN
    min_opset = 11
    operand_types = {"x": frozenset((TensorProto.FLOAT,))}  # (1)
    operand_ranks = {"x": 1}  # (1)

    def match_pattern(self, g: PatternBuilder, x: Symbol) -> Any:
        return g.op.Unique(x, domain="com.microsoft", outputs=g.variadic("results"))

    def apply_pattern(self, g: PatternRewriter, x: str, results: tuple[str, ...]) -> Any:
        values, _, places, counts = g.op.Unique(x, sorted=0, outputs=4)
        return (values, places, counts)[: len(results)]

    examples = Example.only(
        "agraph (float[n] x) => (float[k] y, int64[n] i, int64[k] c) { "
        "y, i, c = com.microsoft.Unique(x) }",
        "{ y, f, i, c = Unique <sorted = 0> (x) }",
        ranges=(("x", 0, 3),),
    )


class LowerConvTransposeWithDynamicPadsPattern(_LowerOtherDomain):
    """com.microsoft.ConvTransposeWithDynamicPads(x, w, pads, bias) → ConvTranspose(x, w, bias)

    What: uses the standard operator, with the constant pads as an attribute.
    Refuses when:
    1. the pads are not constant, or auto_pad is set.
    2. the tensors are not float32 (checked by the matcher).
    """

    exactness = "rounding"
    operand_types = {"x": frozenset((TensorProto.FLOAT,))}  # (2)
    derives = ("attributes",)

    def match_pattern(
        self, g: PatternBuilder, x: Symbol, w: Symbol, pads: Optional, bias: Optional
    ) -> Symbol:
        return g.op.ConvTransposeWithDynamicPads(
            *(x, w, pads, bias), domain="com.microsoft", attributes=g.capture("written")
        )

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        pads = g.get_computed_constant(m.pads) if m.pads else np.zeros(0, np.int64)
        if pads is None or m.written.get("auto_pad", "NOTSET") != "NOTSET":  # (1)
            return self.none(m.nodes[0], msg="the pads are not constant, or auto_pad is set")
        widths = {"pads": pads.reshape(-1).tolist()} if pads.size else {}
        # An empty list stands for the default.
        written = {name: value for name, value in m.written.items() if value != []}
        return m.derive(attributes={**written, **widths})

    def apply_pattern(
        self, g: PatternRewriter, x: str, w: str, bias: str, attributes: dict[str, Any], **m: Any
    ) -> str:
        return g.op.ConvTranspose(x, w, bias or None, **attributes)

    examples = Example.only(
        "agraph (float[n,2,h] x, float[2,3,3] w, float[3] b) => (float[n,3,i] y) <int64[2] p = {1, "
        "0}> { y = com.microsoft.ConvTransposeWithDynamicPads <strides = [2]> (x, w, p, b) }",
        "{ y = ConvTranspose <strides = [2], pads = [1, 0]> (x, w, b) }",
    )
