"""A factor behind a regressor."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from xoptim.match import Example, GraphView, MatchResult, Node, PatternOptimization, PatternRewriter

from ._scaling import DOMAIN, scaled_weights


class RegressorMulPattern(PatternOptimization):
    """TreeEnsembleRegressor(x) · c → TreeEnsembleRegressor(x), and so for LinearRegressor

    What: multiplies the weights of the leaves and the base values, or the coefficients and intercepts.
    Why: measured 0.67 (1,000 rows) to 0.88 (one row) of the time of three regressors with a factor each.
    Refuses when:
    1. the other operand is not one constant number, or something else reads the result of the regressor.
    2. the regressor transforms its result, does not sum the trees, or has weights of 64 bits.
    3. a new number leaves the range of 32-bit floats.
    """

    anchors = ("Mul",)
    near = ("ai.onnx.ml::TreeEnsembleRegressor", "ai.onnx.ml::LinearRegressor")
    exactness = "rounding"

    def match(self, g: GraphView, node: Node, matched: list[MatchResult]) -> MatchResult | None:
        """On either side."""
        for name, other in (node.input, node.input[::-1]):
            model, number = g.node_before(name), g.get_constant_scalar(other)
            if model is None or number is None or not g.is_exclusive(name) or (g.info(other).rank or 0) > 2:  # (1)
                continue
            scaled = scaled_weights(model, float(number))  # (2) (3)
            if scaled:
                return MatchResult(self, [model, node], partial(self._merge, scaled))
        return self.none(node, msg="no operand is a sum whose weights can be multiplied by the other one")

    def _merge(self, scaled: dict[str, list[float]], g: PatternRewriter, model: Node, node: Node) -> list[Node]:
        return [g.make_node(model.op_type, model.input, node.output, DOMAIN, **{**model.attribute, **scaled})]

    @classmethod
    def examples(cls) -> Sequence[Example]:
        """A linear model of two targets."""
        start, form = "agraph (float[a,2] x) => (float[a,2] y)", "ai.onnx.ml.LinearRegressor <targets = 2, coefficients ="
        return (
            Example(
                f"{start} <float c = {{2}}> {{ t = {form} [1.0, 2.0, 3.0, 4.0], intercepts = [5.0, 6.0]> (x) y = Mul(t, c) }}",
                f"{start} {{ y = {form} [2.0, 4.0, 6.0, 8.0], intercepts = [10.0, 12.0]> (x) }}",
                domains=(("ai.onnx.ml", 1),),
            ),
        )
