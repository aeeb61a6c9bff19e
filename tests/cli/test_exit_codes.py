"""Exit codes of commands that compare two models: 1 only where they differ."""

from typing import get_args

import pytest

from cli.exit_codes import code_of
from tests.cli.command import Xopt, write
from xoptim import ValidationReport
from xoptim.verification.report import Cause, Status

HEAD = "agraph (float[n,4] x) => (float[n,4] y)"
UNKNOWN = f"{HEAD} {{ y = NoSuch(x) }}"
FAR = "agraph (float[3,4] x) => (float[4] y) <int64 i = {100}> { y = Gather(x, i) }"
RANDOM = f"{HEAD} {{ r = RandomNormalLike(x) y = Add(x, r) }}"
LOG = f"{HEAD} {{ a = Exp(x) b = Neg(a) y = Log(b) }}"
NOTHING = "agraph (float[n,4] x) => (float[k] y) <bool[1] no = {0}> { y = Compress(x, no) }"
PAIRS = {
    "an operator that onnxruntime lacks": ("load", UNKNOWN, UNKNOWN),
    "an index that is too large": ("run", FAR, FAR),
    "a random result": ("evidence", RANDOM, RANDOM.replace("Add", "Sub")),
    "only NaN": ("evidence", LOG, LOG),
    "nothing but empty tensors": ("evidence", NOTHING, NOTHING),
}
"""Models that are not validated, with the cause."""


@pytest.mark.parametrize(("cause", "before", "after"), PAIRS.values(), ids=PAIRS)
def test_models_that_are_not_validated(xopt: Xopt, cause: str, before: str, after: str) -> None:
    write(before)
    write(after, "other.onnx")
    found = xopt("verify", "model.onnx", "other.onnx", "--json")
    report = found.json[0]
    assert (report["status"], report["cause"]) == ("not validated", cause)
    assert found.code == 3


@pytest.mark.parametrize("cause", [cause for cause in get_args(Cause) if cause])
def test_each_cause_of_not_validated(cause: Cause) -> None:
    doubtful = ValidationReport("not validated", "a reason", cause=cause)
    assert code_of([doubtful]) == 3
    assert code_of([ValidationReport("equal"), doubtful]) == 3
    assert code_of([doubtful, ValidationReport("different", "a reason")]) == 1


@pytest.mark.parametrize(("status", "code"), [("equal", 0), ("different", 1), ("not validated", 3)])
def test_each_status(status: Status, code: int) -> None:
    assert code_of([ValidationReport(status)]) == code
