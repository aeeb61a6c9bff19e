import onnx
import pytest

from tests.support import parse, values_in
from xoptim.targets import named as target
from xoptim.targets.listing import (
    ListedNode,
    listed,
    named,
    number_in,
    partitions,
    readable,
    with_numbers,
)
from xoptim.targets.reasons import explained

SIZES = """agraph (float[a,4] x) => (float[c,d] y) {
    s = Shape(x) zero = Constant<value_ints=[0]>() n = Gather(s, zero)
      two = Constant<value_ints=[2]>()
    both = Concat<axis=0>(n, two) m = Cast<to=1>(n) t = Relu(x) r = Reshape(t, both) y = Mul(r, m)
}"""


def facts(model: onnx.ModelProto) -> dict[str, ListedNode]:
    numbered, names = with_numbers(model)
    return {node.name: node for node in listed(numbered, names)}


def test_nodes_get_names_from_their_results_and_numbers() -> None:
    model = parse("agraph (float[2] x) => (float[2] y) { t = Relu(x) y = Relu(t) }")
    model.graph.node[1].name = "second"
    numbered, names = with_numbers(model)
    assert names == ["t", "second"]
    assert [number_in(node.name) for node in numbered.graph.node] == [0, 1]
    assert [node.name for node in model.graph.node] == ["", "second"], "the model is unchanged"
    assert [node.name for node in named(numbered, names).graph.node] == names
    assert number_in("fused xopt_node_12_token_3") == 12
    assert number_in("another_node_3") is None


def test_what_only_depends_on_sizes() -> None:
    found = facts(parse(SIZES))
    assert {name for name, node in found.items() if node.is_shape_arithmetic} == {
        "s",
        "n",
        "both",
        "m",
    }
    assert {name for name, node in found.items() if node.is_constant} == {"zero", "two"}


def test_a_tensor_of_a_size_is_not_a_size() -> None:
    model = parse("agraph (float[a,b] x) => (float[c,d] y) { s = Shape(x) y = ConstantOfShape(s) }")
    assert {name for name, node in facts(model).items() if node.is_shape_arithmetic} == {"s"}


def test_operators_types_and_shapes() -> None:
    found = facts(
        parse(
            "agraph (float[2,3] x, int64[n] i) => (float[n,3] y) { t = Relu(x) y = Gather(t, i) }",
            opset=18,
        )
    )
    assert (found["t"].since, found["t"].opset, found["t"].is_static) == (14, 18, True)
    assert (found["y"].types_text(), found["y"].is_static, found["t"].readers) == (
        "float, int64",
        False,
        (1,),
    )


def test_nodes_of_subgraphs_and_functions_are_listed() -> None:
    model = onnx.parser.parse_model(
        '<ir_version: 10, opset_import: ["" : 18, "loc" : 1]> agraph (bool c, float[2] x) =>'
        " (float[2] y) { t = loc.f(x) y = If(c) <then_branch = g () => (float[2] a) { a = Neg(t) },"
        ' else_branch = h () => (float[2] b) { b = Abs(t) }> } <domain: "loc", opset_import: ["" :'
        " 18]> f (p) => (r) { q = Relu(p) r = Exp(q) }"
    )
    assert [node.op_type for node in facts(model).values()] == ["Relu", "Exp", "If", "Neg", "Abs"]


def test_messages_have_the_names_of_the_model() -> None:
    numbered, names = with_numbers(parse("agraph (float[2] x) => (float[2] y) { y = Relu(x) }"))
    assert (
        readable("node 'xopt_node_0_token_1'\nfails, xopt_node_7", listed(numbered, names))
        == "node 'y_token_1' fails, xopt_node_7"
    )


@pytest.mark.parametrize(
    ("taken", "left", "expected"),
    [
        ("abcd", "", {"a": 0, "b": 0, "c": 0, "d": 0}),
        ("acd", "b", {"a": 0, "c": 0, "d": 1}),  # c does not wait for b, d does
        ("abd", "c", {"a": 0, "b": 0, "d": 1}),
        ("bc", "ad", {"b": 0, "c": 1}),
        ("ad", "", {"a": 0, "d": 0}),  # the others are merged into these
        ("", "abcd", {}),
    ],
)
def test_partitions(taken: str, left: str, expected: dict[str, int]) -> None:
    model = parse(
        "agraph (float[2] x) => (float[2] d) { a = Relu(x) b = Neg(a) c = Abs(a) d = Add(b, c) }"
    )
    numbered, names = with_numbers(model)
    nodes = listed(numbered, names)
    found = partitions(
        nodes, [names.index(name) for name in taken], [names.index(name) for name in left]
    )
    assert {names[number]: part for number, part in found.items()} == expected


def test_sizes_and_constants_part_nothing() -> None:
    numbered, names = with_numbers(parse(SIZES))
    nodes = listed(numbered, names)
    taken = [names.index(name) for name in ("s", "t", "r", "y", "m")]
    assert set(partitions(nodes, taken, [names.index("n"), names.index("both")]).values()) == {0}


def test_conversions_of_inputs_and_outputs_say_why_they_stay() -> None:
    text = """agraph (float[2] x) => (float[2] y) <float s = {0.5}, uint8 z = {0}> {
        q = QuantizeLinear(x, s, z) d = DequantizeLinear(q, s, z) r = Relu(d)
        p = QuantizeLinear(r, s, z) y = DequantizeLinear(p, s, z) }"""
    found = facts(parse(text))
    assert {name: node.border for name, node in found.items() if node.border} == {
        "q": "the input 'x'",
        "y": "the output 'y'",
    }
    reason, advice = explained(found["q"], "", target("qnn"))
    assert (values_in(reason), advice) == (["x", "float32"], "")
    assert explained(found["q"], "no kernel", target("openvino")) == ("no kernel", "")
    assert explained(found["d"], "", target("qnn")) == ("", "")
