import random
from collections.abc import Callable
from itertools import pairwise

import onnx
import pytest

from tests.passes.blocks.rows import found, shuffled
from tests.passes.repeated.towers import WIDTH, Sketch
from xoptim import outline
from xoptim.graph.load import load_model
from xoptim.passes.blocks.block import Links, grown
from xoptim.passes.blocks.finding import Alignment, find_blocks


def norm(g: Sketch, x: str) -> str:
    return g.add("LayerNormalization", x, g.weight(WIDTH), g.weight(WIDTH), axis=-1)


def mix(g: Sketch, x: str, activation: str) -> str:
    return g.add(
        "MatMul",
        g.add(activation, g.add("MatMul", x, g.weight(WIDTH, WIDTH))),
        g.weight(WIDTH, WIDTH),
    )


def embedding(g: Sketch) -> str:
    """A sum of two inputs, so that what comes before the first layer is like the end of a layer."""
    return g.add("Add", g.add("Sin", g.input("n", WIDTH)), g.add("Cos", g.input("n", WIDTH)))


def normalized_before(times: int) -> tuple[onnx.ModelProto, list[int]]:
    """Layers as in GPT-2, and the number of nodes at the end of each."""
    g = Sketch()
    x = embedding(g)
    ends = [len(g.nodes)]
    for _ in range(times):
        for activation in ("Softmax", "Erf"):
            x = g.add("Add", x, mix(g, norm(g, x), activation))
        ends.append(len(g.nodes))
    return g.model(g.add("Neg", norm(g, x))), ends


def normalized_behind(times: int) -> tuple[onnx.ModelProto, list[int]]:
    """Layers as in BERT, and the number of nodes at the end of each."""
    g = Sketch()
    x = norm(g, embedding(g))
    ends = [len(g.nodes)]
    for _ in range(times):
        for activation in ("Softmax", "Erf"):
            x = norm(g, g.add("Add", x, mix(g, x, activation)))
        ends.append(len(g.nodes))
    return g.model(g.add("Neg", x)), ends


@pytest.mark.parametrize("build", [normalized_before, normalized_behind])
@pytest.mark.parametrize("times", [2, 3, 5])
def test_the_cut_hands_on_one_value(
    build: Callable[[int], tuple[onnx.ModelProto, list[int]]], times: int
) -> None:
    """Nodes like those at the ends of a layer stand before the first and behind the last one, so
    there are several cuts.
    """
    model, ends = build(times)
    layers = [
        {name for node in model.graph.node[a:b] for name in node.output} for a, b in pairwise(ends)
    ]
    for seed in range(4):
        assert next(found(shuffled(model, random.Random(seed)))) == layers
    constants = {tensor.name for tensor in model.graph.initializer}
    after = outline(model)
    assert [
        len(set(node.input) - constants) for node in after.graph.node if node.domain == "outlined"
    ] == [1] * times


@pytest.mark.parametrize("shift", [0, -1, 1])
def test_the_cut_is_where_scopes_are(shift: int) -> None:
    """Modules that begin at another node than the layer does."""
    model, ends = normalized_before(4)
    size = ends[1] - ends[0]
    nodes = list(model.graph.node)
    begin = ends[0] + shift
    for index, node in enumerate(nodes):
        layer, place = divmod(index - begin, size)
        node.name = (
            f"/stack/block.{layer}/part.{place}/{node.op_type}"
            if 0 <= layer < 4
            else f"/outside/{node.op_type}.{index}"
        )
    expected = [
        {name for node in nodes[begin + n * size : begin + (n + 1) * size] for name in node.output}
        for n in range(4)
    ]
    assert next(found(model)) == expected
    assert [node.name for node in outline(model).graph.node if node.domain == "outlined"] == [
        f"stack/block.{n}" for n in range(4)
    ]


def test_copies_at_the_ends_are_added() -> None:
    """Nodes near the ends of the row have other neighbours than those within it, so that the search
    may begin without them.
    """
    g = Sketch()
    x = g.input("n", WIDTH)
    for _ in range(8):
        x = g.add("Relu", g.add("Add", g.add("MatMul", x, g.weight(WIDTH, WIDTH)), g.weight(WIDTH)))
    links = Links(load_model(g.model(g.add("Erf", x))).graph)
    block = grown(links, set(), [3 * copy + 1 for copy in (3, 4, 5)])
    assert block is not None
    early = Alignment(links, set(), block).extended()
    assert early.rows == tuple((n - 1, n, n + 1) for n in range(3, 24, 3))
    late = Alignment(links, set(), early).late()
    assert Alignment(links, set(), late).extended().rows == tuple(
        (n, n + 1, n + 2) for n in range(0, 24, 3)
    )
    assert Alignment(links, {0}, late).extended().rows == late.rows


@pytest.mark.parametrize("build", [normalized_before, normalized_behind])
def test_the_earliest_cut(build: Callable[[int], tuple[onnx.ModelProto, list[int]]]) -> None:
    """It is found from any cut, and does not depend on it."""
    model, _ = build(3)
    links = Links(load_model(model).graph)
    block = next(iter(find_blocks(links)))
    early = Alignment(links, set(), block).early()
    late = Alignment(links, set(), block).late()
    assert early.rows != late.rows
    assert (
        Alignment(links, set(), late).early().rows
        == Alignment(links, set(), early).early().rows
        == early.rows
    )


def test_a_row_that_is_seen_in_part() -> None:
    """Strangers look like the nodes of the row from near by; from farther away, its ends look
    different from the rest of it.
    """
    operators = ("Neg", "Exp", "Tanh", "Softmax")
    g = Sketch()
    x = g.input("n", WIDTH)
    for _ in range(8):
        for op_type in operators:
            x = g.add(op_type, x)
    results = [x]
    for part in (operators[:3], operators[1:]):
        y = g.add("Abs", g.input("n", WIDTH))
        for op_type in part:
            y = g.add(op_type, y)
        results.append(g.add("Erf", y))
    copies = next(found(g.model(*results)))
    assert (len(copies), len(copies[0])) == (8, 4)
