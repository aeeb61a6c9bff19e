"""The pass that shortens computations of sizes."""

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from xoptim.facts.errors import RewriteError
from xoptim.graph.constants import store
from xoptim.graph.edit import Edit
from xoptim.graph.graph import Graph
from xoptim.graph.model import Model
from xoptim.graph.node import Node
from xoptim.match.create import make_node
from xoptim.match.rewrite import Example, ModelPass
from xoptim.passes.shape_arithmetic.planning import Operand, Planner, Term
from xoptim.passes.shape_arithmetic.region import Key, SizeRegion

logger = logging.getLogger(__name__)


class ShapeArithmetic(ModelPass):
    """Shape, Gather, Add, Div, Unsqueeze, Concat, ... of sizes → the fewest nodes that compute the
    same sizes.

    What: replaces all nodes of a graph that only compute sizes. The sizes that other nodes read are
    computed from their symbolic expressions: from the shapes of inputs and of tensors whose shape
    is read already, with one operation for several sizes where possible, and each size once.
    Why: exporters compute each size separately, as a scalar that becomes a vector again: up to 40 %
    of the nodes of image models with dynamic shapes.
    Refuses when:
    1. an element is not known as an expression of sizes, or is not a 64-bit integer.
    2. the nodes would not become fewer.
    3. the new nodes might not compute the same in 64 bits: sums that wrap around, divisions of
       negative numbers.
    """

    phase = "final"
    min_opset = 13

    examples = (
        Example(
            "agraph (float[a,b,c] x, float[n] z) "
            "=> (float[p,q,r] y) <int64 i = {1}, int64 j = {2}, int64[1] o = {0}, "
            "int64[1] m = {-1}> { s = Shape(x) k = Gather(s, i) l = Gather(s, j) d = Div(k, j) "
            "e = Div(l, j) f = Unsqueeze(d, o) g = Unsqueeze(e, o) "
            "t = Concat <axis = 0> (f, g, m) y = Reshape(z, t) }",
            "agraph (float[a,b,c] x, float[n] z) "
            "=> (float[p,q,r] y) <int64[1] j = {2}, int64[1] m = {-1}> { "
            "s = Shape <start = 1> (x) d = Div(s, j) t = Concat <axis = 0> (d, m) "
            "y = Reshape(z, t) }",
        ),
    )

    def run(self, model: Model) -> int:
        """Shorten the computations of all graphs; returns how many became shorter."""
        return sum(shorten(graph) for graph in list(model.graphs()))


def shorten(graph: Graph) -> int:
    """Replace computations of sizes by shorter ones; returns their number."""
    region = SizeRegion(graph)
    if not region.demanded:
        return 0
    planner = Planner(region)
    # Vectors of many sizes first: others gather elements of them.
    order = sorted(
        region.demanded,
        key=lambda name: -sum(type(dim) is not int for dim in region.values[name][1]),
    )
    names = {name for name in order if planner.plan(name)}
    programs = [p for p in _programs(region, planner) if names.issuperset(p.demanded)]
    return sum(_replace(graph, program) for program in programs if program.is_shorter(region))


@dataclass
class _Program:
    """Sizes that are replaced together, because they share a node now or as planned."""

    nodes: list[Node] = field(default_factory=list)  # the nodes that compute the sizes now
    # the values of the results that other nodes read
    demanded: dict[str, Key] = field(default_factory=dict)
    # the planned nodes, operands first
    terms: dict[Key | str, Term] = field(default_factory=dict)

    def is_shorter(self, region: SizeRegion) -> bool:
        """Whether the plan has fewer nodes, counting the tensors that nothing else reads."""
        copies = len(self.demanded) - len(set(self.demanded.values()))
        before = {name for node in self.nodes for name in node.input} & region.spared
        after = {
            name for term in self.terms.values() for name in term.operands if isinstance(name, str)
        } & region.spared
        return len(self.terms) + copies + len(after) < len(self.nodes) + len(before)


def _programs(region: SizeRegion, planner: Planner) -> list[_Program]:
    """The demanded sizes, those without a plan included, grouped by the nodes that they share."""
    parents: dict[object, object] = {}

    def leader(item: object) -> object:
        while (parent := parents.setdefault(item, item)) is not item:
            parents[item] = item = parents[parent]
        return item

    results = {name for node in region.nodes for name in node.output}
    for node in region.nodes:
        for name in (*node.input, *node.output):
            if name in results:
                parents[leader(name)] = leader(node.output[0])
    for name, key in region.values.items():
        if name in region.demanded:
            for term in planner.planned.terms_of(key):
                parents[leader(term.key)] = leader(name)
    programs: dict[object, _Program] = {}
    for node in region.nodes:
        programs.setdefault(leader(node.output[0]), _Program()).nodes.append(node)
    for name in region.demanded:
        program = programs[leader(name)]
        program.demanded[name] = region.values[name]
        program.terms.update(
            (term.key, term) for term in planner.planned.terms_of(region.values[name])
        )
    return list(programs.values())


def _replace(graph: Graph, program: _Program) -> int:
    """Write a program as planned; returns 1, or 0 when a result may differ."""
    names: dict[Key | str, str] = {}
    with Edit(graph) as edit:
        for name, value in program.demanded.items():
            names.setdefault(value, name)
        for key, term in program.terms.items():
            operands = [_operand(edit, names, operand) for operand in term.operands]
            results: list[str] | int = [names[key]] if key in names else 1
            node = make_node(edit, term.op_type, operands, results, attributes=term.attributes)
            edit.collect(node)
            names[key] = node.output[0]
            if not isinstance(key, str) and edit.info_of(node.output[0]).data != key[1]:
                logger.debug("%s does not give %s", node, key[1])
                return 0
        for name, value in program.demanded.items():
            if names[value] != name:
                edit.collect(make_node(edit, "Identity", [names[value]], [name], attributes={}))
        try:
            edit.commit(program.nodes, edit.created)
        except RewriteError as error:
            logger.debug("the sizes stay as they are: %s", error)
            return 0
    return 1


def _operand(edit: Edit, names: Mapping[Key | str, str], operand: Operand) -> str:
    if isinstance(operand, str):
        return operand
    if isinstance(operand, np.ndarray):
        return store(edit, "sizes", operand)
    if operand.op_type:
        return names[operand.key]
    assert not isinstance(operand.key, str)
    rank, data = operand.key
    return store(edit, "sizes", np.array(data, np.int64).reshape([len(data)] * rank))
