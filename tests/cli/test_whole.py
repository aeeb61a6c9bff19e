"""Every command that writes a model writes a whole one: it can be moved elsewhere, and needs no
other file.
"""

import shutil
from pathlib import Path

import numpy as np
import pytest

from tests.api.test_optimizing_files import model, results
from tests.cli.command import Xopt

WAYS = {
    "optimize": ("in/model.onnx", "-o", "out/model.onnx"),
    "outline": ("in/model.onnx", "-o", "out/model.onnx", "--outline"),
    "beside": ("in/model.onnx", "-o", "in/out.onnx"),
    "in place": ("in/model.onnx", "--in-place"),
    "extract": ("extract", "in/model.onnx", "--to", "y", "-o", "out/model.onnx"),
    "infer": ("extract", "in/model.onnx", "-o", "out/model.onnx"),
    "tune": ("tune", "in/model.onnx", "-o", "out/model.onnx", "--budget", "1"),
    "batch": ("batch", "in", "-o", "out"),
}


@pytest.mark.parametrize("way", list(WAYS))
def test_a_written_model_is_whole_and_can_be_moved(xopt: Xopt, way: str) -> None:
    source = model(Path("in"))
    expected = results(source)
    Path("out").mkdir()
    outcome = xopt(*WAYS[way])
    assert outcome.code == 0, outcome
    written = next(
        p for p in (Path("in/out.onnx"), *Path("out").rglob("*.onnx"), source) if p.exists()
    )
    Path("moved").mkdir()
    for path in (written, *written.parent.glob(f"{written.name}*data")):
        shutil.move(path, "moved")
    shutil.rmtree("in")
    np.testing.assert_allclose(results(Path("moved", written.name)), expected, rtol=1e-4)
