from collections.abc import Callable
from typing import Any

import pytest

from tests.proof.denotations.checking import check
from tests.support import parse
from xoptim.facts.assumptions import USUAL
from xoptim.proof.calls import DENOTATIONS, Call
from xoptim.proof.denotations.sums import multiplied, summed_over
from xoptim.proof.indices import CaseFacts, Unproved
from xoptim.proof.meaning import Side
from xoptim.proof.tensors import Tensor


@pytest.mark.parametrize(
    ("a", "b", "result"),
    [
        ("2,3", "3,4", "A,B"),
        ("3", "3,4", "A"),
        ("2,3", "3", "A"),
        ("3", "3", ""),
        ("5,2,3", "3,4", "A,B,C"),
        ("2,3", "5,3,4", "A,B,C"),
        ("2,1,2,3", "5,3,1", "A,B,C,D"),
        ("3", "2,3,4", "A,B"),
    ],
)
def test_matmul(a: str, b: str, result: str) -> None:
    output = f"float[{result}] y" if result else "float y"
    check(f"(float[{a}] a, float[{b}] b) => ({output}) {{ y = MatMul(a, b) }}", exact=False)


@pytest.mark.parametrize(
    "settings", ["transA = 1", "transB = 1", "alpha = 0.5", "transA = 1, transB = 1, alpha = -2.0"]
)
def test_fused_matmul(settings: str) -> None:
    a = "2,4,3" if "transA" in settings else "2,3,4"
    b = "2,5,4" if "transB" in settings else "2,4,5"
    check(
        f"""(float[{a}] a, float[{b}] b) => (float[A,B,C] y) {{
        y = com.microsoft.FusedMatMul <{settings}> (a, b) }}""",
        exact=False,
    )


@pytest.mark.parametrize("settings", ["", ", transB = 1"])
def test_fused_matmul_of_batches(settings: str) -> None:
    b = "4,2,3,5" if settings else "5,2,3,4"
    check(
        f"""(float[4,2,3,5] a, float[{b}] b) => (float[A,B,C,D] y) {{
        y = com.microsoft.FusedMatMul <transBatchA = 1, transBatchB = 1{settings}> (a, b) }}""",
        exact=False,
    )


@pytest.mark.parametrize("bias", ["", "1", "5", "3,1", "3,5"])
@pytest.mark.parametrize("settings", ["alpha = 0.5, beta = 3.0", "transA = 1", "transB = 1"])
def test_gemm(bias: str, settings: str) -> None:
    a = "4,3" if "transA" in settings else "3,4"
    b = "5,4" if "transB" in settings else "4,5"
    operand, name = (f", float[{bias}] c", ", c") if bias else ("", "")
    check(
        f"""(float[{a}] a, float[{b}] b{operand}) => (float[A,B] y) {{
        y = Gemm <{settings}> (a, b{name}) }}""",
        exact=False,
    )


@pytest.mark.parametrize(
    ("equation", "a", "b", "result"),
    [
        ("ij,jk->ik", "2,3", "3,4", "A,B"),
        ("bij,bkj->bik", "2,3,4", "2,5,4", "A,B,C"),
        ("ij,j->j", "2,3", "3", "A"),
        ("ij,kl->li", "2,3", "2,2", "A,B"),
        ("ii,i->i", "3,3", "3", "A"),
    ],
)
def test_einsum(equation: str, a: str, b: str, result: str) -> None:
    check(
        f"""(float[{a}] a, float[{b}] b) => (float[{result}] y) {{
        y = Einsum <equation = "{equation}"> (a, b) }}""",
        exact=False,
    )


@pytest.mark.parametrize("operands", ["(x, w)", "(x, w, b)"])
@pytest.mark.parametrize(
    "settings",
    [
        "",
        "<pads = [1, 1, 1, 1]>",
        "<strides = [2, 1], pads = [0, 2, 1, 0]>",
        "<dilations = [2, 1]>",
        "<strides = [2, 2], dilations = [1, 2], pads = [1, 0, 0, 1]>",
    ],
)
def test_conv(operands: str, settings: str) -> None:
    check(
        f"""(float[1,2,5,4] x, float[3,2,2,2] w, float[3] b) => (float[A,B,C,D] y) {{
        y = Conv {settings} {operands} }}""",
        exact=False,
    )


@pytest.mark.parametrize("group", [2, 4])
def test_conv_of_groups(group: int) -> None:
    check(
        f"""(float[1,4,4] x, float[4,{4 // group},3] w) => (float[A,B,C] y) {{
        y = Conv <group = {group}, pads = [1, 1]> (x, w) }}""",
        exact=False,
    )


@pytest.mark.parametrize(
    "op_type", ["ReduceSum", "ReduceMean", "ReduceSumSquare", "ReduceL2", "ReduceLogSumExp"]
)
@pytest.mark.parametrize("keepdims", [0, 1])
@pytest.mark.parametrize("axes", [[1], [-1, 0]])
def test_reductions(op_type: str, keepdims: int, axes: list[int]) -> None:
    rank = 3 if keepdims else 3 - len(axes)
    sizes = ",".join("ABC"[:rank])
    check(
        f"""(float[2,3,2] x) => (float[{sizes}] y) <int64[{len(axes)}] a = {{{str(axes)[1:-1]}}}> {{
        y = {op_type} <keepdims = {keepdims}> (x, a) }}""",
        exact=False,
    )


@pytest.mark.parametrize("op_type", ["ReduceMax", "ReduceMin", "ReduceProd"])
def test_reductions_without_laws(op_type: str) -> None:
    check(
        f"""(float[2,3,2] x) => (float[A,B] y) <int64[1] a = {{1}}> {{
        y = {op_type} <keepdims = 0> (x, a) }}""",
        exact=False,
    )
    check(
        f"""(float[2,1,2] x) => (float[A,B] y) <int64[1] a = {{1}}> {{
        y = {op_type} <keepdims = 0> (x, a) }}""",
        exact=False,
    )


def test_reduction_of_all_axes_and_of_none() -> None:
    check("(float[2,3] x) => (float[A,B] y) { y = ReduceSum(x) }", exact=False)
    check("(float[2,3] x) => (float y) { y = ReduceMean <keepdims = 0> (x) }", exact=False)
    check(
        "(float[2,3] x) => (float[A,B] y) { y = ReduceSum <noop_with_empty_axes = 1> (x) }",
        exact=False,
    )
    check("(float[2,3] x) => (float[A,B] y) { y = ReduceMean <axes = [1]> (x) }", 13, exact=False)
    check("(int64[2,3] x) => (int64[A,B] y) { y = ReduceSum(x) }")


@pytest.mark.parametrize("opset", [11, 13])
@pytest.mark.parametrize("axis", [0, 1, -1])
def test_softmax(opset: int, axis: int) -> None:
    check(
        f"(float[2,3,2] x) => (float[A,B,C] y) {{ y = Softmax <axis = {axis}> (x) }}",
        opset,
        exact=False,
    )


def test_normalizations() -> None:
    check(
        """(float[2,3,4] x, float[3] s, float[3] b) => (float[A,B,C] y) {
        y = InstanceNormalization <epsilon = 0.1> (x, s, b) }""",
        exact=False,
    )
    check(
        """(float[2,3,4] x, float[3] s, float[3] b, float[3] m, float[3] u) => (float[A,B,C] y) {
        v = Abs(u) y = BatchNormalization <epsilon = 0.1> (x, s, b, m, v) }""",
        exact=False,
    )
    check("(float[2,3,4,2] x) => (float[A,B,C,D] y) { y = GlobalAveragePool(x) }", exact=False)


@pytest.mark.parametrize("nodes", ["y = MatMul(x, w)", "y = ReduceSum(w)", "y = Softmax(w)"])
def test_a_sum_over_infinity_has_no_laws(nodes: str) -> None:
    model = parse(
        f"g (float[2,2] x) => (float[2,2] y) <float[2,2] w = {{inf, 1, 2, 3}}> {{ {nodes} }}"
    )
    (tensor,) = Side(model, USUAL).outputs(CaseFacts(is_exact=False), {})
    with pytest.raises(Unproved, match="infinite"):
        tensor.at([0] * tensor.rank)


WRONG_FORMULAS: dict[str, Callable[[Call], Any]] = {
    "Sub": lambda call: DENOTATIONS["", "Add"](call),
    "MatMul": lambda call: multiplied(call.case, call.operand(0), call.operand(0)),
    "Concat": lambda call: Tensor(call.shape(), call.dtype(), call.operand(0).at),
    "ReduceMean": lambda call: summed_over(
        call.case, call.operand(0), [1], keeps=True, change=lambda element: element
    ),
}


@pytest.mark.parametrize(
    ("op_type", "nodes"),
    [
        ("Sub", "y = Sub(a, b)"),
        ("MatMul", "y = MatMul(a, b)"),
        ("Concat", "y = Concat <axis = 0> (a, b)"),
        ("ReduceMean", "y = ReduceMean <keepdims = 1> (a, i)"),
    ],
)
def test_a_wrong_formula_is_noticed(
    op_type: str, nodes: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = f"(float[3,3] a, float[3,3] b) => (float[A,B] y) <int64[1] i = {{1}}> {{ {nodes} }}"
    check(text, exact=False)
    monkeypatch.setitem(DENOTATIONS, ("", op_type), WRONG_FORMULAS[op_type])
    with pytest.raises(AssertionError):
        check(text, exact=False)


@pytest.mark.slow
@pytest.mark.parametrize("axis", [1, -1])
@pytest.mark.parametrize("operands", ["(x, s)", "(x, s, b)"])
def test_layer_normalization(axis: int, operands: str) -> None:
    shape = "3,4" if axis == 1 else "4"
    check(
        f"""(float[2,3,4] x, float[{shape}] s, float[{shape}] b) => (float[A,B,C] y) {{
        y = LayerNormalization <axis = {axis}, epsilon = 0.1> {operands} }}""",
        exact=False,
    )


def test_layer_normalization_with_a_row_of_scales() -> None:
    check(
        """(float[2,3,4] x, float[1,4] s, float[4] b) => (float[A,B,C] y) {
        y = LayerNormalization <epsilon = 0.1> (x, s, b) }""",
        exact=False,
    )


def test_norms_of_roots_of_mean_squares() -> None:
    check(
        """(float[2,3,4] x, float[4] s) => (float[A,B,C] y) {
        y = SimplifiedLayerNormalization <axis = -1, epsilon = 0.1> (x, s) }""",
        exact=False,
    )
    check(
        """(float[2,3,4] x, float[4] s) => (float[A,B,C] y) {
        y = RMSNormalization <axis = -1, epsilon = 0.1> (x, s) }""",
        23,
        exact=False,
    )


@pytest.mark.slow
@pytest.mark.parametrize("operands", ["s", "s, t", "s, t, b"])
def test_skip_layer_normalization(operands: str) -> None:
    check(
        f"""(float[2,3,4] x, float[2,3,4] z, float[4] s, float[4] t, float[4] b)
        => (float[A,B,C] y, float[D,E,F] w) {{
        y, , , w = com.microsoft.SkipLayerNormalization <epsilon = 0.1> (x, z, {operands}) }}""",
        exact=False,
    )


def test_skip_simplified_layer_normalization() -> None:
    check(
        """(float[2,3,4] x, float[2,3,4] z, float[4] s, float[4] b)
        => (float[A,B,C] y, float[D,E,F] w) {
        y, , , w = com.microsoft.SkipSimplifiedLayerNormalization (x, z, s, b) }""",
        exact=False,
    )


DEFINED = (
    ("(float[2,3] x) => (float[A,B] y) { y = Gelu(x) }", 20),
    ('(float[2,3] x) => (float[A,B] y) { y = Gelu <approximate = "tanh"> (x) }', 20),
    ("(float[2,3] x) => (float[A,B] y) { y = ReduceL1(x) }", 18),
    ("(float[2,3] x, float[3] s) => (float[A,B] y) { y = PRelu(x, s) }", 18),
    ("(float[2,2,2,1] x) => (float[A,B,C,D] y) { y = MeanVarianceNormalization(x) }", 13),
    (
        """(float[1,4,3] x, float[4] s, float[4] b) => (float[A,B,C] y) {
        y = GroupNormalization <num_groups = 2, epsilon = 0.1> (x, s, b) }""",
        21,
    ),
    (
        """(float[1,2,3,4] x, float[5,2] c, float[5,2] s, int64[1,3] p) => (float[A,B,C,D] y) {
        y = RotaryEmbedding (x, c, s, p) }""",
        23,
    ),
    (
        """(float[1,1,2,2] q, float[1,1,3,2] k, float[1,1,3,2] v) => (float[A,B,C,D] y) {
        y = Attention(q, k, v) }""",
        23,
    ),
)


@pytest.mark.parametrize(("text", "opset"), DEFINED)
def test_operators_that_the_standard_defines(text: str, opset: int) -> None:
    check(text, opset, exact=False)
