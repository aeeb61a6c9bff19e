"""Sizes written into a model."""

from typing import Any

import numpy as np
import onnx
import pytest

from tests.support import parse, run, same_results
from xoptim import GraphBuilder, ModelError, optimize, prepare

TEXT = (
    "agraph (float[batch,seq,8] x, float[batch,?] m, float z) => (float[batch,seq,8] y) { "
    "y = Relu(x) }"
)


def shapes(model: onnx.ModelProto) -> dict[str, list[int | str]]:
    return {
        value.name: [dim.dim_param or dim.dim_value for dim in value.type.tensor_type.shape.dim]
        for value in (*model.graph.input, *model.graph.output)
    }


def model() -> onnx.ModelProto:
    found = parse(TEXT.replace("?", "q"))
    found.graph.input[1].type.tensor_type.shape.dim[1].Clear()
    found.graph.input[2].type.tensor_type.ClearField("shape")
    return found


@pytest.mark.parametrize(
    ("fix", "x", "m"),
    [
        ({"batch": [2]}, [2, "seq", 8], [2, 0]),
        ({"batch": 2}, [2, "seq", 8], [2, 0]),
        ({"x": [2, 3, 8]}, [2, 3, 8], [2, 0]),
        ({"m:1": [5]}, ["batch", "seq", 8], ["batch", 5]),
        ({"m": [4, 5], "batch": [4]}, [4, "seq", 8], [4, 5]),
    ],
)
def test_sizes(fix: dict[str, int | list[int]], x: list[int | str], m: list[int | str]) -> None:
    found = shapes(prepare(model(), fix=fix))
    assert (found["x"], found["m"], found["y"]) == (x, m, x)


@pytest.mark.parametrize(
    ("fix", "size"),
    [
        ({"batch": 2, "seq": 3}, 5),
        ({"batch": 2}, "seq + 2"),
        ({"batch + seq": 7}, 7),
        ({}, "batch + seq"),
    ],
)
def test_formulas(fix: dict[str, int], size: int | str) -> None:
    given = model()
    given.graph.input[1].type.tensor_type.shape.dim[1].dim_param = "batch + seq"
    given.graph.output[0].type.tensor_type.shape.dim[1].dim_param = "batch + seq"
    found = shapes(prepare(given, fix=fix))
    assert (found["m"][1], found["y"][1]) == (size, size)


def test_an_input_of_unknown_rank() -> None:
    assert shapes(prepare(model(), fix={"z": [2, 2]}))["z"] == [2, 2]


@pytest.mark.parametrize(
    ("fix", "message"),
    [
        (
            {"bacth": [2]},
            r"fix: .*'bacth' \(it has batch, seq, x, m, z\); .*'batch'",
        ),
        ({"x": [2, 3]}, "'x' .* 3 dimensions, not 2"),
        ({"x": [2, 3, 9]}, "dimension 2 .*'x' is 8, not 9"),
        ({"x": [2, 3, 8], "batch": [4]}, "'batch' .* 2 and 4"),
        ({"x:2": [8]}, "fix: .*'x:2'"),
        ({"batch": [1, 2]}, "fix batch: .* one size, not 2"),
        ({"batch": -1}, "'batch' .*integers .* 0, not -1"),
        ({"batch": "2"}, "'batch' .*integers .* 0, not '2'"),
        ({"x": [2, 3.5, 8]}, "'x' .*integers"),
    ],
)
def test_sizes_that_do_not_fit(fix: dict[str, Any], message: str) -> None:
    with pytest.raises(ModelError, match=message):
        prepare(model(), fix=fix)


def test_declarations_inside_follow() -> None:
    text = """agraph (float[n,4] x, bool c) => (float[n,4] y) {
        y = If (c) <then_branch = a () => (float[n,4] p) { p = Neg(x) },
          else_branch = b () => (float[n,4] q) { q = Abs(x) }>
    }"""
    after = prepare(parse(text), fix={"n": [3]})
    assert b"n" not in {dim.dim_param.encode() for g in after.graph.node[0].attribute for dim in
                        g.g.output[0].type.tensor_type.shape.dim}  # fmt: skip
    assert GraphBuilder(after).get_shape("y") == (3, 4)


NAMED = """agraph (float[batch,3,height,width] x) => (float[any,other,8] y,
  float[b,?,?] m) <int64[3] shape = {0, 8, -1}> {
    c = Conv <kernel_shape = [3, 3], pads = [1, 1, 1, 1], strides = [2, 2]> (x, w)
    r = Reshape(c, shape) y = Transpose <perm = [0, 2, 1]> (r)
      m = ReduceMax <axes = [1], keepdims = 0> (c) }"""


@pytest.mark.parametrize(
    ("fix", "y", "m"),
    [
        ({"batch": 1, "height": 32, "width": 32}, [1, 256, 8], [1, 16, 16]),
        ({"height": 32, "width": 32}, ["any", 256, 8], ["b", 16, 16]),
        ({"width": 32}, ["any", "other", 8], ["b", 0, 16]),
    ],
)
def test_numbers_that_follow_are_written_into_outputs(
    fix: dict[str, int], y: list[int | str], m: list[int | str]
) -> None:
    proto = parse(NAMED.replace("?,?", "p,q"), opset=13)
    for dim in proto.graph.output[1].type.tensor_type.shape.dim[1:]:
        dim.Clear()
    proto.graph.initializer.append(
        onnx.helper.make_tensor("w", onnx.TensorProto.FLOAT, [8, 3, 3, 3], [0.5] * 216)
    )
    found = shapes(prepare(proto, fix=fix))
    assert (found["y"], found["m"]) == (y, m)


def test_a_warning_about_declarations_comes_once(caplog: pytest.LogCaptureFixture) -> None:
    proto = parse("agraph (float[batch,4] x) => (float[batch,4] y) { t = Neg(x) y = Abs(t) }")
    proto.graph.value_info.append(onnx.helper.make_tensor_value_info("t", 1, [7, 7]))
    assert optimize(prepare(proto, fix={"batch": 2})).graph.node
    assert caplog.text.count("contradicts the operators") == 1


@pytest.mark.parametrize(
    ("nodes", "expected"),
    [
        ("y = Compress <axis = 0> (x, c) z = Shape(y)", ["n", 2]),
        ("y = If (b) <then_branch = t () => (float[n] p) { p = Compress <axis = 0> (x, c) }, "
         "else_branch = e () => (float[n] q) { q = Neg(x) }> z = Shape(y)", ["n", 2]),
        ("y = Neg(x) z = Shape(y)", [4, 4]),
    ],
)  # fmt: skip
def test_the_name_of_an_output_fixes_no_size(nodes: str, expected: list[int | str]) -> None:
    given = parse(
        f"agraph (float[n] x, bool[n] c, bool b) => (float[n] y, int64[1] z) {{ {nodes} }}"
    )
    after = prepare(given, fix={"n": 4})
    feeds = {
        "x": np.ones(4, np.float32),
        "c": np.array([True, False, True, False]),
        "b": np.array(True),
    }
    same_results(given, optimize(after), feeds)
    assert shapes(after)["y"][0] == expected[0]
    assert run(optimize(after), feeds)[1] == expected[1]
