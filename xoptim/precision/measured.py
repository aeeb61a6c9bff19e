"""Second stage of quantization: the error that each candidate adds alone, and the time it saves.

The preceding stage is `xoptim.precision.candidates`, the next one `xoptim.precision.choices`.
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
"""Bits that one multiplication is worth for the goal ``size``: so few that it only breaks ties."""
_EMBEDDING_SHARE: Final = 0.01
"""An embedding may be slower by this part of the time of all operators, because it saves bytes."""


class OperatorCost(NamedTuple):
    """The cost of an operator, in float32 and quantized.

    Attributes:
        multiplications: number of multiplications.
        before: time in float32, in seconds.
        after: time when quantized, in seconds.
    """

    # For one sample; for one row of the result if the operator is in a subgraph, as no session
    # shows the shapes there
    multiplications: int = 1
    before: float = 0.0  # 0 for an operator in a subgraph
    after: float = 0.0


UNMEASURED: Final = OperatorCost()
"""The cost of candidates whose time is not measured: constants stored in lower precision."""


@dataclass(frozen=True, slots=True)
class Measured(JsonResult):
    """A candidate, its cost and its errors.

    The first of several operators with the same weights has the sum of their costs, and the error
    with all of them quantized.

    Attributes:
        candidate: the operator or constant, in one quantized form.
        cost: the multiplications and the times of the candidate.
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
        """Error of the model when only this candidate is quantized, as a fraction."""
        return max(self.errors)

    @property
    def result(self) -> str:
        """The name of the candidate's result."""
        return self.candidate.result

    @property
    def form(self) -> Form:
        """The result and the pattern, which identify the candidate."""
        return self.candidate.form

    def saved(self, goal: Goal) -> float:
        """The number of multiplications that this form saves; for the goal ``size``, the number of
        bits, with multiplications to break ties.

        The measured time does not count, so that the order is the same in each run. Constants
        stored in lower precision save nothing but bits.
        """
        candidate = self.candidate
        multiplications = self.cost.multiplications * (1 - candidate.relative_time)
        if goal == "speed" and not candidate.is_weight_only:
            return multiplications
        bits = candidate.original_bits - candidate.bits
        return math.prod(candidate.shape) * bits + _TIE * multiplications

    def price(self, goal: Goal, before: Measured | None = None) -> tuple[bool, float, str]:
        """The key by which candidates are ordered: the squared error divided by the savings.

        For the goal ``speed``, embeddings and constants come last, as they save no time.

        Args:
            goal: whether to save time or bytes.
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
    """The range of int8 weights, and the reason if it is less than ±127."""
    if candidate.is_weight_only or not candidate.largest:
        return ""
    limit = ": sums fit 16 bits" if candidate.largest < _LARGEST_INT8 else ""
    return f"±{candidate.largest}{limit}"


def worthwhile(measured: Sequence[Measured], limit: float = FASTER) -> list[Measured]:
    """The operators that take at most ``limit`` times the float32 time when quantized, and those
    that are quantized because of others.

    Embeddings may take longer, within `_EMBEDDING_SHARE`. A form that is neither faster nor more
    precise than another form of its operator is skipped.
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
    """Whether ``rival`` is at least as precise as ``form``, and faster or more precise."""
    is_before = (rival.cost.after, rival.error) < (form.cost.after, form.error)
    return is_before and rival.error <= form.error
