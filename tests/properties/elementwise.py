"""Moves that work element by element."""

import math
from collections.abc import Callable

import numpy as np

from tests.properties.growing import (
    ELEMENTS,
    EPSILON,
    FLOATS,
    INTEGERS,
    LARGEST,
    Growing,
    Value,
    broadcast,
    like,
    rounded,
)

Range = Callable[[float], float]
_SMOOTH: dict[str, tuple[Range, float]] = {
    "Sigmoid": (lambda x: 1 / (1 + math.exp(-x)), 0.3),
    "Tanh": (math.tanh, 1.0),
    "Erf": (math.erf, 1.2),
    "Softplus": (lambda x: math.log1p(math.exp(x)), 1.0),
    "Softsign": (lambda x: x / (1 + abs(x)), 1.0),
    "HardSigmoid": (lambda x: min(1.0, max(0.0, 0.2 * x + 0.5)), 0.2),
    "Elu": (lambda x: x if x > 0 else math.expm1(x), 1.0),
    "Selu": (lambda x: 1.0508 * (x if x > 0 else 1.6733 * math.expm1(x)), 1.8),
    "LeakyRelu": (lambda x: x if x > 0 else 0.01 * x, 1.0),
    "Atan": (math.atan, 1.0),
    "Celu": (lambda x: x if x > 0 else math.expm1(x), 1.0),
    "Exp": (math.exp, 60.0),
}
"""Monotonous functions: how they act, and how steep they are."""
_SMALL_KERNELS = {
    "float16": ("Sigmoid", "Tanh", "LeakyRelu"),
    "float64": ("Sigmoid", "Tanh", "Exp"),
}
"""Functions that onnxruntime has for fewer types."""
_BOUNDED = {"HardSwish": 14, "Mish": 18, "Gelu": 20, "Swish": 24}
"""Functions between -0.4 and x that are not monotonous."""
_INVERSE: dict[str, tuple[Range, float]] = {
    "Sqrt": (math.sqrt, 0.5),
    "Log": (math.log, 1.0),
    "Reciprocal": (lambda x: 1 / x, 1.0),
}
"""Functions of positive numbers: how they act, and how steep they are at 1."""
_STEPS = ("Floor", "Ceil", "Round", "Sign")
_SPECIAL = (1.0, 0.0, 0.5, 2.0, -1.0, 3.0, 6.0, 0.044715, 1.702, math.sqrt(2), 1e-5)


def relu(g: Growing) -> None:
    """Operators that keep all bits."""
    x = g.number(dtypes=(*FLOATS, *INTEGERS))
    if x is None:
        return
    op_type = g.choose(("Relu", "Neg", "Abs", "Identity"))
    if op_type == "Relu" and (x.dtype == "int64" or (x.dtype == "int32" and g.opset < 14)):
        return
    ranges = {
        "Relu": (max(0.0, x.low), max(0.0, x.high)),
        "Neg": (-x.high, -x.low),
        "Abs": (0.0, x.top),
        "Identity": (x.low, x.high),
    }
    low, high = ranges[op_type]
    g.emit(
        op_type, [x], like(x, low=low, high=high, data=x.data if op_type == "Identity" else None)
    )


def identities(g: Growing) -> None:
    """A chain of nodes that change nothing, of any type."""
    x = g.pick()
    for _ in range(1 + g.below(3)):
        if x is not None:
            op_type = "Dropout" if x.is_float and g.flag(4) else "Identity"
            x = g.emit(op_type, [x], x)


def smooth(g: Growing) -> None:
    """A function with rounding."""
    x = g.number()
    if x is None or x.top > 20:
        return
    op_type = g.choose(_SMALL_KERNELS.get(x.dtype, tuple(_SMOOTH)))
    function, slope = _SMOOTH[op_type]
    if op_type == "Exp":
        slope = math.exp(x.high)
    g.emit(op_type, [x], rounded(x, function(x.low), function(x.high), slope * x.error))


def bounded(g: Growing) -> None:
    """A gated unit, as one operator."""
    x = g.number(dtypes=("float32",))
    found = tuple(name for name, since in _BOUNDED.items() if since <= g.opset)
    if x is not None and found:
        op_type = g.choose(found)
        attributes = {"approximate": g.choose(("none", "tanh"))} if op_type == "Gelu" else {}
        g.emit(op_type, [x], rounded(x, -0.4, max(x.high, 0.0), 1.2 * x.error), **attributes)


def waves(g: Growing) -> None:
    """Sine and cosine."""
    x = g.number(dtypes=("float32", "float64"))
    if x is not None:
        g.emit(g.choose(("Sin", "Cos")), [x], rounded(x, -1, 1, x.error))


def positive(g: Growing) -> None:
    """Functions of positive numbers, which are made first."""
    x = g.number(dtypes=("float32", "float64"))
    if x is None:
        return
    magnitude = g.emit("Abs", [x], like(x, low=0.0, high=x.top))
    if magnitude is None:
        return
    shifted = add(g, magnitude, g.constant(g.choose((1.0, 0.5, 2.0)), x.dtype))
    if shifted is None:
        return
    op_type = g.choose(("Sqrt", "Log", "Reciprocal"))
    function, slope = _INVERSE[op_type]
    low, high = sorted((function(shifted.low), function(shifted.high)))
    g.emit(
        op_type,
        [shifted],
        rounded(shifted, low, high, slope / min(1.0, shifted.low) ** 2 * shifted.error),
    )


def steps(g: Growing) -> None:
    """Functions that jump, of exact numbers."""
    x = g.exact(dtypes=FLOATS)
    if x is not None:
        g.emit(
            g.choose(_STEPS),
            [x],
            like(x, low=math.floor(min(x.low, -1)), high=math.ceil(max(x.high, 1))),
        )


def clip(g: Growing) -> None:
    """With one end, both, or none; tensors or nothing."""
    x = g.number(dtypes=(*FLOATS, *INTEGERS))
    if x is None:
        return
    low, high = g.choose(((0, 6), (None, 1), (-1, None), (0, None), (-2, 2), (None, None)))
    ends = [None if end is None else g.constant(end, x.dtype) for end in (low, high)]
    least, most = (
        (x.low if low is None else max(low, x.low)),
        (x.high if high is None else min(high, x.high)),
    )
    least = min(least, x.high if high is None else high)
    g.emit("Clip", [x, *ends], like(x, low=least, high=max(least, most)))


def parametric(g: Growing) -> None:
    """PRelu with a slope for each channel or for all."""
    x = g.number(1)
    if x is not None:
        width = x.shape[-1][0] if g.is_fixed(x.shape[-1]) else 1
        slope = g.weights([width], x.dtype)
        top = x.top * max(1.0, slope.top)
        g.emit(
            "PRelu", [x, slope], rounded(x, -top, top, x.error * max(1.0, slope.top), exact=True)
        )


def add(g: Growing, a: Value, b: Value, op_type: str = "Add") -> Value | None:
    """Sum or difference."""
    shape = broadcast(a.shape, b.shape)
    if shape is None:
        return None
    low, high = (
        (a.low + b.low, a.high + b.high) if op_type == "Add" else (a.low - b.high, a.high - b.low)
    )
    return g.emit(
        op_type, [a, b], rounded(like(a, shape=shape), low, high, a.error + b.error, exact=True)
    )


def multiply(g: Growing, a: Value, b: Value) -> Value | None:
    """Product."""
    shape = broadcast(a.shape, b.shape)
    if shape is None:
        return None
    ends = [x * y for x in (a.low, a.high) for y in (b.low, b.high)]
    if a is b or a.name == b.name:
        ends = [0.0, a.top * a.top]
    error = a.error * b.top + b.error * a.top
    return g.emit("Mul", [a, b], rounded(like(a, shape=shape), min(ends), max(ends), error))


def divide(g: Growing, a: Value, b: Value) -> Value | None:
    """Quotient by what is positive."""
    shape = broadcast(a.shape, b.shape)
    if shape is None or b.low < 0.05:
        return None
    top = a.top / b.low
    error = a.error / b.low + b.error * a.top / b.low**2
    return g.emit("Div", [a, b], rounded(like(a, shape=shape), -top, top, error))


def binary(g: Growing) -> None:
    """Arithmetic on two results."""
    a = g.number(dtypes=(*FLOATS, *INTEGERS))
    b = g.pick(
        lambda v: a is not None and v.dtype == a.dtype and broadcast(v.shape, a.shape) is not None
    )
    if a is None or b is None:
        return
    op_type = g.choose(("Add", "Mul", "Sub", "Max", "Min", "Div"))
    _apply(g, op_type, a, b)


def with_scalar(g: Growing) -> None:
    """Arithmetic with a constant of one element."""
    x = g.number(dtypes=(*FLOATS, *INTEGERS))
    if x is None:
        return
    value = g.choose(_SPECIAL if x.is_float else (1, 0, 2, 3))
    c = g.constant(np.full((1,) * g.below(1 + min(x.rank, 3)), value), x.dtype)
    op_type = g.choose(("Add", "Mul", "Sub", "Div", "Max", "Min"))
    _apply(g, op_type, *((c, x) if g.flag(3) else (x, c)))


def with_vector(g: Growing) -> None:
    """Arithmetic with a constant for each channel."""
    x = g.number(1)
    if x is None or not g.is_fixed(x.shape[-1]):
        return
    c = g.weights([x.shape[-1][0]], x.dtype)
    _apply(g, g.choose(("Add", "Mul", "Sub")), *((c, x) if g.flag(3) else (x, c)))


def _apply(g: Growing, op_type: str, a: Value, b: Value) -> None:
    if op_type in ("Add", "Sub"):
        add(g, a, b, op_type)
    elif op_type == "Mul":
        multiply(g, a, b)
    elif op_type == "Div" and a.is_float:
        divide(g, a, b)
    elif op_type in ("Max", "Min"):
        extreme(g, op_type, [a, b])


def extreme(g: Growing, op_type: str, operands: list[Value]) -> None:
    """Largest or smallest of some results."""
    shape = broadcast(*(v.shape for v in operands))
    if shape is not None:
        ends = min(v.low for v in operands), max(v.high for v in operands)
        error = max(v.error for v in operands)
        g.emit(
            op_type,
            operands,
            like(operands[0], shape=shape, low=ends[0], high=ends[1], error=error),
        )


def variadic(g: Growing) -> None:
    """Sum, mean, largest or smallest of one to three."""
    a = g.number(dtypes=("float32",))
    if a is None:
        return
    operands = [
        a,
        *(
            v
            for _ in range(g.below(3))
            if (v := g.pick(lambda v: (v.dtype, v.shape) == (a.dtype, a.shape)))
        ),
    ]
    op_type = g.choose(("Max", "Min", "Sum", "Mean"))
    if op_type in ("Max", "Min"):
        extreme(g, op_type, operands)
        return
    top, error = sum(v.top for v in operands), sum(v.error for v in operands)
    g.emit(
        op_type,
        operands,
        rounded(a, -top, top, error, exact=op_type == "Sum" or len(operands) == 1),
    )


def power(g: Growing) -> None:
    """Of constant exponents."""
    x = g.number(dtypes=("float32", "float64"))
    if x is None or x.top > 9:
        return
    exponent = g.choose((2.0, 1.0, 3.0))
    e = g.constant(exponent, g.choose((x.dtype, "float32")))
    top = max(x.top, x.top**exponent)
    g.emit(
        "Pow", [x, e], rounded(x, -top, top, x.error * exponent * max(1.0, x.top ** (exponent - 1)))
    )


def compare(g: Growing) -> None:
    """Of exact numbers."""
    a = g.exact()
    if a is None:
        return
    b = g.pick(
        lambda v: v.dtype == a.dtype and not v.error and broadcast(v.shape, a.shape) is not None
    )
    other = g.constant(g.choose((0, 1, -1)), a.dtype) if b is None or g.flag() else b
    shape = broadcast(a.shape, other.shape)
    kinds = ("Greater", "Equal", "LessOrEqual", "Less", "GreaterOrEqual")
    op_type = g.choose(kinds[:2] if a.dtype == "float16" else kinds)
    if shape is not None:
        g.emit(op_type, [a, other], Value("", "bool", shape, 0, 1))


def logic(g: Growing) -> None:
    """Connectives and negation."""
    a = g.pick(lambda v: v.dtype == "bool")
    if a is None:
        compare(g)
        return
    if g.flag(3):
        g.emit("Not", [a], a)
        return
    b = g.pick(lambda v: v.dtype == "bool" and broadcast(v.shape, a.shape) is not None)
    other = g.constant(g.flag(), "bool") if b is None or g.flag() else b
    shape = broadcast(a.shape, other.shape)
    if shape is not None:
        g.emit(g.choose(("And", "Or", "Xor")), [a, other], like(a, shape=shape))


def where(g: Growing) -> None:
    """Between two results, or a result and a constant."""
    condition = g.pick(lambda v: v.dtype == "bool")
    x = g.pick(lambda v: v.dtype not in ("bool", "float16"))
    if condition is None or x is None:
        return
    y = g.pick(lambda v: v.dtype == x.dtype and broadcast(v.shape, x.shape) is not None)
    if x.dtype != "string" and (y is None or g.flag()):
        y = g.constant(g.choose((0, 1, 2)), x.dtype)
    if y is None:
        return
    shape = broadcast(condition.shape, x.shape, y.shape)
    if shape is not None:
        facts = like(
            x,
            shape=shape,
            low=min(x.low, y.low),
            high=max(x.high, y.high),
            error=max(x.error, y.error),
        )
        g.emit("Where", [condition, *((y, x) if g.flag() else (x, y))], facts)


def cast(g: Growing) -> None:
    """To another type, where it is clear what that gives."""
    x = g.pick(lambda v: v.dtype != "string")
    if x is None:
        return
    to = g.choose(("float32", "float64", "int64", "int32", "float16", "bool", "uint8"))
    facts = cast_facts(x, to)
    if facts is None:
        return
    same = g.pick(lambda v: v.dtype == to) if g.opset >= 15 and g.flag(4) else None
    if same is not None:
        g.emit("CastLike", [x, same], facts)
    else:
        g.emit("Cast", [x], facts, to=ELEMENTS[to])


def cast_facts(x: Value, to: str) -> Value | None:
    """Facts about a result of Cast, ``None`` when rounding could decide it."""
    if to == x.dtype:
        return x
    if to == "bool":
        return None if x.error else like(x, dtype=to, low=0, high=1)
    if to in ("uint8", *INTEGERS):
        low, high = math.floor(x.low), math.ceil(x.high)
        return (
            None
            if x.error or (to == "uint8" and low < 0)
            else like(x, dtype=to, low=low, high=high)
        )
    if x.top > LARGEST[to]:
        return None
    error = x.error * EPSILON[x.dtype] / EPSILON[to] if x.error else 0.0
    if x.is_float and EPSILON[to] > EPSILON[x.dtype] and x.error:
        error += x.top
    return like(x, dtype=to, error=error)


def integers(g: Growing) -> None:
    """Operators for integers only."""
    x = g.exact(dtypes=INTEGERS)
    if x is None:
        return
    two = g.constant(g.choose((2, 3)), x.dtype)
    op_type = g.choose(("Mod", "Div", "BitwiseAnd"))
    if op_type == "BitwiseAnd":
        if g.opset >= 18:
            g.emit(op_type, [x, two], like(x, low=0, high=3))
    elif op_type == "Mod":
        g.emit(op_type, [x, two], like(x, low=-3, high=3), **({"fmod": 1} if g.flag() else {}))
    else:
        g.emit(op_type, [x, two], like(x, low=-x.top, high=x.top))


def bytes_(g: Growing) -> None:
    """Unsigned bytes: shifts, extremes, quantization."""
    x = g.pick(lambda v: v.dtype == "uint8")
    if x is not None and g.flag():
        if g.flag():
            y = g.constant(g.choose((3, 0, 200)), "uint8")
            extreme(g, g.choose(("Max", "Min")), [x, y])
        else:
            g.emit(
                "BitShift",
                [x, g.constant(1, "uint8")],
                like(x, low=0, high=x.high / 2),
                direction="RIGHT",
            )
        return
    f = g.exact(dtypes=("float32",))
    if f is None or f.top > 12:
        return
    scale, zero = g.constant(0.25), g.constant(100, "uint8")
    q = g.emit("QuantizeLinear", [f, scale, zero], like(f, dtype="uint8", low=0, high=255))
    if q is not None and g.flag():
        g.emit("DequantizeLinear", [q, scale, zero], like(f, low=-25.0, high=39.0))


MOVES = (
    *(
        relu,
        smooth,
        binary,
        with_scalar,
        with_vector,
        identities,
        bounded,
        waves,
        positive,
        steps,
        clip,
        parametric,
        variadic,
    ),
    *(power, compare, logic, where, cast, integers, bytes_),
)
