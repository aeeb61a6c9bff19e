"""Mixtures of experts written as a Scan give what onnxruntime's kernels give."""

from typing import Any, Final

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from tests.support import parse, run, types
from xoptim import optimize

_TOKENS, _WIDTH, _INNER, _EXPERTS = 5, 32, 16, 4
_ACTIVATIONS: Final = {
    "relu": 'activation_type = "relu"',
    "gelu": 'activation_type = "gelu"',
    "silu": 'activation_type = "silu"',
    "identity": 'activation_type = "identity"',
    "swiglu": 'activation_type = "swiglu", swiglu_fusion = 1',
    "swiglu of GPT-OSS": (
        'activation_type = "swiglu", swiglu_fusion = 1, activation_alpha = 1.702, '
        "activation_beta = 1.0, swiglu_limit = 0.5"
    ),
}


def _floats(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


def _model(
    operator: str, operands: str, constants: dict[str, np.ndarray], shape: str, **others: str
) -> onnx.ModelProto:
    inputs = "".join(f", float[t,{_EXPERTS}] {name}" for name in others.get("more", "").split())
    text = (
        f"agraph (float[{shape}] x, float[t,{_EXPERTS}] r{inputs}) => (float[{shape}] y) "
        f"{{ y = com.microsoft.{operator} <{others['attributes']}> ({operands}) }}"
    )
    model = parse(text, 21, domains={"com.microsoft": 1})
    model.graph.initializer.extend(
        numpy_helper.from_array(array, name) for name, array in constants.items()
    )
    return model


def _check(model: onnx.ModelProto, feeds: dict[str, Any]) -> None:
    after = optimize(model, patterns="lower", strict=True)
    assert "Scan" in types(after)
    assert all(not node.domain for node in after.graph.node)
    (expected,), (result,) = run(model, feeds), run(after, feeds)
    scale = np.abs(expected).max()
    np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-5 * scale)


def _feeds(rank: int) -> dict[str, Any]:
    shape = (_TOKENS, _WIDTH) if rank == 2 else (1, _TOKENS, _WIDTH)
    return {"x": _floats(*shape), "r": 2 * _floats(_TOKENS, _EXPERTS)}


@pytest.mark.parametrize("activation", _ACTIVATIONS)
@pytest.mark.parametrize("is_normalized", [0, 1])
@pytest.mark.parametrize("count", [1, 3])
@pytest.mark.parametrize(("has_biases", "rank"), [(False, 2), (True, 3)])
def test_floats(
    activation: str, is_normalized: int, count: int, has_biases: bool, rank: int
) -> None:
    columns = 2 * _INNER if "swiglu" in activation else _INNER
    constants = {"v": _floats(_EXPERTS, columns, _WIDTH), "w": _floats(_EXPERTS, _WIDTH, _INNER)}
    if has_biases:
        constants |= {"b": _floats(_EXPERTS, columns), "c": _floats(_EXPERTS, _WIDTH)}
    attributes = (
        f"{_ACTIVATIONS[activation]}, k = {count}, normalize_routing_weights = {is_normalized}"
    )
    operands = "x, r, v, b, w, c" if has_biases else "x, r, v, , w"
    shape = f"t,{_WIDTH}" if rank == 2 else f"n,s,{_WIDTH}"
    _check(_model("MoE", operands, constants, shape, attributes=attributes), _feeds(rank))


def _quantized(shape: tuple[int, int, int], bits: int, block: int) -> list[np.ndarray]:
    """Packed integers, scales and zero points."""
    experts, columns, rows = shape
    rng = np.random.default_rng(bits + block)
    blocks = (experts, columns, rows // block) if block else (experts, columns)
    zeros = rng.integers(0, 1 << bits, blocks, np.uint8)
    integers = rng.integers(0, 1 << bits, shape, np.uint8)
    arrays = [_packed(integers) if bits == 4 else integers]
    arrays.append(rng.uniform(0.01, 0.1, blocks).astype(np.float32))
    return [*arrays, _packed(zeros) if bits == 4 else zeros]


def _packed(integers: np.ndarray) -> np.ndarray:
    padding = [(0, 0)] * (integers.ndim - 1) + [(0, integers.shape[-1] % 2)]
    padded = np.pad(integers, padding)
    return np.asarray(padded[..., 0::2] | (padded[..., 1::2] << 4))


@pytest.mark.parametrize("activation", ["relu", "swiglu of GPT-OSS"])
@pytest.mark.parametrize(("bits", "block"), [(4, 0), (4, 16), (8, 0)])
@pytest.mark.parametrize("has_zeros", [False, True])
@pytest.mark.parametrize(("has_weights", "is_normalized"), [(False, 1), (True, 0), (True, 1)])
def test_integers(
    activation: str, bits: int, block: int, has_zeros: bool, has_weights: bool, is_normalized: int
) -> None:
    columns = 2 * _INNER if "swiglu" in activation else _INNER
    first = _quantized((_EXPERTS, columns, _WIDTH), bits, block)
    second = _quantized((_EXPERTS, _WIDTH, _INNER), bits, block)
    constants = dict(zip(("v", "s", "p", "w", "u", "q"), (*first, *second), strict=True))
    constants |= {"b": _floats(_EXPERTS, columns), "c": _floats(_EXPERTS, _WIDTH)}
    if not has_zeros:
        del constants["p"], constants["q"]
    operands = "x, r, v, s, b, w, u, c, , , , " + ("p, q" if has_zeros else ",")
    attributes = (
        f"{_ACTIVATIONS[activation]}, k = 2, normalize_routing_weights = {is_normalized}, "
        f"expert_weight_bits = {bits}" + (f", block_size = {block}" if block else "")
    )
    model = _model(
        "QMoE",
        operands + (", , f" if has_weights else ""),
        constants,
        f"t,{_WIDTH}",
        attributes=attributes,
        more="f" if has_weights else "",
    )
    weights = {"f": _floats(_TOKENS, _EXPERTS)} if has_weights else {}  # some are negative
    _check(model, {**_feeds(2), **weights})


def test_equal_logits() -> None:
    """Kernels choose the last experts of those with equal logits."""
    constants = {"v": _floats(_EXPERTS, _INNER, _WIDTH), "w": _floats(_EXPERTS, _WIDTH, _INNER)}
    attributes = "k = 2, normalize_routing_weights = 1"
    model = _model("MoE", "x, r, v, , w", constants, f"t,{_WIDTH}", attributes=attributes)
    logits = np.array([[0, 0, 0, 0], [1, 0, 1, 1], [0, 1, 0, 0]], np.float32)
    _check(model, {"x": _floats(3, _WIDTH), "r": logits})


@pytest.mark.parametrize(
    "attributes",
    [
        "expert_weight_bits = 8, block_size = 16, normalize_routing_weights = 1",
        "block_size = 16, accuracy_level = 4, normalize_routing_weights = 1",
        "normalize_routing_weights = 0",
        'quant_type = "fp8", normalize_routing_weights = 1',
    ],
)
def test_what_kernels_compute_in_another_way_stays(attributes: str) -> None:
    bits, block = 8 if "bits = 8" in attributes else 4, 16 if "block" in attributes else 0
    first = _quantized((_EXPERTS, _INNER, _WIDTH), bits, block)
    second = _quantized((_EXPERTS, _WIDTH, _INNER), bits, block)
    constants = dict(zip(("v", "s", "w", "u"), (*first[:2], *second[:2]), strict=True))
    model = _model("QMoE", "x, r, v, s, , w, u", constants, f"t,{_WIDTH}", attributes=attributes)
    assert types(optimize(model, patterns="lower", strict=True)) == ["QMoE"]


def test_blocks_longer_than_a_row_stay() -> None:
    first, second = (
        _quantized((_EXPERTS, _INNER, _WIDTH), 4, 0),
        _quantized((_EXPERTS, _WIDTH, _INNER), 4, 0),
    )
    constants = dict(zip(("v", "s", "w", "u"), (*first[:2], *second[:2]), strict=True))
    attributes = "block_size = 1024, normalize_routing_weights = 1"
    model = _model("QMoE", "x, r, v, s, , w, u", constants, f"t,{_WIDTH}", attributes=attributes)
    assert types(optimize(model, patterns="lower", strict=True)) == ["QMoE"]
