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


class CastsElementwisePattern(EasyPatternOptimization):
    """Cast(x, to=FLOAT16) + Cast(z, to=FLOAT16) → Cast(x + z, to=FLOAT16)

    What: computes in float32, and rounds once instead of three times. The same for Sub and Mul.
    Why: one node fewer, with the same number of bytes for operands of one shape. CPUs compute in
    float32 anyway.
    Refuses when:
    1. x or z is not float32, or another node reads a Cast.
    2. a Cast reads the result: onnxruntime's CPU provider rounds between two Casts, but not between
       another operator and a Cast.
    3. an operand may be broadcast, and the provider computes in float16: it would read and write 14
       bytes for each element instead of 10.
    """

    exactness = "rounding"
    min_opset = 7
    operand_types = {"x": (TensorProto.FLOAT,), "z": (TensorProto.FLOAT,)}  # (1)

    def match_pattern(self, g: PatternBuilder, x: Symbol, z: Symbol) -> Symbol:
        casts = (g.op.Cast(operand, to=TensorProto.FLOAT16) for operand in (x, z))
        return getattr(g.op, g.choice("operator", "Add", "Sub", "Mul"))(*casts)

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        result = m.nodes[-1]
        if any(is_op(reader, "Cast") for reader in g.next_nodes(result.output[0])):  # (2)
            return self.none(result, msg="a Cast reads the result")
        is_slower = (g.provider or "cpu") != "cpu" and not g.same_shape(m.x, m.z)
        return not is_slower or self.none(result, msg="an operand may be broadcast")  # (3)

    def apply_pattern(self, g: PatternRewriter, x: str, z: str, operator: str) -> str:
        return str(g.op.Cast(getattr(g.op, operator)(x, z), to=TensorProto.FLOAT16))

    _start = "agraph (float[a,b] x, float[b] z) => (float16[a,b] y)"
    _casts = "c = Cast <to = 10> (x) d = Cast <to = 10> (z)"
    examples = Example.pairs(
        f"{_start} {{ {_casts} y = Add(c, d) }}",
        "{ s = Add(z, x) y = Cast <to = 10> (s) }",
        f"{_start} {{ {_casts} y = Sub(d, c) }}",
        "{ s = Sub(z, x) y = Cast <to = 10> (s) }",
    )
