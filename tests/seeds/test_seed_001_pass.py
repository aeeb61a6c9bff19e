"""The document about folding circuits, step by step, as the pass `Repeated` does it."""

import numpy as np
import onnx

from tests.passes.repeated.test_writing import counts, folded
from tests.passes.repeated.towers import WIDTH, Sketch
from tests.support import load
from xoptim.passes.repeated.choice import Choice
from xoptim.passes.repeated.groups import Group, Sums, arrange, find_groups


def groups_of(model: onnx.ModelProto) -> list[Group]:
    sums = Sums(
        load(onnx.printer.to_text(model.graph).replace(model.graph.name, "agraph", 1)).graph
    )
    groups = find_groups(sums)
    arrange(groups)
    return groups


def names(groups: list[Group]) -> list[list[str]]:
    return [[node.output[0] for node in group.nodes] for group in groups]


def layers(
    pairs: list[tuple[int, int]], leaves: int = 4
) -> tuple[Sketch, list[str], list[str], list[str]]:
    """Input layers, a sum layer on each, and products of pairs of these."""
    g = Sketch()
    inputs = [g.add("Sigmoid", g.input("n", WIDTH)) for _ in range(leaves)]
    sums = [g.add("MatMul", each, g.weight(WIDTH, WIDTH)) for each in inputs]
    products = [g.add("Mul", sums[a], sums[b]) for a, b in pairs]
    return g, inputs, sums, products


def test_layers_of_a_level_with_equal_settings_are_a_group() -> None:
    """Groups come level by level, from the inputs up."""
    g, inputs, sums, products = layers([(0, 1), (2, 3)])
    found = groups_of(g.model(*products))
    assert [sorted(each) for each in names(found)] == [inputs, sums, products]
    assert [group.level for group in found] == [1, 2, 3]


def test_parameters_of_one_shape_are_stacked() -> None:
    g, _, _, products = layers([(0, 1), (2, 3), (4, 5), (6, 7)], leaves=8)
    after = folded(g.model(g.add("Mean", *products)))
    stacked = [
        onnx.numpy_helper.to_array(each) for each in after.graph.initializer if len(each.dims) == 3
    ]
    weights = [onnx.numpy_helper.to_array(each) for each in g.constants]
    assert len(stacked) == 1
    assert sorted(array.tobytes() for array in stacked[0]) == sorted(
        array.tobytes() for array in weights
    )


def test_a_parameter_graph_is_folded_like_layers() -> None:
    """Weights that are computed at run time: one node for each operation on them."""
    g = Sketch()
    scale = g.input(WIDTH, WIDTH)
    sums = [
        g.add(
            "MatMul",
            g.input("n", WIDTH),
            g.add("Softmax", g.add("Mul", scale, g.weight(WIDTH, WIDTH)), axis=0),
        )
        for _ in range(5)
    ]
    after = counts(folded(g.model(g.add("Sum", *sums))))
    assert (after["Mul"], after["Softmax"], after["MatMul"]) == (1, 1, 1)


def test_the_fold_index_is_nothing_where_lanes_agree() -> None:
    g, _, sums, _ = layers([])
    found = groups_of(g.model(*(g.add("Tanh", each) for each in sums)))
    sums_group, tanh_group = found[1:]
    assert [column == tuple(sums_group.lane) for column in tanh_group.columns] == [True]


def test_the_order_of_lanes_follows_their_readers() -> None:
    """All first operands of the products, then all second ones: each is one slice."""
    g, _, sums, products = layers([(3, 0), (1, 2)])
    found = groups_of(g.model(*products))
    assert names(found)[1] == [sums[3], sums[1], sums[0], sums[2]]
    g, _, _, products = layers([(place, 11 - place) for place in range(6)], leaves=12)
    after = counts(folded(g.model(g.add("Mean", *products))))
    assert (after["MatMul"], after["Mul"], after["Slice"], after["Gather"]) == (1, 1, 2, 0)


def test_an_index_through_levels_with_pieces_of_several_stacks() -> None:
    """A product of a layer of one level and one of another; indices that repeat."""
    g, inputs, sums, _ = layers([], leaves=6)
    products = [
        g.add("Mul", sums[a], inputs[b]) for a, b in ((0, 5), (5, 0), (2, 2), (0, 1), (4, 3))
    ]
    after = counts(folded(g.model(g.add("Concat", *products, axis=0))))
    assert (after["Sigmoid"], after["MatMul"], after["Mul"]) == (1, 1, 1)


def test_the_address_book_at_the_outputs() -> None:
    """Each output is found by its lane, under its own name."""
    g, _, sums, products = layers([(place, (place + 1) % 8) for place in range(8)], leaves=8)
    results = [sums[2], products[4], products[0]]
    after = folded(g.model(*results))
    assert [output.name for output in after.graph.output] == results
    assert {node.output[0] for node in after.graph.node if node.op_type == "Gather"} >= set(results)


def test_groups_that_save_nothing_stay_apart() -> None:
    g = Sketch()
    model = g.model(*(g.add("Tanh", g.input("n", WIDTH)) for _ in range(3)))
    sums = Sums(
        load(onnx.printer.to_text(model.graph).replace(model.graph.name, "agraph", 1)).graph
    )
    groups = find_groups(sums)
    arrange(groups)
    choice = Choice(sums, groups)
    assert len(groups) == 1
    choice.prune()
    assert choice.regions() == []


def test_a_circuit_of_many_layers() -> None:
    """The number of nodes depends on the depth of a region tree, not on its width."""

    def tree(g: Sketch, depth: int) -> str:
        if not depth:
            return g.add("Sigmoid", g.input("n", WIDTH))
        halves = [g.add("MatMul", tree(g, depth - 1), g.weight(WIDTH, WIDTH)) for _ in range(2)]
        return g.add("Mul", *halves)

    sizes = []
    for depth in (3, 4, 5):
        g = Sketch()
        roots = [tree(g, depth) for _ in range(3)]
        before = g.model(g.add("Mean", *roots))
        after = folded(before)
        sizes.append(len(after.graph.node))
        assert len(after.graph.node) < 0.4 * len(before.graph.node)
    assert np.all(np.diff(sizes) <= 4), "two slices, a product and a sum layer for each level"
