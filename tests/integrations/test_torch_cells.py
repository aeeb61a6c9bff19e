"""Loops over torch's recurrent cells become one operator, from both exporters."""

import io
from typing import Any

import numpy as np
import onnx
import pytest

import xoptim
from tests.support import run, types

torch = pytest.importorskip("torch")
pytest.importorskip("onnxscript")

# torch's exporter warns about its own use of torch
pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("ignore")]

FEATURES, HIDDEN, BATCH, STEPS = 5, 4, 3, 6


def module(kind: str) -> Any:
    """A loop over a cell that returns the states after all steps."""

    class Unrolled(torch.nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.cell = getattr(torch.nn, f"{kind}Cell")(FEATURES, HIDDEN)

        def forward(self, x: Any) -> Any:
            state = x.new_zeros(x.shape[0], HIDDEN)
            state = (state, state) if kind == "LSTM" else state
            rows = []
            for step in range(x.shape[1]):
                state = self.cell(x[:, step], state)
                rows.append(state[0] if kind == "LSTM" else state)
            return torch.stack(rows, 1)

    torch.manual_seed(0)
    return Unrolled().eval()


def exported(source: Any, x: Any, *, dynamo: bool) -> onnx.ModelProto:
    """The model of an exporter, with an open batch."""
    if dynamo:
        shapes = ({0: torch.export.Dim("batch")},)
        program = torch.onnx.export(source, (x,), dynamo=True, dynamic_shapes=shapes, verbose=False)
        model: onnx.ModelProto = program.model_proto
        return model
    buffer = io.BytesIO()
    names = {"input_names": ["x"], "dynamic_axes": {"x": {0: "batch"}}}
    torch.onnx.export(source, (x,), buffer, dynamo=False, opset_version=17, **names)
    return onnx.load_from_string(buffer.getvalue())


@pytest.mark.slow
@pytest.mark.parametrize("dynamo", [False, True])
@pytest.mark.parametrize("kind", ["LSTM", "GRU"])
def test_cells_become_one_operator(kind: str, dynamo: bool) -> None:
    source, x = module(kind), torch.randn(BATCH, STEPS, FEATURES)
    model = exported(source, x, dynamo=dynamo)
    after = xoptim.optimize(model, assume=["finite"])
    assert sorted(types(after)) == sorted(["Transpose", kind, "Squeeze", "Transpose"])
    (result,) = run(after, {after.graph.input[0].name: x.numpy()})
    np.testing.assert_allclose(result, source(x).detach().numpy(), rtol=1e-5, atol=1e-6)
