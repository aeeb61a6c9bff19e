"""Inputs that make a condition of a model true or false, found backwards from the condition.

Other runs give one number to all inputs: the branch of ``mode == 7`` then runs on 7 everywhere.
Here, only inputs that decide the condition are set. The condition is followed backwards through
comparisons, logic, arithmetic and sizes, up to inputs and dimensions.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, Literal, NamedTuple, TypeAlias

import numpy as np
import onnx
from onnx import AttributeProto, NodeProto, TensorProto, numpy_helper

from xoptim.facts.protos import fed_inputs, inner_graphs, is_external, standard_domain
from xoptim.operators.registry import Trait, operators_with
from xoptim.verification.inputs.goal_sizes import MAX_SIZE, SizeGoals
from xoptim.verification.inputs.inverses import (
    MAX_WAYS,
    MIRRORED,
    UNARY,
    is_all,
    on_side,
    single_number,
    undone,
    undone_left,
)

_DEPTH: Final = 24
_MAX_SOLUTIONS: Final = 12  # of one condition
_MAX_JOINED: Final = _MAX_SOLUTIONS**2  # of several conditions at once
_MAX_STEPS: Final = 2000  # of the search for one condition: paths double at each sum of two
_MAX_STEPS_OF_ALL: Final = 100_000
_MAX_NUMBER: Final = (1 << 64) - 1
_MAX_TABLE: Final = 4096  # elements of a constant that is read
_COMPARISONS: Final = operators_with(Trait.COMPARES)
_SAME: Final = operators_with(Trait.KEEPS_NUMBER)
_EXTREMES: Final = ("ReduceMax", "ReduceMin")
_KEEPING: Final = ("Cast", "Identity", "Reshape", "Squeeze", "Unsqueeze")
"""Operators whose results have the numbers of their first operand."""
_ORDERING: Final = frozenset(("Cast", "Identity", "Reshape", "Squeeze", "TopK", "Unsqueeze"))
"""Operators whose result has elements of their first operand, in the same order or sorted."""
Form: TypeAlias = Literal[
    "fill", "sum", "nonzero", "length", "present", "copy", "less", "quotient", "steps"
]


class Content(NamedTuple):
    """The content that an input should have.

    Attributes:
        form: ``fill``: one number everywhere; ``sum``: numbers with this sum along the axes;
            ``nonzero``: this many numbers that are not 0; ``length``: of a sequence; ``present``:
            whether an optional has a value; ``copy``: the value of ``source``, plus ``value``;
            ``less``: ``value`` minus ``source``; ``quotient``: ``value`` / ``source``; ``steps``:
            rows that ascend by ``value``.
        value: the number or text.
        source: name of another value.
        axes: of a sum; all when ``None``.
    """

    form: Form
    value: Any = 0
    source: str = ""
    axes: tuple[int, ...] | None = None


class Solution(NamedTuple):
    """Contents of inputs, and sizes of dimensions, that decide a condition."""

    inputs: Mapping[str, Content]
    sizes: Mapping[str, int]

    def joined(self, other: Solution) -> Solution | None:
        """Both solutions together, ``None`` where they contradict each other."""
        for left, right in ((self.inputs, other.inputs), (self.sizes, other.sizes)):
            if any(right[name] != content for name, content in left.items() if name in right):
                return None
        return Solution({**self.inputs, **other.inputs}, {**self.sizes, **other.sizes})


_FREE: Final = Solution({}, {})


class Goal(NamedTuple):
    """A condition of the model, a value it should have, and a solution that may give it.

    Attributes:
        condition: name of the condition.
        wanted: the value.
        around: the conditions of the branches around the condition, with the values that lead
            there.
        solution: contents and sizes that may give the conditions these values.
    """

    condition: str
    wanted: bool
    around: tuple[tuple[str, bool], ...]
    solution: Solution


class Goals:
    """The conditions of a model: of its branches, and of each Where."""

    def __init__(self, model: onnx.ModelProto, sizes: SizeGoals) -> None:
        self._sizes = sizes
        self._steps = 0  # left for a condition
        self._steps_of_all = _MAX_STEPS_OF_ALL  # left for all conditions
        graphs = [model.graph, *inner_graphs(model.graph.node)]
        self._producers = {
            name: node for graph in graphs for node in graph.node for name in node.output if name
        }
        self._inputs = {value.name: value.type for value in fed_inputs(model)}
        self._constants = {
            tensor.name: tensor
            for graph in graphs
            for tensor in graph.initializer
            if not is_external(tensor) and math.prod(tensor.dims) <= _MAX_TABLE
        }
        self._nodes = [node for graph in graphs for node in graph.node]
        self._parents = {
            body_node: node
            for node in self._nodes
            for attribute in node.attribute
            if attribute.type == AttributeProto.GRAPH and node.op_type == "If"
            for body_node in map(id, attribute.g.node)
        }
        self._branches = {
            id(body_node): (node.input[0], attribute.name == "then_branch")
            for node in self._nodes
            if node.op_type == "If"
            for attribute in node.attribute
            if attribute.type == AttributeProto.GRAPH
            for body_node in attribute.g.node
        }

    def branches(self) -> Iterator[Goal]:
        """Goals for both branches of each If; they also lead to the If itself."""
        for node in self._nodes:
            if node.op_type == "If" and not standard_domain(node.domain):
                yield from self._goals(node, node.input[0])

    def choices(self) -> Iterator[Goal]:
        """Goals for both sides of each Where."""
        for node in self._nodes:
            if node.op_type == "Where":
                yield from self._goals(node, node.input[0])

    def _goals(self, node: NodeProto, condition: str) -> Iterator[Goal]:
        around = tuple(self._around(node))
        for truth in (True, False):
            self._steps = _MAX_STEPS
            parts = [self._truth(condition, truth, _DEPTH)]
            parts += [self._truth(name, value, _DEPTH) for name, value in around]
            solutions: Iterator[Solution] = itertools.islice(_all_of(parts), _MAX_SOLUTIONS)
            if around:  # a solution of one condition may happen to meet the others as well
                truths = [(condition, truth), *around]
                single = itertools.chain(*(self._truth(*pair, _DEPTH) for pair in truths))
                solutions = itertools.chain(solutions, itertools.islice(single, _MAX_SOLUTIONS))
            yield from (Goal(condition, truth, around, s) for s in _distinct(solutions))

    def _around(self, node: NodeProto) -> Iterator[tuple[str, bool]]:
        """The conditions of the branches that a node is in, with the values that lead there."""
        current: NodeProto | None = node
        while current is not None and id(current) in self._branches:
            yield self._branches[id(current)]
            current = self._parents.get(id(current))

    def _has_steps(self) -> bool:
        """Whether the search may go on; counts a step."""
        self._steps -= 1
        self._steps_of_all -= 1
        return min(self._steps, self._steps_of_all) >= 0

    # ---------------------------------------------------------------- conditions

    def _truth(self, name: str, truth: bool, depth: int) -> Iterator[Solution]:
        """Solutions that make a Boolean value true, or false, everywhere."""
        if name in self._inputs:
            yield Solution({name: Content("fill", truth)}, {})
            return
        constant, node = self._constant(name), self._producers.get(name)
        if constant is not None:
            yield from [_FREE] if bool((constant == truth).all()) else []
            return
        if node is None or depth == 0 or not self._has_steps():
            return
        first, *later_operands = [*node.input, ""]
        kind = node.op_type
        if kind == "Not":
            yield from self._truth(first, not truth, depth - 1)
        elif kind in ("And", "Or"):
            sides = [
                self._truth(operand, truth, depth - 1) for operand in (first, later_operands[0])
            ]
            is_joint = (kind == "And") == truth
            yield from _all_of(sides) if is_joint else itertools.chain(*sides)
        elif kind in _COMPARISONS:
            yield from self._compared(kind, first, later_operands[0], truth, depth - 1)
        elif kind == "OptionalHasElement":
            yield from self._content(first, Content("present", truth))
        elif kind in ("IsNaN", "IsInf"):
            special = math.nan if kind == "IsNaN" else math.inf
            yield from self._number(first, special if truth else 1, depth - 1)
        elif kind == "Cast" and not self._is_boolean(first):
            yield from self._number(first, int(truth), depth - 1)
        elif kind in _SAME:
            yield from self._truth(first, truth, depth - 1)

    def _is_boolean(self, name: str) -> bool:
        """Whether a value is Boolean, by its producer or the type of the input."""
        node = self._producers.get(name)
        if name in self._inputs:
            return self._inputs[name].tensor_type.elem_type == TensorProto.BOOL
        return node is not None and (
            node.op_type in _COMPARISONS or node.op_type in ("Not", "And", "Or", "Xor", "IsNaN")
        )

    def _compared(
        self, kind: str, first: str, second: str, truth: bool, depth: int
    ) -> Iterator[Solution]:
        """Solutions that make a comparison true or false."""
        left, right = self._constant(first), self._constant(second)
        if left is not None and right is None:
            yield from self._compared(MIRRORED.get(kind, kind), second, first, truth, depth)
            return
        if right is None:
            yield from self._related(kind, first, second, truth, depth)
            return
        is_solved = False
        for bound in dict.fromkeys(right.reshape(-1).tolist()[:MAX_WAYS]):
            for value in on_side(kind, bound, truth):
                for solution in self._number(first, value, depth):
                    is_solved = True
                    yield solution
        if not is_solved and kind != "Equal":
            yield _FREE  # ordinary values may be enough

    def _related(
        self, kind: str, first: str, second: str, truth: bool, depth: int
    ) -> Iterator[Solution]:
        """Solutions for computed operands: one operand follows the other."""
        step = 0 if (kind in ("Equal", "LessOrEqual", "GreaterOrEqual")) == truth else 1
        sign = -1 if kind.startswith("Less") == truth else 1
        for operand, other, offset in ((first, second, sign * step), (second, first, -sign * step)):
            source = self._source(operand)
            if source is not None and source != self._source(other):
                yield Solution({source: Content("copy", offset, other)}, {})
        if kind == "Equal" and truth:
            yield from self._spread(first, second, depth)
            yield from self._sized_pair(first, second, depth)
            for value in (1, 0):  # both are this number
                yield from _all_of([self._number(name, value, depth) for name in (first, second)])
        yield _FREE

    def _spread(self, first: str, second: str, depth: int) -> Iterator[Solution]:
        """Solutions that make the largest and the smallest element of a value equal."""
        makers = [self._producers.get(name) for name in (first, second)]
        reduced = [node for node in makers if node is not None and node.op_type in _EXTREMES]
        operands = {node.input[0] for node in reduced}
        if len(reduced) == len(makers) and len(operands) == 1:
            for value in (3, 1, 0):
                yield from self._number(reduced[0].input[0], value, depth)

    def _sized_pair(self, first: str, second: str, depth: int) -> Iterator[Solution]:
        """Solutions that make a size equal to an element of a constant table."""
        for size, element in ((first, second), (second, first)):
            if self._sizes.is_size(size):
                for value in self._elements(element):
                    pair = [self._number(size, value, depth), self._number(element, value, depth)]
                    yield from _all_of(pair)

    def _elements(self, name: str) -> list[int]:
        """The numbers of a table from which a value is gathered."""
        node = self._producers.get(name)
        while node is not None and node.op_type in _SAME:
            node = self._producers.get(node.input[0])
        table = self._constant(node.input[0]) if node is not None and node.input else None
        return [] if table is None else [int(number) for number in table.reshape(-1)[:MAX_WAYS]]

    def _source(self, name: str) -> str | None:
        """The input that has the elements of a value, in the same order or sorted by TopK."""
        while name not in self._inputs:
            node = self._producers.get(name)
            if node is None or node.op_type not in _ORDERING:
                return None
            name = node.input[0]
        return name

    # ---------------------------------------------------------------- numbers

    def _number(self, name: str, value: Any, depth: int) -> Iterator[Solution]:
        """Solutions that make a value one number everywhere; none for a number beyond 64 bits."""
        if isinstance(value, int) and abs(value) > _MAX_NUMBER:
            return
        if name in self._inputs:
            yield Solution({name: Content("fill", value)}, {})
            return
        constant = self._constant(name)
        if constant is not None:
            yield from [_FREE] if is_all(constant, value) else []
            return
        if not isinstance(value, str):
            yield from (Solution({}, sizes) for sizes in self._sizes.solutions(name, value))
        node = self._producers.get(name)
        if node is None or depth == 0 or not self._has_steps():
            return
        if node.op_type in _COMPARISONS or node.op_type in ("And", "Or", "Not"):
            yield from self._truth(name, bool(value), depth)
        elif node.op_type in _SAME:
            yield from self._number(node.input[0], value, depth - 1)
        elif not isinstance(value, str):
            yield from self._computed(node, value, depth - 1)

    def _computed(self, node: NodeProto, value: Any, depth: int) -> Iterator[Solution]:
        """Solutions that make the result of a node one number."""
        first, kind = node.input[0] if node.input else "", node.op_type
        if kind in UNARY:
            with np.errstate(all="ignore"):
                inverse = [float(number) for number in UNARY[kind](float(value))]
            for number in inverse:
                if math.isfinite(number):
                    content = int(number) if number.is_integer() else number
                    yield from self._number(first, content, depth)
        elif kind in ("Add", "Sub", "Mul", "Div", "Mod", "BitShift", "BitwiseAnd", "BitwiseXor"):
            yield from self._arithmetic(node, value, depth)
        elif kind in ("ReduceSum", "ReduceL1"):
            yield from self._summed(node, value)
        elif kind in ("Gather", "GatherElements", "GatherND"):
            yield from self._gathered(node, value, depth)
        elif kind == "SequenceLength" and value <= MAX_SIZE:
            yield from self._content(first, Content("length", value))
        elif kind == "Where":
            for choice, operand in ((True, node.input[1]), (False, node.input[2])):
                pair = [self._truth(first, choice, depth), self._number(operand, value, depth)]
                yield from _all_of(pair)
        elif kind in ("Shape", "ReduceProd"):
            yield from self._counted(node, value)

    def _content(self, name: str, content: Content) -> Iterator[Solution]:
        if name in self._inputs:
            yield Solution({name: content}, {})

    def _counted(self, node: NodeProto, count: Any) -> Iterator[Solution]:
        """Solutions for the number of elements, or of nonzero elements, of a tensor."""
        producer = self._producers.get(node.input[0])
        if producer is None:
            return
        name = producer.input[0]
        if node.op_type == "ReduceProd" and producer.op_type == "Shape":
            yield from (Solution({}, sizes) for sizes in self._sizes.products(name, count))
        elif producer.op_type == "NonZero" and name in self._inputs and 0 <= count < MAX_SIZE:
            sizes = self._sizes.at_least(name, int(count) + 1)
            yield Solution({name: Content("nonzero", count)}, sizes)

    def _summed(self, node: NodeProto, value: Any) -> Iterator[Solution]:
        source = self._source(node.input[0])
        if source is None:
            return
        constant = self._constant(node.input[1]) if len(node.input) > 1 and node.input[1] else None
        axes = None if constant is None else tuple(int(axis) for axis in constant.reshape(-1))
        yield Solution({source: Content("sum", value, axes=axes)}, {})

    def _gathered(self, node: NodeProto, value: Any, depth: int) -> Iterator[Solution]:
        table = self._constant(node.input[0])
        if table is None:
            yield from self._number(node.input[0], value, depth)
            return
        axis = next((a.i for a in node.attribute if a.name == "axis"), 0)
        if node.op_type != "Gather" or not table.ndim:
            return
        rows = np.moveaxis(table, axis, 0).reshape(len(np.moveaxis(table, axis, 0)), -1)
        for index in np.flatnonzero((rows == value).all(axis=1))[:MAX_WAYS].tolist():
            yield from self._number(node.input[1], index, depth)

    def _arithmetic(self, node: NodeProto, value: Any, depth: int) -> Iterator[Solution]:
        first, second = node.input[:2]
        left, right = (single_number(self._constant(name)) for name in (first, second))
        if right is not None:
            for number in undone(node, value, right):
                yield from self._number(first, number, depth)
        elif left is not None:
            for number in undone_left(node.op_type, value, left):
                yield from self._number(second, number, depth)
        elif first == second and node.op_type == "Mul" and value >= 0:
            yield from self._number(first, math.sqrt(value), depth)
        elif node.op_type in ("Add", "Sub", "Mul"):
            yield from self._of_two(node, value, depth)

    def _of_two(self, node: NodeProto, value: Any, depth: int) -> Iterator[Solution]:
        """Solutions for a sum, difference or product of two computed operands."""
        first, second = node.input[:2]
        sliced = [self._sliced(name) for name in (first, second)]
        if node.op_type == "Sub" and sliced[0] is not None and sliced[0] == sliced[1]:
            yield Solution({sliced[0]: Content("steps", value)}, {})
        forms: dict[str, Form] = {"Add": "less", "Sub": "copy", "Mul": "quotient"}
        for operand, other in ((first, second), (second, first)):
            source = self._source(operand)
            if source is not None and source != self._source(other):
                yield Solution({source: Content(forms[node.op_type], value, other)}, {})
        for a, b in self._parts(node, value):
            pair = [self._number(first, a, depth), self._number(second, b, depth)]
            yield from _all_of(pair)

    def _sliced(self, name: str) -> str | None:
        """The input of which a value is a slice."""
        node = self._producers.get(name)
        is_slice = node is not None and node.op_type == "Slice"
        return self._source(node.input[0]) if is_slice and node is not None else None

    def _parts(self, node: NodeProto, value: Any) -> Iterator[tuple[Any, Any]]:
        """Pairs of operands whose sum, difference or product is a number."""
        if node.op_type == "Sub":
            yield from ((value + part, part) for part in (1, 2, 5))
        elif node.op_type == "Mul":
            if float(value).is_integer() and value > 0:
                product = int(value)
                candidates = range(2, min(product, MAX_SIZE) + 1)
                pairs = ((a, product // a) for a in candidates if product % a == 0)
                yield from itertools.islice(pairs, MAX_WAYS)
        else:
            factors = [self._factor(name) for name in node.input[:2]]
            for index, factor in enumerate(factors):
                if factor and float(value).is_integer() and abs(value) >= factor:
                    remainder = int(value) % int(factor)
                    yield (
                        (value - remainder, remainder)
                        if index == 0
                        else (remainder, value - remainder)
                    )
            half = value // 2
            yield from ((half, value - half), (1, value - 1), (value - 1, 1))

    def _factor(self, name: str) -> int:
        """The constant integer by which an operand is multiplied, 0 where there is none."""
        node = self._producers.get(name)
        if node is None or node.op_type != "Mul":
            return 0
        constants = [single_number(self._constant(operand)) for operand in node.input]
        number = next((constant for constant in constants if constant is not None), 0)
        return int(number) if float(number).is_integer() and number > 1 else 0

    def _constant(self, name: str) -> np.ndarray | None:
        """The elements of a small constant."""
        node = self._producers.get(name)
        while node is not None and node.op_type in _KEEPING:
            name = node.input[0]
            node = self._producers.get(name)
        tensor = self._constants.get(name)
        if tensor is None and node is not None and node.op_type == "Constant":
            return _stored(node)
        if tensor is None or name in self._inputs:
            return None
        try:
            return numpy_helper.to_array(tensor)
        except (TypeError, ValueError, KeyError):  # a damaged tensor
            return None


def _stored(node: NodeProto) -> np.ndarray | None:
    for attribute in node.attribute:
        if attribute.type == AttributeProto.TENSOR:
            return numpy_helper.to_array(attribute.t)
        value = onnx.helper.get_attribute_value(attribute)
        if isinstance(value, (int, float, list)):
            return np.asarray(value)
    return None


def _all_of(parts: Iterable[Iterator[Solution]]) -> Iterator[Solution]:
    """Solutions of several conditions at once."""
    joined = [_FREE]
    for part in parts:
        limited = [*itertools.islice(part, _MAX_SOLUTIONS)]
        pairs = (base.joined(solution) for base in joined for solution in limited)
        joined = [*itertools.islice((pair for pair in pairs if pair is not None), _MAX_JOINED)]
    yield from joined


def _distinct(solutions: Iterable[Solution]) -> Iterator[Solution]:
    distinct: list[Solution] = []
    for solution in solutions:
        if solution not in distinct and solution != _FREE:
            distinct.append(solution)
            yield solution
