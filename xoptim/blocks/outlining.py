"""Write blocks that repeat as local functions, which are called once for each copy."""

from __future__ import annotations

from typing import Final

import onnx

from xoptim.blocks.block import Block
from xoptim.blocks.finding import find_blocks
from xoptim.blocks.interface import Interface, body_nodes
from xoptim.blocks.links import Links
from xoptim.blocks.naming import BlockNames
from xoptim.blocks.repetition import Repetition
from xoptim.graph.edit import Edit
from xoptim.graph.load import load_function
from xoptim.graph.model import Function, Model
from xoptim.graph.names import Names
from xoptim.graph.node import LOCAL, Node
from xoptim.graph.propagate import infer_graph
from xoptim.match.rewrite import Step

DOMAIN: Final = "outlined"
"""Domain of the functions."""
_LEAST_IR_VERSION: Final = 8
"""Version of the file format since which there are local functions."""


class Outline(Step):
    """Replaces the blocks that repeat in the main graph of a model by calls of local functions.

    The model computes the same: the functions hold the nodes of the first copy, and everything that these read from outside is
    an operand of the call, weights included. The file format is raised to the first version that has functions.

    Attributes:
        found: the blocks.
    """

    title = "outline"

    def __init__(self) -> None:
        self.found: list[Repetition] = []

    def run(self, model: Model) -> int:
        """Write the blocks of a model once; returns their number."""
        links = Links(model.graph)
        found = [_outline(model, links, block) for block in find_blocks(links)]
        self.found += found
        return len(found)


def _outline(model: Model, links: Links, block: Block) -> Repetition:
    graph, copies = model.graph, links.copies(block.rows)
    names = BlockNames(copies)
    interface = Interface(graph, block, copies)
    name = _free_name(model, names.title)
    for number, copy in enumerate(copies):
        with Edit(graph) as edit:
            if not number:
                edit.functions.append(_function(model, name, interface, names))
            results = [copy[result.place].output[result.output] for result in interface.results]
            operands = [each[number] for each in interface.operands]
            call = Node(name, operands, results, domain=DOMAIN, name=edit.node_names.fresh(names.calls[number]))
            edit.commit(copy, [call])
    model.shell.ir_version = max(model.shell.ir_version or _LEAST_IR_VERSION, _LEAST_IR_VERSION)
    return Repetition(name, len(copies), block.size, "function")


def _free_name(model: Model, title: str) -> str:
    taken = Names()
    taken.used.update(name for domain, name, _ in (function.key for function in model.functions) if domain == DOMAIN)
    return taken.fresh(title)


def _function(model: Model, name: str, interface: Interface, names: BlockNames) -> Function:
    """The function that a block becomes."""
    values = Names()
    given = {operand: values.fresh(names.short(operand[0])) for operand in interface.operands}
    nodes, made = body_nodes(interface, names, given, values.fresh)
    results = [made[result] for result in interface.results]
    proto = onnx.FunctionProto(name=name, domain=DOMAIN, input=given.values(), output=results, node=nodes)
    for domain in dict.fromkeys(node.domain.removesuffix(LOCAL) for node in interface.copies[0]):
        proto.opset_import.add(domain=domain, version=model.graph.opsets.get(domain, 1))
    function = load_function(model, proto)
    infer_graph(function.body)
    return function
