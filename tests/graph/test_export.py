import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import xoptim
from tests.support import load, node_of, parse, replace, run, same_results, types, verify
from xoptim.facts.shapes import Info
from xoptim.graph.export import export_model, value_info
from xoptim.graph.load import load_model
from xoptim.graph.node import Node
from xoptim.graph.tensors import Tensor


def rich_model() -> onnx.ModelProto:
    """A model with something in every corner."""
    proto = parse(
        """agraph (bool c, float[N,3] x, seq(float[2]) s) => (float[N,3] y, float[M] z, float[2] e)
        <float[3] w = {1, 2, 3}, int64 k = {1}> {
          [first] a = Add(x, w)
          b = l.f <alpha = 0.5> (a)
          y = If (c) <
            then_branch = t () => (float[N,3] p) <float[1] v = {2}> { p = Mul(b, v) },
            else_branch = e () => (float[N,3] p)
              { p = custom.Thing <mode = "fast", sizes = [1, 2]> (b) }
          >
          f, "" = MaxPool <kernel_shape = [1]> (y)
          z = ReduceSum <keepdims = 0> (f, k)
          e = SequenceAt(s, k)
        } <domain: "l", opset_import: ["" : 18]> f <alpha> (u) => (v) { v = Elu <alpha:
          float = @alpha> (u) }""",
        domains={"l": 1, "custom": 2},
    )
    proto.producer_name, proto.producer_version, proto.domain = "tool", "1.0", "org.example"
    proto.model_version, proto.doc_string = 7, "a model"
    proto.metadata_props.add(key="author", value="me")
    graph = proto.graph
    graph.doc_string = "a graph"
    graph.metadata_props.add(key="g", value="1")
    graph.node[0].doc_string = "a node"
    graph.node[0].metadata_props.add(key="n", value="2")
    graph.value_info.append(helper.make_tensor_value_info("a", TensorProto.FLOAT, ["N", 3]))
    graph.value_info[0].metadata_props.add(key="v", value="3")
    graph.input[1].doc_string = "an input"
    graph.input[1].type.denotation = "IMAGE"
    graph.output[0].doc_string = "an output"
    graph.initializer[0].doc_string = "a weight"
    annotation = graph.quantization_annotation.add(tensor_name="w")
    annotation.quant_parameter_tensor_names.add(key="SCALE_TENSOR", value="k")
    values = numpy_helper.from_array(np.array([3.0], np.float32), "sparse")
    graph.sparse_initializer.append(
        helper.make_sparse_tensor(
            values, numpy_helper.from_array(np.array([1], np.int64), "i"), [4]
        )
    )
    training = proto.training_info.add()
    training.algorithm.CopyFrom(
        helper.make_graph([helper.make_node("Neg", ["a"], ["loss"])], "step", [], [])
    )
    proto.functions[0].doc_string = "a function"
    proto.functions[0].metadata_props.add(key="f", value="4")
    proto.functions[0].value_info.append(
        helper.make_tensor_value_info("v", TensorProto.FLOAT, None)
    )
    return proto


def test_an_untouched_model_is_written_byte_by_byte_as_it_was() -> None:
    proto = rich_model()
    again = export_model(load_model(proto))
    assert again == proto
    assert again.SerializeToString(deterministic=True) == proto.SerializeToString(
        deterministic=True
    )


def test_a_graph_without_name_keeps_none() -> None:
    proto = parse("agraph (bool c, float[n] x) => (float[n] y) { y = Neg(x) }")
    proto.graph.ClearField("name")
    proto.graph.value_info.append(helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n"]))
    assert export_model(load_model(proto)) == proto


def test_the_result_shares_nothing_with_the_source() -> None:
    proto = rich_model()
    before = proto.SerializeToString(deterministic=True)
    again = export_model(load_model(proto))
    again.graph.node[0].op_type = "Changed"
    again.graph.node[2].attribute[0].g.node[0].op_type = "Changed"
    again.graph.initializer[0].raw_data = b""
    again.functions[0].node[0].op_type = "Changed"
    again.metadata_props[0].value = "Changed"
    assert proto.SerializeToString(deterministic=True) == before


def test_changes_are_written_and_the_rest_survives() -> None:
    proto = rich_model()
    model = load_model(proto)
    graph = model.graph
    replace(graph, [node_of(graph, "MaxPool")], [Node("Identity", ["y"], ["f"])])
    body = next(g for g in model.graphs() if g.name == "t")
    replace(body, list(body.nodes), [Node("Sub", ["b", "v"], ["p"])])
    verify(model)
    again = export_model(model)
    assert [n.op_type for n in again.graph.node] == [
        "Add",
        "f",
        "If",
        "Identity",
        "ReduceSum",
        "SequenceAt",
    ]
    branches = {a.name: a.g for a in again.graph.node[2].attribute}
    assert branches["then_branch"].node[0].op_type == "Sub"
    assert branches["else_branch"] == proto.graph.node[2].attribute[1].g
    for node in (again.graph.node[3], branches["then_branch"].node[0]):
        node.CopyFrom(proto.graph.node[3])
    for field in (
        "doc_string",
        "metadata_props",
        "value_info",
        "quantization_annotation",
        "sparse_initializer",
        "input",
    ):
        assert getattr(again.graph, field) == getattr(proto.graph, field), field
    assert again.training_info == proto.training_info
    assert again.functions == proto.functions


def test_what_is_gone_is_no_longer_declared() -> None:
    proto = parse(
        "agraph (float[n] x) => (float[n] y) <float[1] w = {1}> { t = Neg(x) u = Add(t, w) "
        "y = Abs(u) }"
    )
    for name in ("t", "u"):
        proto.graph.value_info.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n"]))
    proto.graph.quantization_annotation.add(tensor_name="u")
    model = load_model(proto)
    graph = model.graph
    replace(graph, [node_of(graph, "Add"), node_of(graph, "Abs")], [Node("Exp", ["t"], ["y"])])
    graph.remove_initializer("w")
    again = export_model(model)
    assert [v.name for v in again.graph.value_info] == ["t"]
    assert not again.graph.quantization_annotation
    assert not again.graph.initializer


def test_domains_that_rewrites_bring_in_are_imported() -> None:
    model = load(
        'agraph (float[n] x) => (float[n] y) { y = l.f(x) } <domain: "l", opset_import: ["" : 18]>'
        " f (u) => (v) { v = Neg(u) }",
        domains={"l": 1},
    )
    model.opsets["com.microsoft"] = 1
    model.functions[0].body.opsets["new"] = 2
    again = export_model(model)
    assert {o.domain: o.version for o in again.opset_import} == {"": 18, "l": 1, "com.microsoft": 1}
    assert {o.domain: o.version for o in again.functions[0].opset_import} == {"": 18, "new": 2}


def test_constants_of_a_function_become_nodes() -> None:
    model = load(
        'agraph (float[2] x) => (float[2] y) { y = l.f(x) } <domain: "l", opset_import: ["" : 18]>'
        " f (u) => (v) { v = Neg(u) }",
        domains={"l": 1},
    )
    body = model.functions[0].body
    body.add_initializer("k", Tensor.from_array(np.array([3.0], np.float32)))
    replace(body, list(body.nodes), [Node("Add", ["u", "k"], ["v"])])
    again = export_model(model)
    assert [n.op_type for n in again.functions[0].node] == ["Constant", "Add"]
    assert run(again, {"x": np.zeros(2, np.float32)})[0].tolist() == [3, 3]


def old_format() -> onnx.ModelProto:
    """Version 3 of the format, in which every initializer is listed as an input."""
    weights = [numpy_helper.from_array(np.full(2, i, np.float32), f"w{i}") for i in range(2)]
    values = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, [2])
        for name in ("w0", "x", "w1", "y")
    ]
    nodes = [
        helper.make_node("Add", ["x", "w0"], ["t"]),
        helper.make_node("Mul", ["t", "w1"], ["y"]),
    ]
    graph = helper.make_graph(nodes, "g", values[:3], values[3:], weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 8)], ir_version=3)


def test_initializers_of_the_old_format_are_inputs() -> None:
    proto = old_format()
    model = load_model(proto)
    assert export_model(model) == proto
    graph = model.graph
    graph.add_initializer("k", Tensor.from_array(np.ones(2, np.float32)))
    replace(graph, [node_of(graph, "Mul")], [Node("Sub", ["t", "k"], ["y"])])
    graph.remove_initializer("w1")
    again = export_model(model)
    assert (again.ir_version, [value.name for value in again.graph.input]) == (
        4,
        ["x"],
    ), "no other inputs appear"
    onnx.checker.check_model(again)
    assert run(again, {"x": np.zeros(2, np.float32)})[0].tolist() == [-1, -1]


def test_constants_in_subgraphs_of_the_old_format() -> None:
    proto = parse(
        "agraph (bool c, float[2] x) => (float[2] y) { "
        "y = If (c) <then_branch = t () => (float[2] q) { q = Neg(x) }, else_branch = e () "
        "=> (float[2] q) { q = Abs(x) }> }",
        opset=8,
        ir_version=3,
    )
    model = load_model(proto)
    body = next(g for g in model.graphs() if g.name == "t")
    body.add_initializer("k", Tensor.from_array(np.ones(2, np.float32)))
    replace(body, list(body.nodes), [Node("Add", ["x", "k"], ["q"])])
    again = export_model(model)
    onnx.checker.check_model(again)
    branch = again.graph.node[0].attribute[0].g
    assert not branch.input, "a branch of If takes no inputs"
    assert run(again, {"c": np.array(True), "x": np.zeros(2, np.float32)})[0].tolist() == [1, 1]


@pytest.mark.parametrize(
    ("info", "text"),
    [
        (Info(), "unknown"),
        (Info(TensorProto.FLOAT), "elem_type: 1"),
        (Info(TensorProto.INT64, (2, 3)), "dim_value: 3"),
        (Info(container="sequence", element=Info(TensorProto.FLOAT, (2,))), "sequence_type"),
        (Info(container="optional", element=Info(TensorProto.FLOAT)), "optional_type"),
    ],
)
def test_declarations(info: Info, text: str) -> None:
    proto = value_info("r", info)
    assert proto.name == "r"
    assert text in str(proto) or (text == "unknown" and not proto.type.WhichOneof("value"))


SCANNED = """agraph (float[n,4] x, int64 trips) => (float[t,n,4] y) <int64[3] same = {0, 0, 0}> {
      last, all = Loop (trips, "", x) <body = b (int64 i, bool c, float[] u) => (bool[] d,
        float[] v, float[] w) {
        v = Neg(u) d = Identity(c) w = Identity(v)
      }>
      r = Reshape(all, same)
      s = Exp(r)
      y = Scan (s) <body = f (float[] p) => (float[] q) { q = Neg(p) }, num_scan_inputs = 1>
    }"""


def test_the_rank_of_what_a_scan_reads_is_declared() -> None:
    """onnxruntime runs the original because of the Reshape; without the Reshape, it cannot infer
    the rank of ``q``.
    """
    original = parse(SCANNED)
    optimized = xoptim.optimize(original)
    assert "Reshape" not in types(optimized)
    (declared,) = [value for value in optimized.graph.value_info if value.name == "s"]
    assert [d.dim_value for d in declared.type.tensor_type.shape.dim] == [0, 0, 4]
    feeds = {"x": np.ones((2, 4), np.float32), "trips": np.array(3)}
    same_results(original, optimized, feeds)
    assert xoptim.optimize(optimized) == optimized
    del optimized.graph.value_info[:]
    with pytest.raises(Exception, match="must have the shape set"):
        run(optimized, feeds)


def test_a_declaration_that_cannot_be_right_is_written_right() -> None:
    """The branches of the If differ in rank: before the condition is computed, the declaration is
    not known to be wrong.
    """
    text = (
        "agraph (float[n,4] x) => (float[m] y) <bool c = {1}> { t = Identity(x) "
        "y = If (c) < then_branch = f () => (p) { p = Neg(t) }, else_branch = e () "
        "=> (q) { q = ReduceSum<keepdims = 0>(t) } > }"
    )
    model = parse(text)
    model.graph.output[0].doc_string = "kept"
    (output,) = xoptim.optimize(model).graph.output
    assert helper.printable_value_info(output) == "%y[FLOAT, nx4]"
    assert output.doc_string == "kept"
    assert model.graph.output[0].type.tensor_type.shape.dim[0].dim_param == "m"


def test_one_declared_shape_that_is_wrong_makes_the_others_doubtful(
    caplog: pytest.LogCaptureFixture,
) -> None:
    proto = parse(
        "agraph (float[N,3] x) => (z) { y = Neg(x) t = test.Op(y) z = Abs(t) }", domains={"test": 1}
    )
    proto.graph.value_info.append(
        helper.make_tensor_value_info("y", TensorProto.FLOAT, ["N", 4], doc_string="y")
    )
    proto.graph.value_info.append(helper.make_tensor_value_info("t", TensorProto.FLOAT, [2, 7]))
    (found,) = export_model(load_model(proto)).graph.value_info
    assert "declared shapes" in caplog.text
    assert (found.name, found.doc_string) == ("y", "y")
    assert [each.dim_param or each.dim_value for each in found.type.tensor_type.shape.dim] == [
        "N",
        3,
    ]
