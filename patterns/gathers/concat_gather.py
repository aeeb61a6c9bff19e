import numpy as np

from xoptim.match import Example, GraphView, MatchResult, Node, PatternOptimization

from .._nodes import agree_elsewhere, axis_of, bounds_of, is_op, replaced_by


class ConcatGatherPattern(PatternOptimization):
    """Gather(Concat(a, b), i) → Gather(b, i - size of a), when all indices lie in b

    What: gathers from the one operand that contains all indices, instead of from the Concat.
    Why: the Concat copies all operands, and often becomes unused.
    Refuses when:
    1. the indices are not constant, there are none, or they are not on the axis of the Concat.
    2. the shapes of the operands are unknown, or differ along another axis.
    3. the indices lie in several operands. Or their operand, or one before it (after it for
       negative indices), has no static size along the axis.
    """

    anchors = ("Gather",)
    near = ("Concat",)

    def match(self, g: GraphView, node: Node, matched: list[MatchResult]) -> MatchResult | None:
        """Match indices that are all nonnegative, or all negative: counted from one end."""
        concat = g.node_before(node.input[0])
        indices = g.get_computed_constant(node.input[1]) if is_op(concat, "Concat") else None
        axis = axis_of(g, node)
        if (
            not is_op(concat, "Concat")
            or indices is None
            or not indices.size
            or axis is None
            or axis != axis_of(g, concat)
        ):
            return self.none(
                node, msg="the indices are not constant, or not along the axis of a Concat"
            )  # (1)
        if not agree_elsewhere(g, concat.input, axis):  # (2)
            return self.none(
                concat, msg="the operands' shapes are unknown or differ along other axes"
            )
        bounds = bounds_of(g, concat.input, axis)
        low, high = int(indices.min()), int(indices.max())
        for index, name in enumerate(concat.input):
            # The range of the operand in the Concat: its start is counted from the front, for
            # nonnegative indices, and its end from the back, for negative indices.
            start, end_from_back = bounds[index], bounds[index + 1] - bounds[-1]
            size = bounds[index + 1] - start
            if (
                low >= 0
                and isinstance(start, int)
                and start <= low
                and isinstance(size, int)
                and high < start + size
            ):
                new_indices = np.asarray(indices - start)
                apply = replaced_by("Gather", name, new_indices, **node.attribute)
                return MatchResult(self, [node], apply)
            if (
                high < 0
                and isinstance(end_from_back, int)
                and high < end_from_back
                and isinstance(size, int)
                and end_from_back - size <= low
            ):
                new_indices = np.asarray(indices - end_from_back)
                apply = replaced_by("Gather", name, new_indices, **node.attribute)
                return MatchResult(self, [node], apply)
        return self.none(node, msg="the indices are not known to select from one operand")  # (3)

    examples = Example.pairs(
        "agraph (float[a,2] x, float[a,3] z) => (float[a] y) <int64 i = {3}> "
        "{ c = Concat <axis = 1> (x, z) y = Gather <axis = 1> (c, i) }",
        "<int64 i = {1}> { y = Gather <axis = 1> (z, i) }",
        "agraph (float[b,a] x, float[3,a] z, float[1,a] w) "
        "=> (float[2,a] y) <int64[2] i = {-3, -2}> { c = Concat <axis = 0> (x, z, w) "
        "y = Gather(c, i) }",
        "<int64[2] i = {-2, -1}> { y = Gather(z, i) }",
    )
