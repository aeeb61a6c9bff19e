"""The page about lower precision: its snippet runs, in its order, and each step gives what the page
says.
"""

import re
import shutil
from collections import Counter
from pathlib import Path

import numpy as np
import onnx
import pytest

from tests.meta.sources import ROOT
from xoptim import verify

PAGE = ROOT / "docs" / "quantization.md"


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_the_snippet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    shutil.copy(ROOT / "examples" / "models" / "tiny_bert.onnx", "model.onnx")
    first, second = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    assert "tolerance=0.01," in first
    names: dict[str, onnx.ModelProto] = {}
    exec(compile(first, str(PAGE), "exec"), names)  # the page is ours
    assert names["smaller"].ByteSize() < 0.5 * onnx.load("model.onnx").ByteSize()
    assert verify("model.onnx", names["smaller"], atol=0.1, rtol=0).ok
    exec(compile(second, str(PAGE), "exec"), names)
    assert len(onnx.load("smaller.onnx").graph.node) < len(onnx.load("model.onnx").graph.node) / 2
    types = Counter(node.op_type for node in names["integers"].graph.node)
    assert types["MatMulInteger"] == 0
    assert types["DynamicQuantizeMatMul"] + types["MatMulIntegerToFloat"] > 8
    # The fused attention of ONNX Runtime gives NaN where a mask hides a whole row.
    feeds = {"attention_mask": np.ones((2, 6), np.int64)}
    assert verify("model.onnx", names["integers"], atol=0.1, rtol=0, feeds=feeds).ok
    assert not verify("model.onnx", names["integers"], atol=1e-6, rtol=0).ok
