"""Regions that are stacked by default, and those that are stacked only when asked."""

import onnx
import pytest

from tests.passes.repeated.test_writing import counts, folded
from tests.passes.repeated.towers import Sketch
from tests.support import load, values_in
from xoptim import optimize
from xoptim.passes.repeated.choice import Choice, Outlook, StackRegion
from xoptim.passes.repeated.cost import COSTS
from xoptim.passes.repeated.groups import Sums, arrange, find_groups


def perceptrons(count: int, rows: int | str, width: int = 32, layers: int = 3) -> onnx.ModelProto:
    g = Sketch()
    x, results = g.input(rows, width), []
    for _ in range(count):
        y = x
        for _ in range(layers):
            y = g.add(
                "Relu", g.add("Add", g.add("MatMul", y, g.weight(width, width)), g.weight(width))
            )
        results.append(y)
    return g.model(g.add("Sum", *results))


def products(model: onnx.ModelProto) -> int:
    """Number of products of matrices."""
    return counts(model)["MatMul"] + counts(model)["Gemm"]


def test_many_small_operations_are_stacked_by_default() -> None:
    model = perceptrons(16, 2, 4)
    assert products(folded(model, "default", sizes=(1,))) == 3
    assert products(optimize(model, patterns="default-repeated")) == 48
    assert products(optimize(model, provider="cuda")) == 48, "nothing was measured there"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("count", "rows", "width"),
    [(2, 2, 32), (3, 2, 32), (16, 16, 32), (16, "n", 32), (16, 2, 512), (16, 1, 32)],
    ids=["two", "three", "rows", "any number of rows", "wide", "one row"],
)
def test_operations_that_take_longer_together_stay_apart(
    count: int, rows: int | str, width: int
) -> None:
    model = perceptrons(count, rows, width)
    assert products(optimize(model)) == 3 * count
    assert products(optimize(model, patterns="default+repeated")) == 3


def test_activations_that_would_no_longer_be_computed_within_a_product() -> None:
    """The gates of a recurrent cell: three of four have the same activation."""
    g = Sketch()
    x, h = g.input(1, 32), g.input(1, 32)
    raw = [
        g.add("Add", *(g.add("MatMul", each, g.weight(32, 32)) for each in (x, h)))
        for _ in range(4)
    ]
    i, f, o = (g.add("Sigmoid", each) for each in raw[:3])
    c = g.add("Add", g.add("Mul", f, h), g.add("Mul", i, g.add("Tanh", raw[3])))
    model = g.model(g.add("Mul", o, g.add("Tanh", c)))
    assert products(optimize(model)) == 8
    assert products(optimize(model, patterns="default+repeated")) == 2


def test_the_outlook_of_a_region() -> None:
    graph = load(
        onnx.printer.to_text(perceptrons(8, 2, 4).graph).replace("towers", "agraph", 1)
    ).graph
    sums = Sums(graph)
    groups = find_groups(sums)
    arrange(groups)
    choice = Choice(sums, groups)
    choice.prune()
    (groups,) = choice.regions()
    before = [node.output for node in graph.nodes]
    outlook = StackRegion(sums, groups).outlook(COSTS["cpu"])
    assert outlook.nodes == (8 * 9 + 1, 10)
    assert [node.output for node in graph.nodes] == before
    assert not outlook.refusal


def test_refusals() -> None:
    assert values_in(Outlook((8, 8), (2.0, 1.0)).refusal) == ["8", "8", "0.0", "0.0"]
    assert "faster" in Outlook((8, 4), (200_000.0, 190_000.0)).refusal
    assert "faster" in Outlook((8, 4), (7000.0, 3000.0)).refusal, "it saves too little"
    assert not Outlook((8, 4), (20_000.0, 10_000.0)).refusal
    assert not Outlook((8, 4)).refusal
    assert "faster" in Outlook((8, 4), (float("inf"), 1.0)).refusal, "times that are not known"
