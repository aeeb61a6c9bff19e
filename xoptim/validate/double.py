"""A model in 64-bit floats: where two models differ by rounding alone, they agree here to many more
digits.

All tensors, types and casts of the one narrow type that a model computes in become double.
Operators without a kernel for double become local functions of operators that have one.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple

import ml_dtypes
import numpy as np
import onnx
from onnx import AttributeProto, FunctionProto, NodeProto, TensorProto, helper, numpy_helper, parser

from xoptim.facts.protos import every_node, inner_graphs, is_external, standard_domain
from xoptim.validate.double_conv import conv_function, is_conv, window_of
from xoptim.validate.double_fused import split_operators
from xoptim.validate.protos import Located, large_tensors, light_copy, tensor_array

NARROW: Final = (TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.BFLOAT16)
_TYPED: Final = frozenset(("to", "dtype", "output_dtype", "output_datatype", "softmax_precision"))
"""Attributes that name an element type."""
_LARGE: Final = 1 << 16  # bytes of weights that are handed to onnxruntime outside the protobuf
_FRACTION: Final = 6  # binary places after the point, and in all, of a number that was not rounded
_DIGITS: Final = 16
_SCALES_OF_CHANNELS: Final = 21
"""The first operator set whose GroupNormalization has a scale for each channel, and not for each
group.
"""
_DOMAIN: Final = "xoptim.double"
_LEAST_OPSET: Final = 13
"""Before, some operators that the functions use have no kernels for double."""
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


class DoubleModel(NamedTuple):
    """A model that computes in double.

    ``weights`` are the numbers of its large initializers, which the protobuf lacks.
    """

    proto: onnx.ModelProto
    weights: dict[str, np.ndarray]


def in_doubles(
    model: onnx.ModelProto, base_dir: Path | None, open_constants: Collection[str] = ()
) -> DoubleModel | None:
    """A copy of a model that computes in double.

    ``None`` when it computes in several narrow types, or in none.

    ``open_constants`` are constants of the main graph that become inputs with these numbers as
    defaults.
    """
    narrow = narrow_type(model)
    if narrow is None or any(
        o.domain in ("", "ai.onnx") and o.version < _LEAST_OPSET for o in model.opset_import
    ):
        return None
    large = large_tensors(model, _LARGE)
    weights = {
        tensor.name: _array_in_double(tensor, base_dir, narrow)
        for tensor in model.graph.initializer
        if is_external(tensor) or (tensor.name in large and tensor.data_type == narrow)
    }
    copy = light_copy(model, weights.keys())
    copy.ir_version = max(copy.ir_version, 8)  # with local functions
    _store_constants(copy.graph)
    for tensor in copy.graph.initializer:
        if tensor.name in weights and tensor.data_type == narrow:
            tensor.data_type = TensorProto.DOUBLE
    # the inner ones first: a graph that changes has other nodes
    for graph in reversed(_graphs(copy)):
        split_operators(graph)
    for graph in _graphs(copy):
        _widen_graph(graph, narrow, base_dir)
    for node in _all_nodes(copy):
        _widen_node(node, narrow, base_dir)
    _add_functions(copy)
    opened = set(open_constants) - {value.name for value in copy.graph.input}
    for tensor in copy.graph.initializer:
        if tensor.name in opened:
            copy.graph.input.append(
                helper.make_tensor_value_info(tensor.name, tensor.data_type, list(tensor.dims))
            )
    return DoubleModel(copy, weights)


def _array_in_double(tensor: TensorProto, base_dir: Path | None, narrow: int) -> np.ndarray:
    array = tensor_array(tensor, base_dir)
    return _widened(array) if tensor.data_type == narrow else array


def _widened(array: np.ndarray) -> np.ndarray:
    """Numbers in double.

    The largest of the narrow type becomes the largest, as it stands for infinity in masks and
    bounds.
    """
    wide = array.astype(np.float64)
    most = float(ml_dtypes.finfo(array.dtype).max)  # type: ignore[no-untyped-call]
    return np.where(np.abs(wide) == most, np.sign(wide) * np.finfo(np.float64).max, wide)


def narrow_type(model: onnx.ModelProto) -> int | None:
    """The one type below double in which a model computes, ``None`` if there are several or
    none.
    """
    found = element_types(model)
    narrow = [element for element in NARROW if element in found]
    return narrow[0] if len(narrow) == 1 else None


def element_types(model: onnx.ModelProto) -> set[int]:
    """The element types that a model names: of inputs, outputs, constants and results of casts."""
    found = {tensor.data_type for tensor in model.graph.initializer}
    for value in (*model.graph.input, *model.graph.output, *model.graph.value_info):
        found.add(value.type.tensor_type.elem_type)
    for node in _all_nodes(model):
        for attribute in node.attribute:
            if attribute.type == AttributeProto.TENSOR:
                found.add(attribute.t.data_type)
            elif attribute.name in _TYPED:
                found.add(attribute.i)
    return found


def own_constants(model: Located, other: Located) -> dict[str, np.ndarray]:
    """The rounded constants in the main graph of a model that another one may compute with in
    another form, by name.

    These are the constants that the other model lacks, and all single numbers: an operator may
    contain them.
    """
    known = {_key(array) for _, array in _constants(*other)}
    own = {
        name: array
        for name, array in _constants(*model)
        if array.size == 1 or _key(array) not in known
    }
    return {name: array for name, array in own.items() if not _is_round(array)}


def _is_round(array: np.ndarray) -> bool:
    """Whether all numbers have few digits, such as 0.5 or 3: they were written so, and not
    rounded.
    """
    wide = array.astype(np.float64)
    with np.errstate(all="ignore"):
        scaled = np.abs(wide) * 2.0**_FRACTION
    return bool(
        np.all(~np.isfinite(wide) | ((scaled == np.rint(scaled)) & (scaled < 2.0**_DIGITS)))
    )


def _key(array: np.ndarray) -> tuple[str, int, int, int]:
    """A key that equal arrays share, also after a transposition: the sum and the exclusive or of
    their bits.
    """
    pattern = np.ascontiguousarray(array).reshape(-1).view(np.dtype(f"u{array.dtype.itemsize}"))
    return (
        array.dtype.str,
        array.size,
        int(pattern.sum(dtype=np.uint64)),
        int(np.bitwise_xor.reduce(pattern, initial=0)),
    )


def _constants(model: onnx.ModelProto, base_dir: Path | None) -> Iterator[tuple[str, np.ndarray]]:
    for tensor in model.graph.initializer:
        if tensor.data_type in NARROW:
            yield tensor.name, tensor_array(tensor, base_dir)
    for node in model.graph.node:
        stored = _stored(node)
        if stored is not None and stored.data_type in NARROW:
            yield node.output[0], numpy_helper.to_array(stored)


def _stored(node: NodeProto) -> TensorProto | None:
    """The tensor of a Constant, also of one that stores numbers in other attributes."""
    if node.op_type != "Constant" or standard_domain(node.domain) or len(node.attribute) != 1:
        return None
    attribute = node.attribute[0]
    if attribute.type == AttributeProto.TENSOR:
        return attribute.t
    if attribute.type == AttributeProto.FLOAT:
        return numpy_helper.from_array(np.array(attribute.f, np.float32))
    if attribute.type == AttributeProto.FLOATS:
        return numpy_helper.from_array(np.array(attribute.floats, np.float32))
    return None


def _store_constants(graph: onnx.GraphProto) -> None:
    """Turn the Constants of a graph into initializers."""
    kept: list[NodeProto] = []
    for node in graph.node:
        tensor = _stored(node)
        if tensor is None:
            kept.append(node)
            continue
        stored = graph.initializer.add()
        stored.CopyFrom(tensor)
        stored.name = node.output[0]
    if len(kept) < len(graph.node):
        nodes = [onnx.NodeProto.FromString(node.SerializeToString()) for node in kept]
        del graph.node[:]
        graph.node.extend(nodes)


def _all_nodes(model: onnx.ModelProto) -> list[NodeProto]:
    return list(
        every_node(
            [*model.graph.node, *(node for function in model.functions for node in function.node)]
        )
    )


def _graphs(model: onnx.ModelProto) -> list[onnx.GraphProto]:
    """The graphs of a model and of its functions at every depth, the outer ones first."""
    return [model.graph, *inner_graphs(model.graph.node), *_function_graphs(model)]


def _function_graphs(model: onnx.ModelProto) -> Iterator[onnx.GraphProto]:
    for function in model.functions:
        yield from inner_graphs(function.node)


def _widen_graph(graph: onnx.GraphProto, narrow: int, base_dir: Path | None) -> None:
    del graph.value_info[:]
    for value in (*graph.input, *graph.output):
        _widen_type(value.type, narrow)
    for tensor in graph.initializer:
        _widen_tensor(tensor, narrow, base_dir)


def _widen_type(kind: onnx.TypeProto, narrow: int) -> None:
    field = kind.WhichOneof("value")
    if field == "tensor_type" and kind.tensor_type.elem_type == narrow:
        kind.tensor_type.elem_type = TensorProto.DOUBLE
    elif field in ("sequence_type", "optional_type"):
        _widen_type(getattr(kind, field).elem_type, narrow)


def _widen_tensor(tensor: TensorProto, narrow: int, base_dir: Path | None) -> None:
    if tensor.data_type == narrow:
        name = tensor.name
        tensor.CopyFrom(numpy_helper.from_array(_widened(tensor_array(tensor, base_dir)), name))


def _widen_node(node: NodeProto, narrow: int, base_dir: Path | None) -> None:
    stored = _stored(node)
    if stored is not None and stored.data_type == narrow:
        _widen_tensor(stored, narrow, base_dir)
        node.attribute[0].CopyFrom(helper.make_attribute("value", stored))
        return
    for attribute in node.attribute:
        if attribute.type == AttributeProto.TENSOR:
            _widen_tensor(attribute.t, narrow, base_dir)
        elif attribute.name in _TYPED and attribute.i == narrow:
            attribute.i = TensorProto.DOUBLE
    if node.op_type == "ConstantOfShape" and not node.attribute and narrow == TensorProto.FLOAT:
        node.attribute.append(helper.make_attribute("value", numpy_helper.from_array(np.zeros(1))))


def _add_functions(model: onnx.ModelProto) -> None:
    """Let nodes whose operators have no kernel for double call functions."""
    needed: dict[str, FunctionProto] = {}
    opset = next((o.version for o in model.opset_import if o.domain in ("", "ai.onnx")), 18)
    shapes = {tensor.name: tuple(tensor.dims) for tensor in model.graph.initializer}
    for node in _all_nodes(model):
        window = window_of(node, shapes.get(node.input[1])) if is_conv(node) else None
        if window is not None:
            needed.setdefault(window.name, conv_function(window, _DOMAIN, opset))
            node.op_type, node.domain = window.name, _DOMAIN
            del node.attribute[:]
            continue
        name = _replacement(node, opset)
        if name is None:
            continue
        needed.setdefault(name, _function(name, opset))
        node.op_type, node.domain = name, _DOMAIN
        known = {attribute.name for attribute in needed[name].attribute_proto} | set(
            needed[name].attribute
        )
        kept = [attribute for attribute in node.attribute if attribute.name in known]
        copies = [AttributeProto.FromString(attribute.SerializeToString()) for attribute in kept]
        del node.attribute[:]
        node.attribute.extend(copies)
    if needed:
        model.functions.extend(needed.values())
        if (
            any(name.startswith(("Gelu", "Fast", "Bias")) for name in needed)
            and "Erf" not in needed
        ):
            model.functions.append(_function("Erf", opset))
        model.opset_import.append(helper.make_opsetid(_DOMAIN, 1))
        for function in model.functions:
            if all(entry.domain != _DOMAIN for entry in function.opset_import):
                function.opset_import.append(helper.make_opsetid(_DOMAIN, 1))


def _replacement(node: NodeProto, opset: int) -> str | None:
    """The function that computes what a node computes, ``None`` for an operator that has kernels or
    that has none.
    """
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
"""A slope of a sixth, rounded to seven digits or to 32 bits in an attribute, is a sixth: HardSwish
computes with that.
"""
_SOFTPLUS: Final = (
    _ZERO_ONE
    + "a = Abs(x) n = Neg(a) e = Exp(n) p = Add(e, one) l = Log(p) "
    + "f = Sub(p, one) lost = Sub(e, f) c = Div(lost, p) k = Add(l, c) m = Max(x, zero) s ="
    " Add(m, k) "
)
"""Log(1 + Exp(x)), with what 1 + e loses of a small e: all digits of results near 0."""
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
    """The error function of Chebyshev polynomials, summed by Clenshaw's recurrence: one step of a
    Scan a coefficient.
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
    """GroupNormalization without the cancellation of onnxruntime's, which subtracts the square of
    the mean.

    ``scaled`` is the size, after the batch, of the axis that scale and bias have: groups or
    channels.
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
"""Functions by name: how each is declared, and its nodes."""


@cache
def _function(name: str, opset: int) -> FunctionProto:
    declared, body = _BODIES[name]
    head = f'<domain: "{_DOMAIN}", opset_import: ["" : {opset}, "{_DOMAIN}" : 1]> '
    return parser.parse_function(f"{head}{declared} {{ {body()} }}")
