"""Remarks of the summary, in columns and in one line."""

import numpy as np
import onnx
import pytest

from tests.cli.command import TRANSPOSES, Xopt, write
from tests.support import parse
from xoptim import VerificationReport
from xoptim.cli.remarks import Remark, told_reports

_CONSTANT = (
    "agraph (float[1] x) => (float[m] y) <int64[1] size = {%d}> { "
    "n = ConstantOfShape(size) t = Add(x, n) %s }"
)


def test_columns_and_one_line() -> None:
    remark = Remark("latency", "2 ms → 1 ms", ("n=1: 3 ms", "busy: times spread"))
    assert list(remark.lines()) == [
        "latency       2 ms → 1 ms",
        "              n=1: 3 ms",
        "              busy: times spread",
    ]
    assert str(remark) == "latency: 2 ms → 1 ms; n=1: 3 ms; busy: times spread"


def test_a_text_that_looks_like_columns_stays(xopt: Xopt) -> None:
    """The name of an input is text, also where it has as many spaces as the first column."""
    name = " " * 14 + "z"
    write(TRANSPOSES.replace("agraph (", f'agraph (float[1] "{name}", '))
    remarks = xopt("model.onnx", "--dry-run", "--json").json["remarks"]
    assert remarks == [f"hint: nothing reads {name}; --drop-unused-inputs removes it"]


@pytest.mark.parametrize(
    ("count", "end", "expected"),
    [
        (300_000, "y = Relu(t)", "it would add 1.2 MB; --max-growth allows 1.0 MB"),
        (
            150_000,
            "u = ConstantOfShape <value = float[1] {1}> (size) y = Add(t, u)",
            "it would add 600.0 kB; --max-growth allows 1.0 MB, of which 600.0 kB are used",
        ),
    ],
)
def test_why_a_constant_was_not_folded(xopt: Xopt, count: int, end: str, expected: str) -> None:
    write(_CONSTANT % (count, end))
    found = xopt("model.onnx", "--dry-run", "--json", "--patterns", "TransposeTranspose").json
    assert found["remarks"][0] == f"not folded: 1 ConstantOfShape: folding {expected}"


def test_a_constant_that_would_be_stored_in_two_forms(xopt: Xopt) -> None:
    """There is room for it, so that the limit is not the reason."""
    model = parse(
        "agraph (float[n,200] x, int64[k] i) => (y, z) { t = Transpose <perm = [1, 0]> (w) "
        "y = MatMul(x, t) z = Gather(w, i) }"
    )
    weight = np.arange(40_000, dtype=np.float32).reshape(200, 200)
    model.graph.initializer.append(onnx.numpy_helper.from_array(weight, "w"))
    write(model)
    found = xopt("model.onnx", "--dry-run", "--json", "--patterns", "TransposeTranspose").json
    text = "folding it would add 160.0 kB, as other nodes need the operands"
    assert found["remarks"] == [f"not folded: 1 Transpose: {text}; --max-growth SIZE allows it"]


def test_equal_steps_of_a_quantization_are_told_once() -> None:
    equal, other = VerificationReport("equal"), VerificationReport("equal")
    different = VerificationReport("different")
    assert told_reports([equal, different, other]) == [different, other]
    assert told_reports([]) == []
