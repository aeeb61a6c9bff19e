"""What an optimization did, and how its result was proved."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from xoptim.diagnose.culprit import Culprit
from xoptim.facts.dtypes import Exactness
from xoptim.validate.report import ValidationReport


@dataclass(frozen=True, slots=True)
class OptimizationReport:
    """What an optimization did.

    Attributes:
        rows: statistics, one dictionary a row, for ``pandas.DataFrame``.
        applied: how often each pattern was applied, by name.
        nodes_before: number of nodes, subgraphs included.
        nodes_after: the same afterwards.
        exactness: the weakest guarantee of the patterns applied, and of folding (``rounding`` when it stored matrices);
            ``rounding`` at best when a product has an operand stored that was computed, or the other way round, because
            runtimes have other kernels for it then, and for a model that computes in 16 bits, where the runtime decides
            what is rounded.
        validation: how the result compares with the original, one report for each provider; empty when it was not compared.
        left_out: what made the model compute something else, and was left out.
    """

    rows: list[dict[str, Any]]
    applied: dict[str, int]
    nodes_before: int
    nodes_after: int
    exactness: Exactness
    validation: tuple[ValidationReport, ...] = ()
    left_out: tuple[Culprit, ...] = ()
