import re

import numpy as np
import onnx
import pytest

from tests.passes.opsets.raised import check, numbers, raised, reason
from tests.support import node_of, parse, run, values_in, verify as verify_tables
from xoptim import optimize
from xoptim.facts.errors import ModelError
from xoptim.facts.shapes import Info
from xoptim.graph.export import export_model
from xoptim.graph.load import load_model
from xoptim.passes.opsets.newest import newest_for, raise_model

X = {"x": numbers(2, 3, 4)}


def test_branches_that_capture_outer_values() -> None:
    text = """agraph (float[2,3,4] x, bool c) => (float[a,b] y) {
        z = Unsqueeze <axes = [0]> (x)
        y = If (c) <then_branch = g () => (float[e,f] p)
                { q = ReduceSum <axes = [0, -1], keepdims = 0> (z) p = Softmax <axis = 0> (q) },
            else_branch = h () => (float[e,f] r)
                { t = Squeeze <axes = [0]> (z) r = ReduceMax <axes = [2], keepdims = 0> (t) }>
    }"""
    for truth in (True, False):
        operators = check(text, 11, 24, {**X, "c": np.array(truth)})
    assert operators == [
        "Unsqueeze",
        "If",
        "ReduceSum",
        "Shape",
        "Flatten",
        "Softmax",
        "Reshape",
        "Squeeze",
        "ReduceMax",
    ]


def test_the_body_of_a_loop() -> None:
    text = """agraph (float[2,3] x, int64 n, bool c) => (float[a,b] y, float[d,e,f] z) {
        y, z = Loop (n, c, x) <body = g (int64 i, bool go, float[a,b] p) => (bool gone,
          float[a,b] q, float[a,b] s) {
            gone = Identity(go) r = Clip <min = -0.5> (p) q = Softmax <axis = 0> (r)
              s = Add(q, x) }>
    }"""
    feeds = {"x": numbers(2, 3), "n": np.array(3), "c": np.array(True)}
    for opset in (7, 10):
        check(text, opset, 24, feeds)


def test_local_functions() -> None:
    text = """agraph (float[2,3,4] x) => (float[a,b,c] y) { t = own.f (x) y = own.g (t) }
        <domain: "own", opset_import: ["" : 11,
          "own" : 1]> f (x) => (y) { z = own.g (x) y = Softmax <axis = 1> (z) }
        <domain: "own",
          opset_import: ["" : 9]> g (x) => (y)
          { t = Unsqueeze <axes = [0]> (x) y = Squeeze <axes = [0]> (t) }"""
    before = parse(text, 11, domains={"own": 1})
    model = load_model(before)
    assert raise_model(model, 14) == 3
    verify_tables(model)
    assert raise_model(model, 14) == 0
    after = export_model(model)
    assert [{o.domain: o.version for o in f.opset_import} for f in after.functions] == [
        {"": 14, "own": 1},
        {"": 14},
    ]
    onnx.checker.check_model(after)
    np.testing.assert_array_equal(
        run(after, X)[0], run(parse(text.replace(": 9", ": 11"), 11, domains={"own": 1}), X)[0]
    )
    assert before.functions[0].opset_import[0].version == 11, "the given model is left unchanged"


def test_other_operator_sets_stay() -> None:
    text = (
        "agraph (float[2,3,4] x) => (float[a,b,c] y) { z = com.microsoft.Gelu(x) "
        "y = Softmax <axis = 2> (z) }"
    )
    model = raised(text, 11, 13, domains={"com.microsoft": 1})
    assert model.opsets == {"": 13, "com.microsoft": 1}


def test_a_model_without_the_standard_set_is_left_unchanged() -> None:
    model = onnx.parser.parse_model("""<ir_version: 8, opset_import: ["com.microsoft" : 1]>
        agraph (float[2] x) => (float[2] y) { y = com.microsoft.Gelu(x) }""")
    loaded = load_model(model)
    assert raise_model(loaded, 20) == raise_model(loaded, newest_for(loaded, "cpu")) == 0
    assert export_model(loaded) == model


def test_names_remarks_and_metadata_stay() -> None:
    proto = parse(
        "agraph (float[2,3,4] x) => (float[a,b,c] y) { [first] y = Softmax <axis = 1> (x) }", 11
    )
    proto.graph.node[0].doc_string = "remark"
    proto.graph.node[0].metadata_props.add(key="from", value="here")
    model = load_model(proto)
    raise_model(model, 13)
    node = node_of(model, "Softmax")
    assert (node.name, node.remark, node.metadata_props()) == ("first", "remark", {"from": "here"})
    assert len({node.name for node in model.graph.nodes}) == 4


def test_facts_stay() -> None:
    model = raised(
        "agraph (float[n,3,4] x) => (float[a,b,c] y) { z = Softmax <axis = 1> (x) y = Neg(z) }",
        11,
        24,
    )
    assert str(model.graph.info_of("z").shape) == str(model.graph.info_of("x").shape)
    assert model.graph.info_of("y") != Info()


@pytest.mark.parametrize(
    ("opset", "given", "target", "expected"),
    [(11, 4, 21, 10), (11, 10, 13, 10), (11, 0, 13, 7), (7, 3, 8, 3)],
)
def test_versions_of_the_file_format(opset: int, given: int, target: int, expected: int) -> None:
    proto = parse(
        "agraph (float[n] x) => (float[n] y) { y = Relu(x) }", opset, ir_version=given or 3
    )
    if not given:
        proto.ClearField("ir_version")
    model = load_model(proto)
    raise_model(model, target)
    assert export_model(model).ir_version == expected


def test_initializers_that_the_format_lists_as_inputs() -> None:
    """A newer format would let callers override them."""
    text = (
        "agraph (float[n,2] x, float[2] w) => (float[n,2] y) <float[2] w = {1, 2}> { "
        "y = Add(x, w) }"
    )
    proto = parse(text, 7, ir_version=3)
    assert [value.name for value in proto.graph.input] == ["x", "w"]
    model = load_model(proto)
    raise_model(model, 13)
    after = export_model(model)
    assert [value.name for value in after.graph.input] == ["x"]
    feeds = {"x": numbers(3, 2)}
    np.testing.assert_array_equal(run(after, feeds)[0], feeds["x"] + np.array([1, 2], np.float32))


@pytest.mark.parametrize("target", [0, -1, 1000, True])
def test_sets_that_do_not_exist(target: int) -> None:
    text = "agraph (float[n] x) => (float[n] y) { y = Relu(x) }"
    assert f"set {target!r}: " in reason(text, 11, target)


def test_models_are_never_lowered() -> None:
    text = "agraph (float[n] x) => (float[n] y) { y = Relu(x) }"
    assert values_in(reason(text, 18, 17)) == ["18", "17"]
    assert raise_model(load_model(parse(text, 18)), 18) == 0


def test_a_node_that_cannot_be_raised_is_named() -> None:
    text = (
        "agraph (float[n] x) => (float[n] y, float[n] m) { z = Clip(x) [drop] y, m = Dropout (z) }"
    )
    assert re.match(r"node 'drop' \(Dropout\) .* 10: .* mask ", reason(text, 7, 24))


def test_declarations_that_contradict_the_model() -> None:
    proto = parse("agraph (float[2,3] x) => (float[2,9] y) { y = Softmax <axis = 0> (x) }", 11)
    with pytest.raises(ModelError, match=r"'y' .* 13: .*'y' .* shape"):
        raise_model(load_model(proto, infer=False), 13)


def test_operators_that_no_set_has() -> None:
    text = "agraph (float[n] x) => (float[n] y) { y = %s (x) }"
    assert "Gelu" in reason(text % "Gelu", 17, 20)
    assert "NoSuchOperator" in reason(text % "NoSuchOperator", 17, 20)


def test_operators_that_only_onnxruntime_has() -> None:
    text = (
        "agraph (float[n,4] x, float[4] s) => (float[n,4] y) { "
        "y = SimplifiedLayerNormalization <axis = -1> (x, s) }"
    )
    raised(text, 17, 24)


@pytest.mark.parametrize("target", [17, 24])
def test_operators_that_onnxruntime_had_before_onnx(target: int) -> None:
    text = (
        "agraph (float[n,4] x, float[4] s) => (float[n,4] y) { "
        "y = LayerNormalization <axis = -1> (x, s) }"
    )
    assert check(text, 11, target, {"x": numbers(3, 4), "s": numbers(4)}) == ["LayerNormalization"]


def test_a_function_that_hides_an_operator() -> None:
    text = """agraph (float[2,3,4] x) => (float[a,b,c] y) { z = Softmax(x) y = Flatten(z) }
        <domain: "", opset_import: ["own" : 1]> Flatten (x) => (y) { y = own.g (x) }
        <domain: "own", opset_import: ["" : 11]> g (x) => (y) { y = Relu (x) }"""
    assert "the name Flatten" in reason(text, 11, 13, domains={"own": 1})


def test_graphs_for_training() -> None:
    proto = parse("agraph (float[n] x) => (float[n] y) { y = Relu(x) }", 11)
    proto.training_info.add().algorithm.node.add(op_type="Relu", input=["x"], output=["z"])
    with pytest.raises(ModelError, match="training graphs"):
        raise_model(load_model(proto), 13)


UNKNOWN_RANK = """agraph (float[a,b,c] x, int64[r] s) => (float[d,e,f] y) {
    p = Reshape(x, s) q = Softmax <axis = AXIS> (p) t = Sigmoid(q) u = LogSoftmax <axis = AXIS> (t)
      y = Neg(u) }"""


@pytest.mark.parametrize("target", [13, 24])
def test_the_last_axis_of_any_rank_needs_no_further_nodes(target: int) -> None:
    text = UNKNOWN_RANK.replace("AXIS", "-1")
    operators = check(text, 11, target, {**X, "s": np.array([2, 3, 4])})
    assert operators == ["Reshape", "Softmax", "Sigmoid", "LogSoftmax", "Neg"]


@pytest.mark.parametrize("shape", ["a,b,c", "2,3,4"])
def test_the_newest_set_of_a_small_model_adds_no_nodes(shape: str) -> None:
    text = f"""agraph (float[{shape}] x) => (float[d,e,f] y) {{
        p = Relu(x) q = Softmax <axis = 1> (p) t = Sigmoid(q) u = Softmax <axis = 1> (t)
          y = Neg(u) }}"""
    assert newest_for(load_model(parse(text, 11)), "cpu") == 12
    after = optimize(parse(text, 11), opset="newest")
    assert [node.op_type for node in after.graph.node] == [
        "Relu",
        "Softmax",
        "Sigmoid",
        "Softmax",
        "Neg",
    ]
    assert check(text, 11, 14, X).count("Flatten") == 2, "a number is obeyed"
    layers = " ".join(f"v{n + 1} = Tanh(v{n})" for n in range(130))
    large = text.replace("y = Neg(u)", f"v0 = Neg(u) {layers} y = Abs(v130)")
    assert newest_for(load_model(parse(large, 11)), "cpu") > 20
