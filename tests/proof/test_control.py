"""Branches and loops: equal bodies are found equal, and nothing else is.

Each pair that differs also differs in onnxruntime for some input, or fails there on one side only.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import onnxruntime
import pytest

from tests.support import parse, run
from xoptim.proof.proving import Proof, prove_models

X: Final = np.array([[1.5, -2], [0.5, 3]], np.float32)
Z: Final = np.array([[0.25, 4], [-1, 2]], np.float32)
TWO: Final = "(float[2,2] x, float[2,2] z) => (float[2,2] y)"
ROWS: Final = "(float[n,2] x, float[2] z) => (float[A,2] y)"
CHOICE: Final = "(float[n] x, float[m] z, bool c) => (float[A] y)"
TRIPS: Final = "(float[2,2] x, float[2,2] z, int64 n) => (float[2,2] y)"


def _if(then: str, otherwise: str, size: str = "n") -> str:
    return (
        f"y = If (c) <then_branch = t () => (float[{size}] p) {{ {then} }}, "
        f"else_branch = e () => (float[{size}] q) {{ {otherwise} }}>"
    )


def _loop(nodes: str, operands: str = "n, , x", result: str = "y") -> str:
    return (
        f"{result} = Loop({operands}) <body = b (int64 i, bool d, float[2,2] s) "
        f"=> (bool e, float[2,2] t) {{ {nodes} }}>"
    )


def _pair(nodes: str, operands: str = "n, , x, z") -> str:
    """A loop with two carried values."""
    return (
        f"y, r = Loop({operands}) <body = b (int64 i, bool d, float[2,2] s, float[2,2] u) "
        f"=> (bool e, float[2,2] t, float[2,2] v) {{ e = Identity(d) {nodes} }}>"
    )


def _scan(nodes: str, settings: str = "", operands: str = "z, x", results: str = "r, y") -> str:
    return (
        f"{results} = Scan <num_scan_inputs = 1{settings}, body = b (float[2] s, float[2] u) "
        f"=> (float[2] t, float[2] o) {{ {nodes} }}> ({operands})"
    )


STEP: Final = "e = Identity(d) t = Mul(s, z)"
EQUAL: Final = (
    ("names", TRIPS, _loop(STEP), _loop("t = Mul(s, z) e = Identity(d)")),
    ("an invariant", TRIPS, _loop("e = Identity(d) a = Exp(z) t = Mul(s, a)"),
     f"a = Exp(z) {_loop('e = Identity(d) t = Mul(s, a)')}"),
    ("a value that stays", TRIPS, _pair("t = Mul(s, u) v = Identity(u)"), _loop(STEP)),
    ("a condition that holds", TRIPS, _loop("e = Identity(d) t = Mul(s, z)"),
     f"k = Constant <value = bool {{1}}> () {_loop(STEP, 'n, k, x')}"),
    ("no iteration", TWO, f"n = Constant <value = int64 {{0}}> () {_loop(STEP)}",
     "y = Identity(x)"),
    ("two iterations", TWO, f"n = Constant <value = int64 {{2}}> () {_loop(STEP)}",
     "a = Mul(x, z) y = Mul(a, z)"),
    ("a loop in a loop", TRIPS,
     _loop("e = Identity(d) a = Exp(s) t = Loop(n, , a) <body = f (int64 j, bool g, float[2,2] w) "
           "=> (bool h, float[2,2] o) { h = Identity(g) k = Exp(s) o = Mul(w, k) }>"),
     _loop("e = Identity(d) a = Exp(s) t = Loop(n, , a) <body = f (int64 j, bool g, float[2,2] w) "
           "=> (bool h, float[2,2] o) { h = Identity(g) o = Mul(w, a) }>")),
    ("a common part", CHOICE, _if("a = Exp(x) p = Neg(a)", "b = Exp(x) q = Abs(b)"),
     f"a = Exp(x) {_if('p = Neg(a)', 'q = Abs(a)')}"),
    ("the opposite condition", CHOICE, _if("p = Neg(x)", "q = Abs(x)"),
     "f = Not(c) " + _if("p = Abs(x)", "q = Neg(x)").replace("If (c)", "If (f)")),
    ("equal conditions", CHOICE,
     _if(_if("a = Exp(x)", "b = Neg(x)").replace("y =", "p =").replace("float[n] p", "float[n] a")
         .replace("float[n] q", "float[n] b").replace("= t ()", "= tt ()")
         .replace("= e ()", "= ee ()"), "q = Abs(x)"), _if("p = Exp(x)", "q = Abs(x)")),
    ("an operator after a branch", CHOICE,
     _if("p = Neg(x)", "q = Abs(x)").replace("y =", "a =") + " y = Exp(a)",
     _if("u = Neg(x) p = Exp(u)", "v = Abs(x) q = Exp(v)")),
    ("rows that were transposed", ROWS,
     f"w = Transpose(x) {_scan('t = Add(s, u) o = Exp(t)', ', scan_input_axes = [1]', 'z, w')}",
     _scan("t = Add(s, u) o = Exp(t)")),
    ("what depends on rows only", ROWS, _scan("a = Exp(u) t = Add(s, a) o = Neg(t)"),
     f"v = Exp(x) {_scan('t = Add(s, u) o = Neg(t)', operands='z, v')}"),
    ("values that nothing reads", ROWS, _scan("t = Exp(s) o = Neg(u)"),
     _scan("t = Identity(s) o = Neg(u)")),
)  # fmt: skip
COUNTING: Final = "e = Identity(d) f = Cast <to = 1> (i) t = Add(s, f)"
DIFFERENT: Final = (
    ("branches", CHOICE, _if("p = Neg(x)", "q = Abs(x)"), _if("p = Abs(x)", "q = Neg(x)")),
    ("one branch", CHOICE, _if("p = Neg(x)", "q = Abs(x)"), "y = Neg(x)"),
    ("a choice in the wrong branch", CHOICE, _if("p = Exp(x)", "q = Abs(x)"),
     _if("p = Exp(x)", "q = Exp(x)")),
    ("the number of iterations", TRIPS, _loop(STEP),
     f"k = Constant <value = int64 {{1}}> () m = Add(n, k) {_loop(STEP, 'm, , x')}"),
    ("a known and an unknown number of iterations", TRIPS, _loop(STEP),
     f"k = Constant <value = int64 {{3}}> () {_loop(STEP, 'k, , x')}"),
    ("a loop that may not run", TRIPS, _loop("e = Identity(d) t = Exp(z)"), "y = Exp(z)"),
    ("a condition that fails", TRIPS, _loop(STEP), _loop("e = Not(d) t = Mul(s, z)")),
    ("a condition of the caller", f"{TRIPS}".replace("int64 n", "int64 n, bool c"), _loop(STEP),
     _loop(STEP, "n, c, x")),
    ("the first values", TRIPS, _loop(STEP), _loop(STEP, "n, , z")),
    ("values that are swapped", TRIPS, _pair("t = Identity(u) v = Identity(s)"), "y = Identity(x)"),
    ("a value that stays the first time", TRIPS,
     _pair("t = Mul(s, u) v = Abs(u)"), _loop("e = Identity(d) a = Abs(z) t = Mul(s, a)")),
    ("the order of values", TRIPS, _pair("t = Add(s, u) v = Neg(s)"),
     _pair("t = Add(s, u) v = Neg(t)")),
    ("the number of an iteration", TRIPS, _loop(COUNTING),
     _loop("e = Identity(d) k = Constant <value = int64 {1}> () j = Add(i, k) "
           "f = Cast <to = 1> (j) t = Add(s, f)")),
    ("numbers of two loops", TRIPS,
     _loop("e = Identity(d) t = Loop(n, , s) <body = f (int64 j, bool g, float[2,2] w) "
           "=> (bool h, float[2,2] o) { h = Identity(g) a = Cast <to = 1> (i) k = Add(w, a) "
           "o = Tanh(k) }>"),
     _loop("e = Identity(d) t = Loop(n, , s) <body = f (int64 j, bool g, float[2,2] w) "
           "=> (bool h, float[2,2] o) { h = Identity(g) a = Cast <to = 1> (j) k = Add(w, a) "
           "o = Tanh(k) }>")),
    ("values of two loops", TRIPS,
     _loop("e = Identity(d) t = Loop(n, , z) <body = f (int64 j, bool g, float[2,2] w) "
           "=> (bool h, float[2,2] o) { h = Identity(g) o = Add(w, s) }>"),
     _loop("e = Identity(d) t = Loop(n, , z) <body = f (int64 j, bool g, float[2,2] w) "
           "=> (bool h, float[2,2] o) { h = Identity(g) o = Add(w, w) }>")),
    ("loops after each other", TRIPS,
     f"{_loop(STEP, result='a')} {_loop('e2 = Identity(d2) t2 = Mul(s2, a)', 'n, , a')}"
     .replace("b (int64 i, bool d, float[2,2] s) => (bool e, float[2,2] t) { e2",
              "b2 (int64 i2, bool d2, float[2,2] s2) => (bool e2, float[2,2] t2) { e2"),
     f"{_loop(STEP, result='a')} {_loop('e2 = Identity(d2) t2 = Mul(s2, s2)', 'n, , a')}"
     .replace("b (int64 i, bool d, float[2,2] s) => (bool e, float[2,2] t) { e2",
              "b2 (int64 i2, bool d2, float[2,2] s2) => (bool e2, float[2,2] t2) { e2")),
    ("the order of rows", ROWS, _scan("t = Add(s, u) o = Exp(t)"),
     _scan("t = Add(s, u) o = Exp(t)", ", scan_input_directions = [1]")),
    ("the order of results", ROWS, _scan("t = Add(s, u) o = Exp(t)"),
     _scan("t = Add(s, u) o = Exp(t)", ", scan_output_directions = [1]")),
    ("the row before", ROWS, _scan("t = Add(s, u) o = Exp(t)"), _scan("t = Add(s, u) o = Exp(s)")),
    ("the last value and all values", "(float[n,2] x, float[2] z) => (float[2] y)",
     _scan("t = Add(s, u) o = Exp(t)", results="y, r"),
     _scan("t = Mul(s, u) o = Exp(t)", results="y, r")),
)  # fmt: skip
"""Also checked to differ in onnxruntime."""
FAILING: Final = (
    ("sizes that a branch requires", "(float[n] x, float[m] z, bool c) => (float[A] y)",
     _if("a = Add(x, z) p = Sub(a, z)", "q = Abs(x)"), "a = Add(x, z) b = Sub(a, z) d = Abs(x) "
     "y = Where(c, b, d)"),
    ("a shape for equal sizes only", "(float[n] x, float[m] z, bool c) => (float[A] y)",
     _if("s = Shape(x) p = Expand(x, s)", "q = Abs(x)"),
     _if("s = Shape(z) p = Expand(x, s)", "q = Abs(x)")),
    ("a division that may not run", "(int64[2] x, int64[2] z, int64 n) => (int64[2] y)",
     "y = Loop(n, , x) <body = b (int64 i, bool d, int64[2] s) => (bool e, int64[2] t) "
     "{ e = Identity(d) a = Div(x, z) t = Add(s, a) }>",
     "a = Div(x, z) y = Loop(n, , x) <body = b (int64 i, bool d, int64[2] s) "
     "=> (bool e, int64[2] t) { e = Identity(d) t = Add(s, a) }>"),
    ("a read that only a branch has", "(float[n] x, int64[k] i, bool c) => (float[A] y)",
     "y = If (c) <then_branch = t () => (float[k] p) { p = Gather(x, i) }, "
     "else_branch = e () => (float[k] q) { g = Cast <to = 1> (i) q = Abs(g) }>",
     "p = Gather(x, i) y = If (c) <then_branch = t () => (float[k] r) { r = Identity(p) }, "
     "else_branch = e () => (float[k] q) { g = Cast <to = 1> (i) q = Abs(g) }>"),
    ("a shape that grows", "(float[2] x, int64 n) => (float[A] y)",
     "y = Loop(n, , x) <body = b (int64 i, bool d, float[k] s) => (bool e, float[l] t) "
     "{ e = Identity(d) t = Concat <axis = 0> (s, s) }>",
     "y = Loop(n, , x) <body = b (int64 i, bool d, float[k] s) => (bool e, float[l] t) "
     "{ e = Identity(d) t = Concat <axis = 0> (s, x) }>"),
    ("a type that changes", "(float[2] x, int64 n) => (float[2] y)",
     "y = Identity(x)",
     "y = Loop(n, , x) <body = b (int64 i, bool d, float[2] s) => (bool e, double[2] t) "
     "{ e = Identity(d) t = Cast <to = 11> (s) }>"),
    ("another declared shape", "(float[2] x, int64 n) => (float[2] y)",
     "y = Loop(n, , x) <body = b (int64 i, bool d, float[2] s) => (bool e, float[2] t) "
     "{ e = Identity(d) t = Exp(s) }>",
     "y = Loop(n, , x) <body = b (int64 i, bool d, float[3] s) => (bool e, float[3] t) "
     "{ e = Identity(d) t = Exp(s) }>"),
    ("a body that never runs and is not valid", "(float[2] x) => (float[2] y) <int64 n = {0}>",
     "y = Identity(x)",
     "y = Loop(n, , x) <body = b (int64 i, bool d, float[2] s) => (bool e, float[2] t) "
     "{ e = Identity(d) t = Cast <to = 11> (s) }>"),
    ("a branch that never runs and is not valid", "(float[2] x) => (float[2] y) <bool c = {1}>",
     "y = Neg(x)", "y = If (c) <then_branch = t () => (float[2] p) { p = Neg(x) }, "
     "else_branch = e () => (float[2] q) { q = Neg(unknown) }>"),
    ("a name of two values", "(float[2] x, int64 n) => (float[2] y)",
     "a = Neg(x) y = Loop(n, , x) <body = b (int64 i, bool d, float[2] s) "
     "=> (bool e, float[2] t) { e = Identity(d) t = Mul(s, a) }>",
     "a = Neg(x) y = Loop(n, , x) <body = b (int64 i, bool d, float[2] s) "
     "=> (bool e, float[2] t) { e = Identity(d) a = Neg(x) t = Mul(s, a) }>"),
)  # fmt: skip


def _proof(signature: str, before: str, after: str) -> Proof:
    first, second = (parse(f"g {signature} {{ {nodes} }}") for nodes in (before, after))
    return prove_models(first, second)


def _feeds(signature: str) -> list[dict[str, Any]]:
    """Values of the inputs: few and many iterations, both answers of a condition."""
    vectors = "float[n] x" in signature
    return [
        {
            name: value
            for name, value in {
                "x": X[0] if vectors else X,
                "z": Z[0] if vectors or "float[2] z" in signature else Z,
                "n": np.array(trips),
                "c": np.array(answer),
            }.items()
            if f" {name}" in signature.partition("=>")[0]
        }
        for trips in (0, 1, 3)
        for answer in (True, False)
    ]


def _results(signature: str, nodes: str) -> list[np.ndarray]:
    model = parse(f"g {signature} {{ {nodes} }}")
    return [run(model, feeds)[0] for feeds in _feeds(signature)]


@pytest.mark.parametrize(("name", "signature", "before", "after"), EQUAL)
def test_equal(name: str, signature: str, before: str, after: str) -> None:
    assert _proof(signature, before, after).grade == "same bits", name
    for first, second in zip(_results(signature, before), _results(signature, after), strict=True):
        np.testing.assert_array_equal(first, second)


@pytest.mark.parametrize(("name", "signature", "before", "after"), DIFFERENT)
def test_different(name: str, signature: str, before: str, after: str) -> None:
    assert _proof(signature, before, before).grade == "same bits", name
    assert _proof(signature, after, after).grade == "same bits", name
    assert not _proof(signature, before, after).is_proved, name
    assert not _proof(signature, after, before).is_proved, name
    pairs = zip(_results(signature, before), _results(signature, after), strict=True)
    assert not all(np.array_equal(first, second) for first, second in pairs), name


@pytest.mark.parametrize(("name", "signature", "before", "after"), FAILING)
def test_failing(name: str, signature: str, before: str, after: str) -> None:
    assert not _proof(signature, before, after).is_proved, name


def test_a_matmul_of_all_rows() -> None:
    signature = "(float[n,2] x, float[2] z, float[2,2] w) => (float[A,2] y)"
    step = _scan("a = MatMul(u, w) t = Add(s, a) o = Exp(t)")
    whole = _scan("t = Add(s, u) o = Exp(t)", operands="z, v")
    assert _proof(signature, step, f"v = MatMul(x, w) {whole}").grade == "over real numbers"
    assert not _proof(signature, step, f"v = MatMul(w, x) {whole}").is_proved


def test_what_a_branch_requires_fails_outside_of_it() -> None:
    _, signature, before, after = FAILING[0]
    feeds = {"x": X[0], "z": np.ones(3, np.float32), "c": np.array(False)}
    run(parse(f"g {signature} {{ {before} }}"), feeds)
    with pytest.raises(onnxruntime.capi.onnxruntime_pybind11_state.Fail):
        run(parse(f"g {signature} {{ {after} }}"), feeds)
