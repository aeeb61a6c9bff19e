"""Local functions that compute in double what operators without a kernel for double compute."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np
from onnx import AttributeProto, FunctionProto, NodeProto, TensorProto, helper, numpy_helper

from xoptim.facts.operators import has_kernel
from xoptim.facts.protos import standard_domain
from xoptim.operators.definitions import DefinedOperator, defined, defined_operator

_SCALES_OF_CHANNELS: Final = 21
"""The first operator set whose GroupNormalization has a scale for each channel, and not for each
group.
"""
DOMAIN: Final = "xoptim.double"
_MICROSOFT: Final = "com.microsoft"
_ERFC: Final = (
    -1.3026537197817094, 6.4196979235649026e-1, 1.9476473204185836e-2, -9.561514786808631e-3,
    -9.46595344482036e-4, 3.66839497852761e-4, 4.2523324806907e-5, -2.0278578112534e-5,
    -1.624290004647e-6, 1.303655835580e-6, 1.5626441722e-8, -8.5238095915e-8, 6.529054439e-9,
    5.059343495e-9, -9.91364156e-10, -2.27365122e-10, 9.6467911e-11, 2.394038e-12, -6.886027e-12,
    8.94487e-13, 3.13092e-13, -1.12708e-13, 3.81e-16, 7.106e-15, -1.523e-15, -9.4e-17, 1.21e-16,
    -2.8e-17,
)  # fmt: skip
"""Chebyshev coefficients of the complementary error function, Numerical Recipes, 3rd edition,
section 6.2.2.
"""


def _erf() -> str:
    """The error function as a Chebyshev series, summed by Clenshaw's recurrence: a Scan with one
    step per coefficient.
    """
    first, *others = _ERFC
    listed = ", ".join(map(repr, reversed(others)))
    return f"""
        Erf (x) => (y)
        {{
            zero = Constant <value_float = 0.0> ()
            half = Constant <value_float = 0.5> ()
            one = Constant <value_float = 1.0> ()
            two = Constant <value_float = 2.0> ()
            four = Constant <value_float = 4.0> ()
            first = Constant <value = double {{{first}}}> ()
            others = Constant <value = double[{len(others)}] {{{listed}}}> ()
            z = Abs(x) z2 = Add(two, z) t = Div(two, z2)
            t4 = Mul(four, t) ty = Sub(t4, two) d0 = Mul(t, zero)
            d, b = Scan <
                num_scan_inputs = 1,
                body = step (double[] di, double[] bi, double ci) => (double[] dn, double[] bn) {{
                    m = Mul(ty, di) n = Sub(m, bi) dn = Add(n, ci) bn = Identity(di)
                }}
            > (d0, d0, others)
            g = Mul(ty, d) i = Add(first, g) j = Mul(half, i) k = Sub(j, b)
            zz = Mul(z, z) l = Sub(k, zz) o = Exp(l) erfc = Mul(t, o)
            pos = Sub(one, erfc) sg = Sign(x) y = Mul(sg, pos)
        }}
    """


def _group_normalization(version: int, scaled: str) -> str:
    """GroupNormalization without the cancellation in onnxruntime's kernel, which subtracts the
    square of the mean.

    ``scaled`` names the length of scale and bias: the number of groups (``gs``) or channels
    (``cs``).
    """
    return f"""
        GroupNormalization{version} <num_groups: int, epsilon: float = 1e-05>
            (x, scale, bias) => (y)
        {{
            epsilon = Constant <value_float: float = @epsilon> ()
            g = Constant <value_int: int = @num_groups> ()
            first = Constant <value_ints = [0]> ()
            axis = Constant <value_ints = [1]> ()
            last = Constant <value_ints = [-1]> ()
            gs = Unsqueeze(g, first) s = Shape(x) cs = Shape <start = 1, end = 2> (x)
            split = Concat <axis = 0> (first, gs, last) r = Reshape(x, split)
            m = ReduceMean(r, last) d = Sub(r, m) q = Mul(d, d) v = ReduceMean(q, last)
            e = Add(v, epsilon) w = Sqrt(e) n = Div(d, w)
            rows = Concat <axis = 0> (first, {scaled}, last) h = Reshape(n, rows)
            scales = Unsqueeze(scale, axis) biases = Unsqueeze(bias, axis)
            k = Mul(h, scales) b = Add(k, biases) y = Reshape(b, s)
        }}
    """


_TEXTS: Final[Mapping[str, str]] = {
    "Erf": _erf(),  # the standard defines no simpler form
    # An alpha such as 1/6 was rounded to float32. An alpha very close to a multiple of 1/60 is
    # therefore replaced by this multiple, computed in double.
    "HardSigmoid": """
        HardSigmoid <alpha: float = 0.2, beta: float = 0.5> (x) => (y)
        {
            zero = Constant <value_float = 0.0> ()
            one = Constant <value_float = 1.0> ()
            sixty = Constant <value_float = 60.0> ()
            least = Constant <value = double {1e-5}> ()
            alpha = Constant <value_float: float = @alpha> ()
            beta = Constant <value_float: float = @beta> ()
            al = Mul(alpha, sixty) ar = Round(al) ad = Sub(al, ar) aa = Abs(ad)
            near = Less(aa, least) aq = Div(ar, sixty) slope = Where(near, aq, alpha)
            m = Mul(x, slope) a = Add(m, beta) l = Max(a, zero) y = Min(l, one)
        }
    """,
    "HardSwish": """
        HardSwish (x) => (y)
        {
            zero = Constant <value_float = 0.0> ()
            half = Constant <value_float = 0.5> ()
            one = Constant <value_float = 1.0> ()
            six = Constant <value_float = 6.0> ()
            d = Div(x, six) a = Add(d, half) l = Max(a, zero) g = Min(l, one) y = Mul(x, g)
        }
    """,
    # these depend on shapes
    "Hardmax": """
        Hardmax <axis: int = -1> (x) => (y)
        {
            i = ArgMax <axis: int = @axis, keepdims = 0> (x) s = Shape(x)
            a = Constant <value_int: int = @axis> () d = Gather(s, a)
            v = Constant <value = int64[2] {0, 1}> () o = OneHot <axis: int = @axis> (i, d, v)
            y = Cast <to = 11> (o)
        }
    """,
    "GlobalAveragePool": """
        GlobalAveragePool (x) => (y)
        {
            z = Constant <value_ints = [0]> ()
            two = Constant <value_ints = [2]> ()
            minus = Constant <value_ints = [-1]> ()
            s = Shape(x) nc = Slice(s, z, two) flat = Concat <axis = 0> (nc, minus)
            r = Reshape(x, flat) t = ReduceSum <keepdims = 1> (r, two) rs = Shape(r)
            n = Gather(rs, two) f = Cast <to = 11> (n) m = Div(t, f)
            rank = Shape(s) rest = Sub(rank, two)
            ones = ConstantOfShape <value = int64[1] {1}> (rest)
            back = Concat <axis = 0> (nc, ones) y = Reshape(m, back)
        }
    """,
    "GroupNormalization18": _group_normalization(18, "gs"),
    "GroupNormalization21": _group_normalization(21, "cs"),
}
"""The text of each function that is not the definition of its operator, by name."""
_INEXACT: Final = ("Sigmoid",)
"""Operators whose kernels for double lose digits of small results."""


def replacement(node: NodeProto, opset: int) -> FunctionProto | None:
    """The function that computes what a node computes; ``None`` where there is none, or the
    operator has a kernel for double.
    """
    domain, op_type = standard_domain(node.domain), node.op_type
    if domain == "" and op_type == "Gelu":
        is_tanh = any(a.name == "approximate" and a.s == b"tanh" for a in node.attribute)
        domain, op_type = _MICROSOFT, "FastGelu" if is_tanh else "Gelu"
    if domain == "" and op_type == "GroupNormalization":
        op_type += "18" if opset < _SCALES_OF_CHANNELS else "21"
    if domain == "" and op_type in _TEXTS:
        return _definition(defined_operator(_TEXTS[op_type]), domain, len(node.input), opset)
    operator = defined(domain, op_type) if domain in ("", _MICROSOFT) else None
    if operator is None:
        return None
    has_double = has_kernel("cpu", domain, op_type, TensorProto.DOUBLE, opset)
    if has_double is not False and op_type not in _INEXACT:
        return None
    return _definition(operator, domain, len(node.input), opset)


def _definition(operator: DefinedOperator, domain: str, operands: int, opset: int) -> FunctionProto:
    """The definition of an operator in double, for calls with the first operands only."""
    function = FunctionProto()
    function.CopyFrom(operator.body)
    function.domain = DOMAIN
    function.name = f"{domain.partition('.')[2]}{operator.op_type}{operands}"
    function.opset_import[0].version = opset
    omitted, names = set(operator.body.input[operands:]), dict[str, str]()
    del function.input[operands:], function.node[:]
    for node in operator.body.node:
        if node.op_type == "Add" and node.input[1] in omitted:
            names[node.output[0]] = node.input[0]
            continue
        parts = _in_double(node)
        for part in parts:
            part.input[:] = [names.get(name, name) for name in part.input]
        function.node.extend(parts)
    return function


def _in_double(node: NodeProto) -> list[NodeProto]:
    """A node of a definition whose constants are of type double."""
    if node.op_type == "Constant" and node.attribute[0].HasField("f"):
        return [_widened_constant(node)]
    if node.op_type == "Constant":
        return cast_reference(node)
    if node.op_type != "Clip" or not node.attribute:
        return [NodeProto.FromString(node.SerializeToString())]
    bounds = {a.name: f"{node.output[0]}_{a.name}" for a in node.attribute}
    constants = [
        helper.make_node("Constant", [], [bounds[a.name]], value_float=a.f) for a in node.attribute
    ]
    operands = [node.input[0], bounds.get("min", ""), bounds.get("max", "")]
    clip = helper.make_node("Clip", operands, list(node.output))
    return [*map(_widened_constant, constants), clip]


def _widened_constant(node: NodeProto) -> NodeProto:
    value = numpy_helper.from_array(np.array(node.attribute[0].f, np.float64))
    return helper.make_node("Constant", [], list(node.output), value=value)


def cast_reference(node: NodeProto) -> list[NodeProto]:
    """A node of a function; a Constant that is the value of a float attribute is cast to double."""
    copy = NodeProto.FromString(node.SerializeToString())
    attribute = node.attribute[0] if node.op_type == "Constant" and node.attribute else None
    if attribute is None or not attribute.ref_attr_name or attribute.type != AttributeProto.FLOAT:
        return [copy]
    copy.output[0] = f"{node.output[0]}_narrow"
    cast = helper.make_node("Cast", copy.output, list(node.output), to=int(TensorProto.DOUBLE))
    return [copy, cast]
