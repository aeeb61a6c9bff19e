"""Remarks of the summary, in columns and in one line."""

import numpy as np
import onnx
import pytest

from tests.cli.command import TRANSPOSES, Xopt, write
from tests.support import parse, values_in
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
    assert [f" {name}; " in remark for remark in remarks] == [True]


@pytest.mark.parametrize(
    ("count", "end", "sizes"),
    [
        (300_000, "y = Relu(t)", ["1.2", "--max-growth", "1.0"]),
        (
            150_000,
            "u = ConstantOfShape <value = float[1] {1}> (size) y = Add(t, u)",
            ["600.0", "--max-growth", "1.0", "600.0"],
        ),
    ],
)
def test_why_a_constant_was_not_folded(xopt: Xopt, count: int, end: str, sizes: list[str]) -> None:
    write(_CONSTANT % (count, end))
    found = xopt("model.onnx", "--dry-run", "--json", "--patterns", "TransposeTranspose").json
    assert found["remarks"][0].startswith("not folded: 1 ConstantOfShape: ")
    assert values_in(found["remarks"][0]) == ["1", *sizes]


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
    (remark,) = found["remarks"]
    assert remark.startswith("not folded: 1 Transpose: ")
    assert values_in(remark) == ["1", "160.0", "--max-growth"]


def test_equal_steps_of_a_quantization_are_told_once() -> None:
    equal, other = VerificationReport("equal"), VerificationReport("equal")
    different = VerificationReport("different")
    assert told_reports([equal, different, other]) == [different, other]
    assert told_reports([]) == []
