"""From torch to ONNX; skipped where torch or its exporter is missing."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest

import xoptim
from xoptim.integrations.torch import optimized_exports, to_onnx

torch = pytest.importorskip("torch")
pytest.importorskip("onnxscript")

# torch's exporter warns about its own use of torch
pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("ignore")]


def mlp() -> Any:
    torch.manual_seed(0)
    layers = torch.nn.Sequential(torch.nn.Linear(10, 32), torch.nn.ReLU(), torch.nn.Linear(32, 1))
    return layers.eval()


def run(model: onnx.ModelProto, feeds: dict[str, Any]) -> Any:
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    return session.run(None, feeds)[0]


@pytest.mark.parametrize("patterns", [None, "default"])
def test_module_and_model_agree(patterns: str | None) -> None:
    module, x = mlp(), torch.rand(3, 10)
    model = to_onnx(
        module, (x,), input_names=["x"], options=xoptim.OptimizationOptions(patterns=patterns)
    )
    onnx.checker.check_model(model, full_check=True)
    expected = module(x).detach().numpy()
    np.testing.assert_allclose(run(model, {"x": x.numpy()}), expected, rtol=1e-5, atol=1e-6)


def test_shapes_that_torch_knows_are_kept() -> None:
    batch = torch.export.Dim("batch")
    model = to_onnx(
        mlp(),
        torch.rand(3, 10),
        input_names=["x"],
        dynamic_shapes=({0: batch},),
        options=xoptim.OptimizationOptions(patterns=None),
    )
    known = {
        v.name: [d.dim_param or d.dim_value for d in v.type.tensor_type.shape.dim]
        for v in model.graph.value_info
    }
    results = [name for node in model.graph.node for name in node.output]
    inner = [known[name] for name in results if name in known]
    assert ["batch", 32] in inner
    x = np.ones((7, 10), np.float32)
    assert run(model, {"x": x}).shape == (7, 1)


Module: Any = torch.nn.Module


class Joined(Module):  # type: ignore[misc]
    def forward(self, x: Any, past: Any, nothing: None = None) -> Any:
        return torch.cat([past, x], 1) * 2


def test_ranges_of_dimensions_are_taken_over() -> None:
    batch, past = torch.export.Dim("batch", min=1, max=64), torch.export.Dim("past", min=3)
    shapes = {
        "x": {0: batch, 1: torch.export.Dim("seq")},
        "past": {0: batch, 1: past},
        "nothing": None,
    }
    args = (torch.rand(2, 5, 8), torch.rand(2, 7, 8), None)
    given = xoptim.OptimizationOptions(assume=("finite(x)",))
    model = to_onnx(Joined(), args, input_names=["x", "past"], dynamic_shapes=shapes, options=given)
    first, second = (
        [dim.dim_param for dim in value.type.tensor_type.shape.dim] for value in model.graph.input
    )
    assert first[0] == second[0]
    (entry,) = [each.value for each in model.metadata_props if each.key == "xoptim.assumptions"]
    assert {*entry.split("; ")} == {f"1 <= {first[0]} <= 64", f"{second[1]} >= 3", "finite(x)"}
    with optimized_exports():
        program = torch.onnx.export(
            Joined(), args, dynamic_shapes=shapes, dynamo=True, verbose=False
        )
    assert any(each.key == "xoptim.assumptions" for each in program.model_proto.metadata_props)


def test_keywords_and_opset() -> None:
    class Scale(torch.nn.Module):  # type: ignore[misc, name-defined]
        def forward(self, x: Any, factor: Any) -> Any:
            return x * factor

    x, factor = torch.rand(2, 3), torch.rand(3)
    model = to_onnx(Scale(), (x,), {"factor": factor}, opset=21, output_names=["y"])
    assert model.opset_import[0].version == 21
    assert [output.name for output in model.graph.output] == ["y"]
    feeds = dict(zip((i.name for i in model.graph.input), (x.numpy(), factor.numpy()), strict=True))
    np.testing.assert_array_equal(run(model, feeds), (x * factor).numpy())


def test_torch_is_not_imported_before_it_is_used() -> None:
    code = "import sys, xoptim, xoptim.integrations.torch; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_missing_exporter_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "onnxscript", None)
    with pytest.raises(ImportError, match="onnxscript"):
        to_onnx(mlp(), torch.rand(3, 10))


def turned() -> Any:
    """A module that turns its operand and turns it back."""
    base: Any = torch.nn.Module  # untyped where torch is not installed

    class Turned(base):  # type: ignore[misc]
        def forward(self, x: Any) -> Any:
            return torch.exp(torch.sin(x).t()).t()

    return Turned().eval()


@pytest.mark.parametrize("stored", [False, True])
def test_the_hook_optimizes_what_is_returned_and_written(stored: bool, tmp_path: Path) -> None:
    original = torch.onnx.export
    target = tmp_path / "model.onnx" if stored else None
    with optimized_exports(verify=True):
        program = torch.onnx.export(
            turned(), (torch.rand(3, 10),), target, dynamo=True, optimize=False, verbose=False
        )
    assert torch.onnx.export is original
    plain = torch.onnx.export(
        turned(), (torch.rand(3, 10),), dynamo=True, optimize=False, verbose=False
    )
    count = len(program.model_proto.graph.node)
    assert count < len(plain.model_proto.graph.node)
    if target is not None:
        assert len(onnx.load(target).graph.node) == count
        assert xoptim.verify(plain, target).ok


def test_the_hook_is_removed_after_an_error() -> None:
    original = torch.onnx.export
    with pytest.raises(xoptim.UnknownPatternError), optimized_exports(patterns="NoSuchPattern"):
        torch.onnx.export(mlp(), (torch.rand(3, 10),), dynamo=True, verbose=False)
    assert torch.onnx.export is original
