from __future__ import annotations

from functools import partial
from typing import Final, NamedTuple

import numpy as np

from xoptim.facts.dtypes import is_float, numpy_dtype
from xoptim.match import Example, GraphView, MatchResult, Node, PatternOptimization, PatternRewriter

from .._folding import Array, doubles, is_moderate, rounded
from .._nodes import is_op, renamed
from .._operators import MOVING

LINEAR: Final = MOVING - {"Identity"} | {"Neg"}
"""Operators that are linear in their first operand: if it is scaled, so is the result."""
_MAX_NODES: Final = 24
"""Maximum number of nodes that are followed."""


class Linear(NamedTuple):
    """Nodes whose result is scaled if their parameters are scaled.

    Attributes:
        places: for each node, in the order of the graph, the indices of the operands that must be
            scaled together to scale its result.
        weights: the constant matrices of the MatMuls.
        parameters: the weights, and the constants that are added.
    """

    places: dict[Node, range]
    weights: list[str]
    parameters: list[str]

    @property
    def nodes(self) -> list[Node]:
        """The nodes in order."""
        return list(self.places)

    def followed(self, node: Node, places: range) -> Linear:
        """These nodes and one more node."""
        return self._replace(places={**self.places, node: places})


def linear_above(g: GraphView, name: str, reader: Node) -> Linear | Node | None:
    """The nodes from linear layers down to a result.

    Only ``reader`` reads the result, and only these nodes read the results in between. If this is
    not so, the node that prevents it, or ``None`` if there is no node.
    """
    layer = _followed(g, name, Linear({}, [], []))
    if not isinstance(layer, Linear):
        return layer
    nodes = sorted(layer.places, key=lambda node: node.label)
    inside = [output for node in nodes for output in node.output if output]
    shared = next(
        (output for output in inside if not g.is_used_only_by(output, reader, *nodes)), None
    )
    if shared is not None:
        return g.node_before(shared)
    # Operands that are not scaled, such as factors, must not come from these nodes.
    factors = {
        operand
        for node in nodes
        for index, operand in enumerate(node.input)
        if index not in layer.places[node]
    }
    if not factors.isdisjoint(inside):
        return nodes[-1]
    return layer._replace(places={node: layer.places[node] for node in nodes})


def _followed(g: GraphView, name: str, before: Linear) -> Linear | Node | None:
    """The nodes ``before`` and the nodes that compute ``name``.

    If a node is not linear, or there are more than `_MAX_NODES`, the first such node instead.
    ``None`` for an input of the graph.
    """
    node = g.node_before(name)
    if node in before.places:
        return before
    if node is None or node.domain or len(before.places) == _MAX_NODES:
        return node
    if node.op_type in LINEAR or node.op_type == "RotaryEmbedding":
        return _followed(g, node.input[0], before.followed(node, range(1)))
    if node.op_type in ("Add", "Sub", "Concat"):
        layer: Linear | Node | None = before.followed(node, range(len(node.input)))
        for operand in node.input:
            if isinstance(layer, Linear) and g.is_constant(operand):
                layer = layer._replace(parameters=[*layer.parameters, operand])
            elif isinstance(layer, Linear):
                layer = _followed(g, operand, layer) or node
        return layer
    if is_op(node, "MatMul") and g.is_constant(node.input[1]):
        weights = node.input[1]
        extended = before.followed(node, range(1, 2))
        return extended._replace(
            weights=[*extended.weights, weights], parameters=[*extended.parameters, weights]
        )
    if node.op_type not in ("Mul", "Div", "MatMul"):
        return node
    sides = range(1 if node.op_type == "Div" else 2)
    candidates = (
        _followed(g, node.input[side], before.followed(node, range(side, side + 1)))
        for side in sides
    )
    return next((layer for layer in candidates if isinstance(layer, Linear)), node)


class MatMulMulPattern(PatternOptimization):
    """Transpose(Reshape(x · w + b)) · s → Transpose(Reshape(x · (w · s) + b · s))

    What: moves a factor or divisor into the constants of linear layers. Linear operators may come
    between, such as movements, rotary embeddings, and the MatMul of queries and keys.
    Why: saves one pass over the result. It runs last, so that patterns that recognize attention
    match the factor.
    Refuses when:
    1. the factor is not a constant with one element, is 0 or not finite, or broadcasting would
       change the shape.
    2. the result does not come from linear layers alone, or another node reads an intermediate
       result.
    3. a weight or bias is computed or in large external data, or another node reads it, so that it
       would be stored twice.
    4. the type is not a floating-point type, or a constant leaves its range.
    """

    anchors = ("Mul", "Div")
    near = ("MatMul", "Add", "Sub", "Concat", "RotaryEmbedding", *sorted(LINEAR))
    phase = "target"
    priority = 9
    exactness = "rounding"
    min_opset = 7
    radius = 10

    def match(self, g: GraphView, node: Node, matched: list[MatchResult]) -> MatchResult | None:
        name, factor = node.input
        if node.op_type == "Mul" and g.is_constant(name):
            name, factor = factor, name
        number, rank = g.get_constant_scalar(factor), g.info(name).rank
        # (1)
        if (
            not number
            or not np.isfinite(number)
            or rank is None
            or (g.info(factor).rank or 0) > rank
        ):
            return self.none(node, msg="the factor is not a finite constant scalar other than 0")
        layer = linear_above(g, name, node)
        if not isinstance(layer, Linear):  # (2)
            return self.none(
                layer or node,
                msg="not from linear layers only, or a result in between has other consumers",
            )
        if not all(
            g.is_exclusive(parameter) and g.is_stored(parameter) for parameter in layer.parameters
        ):  # (3)
            return self.none(
                layer.nodes[0],
                msg="the weight or bias is computed, in more than 2 GiB of external data, or has "
                "other consumers",
            )
        scale = 1 / float(number) if node.op_type == "Div" else float(number)
        dtype = g.try_infer_type(name)
        if not is_float(dtype) or not is_moderate(scale, numpy_dtype(dtype)):  # (4)
            return self.none(
                layer.nodes[0],
                msg="the type is not a float type, or the factor is very large or small",
            )
        scaled = self._scaled(g, layer, scale, numpy_dtype(dtype))  # (4)
        return MatchResult(self, [*layer.nodes, node], partial(self._write, name, scaled))

    @staticmethod
    @np.errstate(all="ignore")  # `rounded` refuses numbers out of range
    def _scaled(g: GraphView, layer: Linear, scale: float, dtype: np.dtype) -> dict[str, Array]:
        """The parameters times the factor, by name.

        Raises:
            Declined: when a parameter leaves the range of its type.
        """
        arrays: dict[str, Array] = {}
        for name in layer.parameters:
            array = doubles(g, name) * scale
            is_weight = name in layer.weights
            arrays[name] = rounded(
                array, dtype, **({"summed": max(array.ndim - 2, 0)} if is_weight else {"terms": ()})
            )
        return arrays

    def _write(
        self, result: str, scaled: dict[str, Array], g: PatternRewriter, *nodes: Node
    ) -> list[Node]:
        """The nodes in order, with scaled parameters, without the last one, which is the Mul."""
        *layer, mul = nodes
        names = {name: g.make_initializer("scaled", array) for name, array in scaled.items()}
        names |= {name: g.unique_name(name) for node in layer for name in node.output if name}
        return renamed(g, layer, {**names, result: mul.output[0]})

    examples = Example.pairs(
        "agraph (float[a,b,2] x) => (float[a,b,2,2] y) <float[2,4] w = {1, 2, 3, 4, 5, 6, 7, 8}, "
        "float[4] c = {1, 2, 3, 4}, int64[4] s = {0, 0, 2, 2}, float h = {0.5}> { "
        "t = MatMul(x, w) u = Add(t, c) v = Reshape(u, s) z = Transpose <perm = [0, 1, 3, 2]> (v) "
        "y = Mul(z, h) }",
        "<float[2,4] w = {0.5, 1, 1.5, 2, 2.5, 3, 3.5, 4}, float[4] c = {0.5, 1, 1.5, 2}, "
        "int64[4] s = {0, 0, 2, 2}> { t = MatMul(x, w) u = Add(t, c) v = Reshape(u, s) "
        "y = Transpose <perm = [0, 1, 3, 2]> (v) }",
        "agraph (float[a,2] x) => (float[a,2] y) <float[2,2] w = {2, 4, 6, 8}, float[1] d = {2}> "
        "{ t = MatMul(x, w) y = Div(t, d) }",
        "<float[2,2] w = {1, 2, 3, 4}> { y = MatMul(x, w) }",
        "agraph (float[a,2] x, float[a,1,2,c] z) "
        "=> (float[a,1,3,c] y) <float[2,6] w = {2,4,6,8,1,3,5,7,9,2,1,3}, int64[4] s = {0,1,2,3}, "
        "float d = {2}> { t = MatMul(x, w) r = Reshape(t, s) "
        "q = Transpose <perm = [0, 1, 3, 2]> (r) m = MatMul(q, z) y = Div(m, d) }",
        "<float[2,6] w = {1,2,3,4,0.5,1.5,2.5,3.5,4.5,1,0.5,1.5}, int64[4] s = {0,1,2,3}> { "
        "t = MatMul(x, w) r = Reshape(t, s) q = Transpose <perm = [0, 1, 3, 2]> (r) "
        "y = MatMul(q, z) }",
        "agraph (float[a,2] x, float[a,4] c, float[a,4] d) "
        "=> (float[a,4] y) <float[2,4] w = {2,4,6,8,1,3,5,7}, int64[2] k = {2, 2}, "
        "float h = {0.5}> { t = MatMul(x, w) p, q = Split <axis = 1> (t, k) n = Neg(q) "
        "r = Concat <axis = 1> (n, p) u = Mul(t, c) v = Mul(r, d) s = Add(u, v) y = Mul(s, h) }",
        "<float[2,4] w = {1,2,3,4,0.5,1.5,2.5,3.5}, int64[2] k = {2, 2}> { t = MatMul(x, w) "
        "p, q = Split <axis = 1> (t, k) n = Neg(q) r = Concat <axis = 1> (n, p) u = Mul(t, c) "
        "v = Mul(r, d) y = Add(u, v) }",
    )
