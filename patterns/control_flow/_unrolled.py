"""The inputs of unrolled steps, joined to one tensor, and the states after the steps."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from xoptim.match import GraphView, Node, PatternRewriter

from .._nodes import axis_of, is_op
from ._recurrent import Chain

_RANK: Final = 3
"""The rank of the stacked states."""


class Steps(NamedTuple):
    """The inputs of all steps.

    Attributes:
        tensor: of shape (steps, batch, features), or (batch, steps, features); empty if there is
            no such tensor.
        axis: the axis of the steps.
        start: the first step that is read.
        is_reversed: whether the first cell reads the last step.
        matrices: the inputs of the single steps, if there is no tensor.
    """

    tensor: str = ""
    axis: int = 0
    start: int = 0
    is_reversed: bool = False
    matrices: Sequence[str] = ()


class Stack(NamedTuple):
    """The Unsqueezes and the Concat that stack the states after all steps along a new axis."""

    nodes: Sequence[Node]
    axis: int


def steps_of(g: GraphView, chain: Chain, batch: Any) -> Steps | None:
    """The inputs of all steps, each of shape (batch, features).

    ``None`` if they have another shape, or depend on the states, or if there is a single step.
    """
    features = chain.weights.inputs[0].features
    sources = [source for source, _ in chain.inputs]
    if len(sources) < 2:  # the preceding state has another shape
        return None
    first = sources[0]
    places = [source.place for source in sources]
    tensors = {(source.name, source.axis) for source in sources}
    step = places[1] - places[0]
    is_tensor = len(tensors) == 1 and step in (1, -1)
    if is_tensor and places == [*range(places[0], places[-1] + step, step)]:
        shape = g.try_infer_shape(first.name)
        fits = first.axis in (0, 1) and shape is not None and features == (0, shape[2])
        if shape is None or not fits or shape[1 - first.axis] != batch:
            return None
        steps = Steps(first.name, first.axis, min(places), step < 0)
        return None if depends_on(g, [first.name], {*chain.nodes()}) else steps
    names = [name for _, name in chain.inputs]
    shapes = {g.try_infer_shape(name) if name else None for name in names}
    if shapes != {(batch, features[1] - features[0])} or depends_on(g, names, {*chain.nodes()}):
        return None
    return Steps(matrices=names)


def depends_on(g: GraphView, names: Sequence[str], nodes: Collection[Node]) -> bool:
    """Whether tensors depend on the results of ``nodes``."""
    first = min(node.label for node in nodes)
    pending, visited = [*dict.fromkeys(names)], set[Node]()
    while pending:
        node = g.node_before(pending.pop())
        if node is None or node in visited or node.label < first:
            continue
        if node in nodes:
            return True
        visited.add(node)
        pending += g.reads(node)
    return False


def states_of(chain: Chain, steps: Steps) -> list[str]:
    """The states after all steps, in the order of the steps in the input tensor."""
    states = [cell.hidden for cell in chain.cells]
    return states[::-1] if steps.is_reversed else states


def stacks_of(g: GraphView, chain: Chain, steps: Steps) -> list[Stack]:
    """The nodes that stack the states after all steps, in the order of the input tensor."""
    states, stacks = states_of(chain, steps), list[Stack]()
    for reader in g.next_nodes(states[0]):
        concat = g.next_node(reader.output[0]) if is_op(reader, "Unsqueeze") else None
        axes = g.get_argument(reader, "axes")
        if not is_op(concat, "Concat") or not isinstance(axes, list) or len(axes) != 1:
            continue
        axis = axis_of(g, concat)
        rows = [g.node_before(name) for name in concat.input]
        unsqueezes = [row for row in rows if is_op(row, "Unsqueeze")]
        if len(unsqueezes) == len(rows) and [row.input[0] for row in unsqueezes] == states:
            alike = all(g.get_argument(row, "axes") == axes for row in unsqueezes)
            if (
                alike
                and axis is not None
                and axis == axes[0] % _RANK
                and all(map(g.is_exclusive, concat.input))
            ):
                stacks.append(Stack([*dict.fromkeys(unsqueezes), concat], axis))
    return stacks


def write_states(
    g: PatternRewriter, y: str, places: Mapping[str, int], stacks: Sequence[Stack]
) -> None:
    """Write the states after single steps, and the stacks of all states.

    ``y`` is the result of the operator, ``places`` the step of each state by name.
    """
    sequence = g.op.Squeeze(y, axes=[1])
    for name, place in places.items():
        g.op.Gather(sequence, np.array(place), axis=0, outputs=[name])
    for stack in stacks:
        write_stack(g, sequence, stack.axis, stack.nodes[-1].output[0])


def write_stack(g: PatternRewriter, sequence: str, axis: int, result: str) -> None:
    """Write the states after all steps, with the steps moved to ``axis``.

    ``sequence`` has the shape (steps, batch, hidden size).
    """
    if axis:
        perm = [1, 0, 2] if axis == 1 else [1, 2, 0]
        g.op.Transpose(sequence, perm=perm, outputs=[result])
    else:
        g.op.Identity(sequence, outputs=[result])


def tensor_of(g: PatternRewriter, steps: Steps, count: int) -> str:
    """The inputs of all steps, of shape (steps, batch, features)."""
    if steps.matrices:
        rows = [g.op.Unsqueeze(name, axes=[0]) for name in steps.matrices]
        joined: str = g.op.Concat(*rows, axis=0)
        return joined
    name = steps.tensor
    shape = g.try_infer_shape(name)
    assert shape is not None
    if shape[steps.axis] != count:
        end = steps.start + count
        name = g.op.Slice(name, starts=[steps.start], ends=[end], axes=[steps.axis])
    return g.op.Transpose(name, perm=[1, 0, 2]) if steps.axis else name
