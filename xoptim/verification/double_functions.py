"""Local functions that compute in double what operators without a kernel for double compute."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import Final

from onnx import FunctionProto, NodeProto, parser

from xoptim.facts.protos import standard_domain

_SCALES_OF_CHANNELS: Final = 21
"""The first operator set whose GroupNormalization has a scale for each channel, and not for each
group.
"""
DOMAIN: Final = "xoptim.double"
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


def replacement(node: NodeProto, opset: int) -> str | None:
    """The function that computes what a node computes; ``None`` where there is none."""
    domain = standard_domain(node.domain)
    if domain == "" and node.op_type == "Gelu":
        is_tanh = any(a.name == "approximate" and a.s == b"tanh" for a in node.attribute)
        return "GeluTanh" if is_tanh else "GeluErf"
    if domain == "" and node.op_type == "GroupNormalization":
        return "GroupNormalization18" if opset < _SCALES_OF_CHANNELS else "GroupNormalization21"
    if domain == "" and node.op_type in _BODIES:
        return node.op_type
    if domain == "com.microsoft" and node.op_type in _CONTRIB:
        name = _CONTRIB[node.op_type]
        return f"{name}Bias" if name == "GeluTanh" and len(node.input) > 1 else name
    return None


_CONTRIB: Final[Mapping[str, str]] = {
    "Gelu": "GeluErf",
    "FastGelu": "GeluTanh",
    "QuickGelu": "QuickGelu",
    "BiasGelu": "BiasGelu",
}
_FLOAT: Final = "= Constant <value_float: float = @{0}> () {0} = Cast <to = 11> ({0}_f)"


def _number(name: str, value: float) -> str:
    return f"{name} = Constant <value = double {{{value!r}}}> () "


def _attributes(*names: str) -> str:
    return "".join(f"{name}_f {_FLOAT.format(name)} " for name in names)


_ZERO_ONE: Final = _number("zero", 0.0) + _number("one", 1.0)
_SNAPPED: Final = (
    _number("sixty", 60.0)
    + _number("least", 1e-5)
    + "al = Mul(alpha, sixty) ar = Round(al) ad = Sub(al, ar) aa = Abs(ad) near = Less(aa, least)"
    " aq = Div(ar, sixty)" + " slope = Where(near, aq, alpha) "
)
"""A slope close to a multiple of 1/60 is that multiple: HardSwish computes with 1/6, which an
attribute rounds.
"""
_SOFTPLUS: Final = (
    _ZERO_ONE
    + "a = Abs(x) n = Neg(a) e = Exp(n) p = Add(e, one) l = Log(p) "
    + "f = Sub(p, one) lost = Sub(e, f) c = Div(lost, p) k = Add(l, c) m = Max(x, zero) s ="
    " Add(m, k) "
)
"""Log(1 + Exp(x)) with all digits: ``k`` adds what the sum 1 + e loses of a small e."""
_HALF: Final = _number("half", 0.5) + _number("one", 1.0)
_TANH_GELU: Final = (
    _HALF + _number("c", 0.044715) + _number("r", 0.7978845608028654)
    + "q = Mul(v, v) q3 = Mul(q, v) s = Mul(q3, c) t = Add(v, s) u = Mul(t, r) w = Tanh(u) "
    "p = Add(one, w) h = Mul(v, half) y = Mul(h, p)"
)  # fmt: skip
_ERF_GELU: Final = (
    _HALF + _number("r", 0.7071067811865476)
    + 'a = Mul(v, r) e = xoptim.double.Erf(a) p = Add(e, one) h = Mul(v, half) y = Mul(h, p)'
)  # fmt: skip


def _erf() -> str:
    """The error function as a Chebyshev series, summed by Clenshaw's recurrence: a Scan with one
    step per coefficient.
    """
    first, *others = _ERFC
    listed = ", ".join(map(repr, reversed(others)))
    constants = (
        _ZERO_ONE
        + _number("two", 2.0)
        + _number("four", 4.0)
        + _number("half", 0.5)
        + _number("first", first)
    )
    return (
        constants
        + f"c = Constant <value = double[{len(others)}] {{{listed}}}> () z = Abs(x) z2 = Add(two,"
        " z) t = Div(two, z2) t4 = Mul(four, t) ty = Sub(t4, two) d0 = Mul(t, zero) d, b = Scan"
        " <num_scan_inputs = 1, body = step (double[] di, double[] bi, double ci) => (double[]"
        " dn, double[] bn) { m = Mul(ty, di) n = Sub(m, bi) dn = Add(n, ci) bn = Identity(di)"
        " }> (d0, d0, c) g = Mul(ty, d) i = Add(first, g) j = Mul(half, i) k = Sub(j, b) zz ="
        " Mul(z, z) l = Sub(k, zz) o = Exp(l) erfc = Mul(t, o) pos = Sub(one, erfc) sg = Sign(x)"
        " y = Mul(sg, pos)"
    )


def _group_normalization(scaled: str) -> str:
    """GroupNormalization without the cancellation in onnxruntime's kernel, which subtracts the
    square of the mean.

    ``scaled`` names the length of scale and bias: the number of groups (``gs``) or channels
    (``cs``).
    """
    return (
        _attributes("epsilon")
        + "g = Constant <value_int: int = @num_groups> () zero = Constant <value_int = 0> () first"
        " = Constant <value_ints = [0]> () axis = Constant <value_ints = [1]> () last = Constant"
        " <value_ints = [-1]> () gs = Unsqueeze(g, first) s = Shape(x) cs = Shape <start = 1,"
        " end = 2> (x) split = Concat <axis = 0> (first, gs, last) r = Reshape(x, split) m ="
        " ReduceMean(r, last) d = Sub(r, m) q = Mul(d, d) v = ReduceMean(q, last) e = Add(v,"
        f" epsilon) w = Sqrt(e) n = Div(d, w) rows = Concat <axis = 0> (first, {scaled}, last) h"
        " = Reshape(n, rows) scales = Unsqueeze(scale, axis) biases = Unsqueeze(bias, axis) k ="
        " Mul(h, scales) b = Add(k, biases) y = Reshape(b, s)"
    )


_GROUPED: Final = "<num_groups: int, epsilon: float = 1e-05> (x, scale, bias) => (y)"
_BODIES: Final[Mapping[str, tuple[str, Callable[[], str]]]] = {
    "Erf": ("Erf (x) => (y)", _erf),
    "Sigmoid": (
        "Sigmoid (x) => (y)",
        lambda: _ZERO_ONE + "n = Neg(x) e = Exp(n) a = Add(e, one) y = Div(one, a)",
    ),
    "LeakyRelu": (
        "LeakyRelu <alpha: float = 0.01> (x) => (y)",
        lambda: (
            _attributes("alpha")
            + _ZERO_ONE
            + "n = Less(x, zero) s = Mul(x, alpha) y = Where(n, s, x)"
        ),
    ),
    "PRelu": (
        "PRelu (x, slope) => (y)",
        lambda: _ZERO_ONE + "n = Less(x, zero) s = Mul(x, slope) y = Where(n, s, x)",
    ),
    "Elu": (
        "Elu <alpha: float = 1.0> (x) => (y)",
        lambda: (
            _attributes("alpha")
            + _ZERO_ONE
            + "n = Less(x, zero) e = Exp(x) m = Sub(e, one) s = Mul(m, alpha) y = Where(n, s, x)"
        ),
    ),
    "Selu": (
        (
            "Selu <alpha: float = 1.67326319217681884765625, "
            "gamma: float = 1.05070102214813232421875> (x) => (y)"
        ),
        lambda: (
            _attributes("alpha", "gamma")
            + _ZERO_ONE
            + "n = LessOrEqual(x, zero) e = Exp(x) m = Sub(e, one) s = Mul(m, alpha) w = Where(n,"
            " s, x) y = Mul(gamma, w)"
        ),
    ),
    "HardSigmoid": (
        "HardSigmoid <alpha: float = 0.2, beta: float = 0.5> (x) => (y)",
        lambda: (
            _attributes("alpha", "beta")
            + _ZERO_ONE
            + _SNAPPED
            + "m = Mul(x, slope) a = Add(m, beta) l = Max(a, zero) y = Min(l, one)"
        ),
    ),
    "ThresholdedRelu": (
        "ThresholdedRelu <alpha: float = 1.0> (x) => (y)",
        lambda: _attributes("alpha") + _ZERO_ONE + "n = Greater(x, alpha) y = Where(n, x, zero)",
    ),
    "Softplus": (
        "Softplus (x) => (y)",
        lambda: _SOFTPLUS + "y = Identity(s)",
    ),
    "Mish": (
        "Mish (x) => (y)",
        lambda: _SOFTPLUS + "t = Tanh(s) y = Mul(x, t)",
    ),
    "HardSwish": (
        "HardSwish (x) => (y)",
        lambda: (
            _HALF
            + _number("zero", 0.0)
            + _number("six", 6.0)
            + "d = Div(x, six) a = Add(d, half) l = Max(a, zero) g = Min(l, one) y = Mul(x, g)"
        ),
    ),
    "Celu": (
        "Celu <alpha: float = 1.0> (x) => (y)",
        lambda: (
            _attributes("alpha")
            + _ZERO_ONE
            + "d = Div(x, alpha) e = Exp(d) m = Sub(e, one) s = Mul(m, alpha) n = Less(x, zero) y ="
            " Where(n, s, x)"
        ),
    ),
    "Hardmax": (
        "Hardmax <axis: int = -1> (x) => (y)",
        lambda: (
            "i = ArgMax <axis: int = @axis, keepdims = 0> (x) s = Shape(x) "
            "a = Constant <value_int: int = @axis> () "
            + "d = Gather(s, a) v = Constant <value = int64[2] {0, 1}> () o = OneHot <axis: int ="
            " @axis> (i, d, v) " + "y = Cast <to = 11> (o)"
        ),
    ),
    "Softsign": (
        "Softsign (x) => (y)",
        lambda: _ZERO_ONE + "a = Abs(x) d = Add(one, a) y = Div(x, d)",
    ),
    "GlobalAveragePool": (
        "GlobalAveragePool (x) => (y)",
        lambda: (
            "s = Shape(x) z = Constant <value_ints = [0]> () two = Constant <value_ints = [2]> () "
            "minus = Constant <value_ints = [-1]> () nc = Slice(s, z, two) "
            "flat = Concat <axis = 0> (nc, minus) r = Reshape(x, flat) "
            "t = ReduceSum <keepdims = 1> (r, two) rs = Shape(r) n = Gather(rs, two) "
            "f = Cast <to = 11> (n) m = Div(t, f) rank = Shape(s) rest = Sub(rank, two) "
            "ones = ConstantOfShape <value = int64[1] {1}> (rest) "
            "back = Concat <axis = 0> (nc, ones) y = Reshape(m, back)"
        ),
    ),
    "Tan": ("Tan (x) => (y)", lambda: "s = Sin(x) c = Cos(x) y = Div(s, c)"),
    "Sinh": (
        "Sinh (x) => (y)",
        lambda: _HALF + "n = Neg(x) a = Exp(x) b = Exp(n) d = Sub(a, b) y = Mul(d, half)",
    ),
    "Cosh": (
        "Cosh (x) => (y)",
        lambda: _HALF + "n = Neg(x) a = Exp(x) b = Exp(n) d = Add(a, b) y = Mul(d, half)",
    ),
    "GroupNormalization18": (
        f"GroupNormalization18 {_GROUPED}",
        lambda: _group_normalization("gs"),
    ),
    "GroupNormalization21": (
        f"GroupNormalization21 {_GROUPED}",
        lambda: _group_normalization("cs"),
    ),
    "GeluErf": ("GeluErf (v) => (y)", lambda: _ERF_GELU),
    "GeluTanh": ("GeluTanh (v) => (y)", lambda: _TANH_GELU),
    "GeluTanhBias": ("GeluTanhBias (x, bias) => (y)", lambda: "v = Add(x, bias) " + _TANH_GELU),
    "BiasGelu": ("BiasGelu (x, bias) => (y)", lambda: "v = Add(x, bias) " + _ERF_GELU),
    "QuickGelu": (
        "QuickGelu <alpha: float = 1.702> (x) => (y)",
        lambda: _attributes("alpha") + "a = Mul(x, alpha) s = Sigmoid(a) y = Mul(x, s)",
    ),
}
"""The signature and the nodes of each function, by name."""


@cache
def make_function(name: str, opset: int) -> FunctionProto:
    """The function of a name in an operator set."""
    signature, body = _BODIES[name]
    head = f'<domain: "{DOMAIN}", opset_import: ["" : {opset}, "{DOMAIN}" : 1]> '
    return parser.parse_function(f"{head}{signature} {{ {body()} }}")
