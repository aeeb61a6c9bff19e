"""Subgraphs that are one operator."""

from typing import Any, ClassVar

from xoptim.facts.dtypes import Exactness
from xoptim.match import EasyPatternOptimization, PatternRewriter
from xoptim.match.pattern import operator_key


class _OneOperator(EasyPatternOptimization):
    """A formula of the operand ``x`` that is one operator, its only entry in `kernels`; it may derive ``attributes``."""

    exactness: ClassVar[Exactness] = "rounding"

    def apply_pattern(self, g: PatternRewriter, x: str, attributes: dict[str, Any] | None = None) -> str:
        ((domain, op_type),) = map(operator_key, self.kernels)
        return str(getattr(g.op, op_type)(x, domain=domain, **(attributes or {})))
