"""Moves that sum over axes: reductions, products of matrices, windows, normalizations."""

import math

import numpy as np

from tests.properties.elementwise import add
from tests.properties.growing import Dim, Growing, Value, broadcast, like, rounded

_REDUCTIONS = (
    "ReduceSum",
    "ReduceMean",
    "ReduceMax",
    "ReduceMin",
    "ReduceL1",
    "ReduceL2",
    "ReduceSumSquare",
    "ReduceLogSumExp",
)


def reduce(g: Growing) -> None:
    """Over one axis or all, kept or not."""
    x = g.number(1, ("float32", "float64", "int64", "float16"))
    if x is None or not all(map(all, x.shape)):
        return
    op_type = g.choose(_REDUCTIONS if x.dtype in ("float32", "float64") else _REDUCTIONS[:4])
    axis, keep = g.below(x.rank), g.below(2)
    total = g.flag(5)
    one = g.fixed(1) if keep else ()
    shape = one * x.rank if total else (*x.shape[:axis], *one, *x.shape[axis + 1 :])
    length = max(math.prod(s) for s in zip(*x.shape, strict=True)) if total else max(x.shape[axis])
    facts = _reduced(like(x, shape=shape), op_type, length)
    if facts is None:
        return
    axes = None if total else axis - x.rank if g.flag() else axis
    if axes is None:
        g.emit(op_type, [x], facts, keepdims=keep)
    elif g.opset >= 18 or op_type == "ReduceSum":
        g.emit(op_type, [x, g.ints(axes)], facts, keepdims=keep)
    else:
        g.emit(op_type, [x], facts, axes=[axes], keepdims=keep)


def _reduced(x: Value, op_type: str, length: int) -> Value | None:
    top, error = x.top, x.error
    if op_type in ("ReduceMax", "ReduceMin"):
        return x
    if op_type == "ReduceMean":
        return rounded(x, x.low, x.high, error) if x.is_float else like(x)
    if op_type == "ReduceSum":
        return rounded(x, -length * top, length * top, error * length, exact=True)
    if op_type == "ReduceL1":
        return rounded(x, 0, length * top, error * length, exact=True)
    if op_type == "ReduceSumSquare":
        return rounded(x, 0, length * top**2, 2 * top * length * error)
    if op_type == "ReduceL2":
        return rounded(x, 0, length**0.5 * top, length**0.5 * error) if not error else None
    return rounded(x, x.low, x.high + math.log(length), error) if top < 20 else None


def softmax(g: Growing) -> None:
    """Along any axis."""
    x = g.number(1)
    if x is None or not all(map(all, x.shape)):
        return
    axis = g.below(x.rank)
    op_type = g.choose(("Softmax", "LogSoftmax"))
    low = 0.0 if op_type == "Softmax" else -2 * x.top - math.log(max(x.shape[axis]))
    g.emit(
        op_type,
        [x],
        rounded(x, low, 1 if op_type == "Softmax" else 0, 2 * x.error),
        axis=axis - x.rank if g.flag() else axis,
    )


def extremes(g: Growing) -> None:
    """Where the largest is, and the largest few, of exact numbers."""
    x = g.exact(1, ("float32", "int64"))
    if x is None or not all(map(all, x.shape)):
        return
    axis = g.below(x.rank)
    rest = (*x.shape[:axis], *x.shape[axis + 1 :])
    if g.flag():
        facts = Value("", "int64", rest, 0, max(x.shape[axis]))
        g.emit(
            g.choose(("ArgMax", "ArgMin")),
            [x],
            facts,
            axis=axis,
            keepdims=0,
            select_last_index=g.below(2),
        )
    else:
        shape = (*x.shape[:axis], *g.fixed(1), *x.shape[axis + 1 :])
        facts = Value("", "int64", shape, 0, max(x.shape[axis]))
        g.emit("TopK", [x, g.ints(1)], like(x, shape=shape), facts, axis=axis)


def cumulate(g: Growing) -> None:
    """Running sums."""
    x = g.number(1, ("float32", "int64"))
    if x is not None:
        axis = g.below(x.rank)
        length = max(1, *x.shape[axis])
        facts = rounded(x, -length * x.top, length * x.top, length * x.error, exact=True)
        g.emit(
            "CumSum",
            [x, g.constant(axis, "int64")],
            facts,
            exclusive=g.below(2),
            reverse=g.below(2),
        )


def one_hot(g: Growing) -> None:
    """Small integers as rows."""
    x = g.exact(1, ("int64",))
    if x is not None and x.top <= 9:
        inputs = [x, g.constant(4, "int64"), g.constant([0.0, 1.0])]
        g.emit("OneHot", inputs, Value("", "float32", (*x.shape, *g.fixed(4)), 0, 1))


def _product(x: Value, y: Value, shape: tuple[Dim, ...], length: int) -> Value:
    top = length * x.top * y.top
    return rounded(like(x, shape=shape), -top, top, length * (x.error * y.top + y.error * x.top))


def mat_mul(g: Growing) -> None:
    """By a constant matrix, with or without a bias, or of two results."""
    x = g.number(2, ("float32", "float64", "float16"))
    if x is None:
        return
    inner = x.shape[-1]
    if g.is_fixed(inner) and g.flag():
        weight: Value | None = g.weights((inner[0], 4), x.dtype)
        if g.flag(3):
            weight = g.emit(
                "Transpose",
                [g.weights((4, inner[0]), x.dtype)],
                like(x, shape=g.fixed(inner[0], 4), low=-1, high=1, error=0.0),
            )
        if weight is None:
            return
        product = g.emit(
            "MatMul", [x, weight], _product(x, weight, (*x.shape[:-1], *g.fixed(4)), inner[0])
        )
        if product is not None and g.flag():
            add(g, product, g.weights([4], x.dtype))
        return
    y = g.pick(lambda v: v.dtype == x.dtype and v.rank >= 2 and v.shape[-2] == inner)
    batch = broadcast(x.shape[:-2], y.shape[:-2]) if y is not None else None
    if y is not None and batch is not None and all(inner):
        g.emit("MatMul", [x, y], _product(x, y, (*batch, x.shape[-2], y.shape[-1]), max(inner)))


def attention_like(g: Growing) -> None:
    """A result times its transpose, scaled before or after."""
    x = g.number(2, ("float32",))
    if x is None or not all(map(all, x.shape)) or x.top > 9:
        return
    perm = [*range(x.rank - 2), x.rank - 1, x.rank - 2]
    turned = g.emit("Transpose", [x], like(x, shape=tuple(x.shape[p] for p in perm)), perm=perm)
    if turned is None:
        return
    scores = g.emit(
        "MatMul", [x, turned], _product(x, turned, (*x.shape[:-1], x.shape[-2]), max(x.shape[-1]))
    )
    if scores is None:
        return
    factor = g.constant(0.5)
    scaled = g.emit(
        g.choose(("Mul", "Div")),
        [scores, factor],
        rounded(scores, -2 * scores.top, 2 * scores.top, 2 * scores.error),
    )
    if scaled is not None and scaled.top < 60:
        soft = g.emit("Softmax", [scaled], rounded(scaled, 0, 1, 2 * scaled.error), axis=-1)
        if soft is not None:
            g.emit("MatMul", [soft, x], _product(x, soft, x.shape, max(x.shape[-2])))


def gemm(g: Growing) -> None:
    """With factors, transposed or not, with or without a bias."""
    x = g.pick(lambda v: v.dtype in ("float32", "float64") and v.rank == 2)
    if x is None:
        return
    turned = g.below(2)
    rows, inner = (x.shape[1], x.shape[0]) if turned else x.shape
    if not g.is_fixed(inner):
        return
    trans_b = g.below(2)
    weight = g.weights((3, inner[0]) if trans_b else (inner[0], 3), x.dtype)
    bias = [g.weights([3], x.dtype)] if g.flag() else []
    alpha, beta = g.choose(((1.0, 1.0), (0.5, 1.0), (1.0, 2.0)))
    facts = _product(x, weight, (rows, *g.fixed(3)), inner[0])
    facts = rounded(facts, facts.low - 4, facts.high + 4, facts.error)
    attributes = {"transA": turned, "transB": trans_b, "alpha": alpha, "beta": beta}
    g.emit("Gemm", [x, weight, *bias], facts, **attributes)


def einsum(g: Growing) -> None:
    """A few equations."""
    x = g.pick(lambda v: v.dtype == "float32" and v.rank in (2, 3))
    if x is None or not g.is_fixed(x.shape[-1]):
        return
    letters = "abc"[: x.rank]
    kind = g.below(3)
    if kind == 0:
        weight = g.weights((x.shape[-1][0], 2))
        facts = _product(x, weight, (*x.shape[:-1], *g.fixed(2)), x.shape[-1][0])
        g.emit("Einsum", [x, weight], facts, equation=f"{letters},{letters[-1]}z->{letters[:-1]}z")
    elif kind == 1:
        g.emit("Einsum", [x], like(x, shape=x.shape[::-1]), equation=f"{letters}->{letters[::-1]}")
    else:
        g.emit(
            "Einsum", [x, x], _product(x, x, x.shape, 1), equation=f"{letters},{letters}->{letters}"
        )


def image(g: Growing, channels: int | None = None) -> Value | None:
    """A result of four axes with a known number of channels, made if there is none."""
    found = g.pick(
        lambda v: (
            v.dtype == "float32"
            and v.rank == 4
            and g.is_fixed(v.shape[1])
            and channels in (None, v.shape[1][0])
            and all(all(d) for d in v.shape[1:])
        )
    )
    if found is not None:
        return found
    x = g.pick(lambda v: v.dtype == "float32" and v.rank == 3 and all(map(all, v.shape)))
    if x is None:
        return None
    return g.emit(
        "Unsqueeze", [x, g.ints(1)], like(x, shape=(x.shape[0], *g.fixed(1), *x.shape[1:]))
    )


def conv(g: Growing) -> None:
    """Small kernels, padded or not, followed by a bias, a factor or a batch normalization, or by
    nothing.
    """
    x = image(g)
    if x is None:
        return
    channels, side = x.shape[1][0], g.choose((1, 3))
    out = g.choose((2, 4))
    weight = g.weights((out, channels, side, side))
    shape = (x.shape[0], *g.fixed(out), *x.shape[2:])
    facts = _product(x, weight, shape, channels * side * side)
    bias = [g.weights([out])] if g.flag(3) else []
    facts = rounded(facts, facts.low - 1, facts.high + 1, facts.error)
    y = g.emit("Conv", [x, weight, *bias], facts, pads=[side // 2] * 4, kernel_shape=[side, side])
    if y is None:
        return
    after = g.below(4)
    if after == 1:
        add(g, y, g.weights((1, out, 1, 1)))
    elif after == 2:
        factor = g.weights((out, 1, 1))
        g.emit("Mul", [y, factor], rounded(y, -y.top, y.top, y.error))
    elif after == 3:
        batch_normalization(g, y)


def batch_normalization(g: Growing, x: Value | None = None) -> None:
    """With stored statistics."""
    x = image(g) if x is None else x
    if x is None:
        return
    width = [x.shape[1][0]]
    scale, shift, mean = (g.weights(width) for _ in range(3))
    variance = g.constant(np.full(width, g.choose((1.0, 0.25, 2.0))))
    top = 2 * (x.top + 1) + 1
    g.emit(
        "BatchNormalization",
        [x, scale, shift, mean, variance],
        rounded(x, -top, top, 2 * x.error + top),
        epsilon=1e-3,
    )


def pool(g: Growing) -> None:
    """Windows and whole images."""
    x = image(g)
    if x is None:
        return
    op_type = g.choose(("MaxPool", "AveragePool", "GlobalAveragePool", "GlobalMaxPool"))
    if op_type.startswith("Global"):
        shape = (*x.shape[:2], *g.fixed(1, 1))
        facts = (
            like(x, shape=shape)
            if op_type == "GlobalMaxPool"
            else rounded(like(x, shape=shape), x.low, x.high, x.error)
        )
        g.emit(op_type, [x], facts)
    else:
        facts = (
            like(x) if op_type == "MaxPool" else rounded(x, min(x.low, 0), max(x.high, 0), x.error)
        )
        g.emit(op_type, [x], facts, kernel_shape=[3, 3], pads=[1, 1, 1, 1])


def normalization(g: Growing) -> None:
    """As one operator."""
    x = g.number(1, ("float32",))
    if x is None or not g.is_fixed(x.shape[-1]) or x.error > 2:
        return
    width, kinds = x.shape[-1][0], ["InstanceNormalization"]
    kinds += ["LayerNormalization"] * (g.opset >= 17) + ["RMSNormalization"] * (g.opset >= 23)
    op_type = kinds[-1 - g.below(len(kinds))]
    if op_type == "InstanceNormalization":
        y = image(g)
        if y is not None and y.error <= 2:
            weights = [g.weights([y.shape[1][0]]) for _ in range(2)]
            g.emit(op_type, [y, *weights], rounded(y, -9, 9, 10 * y.error + 5), epsilon=0.05)
        return
    weights = [g.weights([width]) for _ in range(1 + (op_type[0] == "L" and g.flag()))]
    g.emit(op_type, [x, *weights], rounded(x, -9, 9, 10 * x.error + 5), axis=-1, epsilon=0.05)


MOVES = (
    *(
        reduce,
        softmax,
        extremes,
        cumulate,
        one_hot,
        mat_mul,
        attention_like,
        gemm,
        einsum,
        conv,
        batch_normalization,
        pool,
    ),
    normalization,
)
