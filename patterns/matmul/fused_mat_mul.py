"""MatMuls that FusedMatMul computes together with a Transpose or a scalar factor."""

from collections.abc import Sequence
from typing import Any, ClassVar

from xoptim.match import (
    EasyPatternOptimization,
    Example,
    GraphView,
    Match,
    PatternBuilder,
    PatternRewriter,
    Scalar,
    Symbol,
    runs,
)

from .._folding import scaled
from ._matmul import axis_order, can_fuse, contracts, feeds_only, order_attributes


class _FusedMatMul(EasyPatternOptimization):
    """A MatMul that becomes com.microsoft.FusedMatMul."""

    phase = "target"
    exactness = "rounding"
    min_opset = 7
    produces = ("com.microsoft",)
    tags = ("onnxruntime",)

    def matmul(self, g: PatternBuilder, a: Symbol, b: Symbol) -> Symbol:
        """MatMul, or FusedMatMul with its attributes."""
        if g.option("plain"):
            return g.op.MatMul(a, b)
        return g.op.FusedMatMul(a, b, domain="com.microsoft", attributes=g.capture("attributes"))

    def apply_pattern(self, g: PatternRewriter, a: str, b: str, fused: dict[str, Any]) -> str:
        return g.op.FusedMatMul(a, b, domain="com.microsoft", **fused)


class _TransposedOperand(_FusedMatMul):
    """A MatMul of a Transpose. Attributes of FusedMatMul replace the Transpose, or part of it."""

    derives: ClassVar[tuple[str, ...]] = ("fused",)

    def match_pattern(self, g: PatternBuilder, a: Symbol, b: Symbol) -> Symbol:
        # One operand is transposed. If both are, the pattern applies twice.
        transposed = g.keep(g.op.Transpose(b if g.option("right") else a, perm=g.capture("perm")))
        left, right = (a, transposed) if g.option("right") else (transposed, b)
        return self.matmul(g, left, right)

    def derive_order(
        self, g: GraphView, m: Match, order: Sequence[int], **values: Any
    ) -> bool | None:
        """Derive the attributes with which FusedMatMul reads the operand's axes in ``order``."""
        attributes, side = m.get("attributes", {}), "B" if m.right else "A"
        # (5) The pattern applies to each MatMul in turn; the last one removes the Transpose.
        if not feeds_only(g, m.nodes[0].output[0], "MatMul", "FusedMatMul"):
            return self.none(m.nodes[0], msg="something other than MatMuls reads the Transpose")
        flags = order_attributes(order, side)
        if flags is None:
            return self.none(m.nodes[0], msg="FusedMatMul does not read the axes in this order")
        fused = {**attributes, **flags}
        batched = [fused.get(f"transBatch{operand}") for operand in "AB"]
        if any(batched) and not _has_equal_batches(g, (m.a, m.b), fused):  # (3)
            return self.none(m.nodes[-1], msg="the operands do not have the same batch dimensions")
        # (4) A FusedMatMul that already transposes an operand is accepted: for a summed dimension
        # of 0, its result is wrong before and after.
        is_transposed = any(value for name, value in attributes.items() if name != "alpha")
        if not (is_transposed or contracts(g, m.a, m.b, fused)) or not runs(
            g, "FusedMatMul", m.a, "com.microsoft"
        ):
            return self.none(m.nodes[-1], msg="the summed dimension may be 0, or no kernel")
        nondefault = {name: value for name, value in fused.items() if value or name == "alpha"}
        return m.derive(fused=nondefault, **values)


def _has_equal_batches(g: GraphView, operands: Sequence[str], attributes: dict[str, Any]) -> bool:
    """Whether two operands of a FusedMatMul have the same batch dimensions."""
    batches = []
    for name, side in zip(operands, "AB", strict=True):
        shape = g.try_infer_shape(name)
        if shape is None:
            return False
        order = axis_order(len(shape), attributes, side)
        batches.append([shape[axis] for axis in order[:-2]])
    return batches[0] == batches[1]


class FusedMatMulPattern(_TransposedOperand):
    """MatMul(a, Transpose(b)) → com.microsoft.FusedMatMul(a, b, transB=1)

    What: FusedMatMul reads an operand transposed (``transB``), or with rows before the batch axes
    (``transBatchB``). The same for the first operand, and for an existing FusedMatMul.
    Why: saves a copy of the operand. One thread of onnxruntime's CPU provider takes 0.9 to 1.0 of
    the time, and 0.70 to 0.84 for ``transBatchB`` (16 to 512 rows, 12 to 96 batches).
    Refuses when:
    1. FusedMatMul cannot read the axes in the order of the permutation, or the other operand is a
       vector.
    2. both operands are matrices, for which there is Gemm.
    3. ``transBatchA`` or ``transBatchB`` would be set, and the operands do not have the same batch
       dimensions.
    4. the provider has no kernel of FusedMatMul for the type. Or the summed dimension may be 0:
       before onnxruntime 1.32, the kernel does not return zeros then.
    5. the Transpose has a consumer that is not a MatMul.
    """

    priority = 7

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        rank = len(m.perm)
        other_rank = g.info(m.a if m.right else m.b).rank
        if other_rank is None or other_rank < 2:  # (1)
            return self.none(m.nodes[-1], msg="an operand is a vector, or of unknown rank")
        if m.plain and rank == other_rank == 2:  # (2)
            return self.none(m.nodes[-1], msg="both operands are matrices, for which Gemm is used")
        read = axis_order(rank, m.get("attributes", {}), "B" if m.right else "A")
        return self.derive_order(g, m, [m.perm[axis] for axis in read])

    examples = Example.pairs(
        "agraph (float[a,h,q,8] x, float[a,h,k,8] w) => (float[a,h,q,k] y) "
        "{ t = Transpose <perm = [0, 1, 3, 2]> (w) y = MatMul(x, t) }",
        "{ y = com.microsoft.FusedMatMul <transB = 1> (x, w) }",
        "agraph (float[a,8,q] x, float[a,8,k] w) => (float[a,q,k] y) { "
        "t = Transpose <perm = [0, 2, 1]> (x) y = com.microsoft.FusedMatMul <alpha = 0.5> (t, w) }",
        "{ y = com.microsoft.FusedMatMul <alpha = 0.5, transA = 1> (x, w) }",
        "agraph (float[a,8,q] x, float[a,8,k] w, float[a,8,l] v) "
        "=> (float[a,q,k] y, float[a,q,l] z) { t = Transpose <perm = [0, 2, 1]> (x) "
        "y = MatMul(t, w) z = MatMul(t, v) }",
        "{ y = com.microsoft.FusedMatMul <transA = 1> (x, w) "
        "z = com.microsoft.FusedMatMul <transA = 1> (x, v) }",
        "agraph (float[q,a,8] x, float[a,8,k] w) => (float[a,q,k] y) { "
        "t = Transpose <perm = [1, 0, 2]> (x) y = MatMul(t, w) }",
        "{ y = com.microsoft.FusedMatMul <transBatchA = 1> (x, w) }",
        "agraph (float[a,2,q,8] x, float[k,a,2,8] w) => (float[a,2,q,k] y) { "
        "t = Transpose <perm = [1, 2, 0, 3]> (w) "
        "y = com.microsoft.FusedMatMul <transB = 1> (x, t) }",
        "{ y = com.microsoft.FusedMatMul <transB = 1, transBatchB = 1> (x, w) }",
    )


class TransposeFusedMatMulBPattern(_TransposedOperand):
    """MatMul(a, Transpose(b, [0,2,3,1])) → com.microsoft.FusedMatMul(a, Transpose(b, [0,2,1,3]),
    transB=1)

    What: FusedMatMul swaps the last two axes, so that the Transpose keeps the last axis and moves
    complete rows. The same for the first operand.
    Why: 1.03 to 1.12 times as fast on onnxruntime's CPU provider.
    Refuses when:
    1. the last axis does not become the last but one, or no Transpose would remain
       (`FusedMatMul` matches then).
    2. the other operand is a vector.
    3. ``transBatchA`` or ``transBatchB`` is set, and the operands do not have the same batch
       dimensions.
    4. the provider has no kernel of FusedMatMul for the type. Or the summed dimension may be 0:
       before onnxruntime 1.32, the kernel does not return zeros then.
    5. the Transpose has a consumer that is not a MatMul.
    """

    priority = 8
    derives = ("fused", "rest")

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        rank = len(m.perm)
        rest = [*m.perm[:-2], m.perm[-1], m.perm[-2]]
        if rank < 3 or rest[-1] != rank - 1 or rest == sorted(rest):  # (1)
            return self.none(m.nodes[0], msg="perm does not move the last axis to the last but one")
        other_rank = g.info(m.a if m.right else m.b).rank
        if other_rank is None or other_rank < 2:  # (2)
            return self.none(m.nodes[1], msg="the other operand is a vector, or of unknown rank")
        # The last axis of the operand, which is summed over, stays last.
        read = axis_order(rank, m.get("attributes", {}), "B" if m.right else "A")
        swapped = [*range(rank - 2), rank - 1, rank - 2]
        return self.derive_order(g, m, [swapped[axis] for axis in read], rest=rest)

    def apply_pattern(  # type: ignore[override]
        self,
        g: PatternRewriter,
        a: str,
        b: str,
        right: bool,
        rest: list[int],
        fused: dict[str, Any],
    ) -> str:
        transposed = g.op.Transpose(b if right else a, perm=rest)
        operands = (a, transposed) if right else (transposed, b)
        return g.op.FusedMatMul(*operands, domain="com.microsoft", **fused)

    examples = Example.only(
        "agraph (float[a,h,q,8] x, float[a,k,h,8] w) => (float[a,h,q,k] y) "
        "{ t = Transpose <perm = [0, 2, 3, 1]> (w) y = MatMul(x, t) }",
        "{ t = Transpose <perm = [0, 2, 1, 3]> (w) "
        "y = com.microsoft.FusedMatMul <transB = 1> (x, t) }",
    )


class FusedMatMulTransposePattern(_FusedMatMul):
    """Transpose(MatMul(a, b)) → com.microsoft.FusedMatMul(b, a, transA=1, transB=1)

    What: (a·b)ᵀ equals bᵀ·aᵀ. The same for FusedMatMul.
    Why: saves a copy of the result.
    Refuses when:
    1. the permutation does not swap just the last two axes.
    2. the operands do not have the same batch dimensions, or are two matrices, for which there is
       Gemm. (With a matrix as the first operand, onnxruntime is slower, and fails for 0 batches.)
    3. the provider has no kernel of FusedMatMul for the type. Or the summed dimension may be 0: the
       kernel does not return zeros then.
    """

    priority = 7
    derives = ("fused",)

    def match_pattern(self, g: PatternBuilder, a: Symbol, b: Symbol) -> Symbol:
        return g.op.Transpose(self.matmul(g, a, b), perm=g.capture("perm"))

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        rank = len(m.perm)
        attributes: dict[str, Any] = m.get("attributes", {})
        batches = attributes.get("transBatchA") or attributes.get("transBatchB")
        if batches or m.perm != [*range(rank - 2), rank - 1, rank - 2]:  # (1)
            return self.none(m.nodes[1], msg="the Transpose does not swap just the last two axes")
        left, right = g.try_infer_shape(m.a), g.try_infer_shape(m.b)
        # (2)
        if (
            left is None
            or right is None
            or len(left) != rank
            or rank < 3
            or left[:-2] != right[:-2]
        ):
            return self.none(m.nodes[0], msg="the operands do not have the same batch dimensions")
        if not can_fuse(g, m.a, m.b, attributes):  # (3)
            return self.none(
                m.nodes[0], msg="no kernel for this type, or the summed dimension may be 0"
            )
        return m.derive(
            fused={
                **attributes,
                "transA": int(not attributes.get("transB")),
                "transB": int(not attributes.get("transA")),
            }
        )

    def apply_pattern(self, g: PatternRewriter, a: str, b: str, fused: dict[str, Any]) -> str:
        return g.op.FusedMatMul(b, a, domain="com.microsoft", **fused)

    examples = Example.only(
        "agraph (float[a,q,8] x, float[a,8,k] w) => (float[a,k,q] y) { t = MatMul(x, w) "
        "y = Transpose <perm = [0, 2, 1]> (t) }",
        "{ y = com.microsoft.FusedMatMul <transA = 1, transB = 1> (w, x) }",
    )


class _FusedFactor(_FusedMatMul):
    """A scalar that multiplies or divides the result or an operand of a MatMul.

    Refuses when:
    1. the scalar is 0, or the new alpha is out of the range of float32.
    2. both operands are matrices, for which there is Gemm, or one of them is a vector.
    3. the provider has no kernel of FusedMatMul for the type.
    """

    kernels = {"com.microsoft::FusedMatMul": "a"}  # (3)
    derives = ("fused",)

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        matmul = next(node for node in m.nodes if node.op_type in ("MatMul", "FusedMatMul"))
        attributes: dict[str, Any] = m.get("attributes", {})
        alpha = scaled(g, m.a, attributes.get("alpha", 1.0), m.s, division=m.division)  # (1)
        ranks = [g.info(name).rank for name in (m.a, m.b)]
        if any(rank is None or rank < 2 for rank in ranks) or (m.plain and ranks == [2, 2]):  # (2)
            return self.none(matmul, msg="both operands are matrices, or one is a vector")
        return m.derive(fused={**attributes, "alpha": alpha})


class FusedMatMulDivPattern(_FusedFactor):
    """MatMul(a, b) / s → com.microsoft.FusedMatMul(a, b, alpha=1/s)

    What: moves the divisor or factor into the attribute ``alpha``. The same for FusedMatMul.
    Why: saves one pass over the result; 1.1 times as fast on onnxruntime's CPU provider.
    """

    priority = 3

    def match_pattern(self, g: PatternBuilder, a: Symbol, b: Symbol, s: Scalar) -> Symbol:
        return (g.op.Div if g.option("division") else g.op.Mul)(self.matmul(g, a, b), s)

    examples = Example.pairs(
        "agraph (float[a,q,8] x, float[a,8,k] w) => (float[a,q,k] y) <float s = {8}> { "
        "t = MatMul(x, w) y = Div(t, s) }",
        "{ y = com.microsoft.FusedMatMul <alpha = 0.125> (x, w) }",
        "agraph (float[a,q,8] x, float[a,k,8] w) => (float[a,q,k] y) <float[1] s = {2}> "
        "{ t = com.microsoft.FusedMatMul <transB = 1, alpha = 0.5> (x, w) y = Mul(s, t) }",
        "{ y = com.microsoft.FusedMatMul <transB = 1, alpha = 1.0> (x, w) }",
    )


class MulFusedMatMulPattern(_FusedFactor):
    """MatMul(a · s, b) → com.microsoft.FusedMatMul(a, b, alpha=s)

    What: moves the factor or divisor of an operand into the attribute ``alpha``. The same for the
    second operand, for FusedMatMul, and for several MatMuls that read a · s.
    Why: saves one pass over the operand; 1.0 to 1.1 times as fast on onnxruntime's CPU provider.
    Refuses when:
    1. the scalar is 0, or the new alpha is out of the range of float32.
    2. both operands are matrices, for which there is Gemm, or one of them is a vector.
    3. the provider has no kernel of FusedMatMul for the type.
    4. a · s has a consumer that is not a MatMul.
    """

    priority = 10

    def match_pattern(self, g: PatternBuilder, a: Symbol, b: Symbol, s: Scalar) -> Symbol:
        # One operand has a factor. If both have one, the pattern applies twice.
        scale = g.op.Div if g.option("division") else g.op.Mul
        scaled = g.keep(scale(b if g.option("right") else a, s))
        left, right = (a, scaled) if g.option("right") else (scaled, b)
        return self.matmul(g, left, right)

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        scaling = m.nodes[0]
        # (4) The pattern applies to each MatMul in turn; the last one removes a · s.
        if not feeds_only(g, scaling.output[0], "MatMul", "FusedMatMul"):
            return self.none(scaling, msg="something else reads the scaled operand")
        return super().validate_mapping(g, m)

    examples = Example.pairs(
        "agraph (float[a,q,8] x, float[a,8,k] w) => (float[a,q,k] y) <float s = {0.5}> { "
        "t = Mul(x, s) y = MatMul(t, w) }",
        "{ y = com.microsoft.FusedMatMul <alpha = 0.5> (x, w) }",
        "agraph (float[a,q,8] x, float[a,8,k] w) => (float[a,q,k] y) <float s = {4}> "
        "{ t = Div(w, s) y = com.microsoft.FusedMatMul <alpha = 0.5> (x, t) }",
        "{ y = com.microsoft.FusedMatMul <alpha = 0.125> (x, w) }",
        "agraph (float[a,q,8] x, float[a,8,k] w, float[a,8,k] v) "
        "=> (float[a,q,k] y, float[a,q,k] z) <float s = {0.5}> "
        "{ t = Mul(x, s) y = MatMul(t, w) z = MatMul(t, v) }",
        "{ y = com.microsoft.FusedMatMul <alpha = 0.5> (x, w) "
        "z = com.microsoft.FusedMatMul <alpha = 0.5> (x, v) }",
    )
