import numpy as np
import pytest

from tests.proof.denotations.checking import check
from tests.support import parse
from xoptim.proof.proving import prove_models

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(
    "settings",
    ["", "<is_causal = 1>", "<scale = 0.25>", "<softcap = 2.0>", "<softcap = 0.5, is_causal = 1>"],
)
@pytest.mark.parametrize("heads", [1, 2])
def test_attention_of_four_axes(settings: str, heads: int) -> None:
    check(
        f"(float[1,2,2,2] q, float[1,{heads},3,2] k, float[1,{heads},3,1] v) "
        f"=> (float[A,B,C,D] y) {{ y = Attention {settings} (q, k, v) }}",
        23,
        exact=False,
    )


@pytest.mark.parametrize(
    ("operator", "is_default"),
    [
        ("Attention <q_num_heads = 1, kv_num_heads = 1", False),
        ("com.microsoft.MultiHeadAttention <num_heads = 1", True),
    ],
)
def test_a_scale_of_zero(operator: str, is_default: bool) -> None:
    """It is the default of ONNX Runtime's operators, and 0 in the standard."""
    default, zero = (
        parse(
            "agraph (float[b,s,2] q, float[b,t,2] k, float[b,t,2] v) => (float[b,s,2] y) "
            f"{{ y = {operator}{scale}> (q, k, v) }}",
            23,
            domains={"com.microsoft": 1},
        )
        for scale in ("", ", scale = 0.0")
    )
    assert prove_models(default, zero).is_proved == is_default
    assert prove_models(zero, zero).is_proved


@pytest.mark.parametrize("operands", ["(q, k, v)", "(q, k, v, m)", "(q, k, v, , e, f)"])
def test_attention_of_three_axes(operands: str) -> None:
    outputs = "y, i, j" if "e" in operands else "y"
    more = ", float[E,F,G,H] i, float[J,K,L,M] j" if "e" in operands else ""
    check(
        "(float[1,2,4] q, float[1,2,2] k, float[1,2,2] v, float[2,2] m, float[1,1,1,2] e, "
        f"float[1,1,1,2] f) => (float[A,B,C] y{more}) {{ "
        f"{outputs} = Attention <q_num_heads = 2, kv_num_heads = 1> {operands} }}",
        23,
        exact=False,
    )


def test_attention_with_a_mask_of_truth_values() -> None:
    check(
        "(float[1,1,2,2] q, float[1,1,3,2] k, float[1,1,3,1] v, bool[2,3] m) "
        "=> (float[A,B,C,D] y) { y = Attention(q, k, v, m) }",
        23,
        exact=False,
        feeds={"m": np.array([[True, False, True], [False, False, True]])},
    )


@pytest.mark.parametrize(
    ("operands", "settings"),
    [
        ("(q, k, v)", ""),
        ("(q, k, v)", ", scale = 0.25"),
        ("(q, k, v, b)", ""),
        ("(q, k, v, , p)", ", mask_filter_value = -3.0"),
        ("(q, k, v, , , m)", ""),
        ("(q, k, v)", ", unidirectional = 1"),
        ("(q, k, v, , , , e, f)", ""),
        ("(q, k, v, , , , e, f)", ", unidirectional = 1"),
    ],
)
def test_multi_head_attention(operands: str, settings: str) -> None:
    outputs = "y, i, j" if "e" in operands else "y"
    more = ", float[E,F,G,H] i, float[J,K,L,M] j" if "e" in operands else ""
    check(
        "(float[1,2,2] q, float[1,2,2] k, float[1,2,2] v, float[6] b, int32[1,2] p, "
        f"float[1,2,2,2] m, float[1,2,1,1] e, float[1,2,1,1] f) => (float[A,B,C] y{more}) {{ "
        f"{outputs} = com.microsoft.MultiHeadAttention <num_heads = 2{settings}> {operands} }}",
        exact=False,
        feeds={"p": np.array([[1, 0]], np.int32)},
    )


@pytest.mark.parametrize(
    ("operands", "settings"),
    [
        ("(x, w, b)", ""),
        ("(x, w, b)", ", scale = 0.25"),
        ("(x, w, b, p)", ", mask_filter_value = -3.0"),
        ("(x, w, b)", ", unidirectional = 1"),
        ("(x, w, b, , , m)", ""),
        ("(x, w, b)", ", qkv_hidden_sizes = [2, 2, 2]"),
    ],
)
def test_attention_of_onnxruntime(operands: str, settings: str) -> None:
    check(
        "(float[1,2,2] x, float[2,6] w, float[6] b, int32[1,2] p, float[1,2,2,2] m) "
        "=> (float[A,B,C] y) { "
        f"y = com.microsoft.Attention <num_heads = 2{settings}> {operands} }}",
        exact=False,
        feeds={"p": np.array([[1, 0]], np.int32)},
    )


@pytest.mark.parametrize(
    "settings", ["", ", scale = 0.25", ", softcap = 2.0", ", smooth_softmax = 1"]
)
@pytest.mark.parametrize("is_packed", [False, True])
def test_grouped_attention(settings: str, *, is_packed: bool) -> None:
    operands = "(p, , , , , n, t)" if is_packed else "(q, k, v, , , n, t)"
    check(
        "(float[1,2,16] q, float[1,2,8] k, float[1,2,8] v, float[1,2,32] p, int32[1] n) "
        "=> (float[A,B,C] y) <int32 t = {2}> { y = com.microsoft.GroupQueryAttention "
        f"<num_heads = 2, kv_num_heads = 1{settings}> {operands} }}",
        exact=False,
        feeds={"n": np.array([1], np.int32)},
    )


@pytest.mark.parametrize("settings", ["", ", local_window_size = 2"])
def test_grouped_attention_with_a_cache(settings: str) -> None:
    check(
        "(float[1,1,16] q, float[1,1,8] k, float[1,1,8] v, float[1,1,3,8] e, float[1,1,3,8] f) "
        "=> (float[A,B,C] y, float[E,F,G,H] i, float[I,J,K,L] j) "
        "<int32 t = {4}, int32[1] n = {3}> { y, i, j = com.microsoft.GroupQueryAttention "
        f"<num_heads = 2, kv_num_heads = 1{settings}> (q, k, v, e, f, n, t) }}",
        exact=False,
    )


def test_grouped_attention_with_sinks() -> None:
    check(
        "(float[1,2,16] q, float[1,2,8] k, float[1,2,8] v, float[2] h) "
        "=> (float[A,B,C] y) <int32 t = {2}, int32[1] n = {1}> { "
        "y = com.microsoft.GroupQueryAttention <num_heads = 2, kv_num_heads = 1> "
        "(q, k, v, , , n, t, , , , , h) }",
        exact=False,
    )


def test_softmax_of_masked_numbers() -> None:
    check(
        "(float[2,3] x, bool[2,3] c) => (float[A,B] y) <float low = {-inf}, "
        "float[3] b = {1, 2, 3}> { m = Where(c, x, low) s = Add(m, b) y = Softmax(s) }",
        exact=False,
        feeds={"c": np.array([[True, False, True], [False, False, True]])},
    )
