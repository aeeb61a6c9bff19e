import pytest

from tests.passes.repeated.towers import WIDTH, Sketch
from tests.support import parse, values_in
from xoptim import explain
from xoptim.diagnose.explanation import Explanation


def found(text: str) -> list[Explanation]:
    return explain(parse(text), "repeated")


@pytest.mark.parametrize(
    ("nodes", "reason"),
    [
        (
            "a = LeakyRelu <alpha = 0.5> (x) b = LeakyRelu <alpha = 0.25> (z)",
            "attributes: alpha = 0.25 and alpha = 0.5",
        ),
        ("a = Softmax(x) b = Softmax <axis = 0> (z)", "attributes: axis = 0 and none"),
        ("a = Relu(x) b = Relu(thin)", "type and shape of a result: (n, 1) and (n, 4)"),
        ("a = Add(x, thin) b = Add(z, x)", "operand 1: (n, 4) and (n, 1)"),
        ("a = ReduceSum(x, i) b = ReduceSum(z, j)", "operand 1: another value"),
        (
            "k = Exp(z) l = Neg(x) a = Tanh(k) b = Tanh(l)",
            "'l' and 'k': operator: Neg and Exp",
        ),
        (
            (
                "k = Elu <alpha = 0.5> (x) l = Elu <alpha = 0.25> (z) m = Erf(k) q = Erf(l) "
                "a = Tanh(m) b = Tanh(q)"
            ),
            "'l' and 'k': attributes: alpha = 0.25 and alpha = 0.5",
        ),
        (
            "k = CumSum(x, o) l = Exp(z) a = Neg(k) b = Neg(l)",
            "'l' and 'k': only one of them can be stacked",
        ),
        (
            "k = Exp(x) l = Exp(k) m = Exp(l) a = Sub(m, k) b = Sub(m, l)",
            "'l' and 'k': number of preceding nodes: 1 and 0",
        ),
    ],
    ids=[
        "attribute",
        "default",
        "result",
        "operand",
        "parameter",
        "above",
        "further above",
        "not stacked",
        "depth",
    ],
)
def test_the_first_setting_that_differs(nodes: str, reason: str) -> None:
    inputs = "float[n,4] x, float[n,4] z, float[n,1] thin"
    text = (
        f"agraph ({inputs}) => (a, b) <int64[1] i = {{1}}, int64[1] j = {{-1}}, "
        f"int64 o = {{0}}> {{ {nodes} }}"
    )
    assert any(each.reason.endswith(reason) for each in found(text) if not each.matches), [
        each.reason for each in found(text)
    ]


def test_parts_of_one_value_do_not_set_towers_apart() -> None:
    """Slices with other bounds are not computed together, and the towers that read them are."""
    parts = " ".join(
        f"p{lane} = Slice(x, s{lane}, e{lane}, one) a{lane} = Tanh(p{lane}) b{lane} = Erf(a{lane})"
        for lane in range(5)
    )
    bounds = ", ".join(
        f"int64[1] s{lane} = {{{lane}}}, int64[1] e{lane} = {{{lane + 4}}}" for lane in range(5)
    )
    total = ", ".join(f"b{lane}" for lane in range(5))
    text = (
        f"agraph (float[n,8] x) => (y) <int64[1] one = {{1}}, {bounds}> {{ {parts} "
        f"y = Sum({total}) }}"
    )
    explained = [each for each in found(text) if each.pattern == "Repeated"]
    assert [(each.anchor.op_type, each.status, len(each.matched)) for each in explained] == [
        ("Tanh", "matches", 5),
        ("Erf", "matches", 5),
    ]


def test_constants_are_not_explained() -> None:
    """Folding computes them before."""
    nodes = " ".join(
        f"c{lane} = Reshape(w, s) d{lane} = Neg(c{lane}) e{lane} = Add(d{lane}, x)"
        for lane in range(3)
    )
    text = (
        "agraph (float[n,4] x) => (e0, e1, e2) <float[4] w = {0, 1, 2, 3}, int64[2] s = {1, "
        f"4}}> {{ {nodes} }}"
    )
    assert {each.anchor.op_type for each in found(text)} == {"Add"}


def test_groups_that_are_stacked_and_those_that_save_nothing() -> None:
    g = Sketch()
    parts = [
        g.add("Tanh", g.add("MatMul", g.input("n", WIDTH), g.weight(WIDTH, WIDTH)))
        for _ in range(5)
    ]
    alone = [g.add("Erf", g.input("m", WIDTH)) for _ in range(2)]
    model = g.model(g.add("Sum", *parts), *alone)
    explained = explain(model, "Repeated")
    assert [each.status for each in explain(model, "Repeated", limit=0)] == ["matches", "matches"]
    assert {each.anchor.op_type: each.status for each in explained} == {
        "MatMul": "matches",
        "Tanh": "matches",
        "Erf": "refused",
    }
    assert [len(each.matched) for each in explained] == [2, 5, 5], "refusals come first"
    assert "no nodes: 2 " in explained[0].reason
    assert explained[1].gain.startswith("6 nodes for 11, ")
    assert explained[1].gain in str(explained[1])


def test_groups_that_do_not_become_faster() -> None:
    g = Sketch()
    parts = [
        g.add("Tanh", g.add("MatMul", g.input(128, WIDTH), g.weight(WIDTH, WIDTH)))
        for _ in range(5)
    ]
    three = [g.add("Erf", g.input("m", WIDTH)) for _ in range(3)]
    explained = explain(g.model(g.add("Sum", *parts), *three), "RepeatedOnCpu")
    reasons = {each.anchor.op_type: each.reason for each in explained}
    assert values_in(reasons["Erf"]) == ["3"]
    assert ": 6 nodes for 11, " in reasons["MatMul"]


def test_products_of_a_single_row() -> None:
    g = Sketch()
    parts = [
        g.add("Tanh", g.add("MatMul", g.input("n", WIDTH), g.weight(WIDTH, WIDTH)))
        for _ in range(5)
    ]
    model = g.model(g.add("Sum", *parts))
    assert "single row" in explain(model, "RepeatedOnCpu")[0].reason
    assert "MatMul" in {each.anchor.op_type for each in explain(model, "Repeated") if each.matches}


def test_one_node() -> None:
    g = Sketch()
    parts = [
        g.add("Tanh", g.add("MatMul", g.input("n", WIDTH), g.weight(WIDTH, WIDTH)))
        for _ in range(5)
    ]
    model = g.model(g.add("Sum", *parts))
    found = explain(model, "repeated", at=parts[3])
    assert [(each.pattern, each.anchor.op_type, len(each.matched)) for each in found] == [
        ("RepeatedOnCpu", "Tanh", 5),
        ("Repeated", "Tanh", 5),
    ]
    assert explain(model, "repeated", at=model.graph.output[0].name) == []
