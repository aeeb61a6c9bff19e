"""Sizes of 0: a proof says whether it covers them."""

from __future__ import annotations

from typing import Final

import numpy as np
import pytest

from tests.proof.denotations.checking import check
from tests.support import parse, run, values_in
from xoptim.facts.assumptions import Assumptions
from xoptim.operators.registry import Trait, operators_with
from xoptim.proof.empty import JOINS, SUMS
from xoptim.proof.proving import Proof, prove_models

CONSTANTS: Final = (
    "<int64[1] a = {1}, int64[1] o = {0}, int64 i = {1}, float[4] s = {1, 2, 3, 4}, "
    "int64[2] k = {1, 4}, int64[2] tt = {2, 2}, int64[4] p = {1, 1, 1, 1}, int64[2] r = {-1, 2}, "
    "float[3] b = {5, 6, 7}, int64[1] e = {9}, int64[2] two = {2, 2}, int64[3] u = {0, 2, 2}>"
)
WIDE: Final = "(float[2,0] x, float[0,3] w) => (float[A,B] y)"
FLAT: Final = "(float[2,0] x, float[0,3] w) => (float[A] y)"
EMPTY: Final = "(float[0,4] x, float[3,4] w) => (float[A,B] y)"
INTEGERS: Final = "(float[0,4] x, float[3,4] w) => (int64[A] y)"
THREE: Final = "(float[0,4] x, float[3,4] w) => (float[A,B,C] y)"
OPERATORS: Final = {
    "MatMul": (WIDE, "y = MatMul(x, w)"),
    "Gemm": (WIDE, "y = Gemm(x, w, b)"),
    "FusedMatMul": (WIDE, "y = com.microsoft.FusedMatMul <alpha = 2.0> (x, w)"),
    "TransposeMatMul": (WIDE, "y = com.microsoft.TransposeMatMul(x, w)"),
    **{
        name: (FLAT, f"y = {name} <keepdims = 0> (x, a)")
        for name in ("ReduceL1", "ReduceL2", "ReduceSum", "ReduceSumSquare")
    },
    "Concat": (EMPTY, "y = Concat <axis = 0> (x, w, x)"),
    "ConstantOfShape": (EMPTY, "n = Shape(x) y = ConstantOfShape <value = float[1] {2.0}> (n)"),
    "Pad": (EMPTY, "y = Pad(x, p)"),
    "SequenceConstruct": (EMPTY, "q = SequenceConstruct(x, w) y = SequenceAt(q, i)"),
    "SequenceAt": (EMPTY, "q = SequenceConstruct(w, x) y = SequenceAt(q, i)"),
    "Shape": (INTEGERS, "y = Shape(x)"),
    "Size": ("(float[0,4] x) => (int64 y)", "y = Size(x)"),
    "Expand": (EMPTY, "y = Expand(x, k)"),
    "Flatten": (EMPTY, "y = Flatten(x)"),
    "Gather": (THREE, "n = Shape <end = 1> (x) z = Concat <axis = 0> (a, n) q = ConstantOfShape "
               "<value = int64[1] {1}> (z) y = Gather(w, q)"),
    "Identity": (EMPTY, "y = Identity(x)"),
    "Reshape": (EMPTY, "y = Reshape(x, r)"),
    "Slice": (EMPTY, "y = Slice(x, o, e, o)"),
    "Split": (EMPTY, "y, z = Split <axis = 1> (x, two)"),
    "Squeeze": ("(float[1,0] x) => (float[A] y)", "y = Squeeze(x, o)"),
    "Unsqueeze": (THREE, "y = Unsqueeze(x, o)"),
    "Tile": (EMPTY, "y = Tile(x, tt)"),
    "Transpose": (EMPTY, "y = Transpose(x)"),
    "Trilu": (EMPTY, "y = Trilu(x)"),
    "CumSum": (EMPTY, "y = CumSum(x, i)"),
    "LayerNormalization": (EMPTY, "y = LayerNormalization(x, s)"),
    "RMSNormalization": (EMPTY, "y = RMSNormalization(x, s)"),
    **{
        name: (EMPTY, f"y = {name}(x)")
        for name in ("Softmax", "LogSoftmax", "LpNormalization", "Clip")
    },
    **{
        name: ("(float[0,4] x) => (float[A] y)", f"y = {name} <keepdims = 0> (x, a)")
        for name in (
            *("ReduceLogSum", "ReduceLogSumExp", "ReduceMax", "ReduceMean", "ReduceMin"),
            "ReduceProd",
        )
    },
}  # fmt: skip


@pytest.mark.parametrize("name", OPERATORS)
def test_operators_of_nothing(name: str) -> None:
    """Their results are what onnxruntime computes."""
    signature, nodes = OPERATORS[name]
    opset = 23 if name == "RMSNormalization" else 18
    check(f"{signature} {CONSTANTS} {{ {nodes} }}", opset, exact=False)


def test_all_operators_are_tested() -> None:
    listed = {name for _, name in SUMS | JOINS} | operators_with(Trait.TAKES_EMPTY)
    assert listed == OPERATORS.keys()


def test_elementwise_operators_of_nothing() -> None:
    names = ("Relu", "Exp", "Erf", "Sigmoid", "Neg", "Sqrt", "Softplus")
    nodes = " ".join(
        f"t{k + 1} = {name}(t{k})" for k, name in enumerate(names)
    )  # each reads the former
    check(f"(float[0,4] x) => (float[A,B] y) {{ t0 = Identity(x) {nodes} y = Add(t7, x) }}")


FROM_ZERO: Final = (
    ("(float[N,M] x) => (float[A,B] y)", "a = Transpose(x) y = Transpose(a)", "y = Identity(x)"),
    ("(float[N,K] x, float[K,M] w, float f) => (float[A,B] y)", "a = MatMul(x, w) y = Mul(a, f)",
     "v = Mul(w, f) y = MatMul(x, v)"),
    ("(float[N,4] x, float[M,4] z) => (float[A,B] y)",
     "a = Concat <axis = 0> (x, z) y = Relu(a)",
     "a = Relu(x) b = Relu(z) y = Concat <axis = 0> (a, b)"),
    ("(float[N,4] x) => (float[A] y) <int64[1] o = {0}>",
     "a = ReduceSum(x, o) y = Squeeze(a, o)", "y = ReduceSum <keepdims = 0> (x, o)"),
    ("(float[N,2,2] x) => (float[A,B] y) <int64[2] r = {-1, 4}>", "y = Reshape(x, r)",
     "y = Flatten(x)"),
    ("(float[N,3] x) => (float[A,B] y)", "a = Neg(x) y = Softmax <axis = 0> (a)",
     "a = Neg(x) t = Transpose(a) s = Softmax <axis = 1> (t) y = Transpose(s)"),
    # The original fails for 0: nothing is to be shown.
    ("(float[N,2] x) => (float[2] y) <int64 i = {0}>", "y = Gather(x, i)",
     "t = Transpose(x) y = Gather <axis = 1> (t, i)"),
    ("(float[N,2] x) => (float[A,B] y) <int64[2] r = {0, -1}>", "y = Reshape(x, r)",
     "y = Identity(x)"),
    ("(float[N,2] x, int64 n, bool c) => (float[A,B] y)",
     "y = Loop(n, c, x) <body = b (int64 i, bool d, float[N,2] s) => (bool e, float[N,2] t) "
     "{ e = Identity(d) o = Exp(s) t = Neg(o) }>",
     "y = Loop(n, c, x) <body = b (int64 i, bool d, float[N,2] s) => (bool e, float[N,2] t) "
     "{ o = Exp(s) t = Neg(o) e = Identity(d) }>"),
    ("(float[0,4] x, float[N,4] z) => (float[A,B] y)", "y = Concat <axis = 0> (x, z)",
     "y = Identity(z)"),
    ("(float[2] x) => (float[2] y)", "a = Neg(x) y = Neg(a)", "y = Identity(x)"),
)  # fmt: skip
FROM_ONE: Final = (
    # undefined for 0
    ("(float[N,M] x) => (float[A] y) <int64[1] o = {0}>",
     "t = Transpose(x) m = Neg(t) a = Constant <value = int64[1] {1}> () "
     "y = ReduceMax <keepdims = 0> (m, a)",
     "m = Neg(x) y = ReduceMax <keepdims = 0> (m, o)"),
    ("(float[N,4] x) => (float[A] y) <int64[1] o = {0}, int64[1] a = {1}>",
     "y = ReduceMean <keepdims = 0> (x, o)",
     "t = Transpose(x) y = ReduceMean <keepdims = 0> (t, a)"),
    ("(float[N] x) => (float[A] y) <int64[2] p = {1, 1}>",
     'a = Neg(x) y = Pad <mode = "edge"> (a, p)', 'b = Pad <mode = "edge"> (x, p) y = Neg(b)'),
    # it ends the process in onnxruntime
    ("(float[n,2] x, float[2] z) => (float[2] y)",
     "y = Scan <num_scan_inputs = 1, body = b (float[2] s, float[2] u) => (float[2] t) "
     "{ t = Add(s, u) }> (z, x)",
     "y = Scan <num_scan_inputs = 1, body = b (float[2] s, float[2] u) => (float[2] t) "
     "{ o = Add(s, u) t = Identity(o) }> (z, x)"),
    # only the result fails for 0
    ("(float[N,4] x) => (float[A,B] y) <int64[2] r = {0, -1}>", "y = Identity(x)",
     "y = Reshape(x, r)"),
    ("(float[N,2] x) => (float[A,B] y) <int64 i = {0}>", "y = Identity(x)",
     "g = Gather(x, i) z = Sub(g, g) y = Add(x, z)"),
    ("(float[N,3] x) => (float[A,B] y) <int64[1] o = {0}>",
     "s = ReduceSum(x, o) z = Sub(s, s) y = Add(x, z)",
     "m = ReduceMean(x, o) z = Sub(m, m) y = Add(x, z)"),
    ("(float[N,3,4,4] x, float[2,3,1,1] w) => (float[A,B,C,D] y) "
     "<int64[2] f = {3, -1}, int64[3] g = {-1, 2, 16}, int64[4] h = {-1, 2, 4, 4}, "
     "int64[3] k = {-1, 3, 16}, int64[2] m = {2, 3}>",
     "c = Reshape(x, k) v = Reshape(w, m) d = MatMul(v, c) y = Reshape(d, h)", "y = Conv(x, w)"),
)  # fmt: skip


def _proof(signature: str, before: str, after: str, opset: int = 18) -> Proof:
    first, second = (parse(f"g {signature} {{ {nodes} }}", opset) for nodes in (before, after))
    return prove_models(first, second)


@pytest.mark.parametrize(("signature", "before", "after"), FROM_ZERO)
def test_from_zero(signature: str, before: str, after: str) -> None:
    proof = _proof(signature, before, after)
    assert (proof.is_proved, proof.smallest_size) == (True, 0), proof.text
    assert proof.premises[0] == "sizes from 0"


@pytest.mark.parametrize(("signature", "before", "after"), FROM_ONE)
def test_from_one(signature: str, before: str, after: str) -> None:
    proof = _proof(signature, before, after)
    assert (proof.is_proved, proof.smallest_size) == (True, 1), proof.text
    assert proof.premises[0] == "sizes from 1"


def test_attention_that_fails_for_empty_batches() -> None:
    """onnxruntime runs its parts for a batch of 0, and not the operator."""
    signature = "(float[b,2,3,4] q, float[b,2,5,4] k, float[b,2,5,4] v) => (float[A,B,C,D] y)"
    parts = (
        "t = Transpose <perm = [0, 1, 3, 2]> (k) m = MatMul(q, t) h = Constant <value = float "
        "{0.5}> () s = Mul(m, h) w = Softmax(s) y = MatMul(w, v)"
    )
    assert _proof(signature, parts, "y = Attention(q, k, v)", 23).smallest_size == 1
    assert _proof(signature, "y = Attention(q, k, v)", parts, 23).smallest_size == 0
    feeds = {name: np.zeros((0, 2, n, 4), np.float32) for name, n in (("q", 3), ("k", 5), ("v", 5))}
    models = (parse(f"g {signature} {{ {x} }}", 23) for x in (parts, "y = Attention(q, k, v)"))
    runnable, failing = models
    assert run(runnable, feeds)[0].shape == (0, 2, 3, 4)
    with pytest.raises(Exception, match="Attention"):
        run(failing, feeds)


def test_assumptions_that_exclude_zero() -> None:
    signature = "(float[N,4] x) => (float[A] y) <int64[1] o = {0}>"
    nodes = (
        "m = ReduceMax <keepdims = 0> (x, o) y = Neg(m)",
        "n = Neg(x) y = ReduceMin <keepdims = 0> (n, o)",
    )
    first, second = (parse(f"g {signature} {{ {text} }}") for text in nodes)
    assert prove_models(first, second).smallest_size == 1
    proof = prove_models(first, second, Assumptions.of(["N >= 2"]))
    assert proof.premises == ("sizes from 0", "N >= 2")


@pytest.mark.parametrize(("size", "smallest"), [("s", 0), ("2*s", 0), ("s + 1", 0), ("s - 1", 1)])
def test_formulas_that_are_zero_for_other_sizes(size: str, smallest: int) -> None:
    """No case is one in which ``s - 1`` is 0."""
    signature = f'(float["{size}"] x, float[s] z) => (float[A] y)'
    assert _proof(signature, "a = Neg(x) y = Neg(a)", "y = Identity(x)").smallest_size == smallest


def test_many_names_of_sizes() -> None:
    """Each set of sizes that are 0 is a case: there are few enough for some names only."""
    four, five = (", ".join(f"n{k}" for k in range(count)) for count in (4, 5))
    nodes = "a = Neg(x) y = Neg(a)", "y = Identity(x)"
    assert _proof(f"(float[{four}] x) => (float[{four}] y)", *nodes).smallest_size == 0
    assert _proof(f"(float[{five}] x) => (float[{five}] y)", *nodes).smallest_size == 1


DIFFERENT: Final = (
    ("(float[N,2] x) => (float[A,B] y) <int64 z = {0}, float[1,2] f = {0, 0}>",
     "n = Size(x) c = Equal(n, z) y = If (c) <then_branch = t () => (float[A,B] p) "
     "{ p = Identity(f) }, else_branch = e () => (float[A,B] q) { q = Neg(x) }>", "y = Neg(x)"),
    ("(float[N,2] x) => (float[A] y) <int64[1] o = {0}, float[1] one = {1}>",
     "n = Shape <end = 1> (x) p = Constant <value = int64[1] {1}> () m = Max(n, p) "
     "y = Expand(one, m)", "n = Shape <end = 1> (x) y = Expand(one, n)"),
)  # fmt: skip


@pytest.mark.parametrize(("signature", "before", "after"), DIFFERENT)
def test_what_differs_for_zero_is_not_proved(signature: str, before: str, after: str) -> None:
    proof = _proof(signature, before, after)
    assert not proof.is_proved
    assert values_in(proof.reason)[0] == "0", proof.reason
