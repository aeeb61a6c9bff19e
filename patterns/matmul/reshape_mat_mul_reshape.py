import numpy as np

from xoptim.match import (
    ANY,
    EasyPatternOptimization,
    Example,
    GraphView,
    Match,
    PatternBuilder,
    PatternRewriter,
    Symbol,
)

from .._deductions import reshapes_as_inferred
from .._shapes import reshape_target


class ReshapeMatMulReshapePattern(EasyPatternOptimization):
    """Reshape(MatMul(Reshape(a), Reshape(b))) → MatMul(a, b)

    What: multiplies the tensors in their own shapes, if the Reshapes only merge and split batch
    axes. If b is a matrix without a Reshape, they may also merge the rows of a. Otherwise, if one
    of the three Reshapes is missing, a Reshape in its place replaces the other two.
    Why: one or three nodes fewer, and often the nodes that compute their targets. Batched MatMuls
    of torch have this form.
    Refuses when:
    1. a shape is unknown.
    2. rows or columns change, or the result has other batch axes than the operands.
    3. a computed size may be 0 at run time: Reshape reads a 0 as "copy the size of the operand".
    4. the remaining Reshape would need a computed target.
    """

    min_opset = 5
    exactness = "rounding"
    anchors = ("MatMul",)
    derives = ("place", "target")

    def match_pattern(
        self, g: PatternBuilder, a: Symbol, b: Symbol, p: Symbol, q: Symbol, r: Symbol
    ) -> Symbol:
        form = g.choice("form", "all", "left", "right", "operands")
        left = a if form == "right" else g.op.Reshape(a, p, attributes=ANY)
        matmul = g.op.MatMul(left, b if form == "left" else g.op.Reshape(b, q, attributes=ANY))
        return matmul if form == "operands" else g.op.Reshape(matmul, r, attributes=ANY)

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        matmul = next(node for node in m.nodes if node.op_type == "MatMul")
        names = (m.a, m.b, m.outputs[0], *matmul.input, matmul.output[0])
        shapes = [
            shape
            for name in names
            if (shape := g.try_infer_shape(name)) is not None and len(shape) > 1
        ]
        if len(shapes) < len(names):  # (1)
            return self.none(matmul, msg="a shape is unknown, or an operand is a vector")
        outer, merged = shapes[:3], shapes[3:]
        left, right, result = outer
        if m.form == "left" and len(right) == 2:
            is_kept, place = (
                left[-1] == merged[0][-1]
                and left[:-1] == result[:-1]
                and result[-1] == merged[2][-1],
                None,
            )
        else:
            place = {"left": 1, "right": 0, "operands": 2, "all": None}[m.form]
            batch = (right if m.form == "right" else left)[:-2]
            is_kept = all(shape[:-2] == batch for i, shape in enumerate(outer) if i != place)
            is_kept = is_kept and all(
                a[-2:] == b[-2:] and b[:-2] == merged[0][:-2]
                for a, b in zip(outer, merged, strict=True)
            )
        if not is_kept:  # (2)
            return self.none(matmul, msg="the Reshapes change more than the batch dimensions")
        if not all(reshapes_as_inferred(g, node) for node in m.nodes):  # (3)
            return self.none(
                matmul, msg="the target shape may contain a 0, which copies an input dimension"
            )
        if place is None:
            return m.derive(place=None, target=None)
        split = (*batch, *outer[place][-2:])
        target = reshape_target(g, *((split, result) if place == 2 else (outer[place], split)))
        # (4)
        return (
            self.none(matmul, msg="the remaining Reshape would need a shape computed at run time")
            if target is None
            else m.derive(place=place, target=target)
        )

    def apply_pattern(
        self, g: PatternRewriter, a: str, b: str, place: int | None, target: list[int] | None
    ) -> str:
        names = [a, b]
        if place is not None and place < 2:
            names[place] = g.op.Reshape(names[place], np.array(target, np.int64))
        matmul = g.op.MatMul(*names)
        return g.op.Reshape(matmul, np.array(target, np.int64)) if place == 2 else matmul

    examples = Example.pairs(
        "agraph (float[a,2,3,4] x, float[a,2,4,5] z) "
        "=> (float[a,2,3,5] y) <int64[3] p = {-1, 3, 4}, int64[3] q = {-1, 4, 5}, "
        "int64[4] r = {-1, 2, 3, 5}> { s = Reshape(x, p) t = Reshape(z, q) u = MatMul(s, t) "
        "y = Reshape(u, r) }",
        "{ y = MatMul(x, z) }",
        "agraph (float[a,5,4] x, float[4,3] w) "
        "=> (float[a,5,3] y) <int64[2] s = {-1, 4}, int64[3] t = {-1, 5, 3}> { f = Reshape(x, s) "
        "p = MatMul(f, w) y = Reshape(p, t) }",
        "{ y = MatMul(x, w) }",
        "agraph (float[a,2,3,4] x, float[a,2,4,5] z) => (float[c,3,5] y) <int64[3] p = {-1, 3, 4}, "
        "int64[3] q = {-1, 4, 5}> { s = Reshape(x, p) t = Reshape(z, q) y = MatMul(s, t) }",
        "<int64[3] r = {-1, 3, 5}> { t = MatMul(x, z) y = Reshape(t, r) }",
        "agraph (float[6,3,4] x, float[2,3,4,5] z) => (float[2,3,3,5] y) <int64[3] p = {6, 4, 5}, "
        "int64[4] r = {2, 3, 3, 5}> { t = Reshape(z, p) u = MatMul(x, t) y = Reshape(u, r) }",
        "<int64[4] r = {2, 3, 3, 4}> { t = Reshape(x, r) y = MatMul(t, z) }",
    )
