"""Graphs in which blocks stand one after the other, with other nodes around them."""

import random
from collections.abc import Iterator, Sequence

import onnx

from tests.passes.repeated.towers import STEPS, WIDTH, Sketch
from xoptim.graph.load import load_model
from xoptim.passes.blocks.block import Links
from xoptim.passes.blocks.finding import find_blocks

NOISE = ("Softplus", "Erf", "Selu", "Softsign", "Sin", "Sigmoid")
"""Operators outside of the blocks."""


def row(
    rng: random.Random, steps: Sequence[str], times: int
) -> tuple[onnx.ModelProto, list[set[str]]]:
    """A model with copies of a block made of these steps; the results of each copy.

    All copies read one common value. Other nodes come before, behind and next to them.
    """
    g = Sketch(rng.randrange(1 << 30))
    x, common = g.input("n", WIDTH), g.add("Cos", g.input("n", WIDTH))
    others = [common, _noise(g, rng, x)]
    x = _noise(g, rng, x)
    order = rng.randrange(1 << 30)
    copies = []
    for _ in range(times):
        start, again = len(g.nodes), random.Random(order)
        for step in steps:
            x = STEPS[step](g, x, common, again)
        copies.append({name for node in g.nodes[start:] for name in node.output})
        others.append(_noise(g, rng, others[-1]))
    return shuffled(g.model(_noise(g, rng, x), *others), rng), copies


def _noise(g: Sketch, rng: random.Random, x: str) -> str:
    for op_type in rng.sample(NOISE, 2):
        x = g.add(op_type, x)
    return x


def shuffled(model: onnx.ModelProto, rng: random.Random) -> onnx.ModelProto:
    """A copy of a model whose nodes are in another order in which they can run."""
    left = list(model.graph.node)
    known = {"", *(v.name for v in model.graph.input), *(t.name for t in model.graph.initializer)}
    other = onnx.ModelProto()
    other.CopyFrom(model)
    del other.graph.node[:]
    while left:
        ready = [index for index, node in enumerate(left) if known.issuperset(node.input)]
        other.graph.node.append(left.pop(rng.choice(ready)))
        known.update(other.graph.node[-1].output)
    return other


def found(model: onnx.ModelProto) -> Iterator[list[set[str]]]:
    """For each block that repeats, the results of each copy."""
    links = Links(load_model(model).graph)
    for block in find_blocks(links):
        yield [{name for node in copy for name in node.output} for copy in links.copies(block.rows)]
