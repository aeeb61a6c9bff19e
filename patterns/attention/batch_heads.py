from typing import Any, Final

import numpy as np

from xoptim.facts.shapes import Shape
from xoptim.match import (
    ANY,
    EasyPatternOptimization,
    Example,
    GraphView,
    Match,
    PatternBuilder,
    PatternRewriter,
    Scalar,
    Symbol,
)

from .._deductions import reshapes_as_inferred
from .._nodes import is_op
from .._shapes import reshape_target
from ._formula import SEQUENCE_FIRST, TO_SEQUENCE_FIRST

_SWAPPED: Final = [1, 2, 3, 0]
"""Moves keys (length, batch, heads, size) to (batch, heads, size, length)."""


class BatchHeadsPattern(EasyPatternOptimization):
    """Softmax(q · kᵀ) · v with batch and heads in one axis → Softmax(q · kᵀ) · v with four axes

    What: queries, keys and values (length, batch, features) are split into (length, batch, heads,
    size) instead of (length, batch · heads, size). A mask and factors stay where they are. A
    Reshape of the weights into (batch, heads, queries, keys) is dropped.
    Why: the patterns that fuse attention match tensors of rank 4. The attention of DETR, and of
    torch.nn with ``need_weights``, has rank 3. Alone, the rewrite saves no node, but it makes the
    targets of the Reshapes constant.
    Refuses when:
    1. the shapes are unknown, or batch and heads of queries, keys and values differ.
    2. a computed size may be 0 at run time: Reshape reads a 0 as "copy the size of the operand".
    3. the mask does not broadcast to the scores. Or the target of a Reshape, for the mask or the
       result, is known only at run time.
    """

    exactness = "rounding"
    min_opset = 5
    derives = ("heads", "sizes", "merged", "mask_and_target")

    def match_pattern(
        self,
        g: PatternBuilder,
        q: Symbol,
        k: Symbol,
        v: Symbol,
        s: Scalar,
        mask: Symbol,
    ) -> tuple[Symbol, ...]:
        def moved(x: Symbol, perm: list[int]) -> Symbol:
            split: Symbol = g.op.Reshape(x, g.symbol(), attributes=ANY)
            return g.op.Transpose(split, perm=perm)

        queries = moved(q, [1, 0, 2])
        scaled = g.choice("scaled", "", "queries", "scores")
        scaling = g.choice("scaling", "Mul", "Div") if scaled else ""
        if scaled == "queries":
            queries = getattr(g.op, scaling)(queries, s)
        scores = g.op.MatMul(queries, moved(k, [1, 2, 0]))
        if scaled == "scores":
            scores = getattr(g.op, scaling)(scores, s)
        weights = g.op.Softmax(self._masked(g, scores, mask), axis=g.any_of(-1, 2))
        y = g.op.Transpose(g.op.MatMul(weights, moved(v, [1, 0, 2])), perm=[1, 0, 2])
        if g.option("shown"):  # The weights are a result, with the axes of batch and heads split.
            return y, g.op.Reshape(weights, g.symbol(), attributes=ANY)
        return (y,)

    def _masked(self, g: PatternBuilder, scores: Symbol, mask: Symbol) -> Symbol:
        """The scores with a mask, which the model may apply after a Reshape to rank 4."""
        masking = g.choice("masking", "", "Add", "Add split", "Where split")
        if not masking:
            return scores
        if masking == "Add":
            return g.op.Add(scores, mask)
        split = g.op.Reshape(scores, g.symbol(), attributes=ANY)
        masked_scores = (
            g.op.Add(split, mask)
            if masking == "Add split"
            else g.op.Where(mask, g.symbol("low"), split)
        )
        return g.op.Reshape(masked_scores, g.symbol(), attributes=ANY)

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        scores, matmul = (node for node in m.nodes if node.op_type == "MatMul")
        if not all(reshapes_as_inferred(g, node) for node in m.nodes if is_op(node, "Reshape")):
            return self.none(matmul, msg="the target shape may contain a 0")  # (2)
        operands = (scores.input[0], scores.input[1], matmul.input[1])
        queries, keys, values = (self._split_of(g, m, name) for name in operands)
        if queries is None or keys is None or values is None:  # (1)
            return self.none(scores, msg="the shapes are unknown, or heads are not split alike")
        if not queries[1:3] == keys[1:3] == values[1:3]:  # (1)
            return self.none(scores, msg="batches or heads differ")
        length, batch, heads, size = queries
        scores_shape = (batch, heads, length, keys[0])
        if not self._have_axes_of_scores(g, m, scores_shape):  # (3)
            return self.none(scores, msg="the mask has other axes than the scores")
        mask_and_target = self._mask(g, m, scores_shape)
        result = (length, batch, heads, values[3])
        target = reshape_target(g, result, (length, batch * heads, values[3]))
        if mask_and_target is None or target is None:  # (3)
            return self.none(
                scores,
                msg="the mask does not broadcast to the scores, or a Reshape needs a computed "
                "target",
            )
        sizes = [size, keys[3], values[3]]
        return m.derive(heads=heads, sizes=sizes, merged=target, mask_and_target=mask_and_target)

    def _split_of(self, g: GraphView, m: Match, name: str) -> Shape | None:
        """The shape (length, batch, heads, size) of queries, keys or values with their heads split.

        ``name`` is the operand of a MatMul in the match. ``None`` where the sizes are unknown, or
        the model does not reshape (length, batch, features) to (length, batch · heads, size).
        """
        producer = g.node_before(name)
        operands = [name] if producer is None else [name, *producer.input]
        transpose = next(
            node for node in m.nodes if is_op(node, "Transpose") and node.output[0] in operands
        )
        split = g.node_before(transpose.input[0])
        if split is None:
            return None
        shape, split_shape = (g.try_infer_shape(node.input[0]) for node in (split, transpose))
        if shape is None or split_shape is None or len(shape) != 3 or len(split_shape) != 3:
            return None
        length, batch, width = shape
        size = split_shape[2]
        if not isinstance(width, int) or not isinstance(size, int) or size < 1 or width % size:
            return None
        heads = width // size
        is_split = heads > 0 and split_shape == (length, batch * heads, size)
        return (length, batch, heads, size) if is_split else None

    def _have_axes_of_scores(self, g: GraphView, m: Match, scores_shape: Shape) -> bool:
        """Whether tensors of rank 4 in the match have the shape (batch, heads, queries, keys)."""
        names = [m.outputs[1]] if m.shown else []
        if m.masking in ("Add split", "Where split"):
            mask_node = next(node for node in m.nodes if is_op(node, "Add", "Where"))
            scores = next(
                node.output[0]
                for node in m.nodes
                if is_op(node, "Reshape") and node.output[0] in mask_node.input
            )
            names += [mask_node.output[0], scores]
        return all(g.try_infer_shape(name) == scores_shape for name in names)

    def _mask(self, g: GraphView, m: Match, scores_shape: Shape) -> tuple[str, list[int]] | None:
        """A mask, and the target of the Reshape that makes it broadcast to scores of rank 4.

        The target is empty if no Reshape is needed. ``None`` if the mask cannot be reshaped.
        """
        if not m.masking:
            return "", []
        shape = g.try_infer_shape(m.mask)
        if m.masking != "Add":
            return m.mask, []
        merged = (scores_shape[0] * scores_shape[1], *scores_shape[2:])
        if shape is None or len(shape) > len(merged):
            return None
        pairs = zip(reversed(shape), reversed(merged), strict=False)
        if not all(dim in (1, size) for dim, size in pairs):
            return None
        if len(shape) < 3 or shape[0] == 1:
            return m.mask, []
        split = (*scores_shape[:2], *shape[1:])
        producer = g.node_before(m.mask)
        if is_op(producer, "Reshape") and g.try_infer_shape(producer.input[0]) == split:
            return producer.input[0], []
        target = reshape_target(g, shape, split)
        return None if target is None else (m.mask, target)

    def apply_pattern(
        self, g: PatternRewriter, q: str, k: str, v: str, s: str, **m: Any
    ) -> tuple[str, ...]:
        def moved(x: str, size: int, perm: list[int]) -> str:
            split = g.op.Reshape(x, np.array([0, 0, m["heads"], size], dtype=np.int64))
            return str(g.op.Transpose(split, perm=perm))

        sizes = m["sizes"]
        queries = moved(q, sizes[0], SEQUENCE_FIRST)
        if m["scaled"] == "queries":
            queries = getattr(g.op, m["scaling"])(queries, s)
        scores = g.op.MatMul(queries, moved(k, sizes[1], _SWAPPED))
        if m["scaled"] == "scores":
            scores = getattr(g.op, m["scaling"])(scores, s)
        mask, target = m["mask_and_target"]
        if target:
            mask = g.op.Reshape(mask, np.array(target, dtype=np.int64))
        if m["masking"] == "Where split":
            scores = g.op.Where(mask, m["low"], scores)
        elif m["masking"]:
            scores = g.op.Add(scores, mask)
        weights = g.op.Softmax(scores, axis=-1)
        y = g.op.MatMul(weights, moved(v, sizes[2], SEQUENCE_FIRST))
        y = g.op.Transpose(y, perm=TO_SEQUENCE_FIRST)
        y = g.op.Reshape(y, np.array(m["merged"], dtype=np.int64))
        return (y, weights) if m["shown"] else (y,)

    _operands = "float[s,b,8] q, float[t,b,8] k, float[t,b,12] v"
    _split = (
        "a = Reshape(q, i) c = Transpose <perm = [1, 0, 2]> (a) d = Reshape(k, i) "
        "e = Transpose <perm = [1, 2, 0]> (d) f = Reshape(v, j) "
        "h = Transpose <perm = [1, 0, 2]> (f)"
    )
    _heads = (
        "a = Reshape(q, i) c = Transpose <perm = [1, 2, 0, 3]> (a) d = Reshape(k, i) "
        "e = Transpose <perm = [1, 2, 3, 0]> (d) f = Reshape(v, j) "
        "h = Transpose <perm = [1, 2, 0, 3]> (f)"
    )
    _result = "z = MatMul(w, h) y = Transpose <perm = [1, 0, 2]> (z)"
    _merged = "z = MatMul(w, h) r = Transpose <perm = [2, 0, 1, 3]> (z) y = Reshape(r, n)"
    _targets = "int64[3] i = {0, -1, 4}, int64[3] j = {0, -1, 6}"
    _four = "int64[4] i = {0, 0, 2, 4}, int64[4] j = {0, 0, 2, 6}, int64[3] n = {0, -1, 6}"
    _fixed = "float[3,5,8] q, float[7,5,8] k, float[7,5,12] v"
    examples = Example.pairs(
        f"agraph ({_operands}) => (float[s,c,6] y) <{_targets}, float half = {{0.5}}> {{ {_split} "
        f"u = Mul(c, half) p = MatMul(u, e) w = Softmax <axis = -1> (p) {_result} }}",
        f"<{_four}, float half = {{0.5}}> {{ {_heads} u = Mul(c, half) p = MatMul(u, e) "
        f"w = Softmax <axis = -1> (p) {_merged} }}",
        f"agraph ({_fixed}, float[10,1,7] m) => (float[3,10,6] y, float[5,2,3,7] x) "
        f"<{_targets}, float two = {{2}}, int64[4] l = {{5, 2, 3, 7}}> {{ {_split} "
        "p = MatMul(c, e) o = Div(p, two) g = Add(m, o) w = Softmax <axis = 2> (g) "
        f"x = Reshape(w, l) {_result} }}",
        "<int64[4] i = {0, 0, 2, 4}, int64[4] j = {0, 0, 2, 6}, int64[3] n = {3, 10, 6}, "
        f"float two = {{2}}, int64[4] l = {{5, 2, 1, 7}}> {{ {_heads} p = MatMul(c, e) "
        "o = Div(p, two) m4 = Reshape(m, l) g = Add(o, m4) x = Softmax <axis = -1> (g) "
        "z = MatMul(x, h) r = Transpose <perm = [2, 0, 1, 3]> (z) y = Reshape(r, n) }",
        f"agraph ({_fixed}, bool[5,1,1,7] m) => (float[3,10,6] y) <{_targets}, float low = {{-9}}, "
        f"int64[4] l = {{5, 2, 3, 7}}, int64[3] n = {{10, 3, 7}}> {{ {_split} p = MatMul(c, e) "
        "o = Reshape(p, l) g = Where(m, low, o) x = Reshape(g, n) w = Softmax <axis = -1> (x) "
        f"{_result} }}",
        "<int64[4] i = {0, 0, 2, 4}, int64[4] j = {0, 0, 2, 6}, int64[3] n = {3, 10, 6}, "
        f"float low = {{-9}}> {{ {_heads} p = MatMul(c, e) g = Where(m, low, p) "
        f"w = Softmax <axis = -1> (g) {_merged} }}",
    )
