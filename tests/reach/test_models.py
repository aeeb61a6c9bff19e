"""The program that compares nodes with onnxruntime on a folder of models."""

import re
from pathlib import Path

import onnx
import pytest

import xoptim
from lab.reach.models import RIVALS, Reason, count_model, count_models, read_reasons, report
from tests.support import parse

_BIAS_GELU = (
    "agraph (float[2,3] x) => (float[2,3] y) <float[3] b = {1, 2, 3}> { t = Add(x, b) y = Gelu(t) }"
)
_BRANCHES = (
    "agraph (float[2] x, bool c) => (float[2] y) { y = If(c) < then_branch = yes () => "
    "(float[2] p) { n = Neg(x) p = Neg(n) }, else_branch = no () => (float[2] q) "
    "{ q = Abs(x) }> }"
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two models of two kinds, and one that cannot be read."""
    for kind in ("gelu", "branches"):
        (tmp_path / kind).mkdir()
    onnx.save(parse(_BIAS_GELU, 20), tmp_path / "gelu" / "bias.onnx")
    onnx.save(parse(_BRANCHES), tmp_path / "branches" / "pair.onnx")
    (tmp_path / "broken.onnx").write_bytes(b"\xff")
    return tmp_path


def test_nodes_of_both_sides_are_counted_with_subgraphs(folder: Path) -> None:
    gelu = count_model(folder / "gelu" / "bias.onnx", folder)
    assert gelu["name"] == "gelu/bias"
    assert gelu["failures"] == {}
    assert gelu["nodes"]["original"] == {"Add": 1, "Gelu": 1}
    assert gelu["nodes"]["extended"] == {"com.microsoft::BiasGelu": 1}
    branches = count_model(folder / "branches" / "pair.onnx", folder)
    assert branches["nodes"]["original"] == {"If": 1, "Neg": 2, "Abs": 1}
    assert sum(branches["nodes"]["default"].values()) == 3


def test_tables_name_models_with_fewer_nodes_and_their_reasons(folder: Path) -> None:
    counts = [count_model(path, folder) for path in sorted(folder.rglob("*.onnx"))]
    counts[-1]["nodes"]["fast"] = {"Add": 1, "Gelu": 1}
    text = report(counts, ())
    operators = r"com\.microsoft::BiasGelu\*1; .*: Add\*1 Gelu\*1\n"
    assert re.search(
        rf"\nextended .* fast on 1 of 2 .* 1 .*\ngelu/bias: 1 < 2; .*{operators}", text
    )
    assert "refuse: 1\nbroken: original: " in text
    for reason, is_stated in (
        (Reason(("gelu/*",), "extended", "as fast"), True),
        (Reason(("gelu/*",), "basic", "as fast"), False),
        (Reason(("other/*",), "extended", "as fast"), False),
    ):
        assert ("; reason: as fast" in report(counts, [reason])) == is_stated


def test_wrong_numbers_and_exceptions_are_reported(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def wrong(model: onnx.ModelProto, patterns: str = "", opset: str = "") -> onnx.ModelProto:
        if opset:
            raise KeyError("lost")
        result = onnx.ModelProto.FromString(model.SerializeToString())
        result.graph.node[-1].op_type = "Relu"
        return result

    monkeypatch.setattr(xoptim, "optimize", wrong)
    text = report([count_model(folder / "gelu" / "bias.onnx", folder)], ())
    assert "wrong numbers: 2\ngelu/bias: default: different: " in text
    assert ": 1\ngelu/bias: fast: exception: 'lost'\n" in text


@pytest.mark.slow
def test_models_run_in_processes_of_their_kinds(folder: Path) -> None:
    names = [count["name"] for count in count_models(folder, "i")]
    assert names == ["branches/pair", "gelu/bias"]


def test_stated_reasons_name_a_comparison() -> None:
    levels = {theirs for theirs, _ in RIVALS}
    assert all(row.models and row.reason and row.against in levels for row in read_reasons())
