"""Regions above and below a node: what belongs to them, and what stops them."""

from tests.support import load, node_of
from xoptim.match import GraphView, Node
from xoptim.match.regions import AxisRegion, Carried, region_above, region_below


def carry(node: Node, form: int) -> Carried | None:
    """Transpose adds one to the form, Add keeps it for both operands, Sub for the first one.

    Others do not work.
    """
    if node.op_type == "Transpose":
        return Carried({0: form + 1}, {})
    return (
        Carried(dict.fromkeys(range(2 if node.op_type == "Add" else 1), form), {})
        if node.op_type in ("Add", "Sub", "Neg")
        else None
    )


def above(body: str, most: int = 99) -> AxisRegion:
    graph = load(f"agraph (float[4,4] x, float[4,4] w) => (y, q) {{ {body} q = Neg(w) }}").graph
    return region_above(GraphView(graph), node_of(graph, "Relu"), 0, carry, most)


def operators(region: AxisRegion) -> list[str]:
    return [node.op_type for node in region.nodes]


def test_the_last_node_comes_first() -> None:
    region = above("a = Transpose(x) b = Neg(a) c = Add(b, a) y = Relu(c)")
    assert operators(region) == ["Add", "Neg", "Transpose"]
    assert region.sources == {"x": 1}
    assert region.stopped is None
    assert region.forms == {"c": 0, "b": 0, "a": 0, "x": 1}


def test_an_operator_that_cannot_work_stops_it() -> None:
    region = above("a = Exp(x) b = Neg(a) y = Relu(b)")
    assert operators(region) == ["Neg"]
    assert region.sources == {"a": 0}
    assert region.stopped is not None
    assert region.stopped.op_type == "Exp"


def test_another_reader_stops_it() -> None:
    region = above("a = Neg(x) b = Add(a, w) c = Exp(a) d = Mul(c, w) y = Relu(b)")
    assert operators(region) == ["Add"]
    assert set(region.sources) == {"a", "w"}


def test_a_value_that_is_read_as_it_is_stays_outside() -> None:
    region = above("a = Neg(x) b = Neg(a) c = Sub(b, a) y = Relu(c)")
    assert operators(region) == ["Sub", "Neg"]
    assert region.sources == {"a": 0}
    assert region.unchanged == {"a"}
    assert operators(above("a = Neg(x) b = Sub(a, a) y = Relu(b)")) == []


def test_a_value_has_one_form() -> None:
    region = above("a = Neg(x) b = Transpose(a) c = Add(b, a) y = Relu(c)")
    assert operators(region) == ["Add"]
    assert region.stopped is not None
    assert region.stopped.op_type == "Transpose"


def test_a_region_has_a_largest_size_and_earlier_ones() -> None:
    body = "a = Neg(x) b = Neg(a) c = Add(b, w) y = Relu(c)"
    assert operators(above(body, most=2)) == ["Add", "Neg"]
    region = above(body)
    assert [set(region.first(count).sources) for count in range(4)] == [
        {"c"},
        {"b", "w"},
        {"a", "w"},
        {"x", "w"},
    ]


def test_nodes_below_come_in_the_order_of_the_graph() -> None:
    graph = load(
        "agraph (float[4] x, float[4] w) => (y, z) { a = Neg(x) b = Exp(x) c = Add(a, w) "
        "y = Mul(c, a) z = Neg(c) }"
    ).graph
    g, forms = GraphView(graph), {"x": None}

    def follow(node: Node) -> Carried | None:
        if node.op_type not in ("Neg", "Add"):
            return None
        forms[node.output[0]] = None
        return Carried({0: None}, {})

    region = region_below(g, forms, follow, 99)
    assert [node.output[0] for node in region.nodes] == ["a", "c", "z"]
    assert region.stopped is node_of(graph, "Exp")
    assert len(region_below(g, {"x": None}, follow, 1).nodes) == 1
