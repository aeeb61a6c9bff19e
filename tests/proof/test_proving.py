import numpy as np
import onnx
import pytest

from tests.support import parse, values_in
from xoptim.facts.assumptions import Assumptions
from xoptim.proof.proving import Proof, prove, prove_models

SAME = (
    (
        "Transposes that cancel",
        "(float[N,M,4] x) => (float[A,B,C] y)",
        "a = Transpose <perm = [1, 0, 2]> (x) y = Transpose <perm = [1, 0, 2]> (a)",
        "y = Identity(x)",
    ),
    (
        "Reshape twice, index split",
        "(float[N,M,4] x) => (float[A,B] y) <int64[2] s = {0, -1}, int64[3] t = {0, -1, 2}>",
        "y = Reshape(x, s)",
        "a = Reshape(x, t) y = Flatten(a)",
    ),
    (
        "Split and Concat",
        "(float[N,8] x) => (float[A,B] y) <int64[2] s = {5, 3}>",
        "a, b = Split <axis = 1> (x, s) y = Concat <axis = 1> (a, b)",
        "y = Identity(x)",
    ),
    (
        "Slice of a Concat of two lengths",
        "(float[N,4] x, float[M,4] z) => (float[A,B] y)",
        """c = Concat <axis = 0> (x, z) b = Shape <end = 1> (x) e = Shape <end = 1> (c)
        y = Slice(c, b, e)""",
        "y = Identity(z)",
    ),
    (
        "Relu before and after a Gather of data",
        "(float[N,8] x, int64[K] i) => (float[A,B] y)",
        "b = Relu(x) y = Gather(b, i)",
        "b = Gather(x, i) y = Relu(b)",
    ),
    (
        "An operator without laws, on equal operands",
        "(float[N,M] x) => (float[A,B] y, float[C,D] z)",
        "b = Transpose(x) c = Transpose(b) y = LpNormalization(c) z = Neg(y)",
        "y = LpNormalization(x) z = Neg(y)",
    ),
    (
        "Broadcasting that the original requires",
        "(float[N,4] x, float[M,4] z) => (float[A,B] y)",
        "y = Add(x, z)",
        "y = Add(z, x)",
    ),
    (
        "A size that the original requires to be even",
        "(float[N,3] x) => (float[A,B] y) <int64[3] s = {-1, 2, 3}, int64[2] t = {-1, 6}>",
        "a = Reshape(x, s) y = Reshape(a, t)",
        "y = Reshape(x, t)",
    ),
    (
        "A Slice that is empty for short axes",
        "(float[N] x) => (float[A] y) <int64[1] b = {2}, int64[1] e = {5}, int64[1] c = {7}>",
        "y = Slice(x, b, e)",
        "t = Slice(x, b, c) z = Constant <value_ints = [0]> () "
        "k = Constant <value_ints = [3]> () y = Slice(t, z, k)",
    ),
    (
        "A Pad of ones before an operator without laws",
        "(float[N] x) => (float[A] y) <int64[2] p = {1, 2}, float v = {1}>",
        "q = Pad(x, p, v) r = Identity(q) y = CumSum(r, i) i = Constant <value_int = 0> ()",
        "i = Constant <value_int = 0> () q = Pad(x, p, v) y = CumSum(q, i)",
    ),
    (
        "Integers are added in any order, as they wrap around",
        "(int32[N] x, int32[N] z) => (int32[A] y)",
        "a = Add(x, z) y = Sub(a, x)",
        "y = Identity(z)",
    ),
    (
        "Subgraphs without change",
        "(float[N] x, bool c) => (float[N] y)",
        "a = Identity(x) y = If (c) <then_branch = t () => (float[N] p) { p = Neg(x) }, "
        "else_branch = e () => (float[N] q) { q = Abs(x) }>",
        "y = If (c) <then_branch = t () => (float[N] p) { p = Neg(x) }, "
        "else_branch = e () => (float[N] q) { q = Abs(x) }>",
    ),
)

EQUAL_OVER_REAL_NUMBERS = (
    (
        "The operands of a Max, which decide whether the maximum of 0 and -0 is 0",
        "(float[N] x, float[N] z) => (float[N] y)",
        "y = Max(x, z)",
        "y = Max(z, x)",
    ),
    (
        "Softmax on the other axis",
        "(float[N,M] x) => (float[A,B] y)",
        "a = Transpose(x) b = Softmax <axis = 0> (a) y = Transpose(b)",
        "y = Softmax <axis = 1> (x)",
    ),
    (
        "A Transpose before and after a MatMul",
        "(float[N,K] x, float[M,K] w) => (float[A,B] y)",
        "t = Transpose(w) y = MatMul(x, t)",
        "t = Transpose(x) m = MatMul(w, t) y = Transpose(m)",
    ),
    (
        "MatMul of a Concat",
        "(float[N,K] x, float[N,L] z, float[K,M] w, float[L,M] v) => (float[A,B] y)",
        "a = Concat <axis = 1> (x, z) b = Concat <axis = 0> (w, v) y = MatMul(a, b)",
        "a = MatMul(x, w) b = MatMul(z, v) y = Add(a, b)",
    ),
    (
        "Three MatMul in another order",
        "(float[N,K] x, float[K,L] v, float[L,M] w) => (float[A,B] y)",
        "a = MatMul(x, v) y = MatMul(a, w)",
        "a = MatMul(v, w) y = MatMul(x, a)",
    ),
    (
        "The mean of squares",
        "(float[N,8] x) => (float[A,B] y) <int64[1] a = {1}, float two = {2}, float n = {8}>",
        "p = Pow(x, two) y = ReduceMean(p, a)",
        "s = ReduceSumSquare(x, a) y = Div(s, n)",
    ),
    (
        "A factor of a convolution",
        "(float[N,3,H,W] x, float[4,3,3,3] w, float f) => (float[A,B,C,D] y)",
        "c = Conv <pads = [1, 1, 1, 1]> (x, w) y = Mul(c, f)",
        "v = Mul(w, f) y = Conv <pads = [1, 1, 1, 1]> (x, v)",
    ),
    (
        "A Pad and a convolution",
        "(float[N,3,H] x, float[4,3,3] w) => (float[A,B,C] y) <int64[6] p = {0, 0, 1, 0, 0, 2}>",
        "q = Pad(x, p) y = Conv(q, w)",
        "y = Conv <pads = [1, 2]> (x, w)",
    ),
)

DIFFERENT = (
    (
        "The halves of a Concat",
        "(float[N,4] x, float[M,4] z) => (float[A,B] y)",
        "y = Concat <axis = 0> (x, z)",
        "y = Concat <axis = 0> (z, x)",
        "the normal forms differ",
    ),
    (
        "A target that fits for equal sizes only",
        "(float[N,M] x) => (float[A] y) <int64[1] s = {-1}>",
        "y = Reshape(x, s)",
        "t = Shape <start = 1> (x) p = Mul(t, t) y = Reshape(x, p)",
        "sizes that may not fit",
    ),
    (
        "A sum that requires equal sizes",
        "(float[N] x, float[M] z) => (float[A] y)",
        "y = Identity(x)",
        "a = Add(x, z) y = Sub(a, z)",
        "requires sizes",
    ),
    (
        "Other axes of a Concat that have to be equal",
        "(float[1,N] x, float[1,M] z) => (float[A,B] y) <int64[1] o = {0}, int64[1] p = {1}>",
        "y = Identity(x)",
        "c = Concat <axis = 0> (x, z) y = Slice(c, o, p)",
        "requires sizes",
    ),
    (
        "An Expand to a size that may not fit",
        "(float[5] x, float[N] z) => (float[A] y)",
        "y = Identity(x)",
        "s = Shape(z) y = Expand(x, s)",
        "requires sizes",
    ),
    (
        "An operator of another type",
        "(float[N] x) => (int8[N] y)",
        "y = Cast <to = 3> (x)",
        "t = Cast <to = 2> (x) y = Cast <to = 3> (t)",
        "the normal forms differ",
    ),
    (
        "Attributes",
        "(float[N] x) => (float[N] y)",
        "y = LeakyRelu <alpha = 0.1> (x)",
        "y = LeakyRelu <alpha = 0.11> (x)",
        "the normal forms differ",
    ),
    (
        "A type of elements",
        "(float[N] x) => (float[N] y)",
        "y = Identity(x)",
        "y = Cast <to = 10> (x)",
        "the element types differ",
    ),
    (
        "A subgraph",
        "(float[N] x, bool c) => (float[N] y)",
        "y = If (c) <then_branch = t () => (float[N] p) { p = Neg(x) }, "
        "else_branch = e () => (float[N] q) { q = Abs(x) }>",
        "y = If (c) <then_branch = t () => (float[N] p) { p = Abs(x) }, "
        "else_branch = e () => (float[N] q) { q = Neg(x) }>",
        "the normal forms differ",
    ),
    (
        "A sum that wraps around before it is converted",
        "(int32[N] x, int32[N] z) => (int64[A] y)",
        "a = Add(x, z) y = Cast <to = 7> (a)",
        "a = Cast <to = 7> (x) b = Cast <to = 7> (z) y = Add(a, b)",
        "the normal forms differ",
    ),
    (
        "A quotient of integers",
        "(int32[N] x) => (int32[A] y) <int32 c = {2}>",
        "a = Mul(x, c) y = Div(a, c)",
        "y = Identity(x)",
        "the normal forms differ",
    ),
    (
        "A padded border of a mean",
        "(float[N,3,H] x, float[4,3,3] w) => (float[A,B,C] y) <int64[6] p = {0, 0, 1, 0, 0, 2}>",
        "q = Pad(x, p) y = Conv(q, w)",
        "y = Conv <pads = [2, 1]> (x, w)",
        "the normal forms differ",
    ),
    (
        "A cast that rounds",
        "(float[N] x) => (float[N] y)",
        "y = Identity(x)",
        "h = Cast <to = 10> (x) y = Cast <to = 1> (h)",
        "the normal forms differ",
    ),
    (
        "A sum over an infinite mask",
        "(float[N,4] x) => (float[A] y) <float[1,4] m = {0, 0, 0, -inf}, int64[1] a = {1}>",
        "s = Add(x, m) y = ReduceSum <keepdims = 0> (s, a)",
        "t = ReduceSum <keepdims = 0> (x, a) u = ReduceSum <keepdims = 0> (m, a) y = Add(t, u)",
        "infinite",
    ),
    (
        "An axis of known integers that is out of range",
        "(float[N,4] x) => (int64[1] y) <int64[1] i = {1}>",
        "s = Shape(x) y = Gather(s, i)",
        "s = Shape(x) y = Gather <axis = 1> (s, i)",
        "axis 1 of a tensor of rank 1",
    ),
    (
        "A Concat of two types",
        "(float[N] x, bool[N] c) => (float[A] y)",
        "y = Concat <axis = 0> (x, x)",
        "a = Cast <to = 11> (x) y = Concat <axis = 0> (x, a)",
        "several types",
    ),
    (
        "A Reshape that copies a size that there is not",
        "(float[N] x) => (float[A,B] y) <int64[2] s = {0, 1}, int64[2] t = {-1, 0}>",
        "y = Reshape(x, s)",
        "y = Reshape(x, t)",
        "copies no size",
    ),
    (
        "A switch that is neither on nor off",
        "(float[N,4] x, float[4,M] w) => (float[A,B] y)",
        "y = Gemm(x, w)",
        "y = Gemm <transA = 2> (x, w)",
        "transA = 2",
    ),
    (
        "A scale of another shape",
        "(float[N,4] x, float[4] s) => (float[A,B] y) <int64[1] z = {1}>",
        "y = LayerNormalization(x, s)",
        "t = Unsqueeze(s, z) y = LayerNormalization(x, t)",
        "another rank",
    ),
    (
        "An axis that is out of range",
        "(float[N,4] x, float[N,4] z) => (float[A,B] y)",
        "y = Concat <axis = 1> (x, z)",
        "y = Concat <axis = 3> (x, z)",
        "axis 3 of a tensor of rank 2",
    ),
    (
        "A multiple of 64 elements",
        "(float[N] x) => (float[M] y) <int64[1] b = {0}, int64[1] e = {64}>",
        "y = Identity(x)",
        "y = Slice(x, b, e)",
        "the shapes differ",
    ),
)


def proof_of(signature: str, before: str, after: str, opset: int = 18) -> Proof:
    sides = [parse(f"g {signature} {{ {nodes} }}", opset) for nodes in (before, after)]
    return prove((sides[0], sides[1]))


@pytest.mark.parametrize(("name", "signature", "before", "after"), SAME)
def test_rewrites_of_the_same_bits(name: str, signature: str, before: str, after: str) -> None:
    proof = proof_of(signature, before, after)
    assert (proof.grade, proof.reason) == ("same bits", ""), name
    assert proof.is_proved
    inputs, _ = signature.split("=>")
    shared = ("sizes named N are equal",) if inputs.count("[N]") > 1 else ()
    assert proof.premises == ("sizes from 0", *shared)
    assert proof.cases
    assert proof.sides[0] == proof.sides[1]


@pytest.mark.parametrize(("name", "signature", "before", "after"), EQUAL_OVER_REAL_NUMBERS)
def test_rewrites_of_real_numbers(name: str, signature: str, before: str, after: str) -> None:
    assert proof_of(signature, before, after).grade == "over real numbers", name


@pytest.mark.parametrize(("name", "signature", "before", "after", "reason"), DIFFERENT)
def test_rewrites_that_are_only_run(
    name: str, signature: str, before: str, after: str, reason: str
) -> None:
    proof = proof_of(signature, before, after)
    assert proof.grade == "only run", name
    assert reason in proof.reason, name
    assert not proof.is_proved


def test_assumptions_are_premises() -> None:
    signature = "(float[N,4] x) => (float[A,B] y) <int64[1] b = {0}, int64[1] e = {8}>"
    nodes = ("y = Slice(x, b, e)", "y = Identity(x)")
    before, after = (parse(f"g {signature} {{ {node} }}") for node in nodes)
    assert not prove_models(before, after).is_proved
    proof = prove_models(before, after, Assumptions.of(["N <= 8"]))
    assert proof.grade == "same bits"
    assert proof.premises == ("sizes from 0", "N <= 8")


def test_the_bits_of_a_zero_count() -> None:
    proof = proof_of(
        "(float[N] x) => (float[M] y)",
        "s = Shape(x) y = ConstantOfShape <value = float[1] {0.0}> (s)",
        "s = Shape(x) y = ConstantOfShape <value = float[1] {-0.0}> (s)",
    )
    assert proof.grade == "over real numbers"


def test_inputs_and_outputs_have_to_be_the_same() -> None:
    model = parse("g (float[N] x) => (float[N] y) { y = Neg(x) }")
    renamed = parse("g (float[N] z) => (float[N] y) { y = Neg(z) }")
    more = parse("g (float[N] x) => (float[N] y, float[N] z) { y = Neg(x) z = Neg(x) }")
    assert "inputs" in prove_models(model, renamed).reason
    assert "outputs" in prove_models(model, more).reason


def test_time_is_bounded() -> None:
    model = parse("g (float[N] x) => (float[N] y) { y = Neg(x) }")
    assert prove_models(model, model, seconds=0.0).reason == "the time limit is reached"


def test_equal_names_are_premises() -> None:
    nodes = ("a = MatMul(x, z) y = Relu(a)", "a = MatMul(x, z) b = Relu(a) y = Relu(b)")
    proof = proof_of("(float[N,K] x, float[K,M] z) => (float[A,B] y)", *nodes)
    assert proof.premises == ("sizes from 0", "sizes named K are equal")
    proof = proof_of("(float[N,N] x, float[N,M] z) => (float[A,B] y)", *nodes)
    assert proof.premises == ("sizes from 0", "sizes named N are equal")


def test_constants_that_cancel_are_a_premise() -> None:
    signature = "(float[2] x) => (float[2] y)"
    constants = "<float[2] a = {16777216, 3}, float[2] b = {16777215, 1}, float[2] c = {%s, 2}>"
    before = f"{signature} {constants % 1}", "p = Mul(x, a) q = Mul(x, b) y = Sub(p, q)"
    after = f"{signature} {constants % 1.5}", "y = Mul(x, c)"
    first, second = (parse(f"g {head} {{ {nodes} }}") for head, nodes in (before, after))
    proof = prove_models(first, second)
    assert proof.is_proved
    assert [values_in(premise) for premise in proof.premises] == [
        ["0"],
        ["1e+01"],
        ["8", "2", "-24"],
    ]


def test_integers_that_are_no_sum_of_steps() -> None:
    """The first row and the first column have equal steps, and the last element differs by one."""
    signature = "(float[9] x) => (float[A,B] y) <int64[2,2] i = {0, 1, 2, %s}>"
    nodes = "y = Gather(x, i)", "n = Neg(x) g = Gather(n, i) y = Neg(g)"
    models = [
        parse(f"g {signature % last} {{ {text} }}")
        for last, text in zip((3, 4), nodes, strict=True)
    ]
    assert not prove_models(models[0], models[1]).is_proved
    same = [parse(f"g {signature % 4} {{ {text} }}") for text in nodes]
    assert prove_models(same[0], same[1]).is_proved


def test_large_tables_are_read_in_time() -> None:
    """A table of bytes is no list of steps: a few of its elements show it."""
    table = np.random.default_rng(0).integers(0, 256, (1 << 14, 512), np.uint8)
    models: list[onnx.ModelProto] = []
    for text in ("n = CumSum(g, z) y = Neg(n)", "n = CumSum(g, z) m = Identity(n) y = Neg(m)"):
        nodes = f"b = Gather(t, i) g = Cast <to = 1> (b) {text}"
        signature = "(int64[N] i, uint8[16384,512] t) => (float[A,B] y) <int64 z = {0}>"
        model = parse(f"g {signature} {{ {nodes} }}")
        del model.graph.input[1]
        model.graph.initializer.append(onnx.numpy_helper.from_array(table, "t"))
        models.append(model)
    assert prove_models(models[0], models[1]).is_proved
