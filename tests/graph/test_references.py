import pytest

from tests.support import load, node_of, verify
from xoptim.facts.errors import ModelError
from xoptim.facts.shapes import UNKNOWN
from xoptim.graph.facts import Definitions
from xoptim.graph.node import Node
from xoptim.graph.order import OrderedNodes
from xoptim.graph.references import References


class Log:
    def __init__(self) -> None:
        self.touched_nodes: list[str] = []

    def inserted(self, node: Node) -> None:
        raise AssertionError(node)

    def removed(self, node: Node) -> None:
        raise AssertionError(node)

    def touched(self, node: Node) -> None:
        self.touched_nodes.append(node.op_type)


def table(
    outer: References | None = None, around: Definitions | None = None, log: Log | None = None
) -> References:
    listeners = [] if log is None else [log]
    return References(
        Definitions(around),
        OrderedNodes(),
        Node("If", ["c"], ["y"]) if outer else None,
        outer,
        listeners,
    )


def test_every_kind_of_reference_makes_a_value_needed() -> None:
    definitions = Definitions(None)
    definitions.inputs.update(
        dict.fromkeys(("read", "captured", "output", "pinned", "free"), UNKNOWN)
    )
    references = References(definitions, OrderedNodes(), None, None, [])
    references.add("read", Node("Neg", ["read"], ["a"]))
    references.add_capture("captured", Node("Neg", ["captured"], ["b"]))
    references.add_output("output")
    references.pinned.add("pinned")
    assert [name for name in definitions.inputs if references.is_needed(name)] == [
        "read",
        "captured",
        "output",
        "pinned",
    ]
    assert [name for name in definitions.inputs if references.is_captured(name)] == [
        "captured",
        "pinned",
    ]
    assert list(references.captured()) == ["captured"]
    assert references.is_node_needed(Node("Split", ["x"], ["", "free", "output"]))
    assert not references.is_node_needed(Node("Split", ["x"], ["", "free"]))


def test_a_capture_is_recorded_where_the_name_is_defined() -> None:
    definitions = Definitions(None)
    definitions.inputs["x"] = UNKNOWN
    outer = References(definitions, OrderedNodes(), None, None, [])
    middle = table(outer, definitions)
    inner = table(middle, definitions)
    reader = Node("Neg", ["x"], ["a"])
    inner.add("x", reader)
    assert (outer.captures("x"), middle.captures("x"), inner.consumers("x")) == ([reader], [], [])
    inner.drop("x", reader)
    assert not outer.is_captured("x")
    inner.drop("x", reader)
    assert not outer.is_captured("x"), "nothing is left to remove"
    with pytest.raises(ModelError, match="'Neg' reads 'nothing'"):
        inner.add("nothing", reader)


def test_the_producer_is_checked_when_its_last_reader_is_gone() -> None:
    log = Log()
    definitions = Definitions(None)
    producer, reader, other = (
        Node("Abs", ["x"], ["a"]),
        Node("Neg", ["a"], ["b"]),
        Node("Exp", ["a"], ["c"]),
    )
    definitions.add_results([producer])
    references = References(definitions, OrderedNodes(), None, None, [log])
    references.connect(reader)
    references.connect(other)
    references.set_inputs(reader, ("x",))
    assert (references.unread, log.touched_nodes) == (
        [],
        ["Abs", "Neg"],
    ), "another node reads its result"
    references.disconnect(other)
    assert references.unread == [producer]
    assert list(references.undefined()) == ["x"]
    references.clear()
    assert (references.unread, list(references.undefined())) == ([], [])


def test_outputs_of_subgraphs_follow_a_renamed_value() -> None:
    model = load("""agraph (bool c, float[n] x) => (float[n] y, float[n] z) {
          a = Relu(x)
          y, z = If (c) <
            then_branch = t () => (a, a) { },
            else_branch = e () => (float[n] p, float[n] q) { p = Abs(a) q = Neg(p) }
          >
        }""")
    graph = model.graph
    branches = node_of(graph, "If").bodies
    assert sorted(node.op_type for node in graph.captures("a")) == ["Abs", "If"]
    graph.rename("a", "x")
    assert branches["then_branch"].outputs == ["x", "x"]
    assert not branches["then_branch"].is_output("a")
    assert branches["then_branch"].is_output("x")
    assert not graph.is_needed("a")
    verify(model)
