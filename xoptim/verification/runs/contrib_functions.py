"""Local functions in place of contrib operators, such as GroupNorm, for which ONNX Runtime has no
kernel on CPUs.

They make it possible to verify models that were optimized for CUDA. The definitions follow the
documentation of the operators.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Final

import onnx
from onnx import AttributeProto, FunctionProto, NodeProto, helper, parser

from xoptim.facts.attributes import decode_attribute, decode_attributes
from xoptim.facts.operators import has_kernel
from xoptim.facts.protos import FUNCTIONS_SINCE, every_node, opset_versions

CONTRIB: Final = "com.microsoft"
DOMAIN: Final = "xoptim.contrib"
"""The domain of the functions: onnxruntime does not call a function that has the name of one of its
own operators.
"""
_MIN_OPSET: Final = 15
"""The oldest operator set in which the functions are valid: they call CastLike.

onnxruntime reads a function in the operator set of the model, whatever the function imports.
"""
_AXES_OPERAND: Final = 18
"""The first operator set in which the axes of ReduceMean are an operand."""
_NORMALIZED: Final = (
    "d = Sub(f, m) q = Mul(d, d) {variance} e = Add(v, eps) s = Sqrt(e) n = Div(d, s) "
)
_GROUPS: Final = (
    "one = Constant <value_ints = [1]> () "
    "gs = Reshape(g, one) zero = Constant <value_ints = [0]> () "
    "rest = Constant <value_ints = [-1]> () "
)
_CHANNELS_LAST: Final = (
    f"{_GROUPS} c = Shape(gamma) each = Div(c, gs) "
    "split = Concat <axis = 0> (zero, rest, gs, each) r = Reshape(t, split) f = Cast <to = 1> (r) "
    "{normalized} back = Shape(t) "
    "h = Reshape(n, back) k = Cast <to = 1> (gamma) b = Cast <to = 1> (beta) "
)
_CHANNELS_FIRST: Final = (
    f"{_GROUPS} split = Concat <axis = 0> (zero, gs, rest) r = Reshape(t, split) "
    "f = Cast <to = 1> (r) {normalized} back = Shape(t) "
    "h = Reshape(n, back) column = Constant <value_ints = [-1, 1, 1]> () "
    "kc = Reshape(gamma, column) k = Cast <to = 1> (kc) "
    "bc = Reshape(beta, column) b = Cast <to = 1> (bc) "
)
_SCALED: Final = "u = Mul(h, k) z = Add(u, b) "
_SILU: Final = "o = Sigmoid(z) w = Mul(z, o) y = CastLike(w, x)"
_NO_ACTIVATION: Final = "y = CastLike(z, x)"
# A skip tensor of shape (N, C) becomes (N, 1, 1, C).
_SKIPPED: Final = (
    "i0 = Constant <value_ints = [0]> () i1 = Constant <value_ints = [1]> () "
    "i2 = Constant <value_ints = [-1]> () i3 = Constant <value_ints = [-2]> () "
    "end = Constant <value_ints = [2147483647]> () ones = Constant <value_ints = [1, 1]> () "
    "sizes = Shape(skip) first = Slice(sizes, i0, i1) last = Slice(sizes, i2, end) "
    "inner = Slice(sizes, i1, i2) padded = Concat <axis = 0> (ones, inner) "
    "image = Slice(padded, i3, end) full = Concat <axis = 0> (first, image, last) "
    "added = Reshape(skip, full) total = Add(x, added) "
)
_GELU: Final = (
    "root = Constant <value_float = 1.4142135> () half = Constant <value_float = 0.5> () "
    "unit = Constant <value_float = 1.0> () right_f = Cast <to = 1> (right) "
    "scaled = Div(right_f, root) erf = Erf(scaled) phi = Add(erf, unit) "
    "halved = Mul(right_f, half) gelu_f = Mul(halved, phi) gelu = CastLike(gelu_f, right) "
)


def with_contrib_functions(model: onnx.ModelProto) -> onnx.ModelProto:
    """A model in which contrib operators without a kernel on CPUs are calls of local functions.

    The result is a copy if there are such operators with a definition here, else the model itself.
    """
    own = {(function.domain, function.name) for function in model.functions}
    imports = opset_versions(model.opset_import)
    opset = imports.get("", 0)
    if (
        opset < _MIN_OPSET
        or CONTRIB not in imports
        or not any(
            _definition(node, opset) for node in _nodes(model) if (CONTRIB, node.op_type) not in own
        )
    ):
        return model
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    functions: dict[str, FunctionProto] = {}
    for node in _nodes(copy):
        text = _definition(node, opset) if (CONTRIB, node.op_type) not in own else ""
        if text:
            name = f"{node.op_type}_{len(functions)}"
            function = functions.setdefault(text, _function(name, text, opset))
            node.op_type, node.domain = function.name, DOMAIN
            del node.attribute[:]  # they are part of the function
            while not node.input[-1]:
                del node.input[-1]
    copy.functions.extend(functions.values())
    copy.ir_version = max(copy.ir_version, FUNCTIONS_SINCE)
    copy.opset_import.append(helper.make_opsetid(DOMAIN, 1))
    for function in copy.functions[: len(model.functions)]:
        function.opset_import.append(helper.make_opsetid(DOMAIN, 1))
    return copy


def contrib_functions(model: onnx.ModelProto) -> list[str]:
    """The contrib operators that are calls of local functions in a model that
    `with_contrib_functions` made.
    """
    names = (f.name.rpartition("_")[0] for f in model.functions if f.domain == DOMAIN)
    return sorted({f"{CONTRIB}::{name}" for name in names})


def _nodes(model: onnx.ModelProto) -> list[NodeProto]:
    bodies = (model.graph.node, *(function.node for function in model.functions))
    return [node for body in bodies for node in every_node(body)]


def _function(name: str, text: str, opset: int) -> FunctionProto:
    head = f'<domain: "{DOMAIN}", opset_import: ["" : {opset}]>'
    return parser.parse_function(f"{head} {name} {text}")


def _definition(node: NodeProto, opset: int) -> str:
    """The operands, results and body of the function for a node, with the values of its attributes;
    empty where its operator has a kernel, or no definition.
    """
    write = _WRITERS.get(node.op_type) if node.domain == CONTRIB else None
    if write is None or has_kernel("cpu", CONTRIB, node.op_type, 0, 1) is not False:
        return ""
    try:
        text = write(node, opset)
        if text:
            _function("f", text, opset)
    except (parser.ParseError, TypeError, ValueError):  # an attribute has a wrong type
        return ""
    return text


def _group_norm(node: NodeProto, opset: int) -> str:
    """GroupNorm and SkipGroupNorm of images, normalized in float32 within groups of channels."""
    written = decode_attributes(node)
    if "groups" not in written:
        return ""
    is_last = written.get("channels_last", 1)
    operands, start = "x, gamma, beta", "t = Identity(x) "
    if node.op_type == "SkipGroupNorm":
        if not is_last:
            return ""
        operands, start = f"{operands}, skip", f"{_SKIPPED} t = Identity(total) "
        if any(node.input[4:]):
            operands, start = f"{operands}, bias", f"{_SKIPPED} t = Add(total, bias) "
    axes = [1, 3] if is_last else [2]
    variance = _mean("v", "q", axes, opset)
    normalized = f"{_mean('m', 'f', axes, opset)} {_NORMALIZED.format(variance=variance)}"
    layout = (_CHANNELS_LAST if is_last else _CHANNELS_FIRST).format(normalized=normalized)
    numbers = (
        f"g = Constant <value_int = {int(written['groups'])}> () "
        f"eps = Constant <value_float = {float(written.get('epsilon', 1e-5)):.9e}> () "
    )
    activation = _SILU if written.get("activation") else _NO_ACTIVATION
    results = ", ".join("yt"[: len(node.output)])
    return f"({operands}) => ({results}) {{ {start}{numbers}{layout}{_SCALED}{activation} }}"


def _bias_add(node: NodeProto, opset: int) -> str:
    return "(x, bias, skip) => (y) { t = Add(x, bias) y = Add(t, skip) }"


def _bias_split_gelu(node: NodeProto, opset: int) -> str:
    body = (
        "t = Add(x, bias) size = Shape(bias) two = Constant <value_ints = [2]> () "
        "width = Div(size, two) widths = Concat <axis = 0> (width, width) "
        "left, right = Split <axis = -1> (t, widths)"
    )
    return f"(x, bias) => (y) {{ {body} {_GELU} y = Mul(left, gelu) }}"


def _nhwc_conv(node: NodeProto, opset: int) -> str:
    """NhwcConv of images; the weight is in the layout of Conv."""
    operands = "w, b" if any(node.input[2:]) else "w"
    attributes = ", ".join(map(_written, node.attribute))
    return (
        f"(x, {operands}) => (y) {{ t = Transpose <perm = [0, 3, 1, 2]> (x) "
        f"c = Conv {f'<{attributes}>' if attributes else ''} (t, {operands}) "
        "y = Transpose <perm = [0, 2, 3, 1]> (c) }"
    )


def _written(attribute: AttributeProto) -> str:
    """An integer, a list of integers or a text as an attribute in ONNX's textual syntax."""
    value = decode_attribute(attribute)
    return f"{attribute.name} = {json.dumps(value)}"


def _q_linear_reduce_mean(node: NodeProto, opset: int) -> str:
    """QLinearReduceMean with both zero points and with axes."""
    written = decode_attributes(node)
    if len(node.input) < 5 or not node.input[2] or not written.get("axes"):
        return ""
    mean = _mean("m", "f", list(map(int, written["axes"])), opset, int(written.get("keepdims", 1)))
    return (
        "(x, scale, zero, new_scale, new_zero) => (y) { f = DequantizeLinear(x, scale, zero) "
        f"{mean} y = QuantizeLinear(m, new_scale, new_zero) }}"
    )


def _mean(result: str, x: str, axes: list[int], opset: int, keepdims: int = 1) -> str:
    """The nodes of a mean over some axes, which are an operand from operator set 18 on."""
    if opset < _AXES_OPERAND:
        return f"{result} = ReduceMean <axes = {axes}, keepdims = {keepdims}> ({x})"
    return (
        f"{result}_axes = Constant <value_ints = {axes}> () "
        f"{result} = ReduceMean <keepdims = {keepdims}> ({x}, {result}_axes)"
    )


_WRITERS: Final[Mapping[str, Callable[[NodeProto, int], str]]] = {
    "BiasAdd": _bias_add,
    "BiasSplitGelu": _bias_split_gelu,
    "GroupNorm": _group_norm,
    "NhwcConv": _nhwc_conv,
    "QLinearReduceMean": _q_linear_reduce_mean,
    "SkipGroupNorm": _group_norm,
}
