"""Every numpy kernel against onnxruntime, bit by bit."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from xoptim.facts.attributes import AttributeReference
from xoptim.operators.evaluate.kernel_table import LARGEST_RESULT
from xoptim.operators.evaluate.regions import Computed, evaluate_with_onnxruntime
from xoptim.operators.registry import OPERATORS, operator_of

Array = np.ndarray[Any, Any]
Rng = np.random.Generator
INTS: tuple[Any, ...] = (np.int8, np.uint8, np.int16, np.int32, np.int64, np.uint32, np.uint64)
SIGNED: tuple[Any, ...] = (np.int8, np.int16, np.int32, np.int64)
FLOATS: tuple[Any, ...] = (np.float32, np.float64)
MOVED: tuple[Any, ...] = (np.float32, np.float16, np.int64, np.int32, np.uint8, np.bool_)
OPSETS = (7, 9, 11, 13, 14, 18, 21, 23)


@dataclass
class Case:
    """One node with the values of its inputs."""

    op_type: str
    inputs: list[Array | None]
    attributes: dict[str, Any] = field(default_factory=dict)
    opset: int = 18
    num_outputs: int = 1
    domain: str = ""

    def attribute(self, name: str, default: Any = None) -> Any:
        return self.attributes.get(name, default)

    def proto(self) -> onnx.NodeProto:
        inputs = ["" if value is None else f"i{k}" for k, value in enumerate(self.inputs)]
        outputs = [f"o{k}" for k in range(self.num_outputs)]
        return helper.make_node(self.op_type, inputs, outputs, **self.attributes)

    def computed(self) -> list[Array] | None:
        kernel = operator_of(self.domain, self.op_type).kernel
        assert kernel is not None
        return kernel(self, self.inputs)

    def expected(self) -> list[Array] | None:
        feeds = {f"i{k}": value for k, value in enumerate(self.inputs) if value is not None}
        node = self.proto()
        computed = {name: Computed(value) for name, value in feeds.items()}
        result = evaluate_with_onnxruntime([node], computed, node.output, {"": self.opset}, 8)
        return None if result.values is None else [result.values[name] for name in node.output]


def values(rng: Rng, dtype: Any, shape: tuple[int, ...], low: int = -9, high: int = 9) -> Array:
    kind = np.dtype(dtype).kind
    if kind == "b":
        return rng.random(shape) < 0.5
    if kind == "u":
        low = 0
    if kind in "iu":
        return rng.integers(low, high, shape, dtype=np.int64).astype(dtype)
    return (rng.standard_normal(shape) * 10.0 ** rng.integers(-3, 4, shape)).astype(dtype)


def dims(rng: Rng, rank: int | None = None, most: int = 4) -> tuple[int, ...]:
    size = int(rng.integers(0, 4)) if rank is None else rank
    return tuple(int(d) for d in rng.choice([0, 1, 1, 2, 3, most], size))


def pick(rng: Rng, options: Any) -> Any:
    return options[int(rng.integers(len(options)))]


def broadcast_pair(rng: Rng) -> tuple[tuple[int, ...], tuple[int, ...]]:
    full = dims(rng)
    cut = full[int(rng.integers(0, len(full) + 1)) :]
    other = tuple(1 if rng.random() < 0.3 else d for d in cut)
    return (full, other) if rng.random() < 0.5 else (other, full)


def i64(*items: int) -> Array:
    return np.array(items, dtype=np.int64)


def binary(
    op_type: str, dtypes: tuple[Any, ...], opsets: tuple[int, ...] = OPSETS
) -> Callable[[Rng], Case]:
    def make(rng: Rng) -> Case:
        dtype = pick(rng, dtypes)
        a, b = broadcast_pair(rng)
        return Case(
            op_type, [values(rng, dtype, a), values(rng, dtype, b)], opset=pick(rng, opsets)
        )

    return make


def unary(
    op_type: str, dtypes: tuple[Any, ...], opsets: tuple[int, ...] = OPSETS
) -> Callable[[Rng], Case]:
    def make(rng: Rng) -> Case:
        return Case(op_type, [values(rng, pick(rng, dtypes), dims(rng))], opset=pick(rng, opsets))

    return make


def case_shape(rng: Rng) -> Case:
    bounds = {k: int(rng.integers(-5, 5)) for k in ("start", "end") if rng.random() < 0.6}
    opset = pick(rng, (15, 19, 21) if bounds else OPSETS)
    return Case("Shape", [values(rng, np.float32, dims(rng))], bounds, opset)


def case_reshape(rng: Rng) -> Case:
    data = values(rng, pick(rng, MOVED), dims(rng))
    wanted = list(rng.permutation(data.shape)) if rng.random() < 0.5 else [data.size]
    if rng.random() < 0.4 and wanted:
        wanted[int(rng.integers(len(wanted)))] = -1
    if rng.random() < 0.3 and wanted:
        wanted[0] = 0
    opset = pick(rng, OPSETS)
    more = {"allowzero": 1} if opset >= 14 and rng.random() < 0.5 else {}
    return Case("Reshape", [data, i64(*wanted)], more, opset)


def case_squeeze(rng: Rng) -> Case:
    shape = tuple(d if rng.random() < 0.5 else 1 for d in dims(rng, 3))
    data = values(rng, pick(rng, MOVED), shape)
    axes = [
        axis - 3 * int(rng.random() < 0.5)
        for axis, d in enumerate(shape)
        if d == 1 and rng.random() < 0.7
    ]
    opset = pick(rng, (11, 13, 21, 23))
    if not axes:
        return Case("Squeeze", [data], {}, opset)
    if opset >= 13:
        return Case("Squeeze", [data, i64(*axes)], {}, opset)
    return Case("Squeeze", [data], {"axes": axes}, opset)


def case_unsqueeze(rng: Rng) -> Case:
    data = values(rng, pick(rng, MOVED), dims(rng))
    count = int(rng.integers(1, 3))
    rank = data.ndim + count
    axes = [int(a) - rank * int(rng.random() < 0.5) for a in rng.choice(rank, count, replace=False)]
    opset = pick(rng, (11, 13, 21, 23))
    if opset >= 13:
        return Case("Unsqueeze", [data, i64(*axes)], {}, opset)
    return Case("Unsqueeze", [data], {"axes": axes}, opset)


def case_transpose(rng: Rng) -> Case:
    data = values(rng, pick(rng, MOVED), dims(rng))
    more = (
        {"perm": [int(a) for a in rng.permutation(data.ndim)]}
        if rng.random() < 0.8 and data.ndim
        else {}
    )
    return Case("Transpose", [data], more, pick(rng, OPSETS))


def case_concat(rng: Rng) -> Case:
    shape, dtype = dims(rng, int(rng.integers(1, 4))), pick(rng, MOVED)
    axis = int(rng.integers(len(shape)))
    parts = [
        values(rng, dtype, (*shape[:axis], int(rng.integers(0, 4)), *shape[axis + 1 :]))
        for _ in range(int(rng.integers(1, 4)))
    ]
    opset = pick(rng, OPSETS)
    return Case(
        "Concat",
        list(parts),
        {"axis": axis - len(shape) * int(opset >= 11 and rng.random() < 0.5)},
        opset,
    )


def case_gather(rng: Rng) -> Case:
    data = values(rng, pick(rng, MOVED), dims(rng, int(rng.integers(1, 4))))
    axis = int(rng.integers(-data.ndim, data.ndim))
    length = data.shape[axis]
    low = -length if rng.random() < 0.5 else 0
    shape = dims(rng, int(rng.integers(0, 3)))
    positions = rng.integers(low, max(length, low + 1), shape).astype(
        pick(rng, (np.int32, np.int64))
    )
    return Case(
        "Gather",
        [data, np.asarray(positions)],
        {"axis": axis} if axis else {},
        pick(rng, (11, 13, 21)),
    )


def case_slice(rng: Rng) -> Case:
    data = values(rng, pick(rng, MOVED), dims(rng, int(rng.integers(1, 4)), 7))
    axes = [
        int(a) for a in rng.choice(data.ndim, int(rng.integers(1, data.ndim + 1)), replace=False)
    ]
    extremes = (-(2**63), 2**63 - 1, -(2**31), 2**31 - 1)
    bounds = [
        int(pick(rng, extremes)) if rng.random() < 0.2 else int(rng.integers(-9, 9))
        for _ in (*axes, *axes)
    ]
    starts, ends = bounds[: len(axes)], bounds[len(axes) :]
    opset = pick(rng, OPSETS)
    if opset < 10:
        return Case("Slice", [data], {"starts": starts, "ends": ends, "axes": axes}, opset)
    inputs: list[Array | None] = [data, i64(*starts), i64(*ends)]
    if rng.random() < 0.3:
        inputs = [data, i64(*starts[:1]), i64(*ends[:1])]
    else:
        axes = [a - data.ndim * int(rng.random() < 0.5) for a in axes]
        inputs += [i64(*axes), i64(*(int(pick(rng, (1, 1, 2, 3, -1, -2))) for _ in axes))]
    return Case("Slice", inputs, {}, opset)


def case_expand(rng: Rng) -> Case:
    a, b = broadcast_pair(rng)
    return Case("Expand", [values(rng, pick(rng, MOVED), a), i64(*b)], {}, pick(rng, (9, 13, 21)))


def case_split(rng: Rng) -> Case:
    shape = dims(rng, int(rng.integers(1, 4)), 6)
    axis, count, opset = (
        int(rng.integers(-len(shape), len(shape))),
        int(rng.integers(1, 4)),
        pick(rng, OPSETS),
    )
    if opset < 11:
        axis %= len(shape)
    more: dict[str, Any] = {"axis": axis} if axis else {}
    data = values(rng, pick(rng, (np.float32, np.int64, np.int32)), shape)
    if opset >= 18 and rng.random() < 0.4:
        return Case("Split", [data], {**more, "num_outputs": count}, opset, count)
    if rng.random() < 0.6:
        cuts = sorted(int(c) for c in rng.integers(0, shape[axis] + 1, count - 1))
        lengths = [int(v) for v in np.diff([0, *cuts, shape[axis]])]
        if opset < 13:
            return Case("Split", [data], {**more, "split": lengths}, opset, count)
        return Case("Split", [data, i64(*lengths)], more, opset, count)
    return Case(
        "Split", [data], {**more, "num_outputs": count} if opset >= 18 else more, opset, count
    )


def case_trilu(rng: Rng) -> Case:
    data = values(
        rng, pick(rng, (np.float32, np.int64, np.bool_)), dims(rng, int(rng.integers(2, 4)))
    )
    inputs: list[Array | None] = [data]
    if rng.random() < 0.7:
        inputs.append(np.array(int(rng.integers(-6, 6)), np.int64))
    return Case("Trilu", inputs, {"upper": int(rng.integers(2))} if rng.random() < 0.7 else {}, 14)


def case_where(rng: Rng) -> Case:
    a, b = broadcast_pair(rng)
    dtype = pick(rng, (np.float32, np.int64, np.int32, np.uint8))
    inputs: list[Array | None] = [
        values(rng, np.bool_, a),
        values(rng, dtype, b),
        values(rng, dtype, a),
    ]
    return Case("Where", inputs, {}, pick(rng, (9, 16)))


def case_constant(rng: Rng) -> Case:
    forms: tuple[dict[str, Any], ...] = (
        {"value": numpy_helper.from_array(values(rng, pick(rng, MOVED), dims(rng)))},
        {"value_int": int(rng.integers(-9, 9))},
        {"value_ints": [1, -2, 2**40]},
        {"value_float": 0.1},
        {"value_floats": [0.1, -2.5]},
        {"value_string": "text"},
        {"value_strings": ["a", "bc"]},
    )
    return Case("Constant", [], dict(pick(rng, forms)), 13)


def case_constant_of_shape(rng: Rng) -> Case:
    more = (
        {"value": numpy_helper.from_array(values(rng, pick(rng, MOVED), (1,)))}
        if rng.random() < 0.7
        else {}
    )
    return Case("ConstantOfShape", [i64(*dims(rng))], more, pick(rng, (9, 20, 21)))


def case_cast(rng: Rng) -> Case:
    kinds: tuple[Any, ...] = (*INTS, *FLOATS, np.float16, np.bool_)
    source, target = pick(rng, kinds), pick(rng, (*kinds, ml_dtypes.bfloat16))
    x = values(rng, source, dims(rng), -200, 200)
    if rng.random() < 0.2 and source in (np.float32, np.float64):
        x = np.append(
            x.ravel(), np.array([np.inf, -np.inf, 0.0, -0.0, 65519.996, 65520, 1e-8, 1e30], source)
        )
    if rng.random() < 0.3 and source in (np.int64, np.uint64):
        x = (x.astype(np.int64) << int(rng.integers(0, 55))).astype(source)
    if rng.random() < 0.1:
        return Case("CastLike", [x, np.zeros(1, target)], {}, 15)
    return Case(
        "Cast",
        [x],
        {"to": helper.np_dtype_to_tensor_dtype(np.dtype(target))},
        pick(rng, (9, 13, 19, 21)),
    )


def case_divide(rng: Rng) -> Case:
    case = binary("Div", (*INTS, *FLOATS), (13, 14, 18))(rng)
    divisor = case.inputs[1]
    assert divisor is not None
    case.inputs[1] = np.where(divisor == 0, np.ones((), divisor.dtype), divisor)
    return case


MAKERS: dict[str, Callable[[Rng], Case]] = {
    "Identity": unary("Identity", MOVED),
    "Shape": case_shape,
    "Reshape": case_reshape,
    "Squeeze": case_squeeze,
    "Unsqueeze": case_unsqueeze,
    "Transpose": case_transpose,
    "Concat": case_concat,
    "Gather": case_gather,
    "Slice": case_slice,
    "Expand": case_expand,
    "Split": case_split,
    "Trilu": case_trilu,
    "Where": case_where,
    "Constant": case_constant,
    "ConstantOfShape": case_constant_of_shape,
    "Cast": case_cast,
    "Not": unary("Not", (np.bool_,)),
    "Sign": unary("Sign", INTS, (9, 13)),
    "Neg": unary("Neg", (*SIGNED, *FLOATS)),
    "Abs": unary("Abs", (*INTS, *FLOATS)),
    "Equal": binary("Equal", (np.int32, np.int64, np.float32, np.float64, np.bool_)),
    **{name: unary(name, FLOATS) for name in ("Sqrt", "Floor", "Ceil")},
    **{name: binary(name, (*INTS, *FLOATS)) for name in ("Add", "Sub", "Mul")},
    **{name: binary(name, (np.int32, np.int64, *FLOATS)) for name in ("Greater", "Less")},
    **{
        name: binary(name, (np.int32, np.int64, *FLOATS), (12, 16))
        for name in ("GreaterOrEqual", "LessOrEqual")
    },
    **{name: binary(name, (np.bool_,)) for name in ("And", "Or", "Xor")},
    "Div": case_divide,
}


def same_bits(a: Array, b: Array) -> bool:
    if a.dtype.kind == "O" or b.dtype.kind == "O":
        return a.shape == b.shape and bool(a.tolist() == b.tolist())
    return bool(a.dtype == b.dtype) and a.shape == b.shape and a.tobytes() == b.tobytes()


def test_every_kernel_is_tried() -> None:
    assert {("", op_type) for op_type in (*MAKERS, "CastLike")} == {
        key for key, each in OPERATORS.items() if each.kernel
    }


@pytest.mark.parametrize("op_type", MAKERS)
def test_kernel_is_bit_identical(op_type: str) -> None:
    compared = 0
    rng = np.random.default_rng(sum(map(ord, op_type)))
    for case in (MAKERS[op_type](rng) for _ in range(60)):
        computed, expected = case.computed(), case.expected()
        if computed is None or expected is None:
            continue
        compared += 1
        assert all(same_bits(a, b) for a, b in zip(computed, expected, strict=True)), (
            case,
            computed,
            expected,
        )
    assert compared >= 20


@pytest.mark.parametrize("positions", [i64(1, 5), i64(0, 1, 1, 2).reshape(2, 2)])
def test_sparse_constant_becomes_dense(positions: Array) -> None:
    stored = numpy_helper.from_array(np.array([1.5, -2.5], np.float32), "v")
    value = helper.make_sparse_tensor(stored, numpy_helper.from_array(positions, "p"), [2, 3])
    computed = Case("Constant", [], {"sparse_value": value}).computed()
    assert computed is not None
    assert computed[0].tolist() == [[0, 1.5, 0], [0, 0, -2.5]]


@pytest.mark.parametrize(
    "dtype", [ml_dtypes.bfloat16, ml_dtypes.float8_e5m2, ml_dtypes.int4, np.float16]
)
def test_movement_keeps_any_dtype(dtype: Any) -> None:
    x = np.arange(6).astype(dtype).reshape(2, 3)
    for case in (
        Case("Transpose", [x]),
        Case("Gather", [x, i64(1, 0)]),
        Case("Concat", [x, x], {"axis": 0}),
    ):
        computed = case.computed()
        assert computed is not None
        assert computed[0].dtype == x.dtype
    cast = Case("Cast", [x], {"to": onnx.TensorProto.FLOAT}).computed()
    assert cast is None or cast[0].tolist() == [[0, 1, 2], [3, 4, 5]]


LEAST = np.array([-(2**63)], np.int64)
REFERENCE = AttributeReference("name", onnx.AttributeProto.FLOAT)
REFUSED = [
    Case("Div", [i64(4, 2), i64(0, 1)]),
    Case("Div", [LEAST, i64(-1)]),
    Case("Add", [i64(1), np.ones(1, np.int32)]),
    Case("Add", [np.ones((2, 3), np.float32), np.ones(3, np.float32)], {"broadcast": 1}, 6),
    Case("Add", [np.ones(2, np.float16)] * 2),
    Case("Sub", [np.array(np.inf, np.float32)] * 2),
    Case("Cast", [np.array([3e9], np.float32)], {"to": onnx.TensorProto.INT32}),
    Case("Cast", [np.array([-1.0], np.float32)], {"to": onnx.TensorProto.UINT8}),
    Case("Cast", [np.array([np.nan], np.float32)], {"to": onnx.TensorProto.BOOL}),
    Case("Cast", [np.array([0.1])], {"to": onnx.TensorProto.FLOAT16}),
    Case("Cast", [i64(1)], {"to": onnx.TensorProto.STRING}),
    Case("Cast", [i64(4097)], {"to": onnx.TensorProto.FLOAT16}),
    Case("Gather", [i64(1, 2), i64(2)]),
    Case("Gather", [None, i64(0)]),
    Case("Squeeze", [i64(1, 2), i64(0)]),
    Case("Unsqueeze", [i64(1), i64(0, -3)]),
    Case("Reshape", [np.zeros((0, 2), np.int64), i64(0, -1)]),
    Case("Transpose", [i64(1, 2)], {"perm": [1, 0]}),
    Case("Where", [np.array([True]), np.array([-0.0]), np.array([1.0])]),
    Case("Concat", [i64(1), np.ones(1, np.int32)], {"axis": 0}),
    Case("Slice", [i64(1, 2), i64(0), i64(1), i64(0), i64(0)]),
    Case("Slice", [i64(1, 2), i64(1), i64(2**63 - 1), i64(0), i64(-1)]),
    Case("Expand", [i64(1, 2), i64(3)]),
    Case("Expand", [np.zeros((), np.int8), i64(LARGEST_RESULT + 1)]),
    Case("ConstantOfShape", [i64(LARGEST_RESULT, 2)]),
    Case("Split", [i64(1, 2, 3)], {}, 13, 2),
    Case("Constant", []),
    Case("Constant", [], {"value": REFERENCE}),
    Case("Trilu", [np.ones((2, 2), np.int64)], {"upper": REFERENCE}),
]


@pytest.mark.parametrize("case", REFUSED, ids=lambda case: case.op_type)
def test_kernel_declines(case: Case) -> None:
    assert case.computed() is None
