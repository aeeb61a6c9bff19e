"""Moves that carry elements elsewhere, and the arithmetic of shapes."""

from collections.abc import Sequence

import numpy as np

from tests.properties.growing import Dim, Growing, Shape, Value, count, like

_END = 2**63 - 1
_ROW = np.zeros((1, 1), np.int64)
_WAYS = 5
"""Number of ways to write the indices of rows or blocks."""


def transpose(g: Growing) -> None:
    """Any permutation, the default one included; onnxruntime mixes strings up."""
    x = g.pick(lambda v: v.rank > 0 and v.dtype != "string")
    if x is None:
        return
    if g.flag(4):
        g.emit("Transpose", [x], like(x, shape=x.shape[::-1]))
        return
    left, perm = list(range(x.rank)), []
    while left:
        perm.append(left.pop(-1 - g.below(len(left))))
    g.emit("Transpose", [x], like(x, shape=tuple(x.shape[p] for p in perm)), perm=perm)


def reshape(g: Growing) -> None:
    """To a constant shape, with 0 and -1 where they are right."""
    x = g.pick()
    if x is None:
        return
    total = count(x.shape, len(g.sizes))
    places = range(x.rank)
    targets: list[tuple[list[int], Shape]] = [([-1], (total,))]
    if all(total):
        targets.append(([1, -1], (*g.fixed(1), total)))
    for axis in places:  # all but this one is copied, and an axis is added behind
        if all(all(d) for d in x.shape[axis:]):
            tail = count(x.shape[axis:], len(g.sizes))
            targets.append(([0] * axis + [-1], (*x.shape[:axis], tail)))
            targets.append(([0] * axis + [-1, 1], (*x.shape[:axis], tail, *g.fixed(1))))
        if g.is_fixed(x.shape[axis]) and x.shape[axis][0] == 4 and all(map(all, x.shape)):
            wanted = [d[0] if g.is_fixed(d) else 0 for d in x.shape]
            targets.append(([*wanted[:axis], 2, 2], (*x.shape[:axis], *g.fixed(2, 2))))
    targets = [
        t
        for t in targets
        if len(t[1]) <= 5 and all(_product(t[1], r) == total[r] for r in range(len(total)))
    ]
    numbers, shape = g.choose(targets)
    if g.opset >= 14 and 0 not in numbers and g.flag(5):
        g.emit("Reshape", [x, g.ints(*numbers)], like(x, shape=shape), allowzero=1)
    else:
        g.emit("Reshape", [x, g.ints(*numbers)], like(x, shape=shape))


def _product(shape: Shape, run: int) -> int:
    return int(np.prod([d[run] for d in shape], dtype=np.int64))


def flatten(g: Growing) -> None:
    """To a matrix."""
    x = g.number(1)
    if x is not None:
        axis = g.below(x.rank + 1)
        runs = len(g.sizes)
        shape = (count(x.shape[:axis], runs), count(x.shape[axis:], runs))
        g.emit("Flatten", [x], like(x, shape=shape), axis=axis)


def unsqueeze(g: Growing) -> None:
    """One or two new axes, counted from either end."""
    x = g.pick()
    if x is None:
        return
    axis = g.below(x.rank + 1)
    written = axis - x.rank - 1 if g.flag() else axis
    shape = (*x.shape[:axis], *g.fixed(1), *x.shape[axis:])
    data = x.data if x.rank == 0 else None
    g.emit("Unsqueeze", [x, g.ints(written)], x._replace(shape=shape, data=data))


def squeeze(g: Growing) -> None:
    """An axis of length 1."""
    one = (1,) * len(g.sizes)
    x = g.pick(lambda v: one in v.shape)
    if x is not None:
        axis = x.shape.index(one)
        written = axis - x.rank if g.flag(3) else axis
        shape = (*x.shape[:axis], *x.shape[axis + 1 :])
        if x.shape.count(one) == 1 and all(1 not in d or d == one for d in x.shape) and g.flag(4):
            g.emit("Squeeze", [x], x._replace(shape=shape))
        else:
            g.emit(
                "Squeeze",
                [x, g.ints(written)],
                x._replace(shape=shape, data=x.data if x.rank == 1 else None),
            )


def slice_(g: Growing) -> None:
    """Along one axis, sometimes everything, sometimes backwards."""
    x = g.pick(lambda v: v.rank > 0)
    if x is None:
        return
    axis = g.below(x.rank)
    start, end, step = g.choose(
        (
            (0, _END, 1),
            (1, _END, 1),
            (0, -1, 1),
            (0, 2, 1),
            (-1, _END, 1),
            (0, _END, 2),
            (-1, -_END, -1),
        )
    )
    taken = slice(start, None if abs(end) == _END else end, step)
    sizes = tuple(len(range(size)[taken]) for size in x.shape[axis])
    data = x.data[taken] if x.data is not None and x.rank == 1 and g.is_fixed(x.shape[0]) else None
    inputs = [x, g.ints(start), g.ints(end), g.ints(axis - x.rank if g.flag(3) else axis)]
    if step != 1 or g.flag():
        inputs.append(g.ints(step))
    g.emit(
        "Slice", inputs, x._replace(shape=(*x.shape[:axis], sizes, *x.shape[axis + 1 :]), data=data)
    )


def concat(g: Growing) -> None:
    """Of one to three results that fit."""
    x = g.pick(lambda v: v.rank > 0)
    if x is None:
        return
    axis = g.below(x.rank)

    def fits(v: Value) -> bool:
        return (
            v.dtype == x.dtype
            and v.rank == x.rank
            and all(v.shape[i] == x.shape[i] for i in range(x.rank) if i != axis)
        )

    parts = [x, *(v for _ in range(g.below(3)) if (v := g.pick(fits)))]
    total = tuple(map(sum, zip(*(v.shape[axis] for v in parts), strict=True)))
    known = [v.data for v in parts if v.data is not None]
    facts = x._replace(
        shape=(*x.shape[:axis], total, *x.shape[axis + 1 :]),
        low=min(v.low for v in parts),
        high=max(v.high for v in parts),
        error=max(v.error for v in parts),
        data=(
            tuple(d for data in known for d in data)
            if len(known) == len(parts) and x.rank == 1
            else None
        ),
    )
    g.emit("Concat", parts, facts, axis=axis - x.rank if g.flag(4) else axis)


def split(g: Growing) -> None:
    """An axis of known length in pieces; sometimes put together again."""
    x = g.pick(lambda v: any(g.is_fixed(d) and d[0] > 1 for d in v.shape))
    if x is None:
        return
    axis = g.choose([i for i, d in enumerate(x.shape) if g.is_fixed(d) and d[0] > 1])
    size = x.shape[axis][0]
    first = 1 + g.below(size - 1)
    pieces = [
        like(x, shape=(*x.shape[:axis], *g.fixed(n), *x.shape[axis + 1 :]))
        for n in (first, size - first)
    ]
    if 2 * first == size and g.flag():
        y = g.emit(
            "Split", [x], *pieces, axis=axis, **({"num_outputs": 2} if g.opset >= 18 else {})
        )
    else:
        y = g.emit("Split", [x, g.ints(first, size - first)], *pieces, axis=axis)
    if y is not None and g.flag():
        g.emit("Concat", list(g.values[-2:]), like(x), axis=axis)


def gather(g: Growing) -> None:
    """With a scalar or a vector of constant indices."""
    x = g.pick(lambda v: v.rank > 0)
    if x is None:
        return
    axis = g.below(x.rank)
    rest = x.shape[axis + 1 :]
    if not all(x.shape[axis]):
        return
    index = g.choose((0, -1))
    if g.flag():
        known = x.data[index : index + 1 or None] if x.data and x.rank == 1 else None
        g.emit(
            "Gather",
            [x, g.constant(index, "int64")],
            x._replace(shape=(*x.shape[:axis], *rest), data=known),
            axis=axis,
        )
    else:
        indices = g.choose(([0], [0, -1], [0, 0, 0]))
        facts = like(x, shape=(*x.shape[:axis], *g.fixed(len(indices)), *rest))
        g.emit("Gather", [x, g.constant(indices, g.choose(("int64", "int32")))], facts, axis=axis)


def gather_elements(g: Growing) -> None:
    """Elements along an axis, and single ones, rows or blocks."""
    x = g.number(1)
    if x is None:
        return
    if g.flag():
        _along(g, x, g.below(x.rank))
    else:
        _at(g, x, g.below(_WAYS))


def _along(g: Growing, x: Value, axis: int) -> tuple[Value, Value] | None:
    """Constant indices that count along an axis of fixed size, and the elements there."""
    if not all(g.is_fixed(d) and d[0] for d in x.shape):
        return None
    size = x.shape[axis][0]
    first = g.below(size)
    shape = [size - first if place == axis else d[0] for place, d in enumerate(x.shape)]
    counted = np.arange(first, size).reshape(
        [-1 if place == axis else 1 for place in range(x.rank)]
    )
    indices = g.constant(np.broadcast_to(counted, shape) - size * g.below(2), "int64")
    found = g.emit("GatherElements", [x, indices], like(x, shape=g.fixed(*shape)), axis=axis)
    return None if found is None else (indices, found)


def _at(g: Growing, x: Value, way: int) -> tuple[Value, Value] | None:
    """Constant indices of the first axes, none twice, and what lies there.

    The indices have as many axes as these, or not.
    """
    if not all(x.shape[0]):
        return None
    count = next(
        (place for place, d in enumerate(x.shape) if not g.is_fixed(d) or not d[0]), x.rank
    )
    sizes = [d[0] for d in x.shape[: 1 + g.below(count)]] if count else [1]
    grid = np.stack(np.meshgrid(*map(np.arange, sizes), indexing="ij"), -1)
    indices = (_ROW, grid, grid.reshape(-1, grid.shape[-1]), grid[-1:], grid[..., None, :])[way]
    written = g.constant(indices, "int64")
    shape = (*g.fixed(*indices.shape[:-1]), *x.shape[indices.shape[-1] :])
    found = g.emit("GatherND", [x, written], like(x, shape=shape))
    return None if found is None else (written, found)


def expand(g: Growing) -> None:
    """To its own shape, or by one axis; the target constant or computed."""
    x = g.number(dtypes=("float32", "int64", "bool"))
    if x is None:
        return
    own = shape_of(g, x)
    kind = g.below(3)
    if kind == 0:
        g.emit("Expand", [x, g.ints(*(1,) * x.rank)], like(x))
    elif kind == 1 and own is not None:
        g.emit("Expand", [x, own], like(x))
    elif own is not None:
        target = g.emit("Concat", [g.ints(2), own], vector(g, (*g.fixed(2), *x.shape)), axis=0)
        if target is not None:
            g.emit("Expand", [x, target], like(x, shape=(*g.fixed(2), *x.shape)))


def tile(g: Growing) -> None:
    """Along any axis, sometimes once only."""
    x = g.number(1)
    if x is not None:
        times = [1 + g.below(2) for _ in x.shape]
        shape = tuple(tuple(t * s for s in d) for t, d in zip(times, x.shape, strict=True))
        g.emit("Tile", [x, g.ints(*times)], like(x, shape=shape))


def pad(g: Growing) -> None:
    """The last axis, or nothing."""
    x = g.number(1, ("float32", "float64", "int64"))
    if x is None:
        return
    before, after = g.choose(((0, 0), (0, 1), (1, 1)))
    sizes = tuple(s + before + after for s in x.shape[-1])
    mode = g.choose(("constant", "edge"))
    if mode == "edge" and not all(x.shape[-1]):
        return
    facts = like(x, shape=(*x.shape[:-1], sizes), low=min(x.low, 0), high=max(x.high, 0))
    last = x.rank - 1
    pads = [0] * last + [before] + [0] * last + [after]
    g.emit("Pad", [x, g.ints(*pads)], facts, **({"mode": mode} if mode != "constant" else {}))


def triangle(g: Growing) -> None:
    """The upper or lower part of matrices."""
    x = g.number(2, ("float32", "int64"))
    if x is not None and g.opset >= 14:
        g.emit("Trilu", [x], like(x, low=min(x.low, 0), high=max(x.high, 0)), upper=g.below(2))


def scatter(g: Growing) -> None:
    """Elements, rows or blocks in the places of others."""
    x = g.number(1, ("float32",))
    if x is None:
        return
    axis, way = g.below(x.rank), g.below(_WAYS)
    by_axis = g.flag()
    taken = _along(g, x, axis) if by_axis else _at(g, x, way)
    if taken is None:
        return
    indices, update = taken
    other = g.pick(lambda v: (v.dtype, v.shape) == (x.dtype, x.shape)) or x
    facts = like(
        x, low=min(x.low, other.low), high=max(x.high, other.high), error=max(x.error, other.error)
    )
    if by_axis:
        g.emit("ScatterElements", [other, indices, update], facts, axis=axis)
    else:
        g.emit("ScatterND", [other, indices, update], facts)


def depth_to_space(g: Growing) -> None:
    """Blocks of two by two."""
    x = g.pick(lambda v: v.dtype == "float32" and v.rank == 4 and v.shape[1] == (4,) * len(g.sizes))
    if x is not None:
        n, _, h, w = x.shape
        shape = (n, *g.fixed(1), tuple(2 * s for s in h), tuple(2 * s for s in w))
        g.emit(
            "DepthToSpace", [x], like(x, shape=shape), blocksize=2, mode=g.choose(("DCR", "CRD"))
        )


def sequence(g: Growing) -> None:
    """Values put into a sequence and taken out again."""
    x = g.number(1, ("float32", "int64"))
    if x is None:
        return
    y = g.pick(lambda v: (v.dtype, v.shape) == (x.dtype, x.shape))
    made = g.sequence([x, x if y is None else y])
    if y is None or g.flag():
        g.emit("SequenceAt", [made, g.constant(g.below(2), "int64")], like(x, **_both(x, y)))
    else:
        total = tuple(2 * s for s in x.shape[0])
        g.emit(
            "ConcatFromSequence",
            [made],
            like(x, shape=(total, *x.shape[1:]), **_both(x, y)),
            axis=0,
        )


def _both(x: Value, y: Value | None) -> dict[str, float]:
    y = x if y is None else y
    return {"low": min(x.low, y.low), "high": max(x.high, y.high), "error": max(x.error, y.error)}


# -------------------------------------------------------------------- arithmetic of shapes


def vector(g: Growing, data: Sequence[Dim]) -> Value:
    """Facts about a vector of sizes."""
    numbers = [size for dim in data for size in dim] or [0]
    return Value(
        "", "int64", g.fixed(len(data)), min(*numbers, 0), max(*numbers, 0), 0.0, tuple(data)
    )


def shape_of(g: Growing, x: Value) -> Value | None:
    """The shape, all of it."""
    return g.emit("Shape", [x], vector(g, x.shape))


def part_of_shape(g: Growing) -> None:
    """Shape, of some axes in later versions."""
    x = g.pick(lambda v: v.rank > 0)
    if x is None:
        return
    if g.opset >= 15 and g.flag():
        start, end = g.choose(((0, 1), (-1, x.rank), (1, x.rank)))
        g.emit("Shape", [x], vector(g, x.shape[start:end]), start=start, end=end)
    elif g.flag(4):
        total = count(x.shape, len(g.sizes))
        g.emit("Size", [x], vector(g, (total,))._replace(shape=()))
    else:
        shape_of(g, x)


def shape_arithmetic(g: Growing) -> None:
    """Sizes added and multiplied."""
    a = g.pick(lambda v: v.data is not None)
    if a is None or a.data is None:
        part_of_shape(g)
        return
    b = g.pick(lambda v: v.data is not None and v.shape == a.shape)
    other = b if b is not None and g.flag() else g.constant(g.choose((2, 1, 0)), "int64")
    if other.data is None:
        return
    right = other.data * (len(a.data) if not other.rank else 1)
    op_type = g.choose(("Mul", "Add", "Sub"))
    apply = {"Mul": np.multiply, "Add": np.add, "Sub": np.subtract}[op_type]
    data = tuple(tuple(int(n) for n in apply(x, y)) for x, y in zip(a.data, right, strict=True))
    g.emit(op_type, [a, other], vector(g, data)._replace(shape=a.shape))


def computed_reshape(g: Growing) -> None:
    """To a shape computed from Shape, as exporters write it."""
    x = g.number(2, ("float32", "float64", "int64"))
    if x is None:
        return
    whole = shape_of(g, x)
    if whole is None:
        return
    pieces: list[Value] = []
    for axis, dim in enumerate(x.shape):
        if g.is_fixed(dim) and g.flag():
            pieces.append(g.ints(dim[0]))
            continue
        index = g.constant(axis, "int64")
        one = g.emit("Gather", [whole, index], vector(g, (dim,))._replace(shape=()), axis=0)
        piece = (
            g.emit("Unsqueeze", [one, g.ints(0)], vector(g, (dim,))) if one is not None else None
        )
        if piece is None:
            return
        pieces.append(piece)
    if g.flag():
        merged = tuple(a * b for a, b in zip(*x.shape[-2:], strict=True))
        last = (
            g.ints(-1)
            if all(map(all, x.shape)) and g.flag()
            else g.emit("Mul", pieces[-2:], vector(g, (merged,)))
        )
        pieces[-2:] = [last] if last is not None else []
        shape = (*x.shape[:-2], merged)
    else:
        place = g.below(x.rank + 1)
        pieces.insert(place, g.ints(1))
        shape = (*x.shape[:place], *g.fixed(1), *x.shape[place:])
    target = g.emit("Concat", pieces, vector(g, shape), axis=0)
    if target is not None:
        g.emit("Reshape", [x, target], like(x, shape=shape))


def reshape_to_known(g: Growing) -> None:
    """To any computed vector of the right product."""
    wanted = g.pick(lambda v: v.data is not None and v.rank == 1)
    if wanted is None or wanted.data is None:
        return
    shape, runs = wanted.data, range(len(g.sizes))
    if any(s <= 0 for d in shape for s in d) or not shape:
        return
    x = g.pick(
        lambda v: (
            v.dtype != "string" and all(_product(v.shape, r) == _product(shape, r) for r in runs)
        )
    )
    if x is not None:
        g.emit("Reshape", [x, wanted], like(x, shape=shape))
    elif g.flag():
        fill = g.emit("ConstantOfShape", [wanted], Value("", "float32", shape, 0, 0))
        if fill is not None:
            g.emit("Identity", [fill], fill)


def ranges(g: Growing) -> None:
    """Numbers from 0 to a size."""
    x = g.pick(lambda v: v.rank > 0)
    whole = shape_of(g, x) if x is not None else None
    if x is None or whole is None:
        return
    dim = x.shape[-1]
    size = g.emit(
        "Gather", [whole, g.constant(-1, "int64")], vector(g, (dim,))._replace(shape=()), axis=0
    )
    if size is not None:
        zero, one = g.constant(0, "int64"), g.constant(1, "int64")
        g.emit("Range", [zero, size, one], Value("", "int64", (dim,), 0, max(*dim, 1)))


MOVES = (
    *(
        transpose,
        reshape,
        unsqueeze,
        squeeze,
        slice_,
        concat,
        split,
        gather,
        flatten,
        gather_elements,
        expand,
        tile,
        pad,
    ),
    *(
        triangle,
        scatter,
        depth_to_space,
        sequence,
        part_of_shape,
        shape_arithmetic,
        computed_reshape,
        reshape_to_known,
        ranges,
    ),
)
