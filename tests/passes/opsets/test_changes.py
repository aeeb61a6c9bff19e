import pytest

from xoptim.passes.opsets.changes import additions, breaks, next_version, operators, versions


def test_versions() -> None:
    assert versions("Softmax") == (1, 11, 13)
    assert versions("NoSuchOperator") == ()
    assert {"Softmax", "Upsample"} <= set(operators())
    assert next_version("Softmax", 1, 12) == 11
    assert next_version("Softmax", 11, 12) is None


@pytest.mark.parametrize(
    ("op_type", "version", "expected"),
    [
        ("Upsample", 10, "the operator"),
        ("Squeeze", 13, "attribute axes"),
        ("Softmax", 13, "the type or the default of attribute axis"),
        ("Concat", 4, "a call without attribute axis"),
        ("Scan", 9, "operand sequence_lens as it was"),
        ("BatchNormalization", 14, "result saved_mean"),
        ("BatchNormalization", 14, "the number of results"),
        ("Pad", 11, "the number of operands"),
        ("Erf", 13, "the types of operand input"),
    ],
)
def test_calls_that_become_invalid(op_type: str, version: int, expected: str) -> None:
    assert expected in breaks(op_type, version)


@pytest.mark.parametrize(
    ("op_type", "version"), [("Gemm", 11), ("Loop", 11), ("Resize", 13), ("Relu", 14), ("Cast", 19)]
)
def test_calls_that_stay_valid(op_type: str, version: int) -> None:
    """An operand that may be left out, more element types, an attribute that has a default."""
    assert breaks(op_type, version) == ()


def test_additions() -> None:
    assert additions("Relu", 14) == ()
    assert additions("Cast", 19) == ("attribute saturate", "text")
    assert additions("Pad", 18) == ("operand axes", "text")
    assert additions("MaxPool", 8) == ("attribute storage_order", "result Indices", "text")
    assert additions("RoiAlign", 22) == ()
