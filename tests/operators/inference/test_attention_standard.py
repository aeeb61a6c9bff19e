"""Attention, its linear variant, rotary embedding and caches of the standard operator set."""

from collections.abc import Sequence

import numpy as np
import pytest
from onnx import TensorProto

from tests.operators.inference.context import infer
from tests.operators.inference.oracle import Fed, Given, check, random_array, tensor
from xoptim.facts.dims import SymbolicDim, named
from xoptim.facts.shapes import UNKNOWN, Info

SIZES = ({"b": 2, "s": 3, "t": 5, "p": 4}, {"b": 1, "s": 1, "t": 2, "p": 1})
B, S, T, P = (named(name) for name in "bstp")
HEADS = {"q_num_heads": 4, "kv_num_heads": 2}
FOUR_AXES: Sequence[Given] = (
    tensor("b", 4, "s", 8),
    tensor("b", 2, "t", 8),
    tensor("b", 2, "t", 6),
)
THREE_AXES: Sequence[Given] = (tensor("b", "s", 32), tensor("b", "t", 16), tensor("b", "t", 12))
PAST: Sequence[Given] = (None, tensor("b", 2, "p", 8), tensor("b", 2, "p", 6))


@pytest.mark.parametrize("opset", [23, 24])
@pytest.mark.parametrize("outputs", [1, 3, 4])
@pytest.mark.parametrize("past", [False, True])
def test_attention(opset: int, outputs: int, past: bool) -> None:
    total = P + T if past else T
    for inputs, y in ((FOUR_AXES, (B, 4, S, 6)), (THREE_AXES, (B, S, 24))):
        infos = check(
            "Attention",
            [*inputs, *PAST] if past else inputs,
            HEADS if inputs is THREE_AXES else {},
            opset=opset,
            outputs=outputs,
            run=not past or outputs > 1,
            strict=outputs < 4,  # the onnx package says that the scores have no columns
            assignments=SIZES,
        )
        expected = [y, (B, 2, total, 8), (B, 2, total, 6), (B, 4, S, total)]
        assert [info.shape for info in infos] == expected[:outputs]


def test_attention_with_a_shorter_mask_and_with_lengths() -> None:
    q, k = tensor(2, 4, 3, 8), tensor(2, 4, 5, 8)
    mask, past = tensor(3, 9), tensor(2, 4, 4, 8)
    infos = check("Attention", [q, k, k, mask, past, past], opset=23, outputs=4, strict=False)
    assert infos[3].shape == (2, 4, 3, 9)
    lengths = Fed(np.array([2, 1], dtype=np.int64))
    known = check(
        "Attention", [*FOUR_AXES, None, None, None, lengths], opset=24, assignments=SIZES[:1]
    )
    assert known[0].shape == (B, 4, S, 6)


def test_packed_heads_of_symbolic_size() -> None:
    q, k = tensor("b", "s", "h"), tensor("b", "t", "h")
    heads, sizes = {"q_num_heads": 4, "kv_num_heads": 4}, [{"b": 2, "s": 3, "t": 5, "h": 8}]
    # The onnx package says that heads which it cannot count have no features.
    infos = check(
        "Attention", [q, k, k], heads, opset=23, outputs=3, strict=False, assignments=sizes
    )
    assert infos[0].shape == (B, S, named("h"))
    assert infos[1].shape == (B, 4, T, named("h") // 4)


def test_attention_with_gaps() -> None:
    assert infer("Attention", [UNKNOWN] * 3, num_outputs=4) == [Info()] * 4
    known = infer("Attention", [tensor("b", "s", 32), UNKNOWN, UNKNOWN], HEADS, opset=23)[0].shape
    assert known is not None
    assert known[:2] == (B, S)
    assert isinstance(known[2], SymbolicDim)
    without_heads = infer("Attention", [tensor("b", "s", 32)] * 3, opset=23, num_outputs=3)
    assert [info.rank for info in without_heads] == [3, 4, 4]


def test_rotary_embedding_and_tensor_scatter() -> None:
    cache = tensor(50, 4)
    inputs: list[Given] = [
        tensor("b", "s", 32),
        cache,
        cache,
        tensor("b", "s", dtype=TensorProto.INT64),
    ]
    assert check("RotaryEmbedding", inputs, {"num_heads": 4}, opset=23, assignments=SIZES)[
        0
    ].shape == (B, S, 32)
    inputs = [tensor("b", 4, 9, 8), tensor("b", 4, "s", 8), tensor("b", dtype=TensorProto.INT64)]
    assert check("TensorScatter", inputs, opset=24, assignments=SIZES)[0].shape == (B, 4, 9, 8)


def test_linear_attention() -> None:
    q, k, v, gate = (
        tensor("b", "s", 32),
        tensor("b", "s", 16),
        tensor("b", "s", 12),
        tensor("b", "s", 2),
    )
    for past in (tensor("b", 2, 8, 6), None):
        infos = check(
            "LinearAttention", [q, k, v, past, gate, gate], HEADS, opset=27, outputs=2, run=False
        )
        assert infos == [tensor("b", "s", 24), tensor("b", 2, 8, 6)]


def test_causal_convolution() -> None:
    x, weight = tensor("b", 4, "s"), random_array(TensorProto.FLOAT, (4, 1, 3))
    for past in (tensor("b", 4, 2), None):
        infos = check(
            "CausalConvWithState", [x, weight, None, past], opset=27, outputs=2, run=False
        )
        assert infos == [x, tensor("b", 4, 2)]
    assert infer("CausalConvWithState", [x, tensor(4, 1, "k")], opset=27, num_outputs=2)[
        1
    ].shape == (B, 4, named("k") - 1)
