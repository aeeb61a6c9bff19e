"""Write blocks that repeat as one Scan each, over weights that are stacked."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import onnx
from onnx import helper

from xoptim.blocks.block import Block, Result
from xoptim.blocks.finding import find_blocks
from xoptim.blocks.interface import Interface, body_nodes
from xoptim.blocks.links import Links
from xoptim.blocks.naming import BlockNames
from xoptim.blocks.repetition import Repetition
from xoptim.facts.dtypes import bits
from xoptim.facts.info import Info
from xoptim.graph.constants import store
from xoptim.graph.edit import Edit
from xoptim.graph.export import value_info
from xoptim.graph.graph import Graph
from xoptim.graph.model import Model
from xoptim.graph.node import Node

LARGEST: Final = 1 << 30
"""Bytes of the largest stack of weights of a block: they are copied."""
_LEAST_OPSET: Final = 9
"""Operator set since which Scan has its present form."""

Names = tuple[str, ...]
"""The name of one value in each copy."""


class Refused(Exception):  # noqa: N818 - reads as a sentence
    """The reason why a block cannot be one Scan."""


def roll(model: Model) -> list[Repetition]:
    """Replace each block that repeats in the main graph of a model by one Scan, where that is possible.

    A Scan computes the copies one after the other. Values that are handed on from copy to copy are its state, weights that
    differ are stacked along a new first axis, one slice for each copy, and all other values are read by name.

    Returns:
        All blocks that repeat; ``refused`` says why one is not a Scan.
    """
    links = Links(model.graph, sized=True)
    return [_roll(model.graph, links, block) for block in find_blocks(links)]


def _roll(graph: Graph, links: Links, block: Block) -> Repetition:
    copies = links.copies(block.rows)
    names = BlockNames(copies)
    try:
        if not links.is_acyclic([[node for row in block.rows for node in row]]):
            raise Refused("nodes between the copies read their results")
        with Edit(graph) as edit:
            scan = _Scan(graph, block, copies, names)
            edit.commit([node for copy in copies for node in copy], [scan.node(edit)])
    except Refused as reason:
        return Repetition(names.title, len(copies), block.size, "nodes", str(reason))
    graph.sweep()  # Constant nodes that held weights
    for name in (name for stack in scan.stacks for name in stack):
        if name in graph.initializers and not graph.is_needed(name):
            graph.remove_initializer(name)
    return Repetition(names.title, len(copies), block.size, "scan")


class _Scan:
    """One block as a Scan.

    Args:
        graph: the graph.
        block: the block.
        copies: the nodes of each copy.
        names: the names of the block.

    Attributes:
        states: for each value that is handed on, the result that it is.
        stacks: values that are stored and differ between the copies.

    Raises:
        Refused: when the block cannot be a Scan.
    """

    def __init__(self, graph: Graph, block: Block, copies: Sequence[Sequence[Node]], names: BlockNames) -> None:
        self.graph = graph
        self.copies = copies
        self.names = names
        self.interface = Interface(graph, block, copies)
        self.states: dict[Names, Result] = {}
        self.stacks: list[Names] = []
        if graph.opsets.get("", 0) < _LEAST_OPSET:
            raise Refused(f"it needs operator set {_LEAST_OPSET}")
        for operand in self.interface.operands:
            self._classify(operand)
        self._check_results()
        self._check_stacks()

    def _classify(self, operand: Names) -> None:
        if len(set(operand)) == 1:
            return
        result = next((r for r in self.interface.results if operand[1:] == self._named(r)[:-1]), None)
        if result is not None:
            self._check_shapes(operand, result)
            self.states[operand] = result
        elif all(self.graph.tensor(name) is not None for name in operand):
            self.stacks.append(operand)
        else:
            raise Refused(f"{operand[0]!r} is not stored in all copies, and another value in each")

    def _named(self, result: Result) -> Names:
        return tuple(copy[result.place].output[result.output] for copy in self.copies)

    def _check_shapes(self, operand: Names, result: Result) -> None:
        first, *others = (self.graph.info_of(name) for name in (*operand, self._named(result)[-1]))
        if not (first.dtype and first.is_tensor) or first.shape is None:
            raise Refused(f"the type or the rank of {operand[0]!r} is not known")
        if any(other.dtype != first.dtype or other.shape != first.shape for other in others):
            raise Refused(f"{operand[0]!r} is not known to have the shape of {self._named(result)[-1]!r}")

    def _check_results(self) -> None:
        """Check that only the next copy reads a result, but for the last copy."""
        graph = self.graph
        for result in self.interface.results:
            *inner, last = self._named(result)
            if result not in self.states.values():
                raise Refused(f"{last!r} is read outside, and not handed on")
            for number, name in enumerate(inner):
                near = {*self.copies[number], *self.copies[number + 1]}
                if graph.is_output(name) or graph.is_captured(name) or not near.issuperset(graph.consumers(name)):
                    raise Refused(f"{name!r} is read by others than the next copy")

    def _check_stacks(self) -> None:
        size = 0
        for names in self.stacks:
            tensors = [tensor for tensor in map(self.graph.tensor, names) if tensor is not None]
            size += sum(tensor.nbytes for tensor in tensors)
            if bits(tensors[0].dtype) < 8:
                raise Refused(f"{names[0]!r} has elements of less than a byte, or texts")
        if not size:
            raise Refused("the copies have the same weights")
        if size > LARGEST:
            raise Refused(f"its weights have {size} bytes, more than are copied")

    # ---------------------------------------------------------------- the node

    def node(self, edit: Edit) -> Node:
        """The Scan, with its stacks stored in an edit."""
        fresh = edit.names.fresh
        given = {names: fresh(self.names.short(names[0])) for names in (*self.states, *self.stacks)}
        given |= {names: names[0] for names in self.interface.operands if names not in given}
        nodes, made = body_nodes(self.interface, self.names, given, fresh)
        body = onnx.GraphProto(name=self.names.title, node=nodes)
        for names in (*self.states, *self.stacks):
            body.input.append(value_info(given[names], self._kind(names[0])))
        results = []
        for names, result in self.states.items():
            name = made[result]
            if name in (value.name for value in body.output):  # an output of a graph is listed once
                name = fresh(name)
                body.node.append(helper.make_node("Identity", [made[result]], [name]))
            body.output.append(value_info(name, self._kind(names[0])))
            last = self._named(result)[-1]
            results.append(fresh(last) if last in results else last)
        stacked = [store(edit, self.names.title, self._stack(names)) for names in self.stacks]
        attributes = {"body": body, "num_scan_inputs": len(stacked)}
        inputs = [names[0] for names in self.states] + stacked
        return Node("Scan", inputs, results, attributes, name=edit.node_names.fresh(self.names.title))

    def _kind(self, name: str) -> Info:
        """Type and shape of a value, without names of sizes: a subgraph has its own."""
        info = self.graph.info_of(name)
        return Info(info.dtype, info.shape)

    def _stack(self, names: Names) -> np.ndarray:
        tensors = [tensor for tensor in map(self.graph.tensor, names) if tensor is not None]
        return np.stack([tensor.numpy() for tensor in tensors])
