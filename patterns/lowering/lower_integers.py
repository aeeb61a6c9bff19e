from functools import partial
from typing import Final

from onnx import TensorProto

from xoptim.match import Example, GraphView, MatchResult, Node, PatternOptimization, PatternRewriter

from ._bounds import bounds_of, operand_places

_COMPARISONS: Final = ("Less", "LessOrEqual", "Greater", "GreaterOrEqual", "Equal")
_COMPUTED: Final = (
    "Add",
    "Sub",
    "Mul",
    "Neg",
    "Abs",
    "Min",
    "Max",
    "Range",
    "Where",
    "Concat",
    "CumSum",
    "Unsqueeze",
    "Squeeze",
    "Reshape",
    "Slice",
    "Expand",
    "Transpose",
    "Tile",
    "Gather",
)


class LowerIntegersPattern(PatternOptimization):
    """Add(x, y) of 64-bit integers → Cast(Add(Cast(x, to=int32), Cast(y, to=int32)), to=int64)

    What: computes with integers of 32 bits if all operands and results fit: sizes, positions,
    flags, indices of an axis of static size. The same for comparisons, Range, Where, Concat,
    Unsqueeze, Reshape, Slice, ...
    Why: WebGPU and many NPUs have no integers of 64 bits.
    Refuses when:
    1. the numbers do not have 64 bits.
    2. an operand or the result is not known to fit into 32 bits. (For this check, every tensor is
       assumed to have at most 2^28 elements.)
    """

    phase = "lower"
    min_opset = 14
    anchors = (*_COMPARISONS, *_COMPUTED)

    def match(self, g: GraphView, node: Node, matched: list[MatchResult]) -> MatchResult | None:
        places = operand_places(node)
        names = [node.input[place] for place in places]
        if not names or any(g.try_infer_type(name) != TensorProto.INT64 for name in names):  # (1)
            return self.none(node, msg="an operand is not int64")
        if any(bounds_of(g, name) is None for name in names):  # (2)
            return self.none(node, msg="an operand is not known to fit into int32")
        is_comparison = node.op_type in _COMPARISONS
        if not is_comparison and bounds_of(g, node.output[0]) is None:  # (2)
            return self.none(node, msg="the result is not known to fit into int32")
        return MatchResult(self, [node], partial(self._narrow, places, is_comparison))

    def _narrow(
        self, places: list[int], is_comparison: bool, g: PatternRewriter, node: Node
    ) -> list[Node]:
        operands = list(node.input)
        for place in places:
            operands[place] = self._narrowed(g, operands[place])
        result = node.output[0] if is_comparison else g.unique_name(f"{node.output[0]}_int32")
        computed = g.make_node(node.op_type, operands, [result], **dict(node.attribute))
        nodes = [*g.created, computed]
        if not is_comparison:
            nodes.append(g.make_node("Cast", [result], node.output, to=TensorProto.INT64))
        return nodes

    def _narrowed(self, g: PatternRewriter, name: str) -> str:
        """The numbers in 32 bits: a constant, the operand of a Cast from int32, or a new Cast."""
        constant = g.get_computed_constant(name)
        if constant is not None:
            return g.make_initializer("", constant.astype("int32"), source=f"{name}_int32")
        before = g.node_before(name)
        is_cast = before is not None and before.op_type == "Cast" and not before.domain
        if (
            before is not None
            and is_cast
            and g.try_infer_type(before.input[0]) == TensorProto.INT32
        ):
            return before.input[0]
        return str(g.op.Cast(name, to=TensorProto.INT32))

    examples = Example.pairs(
        "agraph (float[a,4] x) => (int64[1] y) <int64[1] i = {3}> { "
        "s = Shape <start = 0, end = 1> (x) y = Add(s, i) }",
        "<int32[1] i = {3}> { s = Shape <start = 0, end = 1> (x) c = Cast <to = 6> (s) "
        "t = Add(c, i) y = Cast <to = 7> (t) }",
        "agraph (float[a,512] x) => (int64[1] y) <int64[1] i = {1024}> { s = Shape <end = 1> (x) "
        "y = Mul(s, i) }",
        "<int32[1] i = {1024}> { s = Shape <end = 1> (x) c = Cast <to = 6> (s) t = Mul(c, i) "
        "y = Cast <to = 7> (t) }",
        "agraph (int32[a] x, bool[a] z) => (bool[a] y) { s = Cast <to = 7> (x) "
        "t = Cast <to = 7> (z) y = Less(s, t) }",
        "{ t = Cast <to = 7> (z) u = Cast <to = 6> (t) y = Less(x, u) }",
        "agraph (bool[a,b] x) => (int64[b,a] y) { s = Cast <to = 7> (x) "
        "y = Transpose <perm = [1, 0]> (s) }",
        "{ s = Cast <to = 7> (x) t = Cast <to = 6> (s) u = Transpose <perm = [1, 0]> (t) "
        "y = Cast <to = 7> (u) }",
    )
