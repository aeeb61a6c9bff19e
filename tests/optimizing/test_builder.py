"""The public door."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import xoptim
from tests.engine.rules import NegNegPattern, chain, renaming
from tests.support import parse, run, same_results, text_of, types, verify
from xoptim import (
    GraphBuilder,
    ModelError,
    OptimizationOptions,
    OptimizationReport,
    UnknownPatternError,
    optimize,
)
from xoptim.facts.dims import named

FLOAT = TensorProto.FLOAT


def test_everything_that_is_promised_is_there() -> None:
    assert all(hasattr(xoptim, name) for name in xoptim.__all__)
    assert xoptim.__all__ == sorted(xoptim.__all__)
    assert len(xoptim.__all__) <= 50
    assert set(dir(xoptim)) >= set(xoptim.__all__)
    with pytest.raises(AttributeError, match=r"'xoptim' .*'optimise'"):
        _ = xoptim.optimise  # type: ignore[attr-defined]


def test_no_package_is_named_like_a_public_function() -> None:
    rooms = {
        path.stem
        for path in Path(xoptim.__file__).parent.iterdir()
        if path.suffix == ".py" or path.is_dir()
    }
    assert not rooms & set(xoptim.__all__)


# ------------------------------------------------------------------ optimize


def test_optimize() -> None:
    proto = parse(chain("Neg", "Neg", "Abs"))
    reports: list[OptimizationReport] = []
    after = optimize(proto, patterns=NegNegPattern, report=reports.append)
    assert types(after) == ["Abs"]
    assert proto == parse(chain("Neg", "Neg", "Abs"))
    (report,) = reports
    assert (report.applied, report.nodes_before, report.nodes_after, report.exactness) == (
        {"NegNeg": 1},
        3,
        1,
        "exact",
    )
    assert report.rows


def test_options_and_changes() -> None:
    options = OptimizationOptions(patterns=[NegNegPattern, renaming("Abs", "Exp")])
    proto = parse(chain("Neg", "Neg", "Abs"))
    assert types(optimize(proto, options)) == ["Exp"]
    assert types(optimize(proto, options, drop=("NegNeg",))) == ["Neg", "Neg", "Exp"]
    assert options.drop == ()
    with pytest.raises(TypeError, match="no_such_option"):
        optimize(proto, no_such_option=1)  # type: ignore[call-overload]
    with pytest.raises(UnknownPatternError, match=r"'defaut'.*'default'"):
        optimize(proto, patterns="defaut")


def test_a_model_survives_optimization_in_all_its_parts() -> None:
    proto = parse(
        "agraph (float[N,3] x) => (float[N,3] y) { a = Neg(x) b = Neg(a) c = l.f(b) y = Abs(c) } "
        '<domain: "l", opset_import: ["" : 18]> f (u) => (v) { v = Exp(u) }',
        domains={"l": 1},
    )
    proto.metadata_props.add(key="author", value="me")
    proto.producer_name, proto.doc_string, proto.graph.doc_string = "tool", "model", "graph"
    proto.graph.value_info.append(helper.make_tensor_value_info("c", FLOAT, ["N", 3]))
    proto.graph.node[3].doc_string = "last"
    after = optimize(proto, patterns=NegNegPattern)
    assert types(after) == ["f", "Abs"]
    assert (after.producer_name, after.doc_string, after.graph.doc_string) == (
        "tool",
        "model",
        "graph",
    )
    assert (after.metadata_props, after.functions, after.graph.value_info) == (
        proto.metadata_props,
        proto.functions,
        proto.graph.value_info,
    )
    assert after.graph.node[1] == proto.graph.node[3]
    same_results(proto, after, {"x": np.array([[1, -2, 3]], np.float32)})


# ------------------------------------------------------------------ building


def test_building_from_nothing() -> None:
    gr = GraphBuilder(18)
    gr.make_tensor_input("x", FLOAT, ["batch", 4])
    weight = gr.make_initializer("w", np.ones((4, 2), np.float32))
    product = gr.op.MatMul("x", weight)
    total = gr.op.Add(product, 1)
    result = gr.make_node("Relu", total, "y", name="last")
    assert result == "y"
    gr.make_tensor_output("y")
    assert gr.get_shape("y") == (named("batch"), 2)
    assert (gr.main_opset, gr.input_names, gr.output_names) == (18, ["x"], ["y"])
    assert [n.op_type for n in gr.nodes] == ["MatMul", "Add", "Relu"]
    proto = gr.to_onnx(optimize=False)
    onnx.checker.check_model(proto, full_check=True)
    assert proto.ir_version > 0
    assert proto.graph.name
    assert run(proto, {"x": np.ones((1, 4), np.float32)})[0].tolist() == [[5, 5]]
    verify(gr.model)


def test_building_with_several_operator_sets() -> None:
    gr = GraphBuilder({"": 20, "com.microsoft": 1}, ir_version=9)
    gr.make_tensor_input("x", FLOAT, ["n"])
    y = gr.op.FastGelu("x", domain="com.microsoft")
    halves = gr.make_node("Split", y, 2, axis=0, num_outputs=2)
    assert isinstance(halves, tuple)
    gr.make_tensor_output(halves, FLOAT, ["m"])
    proto = gr.to_onnx(optimize=False)
    assert {o.domain: o.version for o in proto.opset_import} == {"": 20, "com.microsoft": 1}
    assert proto.ir_version == 9
    assert tuple(o.name for o in proto.graph.output) == halves
    assert len(run(proto, {"x": np.ones(4, np.float32)})) == 2


def test_building_adapts_to_the_operator_set() -> None:
    for opset, count in ((12, 1), (13, 2)):
        gr = GraphBuilder(opset)
        gr.make_tensor_input("x", FLOAT, [1, 3])
        gr.make_tensor_output(gr.op.Squeeze("x", axes=[0]))
        assert len(gr.nodes[0].input) == count
        assert run(gr.to_onnx(), {"x": np.ones((1, 3), np.float32)})[0].shape == (3,)


def test_building_with_subgraphs() -> None:
    branches: dict[str, Any] = {}
    for name, op in (("then_branch", "Exp"), ("else_branch", "Neg")):
        output = helper.make_tensor_value_info("r", FLOAT, None)
        branches[name] = helper.make_graph([helper.make_node(op, ["t"], ["r"])], name, [], [output])
    gr = GraphBuilder(18)
    gr.make_tensor_input("c", TensorProto.BOOL, [])
    gr.make_tensor_input("x", FLOAT, ["n"])
    gr.make_node("Abs", "x", "t")
    gr.make_node("If", "c", "y", **branches)
    gr.make_tensor_output("y", FLOAT, ["n"])
    verify(gr.model)
    assert len(gr.graph.captures("t")) == 2
    proto = gr.to_onnx()
    assert run(proto, {"c": np.array(False), "x": np.array([1, -2], np.float32)})[0].tolist() == [
        -1,
        -2,
    ]


def test_mistakes_while_building() -> None:
    gr = GraphBuilder(18)
    gr.make_tensor_input("x", FLOAT, ["n"])
    with pytest.raises(ModelError, match="'x' is already"):
        gr.make_tensor_input("x", FLOAT)
    with pytest.raises(ModelError, match="Relu reads 'nothing'"):
        gr.op.Relu("nothing")
    with pytest.raises(ModelError, match="output 'y'"):
        gr.make_tensor_output("y")
    assert gr.make_initializer("x", 1.0) == "x_1"
    with pytest.raises(ModelError, match="produces 'x'"):
        gr.make_node("Neg", "x", "x")
    assert gr.nodes == []
    verify(gr.model)


MISTAKES: dict[str, tuple[str, Callable[[GraphBuilder], object]]] = {
    "an empty name": ("non-empty string, not ''", lambda gr: gr.make_tensor_input("", FLOAT)),
    "no name": ("non-empty string, not None", lambda gr: gr.make_tensor_input(None, FLOAT)),  # type: ignore[arg-type]
    "a negative dimension": ("not -1", lambda gr: gr.make_tensor_input("n", FLOAT, [-1])),
    "a fraction of a dimension": ("not 1.5", lambda gr: gr.make_tensor_input("n", FLOAT, [1.5])),  # type: ignore[list-item]
    "a truth value as dimension": ("not True", lambda gr: gr.make_tensor_input("n", FLOAT, [True])),
    "no name of a dimension": ("not ''", lambda gr: gr.make_tensor_input("n", FLOAT, [""])),
    "an unknown type": ("no element type 999", lambda gr: gr.make_tensor_input("n", 999)),
    "an output of another type": (
        "declaration of output 'k' contradicts",
        lambda gr: gr.make_tensor_output("k", 7),
    ),
    "a negative dimension of an output": (
        "not -2",
        lambda gr: gr.make_tensor_output("k", FLOAT, [-2]),
    ),
    "a result twice": (
        "two results of the same name",
        lambda gr: gr.make_node("Split", "x", ["a", "a"], num_outputs=2),
    ),
    "no result": ("at least one result not empty", lambda gr: gr.make_node("Neg", "x", [""])),
    "a result without name": (
        "operands and results must be names",
        lambda gr: gr.make_node("Neg", "x", [None]),  # type: ignore[list-item]
    ),
    "an operand less": ("Neg does not take 0 operands", lambda gr: gr.make_node("Neg", [])),
    "an unknown operator": ("Nag does not exist", lambda gr: gr.op.Nag("x")),
    "a fraction": (
        "'axis' of Concat is of type int, not 1.0",
        lambda gr: gr.op.Concat("x", "x", axis=1.0),  # type: ignore[call-overload]
    ),
    "a text": (
        "'axis' of Concat is of type int, not '1'",
        lambda gr: gr.op.Concat("x", "x", axis="1"),  # type: ignore[call-overload]
    ),
    "an object": ("for which ONNX has no type", lambda gr: gr.op.Concat("x", "x", axis=object())),  # type: ignore[call-overload]
    "an object in another domain": (
        "for which ONNX has no type",
        lambda gr: gr.op.Thing("x", domain="acme", a={1: 2}),
    ),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_mistakes_are_noticed_when_they_are_made(mistake: str) -> None:
    message, make = MISTAKES[mistake]
    gr = GraphBuilder(18)
    gr.make_tensor_input("x", FLOAT, ["n", 4])
    gr.make_node("Neg", "x", "k")
    before = text_of(gr.model)
    with pytest.raises(ModelError, match=re.escape(message)):
        make(gr)
    assert text_of(gr.model) == before
    verify(gr.model)


@pytest.mark.parametrize("versions", [-1, 0, 999, True, {"": -1}, {"": 18, "acme": 0}])
def test_operator_sets_that_do_not_exist(versions: Any) -> None:
    with pytest.raises(ModelError, match=" 1 to "):
        GraphBuilder(versions)


def test_truth_values_and_lists() -> None:
    gr = GraphBuilder(18)
    gr.make_tensor_input("x", onnx.TensorProto.DOUBLE, ["n", 3])
    gr.op.ReduceSum("x", keepdims=True)
    assert gr.nodes[-1].attribute == {"keepdims": 1}
    dtypes = []
    for op_type, numbers in (("Add", [1, 2, 3]), ("Add", [1.5, 2, 3]), ("Reshape", [3, -1])):
        gr.make_tensor_output(getattr(gr.op, op_type)("x", numbers))
        value = gr.get_constant(gr.nodes[-1].input[1])
        assert value is not None
        dtypes.append(value.dtype)
    assert dtypes == [
        np.float64,
        np.float64,
        np.int64,
    ], "as the operand next to them, and as the operator has it"
    onnx.checker.check_model(gr.to_onnx(), full_check=True)


# ------------------------------------------------------------------ asking


def test_questions() -> None:
    gr = GraphBuilder(
        parse(
            "agraph (float[N,3] x) => (y, u) <float[1] w = {2}> { a = Add(w, w) y = Mul(x, a) "
            "u = test.Op(x) }",
            domains={"test": 1},
        )
    )
    assert (gr.has_type("y"), gr.has_shape("y"), gr.has_rank("y")) == (True, True, True)
    assert (gr.get_type("y"), gr.get_shape("y"), gr.get_rank("y")) == (FLOAT, (named("N"), 3), 2)
    assert (gr.has_type("u"), gr.has_shape("u"), gr.has_rank("u")) == (False, False, False)
    for ask in (gr.get_type, gr.get_shape, gr.get_rank):
        with pytest.raises(LookupError, match="'u'"):
            ask("u")
    assert [gr.is_constant(name) for name in ("w", "a", "y")] == [True, True, False]
    constant = gr.get_constant("a")
    assert constant is not None
    assert constant.tolist() == [4]
    assert gr.get_constant("y") is None
    assert gr.opsets == {"": 18, "test": 1}
    assert gr.count_types() == {"Add": 1, "Mul": 1, "test::Op": 1}
    assert (gr.type_name("x"), gr.type_name("u")) == ("float", "undefined")


def test_shapes_on_demand() -> None:
    gr = GraphBuilder(parse(chain("Neg", "Exp")), infer_shapes_options=False)
    assert not gr.has_shape("t1")
    gr.infer_shapes()
    assert gr.get_rank("t1") == 2


# ------------------------------------------------------------------ optimizing in place


def test_optimizing_in_place() -> None:
    gr = GraphBuilder(
        parse(chain("Neg", "Neg", "Abs")),
        optimization_options=OptimizationOptions(patterns=NegNegPattern),
    )
    assert gr.report().applied == {}
    rows = gr.optimize()
    assert {row["pattern"] for row in rows} >= {"apply_NegNeg", "iteration"}
    assert [n.op_type for n in gr.nodes] == ["Abs"]
    assert gr.report().applied == {"NegNeg": 1}
    assert gr.to_onnx() == gr.to_onnx(optimize=False)
    gr.make_node("Exp", gr.output_names[0], "more")
    verify(gr.model)


def test_what_is_asked_at_the_call_counts() -> None:
    text = "agraph (float[2] x) => (float[2] y) { a = Identity(x) y = Neg(a) }"
    gr = GraphBuilder(parse(text), optimization_options=OptimizationOptions(patterns=None))
    gr.optimize(remove_identity=False)
    assert [n.op_type for n in gr.nodes] == ["Identity", "Neg"]
    gr.optimize()
    assert [n.op_type for n in gr.nodes] == ["Neg"]


def test_verbosity_at_the_constructor(capsys: pytest.CaptureFixture[str]) -> None:
    options = OptimizationOptions(patterns=NegNegPattern)
    GraphBuilder(
        parse(chain("Neg", "Neg", "Abs")), optimization_options=options, verbose=1
    ).optimize()
    assert re.search("round 1: 1 .* 1 applied", capsys.readouterr().out)
    assert options.verbose == 0


def test_saving(tmp_path: Path) -> None:
    gr = GraphBuilder(18)
    gr.make_tensor_input("x", FLOAT, [1000])
    gr.make_tensor_output(gr.op.Add("x", np.ones(1000, np.float32)))
    assert gr.save(tmp_path / "m.onnx") == [tmp_path / "m.onnx"]
    assert gr.save(str(tmp_path / "n.onnx"), external_data=True) == [
        tmp_path / "n.onnx.data",
        tmp_path / "n.onnx",
    ]
    feeds = {"x": np.zeros(1000, np.float32)}
    for name in ("m", "n"):
        assert run(onnx.ModelProto(), feeds, str(tmp_path / f"{name}.onnx"))[0].sum() == 1000
    again: Any = GraphBuilder(tmp_path / "n.onnx")
    assert again.save(tmp_path / "o.onnx") == [
        tmp_path / "o.onnx.data",
        tmp_path / "o.onnx",
    ], "a written model is whole"
    assert again.save(tmp_path / "p.onnx", share_weights=True) == [tmp_path / "p.onnx"], (
        "the weights stay where they are"
    )


@pytest.mark.parametrize(
    ("element", "grade"), [("float", "exact"), ("float16", "rounding"), ("bfloat16", "rounding")]
)
def test_half_precision_is_never_promised_to_be_exact(element: str, grade: str) -> None:
    reports: list[OptimizationReport] = []
    text = (
        f"agraph ({element}[a,b] x) => ({element}[a,b] y) {{ t = Transpose(x) u = Transpose(t) "
        "y = Relu(u) }"
    )
    optimize(parse(text), report=reports.append)
    assert reports[0].applied == {"TransposeTranspose": 1}
    assert reports[0].exactness == grade


def test_a_builder_of_a_model_in_memory() -> None:
    first = GraphBuilder(parse("agraph (float[2] x) => (float[2] y) { a = Neg(x) y = Abs(a) }"))
    second = GraphBuilder.of(first.model)
    assert (second.model, second.graph, second.optimization_options.patterns) == (
        first.model,
        first.model.graph,
        "default",
    )
    second.replace("y", second.op.Abs("x"))
    first.optimize()
    assert [node.op_type for node in first.nodes] == ["Abs"]
    assert (second.report().nodes_before, second.report().nodes_after) == (2, 1)


def test_what_it_prints() -> None:
    """One line: the operator set, the number of nodes, inputs and outputs with types and shapes."""
    builder = GraphBuilder(
        parse(
            "agraph (float[n,3] x, int64 k) => (float[n,3] y) { a = Neg(x) b = Neg(a) y = Exp(b) }"
        )
    )
    text = "(x float[n,3], k int64[]) → (y float[n,3])>"
    assert repr(builder) == f"<GraphBuilder: opset {builder.main_opset}, 3 nodes, {text}"
    builder.optimize()
    assert repr(builder) == f"<GraphBuilder: opset {builder.main_opset}, 1 node, {text}"
    assert repr(builder.report()) == "<OptimizationReport: 3 → 1 nodes, 1 rewrites, exact>"
    assert repr(xoptim.verify(builder.to_onnx(), builder.to_onnx())).startswith(
        "<VerificationReport: cpu: equal: 1 output in "
    )
