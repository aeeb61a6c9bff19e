"""Operators that make tensors, or whose result size depends on values."""

from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from onnx import TensorProto

from tests.operators.inference.context import infer
from tests.operators.inference.oracle import (
    I32,
    I64,
    B,
    F,
    Fed,
    check,
    ints,
    scalar,
    tensor,
    vector,
)
from xoptim.facts.dims import SymbolicDim, as_integer, ceil_div, dim_max, fresh, is_anonymous, named
from xoptim.facts.dtypes import element_type
from xoptim.facts.shapes import Info

n, m, k = named("n"), named("m"), named("k")


def _from_array(array: np.ndarray) -> onnx.TensorProto:
    return onnx.numpy_helper.from_array(array)


def test_shape_and_size() -> None:
    x = tensor("n", 3, "m")
    for opset in (7, 13, 15, 21):
        assert check("Shape", [x], opset=opset) == [vector("n", 3, "m")]
        assert check("Size", [x], opset=opset) == [scalar(3 * n * m)]
    for attributes, expected in (
        ({"start": 1}, vector(3, "m")), ({"end": -1}, vector("n", 3)),
        ({"start": -2, "end": 2}, vector(3)), ({"start": -9, "end": 9}, vector("n", 3, "m")),
        ({"start": 2, "end": 1}, vector()),
    ):  # fmt: skip
        assert check("Shape", [x], attributes) == [expected]
    assert check("Shape", [tensor()]) == [vector()]
    assert check("Size", [tensor()]) == [scalar(1)]
    assert infer("Shape", [Info(F)])[0].rank == 1
    assert infer("Size", [Info(F)]) == [Info(I64, ())]
    anonymous = fresh()
    assert infer("Shape", [Info(F, (anonymous,))])[0].data == (anonymous,)


@pytest.mark.parametrize(
    ("attributes", "expected"),
    [
        ({"value": _from_array(ints(1, -1))}, vector(1, -1)),
        ({"value": _from_array(np.array(3, np.int32))}, scalar(3, I32)),
        ({"value": _from_array(np.ones((2, 3), np.float32))}, Info(F, (2, 3))),
        ({"value": _from_array(np.array([1.5], np.float32))}, Info(F, (1,))),
        ({"value": _from_array(np.arange(100))}, Info(I64, (100,))),
        ({"value_int": 5}, scalar(5)),
        ({"value_ints": [5, 6]}, vector(5, 6)),
        ({"value_float": 1.5}, Info(F, ())),
        ({"value_floats": [1.5, 2.0]}, Info(F, (2,))),
        ({"value_string": "a"}, Info(TensorProto.STRING, ())),
        ({"value_strings": ["a", "b"]}, Info(TensorProto.STRING, (2,))),
    ],
)
def test_constant(attributes: dict[str, Any], expected: Info) -> None:
    assert check("Constant", [], attributes, opset=13) == [expected]


def test_constant_in_odd_forms() -> None:
    values = _from_array(np.array([1.0], np.float32))
    sparse = onnx.helper.make_sparse_tensor(values, _from_array(ints(2)), [2, 3])
    assert infer("Constant", [], {"sparse_value": sparse}) == [Info(F, (2, 3))]
    assert infer("Constant", [], {"value": ints(4)}) == [vector(4)]
    assert infer("Constant", []) == [Info()]
    assert infer("Constant", [], {"value": "odd"}) == [Info()]
    short = onnx.TensorProto(data_type=I64, dims=[3], raw_data=b"12345678")
    assert infer("Constant", [], {"value": short}) == [Info(I64, (3,))]


def test_constant_of_shape() -> None:
    one = _from_array(ints(1))
    for opset in (9, 20, 21):
        assert check("ConstantOfShape", [vector("n", 3)], opset=opset) == [Info(F, (n, 3))]
        assert check("ConstantOfShape", [ints(2)], {"value": one}, opset=opset) == [vector(1, 1)]
    assert check("ConstantOfShape", [ints()], {"value": one}) == [scalar(1)]
    assert check("ConstantOfShape", [vector("n")], {"value": one}) == [Info(I64, (n,))]
    assert check("ConstantOfShape", [Fed(ints(2, 3))])[0].rank == 2
    assert infer("ConstantOfShape", [tensor("k", dtype=I64)]) == [Info(F)]
    assert infer("ConstantOfShape", [ints(100)], {"value": one}) == [Info(I64, (100,))]


@pytest.mark.parametrize(
    ("start", "limit", "delta", "size"),
    [
        (0, "n", 1, n), (0, "n", 2, ceil_div(n, 2)), (2, "n", 1, dim_max(n - 2, 0)),
        ("n", 0, -1, n), ("n", n + m, 1, m), (1, 7, 2, 3), (7, 1, -2, 3), (1, 1, 1, 0),
        (5, 1, 1, 0), ("n", -1, -1, n + 1),
    ],
)  # fmt: skip
def test_range(start: Any, limit: Any, delta: int, size: Any) -> None:
    (result,) = check("Range", [scalar(start), scalar(limit), np.array(delta)], opset=11)
    assert result.shape == (size,)
    assert result.data == (tuple(range(start, limit, delta)) if type(size) is int else None)


def test_range_of_other_types() -> None:
    def operands(*numbers: float, dtype: type = np.float32) -> list[np.ndarray]:
        return [np.array(number, dtype) for number in numbers]

    assert check("Range", operands(0, 1, 0.1)) == [Info(F, (10,))]
    assert check("Range", operands(0, 1, 0.3, dtype=np.float64)) == [Info(TensorProto.DOUBLE, (4,))]
    assert check("Range", operands(1, 0, 0.3)) == [Info(F, (0,))]
    assert check("Range", operands(0, 7, 2)) == [Info(F, (4,))]
    assert infer("Range", [Info(F, (), (3,)), *operands(9, 2)]) == [Info(F, (3,))]
    assert infer("Range", [Info(F, (), (-(2**24),)), Info(F, (), (2**24,)), *operands(1)])[
        0
    ].static_shape == (2**25,)
    assert infer("Range", operands(0, 1, 0))[0].rank == 1
    assert check("Range", [Fed(np.array(0)), Fed(np.array(4)), Fed(np.array(1))])[0].rank == 1
    assert infer("Range", [scalar("n"), scalar("m"), np.array(0)])[0].rank == 1


def test_top_k() -> None:
    x = tensor("n", 6)
    for opset in (10, 11):
        assert check("TopK", [x, ints(2)], opset=opset, outputs=2) == [
            Info(F, (n, 2)),
            Info(I64, (n, 2)),
        ]
    assert check("TopK", [tensor(6, "n"), vector("m")], {"axis": 0}, outputs=2) == [
        Info(F, (m, n)),
        Info(I64, (m, n)),
    ]
    values, positions = check("TopK", [x, Fed(ints(3))], outputs=2)
    assert values.shape == positions.shape
    assert infer("TopK", [x], {"k": 2}, opset=1, num_outputs=2)[0].shape == (n, 2)
    assert infer("TopK", [Info(F), ints(2)], num_outputs=2) == [Info(F), Info(I64)]
    assert infer("TopK", [x, ints(2)], {"axis": 5}, num_outputs=2)[0].rank == 2


def test_one_hot() -> None:
    indices, values = Fed(np.zeros((2, 3), np.int64)), np.array([0, 1], np.float32)
    for opset in (9, 11):
        assert check("OneHot", [indices, np.array(5), values], opset=opset) == [Info(F, (2, 3, 5))]
        assert check("OneHot", [indices, np.array(5), values], {"axis": 0}, opset=opset) == [
            Info(F, (5, 2, 3))
        ]
    assert check("OneHot", [indices, np.array(5, np.float32), values], {"axis": -2}) == [
        Info(F, (2, 5, 3))
    ]
    assert check("OneHot", [indices, scalar("m"), values]) == [Info(F, (2, 3, m))]
    assert check("OneHot", [indices, Fed(np.array(4)), values])[0].rank == 3
    assert infer("OneHot", [Info(I64), np.array(4), values]) == [Info(F)]
    assert infer("OneHot", [tensor(2, dtype=I64), np.array(4), values], {"axis": 7}) == [Info(F)]


def test_sizes_that_depend_on_values() -> None:
    x = tensor("n", 3)
    for opset in (9, 13):
        (result,) = check("NonZero", [x], opset=opset)
        assert result.shape is not None
        assert result.shape[0] == 2
    assert infer("NonZero", [tensor()])[0].rank == 2
    assert infer("NonZero", [Info(F)])[0].rank == 2
    y, first, inverse, counts = check("Unique", [x], outputs=4, opset=11)
    assert (y.rank, inverse.shape) == (1, (3 * n,))
    assert y.shape == first.shape == counts.shape
    y, first, inverse, counts = check("Unique", [x], {"axis": 1}, outputs=4, opset=11)
    assert (y.rank, inverse.shape) == (2, (3,))
    assert infer("Unique", [Info(F)], {"axis": 1}, num_outputs=4)[0] == Info(F)
    condition = np.array([True, False, True])
    assert check("Compress", [x, condition], {"axis": 1}) == [Info(F, (n, 2))]
    assert check("Compress", [x, condition]) == [Info(F, (2,))]
    (result,) = check("Compress", [x, Fed(condition)], {"axis": -1}, opset=11)
    assert result.shape is not None
    assert result.shape[0] is n
    assert infer("Compress", [Info(F), condition], {"axis": 1}) == [Info(F)]
    assert infer("Compress", [x, condition], {"axis": 5})[0].rank == 2


def test_compress_ignores_the_end_of_a_long_condition() -> None:
    condition = np.array([True, False, True, True, False])
    assert check("Compress", [tensor("n", 3), condition], {"axis": 1}) == [Info(F, (n, 2))]
    assert check("Compress", [tensor(1, 3), condition]) == [Info(F, (2,))]
    for attributes in ({"axis": 0}, {}):
        (result,) = check("Compress", [tensor("n", 1), condition], attributes)
        assert is_anonymous(result.shape[0]), "it depends on n"  # type: ignore[index]
    assert check("Compress", [tensor("n", 4), condition]) == [Info(F, (3,))]


def test_random_numbers() -> None:
    x = tensor("n", 3)
    for op_type in ("RandomNormal", "RandomUniform"):
        assert check(op_type, [], {"shape": [2, 3]}) == [Info(F, (2, 3))]
        assert (
            check(op_type, [], {"shape": [2, 3], "dtype": TensorProto.DOUBLE})[0].dtype
            == TensorProto.DOUBLE
        )
        assert check(op_type + "Like", [x]) == [x]
        assert check(op_type + "Like", [x], {"dtype": TensorProto.DOUBLE})[0] == Info(
            TensorProto.DOUBLE, (n, 3)
        )
    assert check("Bernoulli", [x], {"dtype": B}, run=False) == [Info(B, (n, 3))]
    assert check("Bernoulli", [x], run=False) == [x]
    assert check("Multinomial", [x], {"sample_size": 5}) == [Info(I32, (n, 5))]
    assert check("Multinomial", [x], {"dtype": I64}) == [Info(I64, (n, 1))]
    assert infer("Multinomial", [Info(F)])[0].rank == 2
    for opset in (9, 21):
        assert check("EyeLike", [x], opset=opset) == [x]
        assert check("EyeLike", [x], {"dtype": I64, "k": 1}, opset=opset) == [Info(I64, (n, 3))]


def test_quantization() -> None:
    x, scale = tensor("n", 3), np.array(1, np.float32)
    eight = tensor("n", 3, dtype=TensorProto.INT8)
    for opset in (10, 13, 19, 21):
        assert check("QuantizeLinear", [x, scale, np.array(0, np.int8)], opset=opset) == [eight]
        assert check("QuantizeLinear", [x, scale], opset=opset) == [
            tensor("n", 3, dtype=TensorProto.UINT8)
        ]
        assert check("DequantizeLinear", [eight, scale, np.array(0, np.int8)], opset=opset) == [x]
    assert check("QuantizeLinear", [x, scale], {"output_dtype": TensorProto.INT8}, opset=21) == [
        eight
    ]
    half = np.array(1, np.float16)
    assert check("DequantizeLinear", [eight, half], opset=19)[0].dtype == TensorProto.FLOAT16
    assert (
        check("DequantizeLinear", [eight, half], {"output_dtype": F}, opset=23, run=False)[0].dtype
        == F
    )
    assert infer("QuantizeLinear", [x, scale, Info()])[0] == Info(0, (n, 3))
    y, y_scale, zero = check("DynamicQuantizeLinear", [x], outputs=3, opset=11)
    assert y == tensor("n", 3, dtype=TensorProto.UINT8)
    assert (y_scale, zero) == (Info(F, ()), Info(TensorProto.UINT8, ()))


def test_a_new_symbol_is_new() -> None:
    first, second = (infer("NonZero", [tensor("n")])[0].shape for _ in range(2))
    assert first is not None
    assert second is not None
    assert isinstance(first[1], SymbolicDim)
    assert first[1] is not second[1]


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int16, np.int32, np.int64])
def test_range_is_as_long_as_in_onnxruntime(dtype: type) -> None:
    rng = np.random.default_rng(7)
    triples: list[tuple[Any, ...]] = (
        [(5, 0.7, -0.1), (0, 1, 0.1), (1, 0, 0.3)] if np.dtype(dtype).kind == "f" else []
    )
    while len(triples) < 60:
        if np.dtype(dtype).kind == "f":
            triples.append(tuple(rng.normal(0, (20, 20, 0.4))))
        else:
            limits = np.iinfo(dtype)
            start, limit = rng.integers(limits.min, limits.max, 2)
            triples.append(
                (
                    start,
                    limit,
                    max(limits.min, min(limits.max, (int(limit) - int(start)) // 37)) or 1,
                )
            )
    for triple in triples:
        operands: list[np.ndarray] = [np.array(value, dtype) for value in triple]
        node = onnx.helper.make_node("Range", ["start", "limit", "delta"], ["y"])
        fed = [
            onnx.helper.make_tensor_value_info(name, element_type(operands[0].dtype), ())
            for name in node.input
        ]
        graph = onnx.helper.make_graph([node], "g", fed, [onnx.ValueInfoProto(name="y")])
        model = onnx.helper.make_model(
            graph, opset_imports=[onnx.helper.make_opsetid("", 13)], ir_version=8
        )
        session = ort.InferenceSession(
            model.SerializeToString(), providers=["CPUExecutionProvider"]
        )
        (expected,) = session.run(None, dict(zip(node.input, operands, strict=True)))
        found = infer("Range", operands, opset=13)[0].static_shape
        # Integers that doubles do not hold are counted in another way from version 1.32 of
        # onnxruntime on.
        first, last, step = triple
        whole = -((int(first) - int(last)) // int(step)) if dtype is np.int64 else 0
        apart = dtype is np.int64 and np.ceil((float(last) - float(first)) / float(step)) != whole
        assert found == (None if apart else expected.shape)


def test_a_number_that_doubles_and_integers_count_differently_is_not_known() -> None:
    operands = [np.array(value) for value in (9223372036854775804, -7, -1844674407370955162)]
    assert infer("Range", operands, opset=13)[0].static_shape is None
    assert infer("Range", [np.array(value) for value in (0, 10, 3)], opset=13)[0].static_shape == (
        4,
    )


def test_range_of_a_size_that_a_double_does_not_hold() -> None:
    limit = as_integer(n * m, 64)
    assert infer("Range", [np.array(0), scalar(limit), np.array(1)])[0].shape == (
        dim_max(limit, 0),
    )
    (result,) = infer("Range", [np.array(0), scalar(limit), np.array(1000)])
    assert result.shape is not None
    assert isinstance(result.shape[0], SymbolicDim)
    assert result.shape[0].is_anonymous
    assert result == infer("Range", [np.array(0), scalar(limit), np.array(1000)])[0]
