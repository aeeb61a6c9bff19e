"""The helpers of the documentation."""

import pathlib

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from tests.support import run, types
from xoptim.doc import demo_mlp_model, pretty_onnx, to_dot

NESTED = """
<ir_version: 10, opset_import: ["" : 18, "local" : 1]>
agraph (bool c, float[N,3] x) => (float[M,3] y, seq(float[2]) s) <float[2] w = {1, 2}> {
    y = If (c) <
        then_branch = t () => (float[N,3] a) { a = local.scaled <alpha = 0.5> (x) },
        else_branch = e () => (b) { z = Constant <value = float {1.5}> () b = Mul (x, z) }
    >
    s = SequenceConstruct (w, w)
}
<domain: "local",
  opset_import: ["" : 18]> scaled <alpha> (a) => (b) { b = LeakyRelu <alpha: float = @alpha> (a) }
"""


def test_demo_model_is_written_and_runs(tmp_path: pathlib.Path) -> None:
    model = demo_mlp_model(tmp_path / "mlp.onnx")
    onnx.checker.check_model(model, full_check=True)
    assert onnx.load(tmp_path / "mlp.onnx") == model == demo_mlp_model()
    assert types(model) == ["Transpose", "MatMul", "Add", "Relu", "Transpose", "MatMul", "Add"]
    x = np.ones((3, 10), np.float32)
    (got,) = run(model, {"x": x})
    weights = {tensor.name: numpy_helper.to_array(tensor) for tensor in model.graph.initializer}
    hidden = np.maximum(x @ weights["layers.0.weight"].T + weights["layers.0.bias"], 0)
    np.testing.assert_allclose(
        got, hidden @ weights["layers.2.weight"].T + weights["layers.2.bias"], rtol=1e-5
    )


def test_text_of_the_demo_model() -> None:
    assert pretty_onnx(demo_mlp_model()).splitlines()[:8] == [
        "opset: ai.onnx 18",
        "input: x float[3,10]",
        "init: layers.0.weight float[32,10]",
        "init: layers.0.bias float[32]",
        "init: layers.2.weight float[1,32]",
        "init: layers.2.bias float[1] = [0.124469]",
        "Transpose(layers.0.weight, perm=[1, 0]) -> layers.0.weight.t float[10,32]",
        "MatMul(x, layers.0.weight.t) -> linear.product float[3,32]",
    ]


def test_text_of_subgraphs_and_functions() -> None:
    assert pretty_onnx(onnx.parser.parse_model(NESTED)).splitlines() == [
        "opset: ai.onnx 18, local 1",
        "input: c bool[]",
        "input: x float[N,3]",
        "init: w float[2] = [1, 2]",
        "If(c) -> y float[M,3]",
        "    then_branch:",
        "        local.scaled(x, alpha=0.5) -> a float[N,3]",
        "        output: a float[N,3]",
        "    else_branch:",
        "        Constant(value=float[] = 1.5) -> z",
        "        Mul(x, z) -> b",
        "        output: b ?",
        "SequenceConstruct(w, w) -> s seq(float[2])",
        "output: y float[M,3]",
        "output: s seq(float[2])",
        "function: local.scaled(a, @alpha) -> b",
        "    opset: ai.onnx 18",
        "    LeakyRelu(a, alpha=@alpha) -> b",
    ]


def test_text_of_parts() -> None:
    model = onnx.parser.parse_model(NESTED)
    assert pretty_onnx(model.graph).startswith("input: c bool[]\n")
    assert pretty_onnx(model.functions[0]).startswith("function: local.scaled(a, @alpha) -> b\n")
    node = helper.make_node(
        "Op", ["a", "", "b"], ["c", "", "d"], domain="my", names=["x", "y"], scales=[0.1, 2.0], k=3
    )
    assert pretty_onnx(node) == "my.Op(a, _, b, k=3, names=['x', 'y'], scales=[0.1, 2]) -> c, _, d"


def test_weights_in_other_files_are_not_read() -> None:
    tensor = TensorProto(
        name="w", data_type=TensorProto.FLOAT, dims=[2], data_location=TensorProto.EXTERNAL
    )
    assert pretty_onnx(onnx.GraphProto(initializer=[tensor])) == "init: w float[2] in another file"


def test_picture() -> None:
    lines = to_dot(demo_mlp_model()).splitlines()
    assert lines[0] == "digraph {"
    assert lines[-1] == "}"
    assert '  v6 [label="Transpose\\nperm=[1, 0]"]' in lines
    assert '  v7 -> v8 [label="linear.product\\nfloat[3,32]"]' in lines
    assert sum("->" in line for line in lines) == 12
    assert sum("shape=note" in line for line in lines) == 4


def test_picture_frames_subgraphs_and_draws_captured_values() -> None:
    text = to_dot(onnx.parser.parse_model(NESTED))
    assert text.count("subgraph cluster_") == 2
    assert text.count("{") == text.count("}") == 3
    assert '  v2 [label="x\\nfloat[N,3]", shape=oval]' in text
    assert "  v2 -> v6\n" in text, "the function call in the branch reads x from outside"
    assert 'label="If else_branch"' in text


def test_sparse_initializers() -> None:
    values = numpy_helper.from_array(np.array([1, 2], np.float32), "w")
    indices = numpy_helper.from_array(np.array([0, 5]))
    graph = helper.make_graph(
        [helper.make_node("Relu", ["w"], ["y"])],
        "g",
        [],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [6])],
        sparse_initializer=[helper.make_sparse_tensor(values, indices, [6])],
    )
    assert pretty_onnx(graph).startswith("init: w sparse float[2] = [1, 2] of [6]\n")
    lines = to_dot(helper.make_model(graph)).splitlines()
    assert sum("w\\nsparse float[2] = [1, 2] of [6]" in line for line in lines) == 1
    assert "  v1 -> v2" in lines


@pytest.mark.parametrize("name", ['quo"te', "back\\slash", "a/b:0"])
def test_picture_quotes_any_name(name: str) -> None:
    graph = helper.make_graph(
        [helper.make_node("Relu", [name], ["y"])],
        "g",
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n"])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n"])],
    )
    escaped = name.replace("\\", "\\\\").replace('"', '\\"')
    assert f'v1 [label="{escaped}\\nfloat[n]", shape=oval]' in to_dot(helper.make_model(graph))
