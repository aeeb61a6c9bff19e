"""Moves that write what exporters write, so that patterns find something.

All steps stay in reach of others.
"""

import math

from tests.properties.elementwise import add, divide, multiply
from tests.properties.growing import ELEMENTS, Growing, Value, like, rounded

_EPSILON = 0.05


def _smooth(
    g: Growing, op_type: str, x: Value, low: float, high: float, slope: float = 1.0
) -> Value | None:
    return g.emit(op_type, [x], rounded(x, low, high, slope * x.error))


def gelu(g: Growing) -> None:
    """The exact unit, its factors in any order."""
    x = g.number(dtypes=("float32",))
    if x is None or x.top > 9:
        return
    root = g.constant(math.sqrt(2) if g.flag() else math.sqrt(0.5))
    inner = divide(g, x, root) if root.low > 1 or g.flag(5) else multiply(g, x, root)
    e = _smooth(g, "Erf", inner, -1, 1, 1.2) if inner is not None else None
    one = add(g, e, g.constant(1.0)) if e is not None else None
    if one is None:
        return
    one = like(one, low=0, high=2)
    half = g.constant(0.5 if g.flag(8) is False else 0.25)
    if g.flag():
        halved = multiply(g, x, half)
        _ = halved and multiply(g, halved, one)
    else:
        product = multiply(g, x, one)
        _ = product and multiply(g, product, half)


def tanh_gelu(g: Growing) -> None:
    """The unit by tanh."""
    x = g.number(dtypes=("float32",))
    if x is None or x.top > 4:
        return
    cube = g.emit(
        "Pow", [x, g.constant(3.0)], rounded(x, -(x.top**3), x.top**3, 3 * x.top**2 * x.error)
    )
    small = multiply(g, cube, g.constant(0.044715)) if cube is not None else None
    inner = add(g, x, small) if small is not None else None
    scaled = multiply(g, inner, g.constant(math.sqrt(2 / math.pi))) if inner is not None else None
    t = _smooth(g, "Tanh", scaled, -1, 1) if scaled is not None else None
    one = add(g, g.constant(1.0), t) if t is not None else None
    product = multiply(g, x, one) if one is not None else None
    _ = product and multiply(g, product, g.constant(0.5))


def gated(g: Growing) -> None:
    """x times a sigmoid of it, plain, scaled or hard."""
    x = g.number(dtypes=("float32",))
    if x is None or x.top > 20:
        return
    kind = g.below(4)
    inner = multiply(g, x, g.constant(1.702)) if kind == 1 else x
    if kind == 2:
        three = add(g, x, g.constant(3.0))
        gate = (
            g.emit("Clip", [three, g.constant(0.0), g.constant(6.0)], like(three, low=0, high=6))
            if three is not None
            else None
        )
        gate = divide(g, gate, g.constant(6.0)) if gate is not None else None
    else:
        gate = (
            _smooth(g, "HardSigmoid" if kind == 3 else "Sigmoid", inner, 0, 1)
            if inner is not None
            else None
        )
    _ = gate and multiply(g, *((gate, x) if g.flag() else (x, gate)))


def normalize(g: Growing) -> None:
    """Layer normalization or root mean square normalization, spelled out, perhaps after a sum."""
    x = g.number(1, ("float32", "float64"))
    if x is None or not g.is_fixed(x.shape[-1]) or x.shape[-1][0] < 2 or x.error > 1 or x.top > 9:
        return
    if g.flag(4):
        x = add(g, x, g.weights([x.shape[-1][0]], x.dtype)) or x
    mean = _mean(g, x) if g.flag() else None
    centred = add(g, x, mean, "Sub") if mean is not None else x
    if centred is None:
        return
    centred = like(centred, error=min(centred.error, 1.0))
    square = (
        g.emit(
            "Pow",
            [centred, g.constant(2.0, centred.dtype)],
            rounded(centred, 0, centred.top**2, 2 * centred.top * centred.error),
        )
        if g.flag()
        else multiply(g, centred, centred)
    )
    variance = _mean(g, square) if square is not None else None
    safe = add(g, variance, g.constant(_EPSILON, x.dtype)) if variance is not None else None
    if safe is None:
        return
    root = g.emit("Sqrt", [safe], rounded(safe, _EPSILON**0.5, safe.high**0.5, 5.0))
    if root is None:
        return
    facts = rounded(x, -4, 4, 10)
    if g.flag(3):
        inverse = g.emit("Reciprocal", [root], rounded(root, 0, 5, 5.0))
        y = g.emit("Mul", [centred, inverse], facts) if inverse is not None else None
    else:
        y = g.emit("Div", [centred, root], facts)
    if y is not None and g.flag():
        y = multiply(g, y, g.weights([x.shape[-1][0]], x.dtype))
        if y is not None and g.flag():
            add(g, y, g.weights([x.shape[-1][0]], x.dtype))


def _mean(g: Growing, x: Value) -> Value | None:
    facts = rounded(like(x, shape=(*x.shape[:-1], *g.fixed(1))), x.low, x.high, x.error)
    if g.opset >= 18:
        return g.emit("ReduceMean", [x, g.ints(-1)], facts, keepdims=1)
    return g.emit("ReduceMean", [x], facts, axes=[-1], keepdims=1)


def soft(g: Growing) -> None:
    """Softmax and what its logarithm is, from exponentials."""
    x = g.number(1, ("float32",))
    if x is None or x.top > 4 or not all(map(all, x.shape)):
        return
    e = g.emit(
        "Exp", [x], rounded(x, math.exp(x.low), math.exp(x.high), math.exp(x.high) * x.error)
    )
    if e is None:
        return
    length = max(x.shape[-1])
    facts = rounded(
        like(e, shape=(*e.shape[:-1], *g.fixed(1))), e.low, length * e.high, length * e.error
    )
    total = g.emit("ReduceSum", [e, g.ints(-1)], facts, keepdims=1)
    _ = total and g.emit("Div", [e, total], rounded(e, 0, 1, 4 * x.error + 2))
    if g.flag(3):
        p = g.emit("Softmax", [x], rounded(x, 0, 1, 2 * x.error), axis=-1)
        _ = p and g.emit("Log", [p], rounded(p, -9 - length, 0, 10 * (1 + x.error)))


def pairs_of_casts(g: Growing) -> None:
    """There and back."""
    x = g.exact()
    if x is None:
        return
    middle = g.choose(("float64", "float32", "int64", "bool"))
    low, high = (0.0, 1.0) if middle == "bool" else (math.floor(x.low), math.ceil(x.high))
    y = g.emit("Cast", [x], like(x, dtype=middle, low=low, high=high), to=ELEMENTS[middle])
    _ = y and g.emit("Cast", [y], like(x, low=low, high=high), to=ELEMENTS[x.dtype])


def pairs_of_transposes(g: Growing) -> None:
    """Two permutations with something elementwise between."""
    x = g.number(3, ("float32",))
    if x is None:
        return
    perm = g.choose(([0, 2, 1], [1, 0, 2], [1, 2, 0]))
    perm = [*range(x.rank - 3), *(p + x.rank - 3 for p in perm)]
    y = g.emit("Transpose", [x], like(x, shape=tuple(x.shape[p] for p in perm)), perm=perm)
    if y is not None and g.flag():
        y = g.emit("Abs", [y], like(y, low=0, high=y.top))
    back = [perm.index(axis) for axis in range(x.rank)] if g.flag() else perm
    _ = y and g.emit("Transpose", [y], like(y, shape=tuple(y.shape[p] for p in back)), perm=back)


def halves(g: Growing) -> None:
    """An axis cut in two by slices, turned and put together, as rotary embeddings are."""
    x = g.pick(lambda v: v.dtype == "float32" and v.rank > 0 and v.shape[-1] == (4,) * len(g.sizes))
    if x is None:
        return
    parts = []
    for start, end in ((0, 2), (2, g.choose((4, 2**63 - 1)))):
        inputs = [x, g.ints(start), g.ints(end), g.ints(-1)]
        part = g.emit("Slice", inputs, like(x, shape=(*x.shape[:-1], *g.fixed(2))))
        if part is None:
            return
        parts.append(part)
    if g.flag():
        turned = g.emit("Neg", [parts[1]], like(parts[1], low=-x.high, high=-x.low))
        parts = [turned, parts[0]] if turned is not None else parts
    g.emit("Concat", parts, like(x, low=-x.top, high=x.top), axis=-1)


def chains(g: Growing) -> None:
    """Constants added and multiplied one after the other."""
    x: Value | None = g.number(dtypes=("float32", "int64"))
    for _ in range(2 + g.below(2)):
        if x is None:
            return
        c = g.constant(g.choose((1, 2, 0, 3)), x.dtype)
        x = multiply(g, x, c) if g.flag() else add(g, *((c, x) if g.flag(4) else (x, c)))


MOVES = (
    gelu,
    tanh_gelu,
    gated,
    normalize,
    soft,
    pairs_of_casts,
    pairs_of_transposes,
    halves,
    chains,
)
