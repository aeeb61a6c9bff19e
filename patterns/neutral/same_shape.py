"""Operators that change at most the shape of a tensor, if they keep the shape."""

from onnx import TensorProto

from xoptim.match import ANY, Example, GraphView, Match, PatternBuilder, Symbol

from .._deductions import keeps_shape
from .identity_operator import _IdentityOperator

_INTEGERS64 = (TensorProto.INT64, TensorProto.UINT64)
_SELECTIONS = ("ReduceMax", "ReduceMin")


class _SameShape(_IdentityOperator):
    """An operator that is the identity if it keeps the shape."""

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        # (1)
        return keeps_shape(g, m.nodes[0]) or self.none(
            m.nodes[0], msg="the shape changes or is unknown"
        )


class ReshapePattern(_SameShape):
    """Reshape(x, shape of x) → x

    What: drops a Reshape that keeps the shape. Dimensions may be symbols.
    Why: one node fewer, and the nodes that compute the target often become unused.
    Refuses when:
    1. the result is not known to have the shape of x.
    """

    def match_pattern(self, g: PatternBuilder, x: Symbol) -> Symbol:
        return g.op.Reshape(x, attributes=ANY)  # shape inference handles zeros and allowzero

    examples = Example.pairs(
        "agraph (float[a,b,6] x) => (float[a,b,6] y) <int64[3] s = {0, -1, 6}> { "
        "t = Reshape(x, s) y = Relu(t) }",
        "{ y = Relu(x) }",
        "agraph (float[a,6] x) => (float[a,6] y) <int64[1] six = {6}> "
        "{ n = Shape <end = 1> (x) s = Concat <axis = 0> (n, six) t = Reshape(x, s) y = Relu(t) }",
        "{ y = Relu(x) }",
    )


class IdentityFlattenPattern(_SameShape):
    """Flatten(x) of a matrix x → x

    What: drops a Flatten that keeps the shape.
    Why: one node fewer.
    Refuses when:
    1. the shape changes or is unknown: Flatten of a matrix with axis 0 or 2 changes its shape.
    """

    def match_pattern(self, g: PatternBuilder, x: Symbol) -> Symbol:
        return g.op.Flatten(x, attributes=ANY)

    examples = Example.only(
        "agraph (float[a,b] x) => (float[a,b] y) { t = Flatten(x) y = Relu(t) }", "{ y = Relu(x) }"
    )


class IdentitySqueezePattern(_SameShape):
    """Squeeze(x) or Unsqueeze(x) without axes → x

    What: drops a Squeeze that removes nothing, and an Unsqueeze that adds nothing.
    Why: one node fewer.
    Refuses when:
    1. the shape is unknown, or an axis may have size 1: a Squeeze without axes removes such axes.
    """

    def match_pattern(self, g: PatternBuilder, x: Symbol) -> Symbol:
        return (
            g.op.Squeeze(x, attributes=ANY)
            if g.option("squeeze")
            else g.op.Unsqueeze(x, attributes=ANY)
        )

    examples = Example.pairs(
        "agraph (float[2,3] x) => (float[2,3] y) { t = Squeeze(x) y = Relu(t) }",
        "{ y = Relu(x) }",
        "agraph (float[a,1] x) => (float[a,1] y) <int64[0] axes = {}> { t = Unsqueeze(x, axes) "
        "y = Relu(t) }",
        "{ y = Relu(x) }",
    )


class IdentityReducePattern(_SameShape):
    """ReduceSum, ReduceMean, ReduceMax, ReduceMin or ReduceProd of x over axes of size 1 → x

    What: drops a reduction of single elements that keeps the axes, and a reduction over no axis.
    (The exactness is ``rounding``: some kernels sum a single -0 to 0.)
    Refuses when:
    1. the shape is unknown or changes. (A reduced axis that keeps its size has size 1.)
    2. it is another reduction, such as a norm, which is not the element itself.
    3. it sums or multiplies 64-bit integers, which onnxruntime computes in float64.
    """

    exactness = "rounding"

    def match_pattern(self, g: PatternBuilder, x: Symbol) -> Symbol:
        operator = g.choice(
            "operator", *_SELECTIONS, "ReduceSum", "ReduceMean", "ReduceProd"
        )  # (2)
        return getattr(g.op, operator)(x, attributes=ANY)

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        if g.try_infer_type(m.x) in _INTEGERS64 and m.operator not in _SELECTIONS:  # (3)
            return self.none(m.nodes[0], msg="onnxruntime rounds large integers in this reduction")
        return super().validate_mapping(g, m)

    examples = Example.pairs(
        "agraph (float[a,1] x) => (float[a,1] y) <int64[1] axes = {-1}> { t = ReduceMean(x, axes) "
        "y = Relu(t) }",
        "{ y = Relu(x) }",
        "agraph (float[a,1] x) => (float[a,1] y) { t = ReduceSum <noop_with_empty_axes = 1> (x) "
        "y = Relu(t) }",
        "{ y = Relu(x) }",
    )
