from functools import partial
from typing import Final

from onnx import TensorProto

from xoptim.match import Example, GraphView, MatchResult, Node, PatternOptimization, PatternRewriter

_FIRST: Final = (
    *("Slice", "Transpose", "Reshape", "Squeeze", "Unsqueeze", "Flatten", "Expand", "Tile"),
    *("Gather", "GatherElements", "GatherND"),
)
_ALL: Final = ("Concat",)


class LowerBooleanMovementPattern(PatternOptimization):
    """Slice(x) of Booleans → Cast(Slice(Cast(x, to=int32)), to=bool), and so for Gather, Transpose, Concat, ...

    What: moves the numbers 0 and 1 in place of Booleans.
    Why: WebGPU and many processors for neural networks compute with Booleans, but do not move them.
    Refuses when:
    1. the elements are not Booleans.
    """

    phase = "lower"
    exactness = "exact"
    min_opset = 9
    anchors = (*_FIRST, *_ALL)

    def match(self, g: GraphView, node: Node, matched: list[MatchResult]) -> MatchResult | None:
        count = len(node.input) if node.op_type in _ALL else 1
        if any(g.try_infer_type(name) != TensorProto.BOOL for name in node.input[:count]):  # (1)
            return self.none(node, msg="it does not move Booleans")
        return MatchResult(self, [node], partial(self._moved, count))

    def _moved(self, count: int, g: PatternRewriter, node: Node) -> list[Node]:
        numbers = [g.op.Cast(name, to=TensorProto.INT32) for name in node.input[:count]]
        result = g.unique_name(f"{node.output[0]}_int32")
        moved = g.make_node(node.op_type, [*numbers, *node.input[count:]], [result], **dict(node.attribute))
        back = g.make_node("Cast", [result], node.output, to=TensorProto.BOOL)
        return [*g.created, moved, back]

    examples = Example.pairs(
        "agraph (bool[a,b] x) => (bool[b,a] y) { y = Transpose <perm = [1, 0]> (x) }",
        "{ t = Cast <to = 6> (x) u = Transpose <perm = [1, 0]> (t) y = Cast <to = 9> (u) }",
        "agraph (bool[a,4] x, bool[a,3] z) => (bool[a,7] y) { y = Concat <axis = 1> (x, z) }",
        "{ t = Cast <to = 6> (x) u = Cast <to = 6> (z) v = Concat <axis = 1> (t, u) y = Cast <to = 9> (v) }",
    )
