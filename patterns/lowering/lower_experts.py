"""Mixtures of experts (MoE), as a Scan over the experts."""

from typing import Any, ClassVar, Final

import numpy as np
from onnx import TensorProto

from xoptim.match import Example, GraphView, Match, PatternBuilder, PatternRewriter, Symbol
from xoptim.match.trace import Optional

from .._folding import Array, constant, is_moderate
from ._experts import Layers, Swiglu, mixture, routing
from ._lowering import _Lowering
from .lower_blocks import BITS, stored, unpacked

_ACTIVATIONS: Final = ("relu", "gelu", "silu", "identity")
_SWIGLU: Final = ("activation_alpha", "activation_beta", "swiglu_limit")
_KNOWN: Final = frozenset(
    ("k", "activation_type", "normalize_routing_weights", "swiglu_fusion", *_SWIGLU)
)
_EXACT: Final = (0, 1)
"""Values of ``accuracy_level`` with which the kernels compute in float32."""


class _LowerExperts(_Lowering):
    """A mixture of experts of ``com.microsoft``.

    What: writes a Scan over the experts. Each step gathers the tokens that have chosen the expert,
    computes both MatMuls for them, and adds the results to the sum of the earlier experts.
    Why: only ONNX Runtime's own providers run the operator.
    """

    exactness = "finite"  # the kernels choose other experts if logits are NaN
    min_opset = 16
    derives: ClassVar[tuple[str, ...]] = ("layers", "total", "width", "rank")

    def is_sized(self, g: GraphView, m: Match, first: Any, second: Any) -> bool:
        """Whether the shapes of the weights, of the biases and of the router fit each other."""
        if first is None or second is None or len(first) != 3 or len(second) != 3:
            return False
        experts, columns, width = first
        inner = columns // 2 if m.written.get("activation_type") == "swiglu" else columns
        biases = ((m.b1, (experts, columns)), (m.b2, (experts, width)))
        router = g.try_infer_shape(m.r) or ()
        return (
            second == (experts, width, inner)
            and len(router) == 2
            and router[1] == experts
            and 0 < m.written.get("k", 1) <= experts
            and all(not name or g.try_infer_shape(name) == shape for name, shape in biases)
        )

    def activation(self, m: Match) -> str | Swiglu | None:
        """The activation, ``None`` for an activation that no kernel of the CPU computes."""
        kind = m.written.get("activation_type", "relu")
        if kind == "swiglu" and m.written.get("swiglu_fusion", 0) == 1:
            defaults = zip(_SWIGLU, (1.0, 0.0, float("inf")), strict=True)
            return Swiglu(*(float(m.written.get(name, value)) for name, value in defaults))
        return kind if kind in _ACTIVATIONS else None

    def applied(
        self, g: PatternRewriter, x: str, router: tuple[str, str], layers: Layers, **m: Any
    ) -> str:
        """The result of the mixture.

        ``router`` are the logits and the weights of the experts' results. The weights are empty for
        the softmax of the logits.
        """
        written, width = m["written"], m["width"]
        factors = routing(
            g,
            *router,
            written.get("k", 1),
            m["total"],
            is_normalized=written.get("normalize_routing_weights", 0) == 1,
        )
        if m["rank"] == 2:
            return mixture(g, x, factors, layers, width)
        tokens = g.op.Reshape(x, np.array([-1, width], np.int64))
        return g.op.Reshape(mixture(g, tokens, factors, layers, width), g.op.Shape(x), allowzero=1)


class LowerMoEPattern(_LowerExperts):
    """com.microsoft.MoE(x, logits, w1, b1, w2, b2) → Scan over experts of f(x · w1ᵀ + b1) · w2ᵀ +
    b2

    Refuses when:
    1. a type is not float32.
    2. the rank of x, or a shape of weights or biases, is unknown. Or the shapes do not fit.
    3. the activation has no kernel on CPUs, or an attribute is not known.
    4. there are weights of a third MatMul, which only CUDA supports.
    """

    operand_types = {
        name: frozenset((TensorProto.FLOAT,)) for name in ("x", "r", "f1", "b1", "f2", "b2")
    }  # (1)

    def match_pattern(self, g: PatternBuilder) -> Symbol:
        optional = {"b1", "b2", "f3", "b3"}
        operands = [
            g.symbol(name, Optional if name in optional else Symbol)
            for name in ("x", "r", "f1", "b1", "f2", "b2", "f3", "b3")
        ]
        return g.op.MoE(*operands, domain="com.microsoft", attributes=g.capture("written"))

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        node, rank = m.nodes[0], g.info(m.x).rank
        shapes = [g.static_shape(name) for name in (m.f1, m.f2)]
        if rank not in (2, 3) or not self.is_sized(g, m, *shapes):  # (2)
            return self.none(node, msg="the shapes of the weights are unknown, or do not fit")
        activation = self.activation(m)
        if activation is None or not m.written.keys() <= _KNOWN:  # (3)
            return self.none(node, msg="the activation or an attribute is not supported")
        if m.f3 or m.b3:  # (4)
            return self.none(node, msg="there are weights of a third MatMul")
        layers = Layers(m.f1, m.b1, m.f2, m.b2, activation)
        assert shapes[0] is not None
        total, _, width = shapes[0]
        return m.derive(layers=layers, total=total, width=width, rank=rank)

    def apply_pattern(self, g: PatternRewriter, x: str, r: str, **m: Any) -> str:
        return self.applied(g, x, (r, ""), m.pop("layers"), **m)

    examples = Example.pairs(
        "agraph (float[n,2] x, float[n,3] r) => (float[n,2] y) <float[3,3,2] v = {1.25, -1.75, "
        "-1.25, -1, -1.25, 1.25, 1.5, 0.25, -2, -1.75, -0.75, -0.25, 0.5, 0, -1, -1.5, 0.75, 1}, "
        "float[3,3] b = {-2, -1.75, -0.25, -0.5, 1.75, 0, -0.25, -0.25, 0.75}, float[3,2,3] w = "
        "{0.25, -1.5, 1, 1, 2, 1.25, -1, -0.75, 0.75, 0.75, 0.75, 1.5, -1, 1.75, -2, -1.75, 2, 2}> "
        '{ y = com.microsoft.MoE <k = 2, activation_type = "silu", normalize_routing_weights = 1> '
        "(x, r, v, b, w) }",
        "<float[3,3,2] a = {1.25, -1.75, -1.25, -1, -1.25, 1.25, 1.5, 0.25, -2, -1.75, -0.75, "
        "-0.25, 0.5, 0, -1, -1.5, 0.75, 1}, float[3,3] b = {-2, -1.75, -0.25, -0.5, 1.75, 0, "
        "-0.25, -0.25, 0.75}, float[3,2,3] c = {0.25, -1.5, 1, 1, 2, 1.25, -1, -0.75, 0.75, 0.75, "
        "0.75, 1.5, -1, 1.75, -2, -1.75, 2, 2}, int64[3] d = {2, 1, 0}, int64[1] e = {2}, int64 f "
        "= {2}, int64[1] g = {1}, float h = {0}, int64[1] i = {0}> { j = Gather <axis = 1> (r, d) "
        "k, l = TopK <axis = -1> (j, e) m = Sub(f, l) n = Softmax <axis = -1> (r) o = "
        "GatherElements <axis = 1> (n, m) p = ReduceSum <keepdims = 1> (o, g) q = Div(o, p) s = "
        "Shape(r) t = ConstantOfShape <value = float[1] {0}> (s) u = ScatterElements <axis = 1> "
        "(t, m, q) v = Transpose <perm = [1, 0]> (u) w = Shape(x) z = ConstantOfShape <value = "
        "float[1] {0}> (w) y = Scan <num_scan_inputs = 4, body = expert (float[?,2] a1, float[3,2] "
        "b1, float[3] c1, float[2,3] d1, float[?] e1) => (float[?,2] r1) { f1 = Greater(e1, h) g1 "
        "= NonZero(f1) h1 = Squeeze(g1, i) i1 = Gather <axis = 0> (x, h1) j1 = Gemm <transB = 1> "
        "(i1, b1, c1) k1 = Sigmoid(j1) l1 = Mul(j1, k1) m1 = Gemm <transB = 1> (l1, d1) n1 = "
        "Gather <axis = 0> (e1, h1) o1 = Unsqueeze(n1, g) p1 = Unsqueeze(h1, g) q1 = Mul(m1, o1) "
        'r1 = ScatterND <reduction = "add"> (a1, p1, q1) }> (z, a, b, c, v) }',
        "agraph (float[b,n,2] x, float[t,2] r) => (float[b,n,2] y) <float[2,4,2] v = {-0.75, -1.5, "
        "-0.75, -2, 1.75, 0.75, 0.25, -1, 0, -1.25, 1.25, 0, -2, -1, 1, 0}, float[2,2,2] w = "
        "{-0.5, -1, -1.75, 0.5, 0.75, 0, 1.75, 1.75}, float[2,2] c = {-1.25, 0.5, 0.5, -1}> { y = "
        'com.microsoft.MoE <k = 1, activation_type = "swiglu", swiglu_fusion = 1, activation_alpha '
        "= 1.5, activation_beta = 1.0, swiglu_limit = 2.0> (x, r, v, , w, c) }",
        "<float[2,4,2] a = {-0.75, -1.5, -0.75, -2, 1.75, 0.75, 0.25, -1, 0, -1.25, 1.25, 0, -2, "
        "-1, 1, 0}, float[2,2,2] b = {-0.5, -1, -1.75, 0.5, 0.75, 0, 1.75, 1.75}, float[2,2] c = "
        "{-1.25, 0.5, 0.5, -1}, int64[2] d = {1, 0}, int64[1] e = {1}, int64 f = {1}, int64[2] g = "
        "{-1, 2}, float h = {0}, int64[1] i = {0}, int64[1] j = {2147483647}, int64[1] k = {2}, "
        "float l = {2}, float m = {-2}, float n = {1.5}, float o = {1}> { p = Gather <axis = 1> "
        "(r, d) q, s = TopK <axis = -1> (p, e) t = Sub(f, s) u = Softmax <axis = -1> (r) v = "
        "GatherElements <axis = 1> (u, t) w = Shape(r) z = ConstantOfShape <value = float[1] {0}> "
        "(w) a1 = ScatterElements <axis = 1> (z, t, v) b1 = Transpose <perm = [1, 0]> (a1) c1 = "
        "Reshape(x, g) d1 = Shape(c1) e1 = ConstantOfShape <value = float[1] {0}> (d1) f1 = Scan "
        "<num_scan_inputs = 4, body = expert (float[?,2] g1, float[4,2] h1, float[2,2] i1, "
        "float[2] j1, float[?] k1) => (float[?,2] e2) { l1 = Greater(k1, h) m1 = NonZero(l1) n1 = "
        "Squeeze(m1, i) o1 = Gather <axis = 0> (c1, n1) p1 = Gemm <transB = 1> (o1, h1) q1 = "
        "Slice(p1, i, j, e, k) r1 = Slice(p1, e, j, e, k) s1 = Clip(q1, , l) t1 = Clip(r1, m, l) "
        "u1 = Mul(s1, n) v1 = Add(t1, o) w1 = Sigmoid(u1) x1 = Mul(s1, w1) y1 = Mul(x1, v1) z1 = "
        "Gemm <transB = 1> (y1, i1, j1) a2 = Gather <axis = 0> (k1, n1) b2 = Unsqueeze(a2, e) c2 = "
        'Unsqueeze(n1, e) d2 = Mul(z1, b2) e2 = ScatterND <reduction = "add"> (g1, c2, d2) }> (e1, '
        "a, b, c, b1) f2 = Shape(x) y = Reshape <allowzero = 1> (f1, f2) }",
    )


class LowerQMoEPattern(_LowerExperts):
    """com.microsoft.QMoE(x, logits, w1, s1, b1, w2, s2, b2) → Scan over experts of
    f(x · DequantizeLinear(w1, s1)ᵀ + b1) · DequantizeLinear(w2, s2)ᵀ + b2

    What: writes the Scan of `LowerMoE`. DequantizeLinear computes the weights from blocks of
    integers along the rows, which are stored in a type of 4 or 8 bits.
    Refuses when:
    1. a type is not float32, or weights, scales or zero points are not constant.
    2. the rank of x, or a shape of weights or biases, is unknown. Or the shapes do not fit.
    3. the activation has no kernel on CPUs, or an attribute is not known.
    4. there are weights of a third MatMul, or other operands that only CUDA supports.
    5. the integers do not have 4 or 8 bits, or a row does not consist of complete blocks. Or a
       scale or a bias is so large that results may be NaN, which Relu in the kernels turns into 0.
    6. the kernel may quantize x: block-wise with 8 bits, or with 4 bits by `accuracy_level`.
    7. the weights of the experts come from the logits, and normalize_routing_weights is not 1. The
       kernel on CPUs normalizes them even then.
    8. only one MatMul has zero points, which kernels compute in another way.
    """

    min_opset = 21
    max_opset = 27
    operand_types = {
        name: frozenset((TensorProto.FLOAT,))
        for name in ("x", "r", "s1", "b1", "s2", "b2", "weights")
    }  # (1)
    constant_operands = ("f1", "s1", "z1", "f2", "s2", "z2")  # (1)
    derives = ("first", "second", "activation", "total", "width", "rank")
    _names = ("x", "r", "f1", "s1", "b1", "f2", "s2", "b2", "f3", "s3", "b3", "z1", "z2", "z3")
    _required = ("x", "r", "f1", "s1", "f2", "s2")
    _attributes = _KNOWN | {
        *("expert_weight_bits", "block_size", "accuracy_level", "weights_prepacked", "quant_type")
    }

    def match_pattern(self, g: PatternBuilder) -> Symbol:
        operands = [
            g.symbol(name, Symbol if name in self._required else Optional)
            for name in (*self._names, "weights")
        ]
        return g.op.QMoE(*operands, domain="com.microsoft", attributes=g.capture("written"))

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        node, rank = m.nodes[0], g.info(m.x).rank
        bits, block = m.written.get("expert_weight_bits", 4), m.written.get("block_size", 0)
        if bits not in BITS or m.written.get("quant_type", "int") != "int":  # (5)
            return self.none(node, msg="the integers do not have 4 or 8 bits")
        level = m.written.get("accuracy_level", 0)
        if block > 0 and (bits == 8 or level not in _EXACT):  # (6)
            return self.none(node, msg="the kernel may quantize the activations")
        if m.f3 or m.s3 or m.b3 or m.z3:  # (4)
            return self.none(node, msg="there are weights of a third MatMul")
        if not m.weights and m.written.get("normalize_routing_weights", 0) != 1:  # (7)
            return self.none(node, msg="providers disagree about the weights of the experts")
        activation = self.activation(m)
        if activation is None or not m.written.keys() <= self._attributes:  # (3)
            return self.none(node, msg="the activation or an attribute is not supported")
        if m.written.get("weights_prepacked", 0) != 0:  # (3)
            return self.none(node, msg="the weights are stored in an order of one provider")
        if bool(m.z1) != bool(m.z2):  # (8)
            return self.none(node, msg="only one of the MatMuls has zero points")
        first, second = (
            _matrices(g, names, bits, block) for names in ((m.f1, m.s1, m.z1), (m.f2, m.s2, m.z2))
        )
        if first is None or second is None:  # (5)
            return self.none(node, msg="a row does not consist of whole blocks")
        numbers = [first[1], second[1], *(constant(g, b) for b in (m.b1, m.b2) if g.is_constant(b))]
        if not all(is_moderate(array, array.dtype) for array in numbers):  # (5)
            return self.none(node, msg="a scale or a bias is too large")
        shapes = [arrays[0].shape for arrays in (first, second)]
        if rank not in (2, 3) or not self.is_sized(g, m, *shapes):  # (2)
            return self.none(node, msg="the shapes of the weights do not fit")
        total, _, width = shapes[0]
        return m.derive(
            first=first, second=second, activation=activation, total=total, width=width, rank=rank
        )

    def apply_pattern(self, g: PatternRewriter, x: str, r: str, **m: Any) -> str:
        first = _dequantized(g, m["first"], (m["f1"], m["s1"], m["z1"]))
        second = _dequantized(g, m["second"], (m["f2"], m["s2"], m["z2"]))
        layers = Layers(first, m["b1"], second, m["b2"], m["activation"])
        return self.applied(g, x, (r, m["weights"]), layers, **m)

    examples = Example.pairs(
        "agraph (float[n,4] x, float[n,2] r) => (float[n,4] y) <uint8[2,2,4] v = {207, 21, 45, 60, "
        "46, 205, 222, 149, 10, 24, 85, 110, 159, 122, 67, 40}, float[2,2] s = {0.5, 0.25, 0.125, "
        "1}, float[2,2] b = {1, 0, -1, 2}, uint8[2,4,2] w = {177, 188, 8, 29, 115, 100, 227, 132, "
        "107, 110, 170, 150, 44, 188, 193, 244}, float[2,4] t = {0.25, 0.25, 0.25, 0.25, 0.25, "
        "0.25, 0.25, 0.25}> { y = com.microsoft.QMoE <k = 2, expert_weight_bits = 8, "
        'activation_type = "relu", normalize_routing_weights = 1> (x, r, v, s, b, w, t) }',
        "<float[2,2] a = {1, 0, -1, 2}, int8[2,2,4] b = {79, -107, -83, -68, -82, 77, 94, 21, "
        "-118, -104, -43, -18, 31, -6, -61, -88}, float[2,2,1] c = {0.5, 0.25, 0.125, 1}, "
        "int8[2,4,2] d = {49, 60, -120, -99, -13, -28, 99, 4, -21, -18, 42, 22, -84, 60, 65, 116}, "
        "float[2,4,1] e = {0.25, 0.25, 0.25, 0.25, 0.25, 0.25, 0.25, 0.25}, int64[2] f = {1, 0}, "
        "int64[1] g = {2}, int64 h = {1}, int64[1] i = {1}, float j = {0}, int64[1] k = {0}> { l = "
        "DequantizeLinear <axis = 2, block_size = 4> (b, c) m = DequantizeLinear <axis = 2, "
        "block_size = 2> (d, e) n = Gather <axis = 1> (r, f) o, p = TopK <axis = -1> (n, g) q = "
        "Sub(h, p) s = Softmax <axis = -1> (r) t = GatherElements <axis = 1> (s, q) u = ReduceSum "
        "<keepdims = 1> (t, i) v = Div(t, u) w = Shape(r) z = ConstantOfShape <value = float[1] "
        "{0}> (w) a1 = ScatterElements <axis = 1> (z, q, v) b1 = Transpose <perm = [1, 0]> (a1) c1 "
        "= Shape(x) d1 = ConstantOfShape <value = float[1] {0}> (c1) y = Scan <num_scan_inputs = "
        "4, body = expert (float[?,4] e1, float[2,4] f1, float[2] g1, float[4,2] h1, float[?] i1) "
        "=> (float[?,4] u1) { j1 = Greater(i1, j) k1 = NonZero(j1) l1 = Squeeze(k1, k) m1 = Gather "
        "<axis = 0> (x, l1) n1 = Gemm <transB = 1> (m1, f1, g1) o1 = Relu(n1) p1 = Gemm <transB = "
        "1> (o1, h1) q1 = Gather <axis = 0> (i1, l1) r1 = Unsqueeze(q1, i) s1 = Unsqueeze(l1, i) "
        't1 = Mul(p1, r1) u1 = ScatterND <reduction = "add"> (e1, s1, t1) }> (d1, l, a, m, b1) }',
        "agraph (float[n,4] x, float[n,2] r, float[n,2] f) => (float[n,4] y) <uint8[2,4,2] v = "
        "{121, 151, 153, 122, 106, 166, 122, 118, 166, 137, 135, 150, 104, 151, 120, 103}, "
        "float[2,4] s = {0.375, 0.375, 0.375, 0.5, 0.5, 0.125, 0.375, 0.375}, uint8[2,2] p = {119, "
        "152, 151, 121}, uint8[2,4,1] w = {167, 154, 150, 167, 138, 154, 167, 103}, float[2,4] t = "
        "{0.375, 0.5, 0.375, 0.25, 0.5, 0.25, 0.25, 0.125}, uint8[2,2] q = {151, 121, 169, 118}, "
        "float[2,4] c = {0, 0.25, -0.5, -0.5, -1.5, 0.5, 1.75, -1.25}> { y = com.microsoft.QMoE <k "
        '= 2, activation_type = "swiglu", swiglu_fusion = 1> (x, r, v, s, , w, t, c, , , , p, q, , '
        "f) }",
        "<float[2,4] a = {0, 0.25, -0.5, -0.5, -1.5, 0.5, 1.75, -1.25}, uint4[2,4,4] b = {121, "
        "151, 153, 122, 106, 166, 122, 118, 166, 137, 135, 150, 104, 151, 120, 103}, float[2,4,1] "
        "c = {0.375, 0.375, 0.375, 0.5, 0.5, 0.125, 0.375, 0.375}, uint4[2,4,1] d = {119, 152, "
        "151, 121}, uint4[2,4,2] e = {167, 154, 150, 167, 138, 154, 167, 103}, float[2,4,1] g = "
        "{0.375, 0.5, 0.375, 0.25, 0.5, 0.25, 0.25, 0.125}, uint4[2,4,1] h = {151, 121, 169, 118}, "
        "int64[2] i = {1, 0}, int64[1] j = {2}, int64 k = {1}, float l = {0}, int64[1] m = {0}, "
        "int64[1] n = {2147483647}, int64[1] o = {1}> { p = DequantizeLinear <axis = 2, block_size "
        "= 4> (b, c, d) q = DequantizeLinear <axis = 2, block_size = 2> (e, g, h) s = Gather <axis "
        "= 1> (r, i) t, u = TopK <axis = -1> (s, j) v = Sub(k, u) w = GatherElements <axis = 1> "
        "(f, v) z = Shape(r) a1 = ConstantOfShape <value = float[1] {0}> (z) b1 = ScatterElements "
        "<axis = 1> (a1, v, w) c1 = Transpose <perm = [1, 0]> (b1) d1 = Shape(x) e1 = "
        "ConstantOfShape <value = float[1] {0}> (d1) y = Scan <num_scan_inputs = 4, body = expert "
        "(float[?,4] f1, float[4,4] g1, float[4,2] h1, float[4] i1, float[?] j1) => (float[?,4] "
        "z1) { k1 = Greater(j1, l) l1 = NonZero(k1) m1 = Squeeze(l1, m) n1 = Gather <axis = 0> (x, "
        "m1) o1 = Gemm <transB = 1> (n1, g1) p1 = Slice(o1, m, n, o, j) q1 = Slice(o1, o, n, o, j) "
        "r1 = Sigmoid(p1) s1 = Mul(p1, r1) t1 = Mul(s1, q1) u1 = Gemm <transB = 1> (t1, h1, i1) v1 "
        "= Gather <axis = 0> (j1, m1) w1 = Unsqueeze(v1, o) x1 = Unsqueeze(m1, o) y1 = Mul(u1, w1) "
        'z1 = ScatterND <reduction = "add"> (f1, x1, y1) }> (e1, p, q, a, c1) }',
        opset=21,
    )


def _matrices(
    g: GraphView, names: tuple[str, str, str], bits: int, block: int
) -> list[Array] | None:
    """Integers (experts, columns, rows), and scales and zero points with one number for each block.

    ``None`` when the shapes do not fit. Without zero points, the list has two arrays, and the
    integers are signed.
    """
    weights, scales, zeros = (constant(g, name) for name in names)
    if weights.ndim != 3 or weights.dtype != np.uint8:
        return None
    experts, columns, width = weights.shape
    rows = width * 8 // bits
    blocks = rows // block if block > 0 else 1
    if not blocks or rows % blocks:
        return None
    if scales.shape != ((experts, columns, blocks) if block > 0 else (experts, columns)):
        return None
    integers = unpacked(weights.reshape(-1, width), bits, rows).reshape(experts, columns, rows)
    arrays = [
        stored(integers, bits, is_centred=not names[2]),
        scales.reshape(experts, columns, blocks),
    ]
    if names[2]:
        count = blocks if block > 0 else columns
        packed = zeros.reshape(experts * columns if block > 0 else experts, -1)
        if packed.shape[1] != -(-count * bits // 8):
            return None
        points = unpacked(packed, bits, count).reshape(experts, columns, blocks)
        arrays.append(stored(points, bits, is_centred=False))
    return arrays


def _dequantized(g: PatternRewriter, arrays: list[Array], sources: tuple[str, ...]) -> str:
    names = [
        g.make_initializer("", array, source=source)
        for array, source in zip(arrays, sources, strict=False)
    ]
    block = arrays[0].shape[2] // arrays[1].shape[2]
    return g.op.DequantizeLinear(*names, axis=2, block_size=block)
