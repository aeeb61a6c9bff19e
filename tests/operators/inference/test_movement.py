"""Operators that rearrange, cut and join axes."""

from typing import Any

import numpy as np
import pytest

from tests.operators.inference.context import infer
from tests.operators.inference.oracle import I64, F, Fed, Given, check, ints, scalar, tensor, vector
from xoptim.facts.dims import Dim, SymbolicDim, dim_max, dim_min, floor_div, fresh, mod, named
from xoptim.facts.shapes import Info, Shape

n, m, k = named("n"), named("m"), named("k")


def _shape(info: Info) -> Shape:
    assert info.shape is not None
    return info.shape


def _anonymous(*dims: Dim) -> bool:
    return all(isinstance(dim, SymbolicDim) and dim.is_anonymous for dim in dims)


def test_transpose() -> None:
    for opset in (7, 13, 21):
        assert check("Transpose", [tensor("n", 3, "m")], {"perm": [2, 0, 1]}, opset=opset) == [
            Info(F, (m, n, 3))
        ]
        assert check("Transpose", [tensor("n", 3, "m")], opset=opset) == [Info(F, (m, 3, n))]
    assert check("Transpose", [vector("n", 2)]) == [vector("n", 2)]
    assert infer("Transpose", [Info(F)], {"perm": [1, 0]})[0].rank == 2
    assert infer("Transpose", [Info(F)]) == [Info(F)]
    assert infer("Transpose", [tensor("n", 3)], {"perm": [0, 0]}) == [Info(F)]
    assert infer("Transpose", [tensor("n", 3)], {"perm": [0, 1, 2]}) == [Info(F)]


@pytest.mark.parametrize(
    ("source", "target", "expected"),
    [
        (("n", 12), ints(0, 3, 4), (n, 3, 4)),
        (("n", 12), ints(-1), (12 * n,)),
        (("n", 12), ints(-1, 6), (2 * n, 6)),
        (("n", "m", 12), ints(0, 0, 3, 4), (n, m, 3, 4)),
        (("n", "m", 3, 4), ints(0, 0, -1), (n, m, 12)),
        (("n", "m", 12), vector("n", "m", 3, 4), (n, m, 3, 4)),
        (("n", "m", 12), vector("n", -1, 3, 4), (n, m, 3, 4)),
        (("n", "m", 12), vector(-1, 4), (3 * n * m, 4)),
        (("n", "m"), ints(-1, 1), (n * m, 1)),
        (("n", 4), vector(2 * n, -1), (2 * n, 2)),
        (("n", 8), vector(n - m, 8), (n, 8)),
        ((2, 6), ints(3, -1), (3, 4)),
        ((1,), ints(), ()),
        ((0, 4), ints(4, -1), (4, 0)),
        (("n", 4), ints(-1, 8), ((n) // 2, 8)),
    ],
)
def test_reshape(source: tuple[Any, ...], target: Given, expected: Shape) -> None:
    run = not (isinstance(target, Info) and target.data == (n - m, 8))
    for opset in (7, 14, 21):
        (result,) = check("Reshape", [tensor(*source), target], opset=opset, run=run)
        assert result == Info(F, expected)


def test_reshape_with_zeros() -> None:
    assert check("Reshape", [tensor(0, "n"), ints(3, 0)], {"allowzero": 1}, opset=14) == [
        Info(F, (3, 0))
    ]
    assert check("Reshape", [tensor(0, 3), ints(0, 3)], {"allowzero": 0}, opset=14) == [
        Info(F, (0, 3))
    ]
    assert (
        check("Reshape", [tensor(0, "n"), ints(0, -1)], opset=14, run=False, strict=False)[0].rank
        == 2
    )
    padded = n + mod(-n, 8)
    assert infer("Reshape", [Info(F, (padded // 8, 8, 3)), ints(-1, 3)]) == [Info(F, (padded, 3))]
    assert infer("Reshape", [tensor("n", 4)], {"shape": [-1, 2]}, opset=1) == [Info(F, (2 * n, 2))]


def test_reshape_without_full_knowledge() -> None:
    x = tensor("n", "m", 4)
    (result,) = check("Reshape", [x, Fed(ints(-1, 4))])
    assert result.rank == 2
    assert check("Reshape", [x, Fed(ints(-1))]) == [Info(F, (4 * n * m,))]
    assert infer("Reshape", [x, tensor("k", dtype=I64)]) == [Info(F)]
    (result,) = infer("Reshape", [Info(F), ints(0, -1, 4)])
    assert _shape(result)[2] == 4
    assert _anonymous(*_shape(result)[:2])
    odd = fresh(nonnegative=False)
    assert infer("Reshape", [x, Info(I64, (3,), (n, odd, 4))]) == [Info(F, (n, m, 4))]
    (result,) = infer("Reshape", [tensor("n", 6), vector("k", -1)])
    assert _shape(result) == (k, floor_div(6 * n, k))
    (result,) = infer("Reshape", [tensor(7, 2), ints(3, -1)])
    assert _shape(result)[0] == 3
    assert _anonymous(_shape(result)[1])


def test_reshape_keeps_values() -> None:
    assert check("Reshape", [vector("n"), ints()]) == [scalar("n")]
    assert check("Reshape", [scalar("n"), ints(1)]) == [vector("n")]
    assert check("Reshape", [vector("n", 3), ints(-1)]) == [vector("n", 3)]
    assert check("Reshape", [vector("n", 3), ints(1, 2)]) == [Info(I64, (1, 2))]


@pytest.mark.parametrize("axis", [None, 0, 1, 2, 3, -1, -3])
def test_flatten(axis: int | None) -> None:
    attributes = {} if axis is None else {"axis": axis}
    for opset in (9, 11, 13, 21):
        if opset >= 11 or axis is None or axis >= 0:
            check("Flatten", [tensor("n", 3, "m")], attributes, opset=opset)
    (result,) = infer("Flatten", [Info(F)])
    assert result.rank == 2


def test_squeeze() -> None:
    x = tensor("n", 1, 3, 1)
    for opset, by_input in ((7, False), (11, False), (13, True), (21, True)):
        for axes in ([1], [1, 3], [3]):
            inputs: list[Given] = [x, ints(*axes)] if by_input else [x]
            check("Squeeze", inputs, {} if by_input else {"axes": axes}, opset=opset)
        # A symbol may be 1 at run time.
        assert infer("Squeeze", [x], opset=opset) == [Info(F)]
        assert check("Squeeze", [tensor(2, 1, 3)], opset=opset) == [Info(F, (2, 3))]
        assert check("Squeeze", [tensor(n + 2, 1)], opset=opset, strict=False) == [
            Info(F, (n + 2,))
        ]
    assert check("Squeeze", [x, ints(-1, -3)]) == [Info(F, (n, 3))]
    assert check("Squeeze", [x, Fed(ints(1))])[0].rank == 3
    assert infer("Squeeze", [x, tensor("k", dtype=I64)]) == [Info(F)]
    assert infer("Squeeze", [x, ints(9)]) == [Info(F)]
    assert infer("Squeeze", [Info(F), ints(1)]) == [Info(F)]
    assert check("Squeeze", [vector("n"), ints(0)]) == [scalar("n")]


def test_unsqueeze() -> None:
    x = tensor("n", 3)
    for opset, by_input in ((7, False), (11, False), (13, True), (21, True)):
        for axes in ([0], [1, 3], [2], [0, 1]):
            inputs: list[Given] = [x, ints(*axes)] if by_input else [x]
            check("Unsqueeze", inputs, {} if by_input else {"axes": axes}, opset=opset)
    assert check("Unsqueeze", [x, ints(-1, 0)]) == [Info(F, (1, n, 3, 1))]
    assert check("Unsqueeze", [x, Fed(ints(1))])[0].rank == 3
    assert check("Unsqueeze", [scalar("n"), ints(0)]) == [vector("n")]
    assert check("Unsqueeze", [vector("n", 2), ints(0)]) == [Info(I64, (1, 2))]
    assert infer("Unsqueeze", [x, ints(1, 1)]) == [Info(F)]
    assert infer("Unsqueeze", [x, ints(7)]) == [Info(F)]
    assert infer("Unsqueeze", [Info(F), ints(0)]) == [Info(F)]
    assert infer("Unsqueeze", [x], {}, opset=11) == [Info(F)]


@pytest.mark.parametrize(
    ("source", "target", "expected"),
    [
        (("n", 1), ints(1, 5), (n, 5)),
        ((1,), vector("n", "m"), (n, m)),
        (("n", "m"), vector("n", "m"), (n, m)),
        ((3,), ints(2, 1), (2, 3)),
        ((2, 1, 3), ints(4, 1), (2, 4, 3)),
        ((), vector("n"), (n,)),
        ((0, 1), ints(1, 2), (0, 2)),
    ],
)
def test_expand(source: tuple[Any, ...], target: Given, expected: Shape) -> None:
    for opset in (8, 13):
        assert check("Expand", [tensor(*source), target], opset=opset) == [Info(F, expected)]


def test_expand_to_an_unknown_shape() -> None:
    (result,) = check("Expand", [tensor("n", 4, 1), Fed(ints(4, 2))], assignments=({"n": 3},))
    assert _shape(result)[:2] == (n, 4)
    (result,) = infer("Expand", [tensor("n"), tensor(3, dtype=I64)])
    assert result.rank == 3
    assert infer("Expand", [tensor("n"), tensor("k", dtype=I64)]) == [Info(F)]
    assert infer("Expand", [Info(F), ints(1, 2)]) == [Info(F)]
    assert check("Expand", [scalar("n"), ints(3)])[0].data == (n, n, n)
    assert check("Expand", [vector("n", 2), ints(1)])[0].data == (n, 2)
    assert check("Expand", [vector("n"), vector("m")])[0] == Info(I64, (m,))


def test_tile() -> None:
    for opset in (7, 13):
        assert check("Tile", [tensor("n", 3), ints(2, 1)], opset=opset) == [Info(F, (2 * n, 3))]
        assert check("Tile", [tensor("n", 3), vector("m", 2)], opset=opset) == [Info(F, (n * m, 6))]
        assert check("Tile", [tensor("n", 3), Fed(ints(2, 1))], opset=opset)[0].rank == 2
    assert check("Tile", [vector("n", 2), ints(2)])[0].data == (n, 2, n, 2)
    assert check("Tile", [vector("n", 2), vector("m")])[0] == Info(I64, (2 * m,))
    assert infer("Tile", [Info(F), tensor(3, dtype=I64)])[0].rank == 3
    assert infer("Tile", [tensor("n", 3), ints(1)]) == [Info(F)]
    assert infer("Tile", [tensor("n", 3), tensor(), tensor()], opset=1)[0].rank == 2


def test_concat() -> None:
    for opset in (7, 11, 13):
        assert check("Concat", [tensor("n", 3), tensor("m", 3)], {"axis": 0}, opset=opset) == [
            Info(F, (n + m, 3))
        ]
        assert check("Concat", [tensor("n", 3), tensor("n", "m")], {"axis": 1}, opset=opset) == [
            Info(F, (n, m + 3))
        ]
        assert check("Concat", [tensor("n", 3)], {"axis": 1}, opset=opset) == [tensor("n", 3)]
    assert check("Concat", [tensor("n", 3), tensor(0, 3)], {"axis": -2}) == [tensor("n", 3)]
    # Where a valid model makes dimensions equal, what says most is kept.
    assert check(
        "Concat", [tensor("n", "m"), tensor(2, 3)], {"axis": 0}, assignments=({"n": 1, "m": 3},)
    )[0].shape == (
        n + 2,
        3,
    )
    (result,) = infer("Concat", [Info(F), tensor("n", 3)], {"axis": 0})
    assert _shape(result)[1] == 3
    assert _anonymous(_shape(result)[0])
    assert infer("Concat", [Info(F, (fresh(), 3)), tensor("n", 3)], {"axis": 1})[0].shape == (n, 6)
    assert infer("Concat", [Info(F), Info(F)], {"axis": 0}) == [Info(F)]
    assert infer("Concat", [tensor("n"), tensor("n", 3)], {"axis": 0}) == [Info(F)]
    assert infer("Concat", [tensor("n", 2), tensor("n", 3)], opset=1)[0].shape == (n, 5)
    assert infer("Concat", [tensor("n", 2), tensor("n", 3)]) == [Info(F)]


def test_values_of_concat() -> None:
    assert check("Concat", [vector("n", 2), ints(-1), vector("m")], {"axis": 0})[0].data == (
        n,
        2,
        -1,
        m,
    )
    (result,) = check("Concat", [vector("n"), Fed(ints(5, 6))], {"axis": 0})
    assert result.data is not None
    assert result.data[0] is n
    assert _anonymous(*result.data[1:])
    assert infer("Concat", [tensor(1, dtype=I64), tensor(1, dtype=I64)], {"axis": 0}) == [
        Info(I64, (2,))
    ]
    assert infer("Concat", [vector(*range(40)), vector(*range(40))], {"axis": 0}) == [
        Info(I64, (80,))
    ]


def test_split() -> None:
    x = tensor("n", 6)
    for opset in (7, 11):
        assert check("Split", [x], {"axis": 1}, outputs=3, opset=opset) == [Info(F, (n, 2))] * 3
        parts = check("Split", [x], {"axis": 1, "split": [1, 5]}, outputs=2, opset=opset)
        assert parts == [Info(F, (n, 1)), Info(F, (n, 5))]
    for opset in (13, 18):
        parts = check("Split", [x, ints(1, 5)], {"axis": -1}, outputs=2, opset=opset)
        assert parts == [Info(F, (n, 1)), Info(F, (n, 5))]
        parts = check("Split", [x, Fed(ints(1, 5))], {"axis": -1}, outputs=2, opset=opset)
        assert [part.rank for part in parts] == [2, 2]
    assert check("Split", [x], {"axis": 1}, outputs=2, opset=13) == [Info(F, (n, 3))] * 2
    assert check("Split", [tensor(4 * n)], outputs=2, opset=13) == [Info(F, (2 * n,))] * 2
    assert (
        check("Split", [tensor("n")], outputs=2, opset=13, assignments=({"n": 6},))
        == [Info(F, (n // 2,))] * 2
    )


def test_split_into_a_number_of_parts() -> None:
    assert check("Split", [tensor(7)], {"num_outputs": 3}, outputs=3, opset=18) == [
        Info(F, (3,)),
        Info(F, (3,)),
        Info(F, (1,)),
    ]
    parts = check(
        "Split",
        [tensor("n")],
        {"num_outputs": 2},
        outputs=2,
        opset=18,
        assignments=({"n": 6}, {"n": 5}),
    )
    assert parts == [Info(F, ((n + 1) // 2,)), Info(F, (n - (n + 1) // 2,))]
    assert (
        check("Split", [tensor(2 * n)], {"num_outputs": 2}, outputs=2, opset=18)
        == [Info(F, (n,))] * 2
    )
    assert infer("Split", [tensor("n")], num_outputs=2, opset=18)[1].rank == 1
    assert infer("Split", [Info(F)], num_outputs=2, opset=18) == [Info(F)] * 2
    assert infer("Split", [tensor("n")], {"axis": 4}, num_outputs=2, opset=18)[0].rank == 1
    assert infer("Split", [tensor(7)], num_outputs=2, opset=11)[0].rank == 1


def test_values_of_split() -> None:
    parts = check("Split", [vector("n", 2, "m", 4), ints(1, 3)], outputs=2)
    assert [part.data for part in parts] == [(n,), (2, m, 4)]
    assert infer("Split", [vector("n", 2), vector("k", "m")], num_outputs=2)[0].data is None


FAR = 2**63 - 1
SLICES: list[tuple[Dim | str, Any, Any, int, Dim]] = [
    (10, 2, 5, 1, 3),
    (10, -3, FAR, 1, 3),
    (10, 0, -1, 2, 5),
    (10, 9, 0, -2, 5),
    (10, -1, -FAR, -1, 10),
    (10, 20, 30, 1, 0),
    (10, -20, 30, 3, 4),
    (3, -100, -200, -1, 1),
    (0, 0, 5, 1, 0),
    (0, -1, -FAR, -1, 0),
    ("n", 0, FAR, 1, n),
    ("n", 0, 2**31 - 1, 1, n),
    ("n", 1, FAR, 1, dim_max(n - 1, 0)),
    (n + 2, 1, FAR, 1, n + 1),
    (n + 2, 0, -1, 1, n + 1),
    (n + 2, 1, -1, 1, n),
    ("n", 0, 3, 1, dim_min(n, 3)),
    (n + 5, 0, 3, 1, 3),
    (n + 5, 2, 4, 1, 2),
    ("n", -3, FAR, 1, dim_min(n, 3)),
    (n + 5, -3, FAR, 1, 3),
    (n + 5, -3, -1, 1, 2),
    ("n", 0, FAR, 2, (n + 1) // 2),
    ("n", 1, FAR, 2, (dim_max(n - 1, 0) + 1) // 2),
    ("n", -1, -FAR, -1, n),
    ("n", FAR, -FAR, -1, n),
    ("n", -1, -FAR, -2, (n + 1) // 2),
    (n + 5, 3, 0, -1, 3),
    (n + 5, 3, -FAR, -1, 4),
    (n + 5, -2, 1, -1, n + 2),
    (n + m, 0, n, 1, n),
    (n + m, n, FAR, 1, m),
    (n + m, 0, -n - 1, 1, dim_max(m - 1, 0)),
    ("n", 0, "n", 1, n),
    (4 * n, 0, 2 * n, 1, 2 * n),
    (4 * n, 2 * n, FAR, 1, 2 * n),
    ("n", n - 1, FAR, 1, n - dim_max(n - 1, 0)),
    ("n", n - 1, n, 1, n - dim_max(n - 1, 0)),
    ("n", n - 2, FAR, 1, n - dim_max(n - 2, 0)),
    ("n", 0, n - 1, 1, dim_max(n - 1, 0)),
    ("n", -n, FAR, 1, n),
    ("n", -n - 3, 2, 1, dim_min(n, 2)),
]


@pytest.mark.parametrize(("size", "start", "end", "step", "expected"), SLICES)
def test_slice(size: Dim | str, start: Any, end: Any, step: int, expected: Dim) -> None:
    x = tensor(2, size)
    inputs: list[Given] = [x, vector(start), vector(end), ints(1), ints(step)]
    (result,) = check(
        "Slice",
        inputs,
        opset=13,
        assignments=({"n": 4, "m": 3}, {"n": 1, "m": 1}, {"n": 0, "m": 2}),
    )
    assert _shape(result) == (2, expected)
    if step == 1 and type(start) is int and type(end) is int:
        attributes = {"starts": [start], "ends": [end], "axes": [-1]}
        assert check("Slice", [x], attributes, opset=9) == [Info(F, (2, expected))]


def test_slice_of_several_axes() -> None:
    x = tensor("n", 6, 8)
    assert check("Slice", [x, ints(0, 1), ints(FAR, 5)], opset=11) == [Info(F, (n, 4, 8))]
    assert check("Slice", [x, ints(1, -4), ints(5, FAR), ints(1, -1)], opset=10) == [
        Info(F, (n, 4, 4))
    ]
    assert check(
        "Slice", [x, ints(1).astype(np.int32), ints(5).astype(np.int32), ints(1).astype(np.int32)]
    ) == [Info(F, (n, 4, 8))]
    assert check("Slice", [x], {"starts": [0, 1], "ends": [FAR, 5]}, opset=7) == [
        Info(F, (n, 4, 8))
    ]


def test_slice_without_full_knowledge() -> None:
    x = tensor("n", 6, 8)
    one = tensor(1, dtype=I64)
    (result,) = check("Slice", [x, Fed(ints(1)), Fed(ints(3)), ints(1)])
    assert (_shape(result)[0], _shape(result)[2]) == (n, 8)
    assert _anonymous(_shape(result)[1])
    (result,) = infer("Slice", [x, one, one])
    assert _shape(result)[1:] == (6, 8)
    (result,) = infer("Slice", [x, one, one, one])
    assert _anonymous(*_shape(result))
    assert len(_shape(result)) == 3
    assert infer("Slice", [Info(F), one, one]) == [Info(F)]
    assert _anonymous(*_shape(infer("Slice", [x, ints(0), ints(1), ints(5)])[0]))
    assert _anonymous(_shape(infer("Slice", [x, ints(0), ints(1), ints(0), ints(0)])[0])[0])
    odd = fresh(nonnegative=False)
    assert _anonymous(_shape(infer("Slice", [x, ints(0), Info(I64, (1,), (odd,)), ints(0)])[0])[0])


def test_values_of_slice() -> None:
    x = vector("n", 2, "m", 4)
    assert check("Slice", [x, ints(1), ints(3)])[0].data == (2, m)
    assert check("Slice", [x, ints(-1), ints(-FAR), ints(0), ints(-2)])[0].data == (4, 2)
    assert check("Slice", [x, ints(-1), ints(FAR)])[0].data == (4,)
    assert infer("Slice", [x, vector("k"), ints(3)])[0].data is None
    # The specification and onnxruntime disagree.
    assert infer("Slice", [x, ints(0), ints(FAR), ints(0), ints(-1)])[0].data is None


def test_gather() -> None:
    x = tensor("n", 3, "m")
    indices = ints(0, 1).reshape(2, 1)
    for opset in (7, 11, 13):
        assert check("Gather", [x, indices], {"axis": 1}, opset=opset) == [Info(F, (n, 2, 1, m))]
        assert check("Gather", [x, np.array(0)], opset=opset) == [Info(F, (3, m))]
    assert check("Gather", [x, Fed(ints(0, 0, 0))], {"axis": -1}) == [Info(F, (n, 3, 3))]
    assert check("Gather", [vector("n", 3, "m"), np.array(-1)])[0] == scalar("m")
    assert check("Gather", [vector("n", 3, "m"), ints(0, 2)])[0] == vector("n", "m")
    assert check("Gather", [vector("n", 3), Fed(ints(1))])[0] == Info(I64, (1,))
    assert infer("Gather", [vector("n", 3), ints(5)])[0] == Info(I64, (1,))
    assert infer("Gather", [Info(F), ints(5)]) == [Info(F)]
    assert infer("Gather", [x, Info(I64)]) == [Info(F)]
    assert infer("Gather", [x, ints(0)], {"axis": 3}) == [Info(F)]


def test_gather_elements_and_nd() -> None:
    x = tensor("n", 3, 4)
    assert check("GatherElements", [x, Fed(np.zeros((1, 2, 3), np.int64))], {"axis": 1}) == [
        Info(F, (1, 2, 3))
    ]
    zeros = Fed(np.zeros((2, 5, 2), np.int64))
    for opset in (11, 12, 13):
        assert check("GatherND", [x, zeros], opset=opset) == [Info(F, (2, 5, 4))]
    batched = Fed(np.zeros((1, 2, 1), np.int64))
    given = check("GatherND", [tensor(1, 3, 4), batched], {"batch_dims": 1}, opset=12)
    assert given == [Info(F, (1, 2, 4))]
    assert infer("GatherND", [x, tensor(2, "m", dtype=I64)]) == [Info(F)]
    assert infer("GatherND", [Info(F), tensor(2, 1, dtype=I64)]) == [Info(F)]


def test_scatter() -> None:
    x = tensor("n", 3)
    indices, updates = Fed(np.zeros((1, 2), np.int64)), Fed(np.ones((1, 2), np.float32))
    assert check("Scatter", [x, indices, updates], opset=9) == [x]
    for opset in (11, 13, 16, 18):
        assert check("ScatterElements", [x, indices, updates], {"axis": 1}, opset=opset) == [x]
        nd: list[Given] = [x, Fed(np.zeros((2, 2), np.int64)), Fed(np.ones(2, np.float32))]
        assert check("ScatterND", nd, opset=opset) == [x]


def test_a_scattered_vector_of_sizes() -> None:
    x = vector("n", 3, "k")
    for opset in (11, 13, 16, 18):
        assert infer("ScatterElements", [x, ints(1, -1), vector("m", 5)], opset=opset)[0] == vector(
            "n", "m", 5
        )
    unknown = Info(I64, (3,))
    assert infer("ScatterElements", [x, ints(1, -2), vector("m", 5)])[0] == unknown, (
        "one place is written twice"
    )
    assert infer("ScatterElements", [x, ints(3), vector("m")])[0] == unknown, "beyond the end"
    assert infer("ScatterElements", [x, vector("i"), vector("m")])[0] == unknown
    assert (
        infer("ScatterElements", [x, ints(1), vector("m")], {"reduction": "add"}, opset=18)[0]
        == unknown
    )
    assert infer("ScatterND", [x, tensor(1, 1, dtype=I64), vector("m")])[0] == unknown


def test_pad() -> None:
    x = tensor("n", 3)
    for opset in (7, 10):
        assert check("Pad", [x], {"pads": [1, 0, 2, 1]}, opset=opset) == [Info(F, (n + 3, 4))]
    for opset in (11, 13, 18, 19, 21):
        assert check("Pad", [x, ints(1, 0, 2, 1)], opset=opset) == [Info(F, (n + 3, 4))]
        assert check("Pad", [x, ints(0, -1, 0, -1)], opset=opset) == [Info(F, (n, 1))]
        assert check("Pad", [x, Fed(ints(1, 0, 2, 1))], opset=opset)[0].rank == 2
    assert check("Pad", [x, ints(1, 2), None, ints(-1)], opset=18) == [Info(F, (n, 6))]
    assert check("Pad", [x, vector("m", 2), None, ints(0)], opset=18) == [Info(F, (n + m + 2, 3))]
    assert check("Pad", [x, Fed(ints(1, 2)), None, ints(1)], opset=18)[0].rank == 2
    assert infer("Pad", [x], {"paddings": [1, 0, 2, 1]}, opset=1) == [Info(F, (n + 3, 4))]
    assert infer("Pad", [Info(F), tensor(6, dtype=I64)])[0].rank == 3
    assert infer("Pad", [Info(F), ints(1, 2), None, ints(1)]) == [Info(F)]
    assert infer("Pad", [x, ints(1)])[0].rank == 2
    assert infer("Pad", [x, ints(1, 2), None, ints(7)])[0].rank == 2


def test_depth_and_space() -> None:
    for opset in (7, 11, 13):
        x = tensor("n", 8, "m", 3)
        assert check("DepthToSpace", [x], {"blocksize": 2}, opset=opset) == [
            Info(F, (n, 2, 2 * m, 6))
        ]
        x = tensor("n", 2, 2 * m, 6)
        assert check("SpaceToDepth", [x], {"blocksize": 2}, opset=opset) == [Info(F, (n, 8, m, 3))]
    (result,) = infer("SpaceToDepth", [tensor(1, 1, 3, "n")], {"blocksize": 2})
    assert _anonymous(_shape(result)[2])
    assert _shape(result)[3] == n // 2
    assert infer("DepthToSpace", [Info(F)], {"blocksize": 2}) == [Info(F)]


def test_cumulative_and_reversed() -> None:
    x = tensor("n", 3)
    for opset in (11, 14):
        assert check("CumSum", [x, np.array(1)], opset=opset) == [x]
    assert check("CumProd", [x, np.array(1)], opset=26, run=False) == [x]
    assert check("ReverseSequence", [tensor(3, 2), Fed(ints(1, 2))], opset=10) == [tensor(3, 2)]
    assert check("Trilu", [x], {"upper": 0}, opset=14) == [x]
    assert infer("CumSum", [vector("n", 2), np.array(0)]) == [Info(I64, (2,))]
