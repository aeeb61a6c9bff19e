from functools import partial
from typing import Any

import numpy as np

from xoptim.match import Example, GraphView, MatchResult, Node, PatternOptimization, PatternRewriter

from .._folding import Array, constant
from .._nodes import axis_of, is_op, size_along


class MatMulSplitPattern(PatternOptimization):
    """Split(MatMul(x, w) + b), some parts unread → Split(MatMul(x, fewer columns of w) + fewer of
    b); Gemm likewise

    What: drops the columns of the weight that only unread outputs of the Split need. If one output
    is read, no Split remains.
    Why: unread columns are not computed. Measured 0.57 to 0.70 of the time if a third or half of
    the columns is dropped, and 0.93 for 1 of 64.
    Refuses when:
    1. all outputs are read, or none is, or the size of an output is not known.
    2. the Split is not along the last axis of a MatMul or Gemm. (Conv is excluded: with fewer
       filters, its kernel gave NaN for an infinity.)
    3. the weight is not constant, or another node reads it, so that it would be stored twice. Or
       another node reads the result of the MatMul.
    4. a bias is not constant, or is neither a scalar nor one number per column.
    """

    anchors = ("Split",)
    near = ("MatMul", "Gemm", "Add")
    exactness = "rounding"
    min_opset = 7

    def match(self, g: GraphView, node: Node, matched: list[MatchResult]) -> MatchResult | None:
        axis = axis_of(g, node)
        sizes = [] if axis is None else [size_along(g, name, axis) for name in node.output]
        used = [place for place, name in enumerate(node.output) if g.is_used(name)]
        lengths = [size for size in sizes if isinstance(size, int)]
        # (1)
        if axis is None or len(lengths) < len(node.output) or not 0 < len(used) < len(node.output):
            return self.none(
                node, msg="every output of the Split is read, or none, or its sizes are unknown"
            )
        before = g.node_before(node.input[0])
        add = before if is_op(before, "Add") else None
        matmul = before if add is None else self._matmul_of(g, add)
        place = self._columns_of(g, matmul, axis, sum(lengths))
        # (2) (3)
        if (
            matmul is None
            or place is None
            or not all(g.is_exclusive(n.output[0]) for n in (matmul, add) if n)
        ):
            return self.none(
                node,
                msg="not columns of a MatMul with a constant weight and no other consumers",
            )
        columns = np.concatenate(
            [np.arange(sum(lengths[:part]), sum(lengths[: part + 1])) for part in used]
        )
        rank = g.get_rank(node.input[0])
        biases = [
            *matmul.input[2:],
            *([] if add is None else [name for name in add.input if name != matmul.output[0]]),
        ]
        parts = [
            part
            for name in biases
            if (part := self._part(g, name, columns, sum(lengths), rank)) is not None
        ]
        if not columns.size or len(parts) < len(biases):  # (4)
            return self.none(node, msg="the bias is neither a scalar nor one value per column")
        weight = constant(g, matmul.input[1]).take(columns, place)
        outputs, split = (
            [node.output[part] for part in used],
            {"axis": axis, "split": [lengths[part] for part in used]},
        )
        nodes = [n for n in (matmul, add, node) if n is not None]
        return MatchResult(self, nodes, partial(self._write, [weight, *parts], outputs, split))

    def _matmul_of(self, g: GraphView, add: Node) -> Node | None:
        """The MatMul to which a node adds a constant."""
        computed = [name for name in add.input if not g.is_constant(name)]
        before = g.node_before(computed[0]) if len(computed) == 1 else None
        return before if is_op(before, "MatMul", "Gemm") else None

    def _columns_of(self, g: GraphView, matmul: Node | None, axis: int, width: int) -> int | None:
        """The axis of the weight that holds its columns, if the Split is along these columns.

        ``width`` is the size of this axis before the Split.
        """
        if not is_op(matmul, "MatMul", "Gemm"):
            return None
        weight, rank = matmul.input[1], g.info(matmul.output[0]).rank
        # (3)
        if (
            not g.is_constant(weight)
            or not g.is_used_only_by(weight, matmul)
            or matmul.input.count(weight) > 1
        ):
            return None
        if rank is None or axis != rank - 1 or g.info(weight).rank != 2:  # (2)
            return None
        place = 0 if matmul.attribute.get("transB") else 1
        # A bias may broadcast the single column of a weight to several columns.
        return place if size_along(g, weight, place) == width else None

    def _part(self, g: GraphView, name: str, columns: Array, width: int, rank: int) -> Array | None:
        """The used columns of a bias, or the bias itself if one number applies to all columns.

        ``None`` if the bias is neither (4).
        """
        shape = g.static_shape(name)
        if shape is None or not g.is_constant(name) or len(shape) > rank:
            return None
        if not shape or shape[-1] == 1 < width:
            return constant(g, name)
        return constant(g, name).take(columns, -1) if shape[-1] == width else None

    def _write(
        self,
        constants: list[Array],
        outputs: list[str],
        split: dict[str, Any],
        g: PatternRewriter,
        matmul: Node,
        *_: Node,
    ) -> list[Node]:
        count = len(matmul.input) - 1
        y = getattr(g.op, matmul.op_type)(matmul.input[0], *constants[:count], **matmul.attribute)
        for bias in constants[count:]:
            y = g.op.Add(y, bias)
        if len(outputs) == 1:
            return [*g.created, g.make_node("Identity", [y], outputs)]
        return [*g.created, g.make_node_check_opset("Split", [y], outputs, **split)]

    examples = Example.pairs(
        "agraph (float[a,b,2] x) => (float[a,b,1] y, float[a,b,1] z) <float[2,4] w = {1, 2, 3, 4, "
        "5, 6, 7, 8}, float[4] c = {1, 2, 3, 4}, int64[3] n = {1, 2, 1}> { m = MatMul(x, w) "
        "s = Add(m, c) y, u, z = Split <axis = -1> (s, n) }",
        "<float[2,2] w = {1, 4, 5, 8}, float[2] c = {1, 4}, int64[2] n = {1, 1}> { "
        "m = MatMul(x, w) s = Add(m, c) y, z = Split <axis = 2> (s, n) }",
        "agraph (float[a,2] x) => (float[a,1] y) <float[3,2] w = {1, 2, 3, 4, 5, 6}, "
        "float[3] c = {1, 2, 3}, int64[2] n = {2, 1}> { s = Gemm <transB = 1> (x, w, c) "
        "u, y = Split <axis = 1> (s, n) }",
        "<float[1,2] w = {5, 6}, float[1] c = {3}> { y = Gemm <transB = 1> (x, w, c) }",
    )
