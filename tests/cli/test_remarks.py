"""Remarks of the summary, in columns and in one line."""

from tests.cli.command import TRANSPOSES, Xopt, write
from xoptim.cli.remarks import Remark


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
