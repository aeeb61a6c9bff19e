from functools import partial

from onnx import TensorProto

from xoptim.match import Example, GraphView, MatchResult, Node, PatternRewriter
from xoptim.match.quantization import RangedPattern

from .._folding import constant
from ._float16 import (
    LARGEST,
    OTHERS,
    SUMS,
    Float16Places,
    fits,
    float16_of,
    float16_places,
    is_read_in_float16,
    is_square,
    recreated,
    rounded,
)


class Float16ResultsPattern(RangedPattern):
    """MatMul(x, w) → Cast(Cast(MatMul(Cast(Cast(x)), Cast(w16)), to=FLOAT16), to=FLOAT)

    What: rounds operands, constants and results to float16, in the form that `Float16Compute`
    converts to float16 operators. The model still computes in float32, so that the error can be
    measured on a CPU without float16 kernels. The same for most operators.
    Why: GPUs compute in float16 in half of the time or less, and weights take half of the bytes.
    Refuses when:
    1. a float32 operand or result cannot be float16 in this operator, or the provider has no
       kernel. Or the node squares a tensor, which doubles the exponents.
    2. a constant is out of the range of float16. Or a tensor holds integers, such as position IDs,
       which float16 represents exactly only up to 2048.
    3. an operand or a result has values near the float16 limit on a sample. Values beyond 10^8 are
       assumed to be masks that mean infinity: such constants become 16384, for which Softmax is 0
       as well.
    4. all operands and results are float16 already.
    """

    phase = "target"
    providers = ("cuda",)
    bits = 11
    width = 16
    min_opset = 13
    tags = ("float16_compute", "extra")
    operators = SUMS
    anchors = (*SUMS, *OTHERS)

    def match(self, g: GraphView, node: Node, matched: list[MatchResult]) -> MatchResult | None:
        places = float16_places(g, node)
        if places is None or is_square(node):  # (1)
            return self.none(
                node, msg="an operand or a result cannot be float16, or the node squares a tensor"
            )
        operands = [node.input[index] for index in places.operands]
        results = [node.output[index] for index in places.results]
        if not all(fits(g, name, node) for name in operands):  # (2)
            return self.none(
                node, msg="a constant does not fit into float16, or a tensor holds integers"
            )
        # (3)
        if any(
            max(map(abs, self.observed.ranges.get(name, (0.0, 0.0)))) > LARGEST
            for name in (*operands, *results)
        ):
            return self.none(node, msg="a sample has values near the float16 limit")
        # (4)
        if all(is_read_in_float16(g, name) for name in results) and all(
            float16_of(g, name) is not None for name in operands
        ):
            return self.none(node, msg="everything is float16 already")
        return MatchResult(self, [node], partial(self._replace, places))

    def _replace(self, places: Float16Places, g: PatternRewriter, node: Node) -> list[Node]:
        names = list(node.input)
        for index in places.operands:
            names[index] = _rounded(g, names[index])
        results = [
            g.unique_name(name) if index in places.results else name
            for index, name in enumerate(node.output)
        ]
        nodes = [*g.created, recreated(g, node, names, results)]
        for index in places.results:
            half = g.unique_name(f"{results[index]}_half")
            nodes.append(g.make_node("Cast", [results[index]], [half], to=TensorProto.FLOAT16))
            nodes.append(g.make_node("Cast", [half], [node.output[index]], to=TensorProto.FLOAT))
        return nodes

    _three = "agraph (float[n,2] x) => (float[n,2] y)"
    _down, _up = "Cast <to = 10>", "Cast <to = 1>"
    _x = f"h = {_down} (x) d = {_up} (h)"
    examples = (
        *Example.pairs(
            f"{_three} <float[2,2] w = {{1, 0.5, -2, 3}}> {{ y = MatMul(x, w) }}",
            f"{_three} <float16[2,2] w = {{15360, 14336, 49152, 16896}}> {{ {_x} e = {_up} (w) "
            f"p = MatMul(d, e) q = {_down} (p) y = {_up} (q) }}",
            f"{_three} {{ y = Softmax(x) }}",
            f"{_three} {{ {_x} p = Softmax(d) q = {_down} (p) y = {_up} (q) }}",
            opset=13,
        ),
    )


def _rounded(g: PatternRewriter, name: str) -> str:
    """A tensor rounded to float16, as float32."""
    if isinstance(float16_of(g, name), str):
        return name
    # A constant that nodes compute is either stored in lower precision already, or too large to
    # store.
    if g.is_constant(name) and g.node_before(name) is None:
        return g.op.Cast(
            g.make_initializer("", rounded(constant(g, name)), source=name), to=TensorProto.FLOAT
        )
    return g.op.Cast(g.op.Cast(name, to=TensorProto.FLOAT16), to=TensorProto.FLOAT)
