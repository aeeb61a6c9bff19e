"""A reduction over axes of size 1, or over none."""

from __future__ import annotations

from collections.abc import Sequence

from onnx import TensorProto

from xoptim.match import ANY, EasyPatternOptimization, Example, GraphView, Match, PatternBuilder, PatternRewriter, Symbol

from .._proofs import keeps_shape

_WIDE = (TensorProto.INT64, TensorProto.UINT64)


class IdentityReducePattern(EasyPatternOptimization):
    """ReduceSum, ReduceMean, ReduceMax, ReduceMin or ReduceProd of x over axes of size 1 → x

    What: drops a reduction of one element at a time that keeps the axes, and one over no axis.
    Why: it copies the whole tensor.
    Refuses when:
    1. the shape is unknown or changes: an axis that stays as it is although it was reduced had size 1.
    2. it is another reduction: a norm is not the element itself.
    3. it sums or multiplies integers of 64 bits, which onnxruntime does in double precision.
    """

    def match_pattern(self, g: PatternBuilder, x: Symbol) -> Symbol:
        """Five kinds (2), whatever the axes."""
        for kind in ("Sum", "Mean", "Max", "Min"):
            if g.option(kind):
                return getattr(g.op, f"Reduce{kind}")(x, attributes=ANY)
        return g.op.ReduceProd(x, attributes=ANY)

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        """Compare the shapes (1) and look at the type (3)."""
        if g.try_infer_type(m.x) in _WIDE and m.nodes[0].op_type not in ("ReduceMax", "ReduceMin"):
            return self.none(m.nodes[0], msg="large integers are rounded")
        return keeps_shape(g, m.nodes[0]) or self.none(m.nodes[0], msg="the shape changes or is unknown")

    def apply_pattern(self, g: PatternRewriter, x: str) -> str:
        """Nothing is left."""
        return x

    @classmethod
    def examples(cls) -> Sequence[Example]:
        """The mean of one column, and the sum over no axis."""
        after = "agraph (float[a,1] x) => (float[a,1] y) { y = Relu(x) }"
        return (
            Example(
                "agraph (float[a,1] x) => (float[a,1] y) <int64[1] axes = {-1}> { t = ReduceMean(x, axes) y = Relu(t) }", after
            ),
            Example(
                "agraph (float[a,1] x) => (float[a,1] y) { t = ReduceSum <noop_with_empty_axes = 1> (x) y = Relu(t) }", after
            ),
        )
