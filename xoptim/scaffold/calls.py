"""The calls of a pattern that describe selected nodes of a graph."""

import builtins
import keyword
import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import count
from typing import Any

import numpy as np

from xoptim.facts.attributes import moved_inputs, same_attribute
from xoptim.facts.errors import ModelError
from xoptim.facts.schema import attribute_default
from xoptim.facts.shapes import BROADCASTING
from xoptim.graph.constants import constant_array
from xoptim.graph.graph import Graph
from xoptim.graph.node import Node
from xoptim.graph.walk import is_read_beyond
from xoptim.match.create import AT_RUN_TIME, read_moved
from xoptim.scaffold.source_text import SHOWN, literal, number, quoted, wrapped


class Calls:
    """The calls that describe selected nodes, in order."""

    def __init__(self, graph: Graph, nodes: Sequence[Node]) -> None:
        self.graph = graph
        self.nodes = nodes
        # name in the pattern of each result, and of each operand from outside
        self.variables: dict[str, str] = {}
        # for each operand, in order, whether it must be constant
        self.parameters: dict[str, bool] = {}
        made = {name for node in nodes for name in node.output if name}
        self.lines = [self._call(node, made) for node in nodes]  # the calls
        # names in the pattern of the results that other nodes read, or else of the results of the
        # last node
        self.results = self._results()

    @property
    def types(self) -> dict[str, int]:
        """Element type of each parameter; raises `ModelError` when one is not known."""
        found = {
            name: self.graph.info_of(result).dtype
            for result, name in self.variables.items()
            if name in self.parameters
        }
        unknown = next(
            (result for result, name in self.variables.items() if found.get(name) == 0), None
        )
        if unknown is not None:
            raise ModelError(f"the type of operand {unknown!r} is not known")
        return found

    def _call(self, node: Node, made: set[str]) -> str:
        moved = self._moved(node)
        kept = len(node.input) if not moved else min(moved)
        operands = [self._operand(node, place, made) for place in range(kept)]
        while operands and operands[-1] == "None":
            operands.pop()
        words = [
            *operands,
            *(f"{name}={literal(value)}" for name, value in self._attributes(node, moved.values())),
        ]
        outputs = list(node.output)
        while not outputs[-1]:
            outputs.pop()
        if node.domain:
            words.append(f"domain={quoted(node.domain)}")
        if len(outputs) > 1:
            words.append(f"outputs={len(outputs)}")
        targets = ", ".join(self._result(node, name) for name in outputs)
        return wrapped(f"        {targets} = g.op.{node.op_type}(", words)

    def _moved(self, node: Node) -> dict[int, str]:
        """The last operands that are constant and can be written as attributes."""
        found: dict[int, str] = {}
        known = moved_inputs(node.op_type, node.opset) if not node.domain else {}
        for place in range(len(node.input) - 1, -1, -1):
            name = node.input[place]
            value = read_moved(self.graph, node, known[place]) if place in known else AT_RUN_TIME
            if (
                (name and value is AT_RUN_TIME)
                or place not in known
                or (isinstance(value, list) and len(value) > SHOWN)
            ):
                break
            found[place] = known[place]
        return found

    def _attributes(self, node: Node, moved: Iterable[str]) -> Iterator[tuple[str, Any]]:
        rank = self.graph.info_of(node.input[0]).rank if node.input and node.input[0] else None
        for name, value in node.attribute.items():
            default = attribute_default(
                node.op_type,
                node.domain,
                node.opset,
                name,
                rank,
                node.attribute.get("kernel_shape"),
            )  # what is not mentioned must have its default
            if default is None or not same_attribute(value, default):
                yield name, value
        for name in moved:
            value = read_moved(self.graph, node, name)
            if value is not None:
                yield name, value

    def _operand(self, node: Node, place: int, made: set[str]) -> str:
        name = node.input[place]
        if not name:
            return "None"
        if name in made:
            return self.variables[name]
        array = constant_array(self.graph, name)
        if (
            array is not None
            and array.size == 1
            and array.dtype.kind in "bif"
            and np.isfinite(array).all()
        ):
            if node.op_type in BROADCASTING and not node.domain:
                return literal(number(array))
            return f"np.array({literal([number(array)] if array.ndim == 1 else number(array))})"
        known = self.variables.get(name)
        if known is None:
            constants = sum(self.parameters.values())
            free = len(self.parameters) - constants
            if array is not None:
                known = f"c{constants + 1}" if constants else "c"
            else:
                known = "xyzuvw"[free] if free < 6 else f"x{free + 1}"
            self.variables[name] = known
            self.parameters[known] = array is not None
        return known

    def _result(self, node: Node, name: str) -> str:
        word = re.sub(r"\W", "_", node.op_type).lower()
        used = {*self.variables.values(), *keyword.kwlist, *dir(builtins), "g", "self", "np"}
        found = next(
            each for n in count(1) if (each := f"{word}_{n}" if n > 1 else word) not in used
        )
        if not name or not (self.graph.is_needed(name)):
            return f"_{found}"
        self.variables[name] = found
        return found

    def _results(self) -> list[str]:
        """Results of the pattern: what other nodes read, or the results of the last node."""
        inside, graph = set(self.nodes), self.graph
        read = [
            name
            for node in self.nodes
            for name in node.output
            if name and is_read_beyond(graph, name, inside)
        ]
        return [
            self.variables[name]
            for name in read or [n for n in self.nodes[-1].output if n in self.variables]
        ]
