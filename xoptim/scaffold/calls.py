"""Selected nodes of a graph as the calls of `match_pattern`, as the formatter writes them."""

import builtins
import keyword
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import count
from typing import Any

import numpy as np
from onnx import TensorProto, numpy_helper

from xoptim.facts.attributes import same_attribute
from xoptim.facts.errors import ModelError
from xoptim.facts.families import BROADCASTING
from xoptim.facts.moved import moved_inputs
from xoptim.facts.schema import attribute_default
from xoptim.graph.constants import constant_array
from xoptim.graph.graph import Graph
from xoptim.graph.node import Node
from xoptim.graph.walk import is_read_beyond
from xoptim.match.moved import AT_RUN_TIME, read_moved

_WIDTH = 128
"""Length of a line, as everywhere in the house."""
_PARAMETERS = 8
"""Most parameters of a function, ``self`` not counted, as everywhere in the house."""
SHOWN = 16
"""Elements up to which a constant is written out."""


def number(array: np.ndarray) -> bool | int | float:
    """The number in an array of one element, with the fewest digits that identify it in its own type."""
    value = array.reshape(-1)[0]
    return float(str(value)) if array.dtype.kind == "f" else value.item()


def literal(value: Any) -> str:
    """Python text of an attribute or a number."""
    if isinstance(value, float):
        text = repr(float(str(np.float32(value)))) if np.float32(value) == value else repr(value)
        return text.replace("e+", "e")
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(literal, value))}]"
    if isinstance(value, str):
        return quoted(value)
    if isinstance(value, TensorProto):
        array = numpy_helper.to_array(value)
        if array.size <= SHOWN and array.dtype.kind in "bif":
            return f"lambda t: numpy_helper.to_array(t).tolist() == {array.tolist()}"
    elif isinstance(value, (bool, int, bytes)):
        return repr(value)
    raise ModelError(f"an attribute of type {type(value).__name__} cannot be written as Python; leave its node out")


def quoted(text: str) -> str:
    """A string literal with the quotes of the house."""
    return '"' + repr("'" + text)[2:-1] + '"' if '"' not in text else repr(text)


def wrapped(head: str, words: Sequence[str], tail: str = ")", *, apart: bool = False) -> str:
    """A call in one line, unless wrapping is forced, or in the lines that the formatter would make of it."""
    indent = " " * (len(head) - len(head.lstrip()))
    line = f"{head}{', '.join(words)}{tail}"
    if len(line) <= _WIDTH and not apart:
        return line
    inner = f"{indent}    {', '.join(words)}"
    if len(inner) <= _WIDTH:
        return f"{head}\n{inner}\n{indent}{tail}"
    return "\n".join((head, *(f"{indent}    {word}," for word in words), f"{indent}{tail}"))


def signature(name: str, builder: str, parameters: Mapping[str, str], kind: str, results: int) -> str:
    """The head of a method that takes some parameters and returns as many results of a kind."""
    words = ["self", f"g: {builder}", *(f"{parameter}: {its_kind}" for parameter, its_kind in parameters.items())]
    returned = kind if results == 1 else f"tuple[{', '.join([kind] * results)}]"
    many = len(words) - 1 > _PARAMETERS
    return wrapped(f"    def {name}({'  # noqa: PLR0913' if many else ''}", words, f") -> {returned}:", apart=many)


def imports(body: str, kinds: Iterable[str], types: Iterable[int]) -> str:
    """The imports of a file with a pattern: annotations of these kinds, and element types."""
    words = {"EasyPatternOptimization", "Example", "GraphView", "Match", "PatternBuilder", "PatternRewriter", "Symbol", *kinds}
    lines = ["import numpy as np"] if "np.array" in body else []
    lines.append(f"from onnx import TensorProto{', numpy_helper' if 'numpy_helper' in body else ''}")
    listed = sorted(words)
    one_line = f"from xoptim.match import {', '.join(listed)}"
    if len(one_line) > _WIDTH:
        one_line = wrapped("from xoptim.match import (", listed, apart=True)
    return "\n".join((*lines, "", one_line, ""))


class Calls:
    """The calls that describe selected nodes, in order."""

    def __init__(self, graph: Graph, nodes: Sequence[Node]) -> None:
        self.graph = graph
        self.nodes = nodes
        self.variables: dict[str, str] = {}  # name in the pattern of each result, and of each operand from outside
        self.parameters: dict[str, bool] = {}  # for each operand, in order, whether it must be constant
        made = {name for node in nodes for name in node.output if name}
        self.lines = [self._call(node, made) for node in nodes]  # the calls
        # names in the pattern of the results that other nodes read, or else of the results of the last node
        self.results = self._results()

    @property
    def types(self) -> dict[str, int]:
        """Element type of each parameter; raises `ModelError` when one is not known."""
        found = {name: self.graph.info_of(result).dtype for result, name in self.variables.items() if name in self.parameters}
        unknown = next((result for result, name in self.variables.items() if found.get(name) == 0), None)
        if unknown is not None:
            raise ModelError(f"the type of operand {unknown!r} is not known")
        return found

    def _call(self, node: Node, made: set[str]) -> str:
        moved = self._moved(node)
        kept = len(node.input) if not moved else min(moved)
        operands = [self._operand(node, place, made) for place in range(kept)]
        while operands and operands[-1] == "None":
            operands.pop()
        words = [*operands, *(f"{name}={literal(value)}" for name, value in self._attributes(node, moved.values()))]
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
            if (name and value is AT_RUN_TIME) or place not in known or (isinstance(value, list) and len(value) > SHOWN):
                break
            found[place] = known[place]
        return found

    def _attributes(self, node: Node, moved: Iterable[str]) -> Iterator[tuple[str, Any]]:
        rank = self.graph.info_of(node.input[0]).rank if node.input and node.input[0] else None
        for name, value in node.attribute.items():
            default = attribute_default(
                node.op_type, node.domain, node.opset, name, rank, node.attribute.get("kernel_shape")
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
        if array is not None and array.size == 1 and array.dtype.kind in "bif" and np.isfinite(array).all():
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
        found = next(each for n in count(1) if (each := f"{word}_{n}" if n > 1 else word) not in used)
        if not name or not (self.graph.is_needed(name)):
            return f"_{found}"
        self.variables[name] = found
        return found

    def _results(self) -> list[str]:
        """Results of the pattern: what other nodes read, or the results of the last node."""
        inside, graph = set(self.nodes), self.graph
        read = [name for node in self.nodes for name in node.output if name and is_read_beyond(graph, name, inside)]
        return [self.variables[name] for name in read or [n for n in self.nodes[-1].output if n in self.variables]]
