"""Fused operators of ONNX Runtime, as separate standard operators."""

from collections.abc import Mapping
from typing import Any, Final

import numpy as np
from onnx import TensorProto, helper

from xoptim.match import Example, GraphView, Match, PatternBuilder, PatternRewriter, Symbol
from xoptim.match.trace import Optional, Variadic

from .._activations import PARAMETERS
from .._shapes import broadcasts_to, same_dims
from ._lowering import COMPUTED, _Lowering

_GEMM = ("alpha", "beta", "transA", "transB")
_ATTRIBUTES: Final = {"transA", "transB", "transBatchA", "transBatchB", "alpha"}
_OPERANDS = ("segments", "word", "place", "kind", "scale", "bias", "mask", "positions")
"""The operands after the word indices."""


class _LowerFused(_Lowering):
    """A fused operator of ``com.microsoft``.

    What: writes the standard operators.
    Why: only ONNX Runtime's own providers run the fused operator.
    """


class LowerFusedConvPattern(_LowerFused):
    """com.microsoft.FusedConv(x, w, b, z, activation="Relu") → Relu(Conv(x, w, b) + z)

    What: writes the standard operators. The same for every activation that the operator has.
    Refuses when:
    1. the activation is not known, or has another number of parameters.
    2. the tensor z is not known to have the shape of the convolution.
    """

    min_opset = 7
    derives = ("activation", "parameters", "convolution")

    def match_pattern(
        self, g: PatternBuilder, x: Symbol, w: Symbol, b: Optional, z: Optional
    ) -> Symbol:
        return g.op.FusedConv(x, w, b, z, domain="com.microsoft", attributes=g.capture("written"))

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        written = dict(m.written)
        activation = written.pop("activation", "")
        values = written.pop("activation_params", [])
        names = PARAMETERS.get(activation, ()) if activation else ()
        if (activation and activation not in PARAMETERS) or len(values) != len(names):  # (1)
            return self.none(m.nodes[0], msg="the activation or its parameters are unknown")
        if m.z:  # (2)
            operands = [m.x, m.w, m.b] if m.b else [m.x, m.w]
            convolved = g.infer(g.make_node("Conv", operands, **written))[0].shape
            if not same_dims(convolved, g.try_infer_shape(m.z)):
                return self.none(
                    m.nodes[0], msg="the added tensor may not have the shape of the convolution"
                )
        parameters = dict(zip(names, values, strict=True))
        return m.derive(activation=activation, parameters=parameters, convolution=written)

    def apply_pattern(self, g: PatternRewriter, x: str, w: str, b: str, z: str, **m: Any) -> str:
        result = g.op.Conv(x, w, b or None, **m["convolution"])
        total = g.op.Add(result, z) if z else result
        return (
            str(getattr(g.op, m["activation"])(total, **m["parameters"]))
            if m["activation"]
            else total
        )

    _start = "agraph (float[n,2,h] x, float[3,2,1] w, float[3] b"
    examples = Example.pairs(
        f"{_start}, float[n,3,h] z) => (float[n,3,h] y) "
        '{ y = com.microsoft.FusedConv <strides = [1], activation = "Relu"> (x, w, b, z) }',
        "{ a = Conv <strides = [1]> (x, w, b) c = Add(a, z) y = Relu(c) }",
        f"{_start}) => (float[n,3,h] y) {{ y = com.microsoft.FusedConv "
        '<activation = "HardSigmoid", activation_params = [0.25, 0.5]> (x, w) }',
        "{ a = Conv(x, w) y = HardSigmoid <alpha = 0.25, beta = 0.5> (a) }",
        f"{_start}) => (float[n,3,h] y) {{ y = com.microsoft.FusedConv "
        '<activation = "Clip", activation_params = [0.0, 6.0]> (x, w, b) }',
        "<float a = {0}, float c = {6}> { d = Conv(x, w, b) y = Clip(d, a, c) }",
    )


class LowerFusedGemmPattern(_LowerFused):
    """com.microsoft.FusedGemm(a, b, c, activation="Relu") → Relu(Gemm(a, b, c))

    What: writes the standard operators. The same for every activation that the operator has.
    Why: only ONNX Runtime's own providers run the fused operator. OpenVINO accepts the operator,
    but drops the activation.
    Refuses when:
    1. the activation or one of its parameters is not known.
    """

    derives = ("activation", "parameters", "attributes")

    def match_pattern(self, g: PatternBuilder, a: Symbol, b: Symbol, c: Optional) -> Symbol:
        return g.op.FusedGemm(a, b, c, domain="com.microsoft", attributes=g.capture("written"))

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        written = dict(m.written)
        activation = written.pop("activation", "")
        names = PARAMETERS.get(activation)
        if names is None:  # (1)
            return self.none(m.nodes[0], msg="the activation is unknown")
        values = {name: written.pop(f"activation_{name}", None) for name in names}
        parameters = {name: value for name, value in values.items() if value is not None}
        if not written.keys() <= set(_GEMM):  # (1)
            return self.none(m.nodes[0], msg="a parameter of the activation is unknown")
        return m.derive(activation=activation, parameters=parameters, attributes=written)

    def apply_pattern(
        self,
        g: PatternRewriter,
        a: str,
        b: str,
        c: str,
        activation: str,
        parameters: dict[str, Any],
        attributes: dict[str, Any],
    ) -> str:
        result = g.op.Gemm(a, b, c or None, **attributes)
        return str(getattr(g.op, activation)(result, **parameters))

    _start = "agraph (float[n,4] x, float[3,4] w, float[3] b) => (float[n,3] y)"
    examples = Example.pairs(
        f'{_start} {{ y = com.microsoft.FusedGemm <transB = 1, activation = "Relu"> (x, w, b) }}',
        "{ t = Gemm <transB = 1> (x, w, b) y = Relu(t) }",
        f'{_start} {{ y = com.microsoft.FusedGemm <transB = 1, activation = "LeakyRelu",'
        " activation_alpha = 0.25> (x, w) }",
        "{ t = Gemm <transB = 1> (x, w) y = LeakyRelu <alpha = 0.25> (t) }",
    )


class LowerFusedMatMulPattern(_LowerFused):
    """com.microsoft.FusedMatMul(a, b, transB=1, alpha=s) → MatMul(a, Transpose(b)) · s

    What: writes the standard operators. The same if the first operand or the batches are
    transposed, and for TransposeMatMul, the former name of the operator.
    Refuses when:
    1. an operand is transposed, and an operand may be a vector, for which the operator has another
       definition.
    2. alpha is 0, or an attribute is not known.
    """

    min_opset = 7
    derives = ("left", "right", "alpha")

    def match_pattern(self, g: PatternBuilder, a: Symbol, b: Symbol) -> Symbol:
        matmul = getattr(g.op, g.choice("operator", "FusedMatMul", "TransposeMatMul"))
        result: Symbol = matmul(a, b, domain="com.microsoft", attributes=g.capture("written"))
        return result

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        node, alpha = m.nodes[0], m.written.get("alpha", 1.0)
        if not alpha or not m.written.keys() <= _ATTRIBUTES:  # (2)
            return self.none(node, msg="alpha is 0, or an attribute is unknown")
        ranks = [g.info(name).rank or 0 for name in (m.a, m.b)]
        transposing = [flag for flag in m.written if flag != "alpha" and m.written[flag]]
        if transposing and min(ranks) < 2:  # (1)
            return self.none(node, msg="a rank is unknown, or an operand is a vector")
        orders = [_order(rank, side, m.written) for rank, side in zip(ranks, "AB", strict=True)]
        return m.derive(left=orders[0], right=orders[1], alpha=alpha)

    def apply_pattern(
        self,
        g: PatternRewriter,
        a: str,
        b: str,
        left: list[int],
        right: list[int],
        alpha: float,
    ) -> Any:
        first = g.op.Transpose(a, perm=left) if left else a
        second = g.op.Transpose(b, perm=right) if right else b
        matmul = g.op.MatMul(first, second)
        return matmul if alpha == 1 else g.op.Mul(matmul, alpha)

    _start = "agraph (float[a,h,q,8] x, float[a,h,k,8] w) => (float[a,h,q,k] y)"
    examples = Example.pairs(
        f"{_start} {{ y = com.microsoft.FusedMatMul <transB = 1, alpha = 0.5> (x, w) }}",
        "<float a = {0.5}> { b = Transpose <perm = [0, 1, 3, 2]> (w) c = MatMul(x, b) "
        "y = Mul(c, a) }",
        "agraph (float[8,q] x, float[8,k] w) => (float[q,k] y) { "
        "y = com.microsoft.TransposeMatMul <transA = 1> (x, w) }",
        "{ a = Transpose <perm = [1, 0]> (x) y = MatMul(a, w) }",
        "agraph (float[q,a,h,8] x, float[k,a,h,8] w) => (float[a,h,q,k] y) "
        "{ y = com.microsoft.FusedMatMul <transB = 1, transBatchA = 1, transBatchB = 1> (x, w) }",
        "{ a = Transpose <perm = [1, 2, 0, 3]> (x) b = Transpose <perm = [1, 2, 3, 0]> (w) "
        "y = MatMul(a, b) }",
    )


class LowerEmbedLayerNormalizationPattern(_LowerFused):
    """com.microsoft.EmbedLayerNormalization(i, ...) → LayerNormalization(Gather(words, i) +
    positions + Gather(segments, j))

    What: reads rows of three embeddings by Gather, and adds them. Without positions, the first rows
    of the position embedding are added. The number of valid keys is the number of ones in the mask,
    or 0 without a mask.
    Refuses when:
    1. the number of valid keys is read, and the mask does not have the shape of input_ids.
    2. there are no positions, and the length of the sequence is unknown. Or positions or segments
       have another shape than input_ids. Or there are embeddings of segments, but no segments.
    3. the embeddings are not float32.
    """

    min_opset = 17
    derives = ("inputs", "length", "counts", "number")

    def match_pattern(self, g: PatternBuilder, i: Symbol, others: Variadic) -> Symbol:
        return g.op.EmbedLayerNormalization(
            *(i, others),
            domain="com.microsoft",
            outputs=g.variadic("results"),
            attributes=g.capture("written"),
        )

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        node, inputs = m.nodes[0], dict(zip(_OPERANDS, m.others, strict=False))
        counts = any(name and g.is_used(name) for name in m.results[1:2])
        shape, table = g.try_infer_shape(m.i) or (), g.static_shape(inputs.get("place", ""))
        length = shape[1] if len(shape) == 2 and isinstance(shape[1], int) else 0
        same = [name for name in (inputs.get("positions"), inputs.get("segments")) if name]
        has_rows = bool(inputs.get("positions")) or (table is not None and 0 < length <= table[0])
        if not has_rows or any(g.try_infer_shape(name) != shape for name in same):  # (2)
            return self.none(
                node,
                msg="the sequence length is unknown, or position_ids or segment_ids has another"
                " shape than input_ids",
            )
        if bool(inputs.get("kind")) is not bool(inputs.get("segments")):  # (2)
            return self.none(node, msg="segment_ids or segment_embedding is missing")
        mask = inputs.get("mask", "")
        if counts and mask and g.try_infer_shape(mask) != shape:  # (1)
            return self.none(node, msg="the mask has another shape than input_ids")
        # (3)
        if any(
            g.try_infer_type(inputs.get(name, "")) != TensorProto.FLOAT
            for name in ("word", "place", "scale")
        ):
            return self.none(node, msg="the embeddings are not float32")
        return m.derive(
            inputs=inputs,
            length=length,
            counts=counts,
            number=m.written.get("epsilon", 1e-12),
        )

    def apply_pattern(
        self, g: PatternRewriter, i: str, inputs: dict[str, str], length: int, **m: Any
    ) -> Any:
        positions = inputs.get("positions") or np.arange(length)
        total = g.op.Add(
            g.op.Gather(inputs["word"], i, axis=0), g.op.Gather(inputs["place"], positions, axis=0)
        )
        if inputs["segments"]:
            total = g.op.Add(total, g.op.Gather(inputs["kind"], inputs["segments"], axis=0))
        normal = g.op.LayerNormalization(
            total, inputs["scale"], inputs["bias"] or None, axis=-1, epsilon=m["number"]
        )
        count = _ones(g, i, inputs.get("mask", "")) if m["counts"] else None
        return (normal, count, total)[: len(m["results"])]

    _tables = "float[7,4] w, float[5,4] p, float[2,4] k, float[4] s, float[4] c"
    examples = Example.pairs(
        f"agraph (int32[b,3] i, int32[b,3] j, {_tables}) => (float[b,3,4] y) "
        "{ y, z = com.microsoft.EmbedLayerNormalization <epsilon = 0.001> (i, j, w, p, k, s, c) }",
        "<int64[3] a = {0, 1, 2}> { b = Gather <axis = 0> (w, i) d = Gather <axis = 0> (p, a) e = "
        "Add(b, d) f = Gather <axis = 0> (k, j) g = Add(e, f) y = LayerNormalization <axis = -1, "
        "epsilon = 0.001> (g, s, c) }",
        f"agraph (int32[b,n] i, int32[b,n] j, {_tables}, int32[b,n] q) "
        "=> (float[b,n,4] y, float[b,n,4] t) { "
        "y, z, t = com.microsoft.EmbedLayerNormalization <epsilon = 0.001> (i, j, w, p, k, s, c, "
        ", q) }",
        "{ a = Gather <axis = 0> (w, i) b = Gather <axis = 0> (p, q) d = Add(a, b) e = Gather "
        "<axis = 0> (k, j) t = Add(d, e) y = LayerNormalization <axis = -1, epsilon = 0.001> (t, "
        "s, c) }",
        ranges=(("i", 0, 5), ("j", 0, 0), ("q", 0, 3)),
    )


def _ones(g: PatternRewriter, words: str, mask: str) -> str:
    """The number of ones in each row of a mask, or zeros without a mask."""
    if mask:
        is_one = g.op.Cast(g.op.Equal(mask, np.array(1, np.int32)), to=TensorProto.INT32)
        return g.op.ReduceSum(is_one, axes=[1], keepdims=0)
    zero = helper.make_tensor("", TensorProto.INT32, [1], [0])
    return g.op.ConstantOfShape(g.op.Shape(words, start=0, end=1), value=zero)


def _order(rank: int, side: str, written: Mapping[str, Any]) -> list[int]:
    """The permutation of an operand's axes that MatMul needs; an empty list for none.

    In the operand, rows may be the first axis, before the batches (``transBatchA``), and rows and
    columns may be exchanged (``transA``).
    """
    order = list(range(rank))
    if written.get(f"transBatch{side}"):
        order[:-1] = [*order[1:-1], 0]
    if written.get(f"trans{side}"):
        order[-2:] = reversed(order[-2:])
    return [] if order == sorted(order) else order


class _LowerSkipNormalization(_LowerFused):
    """A normalization of a sum of two or three tensors.

    What: Add computes the sum, which is also the fourth result.
    Why: only ONNX Runtime's own providers run the fused operator. On its CPU provider, the separate
    operators are faster.
    Refuses when:
    1. the mean or the standard deviation is used.
    2. the type is unknown, or bfloat16, for which Add often has no kernel (checked by the matcher).
    3. the second tensor is not known to broadcast to the first one. The operator repeats or cuts
       the second tensor in this case.
    """

    operand_types = {"x": COMPUTED - {TensorProto.BFLOAT16}}  # (2)
    derives = ("number",)

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        if any(name and g.is_used(name) for name in m.results[1:3]):  # (1)
            return self.none(m.nodes[0], msg="the mean or the inverse standard deviation is read")
        if not broadcasts_to(g, m.skip, m.x):  # (3)
            return self.none(
                m.nodes[0], msg="the second tensor is not known to broadcast to the first"
            )
        return m.derive(number=m.written.get("epsilon", 1e-12))

    def matched(self, g: PatternBuilder, operator: str, *operands: Symbol | Optional) -> Symbol:
        results, written = g.variadic("results"), g.capture("written")
        return g.op[operator](
            *operands, domain="com.microsoft", outputs=results, attributes=written
        )

    def apply_pattern(
        self, g: PatternRewriter, x: str, skip: str, results: tuple[str, ...], **m: Any
    ) -> Any:
        first = g.op.Add(x, m["added"]) if m["added"] else x
        total = g.op.Add(first, skip)
        return (self.normalized(g, total, **m), None, None, total)[: len(results)]

    def normalized(self, g: PatternRewriter, total: str, **m: Any) -> str:
        """The normalization of the sum."""
        raise NotImplementedError


class LowerSkipLayerNormalizationPattern(_LowerSkipNormalization):
    """com.microsoft.SkipLayerNormalization(x, skip, scale, bias, b) → LayerNormalization(x + b +
    skip, scale, bias)
    """

    min_opset = 17

    def match_pattern(
        self,
        g: PatternBuilder,
        x: Symbol,
        skip: Symbol,
        scale: Symbol,
        bias: Optional,
        added: Optional,
    ) -> Symbol:
        return self.matched(g, "SkipLayerNormalization", x, skip, scale, bias, added)

    def normalized(self, g: PatternRewriter, total: str, **m: Any) -> str:
        return g.op.LayerNormalization(
            total, m["scale"], m["bias"] or None, axis=-1, epsilon=m["number"]
        )

    _start = "agraph (float[a,b,4] x, float[a,b,4] r, float[4] s, float[4] c, float[4] d) =>"
    examples = Example.pairs(
        f'{_start} (float[a,b,4] y, float[a,b,4] z) {{ y, "", "", z ='
        " com.microsoft.SkipLayerNormalization <epsilon = 0.001> (x, r, s, c, d) }",
        "{ a = Add(x, d) z = Add(a, r) y = LayerNormalization <axis = -1, epsilon = 0.001> (z, s, "
        "c) }",
        "agraph (float[a,b,4] x, float[1,b,4] r, float[4] s) => (float[a,b,4] y) "
        "{ y = com.microsoft.SkipLayerNormalization <epsilon = 0.001> (x, r, s) }",
        "{ a = Add(x, r) y = LayerNormalization <axis = -1, epsilon = 0.001> (a, s) }",
        "agraph (float16[a,b,4] x, float16[a,b,4] r, float16[4] s, float16[4] c) "
        "=> (float16[a,b,4] y) { y = com.microsoft.SkipLayerNormalization <epsilon = 0.001> (x, "
        "r, s, c) }",
        "{ a = Add(x, r) y = LayerNormalization <axis = -1, epsilon = 0.001> (a, s, c) }",
    )


class LowerSkipSimplifiedLayerNormalizationPattern(_LowerSkipNormalization):
    """com.microsoft.SkipSimplifiedLayerNormalization(x, skip, scale, b) → RMSNormalization(x + b +
    skip, scale)

    What: writes Add and the normalization. Below operator set 23, the normalization is
    SimplifiedLayerNormalization, ONNX Runtime's name of RMSNormalization.
    """

    min_opset = 7
    unchecked = ("SimplifiedLayerNormalization",)

    def match_pattern(
        self, g: PatternBuilder, x: Symbol, skip: Symbol, scale: Symbol, added: Optional
    ) -> Symbol:
        return self.matched(g, "SkipSimplifiedLayerNormalization", x, skip, scale, added)

    def normalized(self, g: PatternRewriter, total: str, **m: Any) -> str:
        is_standard = g.opsets.get("", 1) >= 23
        operator = "RMSNormalization" if is_standard else "SimplifiedLayerNormalization"
        return str(g.op[operator](total, m["scale"], axis=-1, epsilon=m["number"]))

    _start = "agraph (float[a,b,4] x, float[a,b,4] r, float[4] s, float[4] d) =>"
    examples = (
        Example(
            f'{_start} (float[a,b,4] y, float[a,b,4] z) {{ y, "", "", z ='
            " com.microsoft.SkipSimplifiedLayerNormalization <epsilon = 0.001> (x, r, s, d) }",
            "{ a = Add(x, d) z = Add(a, r) y = RMSNormalization <axis = -1, epsilon = 0.001> (z, "
            "s) }",
            opset=23,
        ),
        Example(
            "agraph (float16[a,b,4] x, float16[a,b,4] r, float16[4] s) => (float16[a,b,4] y) "
            "{ y = com.microsoft.SkipSimplifiedLayerNormalization <epsilon = 0.001> (x, r, s) }",
            "{ a = Add(x, r) y = SimplifiedLayerNormalization <axis = -1, epsilon = 0.001> (a, "
            "s) }",
        ),
    )
