"""Attention operators of onnxruntime's own domain."""

from typing import Any

import numpy as np
import pytest
from onnx import TensorProto

from tests.operators.inference.contrib import check_contrib, infer_contrib
from tests.operators.inference.oracle import Fed, Given, random_array, scalar, tensor
from xoptim.facts.dims import SymbolicDim, dim_max, is_anonymous, named
from xoptim.facts.shapes import UNKNOWN, Info

SIZES = ({"b": 2, "s": 3, "t": 5, "p": 4}, {"b": 1, "s": 1, "t": 3, "p": 2})
B, S, T, P = (named(name) for name in "bstp")
U8, I32 = TensorProto.UINT8, TensorProto.INT32
Z, SCALE = np.array(3, dtype=np.uint8), np.array(0.1, dtype=np.float32)
HEADS = {"num_heads": 4}
GROUPED = {"num_heads": 4, "kv_num_heads": 2}


def floats(*shape: int) -> np.ndarray:
    return random_array(TensorProto.FLOAT, shape)


def lengths(value: int, batch: int) -> Fed:
    return Fed(np.full(batch, value, dtype=np.int32))


def number(value: int) -> np.ndarray:
    return np.array(value, dtype=np.int32)


def shapes(infos: list[Info]) -> list[Any]:
    return [info.shape for info in infos]


def test_merged_attention() -> None:
    x, w, bias = tensor("b", "s", 8), floats(8, 48), floats(48)
    infos = check_contrib("Attention", [x, w, bias], HEADS, outputs=2, assignments=SIZES)
    assert shapes(infos) == [(B, S, 16), (2, B, 4, S, 4)]
    past = tensor(2, "b", 4, "p", 4)
    infos = check_contrib(
        "Attention", [x, w, bias, None, past], HEADS, outputs=2, assignments=SIZES
    )
    assert shapes(infos) == [(B, S, 16), (2, B, 4, P + S, 4)]
    sizes = {**HEADS, "qkv_hidden_sizes": [16, 16, 8]}
    assert shapes(
        check_contrib("Attention", [x, floats(8, 40), floats(40)], sizes, assignments=SIZES)
    ) == [(B, S, 8)]
    operands: list[Given] = [x, floats(8, 64), floats(64)]
    wide = {**HEADS, "qkv_hidden_sizes": [16, 16, 32]}
    _, cache = check_contrib(
        "Attention", operands, wide, outputs=2, assignments=SIZES, complete=False
    )
    assert cache.shape is not None
    assert cache.shape[:4] == (2, B, 4, S)
    assert is_anonymous(cache.shape[4]), "keys have another size than values"
    shared = {**HEADS, "past_present_share_buffer": 1}
    assert infer_contrib("Attention", [x, w, bias, None, past], shared, 2)[1] == past
    assert (
        infer_contrib("DecoderMaskedSelfAttention", [x, w, bias, None, past], shared, 2)[1] == past
    )


def test_quantized_attention() -> None:
    x = tensor("b", "s", 8, dtype=U8)
    operands: list[Given] = [x, random_array(U8, (8, 48)), floats(48), SCALE, SCALE, None, Z, Z]
    infos = check_contrib("QAttention", operands, HEADS, outputs=2, assignments=SIZES)
    assert shapes(infos) == [(B, S, 16), (2, B, 4, S, 4)]
    past = tensor(2, "b", 4, "p", 4)
    infos = check_contrib(
        "QAttention",
        [*operands, past],
        {**HEADS, "unidirectional": 1},
        outputs=2,
        assignments=SIZES,
    )
    assert infos[1].shape == (2, B, 4, P + S, 4)


MULTI_HEAD: list[tuple[list[Given], list[Any]]] = [
    (
        [tensor("b", "s", 16), tensor("b", "t", 16), tensor("b", "t", 24)],
        [(B, S, 24), (B, 4, T, 4), (B, 4, T, 6), (B, 4, S, T)],
    ),
    (
        [tensor("b", "s", 16), tensor("b", 4, "t", 4), tensor("b", 4, "t", 4)],
        [(B, S, 16), (B, 4, T, 4), (B, 4, T, 4), (B, 4, S, T)],
    ),
    (
        [*[tensor("b", "s", 16)] * 3, None, None, None, *[tensor("b", 4, "p", 4)] * 2],
        [(B, S, 16), (B, 4, P + S, 4), (B, 4, P + S, 4), (B, 4, S, P + S)],
    ),
]
PACKED: list[tuple[list[Given], list[Any]]] = [
    ([tensor("b", "s", 4, 3, 8)], [(B, S, 32), (B, 4, S, 8), (B, 4, S, 8), (B, 4, S, S)]),
    (
        [tensor("b", "s", 32), tensor("b", "t", 4, 2, 8)],
        [(B, S, 32), (B, 4, T, 8), (B, 4, T, 8), (B, 4, S, T)],
    ),
]


@pytest.mark.parametrize(("inputs", "expected"), MULTI_HEAD)
@pytest.mark.parametrize("outputs", [1, 3, 4])
def test_multi_head_attention(inputs: list[Given], expected: list[Any], outputs: int) -> None:
    infos = check_contrib("MultiHeadAttention", inputs, HEADS, outputs=outputs, assignments=SIZES)
    assert shapes(infos) == expected[:outputs]


@pytest.mark.parametrize(("inputs", "expected"), PACKED)
def test_packed_multi_head_attention(inputs: list[Given], expected: list[Any]) -> None:
    assert shapes(infer_contrib("MultiHeadAttention", inputs, HEADS, 4)) == expected


def test_multi_head_attention_with_a_shared_buffer() -> None:
    past = tensor("b", 4, "p", 4)
    inputs: list[Given] = [*[tensor("b", 1, 16)] * 3, None, None, None, past, past, number(2)]
    assert shapes(infer_contrib("MultiHeadAttention", inputs, HEADS, 3)) == [
        (B, 1, 16),
        past.shape,
        past.shape,
    ]
    masked = infer_contrib("DecoderMaskedMultiHeadAttention", inputs[:3], HEADS, 3)
    assert masked[0].shape == (B, 1, 16)
    assert masked[1] == UNKNOWN


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("outputs", [1, 3])
def test_grouped_attention_of_a_prompt(packed: bool, outputs: int) -> None:
    keys = tensor("b", "s", 16)
    query: list[Given] = (
        [tensor("b", "s", 64), None, None] if packed else [tensor("b", "s", 32), keys, keys]
    )
    inputs: list[Given] = [*query, None, None, lengths(2, 2), number(3)]
    infos = check_contrib(
        "GroupQueryAttention", inputs, GROUPED, outputs=outputs, assignments=SIZES[:1]
    )
    assert shapes(infos) == [(B, S, 32), (B, 2, 3, 8), (B, 2, 3, 8)][:outputs]


def test_grouped_attention_with_a_past() -> None:
    keys, past = tensor("b", "s", 16), tensor("b", 2, "p", 8)
    query: list[Given] = [tensor("b", "s", 32), keys, keys, past, past, lengths(4, 2)]
    sizes = [{"b": 2, "s": 1, "p": p, "t": 5} for p in (4, 9)]
    attributes = {**GROUPED, "qk_output": 1}
    present = (B, 2, dim_max(5, P), 8)
    infos = check_contrib(
        "GroupQueryAttention", [*query, number(5)], attributes, outputs=4, assignments=sizes
    )
    assert shapes(infos) == [(B, S, 32), present, present, (B, 4, S, 5)]
    infos = check_contrib(
        "GroupQueryAttention", [*query, scalar("t", I32)], GROUPED, outputs=3, assignments=sizes
    )
    assert infos[1].shape == (B, 2, dim_max(T, P), 8)
    later: list[Given] = [*query, Fed(number(5))]
    infos = check_contrib(
        "GroupQueryAttention", later, GROUPED, outputs=3, assignments=sizes, complete=False
    )
    assert isinstance((infos[1].shape or ())[2], SymbolicDim)
    windowed = infer_contrib(
        "GroupQueryAttention", later, {**GROUPED, "sliding_window_cache": 1}, 3
    )
    assert windowed[1:] == [past, past]


def test_grouped_attention_with_a_quantized_cache() -> None:
    cache = tensor("b", 2, "p", 4, dtype=U8)
    keys = tensor("b", "s", 16)
    inputs: list[Given] = [
        tensor("b", "s", 32),
        keys,
        keys,
        cache,
        cache,
        UNKNOWN,
        scalar("t", I32),
    ]
    infos = infer_contrib("GroupQueryAttention", inputs, GROUPED, 3)
    assert infos[1] == Info(U8, (B, 2, dim_max(T, P), 4))


def test_linear_attention() -> None:
    heads = {"q_num_heads": 4, "kv_num_heads": 2}
    q, k, v, gate = (
        tensor("b", "s", 32),
        tensor("b", "s", 16),
        tensor("b", "s", 12),
        tensor("b", "s", 2),
    )
    state = tensor("b", 2, 8, 6)
    infos = check_contrib(
        "LinearAttention", [q, k, v, state, gate, gate], heads, outputs=2, assignments=SIZES
    )
    assert infos == [tensor("b", "s", 24), state]
    more = {"q_num_heads": 2, "kv_num_heads": 4}
    inputs: list[Given] = [
        k,
        q,
        tensor("b", "s", 24),
        tensor("b", 4, 8, 6),
        *[tensor("b", "s", 4)] * 2,
    ]
    assert check_contrib("LinearAttention", inputs, more, outputs=2, assignments=SIZES)[
        0
    ].shape == (B, S, 24)
    inputs[1] = k  # as many keys as queries
    assert check_contrib("LinearAttention", inputs, more, outputs=2, assignments=SIZES) == [
        tensor("b", "s", 24),
        inputs[3],
    ]
    windows = tensor(3, "b", 2, 8, 6)
    windowed = infer_contrib(
        "LinearAttention", [q, k, v, windows, gate, gate], {**heads, "state_window": 3}, 2
    )
    assert windowed[1] == windows


def test_causal_convolution() -> None:
    x, w = tensor("b", 4, "s"), floats(4, 1, 3)
    for attributes, state in (({}, 2), ({"dilation": 2}, 4), ({"activation": "silu"}, 2)):
        infos = check_contrib(
            "CausalConvWithState", [x, w], attributes, outputs=2, assignments=SIZES
        )
        assert infos == [x, tensor("b", 4, state)]
    past = tensor("b", 4, 2)
    assert check_contrib(
        "CausalConvWithState", [x, w, floats(4), past], outputs=2, assignments=SIZES
    ) == [x, past]
    last = tensor("b", "s", 4)
    infos = check_contrib(
        "CausalConvWithState",
        [last, w],
        {"channels_last": 1},
        outputs=2,
        assignments=SIZES,
        complete=False,
    )
    assert infos[0] == last
    assert infer_contrib("CausalConvWithState", [x, w], {"state_window": 2}, 2)[1] == tensor(
        2, "b", 4, 2
    )


def test_gaps() -> None:
    """The inputs are unknown; the rank of a result is known where the operator fixes it."""
    for op_type, ranks in (
        ("Attention", [3, 5]),
        ("MultiHeadAttention", [3, 4, 4, 4]),
        ("GroupQueryAttention", [3, 4, 4, 4]),
    ):
        assert [
            info.rank for info in infer_contrib(op_type, [UNKNOWN] * 9, HEADS, len(ranks))
        ] == ranks
