"""A linear layer whose result is rearranged and then multiplied by a number."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np

from xoptim.facts.dtypes import is_float, numpy_dtype
from xoptim.match import Example, GraphView, MatchResult, Node, PatternOptimization, PatternRewriter

from .._folding import Array, doubles, rounded
from .._nodes import is_op


class MatMulMulPattern(PatternOptimization):
    """Transpose(Reshape(x · w + b)) · s → Transpose(Reshape(x · (w · s) + b · s))

    What: multiplies the constants of a linear layer by the number that its result is multiplied with, or divided by, later:
    directly, or behind any number of Reshape, Transpose, Squeeze and Unsqueeze.
    Why: saves one pass over the result. It runs last, so that patterns that recognize attention match the number.
    Refuses when:
    1. the factor is not a constant with one element, is zero or not finite, or broadcasting would change the shape.
    2. a result in between is read elsewhere.
    3. weights or bias are not constant, computed, in an external file, or used elsewhere too (there would be two copies).
    4. the type is not a floating-point type, or a constant leaves its range.
    """

    anchors = ("Mul", "Div")
    near = ("MatMul", "Add", "Reshape", "Transpose", "Squeeze", "Unsqueeze")
    phase = "target"
    priority = 9
    exactness = "rounding"
    min_opset = 7
    radius = 8

    def match(self, g: GraphView, node: Node, matched: list[MatchResult]) -> MatchResult | None:
        """From the product upwards to the linear layer."""
        name, factor = node.input
        if node.op_type == "Mul" and g.is_constant(name):
            name, factor = factor, name
        number, rank = g.get_constant_scalar(factor), g.info(name).rank
        if not number or not np.isfinite(number) or rank is None or (g.info(factor).rank or 0) > rank:  # (1)
            return self.none(node, msg="not the product with a number")
        chain = [node]
        while is_op(maker := g.node_before(name), "Reshape", "Transpose", "Squeeze", "Unsqueeze") and g.is_exclusive(name):
            chain, name = [*chain, maker], maker.input[0]
        if is_op(maker, "Add") and g.is_exclusive(name):
            side = 0 if g.is_constant(maker.input[1]) else 1
            chain, name, maker = [*chain, maker], maker.input[side], g.node_before(maker.input[side])
        if not is_op(maker, "MatMul") or not g.is_exclusive(name):  # (2)
            return self.none(maker, msg="not a linear layer, or its result is read elsewhere")
        chain.append(maker)
        parameters = [other for n in chain[-2:] if n.op_type in ("Add", "MatMul") for other in n.input if g.is_constant(other)]
        wanted = sum(n.op_type in ("Add", "MatMul") for n in chain)
        if len(parameters) != wanted or parameters[-1] != maker.input[1] or not all(map(g.is_exclusive, parameters)):  # (3)
            return self.none(maker, msg="weights or bias are not constant, or used elsewhere")
        if not all(map(g.is_stored, parameters)):  # (3)
            return self.none(maker, msg="the model itself does not store the constants")
        scale = 1 / float(number) if node.op_type == "Div" else float(number)
        dtype = g.try_infer_type(name)
        scaled = self._scaled(g, parameters, scale, numpy_dtype(dtype)) if is_float(dtype) else None
        if scaled is None:  # (4)
            return self.none(maker, msg="the numbers are not floating-point, too large or too small")
        return MatchResult(self, chain, partial(self._write, scaled))

    @staticmethod
    @np.errstate(all="ignore")  # a number out of range is refused below
    def _scaled(g: GraphView, parameters: Sequence[str], scale: float, dtype: np.dtype) -> dict[str, Array] | None:
        """The parameters times the factor by name, the weights last, ``None`` when one of them leaves the range of its type."""
        found: dict[str, Array] = {}
        for name in parameters:
            array = doubles(g, name) * scale
            is_weight = name == parameters[-1]
            one = rounded(array, dtype, summed=max(array.ndim - 2, 0)) if is_weight else rounded(array, dtype, terms=())
            if one is None:
                return None
            found[name] = one
        return found

    def _write(self, scaled: dict[str, Array], g: PatternRewriter, *nodes: Node) -> list[Node]:
        """The same nodes but the last one, in order, with the scaled parameters."""
        product, *chain = nodes
        renamed = {name: g.make_initializer("scaled", array) for name, array in scaled.items()}
        made: list[Node] = []
        for node in reversed(chain):
            inputs = [renamed.get(name, name) for name in node.input]
            outputs = product.output if node is chain[0] else 1
            made.append(g.make_node(node.op_type, inputs, outputs, **node.attribute))
            renamed[node.output[0]] = made[-1].output[0]
        return made

    @classmethod
    def examples(cls) -> Sequence[Example]:
        """Queries of several heads, and a division behind the product."""
        return (
            Example(
                "agraph (float[a,b,2] x) => (float[a,b,2,2] y) <float[2,4] w = {1, 2, 3, 4, 5, 6, 7, 8}, "
                "float[4] c = {1, 2, 3, 4}, int64[4] s = {0, 0, 2, 2}, float h = {0.5}> "
                "{ t = MatMul(x, w) u = Add(t, c) v = Reshape(u, s) z = Transpose <perm = [0, 1, 3, 2]> (v) y = Mul(z, h) }",
                "agraph (float[a,b,2] x) => (float[a,b,2,2] y) <float[2,4] w = {0.5, 1, 1.5, 2, 2.5, 3, 3.5, 4}, "
                "float[4] c = {0.5, 1, 1.5, 2}, int64[4] s = {0, 0, 2, 2}> "
                "{ t = MatMul(x, w) u = Add(t, c) v = Reshape(u, s) y = Transpose <perm = [0, 1, 3, 2]> (v) }",
            ),
            Example(
                "agraph (float[a,2] x) => (float[a,2] y) <float[2,2] w = {2, 4, 6, 8}, float[1] d = {2}> "
                "{ t = MatMul(x, w) y = Div(t, d) }",
                "agraph (float[a,2] x) => (float[a,2] y) <float[2,2] w = {1, 2, 3, 4}> { y = MatMul(x, w) }",
            ),
        )
