"""Loops and Scans whose body is one step of a recurrence."""

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from xoptim.facts.dims import Dim
from xoptim.match import GraphView, Node

from .._nodes import is_op
from ._loop_nodes import LoopNode, copy_source

_RANK: Final = 3
"""The rank of a tensor of all steps."""
_MAX_OPS: Final = 4
"""Maximum number of operators between the number of an iteration and an index."""


class StepInput(NamedTuple):
    """The tensor of which a Loop or a Scan reads one step per iteration.

    Attributes:
        tensor: of shape (steps, batch, features), or (batch, steps, features).
        axis: the axis of the steps.
        is_reversed: whether the first iteration reads the last step.
        steps, batch: dimensions.
    """

    tensor: str
    axis: int
    is_reversed: bool
    steps: Dim
    batch: Dim


class StackedStates(NamedTuple):
    """The states after all steps, as one tensor.

    Attributes:
        name: a result of the Loop or Scan, or of a ConcatFromSequence after it.
        axis: the axis of the steps.
        nodes: the ConcatFromSequence, if there is one.
    """

    name: str
    axis: int
    nodes: Sequence[Node] = ()


def input_of(g: GraphView, loop: LoopNode, name: str) -> StepInput | None:
    """The tensor from which a value in the body takes one step per iteration, or ``None``."""
    index = None
    if loop.is_loop:
        node = loop.body.producer(name)
        index = _index(g, loop, node.input[1]) if is_op(node, "Gather") else None
        if not is_op(node, "Gather") or index is None:
            return None
        tensor, axis, is_reversed = node.input[0], node.get_attribute("axis", 0), index.factor < 0
        inner = {*loop.body.inputs, *(output for n in loop.body.nodes for output in n.output)}
        if tensor in inner or not _runs_all_iterations(g, loop):
            return None
    else:
        tensors = loop.node.input[loop.state_count :]
        if len(tensors) != 1 or name != loop.body.inputs[loop.state_count]:
            return None
        tensor, attribute = tensors[0], loop.node.attribute
        axis = (attribute.get("scan_input_axes") or [0])[0]
        is_reversed = bool((attribute.get("scan_input_directions") or [0])[0])
    shape = g.try_infer_shape(tensor)
    if shape is None or len(shape) != _RANK or axis % _RANK > 1:
        return None
    axis %= _RANK
    if loop.is_loop:
        count = _count(g, loop)
        # The last of n steps has the index n - 1 or -1.
        if count is None or count != shape[axis] or index is None:
            return None
        if index.start not in ((-1, count - 1) if is_reversed else (0,)):
            return None
    return StepInput(tensor, axis, is_reversed, shape[axis], shape[1 - axis])


class _Index(NamedTuple):
    """A number ``start + factor · iteration`` in the body of a Loop."""

    start: Dim
    factor: int


def _index(g: GraphView, loop: LoopNode, name: str) -> _Index | None:
    """An index that counts up or down by 1 with each iteration; ``None`` for other values."""
    index = _linear(g, loop, name, _MAX_OPS)
    return index if index is not None and abs(index.factor) == 1 else None


def _linear(g: GraphView, loop: LoopNode, name: str, depth: int) -> _Index | None:
    if name == loop.body.inputs[0]:
        return _Index(0, 1)
    node = loop.body.producer(name)
    data = g.inside(loop.body).info(name).data
    if data is not None and len(data) == 1:
        return _Index(data[0], 0)
    if not depth or not is_op(node, "Add", "Identity", "Neg", "Sub"):
        return None
    operands = [_linear(g, loop, operand, depth - 1) for operand in node.input]
    first, second = operands[0], operands[-1]
    if first is None or second is None:
        return None
    if len(operands) == 1:
        return _Index(-first.start, -first.factor) if node.op_type == "Neg" else first
    sign = -1 if node.op_type == "Sub" else 1
    return _Index(first.start + sign * second.start, first.factor + sign * second.factor)


def _count(g: GraphView, loop: LoopNode) -> Dim | None:
    """The maximum number of iterations of a Loop, its first operand; ``None`` if unknown."""
    data = g.info(loop.node.input[0]).data if loop.node.input[0] else None
    count: Any = data[0] if data else g.get_constant_scalar(loop.node.input[0])
    return count


def _runs_all_iterations(g: GraphView, loop: LoopNode) -> bool:
    """Whether the conditions of a Loop are always true, so that only the trip count ends it."""
    initial_condition, condition = loop.node.input[1], loop.body.outputs[0]
    is_started = not initial_condition or bool(g.get_constant_scalar(initial_condition))
    is_copy = copy_source(loop.body, condition) == loop.body.inputs[1]
    return is_started and (is_copy or bool(g.inside(loop.body).get_constant_scalar(condition)))


def stacks_after(
    g: GraphView, loop: LoopNode, hidden: str, states: Mapping[int, str], is_reversed: bool
) -> list[StackedStates] | None:
    """The stacked states that a Loop or a Scan returns, besides the states after the last step.

    ``None`` if it returns anything else.

    Args:
        g: the graph.
        loop: the Loop or Scan.
        hidden: the state after a step, in the body.
        states: the results that are states, by index.
        is_reversed: whether the first iteration reads the last step.
    """
    stacks, attribute = list[StackedStates](), loop.node.attribute
    axes = attribute.get("scan_output_axes") or [0] * len(loop.scan_outputs())
    directions = attribute.get("scan_output_directions") or [0] * len(loop.scan_outputs())
    for place, result in enumerate(loop.node.output):
        if place in states or not result or not g.is_used(result):
            continue
        source = copy_source(loop.body, loop.body.outputs[loop.first_output + place])
        if place < loop.state_count:
            concatenated = _sequence(g, loop, place, source, hidden)
            if concatenated is None or is_reversed:
                return None
            stacks += concatenated
            continue
        index = place - loop.state_count
        if source != hidden or bool(directions[index]) != is_reversed:
            return None
        stacks.append(StackedStates(result, axes[index] % _RANK))
    return stacks


def _sequence(
    g: GraphView, loop: LoopNode, place: int, source: str, hidden: str
) -> list[StackedStates] | None:
    """The tensors that ConcatFromSequence makes of a sequence to which each iteration adds a state.

    ``None`` if the sequence has other elements or other consumers.
    """
    insert = loop.body.producer(source)
    first = g.node_before(loop.node.input[loop.first_input + place])
    if not is_op(insert, "SequenceInsert") or not is_op(first, "SequenceEmpty"):
        return None
    state = loop.body.inputs[loop.first_input + place]
    if len(insert.input) != 2 or insert.input[0] != state:
        return None
    inside, name = g.inside(loop.body), copy_source(loop.body, insert.input[1])
    unsqueeze = loop.body.producer(name)
    axes = None
    if is_op(unsqueeze, "Unsqueeze"):
        axes, name = inside.get_argument(unsqueeze, "axes"), unsqueeze.input[0]
    result = loop.node.output[place]
    readers = [*g.next_nodes(result)]
    if copy_source(loop.body, name) != hidden or not g.is_used_only_by(result, *readers):
        return None
    stacks = list[StackedStates]()
    for reader in readers:
        if not is_op(reader, "ConcatFromSequence"):
            return None
        axis = reader.get_attribute("axis") % _RANK
        is_new = bool(reader.get_attribute("new_axis", 0))
        if is_new != (axes is None) or (axes is not None and axes != [axis]):
            return None
        stacks.append(StackedStates(reader.output[0], axis, [reader]))
    return stacks
