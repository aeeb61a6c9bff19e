"""Sequences and optionals."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto

from tests.operators.inference.context import Input, infer
from tests.operators.inference.nested import check_model
from tests.operators.inference.oracle import ints, tensor, vector
from xoptim.facts.dims import SymbolicDim, fresh, named
from xoptim.facts.shapes import UNKNOWN, Info

N, M = named("n"), named("m")


def zeros(*shape: int) -> np.ndarray:
    return np.zeros(shape, dtype=np.float32)


def sequence(element: Info | None) -> Info:
    return Info(container="sequence", element=element)


def anonymous(info: Info) -> list[bool]:
    assert info.shape is not None
    return [isinstance(d, SymbolicDim) and d.is_anonymous for d in info.shape]


CASES = [
    ("s = SequenceConstruct (x, x)", [False, False]),
    ("s = SequenceConstruct (x, y)", [True, False]),
    ("a = SequenceConstruct (x, x) s = SequenceInsert (a, x)", [False, False]),
    ("a = SequenceConstruct (x, x) s = SequenceInsert (a, y, k)", [True, False]),
    ("a = SequenceConstruct (x, y) s = SequenceErase (a, k)", [True, False]),
]


@pytest.mark.parametrize(("nodes", "expected"), CASES)
def test_items(nodes: str, expected: list[bool]) -> None:
    text = f"""g (float[n, 3] x, float[m, 3] y) => (s, item, count) {{
        k = Constant <value = int64 {{0}}> ()
        {nodes}
        item = SequenceAt (s, k)
        count = SequenceLength (s)
    }}"""
    infos = check_model(text, [{"x": zeros(2, 3), "y": zeros(5, 3)}])
    assert infos[0].container == "sequence"
    assert anonymous(infos[1]) == expected
    assert infos[2] == Info(TensorProto.INT64, ())


def test_items_are_not_taken_for_equal() -> None:
    text = """g (float[n, 3] x, float[m, 3] y) => (a, b) {
        j = Constant <value = int64 {0}> ()
        k = Constant <value = int64 {1}> ()
        s = SequenceConstruct (x, y)
        a = SequenceAt (s, j)
        b = SequenceAt (s, k)
    }"""
    a, b = check_model(text, [{"x": zeros(2, 3), "y": zeros(5, 3)}])
    assert a.shape != b.shape


def test_an_empty_sequence_knows_its_element_type() -> None:
    for opset in (11, 17):
        text = """g (float[n, 3] x) => (e, s, item) {
            k = Constant <value = int64 {0}> ()
            e = SequenceEmpty <dtype = 1> ()
            s = SequenceInsert (e, x)
            item = SequenceAt (s, k)
        }"""
        infos = check_model(text, [{"x": zeros(2, 3)}], opset=opset)
        assert infos == [sequence(Info(1)), sequence(Info(1)), Info(1)]
    assert infer("SequenceEmpty", [])[0] == sequence(Info(TensorProto.FLOAT))


SPLITS = [
    ("", "", (1, 3)),
    ("<axis = -1>", "", (N, 1)),
    ("<keepdims = 0>", "", (3,)),
    ("<axis = 1, keepdims = 0>", "", (N,)),
    ("<axis = 1>", "int64 {3}", (N, 3)),
    ("<axis = 1>", "int64 {1}", (N, 1)),
    ("<axis = 1>", "int64 {2}", (N, None)),
    ("<axis = 1, keepdims = 0>", "int64[3] {1, 1, 1}", (N, 1)),
    ("<axis = 1>", "int64[2] {1, 2}", (N, None)),
    ("<axis = 1>", "int64[1] {3}", (N, 3)),
    ("", "int64 {2}", (None, 3)),
]


@pytest.mark.parametrize(("attributes", "split", "expected"), SPLITS)
@pytest.mark.parametrize("opset", [11, 17])
def test_split(attributes: str, split: str, expected: tuple[object, ...], opset: int) -> None:
    text = f"""g (float[n, 3] x) => (s, item, joined, stacked) {{
        k = Constant <value = int64 {{0}}> ()
        {f"p = Constant <value = {split}> ()" if split else ""}
        s = SplitToSequence {attributes} (x{", p" if split else ""})
        item = SequenceAt (s, k)
        joined = ConcatFromSequence <axis = 0> (s)
        stacked = ConcatFromSequence <axis = -1, new_axis = 1> (s)
    }}"""
    uneven = None in expected
    if uneven:
        text = text.replace(", stacked)", ")").replace(
            "stacked = ConcatFromSequence <axis = -1, new_axis = 1> (s)", ""
        )
    if uneven and expected[1] is None:
        text = text.replace("axis = 0> (s)", "axis = 1> (s)")
    infos = check_model(text, [{"x": zeros(4, 3)}, {"x": zeros(5, 3)}], opset=opset)
    shape = infos[1].shape
    assert shape is not None
    assert len(shape) == len(expected)
    for dim, known in zip(shape, expected, strict=True):
        assert (
            dim is known if known is not None else isinstance(dim, SymbolicDim) and dim.is_anonymous
        )
    if not uneven:
        assert anonymous(infos[3]) == [False] * len(expected) + [True]


def test_split_by_symbols() -> None:
    x = Info(TensorProto.FLOAT, (N * 2, 3))
    for given, expected in ((vector("n", "n"), N), (Info(TensorProto.INT64, (), (N * 2,)), N * 2)):
        element = infer("SplitToSequence", [x, given])[0].element
        assert element is not None
        assert element.shape == (expected, 3)


def test_sequences_of_malformed_nodes() -> None:
    odd: list[tuple[str, list[Input]]] = [
        ("SequenceConstruct", []),
        ("SequenceConstruct", [tensor("n"), sequence(tensor("n"))]),
        ("SequenceInsert", [tensor("n"), tensor("n")]),
        ("SplitToSequence", [UNKNOWN, ints(2)]),
        ("SplitToSequence", [sequence(None)]),
    ]
    for op_type, inputs in odd:
        assert infer(op_type, inputs)[0].container == "sequence"
    assert infer("SequenceAt", [tensor("n"), UNKNOWN]) == [UNKNOWN]
    assert infer("SequenceAt", [sequence(tensor(fresh(), "n", dtype=7)), UNKNOWN])[0].dtype == 7
    assert infer("ConcatFromSequence", [sequence(tensor("n"))]) == [Info(TensorProto.FLOAT)]
    assert infer("ConcatFromSequence", [UNKNOWN]) == [UNKNOWN]


def test_optionals() -> None:
    text = """g (float[n, 3] x) => (item, filled, absent) {
        o = Optional (x)
        item = OptionalGetElement (o)
        filled = OptionalHasElement (o)
        absent = OptionalHasElement ()
    }"""
    infos = check_model(text, [{"x": zeros(2, 3)}], opset=18)
    assert infos == [tensor("n", 3), Info(TensorProto.BOOL, ()), Info(TensorProto.BOOL, ())]


def test_optional_of_a_sequence() -> None:
    text = """g (float[n, 3] x) => (item) {
        k = Constant <value = int64 {0}> ()
        s = SequenceConstruct (x, x)
        o = Optional (s)
        t = OptionalGetElement (o)
        item = SequenceAt (t, k)
    }"""
    assert check_model(text, [{"x": zeros(2, 3)}], opset=18) == [tensor("n", 3)]


def test_optional_of_a_declared_type() -> None:
    declared = onnx.helper.make_tensor_type_proto(TensorProto.FLOAT, ["n", 3])
    empty = infer("Optional", [], {"type": declared}, opset=15)[0]
    assert empty == Info(container="optional", element=tensor("n", 3))
    assert infer("OptionalGetElement", [empty], opset=15) == [tensor("n", 3)]
    # Since operator set 18 the input need not be an optional.
    assert infer("OptionalGetElement", [tensor("n")], opset=18) == [tensor("n")]
    assert infer("OptionalGetElement", [tensor("n")], opset=15) == [UNKNOWN]
