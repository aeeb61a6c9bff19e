from typing import Any

import numpy as np
import pytest
from onnx import TensorProto

from tests.operators.inference.context import infer
from tests.operators.inference.oracle import (
    I32,
    I64,
    B,
    F,
    Given,
    check,
    ints,
    scalar,
    tensor,
    vector,
)
from xoptim.facts.dims import as_integer, broadcast, dim_max, dim_min, fresh, named, opaque
from xoptim.facts.shapes import Info

n, m = named("n"), named("m")

UNARY = {
    "Abs": 7, "Acos": 7, "Acosh": 9, "Asin": 7, "Asinh": 9, "Atan": 7, "Atanh": 9, "Ceil": 7,
    "Celu": 12, "Cos": 7, "Cosh": 9, "Elu": 7, "Erf": 9, "Exp": 7, "Floor": 7, "Gelu": 20,
    "HardSigmoid": 7, "HardSwish": 14, "Hardmax": 7, "Identity": 7, "LeakyRelu": 7, "Log": 7,
    "LogSoftmax": 7, "Mish": 18, "Neg": 7, "Reciprocal": 7, "Relu": 7, "Round": 11, "Selu": 7,
    "Shrink": 9, "Sigmoid": 7, "Sign": 9, "Sin": 7, "Sinh": 9, "Softmax": 7, "Softplus": 7,
    "Softsign": 7, "Sqrt": 7, "Swish": 24, "Tan": 7, "Tanh": 7, "ThresholdedRelu": 10, "Trilu": 14,
}  # fmt: skip
BINARY = {
    "Add": 7,
    "Sub": 7,
    "Mul": 7,
    "Div": 7,
    "Pow": 7,
    "Equal": 11,
    "Greater": 9,
    "Less": 9,
    "LessOrEqual": 12,
}


@pytest.mark.parametrize("op_type", UNARY)
def test_unary(op_type: str) -> None:
    for opset in (UNARY[op_type], 21 if UNARY[op_type] <= 21 else 24):
        info = tensor("n", 3, "m")
        (result,) = check(
            op_type, [info], opset=opset, run=op_type not in ("Swish", "Mish", "Shrink")
        )
        assert result is info
    check(
        op_type,
        [tensor(0, 2) if op_type not in ("Hardmax", "Softmax", "LogSoftmax") else tensor(1, 2)],
        opset=opset,
    )
    assert infer(op_type, [Info(F)]) == [Info(F)]


@pytest.mark.parametrize("op_type", ["IsNaN", "IsInf"])
def test_predicates(op_type: str) -> None:
    for opset in (10, 20):
        assert check(op_type, [tensor("n", 1)], opset=opset) == [Info(B, (n, 1))]
    assert check("Not", [tensor("n", 1, dtype=B)]) == [Info(B, (n, 1))]


@pytest.mark.parametrize(("opset", "mask"), [(7, F), (10, B), (12, B), (13, B), (21, B)])
def test_dropout(opset: int, mask: int) -> None:
    assert check("Dropout", [tensor("n", 3)], opset=opset, outputs=2) == [
        Info(F, (n, 3)),
        Info(mask, (n, 3)),
    ]
    assert infer("Dropout", [tensor(2)], opset=6, num_outputs=2)[1].dtype == F


@pytest.mark.parametrize("op_type", BINARY)
@pytest.mark.parametrize(
    ("a", "b"),
    [
        ((2, 3), (2, 3)),
        (("n", 3), ("n", 3)),
        (("n", 1, 4), (3, 1)),
        ((), ("n",)),
        ((1, 4), ("n", "m", 1)),
        (("n", 0), (1,)),
        (("n", 4), (1, 4)),
        ((5, "n", 1), ("n", 2)),
    ],
)
def test_binary(op_type: str, a: tuple[Any, ...], b: tuple[Any, ...]) -> None:
    for opset in (BINARY[op_type], 16):
        check(op_type, [tensor(*a), tensor(*b)], opset=opset)


def test_binary_keeps_objects_and_knows_what_it_does_not_know() -> None:
    a, b = tensor("n", 3), tensor(1, 3)
    assert infer("Add", [a, b])[0] is a
    assert infer("Add", [b, a])[0] is a
    assert infer("Mul", [a, a])[0] is a
    assert infer("Add", [a, Info(F)]) == [Info(F)]
    assert infer("Add", [Info(), a]) == [Info(F)]
    assert infer("Equal", [Info(), Info()]) == [Info(B)]
    assert infer("Add", [tensor("n"), tensor("m")])[0].shape == (broadcast(n, m),)
    (odd,) = infer("Add", [tensor(3, "n"), tensor(4, "n")])
    assert odd.rank == 2
    assert odd.shape is not None
    assert odd.shape[1] is n
    assert infer("Add", [Info(F, (2, 3)), Info(F, (3,))], {"axis": 1, "broadcast": 1}, opset=6)[
        0
    ].shape == (2, 3)
    assert infer("Add", [tensor("n", 3)])[0] == Info()


@pytest.mark.parametrize(
    ("op_type", "dtype", "opset"),
    [
        ("And", B, 7),
        ("Or", B, 7),
        ("Xor", B, 7),
        ("BitwiseAnd", I32, 18),
        ("BitwiseOr", I64, 18),
        ("BitwiseXor", I32, 18),
    ],
)
def test_logic(op_type: str, dtype: int, opset: int) -> None:
    check(op_type, [tensor("n", 3, dtype=dtype), tensor(3, dtype=dtype)], opset=opset)


def test_other_binary_operators() -> None:
    unsigned = TensorProto.UINT8
    check(
        "BitShift",
        [tensor("n", 3, dtype=unsigned), tensor(1, dtype=unsigned)],
        {"direction": "LEFT"},
    )
    check("BitwiseNot", [tensor("n", 3, dtype=I32)])
    check("Mod", [tensor("n", 3, dtype=I32), tensor(3, dtype=I32)])
    check("Mod", [tensor("n", 3), tensor(1, 1)], {"fmod": 1})
    check("PRelu", [tensor("n", 3, 2), tensor(3, 1)])
    check("PRelu", [tensor("n", 3, 2), tensor(3, 1)], opset=7)
    assert infer("PRelu", [tensor("n", 3, 2), tensor(3)], opset=6) == [tensor("n", 3, 2)]
    assert infer("PRelu", [tensor("n", "c", 2), tensor(3)], opset=6) == [tensor("n", 3, 2)]
    assert infer("PRelu", [tensor("n", "c", 2), tensor(1)], opset=6) == [tensor("n", "c", 2)]
    (stretched,) = check("PRelu", [tensor(1, 2), tensor(3, 2)], strict=False)
    assert stretched.shape == (3, 2), "onnxruntime broadcasts both ways"
    check("Pow", [tensor("n", 3), tensor(1, dtype=I64)], opset=12)
    check("SwiGLU", [tensor("n", 3), tensor("n", 3)], opset=28, run=False)
    assert infer("Pow", [Info(0, (2,)), tensor(1, dtype=I64)])[0].dtype == 0


@pytest.mark.parametrize("op_type", ["Max", "Min", "Sum", "Mean"])
def test_variadic(op_type: str) -> None:
    for opset in (8, 13):
        check(op_type, [tensor("n", 1)], opset=opset)
        check(op_type, [tensor("n", 1), tensor(1, 3), tensor("n", 3)], opset=opset)
        check(op_type, [tensor("n", 1), tensor(), tensor("m", 1, 2)], opset=opset)
    assert infer(op_type, [Info(F), tensor("n", 2)], opset=6) == [Info(F, (n, 2))]
    assert infer(op_type, [Info(F), tensor("n", 2)], opset=8) == [Info(F)]


def test_clip() -> None:
    low, high = np.array(0, np.float32), np.array(1, np.float32)
    check("Clip", [tensor("n", 3)], {"min": 0.0, "max": 1.0}, opset=7)
    check("Clip", [tensor("n", 3), low, high], opset=11)
    check("Clip", [tensor("n", 3), None, high], opset=13)
    (result,) = check("Clip", [vector("n", 7), np.array(5), None], opset=13)
    assert result.data == (dim_max(n, 5), 7)
    (result,) = check("Clip", [vector("n", 7), None, np.array(5)], opset=13)
    assert result.data == (dim_min(n, 5), 5)
    assert infer("Clip", [vector("n", 7), scalar("m"), tensor(dtype=I64)])[0].data is None


def test_where() -> None:
    condition = tensor("n", 1, dtype=B)
    check("Where", [condition, tensor("n", 3), tensor(3)])
    check("Where", [condition, tensor(), tensor("m", 1, 3)], opset=9)
    (result,) = check("Where", [np.array([True, False]), vector("n", "m"), vector(1, 7)])
    assert result.data == (n, 7)
    (result,) = check("Where", [tensor(2, dtype=B), vector("n", "m"), vector("n", "m")])
    assert result.data == (n, m)
    (result,) = check("Where", [tensor(2, dtype=B), vector("n", "m"), vector("n", "n")])
    assert result.data is None
    (result,) = check("Where", [np.array([True, True]), scalar("n"), tensor(2, dtype=I64)])
    assert result.data == (n, n)
    assert infer("Where", [condition, Info(F), tensor(3)]) == [Info(F)]


@pytest.mark.parametrize("opset", [6, 9, 13, 19, 21, 23])
def test_cast(opset: int) -> None:
    check("Cast", [tensor("n", 3)], {"to": I64}, opset=opset, run=opset >= 9)
    check("Cast", [tensor("n", 3)], {"to": F}, opset=opset, run=opset >= 9)
    (result,) = check("Cast", [vector("n", 3)], {"to": I32}, opset=opset, run=opset >= 9)
    assert result.data == (as_integer(n, 32), 3)


def test_cast_of_values() -> None:
    (result,) = check("Cast", [vector(0, 3, -1)], {"to": B})
    assert result.data == (0, 1, 1)
    assert infer("Cast", [vector("n")], {"to": B})[0].data is None
    assert infer("Cast", [vector(n + 1)], {"to": B})[0].data == (1,)
    assert infer("Cast", [vector(1 << 40)], {"to": I32})[0].data is None
    assert infer("Cast", [vector("n")], {"to": F})[0].data is None
    assert infer("Cast", [vector(1 << 24)], {"to": F})[0].data == (1 << 24,)
    assert infer("Cast", [vector((1 << 24) + 1)], {"to": F})[0].data is None
    assert infer("Cast", [vector(3)], {"to": TensorProto.STRING})[0] == Info(
        TensorProto.STRING, (1,)
    )
    assert infer("Cast", [tensor("n")], {"to": "INT64"}, opset=1)[0].dtype == I64
    check("CastLike", [tensor("n", 3), tensor(dtype=I32)], run=False)
    assert infer("CastLike", [tensor("n"), Info()])[0] == Info(0, (n,))
    check("BitCast", [tensor("n", 3)], {"to": I32}, opset=26)


@pytest.mark.parametrize(
    ("op_type", "a", "b", "expected"),
    [
        ("Add", vector("n", 2), vector(1, "m"), (n + 1, m + 2)),
        ("Add", vector("n", 2), scalar(1), (n + 1, 3)),
        ("Sub", scalar("n"), scalar("m"), (n - m,)),
        ("Mul", vector("n"), ints(2, 3), (2 * n, 3 * n)),
        ("Mul", vector(1 << 62), ints(2), None),
        ("Div", vector("n", -7, 7, "n"), ints(2, 2, -2, 1), (n // 2, -3, -3, n)),
        ("Div", vector(n - m), ints(2), (opaque("/", (n - m, 2)),)),
        ("Div", vector(n * m, 6 * n), vector("m", -3), (n, -2 * n)),
        ("Div", vector(7), vector(0), None),
        ("Div", vector("n"), vector("m"), (n // m,)),
        ("Mod", vector("n", -7), ints(4, 4), (n % 4, 1)),
        ("Max", vector("n", 3), ints(1, 7), (dim_max(n, 1), 7)),
        ("Min", vector("n", 3), ints(1, 7), (dim_min(n, 1), 3)),
        ("Equal", vector("n", "n", 3, 3), vector("n", -1, 3, 4), (1, 0, 1, 0)),
        ("Equal", vector("n"), vector("m"), None),
        ("Greater", vector(n + 1, "n"), vector("n", n), (1, 0)),
        ("GreaterOrEqual", vector("n", 0), vector(0, 1), (1, 0)),
        ("Less", vector("n", 0), vector(0, 1), (0, 1)),
        ("LessOrEqual", vector("n", 2), vector("n", 1), (1, 0)),
        ("Less", vector("n"), vector(5), None),
        ("Sub", vector("n"), tensor(1, dtype=I64), None),
        ("Pow", vector(2), vector(3), None),
    ],
)
def test_values(op_type: str, a: Given, b: Given, expected: tuple[Any, ...] | None) -> None:
    run = not (op_type == "Div" and expected is None)
    (result,) = check(
        op_type, [a, b], opset=16, run=run, assignments=({"n": 5, "m": 3}, {"n": 9, "m": 2})
    )
    assert result.data == expected


def test_values_of_single_operands() -> None:
    odd = fresh(nonnegative=False)
    for op_type, given, expected in (
        ("Neg", vector("n", 3), (-n, -3)),
        ("Abs", vector("n", -3, -n), (n, 3, n)),
        ("Relu", vector(n - 3, -2), (dim_max(n - 3, 0), 0)),
        ("Sign", vector(n + 1, -4, 0), (1, -1, 0)),
    ):
        (result,) = check(op_type, [given], opset=14, run=op_type != "Relu")
        assert result.data == expected
    assert infer("Abs", [vector(odd)])[0].data is None
    assert infer("Sign", [vector("n")])[0].data is None
    assert infer("Identity", [vector("n")])[0].data == (n,)
    assert infer("Exp", [Info(F, (1,), (2,))])[0] == Info(F, (1,))
    check("Not", [np.array([True, False])])
    assert infer("Not", [Info(B, (2,), (1, 0))])[0].data == (0, 1)
    assert infer("And", [Info(B, (2,), (1, 0)), np.array([True])])[0].data == (1, 0)
    assert infer("Or", [Info(B, (2,), (1, 0)), np.array([False])])[0].data == (1, 0)
    assert infer("Xor", [Info(B, (2,), (1, 0)), np.array([True])])[0].data == (0, 1)

    assert infer("Sum", [vector("n", 3), vector("n", 7), scalar(1)])[0].data is None
    assert infer("Mean", [vector("n", 3), vector("n", 7)])[0].data is None


def test_floating_point_values_are_followed_only_while_they_are_exact_integers() -> None:
    six = Info(F, (1,), (6,))
    for op_type, number, expected in (
        ("Mul", 2.0, (12,)), ("Mul", 0.5, None), ("Div", 2.0, (3,)), ("Div", 4.0, None),
        ("Add", 1.5, None), ("Sub", 1.0, (5,)), ("Mul", 1e9, None), ("Mul", -0.0, None),
        ("Mul", np.inf, None),
    ):  # fmt: skip
        (result,) = infer(op_type, [six, np.array([number], np.float32)])
        assert result.data == expected, (op_type, number)
    zero = Info(F, (1,), (0,))
    assert infer("Neg", [zero])[0].data is None
    assert infer("Mul", [zero, np.array([-1], np.float32)])[0].data is None
    assert infer("Div", [zero, np.array([-1], np.float32)])[0].data is None
    assert infer("Floor", [six])[0].data == (6,)
    assert infer("Cast", [six], {"to": I64})[0].data == (6,)
    assert infer("Mod", [six, np.array([4], np.float32)], {"fmod": 1})[0].data is None
