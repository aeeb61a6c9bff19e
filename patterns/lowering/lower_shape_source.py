from functools import partial
from typing import Final

from onnx import TensorProto

from xoptim.match import Example, GraphView, MatchResult, Node, PatternOptimization, PatternRewriter

from ._lowering import WIDE

_READ: Final = frozenset(
    (TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.INT32, TensorProto.UINT32)
)


class LowerShapeSourcePattern(PatternOptimization):
    """Shape(x) of integers, if t = Gather(table, x) exists → Shape(t), the same axes

    What: reads sizes from a tensor of floats or 32-bit integers that is computed from x and has the
    axes of x. If x has Booleans, a new Cast to int32 computes such a tensor.
    Why: WebGPU reads sizes of tensors of its own types only. A Shape of 64-bit integers stays on
    the CPU.
    Refuses when:
    1. x has neither elements of 64 bits nor Booleans.
    2. no Gather with the indices x, and no Cast of x, has a result of floats or 32-bit integers.
    """

    phase = "lower"
    exactness = "exact"
    min_opset = 15  # from here on, Shape has ``start`` and ``end``
    anchors = ("Shape",)

    def match(self, g: GraphView, node: Node, matched: list[MatchResult]) -> MatchResult | None:
        x = node.input[0]
        rank = g.info(x).rank
        element = g.try_infer_type(x)
        if element == TensorProto.BOOL:
            return MatchResult(self, [node], self._cast)
        if element not in WIDE or not rank:  # (1)
            return self.none(
                node, msg="the tensor is neither 64-bit nor Boolean, or its rank is unknown"
            )
        reader = next(
            (reader for reader in g.next_nodes(x) if _first_axis(g, reader, x) is not None), None
        )
        if reader is None:  # (2)
            return self.none(node, msg="no Gather or Cast of the tensor has its axes in a row")
        first = _first_axis(g, reader, x)
        assert first is not None
        begin, end = _axes_of(node, rank)
        return MatchResult(
            self, [node], partial(self._read, reader.output[0], first + begin, first + end)
        )

    def _read(self, name: str, begin: int, end: int, g: PatternRewriter, node: Node) -> list[Node]:
        return [g.make_node("Shape", [name], node.output, start=begin, end=end)]

    def _cast(self, g: PatternRewriter, node: Node) -> list[Node]:
        numbers = g.op.Cast(node.input[0], to=TensorProto.INT32)
        return [*g.created, g.make_node("Shape", [numbers], node.output, **dict(node.attribute))]

    examples = Example.pairs(
        "agraph (int64[a,b] x, float[9,4] w) => (float[a,b,4] y, int64[1] s) "
        "{ t = Gather(w, x) y = Relu(t) s = Shape <start = 1> (x) }",
        "{ t = Gather(w, x) y = Relu(t) s = Shape <start = 1, end = 2> (t) }",
        "agraph (int64[a,b] x) => (float[a,b] y, int64[2] s) { t = Cast <to = 1> (x) y = Relu(t) "
        "s = Shape(x) }",
        "{ t = Cast <to = 1> (x) y = Relu(t) s = Shape <start = 0, end = 2> (t) }",
        "agraph (int64[a,b] x) => (bool[a,b] y, int64[1] s) { y = Cast <to = 9> (x) "
        "s = Shape <start = 1> (y) }",
        "{ y = Cast <to = 9> (x) t = Cast <to = 6> (y) s = Shape <start = 1> (t) }",
        ranges=(("x", 0, 8),),
    )


def _first_axis(g: GraphView, node: Node, x: str) -> int | None:
    """The axis of a node's result at which the axes of ``x`` begin.

    ``None`` if the result lacks these axes, or has a type whose sizes WebGPU does not read.
    """
    if node.domain or not node.output or g.try_infer_type(node.output[0]) not in _READ:
        return None
    if node.op_type == "Cast":
        return 0
    is_row = node.op_type == "Gather" and node.input[1] == x and node.input[0] != x
    rank = g.info(node.input[0]).rank if is_row else None
    if not rank:
        return None
    return int(g.get_attribute(node, "axis")) % rank


def _axes_of(node: Node, rank: int) -> tuple[int, int]:
    """The first axis that a Shape reads, and the axis after the last."""
    start = node.get_attribute("start") or 0
    end = node.get_attribute("end")
    begin = min(max(start + rank if start < 0 else start, 0), rank)
    last = rank if end is None else min(max(end + rank if end < 0 else end, 0), rank)
    return begin, max(begin, last)
