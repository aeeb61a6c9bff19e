"""Second stage: candidates with the error that each adds alone, and the time that it saves.

The stage before is `xoptim.precision.candidates`, the next one `xoptim.precision.choices`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from xoptim.bench.rounds import milliseconds
from xoptim.facts.json_results import JsonForm, JsonResult
from xoptim.facts.json_values import AnyFloat
from xoptim.precision.candidates import Candidate, Form
from xoptim.precision.options import Goal
from xoptim.precision.reference import Errors

_LARGEST_INT8: Final = 127
FASTER: Final = 0.95
"""A candidate that takes more than this part of the float32 time stays in float32."""
_TIE: Final = 1e-9
"""Bits that a multiplication counts for where bits are saved: so few that only ties change."""
_EMBEDDING_SHARE: Final = 0.01
"""Part of the time of all operators by which an embedding may be slower, for the bytes saved."""


class OperatorCost(NamedTuple):
    """The cost of an operator, in float32 and quantized.

    Attributes:
        multiplications: number of multiplications.
        before: time in float32, in seconds.
        after: time when quantized, in seconds.
    """

    # In a run on one sample; of one row where the operator is in a subgraph, which no session
    # observes
    multiplications: int = 1
    before: float = 0.0  # 0 in a subgraph
    after: float = 0.0


UNMEASURED: Final = OperatorCost()
"""The cost of candidates whose time is not measured: constants that are only stored."""


@dataclass(frozen=True, slots=True)
class Measured(JsonResult):
    """A candidate, its cost and its errors.

    The first of several operators with the same weights has the sum of their costs, and the error
    with all of them quantized.

    Attributes:
        candidate: what can be quantized.
        cost: its multiplications and its times.
        errors: of the slices of the outputs when only this candidate is quantized; see `Errors`.
    """

    __json__ = JsonForm(
        "candidate.result candidate.node candidate.pattern candidate.op_type candidate.shape",
        "candidate.weights candidate.shared_with candidate.reads cost.multiplications",
        "float32_seconds=cost.before quantized_seconds=cost.after error candidate.relative_time",
        "candidate.bits candidate.original_bits candidate.element_bits candidate.is_weight_only",
    )
    candidate: Candidate
    cost: OperatorCost = UNMEASURED
    errors: Errors = (0.0,)

    @property
    def error(self) -> AnyFloat:
        """Error of the model when only this is quantized, as a fraction."""
        return max(self.errors)

    @property
    def result(self) -> str:
        """The name of its result."""
        return self.candidate.result

    @property
    def form(self) -> Form:
        """Identifies the candidate."""
        return self.candidate.form

    def saved(self, goal: Goal) -> float:
        """What this form saves: multiplications, or for the goal ``size`` bits, and then
        multiplications to break ties.

        The measured time does not count, so that each run has the same order. Constants that are
        only stored save nothing but bits.
        """
        candidate = self.candidate
        multiplications = self.cost.multiplications * (1 - candidate.relative_time)
        if goal == "speed" and not candidate.is_weight_only:
            return multiplications
        bits = candidate.original_bits - candidate.bits
        return math.prod(candidate.shape) * bits + _TIE * multiplications

    def price(self, goal: Goal, before: Measured | None = None) -> tuple[bool, float, str]:
        """The squared error divided by what is saved, by which candidates are ordered.

        What saves no time comes last.

        Args:
            goal: what is to be saved.
            before: a form of the same operator with a smaller error, which this one would replace.
        """
        gain, square = self.saved(goal), self.error**2
        if before is not None:
            gain -= before.saved(goal)
            square -= before.error**2
        saves_no_time = self.candidate.is_weight_only or self.candidate.op_type == "Gather"
        is_last = goal == "speed" and saves_no_time
        price = square / gain if gain > 0 else math.inf
        return is_last, price, self.result

    def texts(self) -> dict[str, str]:
        """The candidate as a row of a table."""
        candidate, cost = self.candidate, self.cost
        rows, columns = candidate.shape
        times = {"before": cost.before, "after": cost.after, "saved": cost.before - cost.after}
        return {
            "node": candidate.node or candidate.result,
            "pattern": candidate.pattern,
            "rows": str(rows),
            "columns": str(columns),
            "weights": _range_text(candidate),
            "error": f"{self.error:.3%}",
            **{
                name: "" if candidate.is_weight_only else milliseconds(seconds)
                for name, seconds in times.items()
            },
        }


def _range_text(candidate: Candidate) -> str:
    """The range of int8 weights, and why it is not the whole one."""
    if candidate.is_weight_only or not candidate.largest:
        return ""
    limit = ": sums fit 16 bits" if candidate.largest < _LARGEST_INT8 else ""
    return f"±{candidate.largest}{limit}"


def worthwhile(measured: Sequence[Measured], limit: float = FASTER) -> list[Measured]:
    """The operators that take at most a part of the float32 time when quantized, and those that
    are quantized because of others.

    Embeddings may take longer, where that does not show in the time of all operators. A form that
    is neither faster nor more precise than another form of its operator is skipped.
    """
    margin = _EMBEDDING_SHARE * sum(form.cost.before for form in measured)

    def is_fast(form: Measured) -> bool:
        before, after = form.cost.before, form.cost.after
        if form.candidate.op_type == "Gather" and after - before <= margin:
            return True
        return after <= limit * before

    def is_beaten(form: Measured) -> bool:
        rivals = [rival for rival in measured if rival.result == form.result and rival is not form]
        return any(_beats(rival, form) for rival in rivals)

    return [
        form
        for form in measured
        if not form.candidate.is_independent or (is_fast(form) and not is_beaten(form))
    ]


def _beats(rival: Measured, form: Measured) -> bool:
    """Whether a form is at least as precise as another one, and faster or more precise."""
    is_before = (rival.cost.after, rival.error) < (form.cost.after, form.error)
    return is_before and rival.error <= form.error
