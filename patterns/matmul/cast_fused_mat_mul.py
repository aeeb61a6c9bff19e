from typing import Any

from onnx import TensorProto

from xoptim.match import (
    EasyPatternOptimization,
    Example,
    GraphView,
    Match,
    PatternBuilder,
    PatternRewriter,
    Symbol,
)

from .._nodes import is_op
from .._operators import MOVING
from ._matmul import can_fuse


class CastFusedMatMulPattern(EasyPatternOptimization):
    """MatMul(a, Cast(Transpose(b))) → com.microsoft.FusedMatMul(a, Cast(b), transB=1)

    What: FusedMatMul reads the second operand transposed. The same for the first operand, and for
    an existing FusedMatMul.
    Why: saves a copy of the operand.
    Refuses when:
    1. the permutation does not swap just the last two axes, or the other operand is a vector.
    2. the Cast has a consumer that is not a MatMul, or the Transpose has other consumers.
    3. the provider has no kernel of FusedMatMul for the type, the summed dimension may be 0, or
       ``transBatchA`` or ``transBatchB`` is set.
    4. an operator computes b in 16 bits. onnxruntime's CPU provider computes it in float32, and
       rounds the result before a Transpose, but not before a Cast.
    """

    phase = "target"
    priority = 6
    exactness = "rounding"
    min_opset = 7
    produces = ("com.microsoft",)
    tags = ("onnxruntime",)
    derives = ("fused",)

    def match_pattern(self, g: PatternBuilder, a: Symbol, b: Symbol) -> Symbol:
        source = b if g.option("right") else a
        cast = g.keep(
            g.op.Cast(g.keep(g.op.Transpose(source, perm=g.capture("perm"))), to=g.capture("to"))
        )
        operands = (a, cast) if g.option("right") else (cast, b)
        if g.option("plain"):
            return g.op.MatMul(*operands)
        return g.op.FusedMatMul(
            *operands, domain="com.microsoft", attributes=g.capture("attributes")
        )

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        transpose, cast, matmul = m.nodes
        rank, other_rank = len(m.perm), g.info(m.a if m.right else m.b).rank
        if (
            rank < 2
            or m.perm != [*range(rank - 2), rank - 1, rank - 2]
            or other_rank is None
            or other_rank < 2
        ):  # (1)
            return self.none(
                transpose,
                msg="perm does not swap just the last two axes, or an operand is a vector",
            )
        producer = g.node_before(transpose.input[0])
        is_half = g.try_infer_type(transpose.input[0]) in (
            TensorProto.FLOAT16,
            TensorProto.BFLOAT16,
        )
        if is_half and producer is not None and not is_op(producer, *MOVING):  # (4)
            return self.none(
                producer, msg="the operator computes in 16 bits: a Transpose rounds its result"
            )
        readers = g.next_nodes(cast.output[0])
        is_product = all(reader.op_type in ("MatMul", "FusedMatMul") for reader in readers)
        # (2) The pattern applies to each MatMul in turn.
        if (
            not is_product
            or not g.is_used_only_by(cast.output[0], *readers)
            or not g.is_used_only_by(transpose.output[0], cast)
        ):
            return self.none(cast, msg="something other than MatMuls reads the Cast or Transpose")
        attributes, flag = m.get("attributes", {}), "transB" if m.right else "transA"
        fused: dict[str, Any] = {**attributes, flag: int(not attributes.get(flag))}
        is_batched = attributes.get("transBatchA") or attributes.get("transBatchB")
        left, right = (m.a, cast.output[0]) if m.right else (cast.output[0], m.b)
        # (3) The result of the Cast has the element type and the axes that the MatMul reads now.
        if is_batched or not can_fuse(g, left, right, attributes):
            return self.none(
                matmul, msg="transBatchA or transBatchB is set, a sum may be empty, or no kernel"
            )
        return m.derive(fused=fused)

    def apply_pattern(
        self, g: PatternRewriter, a: str, b: str, right: bool, to: int, fused: dict[str, Any]
    ) -> str:
        cast = g.op.Cast(b if right else a, to=to)
        operands = (a, cast) if right else (cast, b)
        return str(g.op.FusedMatMul(*operands, domain="com.microsoft", **fused))

    examples = Example.pairs(
        "agraph (float[a,h,q,8] x, float16[a,h,k,8] w) => (float[a,h,q,k] y) "
        "{ t = Transpose <perm = [0, 1, 3, 2]> (w) c = Cast <to = 1> (t) y = MatMul(x, c) }",
        "{ c = Cast <to = 1> (w) y = com.microsoft.FusedMatMul <transB = 1> (x, c) }",
        "agraph (float16[a,8,q] x, float[a,8,k] w) => (float[a,q,k] y) { "
        "t = Transpose <perm = [0, 2, 1]> (x) c = Cast <to = 1> (t) "
        "y = com.microsoft.FusedMatMul <alpha = 0.5> (c, w) }",
        "{ c = Cast <to = 1> (x) y = com.microsoft.FusedMatMul <alpha = 0.5, transA = 1> (c, w) }",
    )
