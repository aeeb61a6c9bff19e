import logging

import pytest
from onnx import TensorProto, helper

from tests.support import load, node_of, parse
from xoptim.facts.dims import as_integer, fresh, named
from xoptim.facts.errors import RewriteError
from xoptim.facts.shapes import UNKNOWN, Info
from xoptim.graph.edit import Edit
from xoptim.graph.graph import Graph
from xoptim.graph.load import load_model
from xoptim.graph.node import Node
from xoptim.graph.propagate import check_results, infer_node, refine, refresh

N, M = named("N"), named("M")
FLOAT, INT64 = TensorProto.FLOAT, TensorProto.INT64


def shape(graph: Graph, name: str) -> list[str] | None:
    found = graph.info_of(name).shape
    return None if found is None else [str(d) for d in found]


def test_facts_flow_through_the_graph_and_its_subgraphs() -> None:
    model = load("""agraph (bool c, float[N,4] x) => (y) <int64[2] s = {2, -1}> {
      a = Transpose(x)
      b = If (c) <then_branch = t () => (p) { q = Shape(a) p = Cast <to = 1> (q) },
                  else_branch = e () => (p) { p = ReduceMax <keepdims = 0, axes = [1]> (a) }>
      d = Concat <axis = 1> (x, x)
      y = Reshape(d, s)
    }""", 11)  # fmt: skip
    graph = model.graph
    assert shape(graph, "a") == ["4", "N"]
    assert shape(graph, "d") == ["N", "8"]
    assert shape(graph, "y") == ["2", "4*N"]
    body = node_of(graph, "If").bodies["then_branch"]
    assert body.info_of("q").data == (4, N)
    assert body.info_of("p").dtype == FLOAT


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        (UNKNOWN, Info(FLOAT, (N,)), Info(FLOAT, (N,))),
        (Info(FLOAT, (N,)), UNKNOWN, Info(FLOAT, (N,))),
        (Info(FLOAT), Info(0, (N,)), Info(FLOAT, (N,))),
        (Info(0, (N, 3)), Info(FLOAT, (2, M)), Info(FLOAT, (2, 3))),
        (Info(FLOAT, (N,)), Info(FLOAT, (M,)), Info(FLOAT, (N,))),
        (Info(INT64, (2,)), Info(INT64, (2,), (N, 3)), Info(INT64, (2,), (N, 3))),
        (Info(FLOAT, (N,)), Info(FLOAT, (N, 3)), Info(FLOAT, (N,))),
        (Info(container="sequence"), Info(FLOAT), Info(container="sequence")),
    ],
)
def test_refining(old: Info, new: Info, expected: Info) -> None:
    found = refine(old, new)
    assert found == expected
    assert refine(found, new) is found, "nothing new the second time"


def test_a_name_is_better_than_none() -> None:
    unnamed = fresh()
    assert refine(Info(FLOAT, (unnamed,)), Info(FLOAT, (N,))).shape == (N,)
    known = Info(FLOAT, (N,))
    assert refine(known, Info(FLOAT, (fresh(),))) is known


def test_an_earlier_symbol_is_better_than_a_later_one() -> None:
    """As that of an operand whose shape the result has, once a rewrite shows it."""
    first, second, third = fresh(), fresh(), fresh()
    later = Info(FLOAT, (second,))
    assert refine(later, Info(FLOAT, (first + 2,))).shape == (first + 2,)
    assert refine(later, Info(FLOAT, (third,))) is later
    assert refine(later, Info(FLOAT, (first + third,))) is later
    assert refine(later, Info(FLOAT, (second + 0,))) is later
    wide = fresh(nonnegative=False)
    small = Info(INT64, (1,), (fresh(),))
    assert refine(small, Info(INT64, (1,), (wide,))) is small, "it would lose its bounds"
    computed = Info(FLOAT, (third - third // 2,))
    assert refine(computed, later) is computed, "it says how it follows from another size"


def test_a_size_that_wraps_around_nowhere_is_better_than_the_integer_that_it_was() -> None:
    size = 4 * N * M
    wrapped = as_integer(size, 64)
    assert wrapped is not size
    assert refine(Info(INT64, (1,), (wrapped,)), Info(INT64, (1,), (size,))).data == (size,)
    known = Info(INT64, (1,), (size,))
    assert refine(known, Info(INT64, (1,), (wrapped,))) is known


def test_results_that_exist_may_not_change() -> None:
    graph = load("agraph (float[N,3] x) => (float[N,3] y) { y = Neg(x) }").graph
    for fine in (
        Info(FLOAT, (N, 3)),
        Info(FLOAT, (M, 3)),
        Info(FLOAT, (fresh(), fresh())),
        Info(FLOAT),
        UNKNOWN,
    ):
        check_results(graph, ["y"], [fine])
    for bad, message in (
        (Info(TensorProto.DOUBLE, (N, 3)), "'y' would change its type from float to double"),
        (Info(FLOAT, (N, 4)), r"'y' would change its shape from \[N, 3\] to \[N, 4\]"),
        (Info(FLOAT, (N, 3, 1)), "its shape"),
        (Info(FLOAT, (N + 1, 3)), r"from \[N, 3\] to \[N \+ 1, 3\]"),
        (Info(FLOAT, (7, fresh())), "its shape"),
        (Info(FLOAT, ()), "its shape"),
    ):
        with pytest.raises(RewriteError, match=message):
            check_results(graph, ["y"], [bad])
    check_results(graph, ["new", ""], [Info(INT64), Info(INT64)])


def test_what_the_model_declares_completes_what_follows(caplog: pytest.LogCaptureFixture) -> None:
    proto = parse("agraph (float[N,3] x) => (z) { y = test.Op(x) z = Neg(y) }", domains={"test": 1})
    proto.graph.value_info.append(helper.make_tensor_value_info("y", FLOAT, ["N", 7]))
    graph = load_model(proto).graph
    assert shape(graph, "y") == shape(graph, "z") == ["N", "7"]
    assert not caplog.text


@pytest.mark.parametrize(
    "declared", [(FLOAT, ["N", 4]), (INT64, ["N", 3]), (FLOAT, ["N"]), (FLOAT, ["N", 3, 1])]
)
def test_where_they_disagree_the_operators_win(
    declared: tuple[int, list[int | str]], caplog: pytest.LogCaptureFixture
) -> None:
    proto = parse("agraph (float[N,3] x) => (z) { y = Neg(x) z = Abs(y) }")
    proto.graph.value_info.append(helper.make_tensor_value_info("y", *declared))
    with caplog.at_level(logging.WARNING, "xoptim"):
        graph = load_model(proto).graph
    assert shape(graph, "z") == ["N", "3"]
    assert "value_info of 'y'" in caplog.text


def test_a_length_of_at_most_1_may_be_declared_as_1(caplog: pytest.LogCaptureFixture) -> None:
    text = (
        "agraph (float[N,4] x) => (float[1,4] y, float[2,?] w) <int64[1] a = {0}, "
        "int64[1] b = {1}, int64[1] c = {2}> { y = Slice(x, a, b, a) z = Slice(x, a, c, a) "
        "w = Transpose <perm = [0, 1]> (z) }"
    )
    with caplog.at_level(logging.WARNING, "xoptim"):
        graph = load(text.replace("float[2,?] w", "float[?,?] w")).graph
        assert not caplog.text
        assert shape(graph, "y") == ["min(N, 1)", "4"], "it may be empty"
        load(text)
    assert "value_info of 'w'" in caplog.text, "a length of at most 2 may be stale"


def test_new_nodes_and_their_readers() -> None:
    graph = load(
        "agraph (float[N,3] x) => (z) { y = test.Op(x) z = Neg(y) w = Abs(z) }", domains={"test": 1}
    ).graph
    assert shape(graph, "w") is None
    node = Node("Transpose", ["x"], ["t"])
    assert infer_node(graph, node)[0].shape == (3, N)
    assert graph.known("t") is None, "nothing is stored"
    graph.insert(node, None)
    graph.set_inputs(node_of(graph, "Neg"), ("t",))
    refresh(graph, [node, node_of(graph, "Neg")])
    assert shape(graph, "w") == ["3", "N"]


def test_new_facts_reach_subgraphs_and_what_follows_them() -> None:
    model = load(
        """agraph (float[2,3] x, bool c) => (float[m,n] y) {
            a = acme.Unknown(x)
            y = If(c) <then_branch = t () => (p) { p = Neg(a) }, else_branch = e () => (q) {
                q = If(c) <then_branch = u () => (r) { r = Abs(a) },
                    else_branch = v () => (s) { s = Exp(a) }>
            }>
        } <domain: "acme", opset_import: ["" : 20]> Other (i) => (o) { o = Neg(i) }"""
    )
    graph = model.graph
    body = node_of(graph, "If").bodies["then_branch"]
    assert body.info_of("p").shape is None
    maker = graph.producer("a")
    assert maker is not None
    with Edit(graph) as edit:
        edit.commit([maker], [Node("Relu", ["x"], ["a"])])
    inner = node_of(node_of(graph, "If").bodies["else_branch"], "If")
    for place, name in ((body, "p"), (inner.bodies["else_branch"], "s"), (graph, "y")):
        assert place.info_of(name).static_shape == (2, 3), name


def test_unknown_operators_and_omitted_results() -> None:
    graph = load(
        'agraph (float[N,1,4] x) => (y) { y, "" = MaxPool <kernel_shape = [2]> (x) }'
    ).graph
    assert shape(graph, "y") == ["N", "1", "3"]
    assert infer_node(graph, Node("Thing", ["x"], ["a", "b"], domain="test")) == [UNKNOWN, UNKNOWN]
    assert infer_node(graph, Node("NoSuchOperator", ["x"], ["a"])) == [UNKNOWN]


def test_one_stale_declaration_makes_all_doubtful(caplog: pytest.LogCaptureFixture) -> None:
    proto = parse(
        "agraph (float[N,4] x, int64[2] s) => (float[?,?] z) { y = Relu(x) t = Reshape(y, s) "
        "z = Neg(t) }"
    )
    for name, dims in (("y", [1, 4]), ("t", [1, 4])):
        proto.graph.value_info.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, dims))
    with caplog.at_level(logging.WARNING, "xoptim"):
        graph = load_model(proto).graph
    assert shape(graph, "y") == ["N", "4"]
    assert shape(graph, "z") != ["1", "4"], "the size of t may be as stale as that of y"
    assert caplog.text.count("contradicts") == 1


@pytest.mark.parametrize(
    "node",
    [
        "ReduceMax <keepdims: int = @k> (c)",
        "DFT <onesided: int = @k> (c)",
        "Shape <start: int = @k> (c)",
    ],
)
def test_results_that_depend_on_an_attribute_of_the_caller_are_not_inferred(node: str) -> None:
    model = load(
        "agraph (float[4] x) => (y) { y = d.f <k = 0> (x) } "
        '<domain: "d", opset_import: ["" : 18]> f <k: int> (x) => (y) { '
        f"c = Constant <value = float[1,4,1] {{1, 2, 3, 4}}> () y = {node} }}",
        domains={"d": 1},
    )
    assert model.functions[0].body.info_of("y").shape is None
