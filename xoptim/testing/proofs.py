"""Require that the examples of a pattern are proved."""

from __future__ import annotations

from xoptim.match.rewrite import Example, Rewrite
from xoptim.optimizing.examples import prove_example
from xoptim.proof.grades import GRADES, Grade


def require_grade(pattern_class: type[Rewrite], example: Example, grade: Grade) -> None:
    """Raise `AssertionError` where an example is not proved to be as equal as a grade says.

    Raises `ValueError` for an unknown grade.
    """
    if grade not in GRADES:
        raise ValueError(f"a grade is {', '.join(map(repr, GRADES))}, not {grade!r}")
    proof = prove_example(pattern_class, example)
    if GRADES.index(proof.grade) > GRADES.index(grade):
        raise AssertionError(
            f"{pattern_class.__name__}: an example is not proved {grade!r}: {proof.text}\n"
            f"{example.before}"
        )
