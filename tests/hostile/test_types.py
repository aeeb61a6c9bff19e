"""Rare element types, and values that are not tensors."""

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from tests.cli.command import Xopt, write
from tests.hostile.cases import Case, changed, check, listed, not_verified, optimized, text

pytestmark = pytest.mark.slow

CARRIED = (
    "agraph ({0}[2,3] x) => ({0}[2,3] y, {0}[3,2] z) {{ i = Identity(x) y = {1}(i) "
    "z = Transpose(w) }}"
)
# Written down, so that the table in the docs does not depend on the release of onnx.
ALL = [
    "FLOAT",
    "UINT8",
    "INT8",
    "UINT16",
    "INT16",
    "INT32",
    "INT64",
    "STRING",
    "BOOL",
    "FLOAT16",
    "DOUBLE",
    "UINT32",
    "UINT64",
    "COMPLEX64",
    "COMPLEX128",
    "BFLOAT16",
    "FLOAT8E4M3FN",
    "FLOAT8E4M3FNUZ",
    "FLOAT8E5M2",
    "FLOAT8E5M2FNUZ",
    "UINT4",
    "INT4",
    "FLOAT4E2M1",
    "FLOAT8E8M0",
    "UINT2",
    "INT2",
    "FLOAT6E2M3",
    "FLOAT6E3M2",
]
RUN = {
    "FLOAT",
    "DOUBLE",
    "FLOAT16",
    "BFLOAT16",
    "FLOAT8E4M3FN",
    "FLOAT8E4M3FNUZ",
    "FLOAT8E5M2",
    "FLOAT8E5M2FNUZ",
    "BOOL",
    "STRING",
}
RUN |= {f"{sign}INT{bits}" for sign in ("", "U") for bits in (8, 16, 32, 64)}


def element_type(name: str) -> int:
    if not hasattr(TensorProto, name):
        pytest.skip(f"onnx {onnx.__version__} has no {name}")
    return TensorProto.DataType.Value(name)


def carried(name: str) -> Callable[[], onnx.ModelProto]:
    """A model with an input, an output and a weight of a type."""

    def make() -> onnx.ModelProto:
        model = text(CARRIED.format("float", "Identity"), 23, ir_version=11)()
        number = element_type(name)
        for value in (*model.graph.input, *model.graph.output):
            value.type.tensor_type.elem_type = number
        values: Any = (
            [b"a", "\u2603".encode(), b"", b"d", b"e", b"f"]
            if name == "STRING"
            else [1, 0, 1, 1, 0, 1]
        )
        model.graph.initializer.append(helper.make_tensor("w", number, [2, 3], values))
        return model

    return make


def row(name: str) -> Case:
    make = carried(name)
    return (
        optimized(f"type-{name.lower()}", f"input, output and weight of type {name}", make)
        if name in RUN
        else not_verified(
            f"type-{name.lower()}",
            f"input, output and weight of type {name}",
            make,
            "onnxruntime cannot load",
        )
    )


def sparse(model: onnx.ModelProto) -> None:
    found = model.graph.sparse_initializer.add(dims=[2, 3])
    found.values.CopyFrom(numpy_helper.from_array(np.array([1, 2], np.float32), "w"))
    found.indices.CopyFrom(numpy_helper.from_array(np.array([0, 4], np.int64), ""))


def training(model: onnx.ModelProto) -> None:
    step = onnx.parser.parse_graph("step (float[2] w) => (float[2] next) { next = Neg(w) }")
    info = model.training_info.add()
    info.algorithm.CopyFrom(step)
    info.update_binding.add(key="w", value="next")


def opaque(model: onnx.ModelProto) -> None:
    kind = model.graph.input[0].type.opaque_type
    kind.domain, kind.name = "acme", "thing"


MAPS = """agraph (map(int64, float) m) => (float[n,k] y) {
  t = ai.onnx.ml.CastMap <map_form = "SPARSE", max_map = 4> (m) y = Identity(t)
}"""
CASES = [
    *(row(name) for name in ALL),
    optimized(
        "type-sequence",
        "a sequence of tensors",
        text(
            "agraph (seq(float[n]) s) => (float[n] y) <int64 i = {0}> { t = SequenceAt(s, i) "
            "y = Neg(t) }"
        ),
        "SequenceAt Neg",
    ),
    optimized(
        "type-sequence-made",
        "sequences made, changed and taken apart",
        text(
            "agraph (float[2] x) => (float[m] y) { a = Identity(x) s = SequenceConstruct(a, x) "
            "u = SequenceInsert(s, x) v = SequenceErase(u) y = ConcatFromSequence <axis = 0> (v) }"
        ),
    ),
    optimized(
        "type-optional",
        "an optional tensor",
        text(
            "agraph (optional(float[n]) s) => (float[n] y) { t = OptionalGetElement(s) y = Neg(t) }"
        ),
        "OptionalGetElement Neg",
    ),
    optimized(
        "type-optional-sequence",
        "an optional sequence of tensors",
        text("agraph (optional(seq(float[n])) s) => (bool y) { y = OptionalHasElement(s) }"),
        "OptionalHasElement",
    ),
    optimized("type-map", "a map", text(MAPS, domains={"ai.onnx.ml": 3}), "CastMap"),
    not_verified(
        "type-opaque",
        "an input of an opaque type",
        changed("agraph (float[2] x) => (y) { y = acme.F(x) }", opaque),
        "onnxruntime cannot load",
        "F",
    ),
    optimized(
        "type-sparse",
        "a sparse initializer",
        changed(
            "agraph (float[2,3] x) => (float[2,3] y) { t = Add(x, w) y = Identity(t) }", sparse
        ),
        "Add",
    ),
    optimized(
        "type-training",
        "training information",
        changed(
            "agraph (float[2] x) => (float[2] y) <float[2] w = {1, 2}> { t = Mul(x, w) "
            "y = Identity(t) }",
            training,
        ),
        "Mul",
        does="left unchanged, as are the values that it reads and writes; the numbers are equal",
    ),
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_types(xopt: Xopt, case: Case) -> None:
    check(case, xopt)
    found = onnx.load("model.opt.onnx").graph
    given = onnx.load("model.onnx").graph
    assert found.sparse_initializer == given.sparse_initializer
    assert onnx.load("model.opt.onnx").training_info == onnx.load("model.onnx").training_info


@listed(
    "type-bits", "weights of every type, moved to a file of their own", "carried over bit by bit"
)
@pytest.mark.parametrize("name", [name for name in ALL if name != "STRING"])
def test_weights_of_every_type_are_carried_over(xopt: Xopt, name: str) -> None:
    model = text("agraph (float[n] x) => (float[n] y) { t = Identity(x) y = Neg(t) }")()
    number = element_type(name)
    weight = helper.make_tensor("w", number, [4096], [1, 0, 1, 1] * 1024)
    model.graph.initializer.append(weight)
    model.graph.output.append(helper.make_tensor_value_info("w", number, [4096]))
    write(model)
    assert xopt("model.onnx", "--external-data", "--no-verify", "-q") == (0, "", "")
    (found,) = onnx.load("model.opt.onnx").graph.initializer
    assert found.data_type == number
    expected, actual = numpy_helper.to_array(weight), numpy_helper.to_array(found)
    assert expected.tobytes() == actual.tobytes()


def test_every_type_is_tried() -> None:
    assert set(TensorProto.DataType.keys()) - {"UNDEFINED"} <= set(ALL)
