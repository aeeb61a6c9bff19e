"""Groups of equal nodes: planted towers are found exactly, and nothing else is looked at."""

import random
from collections import Counter
from collections.abc import Sequence

import onnx
import pytest

from tests.passes.repeated.test_writing import counts, folded
from tests.passes.repeated.towers import STEPS, WIDTH, Sketch
from tests.support import load
from xoptim.graph.graph import Graph
from xoptim.graph.node import Node
from xoptim.passes.repeated.groups import Sums, find_groups, settings


def graph_of(model: onnx.ModelProto) -> Graph:
    return load(onnx.printer.to_text(model.graph).replace("towers", "agraph", 1)).graph


@pytest.mark.parametrize("seed", range(4))
def test_planted_towers_are_found_exactly(seed: int) -> None:
    """Towers of several kinds and depths on inputs of their own, with noise between them, their
    nodes mixed.
    """
    rng, g = random.Random(seed), Sketch(seed)
    kinds = rng.sample(sorted({*STEPS} - {"shared", "flat", "parts"}), 3)
    common, planted = g.input("m", 7), Counter[int]()
    for kind, steps in enumerate(([kinds[0], kinds[1], kinds[0]], [kinds[2], kinds[2]])):
        count, width = rng.randint(3, 6), len(g.nodes)
        for _ in range(count):
            y = g.input(f"n{kind}", WIDTH)
            first = len(g.nodes)
            for step in steps:
                y = STEPS[step](g, y, common, rng)
            width = len(g.nodes) - first
            common = g.add("Neg", common)
        planted[count] += width
    sizes = Counter(
        len(group)
        for group in find_groups(Sums(graph_of(g.model(*(node.output[0] for node in g.nodes)))))
    )
    assert sizes == planted


@pytest.mark.parametrize("kind", ["split", "lstm"])
def test_results_of_one_node_are_alike(kind: str) -> None:
    """Towers read the parts of one Split, or all results of a node that is never stacked."""
    if kind == "split":
        header, first = "float[n,12] x", "a, b, c = Split <axis = 1, num_outputs = 3> (x)"
    else:
        weights = "float[1,16,4] w, float[1,16,4] r"
        header, first = (
            f"float[n,m,4] x, {weights}",
            "s, a0, b0 = LSTM <hidden_size = 4> (x, w, r) a = Abs(a0) b = Abs(b0) c = Neg(a0)",
        )
    nodes = "d = Erf(a) e = Erf(b) f = Erf(c) g = Tanh(d) h = Tanh(e) i = Tanh(f)"
    graph = load(f"agraph ({header}) => (g, h, i) {{ {first} {nodes} }}").graph
    expected = {"split": [("Erf", 3), ("Tanh", 3)], "lstm": [("Abs", 2), ("Erf", 2), ("Tanh", 2)]}[
        kind
    ]
    assert [(group.first.op_type, len(group)) for group in find_groups(Sums(graph))] == expected


def test_only_nodes_that_others_accompany_are_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    compared: list[str] = []

    def counted(graph: Graph, node: Node, terms: Sequence[str] | None = None) -> object:
        compared.append(node.op_type)
        return settings(graph, node, terms)

    monkeypatch.setattr("xoptim.passes.repeated.groups.settings", counted)
    g = Sketch()
    x = g.input("n", WIDTH)
    for _ in range(20):
        x = g.add("Tanh", g.add("Add", x, g.add("Erf", x)))
    graph = graph_of(g.model(x))
    assert find_groups(Sums(graph)) == []
    assert compared == []
    model = g.model(x, *(g.add("Exp", g.add("Abs", each)) for each in (x, g.input("n", WIDTH))))
    assert not find_groups(Sums(graph_of(model))), "they are of different levels"
    assert compared == []


def test_groups_of_enough_nodes() -> None:
    g = Sketch()
    inputs = [g.input("n", WIDTH) for _ in range(5)]
    model = g.model(
        *(g.add("Tanh", each) for each in inputs), *(g.add("Erf", each) for each in inputs[:3])
    )
    assert [len(group) for group in find_groups(Sums(graph_of(model)))] == [5, 3]
    assert [len(group) for group in find_groups(Sums(graph_of(model)), fewest=4)] == [5]


def test_no_rows() -> None:
    """Stacks of tensors without elements, brought together and taken apart again."""
    g = Sketch()
    parts = [
        g.add("Erf", g.add("MatMul", g.add("Exp", g.input(0, WIDTH)), g.weight(WIDTH, WIDTH)))
        for _ in range(8)
    ]
    after = folded(g.model(g.add("Sum", *parts), parts[2]), sizes=(0,))
    assert (counts(after)["Exp"], counts(after)["MatMul"], counts(after)["Erf"]) == (1, 1, 1)


def test_no_rows_that_are_joined() -> None:
    """A 0 in the target of a Reshape would copy another size."""
    g = Sketch()
    parts = [
        g.add("Erf", g.add("MatMul", g.add("Exp", g.input(0, WIDTH)), g.weight(WIDTH, WIDTH)))
        for _ in range(8)
    ]
    after = folded(g.model(g.add("Concat", *parts, axis=0)), sizes=(0,))
    assert counts(after)["Erf"] == 1


def test_no_columns() -> None:
    g = Sketch()
    parts = [g.add("Erf", g.add("Exp", g.input(3, 0))) for _ in range(8)]
    after = folded(g.model(g.add("Sum", *parts)), sizes=(0,))
    assert counts(after)["Erf"] == counts(after)["Exp"]
