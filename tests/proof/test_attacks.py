"""Pairs that differ, each of which the prover once took for equal."""

import numpy as np
import onnx
import pytest
from onnx import helper

from tests.support import parse
from xoptim.proof.proving import prove_models

_BODY = (
    "<body = b (int64 i, bool cc, float p, float q) => (bool co, float po, float qo) "
    "{ co = Identity(cc) po = Add(p, a) qo = Identity(q) }>"
)
_PACKED = f"uint8[1,2,8] {{{', '.join(['83'] * 16)}}}"
"""The 4-bit weights of a MatMulNBits with two blocks of 16."""
_TWO_PACKED = f"uint8[2,2,8] {{{', '.join(['83'] * 32)}}}"
"""The same for two columns."""
_WEIGHTS = f"uint8[32,2] {{{', '.join(['3'] * 64)}}}"
DIFFERENT = (
    (
        "a sum within an index, along another axis",
        "(int64[K] x, int64[N,N] a) => (int64[B] y)",
        "c = Constant <value_ints = [0]> () i = ReduceSum <keepdims = 0> (a, c) "
        "g = Gather(x, i) y = ReduceSum(g)",
        "c = Constant <value_ints = [1]> () i = ReduceSum <keepdims = 0> (a, c) "
        "g = Gather(x, i) y = ReduceSum(g)",
        18,
    ),
    (
        "a body that captures what is an operand, too",
        "(float x, float z) => (float y, float w) <int64 m = {3}, bool c = {1}>",
        f"a = Identity(x) b = Identity(z) y, w = Loop {_BODY} (m, c, a, b)",
        f"a = Identity(z) b = Identity(x) y, w = Loop {_BODY} (m, c, b, a)",
        18,
    ),
    (
        "integers that are sizes of another case",
        "(float[N] x, float[4] z, float[8] t) => (float[A] p, float[B] y)",
        "p = Add(x, z) s = Shape(x) c = Constant <value_ints = [0]> () "
        "i = Concat <axis = 0> (s, c) y = Gather(t, i)",
        "p = Add(x, z) s = Shape(z) c = Constant <value_ints = [0]> () "
        "i = Concat <axis = 0> (s, c) y = Gather(t, i)",
        18,
    ),
    (
        "the direction in which a Cast to float8 scales is rounded",
        "(float[N] x) => (float[N] y)",
        'a = Cast <to = 24, round_mode = "up"> (x) y = Cast <to = 1> (a)',
        'a = Cast <to = 24, round_mode = "down"> (x) y = Cast <to = 1> (a)',
        24,
    ),
    (
        "an index that is out of range for a size of 1",
        "(float[N] x) => (float[A] y)",
        "s = Constant <value_ints = [2]> () y = Expand(x, s)",
        "i = Constant <value_ints = [0, 1]> () y = Gather(x, i)",
        18,
    ),
    (
        "a division by 0 that only the result has",
        "(int64[1] x) => (int64[1] y)",
        "y = Constant <value_ints = [1]> ()",
        "y = Div(x, x)",
        18,
    ),
    (
        "numbers of factors",
        "(float[1] x) => (float[1] y)",
        "s = Constant <value_ints = [4000000]> () e = Expand(x, s) y = ReduceProd(e)",
        "s = Constant <value_ints = [4000001]> () e = Expand(x, s) y = ReduceProd(e)",
        18,
    ),
    (
        "an end that a Slice backward does not reach",
        "(float[N] x) => (float[A] y) <int64[1] s = {0}, int64[1] e = {3}, "
        "int64[1] f = {9223372036854775807}, int64[1] a = {0}, int64[1] m = {-1}>",
        "y = Slice(x, s, e, a, m)",
        "y = Slice(x, s, f, a, m)",
        18,
    ),
    (
        "constants of 32 bits next to one of 16 bits",
        "(float[N] x, float16[N] z) => (float[N] y, float16[N] w) <float16[1] h = {2}, "
        "float[1] c = {1}, float[1] d = {1.0009}>",
        "w = Mul(z, h) y = Mul(x, c)",
        "w = Mul(z, h) y = Mul(x, d)",
        18,
    ),
    (
        "an Einsum that repeats an axis of size 1",
        "(float[N,K] x, float[L,M] w) => (float[A,B] y)",
        'y = Einsum <equation = "ij,jk->ik"> (x, w)',
        "y = MatMul(x, w)",
        18,
    ),
    (
        "a comparison of two types",
        "(int32[N] x, int64[N] z) => (bool[N] y)",
        "a = Cast <to = 7> (x) y = Less(a, z)",
        "y = Less(x, z)",
        18,
    ),
    (
        "lengths of one sequence",
        "(float[b,1,16] q, float[b,1,8] k, float[b,1,5,8] e) => (float[b,1,16] y, "
        "float[b,1,6,8] i, float[b,1,6,8] j)",
        "y, i, j = Attention <q_num_heads = 2, kv_num_heads = 1> (q, k, k, , e, e)",
        "t = Constant <value = int32[1] {6}> () n = Constant <value = int32[1] {5}> () "
        "y, i, j = com.microsoft.GroupQueryAttention <num_heads = 2, kv_num_heads = 1> "
        "(q, k, k, e, e, n, t)",
        23,
    ),
    (
        "a bias of the scores that does not broadcast",
        "(float[b,2,16] q, float[c,1,2,2] m) => (float[A,B,C] y)",
        "y = com.microsoft.MultiHeadAttention <num_heads = 2> (q, q, q)",
        "z = Sub(m, m) y = com.microsoft.MultiHeadAttention <num_heads = 2> (q, q, q, , , z)",
        18,
    ),
    (
        "a switch of ONNX Runtime that is neither on nor off",
        "(float[b,2,16] q) => (float[A,B,C] y)",
        "y = com.microsoft.MultiHeadAttention <num_heads = 2> (q, q, q)",
        "y = com.microsoft.MultiHeadAttention <num_heads = 2, unidirectional = 2> (q, q, q)",
        18,
    ),
    (
        "a switch of an operator with a function body that is neither on nor off",
        "(float[b,3,s,4] x, float[b,s,2] f, float[b,s,2] g) => (float[A,B,C,D] y)",
        "y = RotaryEmbedding <interleaved = 1> (x, f, g)",
        "y = RotaryEmbedding <interleaved = 2> (x, f, g)",
        23,
    ),
    (
        "a scale of size 1",
        "(float[N,4] x, float[K] s) => (float[A,B] y) <int64[1] t = {4}>",
        "y = LayerNormalization(x, s)",
        "r = Reshape(s, t) y = LayerNormalization(x, r)",
        18,
    ),
    (
        "too few scales of blocks",
        "(int8[4] x) => (float[4] y) <float[2] s = {0.5, 0.5}, float[1] t = {0.5}>",
        "y = DequantizeLinear <axis = 0, block_size = 2> (x, s)",
        "y = DequantizeLinear <axis = 0, block_size = 2> (x, t)",
        21,
    ),
    (
        "too few scales of packed blocks",
        "(float[m,32] x) => (float[m,1] y) <float[2] s = {0.5, 0.5}, float[1] t = {0.5}>",
        f"b = Constant <value = {_PACKED}> () "
        "y = com.microsoft.MatMulNBits <K = 32, N = 1, block_size = 16> (x, b, s)",
        f"b = Constant <value = {_PACKED}> () "
        "y = com.microsoft.MatMulNBits <K = 32, N = 1, block_size = 16> (x, b, t)",
        18,
    ),
    (
        "a bias of one element for all features",
        "(float[N,4] x) => (float[N,4] y) <float[4] b = {0.5, 0.5, 0.5, 0.5}, float[1] c = {0.5}>",
        "y = com.microsoft.BiasGelu(x, b)",
        "y = com.microsoft.BiasGelu(x, c)",
        18,
    ),
    (
        "a bias of one element for all columns of quantized weights",
        "(float[m,32] x) => (float[m,2] y) <float[2] b = {0.5, 0.5}, float[1] c = {0.5}, "
        "float s = {0.5}>",
        f"w = Constant <value = {_WEIGHTS}> () "
        "y = com.microsoft.DynamicQuantizeMatMul(x, w, s, , b)",
        f"w = Constant <value = {_WEIGHTS}> () "
        "y = com.microsoft.DynamicQuantizeMatMul(x, w, s, , c)",
        18,
    ),
    (
        "a bias of one element for all columns of packed weights",
        "(float[m,32] x) => (float[m,2] y) <float[4] s = {1, 1, 1, 1}, float[2] b = {0.5, 0.5}, "
        "float[1] c = {0.5}>",
        f"w = Constant <value = {_TWO_PACKED}> () "
        "y = com.microsoft.MatMulNBits <K = 32, N = 2, block_size = 16> (x, w, s, , , b)",
        f"w = Constant <value = {_TWO_PACKED}> () "
        "y = com.microsoft.MatMulNBits <K = 32, N = 2, block_size = 16> (x, w, s, , , c)",
        18,
    ),
    (
        "a bias of one element for all channels",
        "(float[n,2,4] x, float[2,3,2] w) => (float[n,3,5] y) <float[3] b = {0.5, 0.5, 0.5}, "
        "float[1] c = {0.5}>",
        "y = ConvTranspose(x, w, b)",
        "y = ConvTranspose(x, w, c)",
        18,
    ),
    (
        "a skip that broadcasts along the sequence",
        "(float[N,S,4] x, float[N,1,4] k) => (float[A,B,C] y) <float[4] g = {1, 2, 3, 4}>",
        "a = Add(x, k) y = LayerNormalization(a, g)",
        "y = com.microsoft.SkipLayerNormalization <epsilon = 0.00001> (x, k, g)",
        18,
    ),
    (
        "a skip of one row",
        "(float[N,S,4] x, float[4] k) => (float[A,B,C] y) <float[4] g = {1, 2, 3, 4}>",
        "a = Add(x, k) y = LayerNormalization(a, g)",
        "y = com.microsoft.SkipLayerNormalization <epsilon = 0.00001> (x, k, g)",
        18,
    ),
    (
        "a scale that is a vector of one element",
        "(float[N,4] x) => (float[N,4] y) <float s = {0.5}, float[1] t = {0.5}>",
        "y = com.microsoft.ScaledSiLU(x, s)",
        "y = com.microsoft.ScaledSiLU(x, t)",
        18,
    ),
    (
        "a bias of rank 2",
        "(float[N,4] x) => (float[N,4] y) <float[4] b = {1, 2, 3, 4}, float[1,4] c = {1, 2, 3, 4}>",
        "y = com.microsoft.FastGelu(x, b)",
        "y = com.microsoft.FastGelu(x, c)",
        18,
    ),
)


@pytest.mark.parametrize(("name", "signature", "before", "after", "opset"), DIFFERENT)
def test_none_is_proved(name: str, signature: str, before: str, after: str, opset: int) -> None:
    sides = [
        parse(f"g {signature} {{ {nodes} }}", opset, domains={"com.microsoft": 1})
        for nodes in (before, after)
    ]
    assert prove_models(sides[0], sides[0]).is_proved, f"{name}: each is equal to itself"
    assert not prove_models(sides[0], sides[1]).is_proved, name


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("ij,kk->", "ij,ik->"),
        ("ij,kk->", "ij,ki->"),
        ("ij,ikk->", "ij,ijk->"),
        ("ij,ikk->", "ij,ikj->"),
        ("ij,kkj->", "ij,kij->"),
        ("ij,kik->", "ij,kij->"),
        ("ij,jk,kl->", "ij,kj,kl->"),
    ],
)
def test_sums_of_a_constant_along_other_axes(before: str, after: str) -> None:
    """The indices of its coefficients are no others than those of the sum."""
    weights = before.removesuffix("->").split(",")[1:]
    names = "wv"[: len(weights)]
    numbers = ", ".join(
        f"float[{','.join('4' * len(text))}] {name} = "
        f"{{{', '.join(str((7 * n + 3) % 11) for n in range(4 ** len(text)))}}}"
        for name, text in zip(names, weights, strict=True)
    )
    signature = f"(float[4,4] x) => (float y) <{numbers}>"
    sides = [
        parse(f'g {signature} {{ y = Einsum <equation = "{text}"> (x, {", ".join(names)}) }}', 18)
        for text in (before, after)
    ]
    assert not prove_models(sides[0], sides[1]).is_proved


@pytest.mark.parametrize(
    ("before", "after", "opset"),
    [
        ("y = Clip <min = 0.0> (x)", "y = Clip <min = -0.0> (x)", 6),
        ("y = LeakyRelu <alpha = 0.0> (x)", "y = LeakyRelu <alpha = -0.0> (x)", 18),
    ],
)
def test_the_sign_of_a_zero_in_an_attribute(before: str, after: str, opset: int) -> None:
    signature = "(float[N] x) => (float[N] y)"
    sides = [parse(f"g {signature} {{ {node} }}", opset) for node in (before, after)]
    assert prove_models(sides[0], sides[1]).grade != "same bits"


def test_the_sign_of_a_zero_of_16_bits() -> None:
    signature = "(float[2] x) => (float[2] y)"
    sides = [
        parse(
            f"g {signature} <bfloat16[2] c = {{{numbers}}}> "
            "{ d = Cast <to = 1> (c) y = Mul(x, d) }",
            18,
        )
        for numbers in ("0, 32768", "0, 0")  # the bits
    ]
    assert prove_models(sides[0], sides[1]).grade != "same bits"


def test_inputs_of_other_shapes() -> None:
    gather = "i = Constant <value_int = 0> () y = Gather(x, i)"
    first = parse(f"g (float[N] x) => (float y) {{ {gather} }}")
    second = parse("g (float[1] x) => (float y) { y = ReduceSum <keepdims = 0> (x) }")
    assert not prove_models(first, second).is_proved


@pytest.mark.parametrize("name", ["x:0", "x[0]", "~x:0", "@o1", "#n1", "N"])
def test_sizes_of_other_inputs(name: str) -> None:
    """A size without a name is no size that happens to have the name that proofs give to it."""

    def side(node: str, operand: str, dtype: int) -> onnx.ModelProto:
        inputs = [
            helper.make_tensor_value_info("x", dtype, [None] if dtype == 1 else [1]),
            helper.make_tensor_value_info("z", 1, [name]),
        ]
        output = helper.make_tensor_value_info("y", 7, [1])
        graph = helper.make_graph([helper.make_node(node, [operand], ["y"])], "g", inputs, [output])
        imports = [helper.make_opsetid("", 18)]
        return helper.make_model(graph, opset_imports=imports, ir_version=10)

    assert not prove_models(side("Shape", "x", 1), side("Shape", "z", 1)).is_proved
    assert not prove_models(side("Identity", "x", 7), side("Shape", "z", 7)).is_proved


def test_constants_that_differ_in_one_place() -> None:
    """Equal samples of two arrays do not make them equal."""
    numbers = np.full(1000, 1.5, np.float32)
    sides = []
    for place in (777, 778):
        model = parse("g (float[N,1000] x, float[1000] c) => (float[N,1000] y) { y = Add(x, c) }")
        array = numbers.copy()
        array[place] = 1.25
        model.graph.initializer.append(onnx.numpy_helper.from_array(array, "c"))
        del model.graph.input[1]
        sides.append(model)
    assert prove_models(sides[0], sides[0]).is_proved
    assert not prove_models(sides[0], sides[1]).is_proved


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("p = Mul(x, z) y = ReduceSum <keepdims = 0> (p)",
         "t = Transpose <perm = [1, 0]> (x) p = Mul(t, z) y = ReduceSum <keepdims = 0> (p)"),
        ("p = MatMul(x, z) y = ReduceSum <keepdims = 0> (p)",
         "p = MatMul(z, x) y = ReduceSum <keepdims = 0> (p)"),
    ],
)  # fmt: skip
def test_sums_over_other_axes(before: str, after: str) -> None:
    """The indices of a sum are ordered by their places, which are those of other axes here."""
    signature = "(float[a,a] x, float[a,a] z) => (float y)"
    sides = [parse(f"g {signature} {{ {text} }}") for text in (before, after)]
    assert not prove_models(sides[0], sides[1]).is_proved
