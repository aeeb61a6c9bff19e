"""Copies of nodes for operands whose axes were permuted, inserted, dropped, split or sliced."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from onnx import TensorProto

from xoptim.facts.dtypes import numpy_dtype
from xoptim.graph.node import Node
from xoptim.match.view import GraphView, PatternRewriter
from xoptim.operators.axes import Axes


def parameters(
    g: GraphView,
    node: Node,
    axes: Axes,
    entries: Mapping[int, Any] | None = None,
    cut: int | None = None,
) -> dict[str | int, Any]:
    """The parameters of a node that change with its axes: attributes by name, operands by index.

    Args:
        g: the view of the graph.
        node: the node as it is.
        axes: the axes of the node after the change.
        entries: the numbers of new axes, by label, for parameters with one number per axis.
        cut: the label of an axis that is sliced.
    """
    changes: dict[str | int, Any] = {}
    for name, label in axes.names.items():
        first, is_set = axes.operands[0], isinstance(label, frozenset)
        owner = axes.results[0] if first is None or node.op_type == "Unsqueeze" else first.labels
        labels = (
            axes.results[0] if name == "perm" else (label,) if isinstance(label, int) else label
        )
        places = [owner.index(label) for label in labels]
        places = sorted(places) if is_set else places
        if _as_written(g, node, name, len(owner), is_set) == places:
            continue
        if node.op_type == "Slice" and len(node.input) > 1:  # all of its operands have one type
            changes[3] = np.array(
                places, numpy_dtype(g.try_infer_type(node.input[1]) or TensorProto.INT64)
            )
        else:
            changes[name] = places[0] if isinstance(label, int) else places
    for key, (old, kept, dtype) in axes.numbers.items():
        numbers = {**old, **(entries or {})} | ({} if cut is None else {cut: kept})
        new = [numbers.get(label, kept) for label in axes.results[0]]
        if new != [*old.values()]:
            array = np.array(new, dtype).T.ravel()
            changes[key] = array if isinstance(key, int) else array.tolist()
    return changes


def _as_written(g: GraphView, node: Node, name: str, rank: int, sort: bool) -> list[int]:
    """The axes that the unchanged parameter would name in a tensor of this rank."""
    value = g.get_argument(node, name)
    if value is None:  # all axes
        return list(range(rank))[:: -1 if name == "perm" else 1]
    axes = [
        axis if axis >= 0 else axis + rank
        for axis in (value if isinstance(value, list) else [value])
    ]
    return sorted(axes) if sort else axes


def rewritten(
    g: PatternRewriter,
    node: Node,
    inputs: Sequence[str],
    outputs: Sequence[str] | int,
    changed: Mapping[str | int, Any],
) -> Node:
    """A copy of a node with other operands, results and parameters."""
    operands = [*inputs]
    attributes = dict(node.attribute)
    for key, value in changed.items():
        if isinstance(key, int):
            operands += [""] * (key + 1 - len(operands))
            operands[key] = g.make_initializer("", value, source=operands[key] or "axes")
        else:
            attributes[key] = value
    return g.make_node_check_opset(node.op_type, operands, outputs, "", "", **attributes)
