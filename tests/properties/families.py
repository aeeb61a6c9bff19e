"""Moves that follow each other as patterns like them."""

from tests.properties import contractions as c, elementwise as e, movement as m
from tests.properties.growing import Growing, Move, Value, like, rounded


def _not(g: Growing) -> None:
    x = g.pick(lambda v: v.dtype == "bool")
    if x is not None:
        g.emit("Not", [x], x)


def _sign(g: Growing) -> None:
    x = g.number()
    if x is not None:
        op_type = g.choose(("Neg", "Abs"))
        low, high = (-x.high, -x.low) if op_type == "Neg" else (0.0, x.top)
        g.emit(op_type, [x], like(x, low=low, high=high))


def _relu(g: Growing) -> None:
    x = g.number(dtypes=("float32",))
    if x is not None:
        g.emit("Relu", [x], like(x, low=max(x.low, 0.0), high=max(x.high, 0.0)))


def _bound(g: Growing) -> None:
    x = g.number(dtypes=("float32", "int64"))
    if x is not None:
        e.extreme(g, g.choose(("Max", "Min")), [x, g.constant(g.choose((0, 6, 1)), x.dtype)])


def _turn_last(g: Growing) -> None:
    x = g.number(2, ("float32",))
    if x is not None:
        perm = [*range(x.rank - 2), x.rank - 1, x.rank - 2]
        g.emit("Transpose", [x], like(x, shape=tuple(x.shape[p] for p in perm)), perm=perm)


def _bias(g: Growing) -> None:
    x = g.number(1, ("float32",))
    if x is not None and g.is_fixed(x.shape[-1]) and x.shape[-1][0]:
        e.add(g, x, g.weights([x.shape[-1][0]]))


def _factor(g: Growing) -> None:
    x = g.number(1, ("float32",))
    if x is not None:
        y = g.constant(g.choose((0.5, 2.0, 1.0, -1.0)))
        e.multiply(g, x, y)


def _divisor(g: Growing) -> None:
    x = g.number(0, ("float32",))
    if x is not None:
        e.divide(g, x, g.constant(g.choose((2.0, 4.0, 1.0))))


def _difference(g: Growing) -> None:
    x = g.number(0, ("float32",))
    if x is not None:
        y = g.constant(g.choose((1.0, 0.0, 2.0)))
        e.add(g, *((y, x) if g.flag() else (x, y)), "Sub")


def _pad_image(g: Growing) -> None:
    x = c.image(g)
    if x is not None:
        shape = (*x.shape[:2], *(tuple(s + 2 for s in d) for d in x.shape[2:]))
        facts = like(x, shape=shape, low=min(x.low, 0), high=max(x.high, 0))
        g.emit("Pad", [x, g.ints(0, 0, 1, 1, 0, 0, 1, 1)], facts)


def _resize(g: Growing) -> None:
    x = c.image(g)
    if x is not None:
        g.emit("Resize", [x, None, g.constant([1.0, 1.0, 1.0, 1.0])], like(x), mode="nearest")


def _pieces(g: Growing) -> None:
    """Slices or single indices of an axis, side by side, that together are all of it or nearly."""
    x = g.pick(lambda v: v.dtype == "float32" and v.rank > 0 and v.shape[-1] == (4,) * len(g.sizes))
    if x is None:
        return
    singles = g.flag()
    cuts = (
        [(0, 1), (1, 2), (2, 3), (3, 4)]
        if singles
        else g.choose(([(0, 2), (2, 4)], [(0, 1), (1, 4)], [(0, 1), (2, 4)]))
    )
    parts: list[Value] = []
    for start, end in cuts:
        shape = x.shape[:-1] if singles else (*x.shape[:-1], *g.fixed(end - start))
        inputs = (
            [x, g.constant(start, "int64")]
            if singles
            else [x, g.ints(start), g.ints(end), g.ints(x.rank - 1)]
        )
        attributes = {"axis": x.rank - 1} if singles else {}
        part = g.emit("Gather" if singles else "Slice", inputs, like(x, shape=shape), **attributes)
        if part is None:
            return
        parts.append(part)
    if not singles and g.flag():
        total = sum(end - start for start, end in cuts)
        g.emit("Concat", parts, like(x, shape=(*x.shape[:-1], *g.fixed(total))), axis=-1)


def _skip(g: Growing) -> None:
    x = g.number(3, ("float32",))
    y = g.pick(lambda v: x is not None and (v.dtype, v.shape) == (x.dtype, x.shape))
    if (
        x is not None
        and y is not None
        and g.opset >= 17
        and g.is_fixed(x.shape[-1])
        and x.shape[-1][0] > 1
    ):
        total = e.add(g, x, y)
        if total is not None and total.error < 2:
            width = x.shape[-1][0]
            weights = [g.weights([width]) for _ in range(1 + g.below(2))]
            facts = rounded(total, -9, 9, 10 * total.error + 5)
            g.emit("LayerNormalization", [total, *weights], facts, axis=-1, epsilon=0.05)


_FAMILIES: tuple[tuple[Move, ...], ...] = (
    (m.transpose, m.transpose, e.relu),
    (m.reshape, m.flatten, m.unsqueeze, m.squeeze, m.reshape),
    (m.slice_, m.slice_, m.gather),
    (m.gather, m.gather, m.unsqueeze, m.squeeze),
    (m.concat, m.concat, m.slice_, m.split),
    (m.expand, m.expand, e.with_scalar, c.mat_mul),
    (e.clip, _relu, _bound),
    (e.compare, _not, _not, e.where, e.logic),
    (_sign, _difference, _sign, _factor),
    (_factor, _divisor, e.with_scalar),
    (e.cast, e.cast, c.normalization),
    (_pad_image, c.conv, c.pool),
    (c.conv, c.batch_normalization, _factor, _bias),
    (c.gemm, _bias, _factor, m.reshape),
    (c.mat_mul, _bias, _factor, _divisor),
    (_turn_last, c.mat_mul, c.reduce, m.gather, c.gemm),
    (c.normalization, _bias, _factor, _skip),
    (c.reduce, m.reshape, m.squeeze),
    (m.part_of_shape, m.shape_arithmetic, m.concat, m.gather, m.reshape_to_known),
    (_pieces, _pieces, m.concat),
    (_resize, m.tile, m.pad, e.identities),
    (c.softmax, e.positive, e.smooth),
)
"""Moves that often form a pattern, in any order."""


def relatives(g: Growing) -> None:
    """Two or three moves of a family, each on the result of the one before."""
    family = g.choose(_FAMILIES)
    for _ in range(2 + g.below(2)):
        move = g.choose(family)
        before, g.follows = g.follows, True
        move(g)
        g.follows = before
