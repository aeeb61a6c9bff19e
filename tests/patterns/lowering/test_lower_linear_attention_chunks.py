"""LinearAttention of several tokens, compared with onnxruntime's kernel."""

import numpy as np
import onnx
import pytest
from onnxruntime import InferenceSession

import xoptim
from xoptim.patterns.lowering.lower_linear_attention_chunks import LowerLinearAttentionChunksPattern

HEADS, KEY, VALUE = 4, 8, 6
RULES = ("linear", "gated", "delta", "gated_delta")


def attention(rule: str, shared: int = HEADS, decays: int = HEADS) -> onnx.ModelProto:
    """One LinearAttention whose queries and keys have ``shared`` heads."""
    decay, rate = "gated" in rule, "delta" in rule
    operands = ["q", "k", "v", "p", "g" if decay else "", "z" if rate else ""]
    inputs = f"float[b,t,{shared * KEY}] q, float[b,t,{shared * KEY}] k, float[b,t,24] v"
    inputs += f", float[b,4,{KEY},{VALUE}] p"
    inputs += f", float[b,t,{decays}] g" * decay + ", float[b,t,4] z" * rate
    return onnx.parser.parse_model(
        '<ir_version: 10, opset_import: ["": 20, "com.microsoft": 1]> '
        f"agraph ({inputs}) => (float[b,t,24] y, float[b,4,{KEY},{VALUE}] s) {{ "
        f"y, s = com.microsoft.LinearAttention <q_num_heads = {shared}, kv_num_heads = 4, "
        f'update_rule = "{rule}"> ({", ".join(operands).rstrip(", ")}) }}'
    )


def feeds(rule: str, tokens: int, shared: int, *, are_equal: bool) -> dict[str, np.ndarray]:
    """Keys of length 1, all of them different or equal, and rates below 1, or equal to it."""
    rng = np.random.default_rng(tokens)
    q, k = rng.standard_normal((2, 2, tokens, shared, KEY)).astype(np.float32)
    k = k[:, :1].repeat(tokens, 1) if are_equal else k
    k /= np.linalg.norm(k, axis=-1, keepdims=True)
    values = {
        "q": q.reshape(2, tokens, -1),
        "k": k.reshape(2, tokens, -1),
        "v": rng.standard_normal((2, tokens, 24)).astype(np.float32),
        "p": rng.standard_normal((2, 4, KEY, VALUE)).astype(np.float32),
    }
    if "gated" in rule:
        values["g"] = -rng.random((2, tokens, 4), dtype=np.float32)
    if "delta" in rule:
        rates = rng.random((2, tokens, 4), dtype=np.float32)
        values["z"] = np.ones_like(rates) if are_equal else rates
    return values


@pytest.mark.parametrize("are_equal", [False, True], ids=["other_keys", "equal_keys"])
@pytest.mark.parametrize("shared", [2, HEADS])
@pytest.mark.parametrize("rule", RULES)
def test_chunks_compute_what_the_kernel_does(rule: str, shared: int, *, are_equal: bool) -> None:
    """Equal keys make a product of powers of the matrix cancel all digits."""
    model = attention(rule, shared)
    lowered = xoptim.optimize(model, patterns=[LowerLinearAttentionChunksPattern])
    assert "LinearAttention" not in {node.op_type for node in lowered.graph.node}
    kernel, chunks = (
        InferenceSession(each.SerializeToString(), providers=["CPUExecutionProvider"])
        for each in (model, lowered)
    )
    for tokens in (1, 2, 31, 32, 33, 100):
        values = feeds(rule, tokens, shared, are_equal=are_equal)
        for expected, result in zip(
            kernel.run(None, values), chunks.run(None, values), strict=True
        ):
            np.testing.assert_allclose(result, expected, rtol=0, atol=5e-6 * np.abs(expected).max())


@pytest.mark.parametrize("decay", [-1e4, -1e9, -3e38, -np.inf])
def test_a_token_at_which_the_state_begins_anew(decay: float) -> None:
    """Sums of its logarithm and others would lose the others."""
    model = attention("gated_delta")
    lowered = xoptim.optimize(model, patterns=[LowerLinearAttentionChunksPattern])
    values = feeds("gated_delta", 40, HEADS, are_equal=False)
    values["g"][:, 3::7] = decay
    kernel, chunks = (
        InferenceSession(each.SerializeToString(), providers=["CPUExecutionProvider"])
        for each in (model, lowered)
    )
    for expected, result in zip(kernel.run(None, values), chunks.run(None, values), strict=True):
        np.testing.assert_allclose(result, expected, rtol=0, atol=5e-5 * np.abs(expected).max())


def test_a_state_without_keys_stays() -> None:
    model = onnx.parser.parse_model(
        '<ir_version: 10, opset_import: ["": 20, "com.microsoft": 1]> '
        "agraph (float[b,t,0] q, float[b,t,0] k, float[b,t,24] v, float[b,4,0,6] p) "
        "=> (float[b,t,24] y, float[b,4,0,6] s) { y, s = com.microsoft.LinearAttention "
        '<q_num_heads = 4, kv_num_heads = 4, update_rule = "linear"> (q, k, v, p) }'
    )
    kept = xoptim.optimize(model, patterns=[LowerLinearAttentionChunksPattern], strict=True)
    assert [node.op_type for node in kept.graph.node] == ["LinearAttention"]


def test_a_decay_by_key_stays() -> None:
    model = attention("gated", decays=HEADS * KEY)
    kept = xoptim.optimize(model, patterns=[LowerLinearAttentionChunksPattern])
    assert [node.op_type for node in kept.graph.node] == ["LinearAttention"]
