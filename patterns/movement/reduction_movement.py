"""Reductions and the movements next to them."""

from xoptim.facts.dims import is_nonzero
from xoptim.match import Example, GraphView, MatchResult, Node, PatternOptimization
from xoptim.operators.axes import permutation, reduced_axes

from .._nodes import is_op, replaced_by
from .._operators import REDUCING
from .._shapes import same_dims


class _ReductionMovement(PatternOptimization):
    """A reduction next to an operator that moves elements."""


class ReduceReshapePattern(_ReductionMovement):
    """Squeeze(Reduce(x, keepdims=1)) → Reduce(x, keepdims=0); Unsqueeze(Reduce(x, keepdims=0)) →
    Reduce(x, keepdims=1)

    What: sets ``keepdims`` so that the reduction returns the shape that Squeeze, Unsqueeze or
    Reshape gives it afterwards.
    Why: one node less.
    Refuses when:
    1. a shape or the axes are unknown, or the result would have another shape.
    2. something else reads the reduction.
    """

    anchors = ("Squeeze", "Unsqueeze", "Reshape")
    near = REDUCING

    def match(self, g: GraphView, node: Node, matched: list[MatchResult]) -> MatchResult | None:
        reduction = g.node_before(node.input[0])
        if not is_op(reduction, *REDUCING) or not g.is_exclusive(node.input[0]):  # (2)
            return self.none(node, msg="the operand is not a reduction, or has other consumers")
        source, axes = g.try_infer_shape(reduction.input[0]), reduced_axes(g, reduction)
        if source is None or axes is None:  # (1)
            return self.none(reduction, msg="the shape or the axes are unknown")
        kept = reduction.get_attribute("keepdims")
        shape = [
            1 if i in axes else dim for i, dim in enumerate(source) if not kept or i not in axes
        ]
        if not same_dims(shape, g.try_infer_shape(node.output[0])):  # (1)
            return self.none(
                node, msg="the result is not that of the reduction with the other keepdims"
            )
        toggled = {**reduction.attribute, "keepdims": 1 - kept}
        return MatchResult(
            self, [reduction, node], replaced_by(reduction.op_type, *reduction.input, **toggled)
        )

    examples = Example.pairs(
        "agraph (float[a,b] x) => (float[a] y) <int64[1] k = {-1}> { "
        "m = ReduceMax <keepdims = 1> (x, k) y = Squeeze(m, k) }",
        "<int64[1] k = {-1}> { y = ReduceMax <keepdims = 0> (x, k) }",
        "agraph (float[a,b] x) => (int64[a,1] y) <int64[1] k = {1}> "
        "{ m = ArgMax <axis = 1, keepdims = 0> (x) y = Unsqueeze(m, k) }",
        "{ y = ArgMax <axis = 1, keepdims = 1> (x) }",
    )


class TransposeReducePattern(_ReductionMovement):
    """Reduce(Transpose(x), axes) → Reduce(x, other axes)

    What: reduces the same axes of x, if the remaining axes are then in order.
    Why: the Transpose copies the tensor, and the reduction does not need it.
    Refuses when:
    1. the permutation or the axes are unknown.
    2. the axes that remain are in another order than in x.
    3. an axis may have size 0: onnxruntime gives results of other ranks then.
    """

    anchors = REDUCING
    near = ("Transpose",)
    exactness = "rounding"

    def match(self, g: GraphView, node: Node, matched: list[MatchResult]) -> MatchResult | None:
        """Where keepdims is set, axes of size 1 stay between the others, and must be in order
        too.
        """
        transpose = g.node_before(node.input[0])
        perm = permutation(g, transpose) if is_op(transpose, "Transpose") else None
        axes = reduced_axes(g, node)
        if transpose is None or perm is None or not axes:  # (1)
            return self.none(node, msg="the operand is not a Transpose, or the axes are unknown")
        if not all(map(is_nonzero, g.try_infer_shape(node.input[0]) or (0,))):  # (3)
            return self.none(node, msg="a dimension may be 0")
        remaining = [place for axis, place in enumerate(perm) if axis not in axes]
        moved = sorted(perm[axis] for axis in axes)
        # (2)
        if remaining != sorted(remaining) or (
            node.get_attribute("keepdims") and set(moved) != axes
        ):
            return self.none(node, msg="the Transpose reorders the axes that remain")
        others = {
            key: value for key, value in node.attribute.items() if key not in ("axes", "axis")
        }
        chosen = {"axis": moved[0]} if node.op_type.startswith("Arg") else {"axes": moved}
        return MatchResult(
            self, [node], replaced_by(node.op_type, transpose.input[0], **others, **chosen)
        )

    examples = Example.only(
        "agraph (float[2,3,4,5] x) => (float[2,4,5] y) <int64[1] k = {-1}> "
        "{ t = Transpose <perm = [0, 2, 3, 1]> (x) y = ReduceMean <keepdims = 0> (t, k) }",
        "<int64[1] k = {1}> { y = ReduceMean <keepdims = 0> (x, k) }",
    )
