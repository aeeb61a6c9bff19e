from xoptim.facts.dims import is_nonzero
from xoptim.match import Example, GraphView, MatchResult, Node, PatternOptimization
from xoptim.operators.axes import permutation, reduced_axes

from .._nodes import is_op, replaced_by
from .._operators import REDUCING


class TransposeReducePattern(PatternOptimization):
    """Reduce(Transpose(x), axes) → Reduce(x, other axes)

    What: reduces the same axes of x, if the remaining axes are then in order.
    Why: the Transpose copies the tensor, and the reduction does not need it.
    Refuses when:
    1. the permutation or the axes are unknown.
    2. the axes that remain are in another order than in x.
    3. an axis may have size 0: onnxruntime's results then have other ranks.
    """

    anchors = REDUCING
    near = ("Transpose",)
    exactness = "rounding"

    def match(self, g: GraphView, node: Node, matched: list[MatchResult]) -> MatchResult | None:
        """With keepdims, the reduced axes must be the same in x and in its Transpose."""
        transpose = g.node_before(node.input[0])
        perm = permutation(g, transpose) if is_op(transpose, "Transpose") else None
        axes = reduced_axes(g, node)
        if transpose is None or perm is None or not axes:  # (1)
            return self.none(node, msg="the operand is not a Transpose, or the axes are unknown")
        if not all(map(is_nonzero, g.try_infer_shape(node.input[0]) or (0,))):  # (3)
            return self.none(node, msg="a dimension may be 0")
        remaining = [x_axis for axis, x_axis in enumerate(perm) if axis not in axes]
        moved = sorted(perm[axis] for axis in axes)
        # (2)
        if remaining != sorted(remaining) or (
            node.get_attribute("keepdims") and set(moved) != axes
        ):
            return self.none(node, msg="the Transpose reorders the axes that remain")
        attributes = {
            key: value for key, value in node.attribute.items() if key not in ("axes", "axis")
        }
        reduced = {"axis": moved[0]} if node.op_type.startswith("Arg") else {"axes": moved}
        return MatchResult(
            self, [node], replaced_by(node.op_type, transpose.input[0], **attributes, **reduced)
        )

    examples = Example.pairs(
        "agraph (float[2,3,4,5] x) => (float[2,4,5] y) <int64[1] k = {-1}> "
        "{ t = Transpose <perm = [0, 2, 3, 1]> (x) y = ReduceMean <keepdims = 0> (t, k) }",
        "<int64[1] k = {1}> { y = ReduceMean <keepdims = 0> (x, k) }",
        "agraph (float[2,3,4] x) => (int64[2,4] y, float[2,4,3] t) "
        "{ t = Transpose <perm = [0, 2, 1]> (x) y = ArgMax <axis = 2, keepdims = 0> (t) }",
        "{ y = ArgMax <axis = 1, keepdims = 0> (x) t = Transpose <perm = [0, 2, 1]> (x) }",
    )
