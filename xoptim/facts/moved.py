"""Attributes that became operands in later versions of the standard operator set."""

from functools import cache
from typing import Final, Literal, NamedTuple

from xoptim.facts.families import REDUCTIONS


class Moved(NamedTuple):
    """The operand that took the place of an attribute: its position, the first operator set that has it, and what it holds.

    A number has the element type of the first operand.
    """

    place: int
    since: int
    holds: Literal["integers", "integer", "number"] = "integers"

    @property
    def is_single(self) -> bool:
        """Whether it has one element."""
        return self.holds != "integers"


MOVED: Final[dict[tuple[str, str], Moved]] = {
    **{(reduction, "axes"): Moved(1, 18) for reduction in REDUCTIONS},
    ("ReduceSum", "axes"): Moved(1, 13),
    ("Squeeze", "axes"): Moved(1, 13),
    ("Unsqueeze", "axes"): Moved(1, 13),
    ("Split", "split"): Moved(1, 13),
    ("Slice", "starts"): Moved(1, 10),
    ("Slice", "ends"): Moved(2, 10),
    ("Slice", "axes"): Moved(3, 10),
    ("Slice", "steps"): Moved(4, 10),
    ("Pad", "pads"): Moved(1, 11),
    ("Pad", "value"): Moved(2, 11, "number"),
    ("Pad", "axes"): Moved(3, 18),
    ("Clip", "min"): Moved(1, 11, "number"),
    ("Clip", "max"): Moved(2, 11, "number"),
    ("TopK", "k"): Moved(1, 10, "integer"),
    ("Reshape", "shape"): Moved(1, 5),
    ("Dropout", "ratio"): Moved(1, 12, "number"),
}
"""By operator and attribute. Sources: the operators' changelogs. What has been an operand from the beginning, such as the steps
of Slice, is here too, so that it can be written in the same way."""

MOVED_DEFAULTS: Final[dict[tuple[str, str], float]] = {("Pad", "value"): 0.0, ("Dropout", "ratio"): 0.5}
"""Values of some of them when they are left out; no number expresses the meaning of the others."""


@cache
def moved(op_type: str, attribute: str, opset: int) -> Moved | None:
    """The operand that an attribute is in a version of the standard operator set, ``None`` when it is an attribute there."""
    found = MOVED.get((op_type, attribute))
    return found if found is not None and opset >= found.since else None


@cache
def moved_inputs(op_type: str, opset: int) -> dict[int, str]:
    """Attributes of an operator that are operands in this operator set, by position. Do not modify the result."""
    return {rule.place: name for (op, name), rule in MOVED.items() if op == op_type and opset >= rule.since}
