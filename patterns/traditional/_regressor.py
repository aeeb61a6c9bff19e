"""The form of arithmetic with numbers on the result of a regressor."""

from collections.abc import Sequence
from typing import Any, ClassVar

from xoptim.match import ANY, EasyPatternOptimization, PatternBuilder, PatternRewriter, Symbol

from ._columns import DOMAIN


class _RegressorResult(EasyPatternOptimization):
    """A regressor whose result one operator combines with ``c``; its attributes become ``given``."""

    exactness = "rounding"
    operators: ClassVar[Sequence[str]]

    def match_pattern(self, g: PatternBuilder, x: Symbol, c: Symbol) -> Symbol:
        regressor = getattr(g.op, g.choice("operator", "TreeEnsembleRegressor", "LinearRegressor"))
        return getattr(g.op, g.choice("by", *self.operators))(regressor(x, domain=DOMAIN, attributes=ANY), c)

    def apply_pattern(self, g: PatternRewriter, x: str, operator: str, given: dict[str, Any]) -> str:
        return str(getattr(g.op, operator)(x, domain=DOMAIN, **given))
