"""The words of a verdict: other tests assert its values."""

from dataclasses import replace

import numpy as np
import pytest

from xoptim.facts.dtypes import Tolerance
from xoptim.proof.checking import CertificateCheck
from xoptim.proof.grades import Grade
from xoptim.verification import ComparisonRules, Value, compare_values
from xoptim.verification.inputs.branches import Body
from xoptim.verification.judging.compare import Comparison
from xoptim.verification.judging.judge import values_text
from xoptim.verification.judging.report import Noise, RunReport, VerificationReport

ARRAY = np.ones(2, np.float32)
BRANCHES = tuple(f"branch 'then' of If '{name}'" for name in "abc")


def run(*comparisons: Comparison, **changes: object) -> RunReport:
    """A run of both models that takes no time."""
    return replace(RunReport("random", {"n": 2}, 0, 0.0, 0.0, comparisons), **changes)  # type: ignore[arg-type]


SAME = run(Comparison("y"))
CLOSE = run(Comparison("y", max_abs=0.25, tolerance=Tolerance(0.5, 1.0)))
NOISY = run(Comparison("y", "value", "differs", max_abs=0.25), noise={"y": Noise(0.5, True, True)})
ITEMS = run(Comparison("y[0]", whole="y"), Comparison("y[1]", whole="y"), Comparison("z"))
EQUAL = VerificationReport("equal", runs=(SAME, SAME))
TEXTS = {
    "one run": (
        replace(EQUAL, runs=(SAME,)),
        "equal: 1 output in 1 run, no difference",
        "equal on cpu: 1 run, no difference",
    ),
    "close": (
        replace(EQUAL, runs=(SAME, CLOSE)),
        "equal: 1 output in 2 runs, largest difference 0.25 in 'y'",
        "equal on cpu: 2 runs, largest difference 0.25 (rtol 0.5, atol 1)",
    ),
    "noise": (
        replace(EQUAL, runs=(NOISY,)),
        "equal: 1 output in 1 run, largest difference 0.25 in 'y', accepted as rounding noise",
        "equal on cpu: 1 run, largest difference 0.25, accepted as rounding noise",
    ),
    "items of a sequence": (
        replace(EQUAL, runs=(ITEMS,)),
        "equal: 2 outputs in 1 run, no difference",
        "equal on cpu: 1 run, no difference",
    ),
    "sections": (
        replace(EQUAL, runs=(ITEMS, ITEMS), sections=5),
        "equal: 2 results in 2 runs of 5 sections, no difference",
        "equal on cpu: 2 runs of 5 sections, no difference",
    ),
    "a branch": (
        replace(EQUAL, unreached=BRANCHES[:1], providers=("cuda",)),
        "equal, 1 branch not run (branch 'then' of If 'a'): 1 output in 2 runs, no difference",
        "equal, 1 branch not run, on cuda: 2 runs, no difference",
    ),
    "branches": (
        replace(EQUAL, unreached=BRANCHES),
        "equal, 3 branches not run (branch 'then' of If 'a', branch 'then' of If 'b' and 1 more): "
        "1 output in 2 runs, no difference",
        "equal, 3 branches not run, on cpu: 2 runs, no difference",
    ),
    "branches that were not counted": (
        replace(EQUAL, uncounted="too many"),
        "equal, branches not counted: 1 output in 2 runs, no difference",
        "equal, branches not counted, on cpu: 2 runs, no difference",
    ),
    "a difference": (
        VerificationReport("different", "y differs", providers=("cpu", "cuda"), runs=(CLOSE,)),
        "different: y differs",
        "different on cpu, cuda: y differs",
    ),
    "no verdict": (
        VerificationReport("not verified", "no kernel", cause="load", unreached=BRANCHES),
        "not verified: no kernel",
        "not verified on cpu: no kernel",
    ),
}


@pytest.mark.parametrize("name", TEXTS)
def test_a_report_in_one_line(name: str) -> None:
    report, summary, verdict = TEXTS[name]
    assert (report.summary(), report.verdict()) == (summary, verdict)


def test_what_a_strict_caller_objects_to() -> None:
    objections = {name: report.strict_objection for name, (report, _, _) in TEXTS.items()}
    assert {name for name, objection in objections.items() if objection} == {
        "a branch",
        "branches",
        "branches that were not counted",
        "a difference",
        "no verdict",
    }
    assert objections["branches"] == (
        "branch 'then' of If 'a', branch 'then' of If 'b' and 1 more did not run; give values that "
        'reach it with feeds=numpy.load("FILE"), or several sets of values with '
        'test_data=Path("FOLDER")'
    )
    assert objections["branches that were not counted"] == "too many"
    assert objections["no verdict"] == "not verified: no kernel"


@pytest.mark.parametrize(
    ("source", "text"),
    {
        "random": "",
        "wide": ", large numbers and zeros",
        "odd": ", NaN and infinities",
        "range": ", very large and very small numbers",
        "strings": ", strings that match, or almost match",
        "items": ", sequences of other lengths",
        "absent": ", optional inputs absent",
        "iterations": ", loops with many iterations",
    }.items(),
)
def test_values_of_a_run(source: str, text: str) -> None:
    assert values_text(run(source=source)) == text


def test_branches_and_trips_that_were_missed() -> None:
    branch = Body("a", "If", "then_branch")
    assert branch.missed([0]) == ["branch 'then' of If 'a'"]
    assert branch.missed([0, 1]) == []
    loop = Body("l", "Loop", "body", is_counted=True)
    assert loop.missed([1]) == ["no trip of Loop 'l'", "several trips of Loop 'l'"]
    assert Body("l", "Loop", "body").missed([2]) == []
    assert Body("s", "Scan", "body").missed([0]) == ["the body of Scan 's'"]


DEFINED = "under the definitions of ONNX's operators"


@pytest.mark.parametrize(
    ("grade", "text"),
    [
        (
            "same bits",
            f"equal: proved to have the same bits, {DEFINED}; 2 rewrites proved again "
            "(2 same bits)",
        ),
        (
            "over real numbers, constants folded",
            f"equal: proved over real numbers, constants folded, {DEFINED}; 2 rewrites proved "
            "again (2 over real numbers, constants folded)",
        ),
        ("only run", "not proved: no"),
    ],
)
def test_a_certificate_in_one_line(grade: Grade, text: str) -> None:
    assert CertificateCheck(grade, "no", {grade: 2}, premises=[]).summary() == text


@pytest.mark.parametrize(
    ("expected", "actual", "text"),
    [
        (None, ARRAY, "a tensor instead of nothing"),
        ([ARRAY], ARRAY, "a tensor instead of a sequence"),
        ([ARRAY, ARRAY], [ARRAY], "1 items instead of 2"),
        ({3: 1.0, 4: 0.5}, {3: 1.0}, "keys 3 instead of 3, 4"),
        (ARRAY, ARRAY.astype(np.float64), "double instead of float"),
        (ARRAY[:, np.newaxis], ARRAY, "shape [2] instead of [2, 1]"),
    ],
)
def test_differences_of_two_values(expected: Value, actual: Value, text: str) -> None:
    (found,) = compare_values("y", expected, actual, ComparisonRules())
    assert found.message == text
