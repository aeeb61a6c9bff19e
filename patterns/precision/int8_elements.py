from collections.abc import Sequence

from xoptim.match import Example, GraphView, Node

from ._layers import _RoundedLayer
from ._rounding import Rounded, Steps


class Int8ElementsPattern(_RoundedLayer):
    """Add(x, y) → DequantizeLinear(QuantizeLinear(Add(DequantizeLinear(QuantizeLinear(x)), …)))

    What: rounds the operands and the result of an addition to 8 bits, the result after a Relu or Clip if one alone reads it;
    and so for Mul, Concat, Sigmoid, LeakyRelu and GlobalAveragePool. Scales are those that samples determine.
    Why: between two convolutions of integers, nothing is left in floats: passes over a quarter of the bytes. Alone it saves
    nothing, so it is rounded where all that it reads is rounded.
    Refuses when:
    1. an operand is constant, or not of 32-bit floats.
    2. it is the operator before an activation that is rounded, or an activation of something else.
    3. the range of a tensor is not known, or one point, or leaves the type.
    4. the provider has no kernel that quantizes.
    """

    anchors = ("Add", "Mul", "Concat", "Sigmoid", "LeakyRelu", "GlobalAveragePool", "Relu", "Clip")
    operators = ("Add", "Mul", "Concat", "Sigmoid", "LeakyRelu", "GlobalAveragePool")
    goes_along = True

    def tensors(self, layer: Node) -> Sequence[str]:
        return layer.input

    def stored(self, g: GraphView, layer: Node, x: Steps) -> list[Rounded]:
        return []

    _bounds = "<float low = {-128}, float high = {127}, float top = {255}, float most = {510}, float bottom = {-255}"
    _ones = "float one = {1}, float two = {2}, uint8 z = {128}, uint8 o = {0}, uint8 half = {128}>"
    _two = "agraph (float[n,4] a, float[n,4] b) => (float[n,4] y)"
    _joined = "agraph (float[n,4] a, float[m,4] b) => (float[k,4] y)"
    _read = (
        "{ x = Clip(a, low, high) q = QuantizeLinear(x, one, z) d = DequantizeLinear(q, one, z) "
        "u = Clip(b, zero, top) r = QuantizeLinear(u, one, o) e = DequantizeLinear(r, one, o)"
    )
    examples = (
        Example(
            f"{_two} {_bounds}, float zero = {{0}}> {{ x = Clip(a, low, high) u = Clip(b, zero, top) s = Add(x, u) "
            "y = Clip(s, zero, most) }",
            f"{_two} {_bounds}, float zero = {{0}}, {_ones} {_read} s = Add(d, e) c = Clip(s, zero, most) "
            "m = QuantizeLinear(c, two, o) y = DequantizeLinear(m, two, o) }",
            opset=13,
            ranges=(("a", -128, 127), ("b", 0, 255)),
        ),
        Example(
            f"{_joined} {_bounds}, float zero = {{0}}> {{ x = Clip(a, low, high) u = Clip(b, zero, top) "
            "s = Concat <axis = 0> (x, u) y = Clip(s, bottom, top) }",
            f"{_joined} {_bounds}, float zero = {{0}}, {_ones} {_read} s = Concat <axis = 0> (d, e) c = Clip(s, bottom, top) "
            "m = QuantizeLinear(c, two, half) y = DequantizeLinear(m, two, half) }",
            opset=13,
            ranges=(("a", -128, 127), ("b", 0, 255)),
        ),
    )
