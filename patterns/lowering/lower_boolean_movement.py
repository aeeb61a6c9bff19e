from functools import partial
from typing import Final

from onnx import TensorProto

from xoptim.match import Example, GraphView, MatchResult, Node, PatternOptimization, PatternRewriter

_MOVING_FIRST: Final = (
    "Slice",
    "Transpose",
    "Reshape",
    "Squeeze",
    "Unsqueeze",
    "Flatten",
    "Expand",
    "Tile",
    "Gather",
    "GatherElements",
    "GatherND",
)
_MOVING_ALL: Final = ("Concat",)
_OF_FLOATS: Final = ("Slice",)
"""Operators that WebGPU has only for floats."""


class LowerBooleanMovementPattern(PatternOptimization):
    """Gather(x, i) of Booleans → Cast(Gather(Cast(x, to=int32), i), to=bool). The same for
    Transpose, Concat, ...

    What: moves the integers 0 and 1 instead of Booleans. Slice moves the floats 0 and 1.
    Why: WebGPU and many NPUs compute with Booleans, but do not move them.
    Refuses when:
    1. the elements are not Booleans.
    """

    phase = "lower"
    exactness = "exact"
    min_opset = 9
    anchors = (*_MOVING_FIRST, *_MOVING_ALL)

    def match(self, g: GraphView, node: Node, matched: list[MatchResult]) -> MatchResult | None:
        count = len(node.input) if node.op_type in _MOVING_ALL else 1
        if any(g.try_infer_type(name) != TensorProto.BOOL for name in node.input[:count]):  # (1)
            return self.none(node, msg="the elements are not Boolean")
        return MatchResult(self, [node], partial(self._moved, count))

    def _moved(self, count: int, g: PatternRewriter, node: Node) -> list[Node]:
        dtype = TensorProto.FLOAT if node.op_type in _OF_FLOATS else TensorProto.INT32
        numbers = [g.op.Cast(name, to=dtype) for name in node.input[:count]]
        result = g.unique_name(f"{node.output[0]}_numbers")
        moved = g.make_node(
            node.op_type, [*numbers, *node.input[count:]], [result], **dict(node.attribute)
        )
        back = g.make_node("Cast", [result], node.output, to=TensorProto.BOOL)
        return [*g.created, moved, back]

    examples = Example.pairs(
        "agraph (bool[a,b] x) => (bool[b,a] y) { y = Transpose <perm = [1, 0]> (x) }",
        "{ t = Cast <to = 6> (x) u = Transpose <perm = [1, 0]> (t) y = Cast <to = 9> (u) }",
        "agraph (bool[a,4] x) => (bool[a,u] y) <int64[1] s = {1}, int64[1] e = {3}, "
        "int64[1] i = {1}> { y = Slice(x, s, e, i) }",
        "<int64[1] s = {1}, int64[1] e = {3}, int64[1] i = {1}> "
        "{ t = Cast <to = 1> (x) u = Slice(t, s, e, i) y = Cast <to = 9> (u) }",
        "agraph (bool[a,4] x, bool[a,3] z) => (bool[a,7] y) { y = Concat <axis = 1> (x, z) }",
        "{ t = Cast <to = 6> (x) u = Cast <to = 6> (z) v = Concat <axis = 1> (t, u) "
        "y = Cast <to = 9> (v) }",
    )
