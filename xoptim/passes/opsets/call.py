"""The call of an operator that is raised or lowered: adapters read and change it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

import numpy as np

from xoptim.facts.attributes import AttributeReference
from xoptim.facts.dtypes import numpy_dtype
from xoptim.facts.schema import attribute_defaults
from xoptim.facts.shapes import UNKNOWN, Info
from xoptim.graph.constants import constant_array
from xoptim.graph.graph import Graph
from xoptim.graph.node import Node

CAST_LIKE_SINCE: Final = 15
ALLOWZERO_SINCE: Final = 14
"""Operator set since which Reshape can write a dimension of size 0."""
_MARK: Final = "\0"


class Refused(Exception):  # noqa: N818 - a reason, which becomes an error or an older operator set
    """A call cannot be expressed in an operator set; the message is the reason."""

    def __init__(self, reason: str, version: int = 0) -> None:
        super().__init__(reason)
        self.version = version  # the operator set that changed the operator


@dataclass(slots=True, eq=False)
class Scratch:
    """Shared by the calls that replace one node: facts of the graph, and new names and constants.

    The graph is left unchanged. Until the node is replaced, a new name has a mark, which no name of
    a model contains.
    """

    graph: Graph
    target: int  # the operator set to which the node is brought
    constants: dict[str, np.ndarray] = field(default_factory=dict)  # by provisional name
    _count: int = 0

    def new_name(self, hint: str) -> str:
        """A provisional name."""
        self._count += 1
        return f"{hint}{_MARK}{self._count}"

    def info(self, name: str) -> Info:
        """The facts about a value, `UNKNOWN` for a new one."""
        return UNKNOWN if _MARK in name else self.graph.info_of(name)

    def value(self, name: str) -> np.ndarray | None:
        """The value of a constant, ``None`` for a value that is only known when the model runs."""
        return self.constants.get(name) if _MARK in name else constant_array(self.graph, name)


def hint_of(name: str) -> str | None:
    """The hint of a provisional name, ``None`` for a name of the model."""
    hint, mark, _ = name.partition(_MARK)
    return hint if mark else None


@dataclass(slots=True, eq=False)
class OpsetCall:
    """One call of an operator of the standard domain."""

    scratch: Scratch
    version: int  # operator set in which the call is expressed
    op_type: str  # operator
    inputs: list[str]  # names of the operands, ``""`` for one that is omitted
    outputs: list[str]  # names of the results, ``""`` for one that is omitted
    attributes: dict[str, Any]  # attributes by name
    before: list[OpsetCall] = field(default_factory=list)  # calls to run before it, in order
    after: list[OpsetCall] = field(default_factory=list)  # calls to run after it, in order

    @classmethod
    def of(cls, node: Node, graph: Graph, target: int) -> OpsetCall:
        """The call of a node of a graph that is brought to the operator set ``target``."""
        inputs, outputs, attributes = list(node.input), list(node.output), dict(node.attribute)
        return cls(
            Scratch(graph, target), graph.opsets[""], node.op_type, inputs, outputs, attributes
        )

    def is_call_of(self, node: Node) -> bool:
        """Whether it is the call of the node, unchanged."""
        if (
            self.before
            or self.after
            or self.op_type != node.op_type
            or self.attributes != node.attribute
        ):
            return False
        same_types = all(
            type(value) is type(node.attribute[name]) for name, value in self.attributes.items()
        )
        return same_types and (*self.inputs,) == node.input and (*self.outputs,) == node.output

    # ---------------------------------------------------------------- reading

    def has_input(self, place: int) -> bool:
        """Whether an operand is present."""
        return place < len(self.inputs) and bool(self.inputs[place])

    def info(self, place: int = 0) -> Info:
        """The facts about an operand."""
        return self.scratch.info(self.inputs[place]) if self.has_input(place) else UNKNOWN

    def value(self, place: int) -> np.ndarray | None:
        """The value of a constant operand, ``None`` for a computed or absent operand."""
        return self.scratch.value(self.inputs[place]) if self.has_input(place) else None

    def get(self, name: str) -> Any:
        """The value of an attribute, its default when it is absent, ``None`` without a default.

        Raises `Refused` when the value is a reference to an attribute of the local function that
        contains the call.
        """
        value = self.attributes.get(name)
        if isinstance(value, AttributeReference):
            raise Refused(f"the value of {name} is given by the caller of the local function")
        return (
            attribute_defaults(self.op_type, "", self.version).get(name) if value is None else value
        )

    def take(self, name: str) -> Any:
        """Like `get`, and remove the attribute."""
        value = self.get(name)
        self.attributes.pop(name, None)
        return value

    def is_result_read(self, place: int) -> bool:
        """Whether something reads a result."""
        return (
            place < len(self.outputs)
            and bool(self.outputs[place])
            and self.scratch.graph.is_needed(self.outputs[place])
        )

    # ---------------------------------------------------------------- writing

    def set_input(self, place: int, name: str) -> None:
        """Set an operand; absent operands before it are marked as omitted."""
        self.inputs += [""] * (place + 1 - len(self.inputs))
        self.inputs[place] = name

    def constant(self, value: Any, dtype: Any, hint: str) -> str:
        """The name of a new constant."""
        name = self.scratch.new_name(hint)
        self.scratch.constants[name] = np.asarray(value, dtype=dtype)
        return name

    def integers(self, values: Any, hint: str) -> str:
        """The name of a new constant of rank 1, of type int64."""
        return self.constant(np.atleast_1d(values), np.int64, hint)

    def number(self, value: float, place: int, hint: str) -> str:
        """The name of a new scalar with the element type of an operand, cast at run time if the
        type is unknown.

        Raises `Refused` when the type is unknown, and the operator set has no CastLike.
        """
        dtype = self.info(place).dtype
        if dtype:
            return self.constant(value, numpy_dtype(dtype), hint)
        if self.scratch.target < CAST_LIKE_SINCE:
            raise Refused(f"the element type of {self.inputs[place]!r} is unknown")
        return self.make("CastLike", [self.constant(value, np.float32, hint), self.inputs[place]])

    def make(
        self, op_type: str, inputs: Sequence[str], *, version: int = 0, **attributes: Any
    ) -> str:
        """Add a call of an operator, by default in the target operator set, before this one.

        Returns the name of its result.
        """
        result = self.scratch.new_name(f"{op_type.lower()}_out")
        self.before.append(
            OpsetCall(
                self.scratch,
                version or self.scratch.target,
                op_type,
                list(inputs),
                [result],
                attributes,
            )
        )
        return result

    def size_of(self, axis: int) -> str:
        """The name of a dimension of the first operand, computed at run time, as a vector (since
        operator set 15).
        """
        end = {} if axis == -1 else {"end": axis + 1}
        return self.make("Shape", self.inputs[:1], start=axis, **end)

    def finish(
        self, op_type: str, operands: Sequence[str], place: int = 0, **attributes: Any
    ) -> None:
        """Add a call that computes the node's result from this call's result and ``operands``."""
        result, name = self.outputs[place], self.scratch.new_name(f"{self.op_type.lower()}_out")
        self.outputs[place] = name
        self.after.insert(
            0,
            OpsetCall(
                self.scratch, self.scratch.target, op_type, [name, *operands], [result], attributes
            ),
        )


Adapter: TypeAlias = Callable[[OpsetCall], None]
"""Changes a call so that it computes the same after a change of the operator, or raises `Refused`.
"""
