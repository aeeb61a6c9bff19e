"""A product of matrices whose batch axes are merged and split again."""

from __future__ import annotations

from collections.abc import Sequence

from xoptim.match import ANY, EasyPatternOptimization, Example, GraphView, Match, PatternBuilder, PatternRewriter, Symbol

from .._proofs import reshapes_as_inferred


class ReshapeMatMulReshapePattern(EasyPatternOptimization):
    """Reshape(MatMul(Reshape(a), Reshape(b))) → MatMul(a, b)

    What: multiplies the tensors in their own shapes, when only batch axes are merged before and split after; the same with a
    matrix as b, where the rows of a are merged too.
    Why: three nodes less, and often the chains that compute their targets; batched products of torch export this way.
    Refuses when:
    1. a shape is unknown.
    2. rows or columns change, or the batch axes of the result are not those of the operands.
    3. a computed size may be 0 at run time: it would copy another size in its place.
    """

    min_opset = 5
    exactness = "rounding"
    anchors = ("MatMul",)

    def match_pattern(self, g: PatternBuilder, a: Symbol, b: Symbol, p: Symbol, q: Symbol, r: Symbol) -> Symbol:
        """Any targets."""
        left = g.op.Reshape(a, p, attributes=ANY)
        right = g.op.Reshape(b, q, attributes=ANY) if g.option("both") else b
        return g.op.Reshape(g.op.MatMul(left, right), r, attributes=ANY)

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        """Compare the shapes."""
        product = next(node for node in m.nodes if node.op_type == "MatMul")
        names = (m.a, m.b, m.outputs[0], *product.input, product.output[0])
        shapes = [shape for name in names if (shape := g.try_infer_shape(name)) is not None and len(shape) > 1]
        if len(shapes) < len(names):  # (1)
            return self.none(product, msg="a shape is unknown, or an operand is a vector")
        left, right, result, flat_left, flat_right, flat = shapes
        if m.both:
            kept = left[-2:] == flat_left[-2:] and right[-2:] == flat_right[-2:] and left[:-2] == right[:-2] == result[:-2]
        else:
            kept = len(right) == 2 and left[-1] == flat_left[-1] and left[:-1] == result[:-1]
        if not kept or result[-1] != flat[-1] or (m.both and result[-2] != flat[-2]):  # (2)
            return self.none(product, msg="more than batch axes changes")
        if not all(reshapes_as_inferred(g, node) for node in m.nodes):  # (3)
            return self.none(product, msg="a size may be 0, and copies another one then")
        return True

    def apply_pattern(self, g: PatternRewriter, a: str, b: str) -> str:
        """The operands as they are."""
        return g.op.MatMul(a, b)

    @classmethod
    def examples(cls) -> Sequence[Example]:
        """Heads merged into the batch, and a linear layer."""
        return (
            Example(
                "agraph (float[a,2,3,4] x, float[a,2,4,5] z) => (float[a,2,3,5] y) "
                "<int64[3] p = {-1, 3, 4}, int64[3] q = {-1, 4, 5}, int64[4] r = {-1, 2, 3, 5}> "
                "{ s = Reshape(x, p) t = Reshape(z, q) u = MatMul(s, t) y = Reshape(u, r) }",
                "agraph (float[a,2,3,4] x, float[a,2,4,5] z) => (float[a,2,3,5] y) { y = MatMul(x, z) }",
            ),
            Example(
                "agraph (float[a,5,4] x, float[4,3] w) => (float[a,5,3] y) <int64[2] s = {-1, 4}, int64[3] t = {-1, 5, 3}> "
                "{ f = Reshape(x, s) p = MatMul(f, w) y = Reshape(p, t) }",
                "agraph (float[a,5,4] x, float[4,3] w) => (float[a,5,3] y) { y = MatMul(x, w) }",
            ),
        )
