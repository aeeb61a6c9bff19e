"""The types of JSON documents about proofs."""

from typing import TypedDict

from xoptim.proof.grades import Grade


class ProvedStepJson(TypedDict):
    """A rewrite and its proof.

    Attributes:
        number: number of the rewrite in the run, counted from 1.
        pattern: name of the pattern.
        result: first result of the rewritten nodes; empty for a rewrite of a whole model.
        grade: how equal the two sides are.
        reason: why it is only run; empty for a proof.
        premises: what is assumed.
    """

    number: int
    pattern: str
    result: str
    grade: Grade
    reason: str
    premises: list[str]


class ProofsJson(TypedDict):
    """The proofs of all rewrites.

    Attributes:
        grades: number of rewrites of each grade.
        steps: the rewrites in order.
    """

    grades: dict[str, int]
    steps: list[ProvedStepJson]
