"""torch's own attention modules become Attention, in both layouts."""

from collections.abc import Callable
from typing import Any

import numpy as np
import onnxruntime
import pytest

import xoptim
from tests.share import is_whole
from tests.support import types

torch = pytest.importorskip("torch")
pytest.importorskip("onnxscript")

# torch's exporter warns about its own use of torch
pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("ignore")]

WIDTH, HEADS, BATCH, LENGTH, MEMORY = 16, 4, 2, 10, 7


def attention(**options: Any) -> Callable[[bool], Any]:
    """Makes MultiheadAttention, without its weights as a result."""
    return lambda batch_first: torch.nn.MultiheadAttention(
        WIDTH, HEADS, batch_first=batch_first, **options
    )


def encoder(batch_first: bool) -> Any:
    layer = torch.nn.TransformerEncoderLayer(WIDTH, HEADS, 32, batch_first=batch_first)
    return torch.nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)


def decoder(batch_first: bool) -> Any:
    layer = torch.nn.TransformerDecoderLayer(WIDTH, HEADS, 32, batch_first=batch_first)
    return torch.nn.TransformerDecoder(layer, 2)


def called(module: Any, call: Callable[..., Any]) -> Any:
    """A module that calls another one."""

    class Called(torch.nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.module = module

        def forward(self, *operands: Any) -> Any:
            return call(self.module, *operands)

    return Called()


def own(module: Any, x: Any) -> Any:
    return module(x, x, x, need_weights=False)[0]


def cross(module: Any, x: Any, memory: Any) -> Any:
    return module(x, memory, memory, need_weights=False)[0]


def padded(module: Any, x: Any, padding: Any) -> Any:
    return module(x, x, x, key_padding_mask=padding, need_weights=False)[0]


def masked(module: Any, x: Any, mask: Any) -> Any:
    return module(x, x, x, attn_mask=mask, need_weights=False)[0]


def whole(module: Any, *operands: Any) -> Any:
    return module(*operands)


PADDING = np.arange(LENGTH) >= np.array([[LENGTH], [6]])
MASK = np.triu(np.full((LENGTH, LENGTH), -np.inf, np.float32), 1)

# name: the module, how it is called, its second operand, and its attentions
MODULES: dict[str, tuple[Callable[[bool], Any], Callable[..., Any], Any, int]] = {
    "self": (attention(), own, None, 1),
    "without bias": (attention(bias=False), own, None, 1),
    "cross": (attention(), cross, "memory", 1),
    "padded": (attention(), padded, PADDING, 1),
    "causal": (attention(), masked, MASK, 1),
    "encoder": (encoder, whole, None, 2),
    "decoder": (decoder, whole, "memory", 4),
}


def rows(generator: np.random.Generator, length: int, batch_first: bool) -> np.ndarray:
    values = generator.standard_normal((BATCH, length, WIDTH), dtype=np.float32)
    return values if batch_first else np.ascontiguousarray(values.transpose(1, 0, 2))


CASES = [
    (name, batch_first)
    for name in MODULES
    for batch_first in (True, False)
    # the layout matters where attentions follow each other; BATTERIES=all runs all
    if batch_first or name in ("encoder", "decoder") or is_whole("patterns/attention")
]


@pytest.mark.parametrize(("name", "batch_first"), CASES)
def test_modules(name: str, batch_first: bool) -> None:
    make, call, second, count = MODULES[name]
    torch.manual_seed(0)
    generator = np.random.default_rng(0)
    operands = [rows(generator, LENGTH, batch_first)]
    if second is not None:
        is_memory = isinstance(second, str)
        operands.append(rows(generator, MEMORY, batch_first) if is_memory else second)
    module = called(make(batch_first), call).eval()
    with torch.no_grad():
        for parameter in module.parameters():  # the exporter merges equal ones
            parameter.normal_(0, 0.2)
        tensors = tuple(torch.from_numpy(operand) for operand in operands)
        expected = module(*tensors).numpy()
        exported = torch.onnx.export(module, tensors, dynamo=True, verbose=False).model_proto
    model = xoptim.optimize(exported, opset="newest")
    assert types(model).count("Attention") == count
    assert "Softmax" not in types(model)
    assert not batch_first or "Transpose" not in types(model)
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    names = [each.name for each in session.get_inputs()]
    (result,) = session.run(None, dict(zip(names, operands, strict=True)))
    np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-5)
