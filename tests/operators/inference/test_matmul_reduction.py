from typing import Any

import numpy as np
import pytest
from onnx import TensorProto

from tests.operators.inference.context import infer
from tests.operators.inference.oracle import I64, F, Fed, check, ints, scalar, tensor, vector
from xoptim.facts.dims import dim_max, dim_min, named, opaque
from xoptim.facts.shapes import Info, Shape

n, m, k = named("n"), named("m"), named("k")
REDUCTIONS = (
    "ReduceL1",
    "ReduceL2",
    "ReduceLogSum",
    "ReduceLogSumExp",
    "ReduceMax",
    "ReduceMean",
    "ReduceMin",
    "ReduceProd",
    "ReduceSum",
    "ReduceSumSquare",
)


@pytest.mark.parametrize(
    ("a", "b", "expected"),
    [
        (("n", 3), (3, "m"), (n, m)),
        (("n", "m", 3), (3, 5), (n, m, 5)),
        (("n", 1, "m", 3), (4, 3, 5), (n, 4, m, 5)),
        ((3,), (3,), ()),
        ((3,), ("n", 3, 2), (n, 2)),
        (("n", 2, 3), (3,), (n, 2)),
        ((3,), (3, "n"), (n,)),
        (("n", 0), (0, 2), (n, 2)),
        ((1, "n", "m"), (5, "m", 1), (5, n, 1)),
    ],
)
def test_matmul(a: tuple[Any, ...], b: tuple[Any, ...], expected: Shape) -> None:
    for opset in (7, 9, 13):
        assert check("MatMul", [tensor(*a), tensor(*b)], opset=opset) == [Info(F, expected)]
    eight = TensorProto.UINT8
    (result,) = check(
        "MatMulInteger",
        [tensor(*a, dtype=eight), tensor(*b, dtype=eight)],
        run=len(a) > 1 and len(b) > 1,
    )
    assert result == Info(TensorProto.INT32, expected)


def test_matmul_of_odd_operands() -> None:
    assert infer("MatMul", [tensor("n", 3), Info(F)]) == [Info(F)]
    assert infer("MatMul", [Info(), Info()]) == [Info()]
    assert infer("MatMul", [tensor(), tensor("n", 3)])[0].shape is None
    scale, zero = np.array(1, np.float32), np.array(1, np.uint8)
    eight = TensorProto.UINT8
    a, b = tensor("n", 3, dtype=eight), tensor(3, "m", dtype=eight)
    assert check("QLinearMatMul", [a, scale, zero, b, scale, zero, scale, zero]) == [
        Info(eight, (n, m))
    ]


@pytest.mark.parametrize("opset", [7, 9, 11, 13])
def test_gemm(opset: int) -> None:
    bias = tensor("m")
    assert check("Gemm", [tensor("n", 3), tensor(3, "m"), bias], opset=opset) == [Info(F, (n, m))]
    both = {"transA": 1, "transB": 1}
    assert check("Gemm", [tensor(3, "n"), tensor("m", 3), bias], both, opset=opset) == [
        Info(F, (n, m))
    ]
    assert check("Gemm", [tensor("n", 3), tensor("m", 3), bias], {"transB": 1}, opset=opset) == [
        Info(F, (n, m))
    ]


def test_gemm_without_full_knowledge() -> None:
    (result,) = infer("Gemm", [Info(F), tensor("m", 3)], {"transB": 1})
    assert result.rank == 2
    assert result.shape is not None
    assert result.shape[1] is m
    assert infer("Gemm", [tensor(2, 3, 4), tensor(4, 5)])[0].shape is None


def _by_input(op_type: str, opset: int) -> bool:
    return opset >= (13 if op_type == "ReduceSum" else 18)


@pytest.mark.parametrize("op_type", REDUCTIONS)
@pytest.mark.parametrize("opset", [7, 11, 12, 13, 18, 20])
def test_reduction(op_type: str, opset: int) -> None:
    x = tensor("n", 3, "m")
    for keep in (None, 0, 1):
        attributes: dict[str, Any] = {} if keep is None else {"keepdims": keep}
        for axes in (None, [1], [0, 2], [-1], [-2, 0], [0, 1, 2]):
            if axes is None:
                check(op_type, [x], attributes, opset=opset)
            elif _by_input(op_type, opset):
                check(op_type, [x, ints(*axes)], attributes, opset=opset)
            else:
                check(op_type, [x], {**attributes, "axes": axes}, opset=opset)
    check(op_type, [tensor()], {"keepdims": 0}, opset=opset)


@pytest.mark.parametrize("op_type", ["ReduceSum", "ReduceMean", "ReduceMax"])
def test_reduction_without_axes_or_with_unknown_ones(op_type: str) -> None:
    x = tensor("n", 3, "m")
    empty, one = ints(), Fed(ints(1))
    assert check(op_type, [x, empty], {"noop_with_empty_axes": 1}, opset=18) == [x]
    assert check(op_type, [x, empty], opset=18)[0].shape == (1, 1, 1)
    assert check(op_type, [x], {"noop_with_empty_axes": 1}, opset=18) == [x]
    assert check(op_type, [x, one], opset=18)[0].rank == 3
    assert check(op_type, [x, one], {"keepdims": 0}, opset=18)[0].rank == 2
    unknown = tensor("k", dtype=I64)
    assert infer(op_type, [x, unknown], {"keepdims": 0}, opset=18)[0].shape is None
    assert infer(op_type, [x, unknown], {"keepdims": 1}, opset=18)[0].rank == 3
    assert (
        infer(op_type, [x, unknown], {"keepdims": 1, "noop_with_empty_axes": 1}, opset=18)[0].rank
        == 3
    )
    assert infer(op_type, [Info(F)], {"keepdims": 0}, opset=18) == [Info(F, ())]
    assert infer(op_type, [Info(F)], opset=18) == [Info(F)]
    assert infer(op_type, [x, ints(7)], opset=18) == [Info(F)]
    assert infer(op_type, [x], {"axes": "odd"}, opset=11)[0].rank == 3
    assert infer(op_type, [x], {"axes": "odd", "keepdims": 0}, opset=11) == [Info(F)]


@pytest.mark.parametrize(
    ("op_type", "expected"),
    [
        ("ReduceProd", opaque("ReduceProd7", (n, m, 7), (-(2**63), 2**63 - 1))),
        ("ReduceSum", n + m + 7),
        ("ReduceMax", dim_max(n, m, 7)),
        ("ReduceMin", dim_min(n, m, 7)),
        ("ReduceMean", None),
    ],
)
def test_values_of_reductions(op_type: str, expected: Any) -> None:
    data = None if expected is None else (expected,)
    x = vector("n", "m", 7)
    axes = ints(0)
    run = op_type not in ("ReduceMean", "ReduceProd")
    assert check(op_type, [x], {"keepdims": 0}, opset=18, run=run) == [Info(I64, (), data)]
    assert check(op_type, [x, axes], opset=18, run=run) == [Info(I64, (1,), data)]
    if expected is not None:
        assert check(op_type, [scalar("n")], {"keepdims": 0}, opset=18) == [Info(I64, (), (n,))]
    assert (
        infer(op_type, [x, tensor("k", dtype=I64)], {"noop_with_empty_axes": 1}, opset=18)[0].data
        is None
    )


@pytest.mark.parametrize("op_type", ["ArgMax", "ArgMin"])
def test_positions_of_extremes(op_type: str) -> None:
    x = tensor("n", 3, "m")
    for opset in (7, 11, 12, 13):
        assert check(op_type, [x], opset=opset) == [Info(I64, (1, 3, m))]
        assert check(
            op_type, [x], {"axis": -1, "keepdims": 0}, opset=opset if opset > 7 else 11
        ) == [Info(I64, (n, 3))]
    assert infer(op_type, [Info(F)]) == [Info(I64)]


@pytest.mark.parametrize(
    ("equation", "shapes", "expected"),
    [
        ("ij,jk->ik", [("n", 3), (3, "m")], (n, m)),
        ("ij,jk", [("n", 3), (3, "m")], (n, m)),
        ("bij , bjk -> bik", [("k", "n", 3), ("k", 3, "m")], (k, n, m)),
        ("ii->i", [(3, 3)], (3,)),
        ("ij->", [("n", "m")], ()),
        ("ij->ji", [("n", "m")], (m, n)),
        ("ba", [("n", "m")], (m, n)),
        ("...ij,...jk->...ik", [(2, 1, "n", 3), (1, 4, 3, "m")], (2, 4, n, m)),
        ("i...->...", [("n", 2, "m")], (2, m)),
        ("bhqd,bhkd->bhqk", [(2, 4, "n", 8), (2, 4, "m", 8)], (2, 4, n, m)),
        ("i,j->ij", [("n",), ("m",)], (n, m)),
    ],
)
def test_einsum(equation: str, shapes: list[tuple[Any, ...]], expected: Shape) -> None:
    (result,) = check("Einsum", [tensor(*s) for s in shapes], {"equation": equation}, opset=12)
    assert result == Info(F, expected)


def test_einsum_without_full_knowledge() -> None:
    (result,) = infer("Einsum", [Info(F), tensor("m", 3)], {"equation": "ij,jk->ik"})
    assert result.rank == 2
    assert result.shape is not None
    assert result.shape[1] == 3
    assert (
        infer("Einsum", [Info(F), tensor("m", 3)], {"equation": "...j,jk->...k"})[0].shape is None
    )
    assert infer("Einsum", [tensor("m", 3)], {"equation": "ijk->i"})[0].shape is None
    assert infer("Einsum", [tensor("m", 3)], {"equation": "i1->i"})[0].shape is None
    assert infer("Einsum", [tensor("m", 3)], {"equation": "ij,j->i"})[0].shape is None
