"""Types that a type checker infers for the public functions."""

import re
from pathlib import Path

import pytest
from mypy import api

from tests.meta.sources import ROOT, with_mypy

CODE = """
from pathlib import Path

import onnx
import onnx_ir

import xoptim

model = onnx.ModelProto()
reveal_type(xoptim.optimize("model.onnx"))  # reveals: ModelProto
path, checks = Path("model.onnx"), xoptim.VerificationOptions(atol=1e-3)
reveal_type(xoptim.optimize(path, patterns="default", verify=True))  # reveals: ModelProto
reveal_type(xoptim.optimize(model, verify=checks))  # reveals: ModelProto
reveal_type(xoptim.optimize(model.SerializeToString()))  # reveals: bytes
reveal_type(xoptim.optimize(onnx_ir.load("model.onnx")))  # reveals: Model
reveal_type(xoptim.verify(model, "model.onnx", exactness="exact"))  # reveals: VerificationReport
options = xoptim.OptimizationOptions()
xoptim.optimize(model, options, report=lambda each: each.verification, drop=("Gelu",), strict=True)
xoptim.optimize(model, pattern="default")  # error: "pattern"
xoptim.optimize("model.onnx", pattern="default")  # error: "pattern"
xoptim.optimize(model, max_iter="many")  # error: max_iter|argument types
xoptim.optimize(model, strategy="longest")  # error: strategy|argument types
xoptim.verify(model, model, tolerance=1.0)  # error: "tolerance"
xoptim.verify(model, model, exactness="nearly")  # error: exactness
"""


@with_mypy
@pytest.mark.slow
def test_the_public_door(tmp_path: Path) -> None:
    """Each line has the error that its comment announces, and no line has another one."""
    source = tmp_path / "uses_the_public_api.py"
    source.write_text(CODE)
    out, err, _ = api.run(
        ["--config-file", str(ROOT / "pyproject.toml"), "--no-pretty", str(source)]
    )
    assert not err
    told = re.findall(rf"{source.name}:(\d+): (error|note): (.*)$", out, re.MULTILINE)
    errors = {int(line): text for line, kind, text in reversed(told) if kind == "error"}
    revealed = {
        int(line): text
        for line, kind, text in told
        if kind == "note" and text.startswith("Revealed type")
    }
    for number, line in enumerate(CODE.splitlines(), 1):
        announced = re.search(r"# (error|reveals): (.*)$", line)
        assert (number in errors) == (announced is not None and announced[1] == "error"), (
            line,
            errors.get(number),
            out,
        )
        if announced is not None and announced[1] == "error":
            assert re.search(announced[2], errors[number]), (line, errors[number])
        elif announced is not None:
            assert re.search(rf'[."]{announced[2]}"', revealed[number]), (line, revealed[number])
