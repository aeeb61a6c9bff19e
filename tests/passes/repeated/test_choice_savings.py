"""The number of nodes of a stack, while other groups are given up: as if it were counted anew."""

import random

import pytest

from tests.passes.repeated.towers import WIDTH, Sketch
from xoptim.graph.load import load_model
from xoptim.passes.repeated.choice import StackNodes
from xoptim.passes.repeated.groups import Sums, arrange, by_result, find_groups


def lattice(seed: int) -> Sums:
    """Levels of nodes of a few kinds, each of which reads results of the level before, joins among
    them.
    """
    chance, g = random.Random(seed), Sketch(seed)
    values = [g.input("n", WIDTH) for _ in range(6)]
    for _ in range(4):
        made = []
        for _ in range(chance.randint(4, 8)):
            kind = chance.choice(("Relu", "Tanh", "Mul", "Add", "Gemm"))
            operands = (
                chance.sample(values, 2) if kind in ("Mul", "Add") else [chance.choice(values)]
            )
            made.append(
                g.add(kind, *operands, *([g.weight(WIDTH, WIDTH)] if kind == "Gemm" else ()))
            )
        values = made
    joined = g.add("Sum", *values[:3])
    return Sums(load_model(g.model(joined, *values[2:])).graph)


@pytest.mark.parametrize("seed", range(40))
def test_counts_are_those_of_fresh_ones(seed: int) -> None:
    sums = lattice(seed)
    groups = find_groups(sums)
    arrange(groups)
    kept = {group: StackNodes(sums, group, by_result(groups)) for group in groups}
    order = random.Random(seed).sample(groups, len(groups))
    for place, lost in enumerate(order):
        del kept[lost]
        left = by_result(order[place + 1 :])
        foreseen = {group: nodes.count_without(lost) for group, nodes in kept.items()}
        for nodes in kept.values():
            nodes.give_up(lost)
        fresh = {group: StackNodes(sums, group, left).count for group in kept}
        assert {group: nodes.count for group, nodes in kept.items()} == fresh == foreseen


def test_lattices_have_groups() -> None:
    assert sum(len(find_groups(lattice(seed))) for seed in range(40)) > 100
