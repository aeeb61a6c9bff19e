"""One verdict: the command exits with it, and the API raises it."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import onnx
import pytest

from xoptim import DifferentModelError, NotVerifiedError, VerificationReport
from xoptim.cli.pipeline import verdict
from xoptim.facts.errors import XoptimError
from xoptim.verification.errors import ToleranceError
from xoptim.workflow.outcome import Outcome, TargetError

EQUAL = VerificationReport("equal")
DIFFERENT = VerificationReport("different", reason="y differs")
UNKNOWN = VerificationReport("not verified", reason="no kernel", cause="load")
GAP = VerificationReport("equal", uncounted="branches were not counted")


def outcome(
    *reports: VerificationReport,
    strict: bool = False,
    fault: str = "",
    difference: str = "",
    doubt: str = "",
    wrong: str = "",
) -> Outcome:
    """An outcome with these reports, and what the steps after them found."""
    each = SimpleNamespace(disagreements=[wrong] if wrong else [])
    verified: Any = SimpleNamespace(
        reports=reports, each=each, proto=onnx.ModelProto(), proofs=None, report=None
    )
    fitting: Any = SimpleNamespace(difference=difference, doubt=doubt)
    quantized: Any = SimpleNamespace(
        fault=fault, report=lambda _: SimpleNamespace(applied={"A": 1})
    )
    return Outcome(
        verified,
        verified,
        strict,
        must_verify_on_target=True,
        fitting=fitting,
        quantized=quantized,
    )


@pytest.mark.parametrize(
    ("made", "code", "error", "text"),
    [
        (outcome(EQUAL, DIFFERENT), 1, DifferentModelError, "y differs"),
        (outcome(UNKNOWN, DIFFERENT), 1, DifferentModelError, "y differs"),
        (outcome(UNKNOWN, DIFFERENT, strict=True), 1, DifferentModelError, "y differs"),
        (outcome(UNKNOWN), 3, NotVerifiedError, "no kernel"),
        (outcome(UNKNOWN, strict=True), 1, NotVerifiedError, "no kernel"),
        (outcome(GAP, strict=True), 1, XoptimError, "branches were not counted"),
        (outcome(DIFFERENT, fault="too much"), 1, ToleranceError, "too much"),
        (outcome(EQUAL, difference="differs there"), 1, TargetError, "differs there"),
        (outcome(UNKNOWN, difference="differs there"), 1, TargetError, "differs there"),
        (outcome(EQUAL, doubt="no device"), 3, TargetError, "no device"),
        (outcome(EQUAL, doubt="no device", strict=True), 1, XoptimError, "no device"),
        (outcome(UNKNOWN, doubt="no device"), 3, NotVerifiedError, "no kernel"),
        (outcome(UNKNOWN, wrong="Relu is wrong"), 1, XoptimError, "Relu is wrong"),
    ],
)
def test_the_command_and_the_api_agree(
    made: Outcome,
    code: int,
    error: type[Exception],
    text: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert verdict(made) == code
    assert text in capsys.readouterr().err
    with pytest.raises(error, match=text) as raised:
        made.raise_failure()
    assert type(raised.value) is error
    assert made.verdict.status == ("refused" if code == 1 else "not verified")


def test_an_equal_result_is_done(capsys: pytest.CaptureFixture[str]) -> None:
    made = outcome(EQUAL, GAP)
    assert (verdict(made), made.verdict.status) == (0, "done")
    assert capsys.readouterr().err == ""
    made.raise_failure()


def test_a_doubt_about_the_target_is_no_error_where_nothing_was_to_be_verified() -> None:
    replace(outcome(EQUAL, doubt="no device"), must_verify_on_target=False).raise_failure()
