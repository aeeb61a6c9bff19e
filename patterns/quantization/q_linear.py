"""Operators between dequantized operands and a quantized result, as 8-bit integer operators."""

import math
from functools import partial
from typing import ClassVar, Final, Literal, NamedTuple, TypeAlias

import numpy as np
from onnx import TensorProto

from xoptim.facts.dtypes import numpy_dtype
from xoptim.facts.operators import has_kernel
from xoptim.match import Example, GraphView, MatchResult, Node, PatternOptimization, PatternRewriter

from .._bits import are_moderate
from .._folding import constant
from .._nodes import agree_elsewhere, axis_of, is_op
from .._pairs import are_conv_exact, are_exact
from ._parameters import Parameters, keep_integers, parameters

_Role: TypeAlias = Literal["tensor", "weight", "bias"]


class _Kind(NamedTuple):
    """The integer operator that replaces an operator.

    Attributes:
        op_type: its operator type.
        domain: its domain.
        roles: roles of the operands of the original; the last role applies to further operands.
        attributes: attributes that both operators have, with the same meaning and default.
    """

    op_type: str
    domain: str = "com.microsoft"
    roles: tuple[_Role, ...] = ("tensor",)
    attributes: tuple[str, ...] = ()


_WINDOW: Final = ("auto_pad", "dilations", "group", "kernel_shape", "pads", "strides")
_WEIGHTED: Final[tuple[_Role, ...]] = ("tensor", "weight", "bias")
_KINDS: Final[dict[str, _Kind]] = {
    "Add": _Kind("QLinearAdd"),
    "Concat": _Kind("QLinearConcat", attributes=("axis",)),
    "Conv": _Kind("QLinearConv", "", _WEIGHTED, _WINDOW),
    "GlobalAveragePool": _Kind("QLinearGlobalAveragePool"),
    "LeakyRelu": _Kind("QLinearLeakyRelu", attributes=("alpha",)),
    "MatMul": _Kind("QLinearMatMul", "", _WEIGHTED),
    "Mul": _Kind("QLinearMul"),
    "Sigmoid": _Kind("QLinearSigmoid"),
}
_MAX_TERMS: Final = 1 << 14
"""Maximum terms of a sum. 2^14 8-bit products and a bias below `_MAX_BIAS` stay below 2^31."""
_MAX_BIAS: Final = 1 << 30
_CHANNELS: Final = {"Conv": 0, "MatMul": 1}
"""The axis of the output channels of the weights."""


class _Operand(NamedTuple):
    """A quantized operand or result.

    Attributes:
        role: its role in the operator.
        integers: the quantized tensor.
        scales: its scales.
        zeros: its zero points; ``""`` if absent.
        numbers: the values of scales and zero points.
    """

    role: _Role
    integers: str
    scales: str
    zeros: str
    numbers: Parameters


class _QLinear(PatternOptimization):
    """An operator of `_KINDS` on integers.

    Refusals are numbered as in `QLinearPattern`. Refusal 5 of a Concat is that of
    `QLinearElementPattern`.
    """

    phase = "target"
    priority = 3
    min_opset = 10
    produces = ("com.microsoft",)
    providers = ("cpu",)
    tags = ("onnxruntime",)
    anchors = ("QuantizeLinear",)
    types: ClassVar[tuple[int, ...]] = (TensorProto.UINT8, TensorProto.INT8)
    """Types of the integers."""

    def match(self, g: GraphView, node: Node, matched: list[MatchResult]) -> MatchResult | None:
        operator = g.node_before(node.input[0])
        if not is_op(operator, *self.near) or not g.is_exclusive(node.input[0]):  # (1)
            return self.none(
                node, msg="the operator has no QLinear form, or its result has other consumers"
            )
        kind = _KINDS[operator.op_type]
        if not operator.attribute.keys() <= {*kind.attributes}:  # (4)
            return self.none(operator, msg="the QLinear operator lacks one of the attributes")
        roles = [kind.roles[min(i, len(kind.roles) - 1)] for i in range(len(operator.input))]
        result = _quantized_tensor(g, node, "tensor")
        operands = [
            operand
            for name, role in zip(operator.input, roles, strict=True)
            if (operand := _operand(g, name, role)) is not None
        ]
        if result is None or len(operands) < len(operator.input):  # (1) (2) (5)
            return self.none(
                operator, msg="a scale or zero point is not constant, or not supported"
            )
        scales = [operand.numbers.scales for operand in (*operands, result)]
        # (2)
        if not are_moderate(
            scales, is_multiplied=kind.roles == _WEIGHTED or kind.op_type == "QLinearMul"
        ):
            return self.none(
                operator, msg="the scales differ so much that the sums would lose precision"
            )
        # (3)
        if g.try_infer_type(node.output[0]) not in self.types or not _have_kernel(
            g, kind, operands, node, operator
        ):
            return self.none(operator, msg="no kernel for the integer types")
        # (5)
        if operator.op_type == "Concat" and not agree_elsewhere(
            g, operator.input, axis_of(g, operator) or 0
        ):
            return self.none(
                operator, msg="the operands' shapes may not match along the other axes"
            )
        if "weight" in roles and not _has_supported_weights(g, operator, operands):  # (5) (6) (7)
            return self.none(
                operator,
                msg="the weights or the bias are not supported, or sums might overflow int32",
            )
        if refusal := self.refusal(g, operator, operands, result):
            return self.none(operator, msg=refusal)
        return MatchResult(self, [operator, node], partial(self._replace, operands, result))

    def refusal(
        self, g: GraphView, operator: Node, operands: list[_Operand], result: _Operand
    ) -> str:
        """Why a pattern refuses operands and a result that the integer operator supports."""
        if operands[-1].role != "tensor" and not _is_exact(g, operator, operands):  # (8)
            return "CPUs without VNNI would saturate sums of two products of these weights"
        return ""

    def _replace(
        self,
        operands: list[_Operand],
        result: _Operand,
        g: PatternRewriter,
        operator: Node,
        node: Node,
    ) -> list[Node]:
        kind = _KINDS[operator.op_type]

        def names_of(operand: _Operand) -> list[str]:
            """The integers, their scales and their zero points."""
            zeros = np.zeros(
                constant(g, operand.scales).shape, numpy_dtype(g.try_infer_type(operand.integers))
            )
            return [
                operand.integers,
                operand.scales,
                operand.zeros or g.make_initializer("", zeros, source="zero"),
            ]

        result_names = names_of(result)[1:]
        bias = [operand.integers for operand in operands if operand.role == "bias"]
        inputs = [
            name for operand in operands if operand.role != "bias" for name in names_of(operand)
        ]
        inputs = (
            [*result_names, *inputs]
            if kind.op_type == "QLinearConcat"
            else [*inputs, *result_names, *bias]
        )
        return [
            g.make_node(kind.op_type, inputs, node.output, domain=kind.domain, **operator.attribute)
        ]


class QLinearPattern(_QLinear):
    """QuantizeLinear(Add(DequantizeLinear(x), DequantizeLinear(y))) → com.microsoft.QLinearAdd(x,
    y)

    What: computes with the integers. The same for Conv, MatMul, Mul and GlobalAveragePool. The
    rewrite is approximate: a quantized result may differ by one where the original is close to the
    middle between two integers. ORT graph optimizations fuse the same operators at load time.
    Why: with these optimizations disabled, one thread takes 0.24 of the time for a resnet50, with
    the same bits as onnxruntime's own fusion. A MatMul takes 0.17 to 0.27, Conv, Add, Mul and
    GlobalAveragePool 0.27 to 0.45. AveragePool would take 2.96 and is excluded.
    Refuses when:
    1. the result has other consumers before it is quantized, or an operand is not dequantized.
    2. a scale or zero point is not constant, or is block-wise. Or a scale is not a positive normal
       float32, or scales are so far apart that the kernels lose digits.
    3. the integer types have no kernel.
    4. the QLinear operator lacks an attribute.
    5. a tensor has scales per channel. Or weights have scales along another axis than the output
       channels, or different zero points.
    6. the bias is not a constant int32 vector whose scale is the scale of the tensor times the
       scale of the weights.
    7. sums might overflow int32, or the number of terms is not known.
    8. tensors are uint8 and weights int8, and sums of two adjacent products may overflow int16,
       which CPUs without VNNI saturate.
    """

    exactness = "approximate"
    near = ("Add", "Conv", "GlobalAveragePool", "MatMul", "Mul")

    _stored = (
        "float s = {0.0987654}, float t = {0.3141593}, float r = {0.7182818}, uint8 u = {128}, "
        "uint8 v = {3}"
    )
    _two = f"agraph (uint8[n,4] x, uint8[n,4] y) => (uint8[n,4] z) <{_stored}>"
    _matmul = (
        "agraph (int8[n,2] x) => (int8[n,1] z) <int8[2,1] w = {5, -7}, int8 o = {1}, int8 e = {0}, "
        f"{_stored}>"
    )
    _images = (
        "agraph (uint8[n,1,4] x) => (uint8[n,2,4] z) <int8[2,1,1] w = {5, -7}, float s = {0.5}, "
        "float[2] t = {0.26, 0.13}, float[2] st = {0.13, 0.065}, int8[2] o = {0, 0}, uint8 "
        "u = {9}, int32[2] b = {30, -4}, float r = {2.71828}, uint8 v = {99}>"
    )
    examples = Example.pairs(
        f"{_two} {{ a = DequantizeLinear(x, s, u) b = DequantizeLinear(y, t, v) c = Add(a, b) "
        "z = QuantizeLinear(c, r, u) }",
        f"{_two} {{ z = com.microsoft.QLinearAdd(x, s, u, y, t, v, r, u) }}",
        f"{_images} {{ a = DequantizeLinear(x, s, u) k = DequantizeLinear <axis = 0> (w, t, o) "
        "d = DequantizeLinear <axis = 0> (b, st) c = Conv(a, k, d) z = QuantizeLinear(c, r, v) }",
        f"{_images} {{ z = QLinearConv(x, s, u, w, t, o, r, v, b) }}",
        f"{_matmul} {{ a = DequantizeLinear(x, s) b = DequantizeLinear(w, t) c = MatMul(a, b) "
        "z = QuantizeLinear(c, r, o) }",
        f"{_matmul} {{ z = QLinearMatMul(x, s, e, w, t, e, r, o) }}",
    )


class QLinearElementPattern(_QLinear):
    """QuantizeLinear(Sigmoid(DequantizeLinear(x))) → com.microsoft.QLinearSigmoid(x)

    What: the operator looks up each integer in a table of 256 results. The same for LeakyRelu, and
    for a Concat whose operands have other scales than the result. The table holds the results of
    the original operators, so all integers are the same.
    Why: with ORT graph optimizations disabled, one thread takes 0.46 to 0.81 of the time for
    Sigmoid, 0.70 for LeakyRelu and 0.45 for Concat. If they are enabled, onnxruntime does the same.
    The operator Where would take 1.41 and is excluded.
    Refuses when:
    1. the result has other consumers before it is quantized, or an operand is not dequantized.
    2. a scale or zero point is not constant, or is block-wise or per axis, or a scale is not a
       positive normal float32.
    3. the integer types have no kernel, or are int8: onnxruntime converts QDQ pairs to uint8, but
       not the operators between them.
    4. the QLinear operator lacks an attribute.
    5. the operands of a Concat may not match: onnxruntime joins empty tensors of any shape, with
       undefined elements.
    """

    near = ("Concat", "LeakyRelu", "Sigmoid")
    types = (TensorProto.UINT8,)

    _stored = "float s = {0.1}, float t = {0.3}, float r = {0.7}, uint8 u = {128}, uint8 v = {3}"
    _one = f"agraph (uint8[n,4] x) => (uint8[n,4] z) <{_stored}>"
    _joined = f"agraph (uint8[n,4] x, uint8[n,4] y) => (uint8[n,8] z) <{_stored}>"
    _both = "a = DequantizeLinear(x, s, u) b = DequantizeLinear(y, t, v)"
    examples = Example.pairs(
        f"{_one} {{ a = DequantizeLinear(x, s, u) b = LeakyRelu <alpha = 0.25> (a) "
        "z = QuantizeLinear(b, t, v) }",
        f"{_one} {{ z = com.microsoft.QLinearLeakyRelu <alpha = 0.25> (x, s, u, t, v) }}",
        f"{_joined} {{ {_both} c = Concat <axis = 1> (a, b) z = QuantizeLinear(c, r, u) }}",
        f"{_joined} {{ z = com.microsoft.QLinearConcat <axis = 1> (r, u, x, s, u, y, t, v) }}",
    )


def _operand(g: GraphView, name: str, role: _Role) -> _Operand | None:
    """An operand; ``None`` unless a DequantizeLinear computes it as its role requires."""
    producer = g.node_before(name)
    return _quantized_tensor(g, producer, role) if is_op(producer, "DequantizeLinear") else None


def _quantized_tensor(g: GraphView, node: Node, role: _Role) -> _Operand | None:
    """The quantized tensor of a QuantizeLinear or DequantizeLinear.

    ``None`` if its parameters are not constant, or QLinear operators do not support them.
    """
    numbers = parameters(g, node)
    if (
        numbers is None
        or numbers.scales.dtype != np.float32
        or (role == "tensor" and numbers.axis is not None)
    ):
        return None
    if not (numbers.scales > 0).all() or not keep_integers(numbers.scales, TensorProto.UINT8):
        return None
    integers = node.output[0] if node.op_type == "QuantizeLinear" else node.input[0]
    zeros = node.input[2] if len(node.input) > 2 else ""
    return _Operand(role, integers, node.input[1], zeros, numbers)


def _have_kernel(
    g: GraphView, kind: _Kind, operands: list[_Operand], node: Node, operator: Node
) -> bool:
    dtype, opset = g.try_infer_type(node.output[0]), g.opsets.get(kind.domain, 1)
    types = [g.try_infer_type(operand.integers) for operand in operands]
    if g.try_infer_type(operator.output[0]) != TensorProto.FLOAT:
        return False
    weights = types[1:2] if "weight" in kind.roles else []
    tensors = types[:1] if weights else types
    fits = all(integer_type == dtype for integer_type in tensors) and all(
        integer_type == TensorProto.INT8 or integer_type == dtype == TensorProto.UINT8
        for integer_type in weights
    )
    return fits and has_kernel(g.provider, kind.domain, kind.op_type, dtype, opset) is True


def _is_exact(g: GraphView, node: Node, operands: list[_Operand]) -> bool:
    """Whether kernels compute the sums exactly on the target CPU."""
    names = [operand.integers for operand in operands[:2]]
    if [g.try_infer_type(name) for name in names] != [TensorProto.UINT8, TensorProto.INT8]:
        return True
    weights = g.get_computed_constant(names[1])
    if weights is None:
        return g.cpu == "vnni"
    if node.op_type == "Conv":
        return are_conv_exact(g, weights, node.get_attribute("group", 1))
    return are_exact(g, weights)


def _has_supported_weights(g: GraphView, node: Node, operands: list[_Operand]) -> bool:
    """Whether int32 sums with these weights and this bias can replace those of the operator."""
    x, w, *biases = operands
    shape = g.try_infer_shape(w.integers)
    channels = _CHANNELS[node.op_type]
    if shape is None or len(shape) < 2 or (node.op_type != "Conv" and len(shape) > 2):
        return False
    if w.numbers.axis not in (None, channels) or len(set(w.numbers.zeros.tolist())) != 1:  # (5)
        return False
    terms = [size for size in (shape[1:] if channels == 0 else shape[:1]) if isinstance(size, int)]
    # (7)
    if (
        len(terms) < (len(shape) - 1 if channels == 0 else 1)
        or not 0 < math.prod(terms) <= _MAX_TERMS
    ):
        return False
    if not biases:
        return True
    bias = g.get_computed_constant(biases[0].integers)
    products = x.numbers.scales.astype(np.float64) * w.numbers.scales
    # (6)
    if (
        bias is None
        or bias.dtype != np.int32
        or bias.shape != (shape[channels],)
        or biases[0].numbers.zeros.any()
    ):
        return False
    scales = biases[0].numbers.scales
    if products.size != scales.size and 1 not in (products.size, scales.size):
        return False
    return bool(np.allclose(scales, products, rtol=2.0**-20, atol=0.0)) and bool(
        (np.abs(bias.astype(np.int64)) < _MAX_BIAS).all()
    )
