import math
from typing import Any

from onnx import TensorProto

from xoptim.facts.operators import has_kernel
from xoptim.match import (
    EasyPatternOptimization,
    Example,
    GraphView,
    Match,
    PatternBuilder,
    PatternRewriter,
)
from xoptim.match.trace import ANY, Constant, Optional, Symbol

from .._nodes import is_op
from ._parameters import parameters

_UNKNOWN_COUNT = 256
"""Number of indices that is assumed if it is dynamic."""


class DequantizeLinearGatherPattern(EasyPatternOptimization):
    """Gather(DequantizeLinear(w, s, z), i) → DequantizeLinear(Gather(w, i), s, z)

    What: dequantizes only the rows of an embedding that are read, not all rows at each run.
    Why: 128 of 30000 rows take 0.02 of the time, with and without ORT graph optimizations.
    Refuses when:
    1. the embedding is not constant, or the Gather may read more rows than it has (1.09 of the
       time). A dynamic number of indices counts as 256.
    2. scale or zero point is not constant, is block-wise or along the axis of the Gather, or ranks
       are unknown.
    3. the dequantized embedding has consumers other than Gather.
    4. the provider has no kernel for the integer type.
    5. the integers are int8, and a QuantizeLinear follows. onnxruntime would drop the new adjacent
       pair, and then has no QDQ pair to convert to uint8.
    """

    min_opset = 10
    derives = ("rows", "result_axis")  # axis of the Gather, axis of the scales after it

    def match_pattern(
        self, g: PatternBuilder, w: Constant, s: Symbol, z: Optional, i: Symbol
    ) -> Symbol:
        # Several Gathers may read one embedding.
        return g.op.Gather(
            g.keep(g.op.DequantizeLinear(w, s, z, attributes=ANY)), i, axis=g.capture("axis")
        )

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        dequantize, node = m.nodes
        shape, indices = g.static_shape(m.w), g.try_infer_shape(m.i)
        quantization = parameters(g, dequantize)
        if shape is None or indices is None or quantization is None:  # (1) (2)
            return self.none(
                dequantize, msg="the data is not constant, or the rank of the indices is unknown"
            )
        axis = m.axis % len(shape)
        sizes = [size for size in indices if isinstance(size, int)]
        count = math.prod(sizes) if len(sizes) == len(indices) else _UNKNOWN_COUNT
        if count > shape[axis]:  # (1)
            return self.none(node, msg="more rows are read than the data has")
        if quantization.axis == axis:  # (2)
            return self.none(dequantize, msg="the scales are along the axis of the Gather")
        name = dequantize.output[0]
        consumers = g.next_nodes(name)
        is_read = g.is_output(name) or g.is_used_by_subgraph(name)
        # (3)
        if is_read or not all(
            is_op(consumer, "Gather") and name not in consumer.input[1:] for consumer in consumers
        ):
            return self.none(dequantize, msg="the dequantized data has consumers other than Gather")
        # (4)
        if has_kernel(g.provider, "", "Gather", g.try_infer_type(m.w), g.main_opset) is False:
            return self.none(node, msg="no kernel of Gather for the integer type")
        result_consumers = g.next_nodes(node.output[0])
        # (5)
        if g.try_infer_type(m.w) == TensorProto.INT8 and any(
            is_op(consumer, "QuantizeLinear") for consumer in result_consumers
        ):
            return self.none(
                node, msg="a QuantizeLinear follows, and onnxruntime would drop the int8 QDQ pair"
            )
        is_moved = quantization.axis is not None and quantization.axis > axis
        result_axis = (
            None
            if quantization.axis is None
            else quantization.axis + (len(indices) - 1 if is_moved else 0)
        )
        return m.derive(rows=axis, result_axis=result_axis)

    def apply_pattern(
        self, g: PatternRewriter, w: str, s: str, z: str, i: str, rows: int, result_axis: int | None
    ) -> str:
        attributes: dict[str, Any] = {} if result_axis is None else {"axis": result_axis}
        return g.op.DequantizeLinear(g.op.Gather(w, i, axis=rows), s, z or None, **attributes)

    _tables = (
        "<int8[3,2] w = {1, 2, 3, 4, 5, 6}, float s = {0.5}, float[2] t = {0.5, 0.1}, int8[2] o = "
        "{3, -4}>"
    )
    _one = f"agraph (int64[2] i) => (float[2,2] y) {_tables}"
    _two = f"agraph (int64[1,2] i) => (float[1,2,2] y) {_tables}"
    examples = Example.pairs(
        f"{_one} {{ d = DequantizeLinear(w, s) y = Gather(d, i) }}",
        f"{_one} {{ g = Gather(w, i) y = DequantizeLinear(g, s) }}",
        f"{_two} {{ d = DequantizeLinear(w, t, o) y = Gather(d, i) }}",
        f"{_two} {{ g = Gather(w, i) y = DequantizeLinear <axis = 2> (g, t, o) }}",
        ranges=(("i", -3, 2),),
    )
