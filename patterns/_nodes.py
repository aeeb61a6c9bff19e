"""Small helpers about nodes: their operator, axes counted from the front, copies."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeGuard

import numpy as np

from xoptim.facts.dims import Dim
from xoptim.match import GraphView, Node, PatternRewriter
from xoptim.operators.axes import axis_of, permutation

__all__ = ["agree_elsewhere", "axis_of", "bounds_of", "permutation", "size_along"]


def size_along(g: GraphView, name: str, axis: int | None) -> Dim | None:
    """The dimension of a tensor along an axis; ``None`` if the shape or the axis is unknown."""
    shape = g.try_infer_shape(name)
    if shape is None or axis is None or not -len(shape) <= axis < len(shape):
        return None
    return shape[axis]


def agree_elsewhere(g: GraphView, names: Sequence[str], axis: int) -> bool:
    """Whether tensors are known to have equal shapes except along one axis, as Concat requires.

    A model may run without this: onnxruntime concatenates empty tensors of any shape.
    """
    shapes = [g.try_infer_shape(name) for name in names]
    first = shapes[0]
    if first is None or axis >= len(first):
        return False
    return all(
        s is not None
        and len(s) == len(first)
        and s[:axis] == first[:axis]
        and s[axis + 1 :] == first[axis + 1 :]
        for s in shapes
    )


def bounds_of(g: GraphView, names: Sequence[str], axis: int) -> list[Dim]:
    """The indices at which tensors of known shapes start in their Concat, and its end."""
    bounds: list[Dim] = [0]
    for name in names:
        size = size_along(g, name, axis)
        assert size is not None
        bounds.append(bounds[-1] + size)
    return bounds


def is_op(node: Node | None, *op_types: str) -> TypeGuard[Node]:
    """Whether the node exists and is one of these operators of the standard domain."""
    return node is not None and not node.domain and node.op_type in op_types


def renamed(g: PatternRewriter, nodes: Sequence[Node], names: Mapping[str, str]) -> list[Node]:
    """Copies of nodes that read and write tensors with other names; ``names`` maps old to new."""
    return [
        g.make_node(
            n.op_type,
            [names.get(i, i) for i in n.input],
            [names.get(o, o) for o in n.output],
            **n.attribute,
        )
        for n in nodes
    ]


def replaced_by(
    op_type: str,
    *operands: str | np.ndarray | np.generic,
    outputs: Sequence[str] = (),
    **attributes: Any,
) -> Callable[..., list[Node]]:
    """An ``apply`` function that writes one operator.

    Args:
        op_type: the operator.
        operands: names of tensors, or constants.
        outputs: names of its results; by default, the results of the last matched node.
        attributes: attributes, including those that became inputs in newer operator sets.
    """

    def apply(g: PatternRewriter, *nodes: Node) -> list[Node]:
        names = [
            operand if isinstance(operand, str) else g.make_initializer("", operand)
            for operand in operands
        ]
        return [g.make_node_check_opset(op_type, names, outputs or nodes[-1].output, **attributes)]

    return apply


def is_written_by(node: Node, pattern: str) -> bool:
    """Whether a pattern of this name wrote a node: its inverse pattern must not match it."""
    return node.metadata_props().get("xoptim.pattern") == pattern
