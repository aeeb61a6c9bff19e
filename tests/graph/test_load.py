import gc
import logging
import re
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from tests.support import load, node_of, parse, run, text_of, types, verify
from xoptim.facts.errors import ModelError
from xoptim.graph.export import export_model
from xoptim.graph.load import infer_model, load_model, read_proto
from xoptim.system.collection import collection_paused

UNSORTED = "agraph (float[n] x) => (float[n] y) { y = Relu(u) u = Abs(t) w = Exp(x) t = Neg(x) }"


def value(name: str, *shape: int | str) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)


def test_nodes_out_of_order_are_sorted_with_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "xoptim"):
        model = load(UNSORTED)
    assert re.search("'agraph' .*topological order", caplog.text)
    assert types(model) == ["Exp", "Neg", "Abs", "Relu"]
    assert model.graph.info_of("y").rank == 1
    verify(model)
    caplog.clear()
    load_model(export_model(model))
    assert not caplog.text


def test_captures_of_later_results_are_sorted(caplog: pytest.LogCaptureFixture) -> None:
    for branch in ("t () => (float[n] q) { q = Neg(a) }", "t () => (a) { }"):
        caplog.clear()
        model = load(
            f"agraph (bool c, float[n] x) => (float[n] y) {{ y = If (c) <then_branch = {branch}, "
            "else_branch = e () => (float[n] q) { q = Abs(x) }> a = Exp(x) }"
        )
        assert types(model) == ["Exp", "If"]
        assert "topological order" in caplog.text
        verify(model)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "agraph (float[n] x) => (float[n] y) { y = Add(x, u) u = Neg(y) }",
            "form a cycle through 'Add'",
        ),
        ("agraph (float[n] x) => (float[n] y) { y = Add(x, y) }", "form a cycle"),
        (
            (
                "agraph (bool c, float[n] x) => (float[n] y) { "
                "y = If (c) <then_branch = t () => (float[n] q) { q = Neg(y) }, else_branch = e () "
                "=> (float[n] q) { q = Abs(x) }> }"
            ),
            "form a cycle through 'If'",
        ),
        (
            "agraph (float[n] x) => (float[n] y) { t = Neg(x) t = Abs(x) y = Relu(t) }",
            "'t' is produced twice",
        ),
        (
            "agraph (float[n] x) => (float[n] y) { x = Neg(y) y = Abs(x) }",
            "'x' is produced .* an input",
        ),
        (
            "agraph (float[n] x) => (float[n] w) <float[1] w = {1}> { w = Neg(x) }",
            "'w' is produced ",
        ),
        (
            "agraph (float[n] x) => (float[n] y) { y = Neg(nothing) }",
            "'Neg' reads 'nothing'",
        ),
        ("agraph (float[n] x) => (float[n] y) { u = Neg(x) }", "'y' is not produced"),
        (
            (
                "agraph (bool c, float[n] x) => (float[n] y) { "
                "y = If (c) <then_branch = t () => (float[n] q) { q = Neg(k) }, else_branch = e () "
                "=> (float[n] q) { k = Abs(x) q = Abs(k) }> }"
            ),
            "'Neg' reads 'k'",
        ),
        (
            (
                "agraph (bool c, float[n] x) => (float[n] y) { "
                "y = If (c) <then_branch = t () => (float[n] q) { }, else_branch = e () "
                "=> (float[n] q) { q = Abs(x) }> }"
            ),
            "'q' is not produced",
        ),
    ],
)
def test_models_that_are_not_graphs(text: str, message: str) -> None:
    with pytest.raises(ModelError, match=message):
        load(text)


def test_declared_twice() -> None:
    proto = helper.make_model(helper.make_graph([], "g", [value("x"), value("x")], []))
    with pytest.raises(ModelError, match=r"input 'x' .*twice"):
        load_model(proto)
    weight = numpy_helper.from_array(np.zeros(1), "w")
    proto = helper.make_model(helper.make_graph([], "g", [], [], [weight, weight]))
    with pytest.raises(ModelError, match=r"initializer 'w' .*twice"):
        load_model(proto)
    with pytest.raises(ModelError, match="no graph"):
        load_model(onnx.ModelProto())


def model_with_listed_weight(ir_version: int) -> onnx.ModelProto:
    weight = numpy_helper.from_array(np.ones(2, np.float32), "w")
    nodes = [helper.make_node("Add", ["x", "w"], ["y"])]
    graph = helper.make_graph(nodes, "g", [value("x", 2), value("w", 2)], [value("y", 2)], [weight])
    return helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", 8)], ir_version=ir_version
    )


def test_an_initializer_that_is_an_input_too() -> None:
    old = load_model(model_with_listed_weight(3))
    assert old.graph.tensor("w") is not None, "before version 4 every initializer must be listed"
    assert not old.graph.overridable
    new = load_model(model_with_listed_weight(4))
    assert new.graph.tensor("w") is None, "the caller may give another value"
    assert new.graph.overridable == {"w"}
    unset = load_model(model_with_listed_weight(0))
    assert unset.graph.overridable == {"w"}, "no version is the newest one"
    for model in (old, new, unset):
        verify(model)
        assert model.graph.inputs == ["x", "w"]


NESTED = """agraph (bool c, float[n] x) => (float[n] y) {
  a = Relu(x)
  y = If (c) <
    then_branch = t () => (float[n] p) {
      s = Neg(a)
      p = If (c) <
        then_branch = tt () => (float[n] q) { r = Add(s, a) q = Mul(r, x) },
        else_branch = te () => (float[n] q) { r = Sub(s, a) q = Neg(r) }
      >
    },
    else_branch = e () => (float[n] p) { s = Abs(a) p = Neg(s) }
  >
}"""


def test_captures_two_levels_deep_and_the_same_names_in_siblings() -> None:
    model = load(NESTED)
    verify(model)
    graph = model.graph
    assert len(graph.captures("a")) == 4
    assert [n.op_type for n in graph.captures("x")] == ["Mul"]
    outer, then_branch, first, second, other = model.graphs()
    assert outer is graph
    assert [g.name for g in (then_branch, first, second, other)] == ["t", "tt", "te", "e"]
    assert [n.op_type for n in then_branch.captures("s")] == ["Add", "Sub"]
    assert first.scope("s") is then_branch
    assert other.producer("s") is node_of(other, "Abs")
    assert not other.captures("s")
    assert all(g.info_of(g.outputs[0]).rank == 1 for g in model.graphs())
    assert model.names.fresh("r") == "r_1"


def test_functions() -> None:
    text = (
        "agraph (float[n] x) => (float[n] y) { "
        'y = l.f <a = 0.5> (x) } <domain: "l", opset_import: ["" : 17, "l" : 1]> f <a> (u) '
        "=> (v) { w = Elu <alpha: float = @a> (u) "
        'v = l.g(w) } <domain: "l", opset_import: ["" : 16]> g (u) => (v) { v = Neg(u) }'
    )
    model = load(text, domains={"l": 1})
    assert [f.key for f in model.functions] == [("l", "f", ""), ("l", "g", "")]
    body = model.functions[0].body
    assert (body.inputs, body.outputs, body.opsets) == (["u"], ["v"], {"": 17, "l": 1})
    assert (body.parent, body.model) == (None, model)
    assert [g.name for g in model.graphs()] == ["f", "g", "agraph"]
    verify(model)


@pytest.mark.parametrize(
    "bodies",
    [
        ["f (u) => (v) { v = l.f(u) }"],
        ["f (u) => (v) { v = l.g(u) }", "g (u) => (v) { w = Neg(u) v = l.f(w) }"],
        [
            "f (u) => (v) { c = Constant <value = bool {1}> () "
            "v = If (c) <then_branch = t () => (q) { q = l.f(u) }, else_branch = e () "
            "=> (q) { q = Neg(u) }> }"
        ],
    ],
)
def test_functions_that_call_themselves(bodies: list[str]) -> None:
    functions = " ".join(
        f'<domain: "l", opset_import: ["" : 18, "l" : 1]> {body}' for body in bodies
    )
    with pytest.raises(ModelError, match="'f' calls itself"):
        load(f"agraph (float[n] x) => (float[n] y) {{ y = l.f(x) }} {functions}", domains={"l": 1})


def test_a_broken_function() -> None:
    with pytest.raises(ModelError, match="reads 'nothing'"):
        load(
            "agraph (float[n] x) => (float[n] y) { y = l.f(x) } "
            '<domain: "l", opset_import: ["" : 18]> f (u) => (v) { v = Neg(nothing) }',
            domains={"l": 1},
        )


def test_sparse_initializers() -> None:
    values = numpy_helper.from_array(np.array([3.0], np.float32), "s")
    indices = numpy_helper.from_array(np.array([1], np.int64), "s_indices")
    graph = helper.make_graph(
        [helper.make_node("Identity", ["s"], ["y"])], "g", [], [value("y", 4)]
    )
    graph.sparse_initializer.append(helper.make_sparse_tensor(values, indices, [4]))
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)
    model = load_model(proto)
    assert model.graph.inputs == []
    assert model.graph.tensor("s") is None
    assert model.graph.info_of("s").container == "sparse"
    assert export_model(model) == proto


def test_training_info_pins_names() -> None:
    proto = parse("agraph (float[n] x) => (float[n] y) { t = Neg(x) u = Abs(t) y = Relu(u) }")
    training = proto.training_info.add()
    training.algorithm.CopyFrom(
        helper.make_graph([helper.make_node("Exp", ["t"], ["loss"])], "a", [], [])
    )
    training.update_binding.add(key="u", value="loss")
    model = load_model(proto)
    assert {"t", "u", "loss"} <= model.graph.pinned
    assert export_model(model) == proto


def test_the_standard_domain_under_its_full_name() -> None:
    proto = parse("agraph (float[n] x) => (float[n] y) { y = Softmax(x) }")
    proto.opset_import[0].domain = proto.graph.node[0].domain = "ai.onnx"
    model = load_model(proto)
    assert model.opsets == {"": 18}
    assert node_of(model, "Softmax").get_attribute("axis") == -1
    assert model.graph.info_of("y").rank == 1
    assert export_model(model) == proto


def test_no_import_of_the_standard_operator_set() -> None:
    proto = parse("agraph (float[n] x) => (y) { y = Neg(x) }")
    del proto.opset_import[:]
    model = load_model(proto)
    assert node_of(model, "Neg").opset == 0
    assert export_model(model) == proto


def test_degenerate_graphs() -> None:
    for proto in (
        helper.make_model(helper.make_graph([], "empty", [], [])),
        helper.make_model(helper.make_graph([], "through", [value("x", "n")], [value("x", "n")])),
        helper.make_model(
            helper.make_graph(
                [],
                "stored",
                [],
                [value("w", 1)],
                [numpy_helper.from_array(np.ones(1, np.float32), "w")],
            )
        ),
    ):
        model = load_model(proto)
        verify(model)
        assert export_model(model) == proto
        assert len(model.graph.nodes) == 0


def test_facts_can_be_omitted_and_found_later() -> None:
    model = load_model(parse("agraph (float[n] x) => (y) { y = Neg(x) }"), infer=False)
    assert model.graph.info_of("y").rank is None
    infer_model(model)
    assert model.graph.info_of("y").rank == 1


def test_loading_does_not_modify_what_is_given() -> None:
    for text in (NESTED, UNSORTED):
        proto = parse(text)
        before = proto.SerializeToString(deterministic=True)
        text_of(load_model(proto))
        assert proto.SerializeToString(deterministic=True) == before


def test_reading_files(tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    proto = parse(UNSORTED)
    onnx.save(proto, path)
    assert read_proto(path) == proto
    raw = path.read_bytes()
    for content, message in (
        (raw[:-3], "not an ONNX model, or it is truncated"),
        (b"\xff\xff\xffnot at all", "not an ONNX model"),
        (b"", "it is empty"),
        (helper.make_opsetid("", 3).SerializeToString(), "not an ONNX model"),
    ):
        path.write_bytes(content)
        with pytest.raises(ModelError, match=message):
            read_proto(path)
    for bad, message in ((tmp_path / "none.onnx", "No such file"), (tmp_path, "Is a directory")):
        with pytest.raises(ModelError, match=message):
            read_proto(bad)


def test_collection_is_switched_on_again() -> None:
    for enabled in (True, False):
        (gc.enable if enabled else gc.disable)()
        with collection_paused():
            assert not gc.isenabled()
        assert gc.isenabled() == enabled
    gc.enable()


def test_a_deep_model() -> None:
    body = "q = Neg(x)"
    for depth in range(12):
        body = (
            f"q = If (c) <then_branch = t{depth} () "
            f"=> (float[2] q) {{ {body} }}, else_branch = e{depth} () => (float[2] q) {{ "
            "q = Abs(x) }>"
        )
    text = f"agraph (bool c, float[2] x) => (float[2] q) {{ {body} }}"
    model = load(text)
    verify(model)
    feeds = {"c": np.array(True), "x": np.array([1, -1], np.float32)}
    assert run(export_model(model), feeds)[0].tolist() == [-1, 1]
