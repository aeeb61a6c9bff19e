"""What follows from an operator's own rule."""

from __future__ import annotations

from xoptim.graph.node import Node
from xoptim.graph.propagate import infer_node
from xoptim.match.view import GraphBuilderPatternOptimization


def keeps_shape(g: GraphBuilderPatternOptimization, node: Node, source: str | None = None) -> bool:
    """Whether the first result of a node provably has the shape of ``source``, by default of its first operand.

    Names of dimensions that the model declares for the result count for nothing: exporters write ``batch`` and ``seq`` on
    outputs that are shorter than the input of these dimensions, and no runtime complains.
    """
    source = node.input[0] if source is None else source
    return g.same_shape(source, node.output[0]) and infer_node(g.graph, node)[0].shape == g.try_infer_shape(source)
