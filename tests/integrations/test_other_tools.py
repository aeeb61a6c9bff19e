"""The page for users of other tools: their commands and names exist."""

import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path

import numpy as np
import onnx
import onnxruntime.quantization
import pytest
from onnx import numpy_helper
from onnxruntime.quantization.shape_inference import quant_pre_process

from tests.meta.sources import ROOT
from xoptim.testing import parse

PAGE = (ROOT / "docs/coming-from.md").read_text(encoding="utf-8")
MODEL = """
agraph (float[batch,seq,16] x, int64[batch,seq] mask) => (float[batch,seq,4] y)
{
    weight = Cast <to = 1> (mask)
    axis = Constant <value = int64[1] {2}> ()
    factor = Unsqueeze(weight, axis)
    hidden = Mul(x, factor)
    y = MatMul(hidden, w)
}"""


class Reader(onnxruntime.quantization.CalibrationDataReader):  # type: ignore[misc]
    """Two samples."""

    def __init__(self) -> None:
        self._samples = iter([sample(seed) for seed in range(2)])

    def get_next(self) -> dict[str, np.ndarray] | None:
        """The next sample, ``None`` at the end."""
        return next(self._samples, None)


def sample(seed: int) -> dict[str, np.ndarray]:
    """Values of the inputs."""
    x = np.random.default_rng(seed).standard_normal((4, 3, 16), np.float32)
    return {"x": x, "mask": np.ones((4, 3), np.int64)}


@pytest.fixture(autouse=True)
def _models(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    model = parse(MODEL)
    model.graph.initializer.append(numpy_helper.from_array(np.ones((16, 4), np.float32), "w"))
    for name in "model", "a", "b":
        onnx.save(model, f"{name}.onnx")


def section(tool: str) -> str:
    """The part of the page about a tool."""
    (text,) = re.findall(rf"^## {re.escape(tool)} .*?(?=^## |\Z)", PAGE, re.MULTILINE | re.DOTALL)
    return str(text)


def commands(tool: str, start: str) -> Iterator[str]:
    """The code in the table of a tool that begins with some text."""
    return (code for code in re.findall(r"`([^`]+)`", section(tool)) if code.startswith(start))


@pytest.mark.slow
def test_calls_of_onnxruntimes_quantizer_run() -> None:
    calls = [*commands("onnxruntime.quantization", "quant")]
    names = {**vars(onnxruntime.quantization), "quant_pre_process": quant_pre_process}
    assert len(calls) == 5
    for call in calls:
        Path("out.onnx").unlink(missing_ok=True)
        eval(call, {**names, "reader": Reader()})
        onnx.checker.check_model("out.onnx")


@pytest.mark.slow
def test_commands_of_polygraphy_run() -> None:
    pytest.importorskip("polygraphy")
    pytest.importorskip("onnx_graphsurgeon")
    lines = [line for line in commands("Polygraphy", "polygraphy ") if "onnx" in line]
    lines.remove("polygraphy run model.onnx --onnxrt --trt")  # needs TensorRT
    assert len(lines) == 6
    program = str(Path(sys.executable).parent / "polygraphy")
    for line in lines:
        words = shlex.split(line)[1:]
        result = subprocess.run([program, *words], capture_output=True, text=True, check=False)
        assert result.returncode == 0, (line, result.stdout)


def test_passes_of_olive_exist() -> None:
    pytest.importorskip("olive")
    text = files("olive").joinpath("olive_config.json").read_text(encoding="utf-8")
    passes = [*commands("Olive", "O"), *commands("Olive", "DynamicToFixedShape")]
    assert len(passes) == 9
    assert [name for name in passes if f'"{name}"' not in text] == []
