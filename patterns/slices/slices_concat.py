from math import prod

import numpy as np

from xoptim.match import Example, GraphView, MatchResult, Node, PatternOptimization

from .._nodes import axis_of, replaced_by
from .._selections import slice_of

_BLOCK = 16
"""Minimum number of elements per index, which a Gather copies as one block."""
_MAX_INDICES = 4096


class SlicesConcatPattern(PatternOptimization):
    """Concat(Slice(x, a:), Slice(x, :a)) → Gather(x, indices)

    What: one Gather takes all indices in their new order. The nodes come from ``torch.roll``.
    Why: copies the tensor once instead of twice, measured 1.1 to 1.7 times as fast on onnxruntime's
    CPU provider.
    Refuses when:
    1. an operand is not a Slice of the same tensor, along the axis of the Concat, with constant
       bounds.
    2. a Slice has other consumers.
    3. the axis is dynamic or very long, or there are too few elements per index to copy as a block.
    """

    anchors = ("Concat",)
    near = ("Slice",)
    phase = "specialize"

    def match(self, g: GraphView, node: Node, matched: list[MatchResult]) -> MatchResult | None:
        producers = [g.node_before(name) for name in node.input]
        cuts = [cut for producer in producers if (cut := slice_of(g, producer)) is not None]
        sources = {cut.source for cut in cuts}
        # (1)
        if (
            len(cuts) < max(2, len(node.input))
            or len(sources) > 1
            or {cut.axis for cut in cuts} != {axis_of(g, node)}
        ):
            return self.none(node, msg="not all operands are slices of one tensor along this axis")
        if not all(g.is_used_only_by(name, node) for name in node.input):  # (2)
            return self.none(node, msg="a Slice has other consumers")
        trailing = (g.try_infer_shape(cuts[0].source) or ())[cuts[0].axis + 1 :]
        sizes = [dim for dim in trailing if isinstance(dim, int)]
        count = sum(len(cut.selection.indices) for cut in cuts)
        if len(sizes) < len(trailing) or prod(sizes) < _BLOCK or count > _MAX_INDICES:  # (3)
            return self.none(node, msg="too few elements per index, or too many indices")
        indices = [index for cut in cuts for index in cut.selection.indices]
        nodes = list(dict.fromkeys(cut.node for cut in cuts))
        gather = replaced_by(
            "Gather", cuts[0].source, np.array(indices, np.int64), axis=cuts[0].axis
        )
        return MatchResult(self, [*nodes, node], gather)

    examples = Example.only(
        "agraph (float[a,5,16] x) => (float[a,5,16] y) <int64[1] zero = {0}, int64[1] two = {2}, "
        "int64[1] end = {5}, int64[1] k = {1}> { p = Slice(x, two, end, k) "
        "q = Slice(x, zero, two, k) y = Concat <axis = 1> (p, q) }",
        "<int64[5] i = {2, 3, 4, 0, 1}> { y = Gather <axis = 1> (x, i) }",
    )
