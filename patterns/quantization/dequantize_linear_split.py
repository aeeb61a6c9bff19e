from xoptim.facts.operators import has_kernel
from xoptim.match import Example, GraphView, MatchResult, Node, PatternOptimization

from .._nodes import is_op, replaced_by
from ._parameters import returns_same_integers, separates_pair


class DequantizeLinearSplitPattern(PatternOptimization):
    """QuantizeLinear(Split(DequantizeLinear(x, s, z)), s, z) for each part → Split(x)

    What: splits the integers instead of the dequantized numbers.
    Why: measured 0.30 of the time on 1x64x56x56 with ORT graph optimizations disabled. With them,
    onnxruntime does the same.
    Refuses when:
    1. an output is not read by exactly one QuantizeLinear.
    2. parameters or types differ, or integers may change. Or parameters are not constant, or are
       per axis or block-wise.
    3. the provider has no kernel for the integer type.
    4. it would separate an int8 QDQ pair, which onnxruntime converts to uint8.
    """

    anchors = ("Split",)
    near = ("DequantizeLinear",)
    min_opset = 10

    def match(self, g: GraphView, node: Node, matched: list[MatchResult]) -> MatchResult | None:
        dequantize = g.node_before(node.input[0])
        consumers = [g.next_nodes(name) if g.is_exclusive(name) else [] for name in node.output]
        quantizes = [nodes[0] for nodes in consumers if nodes and is_op(nodes[0], "QuantizeLinear")]
        if not is_op(dequantize, "DequantizeLinear") or len(quantizes) < len(node.output):  # (1)
            return self.none(node, msg="an output is not read by exactly one QuantizeLinear")
        if not all(returns_same_integers(g, quantize, dequantize) for quantize in quantizes):  # (2)
            return self.none(dequantize, msg="the scale, zero point or integer type differs")
        dtype = g.try_infer_type(dequantize.input[0])
        would_separate = any(
            separates_pair(g, dequantize.input[0], quantize.output[0], dtype)
            for quantize in quantizes
        )
        # (3) (4)
        if would_separate or has_kernel(g.provider, "", "Split", dtype, g.main_opset) is False:
            return self.none(
                node, msg="no kernel of Split for the type, or it would separate an int8 QDQ pair"
            )
        outputs = [quantize.output[0] for quantize in quantizes]
        split = replaced_by(
            "Split", dequantize.input[0], *node.input[1:], outputs=outputs, **node.attribute
        )
        return MatchResult(self, [node, *quantizes], split)

    _start = (
        "agraph (int8[n,5] x) => (int8[n,2] y, int8[n,3] z) <float s = {0.1}, int8 o = {4}, "
        "int64[2] k = {2, 3}>"
    )
    examples = Example.only(
        f"{_start} {{ d = DequantizeLinear(x, s, o) p, q = Split <axis = 1> (d, k) "
        "y = QuantizeLinear(p, s, o) z = QuantizeLinear(q, s, o) }",
        f"{_start} {{ y, z = Split <axis = 1> (x, k) }}",
    )
