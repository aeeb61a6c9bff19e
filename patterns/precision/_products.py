"""Products of a tensor by constant weights, in all forms in which exporters and optimizers write them."""

from typing import NamedTuple

import numpy as np
from onnx import TensorProto

from xoptim.match import GraphView, Node, PatternRewriter
from xoptim.match.axes import permutation

from .._folding import Array, constant
from .._nodes import is_op

PRODUCTS = ("MatMul", "Gemm", "com.microsoft::FusedMatMul")
"""The anchors."""


class Product(NamedTuple):
    """A product of a tensor by a constant matrix.

    Attributes:
        weights: name of the matrix.
        is_turned: whether its rows, and not its columns, belong to elements of a result.
        terms: number of products that are added up.
        columns: number of elements of a row of the result.
    """

    weights: str
    is_turned: bool
    terms: int
    columns: int

    def matrix(self, g: GraphView) -> Array:
        """The matrix of shape (terms, columns)."""
        found = constant(g, self.weights)
        return np.ascontiguousarray(found.T) if self.is_turned else found


def product(g: GraphView, node: Node) -> Product | None:
    """The product that a node computes; ``None`` when it is scaled, or not one of 32-bit floats by constant weights."""
    x, name = node.input[:2]
    is_turned = bool(node.get_attribute("transB", 0))
    above = g.node_before(name)
    if is_op(above, "Transpose") and permutation(g, above) == [1, 0]:
        name, is_turned = above.input[0], not is_turned
    shape, rank = g.static_shape(name), g.info(x).rank
    if not g.is_constant(name) or shape is None or len(shape) != 2 or rank is None or rank < 2:
        return None
    scales = [node.get_attribute(key, 1.0) for key in ("alpha", "beta")]
    turns = [node.get_attribute(key, 0) for key in ("transA", "transBatchA", "transBatchB")]
    if any(scale != 1.0 for scale in scales) or any(turns):
        return None
    if any(g.try_infer_type(each) != TensorProto.FLOAT for each in (x, name)):
        return None
    return Product(name, is_turned, shape[is_turned], shape[not is_turned])


def written(g: PatternRewriter, node: Node, x: str, weights: str) -> list[Node]:
    """The nodes made before, and the product by other operands, with the summand of a Gemm."""
    bias = node.input[2] if len(node.input) > 2 else ""
    if not bias:
        return [*g.created, g.make_node("MatMul", [x, weights], node.output)]
    total = g.op.MatMul(x, weights)
    return [*g.created, g.make_node("Add", [total, bias], node.output)]
