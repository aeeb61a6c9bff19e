import numpy as np
import pytest

from tests.proof.denotations.checking import check


@pytest.mark.parametrize("op_type", ["Abs", "Sign", "Tanh", "Erf", "Ceil", "Floor", "Round"])
def test_functions_of_one_number(op_type: str) -> None:
    check(
        f"(float[2,5] a) => (float[A,B] y) <float k = {{3}}> {{ t = Mul(a, k) y = {op_type}(t) }}",
        exact=False,
    )


@pytest.mark.parametrize("value", ["0.5", "1.5", "2.5", "-0.5", "-1.5", "3.0"])
def test_ties_are_rounded_to_even(value: str) -> None:
    check(
        f"(float[2] a) => (float[A] y) <float z = {{0}}, float c = {{{value}}}> {{ "
        "t = Mul(a, z) u = Add(t, c) y = Round(u) }",
        exact=False,
    )


def test_logarithm() -> None:
    check("(float[4] a) => (float[A] y) { t = Exp(a) y = Log(t) }", exact=False)
    check("(float[4] a) => (float[A] y) { t = Abs(a) y = Log(t) }", exact=False)
    check("(float[3,4] a) => (float[A,B] y) { t = Softmax(a) y = Log(t) }", exact=False)


@pytest.mark.parametrize("settings", ["", "<axis = 0>", "<axis = -2>"])
@pytest.mark.parametrize("opset", [11, 18])
def test_log_softmax(settings: str, opset: int) -> None:
    check(
        f"(float[2,3,2] a) => (float[A,B,C] y) {{ y = LogSoftmax {settings} (a) }}",
        opset,
        exact=False,
    )


@pytest.mark.parametrize("exact", [False, True])
def test_integers(*, exact: bool) -> None:
    feeds = {"a": [[-3, 2, 0]], "b": [[1, -2, 0]]}
    for node in ("Abs(a)", "Max(a, b)", "Min(a, b)", "Relu(a)", "Clip(a, l, h)"):
        check(
            f"(int32[1,3] a, int32[1,3] b) => (int32[A,B] y) <int32 l = {{-1}}, int32 h = {{1}}> "
            f"{{ y = {node} }}",
            exact=exact,
            feeds={name: _int32(values) for name, values in feeds.items()},
        )


def _int32(values: list[list[int]]) -> object:
    return np.array(values, np.int32)


@pytest.mark.parametrize("dtype", ["float", "int64", "bool"])
def test_equality(dtype: str) -> None:
    check(f"({dtype}[2,3] a, {dtype}[3] b) => (bool[A,B] y) {{ y = Equal(a, b) }}", exact=False)


@pytest.mark.parametrize("dtype", ["float", "int32", "uint8"])
def test_truth_of_a_number(dtype: str) -> None:
    check(f"({dtype}[4] a) => (bool[A] y) {{ y = Cast <to = 9> (a) }}")


@pytest.mark.parametrize(
    "node",
    [
        *("Gelu(a)", "BiasGelu(a, b)", "FastGelu(a)", "FastGelu(a, b)", "QuickGelu(a)"),
        "QuickGelu <alpha = 0.5> (a)",
    ],
)
def test_activations_of_onnxruntime(node: str) -> None:
    check(
        f"(float[2,3] a, float[3] b) => (float[A,B] y) {{ y = com.microsoft.{node} }}", exact=False
    )


@pytest.mark.parametrize(
    "activation",
    [
        *('"Relu"', '"Sigmoid"', '"Tanh"'),
        '"LeakyRelu", activation_params = [0.25]',
        '"Clip", activation_params = [-0.5, 0.75]',
        '"HardSigmoid", activation_params = [0.3, 0.4]',
    ],
)
def test_fused_convolution(activation: str) -> None:
    check(
        "(float[1,2,3] x, float[3,2,2] w, float[3] b) => (float[A,B,C] y) { "
        f"y = com.microsoft.FusedConv <activation = {activation}> (x, w, b) }}",
        exact=False,
    )


def test_fused_convolution_and_sum() -> None:
    check(
        "(float[1,2,3,3] x, float[3,2,2,2] w, float[3] b, float[1,3,2,2] z) "
        '=> (float[A,B,C,D] y) { y = com.microsoft.FusedConv <activation = "Relu"> (x, w, b, z) }',
        exact=False,
    )


@pytest.mark.parametrize(
    "settings", ['activation = "Relu"', 'activation = "LeakyRelu", activation_alpha = 0.25']
)
def test_fused_gemm(settings: str) -> None:
    check(
        "(float[2,3] x, float[3,4] w, float[4] b) => (float[A,B] y) { "
        f"y = com.microsoft.FusedGemm <{settings}> (x, w, b) }}",
        exact=False,
    )


@pytest.mark.parametrize("equation", ["ij,jk", "ij,jk,kl", "ba"])
def test_einsum_without_result(equation: str) -> None:
    names = ["x", "w", "v"][: equation.count(",") + 1]
    check(
        "(float[2,3] x, float[3,2] w, float[2,2] v) => (float[A,B] y) { "
        f'y = Einsum <equation = "{equation}"> ({", ".join(names)}) }}',
        exact=False,
    )
