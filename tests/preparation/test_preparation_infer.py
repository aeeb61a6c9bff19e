"""Shapes of all results, declared in the model."""

import onnx

from tests.support import parse
from xoptim import infer


def declared(graph: onnx.GraphProto) -> dict[str, list[int | str]]:
    return {
        value.name: [
            dim.dim_param or dim.dim_value or "?" for dim in value.type.tensor_type.shape.dim
        ]
        for value in graph.value_info
    }


def test_results_are_declared() -> None:
    text = """agraph (float[batch,seq,12] x, bool c) => (y) <int64[4] s = {0, 0, 3, 4}> {
        r = Reshape(x, s) t = Transpose <perm = [0, 2, 1, 3]> (r) f = Flatten <axis = 2> (t)
        y = If (c) <then_branch = a () => (p) { n = Neg(f) p = Abs(n) },
          else_branch = b () => (q) { q = Exp(f) }>
    }"""
    after = infer(parse(text))
    onnx.checker.check_model(after, full_check=True)
    found = declared(after.graph)
    assert found["r"] == ["batch", "seq", 3, 4]
    assert found["t"] == ["batch", 3, "seq", 4]
    assert found["f"] == ["3*batch", "4*seq"]
    assert declared(after.graph.node[3].attribute[0].g)["n"] == ["3*batch", "4*seq"]
    assert not parse(text).graph.value_info


def test_a_second_time_changes_nothing() -> None:
    after = infer(parse("agraph (float[n,4] x) => (float[n,4] y) { t = Neg(x) y = Abs(t) }"))
    assert infer(after).SerializeToString() == after.SerializeToString()


def test_wrong_declarations_are_dropped() -> None:
    model = parse("agraph (float[n,4] x) => (float[n,4] y) { t = Neg(x) y = Abs(t) }")
    model.graph.value_info.append(onnx.helper.make_tensor_value_info("t", 1, [7, 7]))
    assert declared(infer(model).graph) == {"t": ["n", 4]}


def test_numbers_win_over_declared_names() -> None:
    model = parse(
        """agraph (float[n,4] x) => (float[a,b,c] y, float[d] s) <int64[3] shape = {-1, 2, 2}> {
        r = Reshape(x, shape) y = Relu(r) s = ReduceSum <keepdims = 0> (x, axis) }"""
    )
    model.graph.initializer.append(
        onnx.helper.make_tensor("axis", onnx.TensorProto.INT64, [1], [0])
    )
    found = infer(model).graph
    sizes = [
        [dim.dim_param or dim.dim_value for dim in value.type.tensor_type.shape.dim]
        for value in found.output
    ]
    assert sizes == [["a", 2, 2], [4]]


def test_a_missing_output_shape_is_added() -> None:
    model = parse("agraph (float[n,4] x) => (float[n,4] y) { y = Relu(x) }")
    model.graph.output[0].type.tensor_type.ClearField("shape")
    (value,) = infer(model).graph.output
    assert [dim.dim_param or dim.dim_value for dim in value.type.tensor_type.shape.dim] == ["n", 4]
