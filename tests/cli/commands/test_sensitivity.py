"""``xopt sensitivity``."""

import onnx

from tests.cli.command import Xopt, files
from tests.precision.models import network


def test_table(xopt: Xopt) -> None:
    onnx.save(network(layers=2), "model.onnx")
    outcome = xopt("sensitivity", "model.onnx")
    assert (outcome.code, outcome.err) == (0, "")
    lines = [line.split() for line in outcome.out.splitlines()]
    assert lines[0] == [
        "product",
        "pattern",
        "rows",
        "columns",
        "error",
        "before",
        "after",
        "saved",
    ]
    forms = {
        (node, pattern)
        for node in ("Gemm", "Gemm_1", "scores")
        for pattern in ("Int8Operands", "Int8Rows")
    }
    assert {(line[0], line[1]) for line in lines[1:7]} == forms
    assert lines[7][:4] == ["embed", "Int8Table", "300", "64"]
    assert (
        outcome.out.splitlines()[-1]
        == "4 products; error: largest, of 4 random samples, 2 of them held out"
    )
    assert files() == {"model.onnx"}


def test_as_json(xopt: Xopt) -> None:
    onnx.save(network(layers=2), "model.onnx")
    found = xopt(
        "sensitivity", "model.onnx", "--json", "--precision", "int4", "--metric", "rms"
    ).json
    assert {each["node"]: each["shape"] for each in found} == {
        "Gemm": [64, 64],
        "Gemm_1": [64, 64],
        "scores": [64, 8],
        "embed": [300, 64],
    }
    assert all(0 < each["alone"] < 1 and each["before"] > 0 and each["after"] > 0 for each in found)
