"""Sizes that the original requires, where it reads them as integers that may wrap around."""

from __future__ import annotations

from typing import Final

import pytest

from tests.support import parse
from xoptim.proof.proving import Proof, prove_models

CONVERTED: Final = "d = Shape <end = 1> (x) i = Cast <to = 6> (d) k = Cast <to = 7> (i)"
"""The first size of ``x``, converted to 32 bits and back."""
FOUR: Final = "int64[1] f = {4}, int64[1] o = {1}, int64[1] z = {0}, int64[1] m = {-1}"
EYE: Final = "y = Identity(x)"
PROVED: Final = (
    ("(float[N,4] x) => (float[A,B] y)", "s = Concat <axis = 0> (k, f) y = Reshape(x, s)", EYE),
    (
        "(float[N,2,2] x) => (float[A,B] y)",
        "s = Concat <axis = 0> (k, f) y = Reshape(x, s)",
        "s = Concat <axis = 0> (m, f) y = Reshape(x, s)",
    ),
    (
        "(float[N,M,4] x) => (float[A,B] y)",
        "p = ReduceProd <keepdims = 1> (e) e = Shape <end = 2> (x) s = Concat <axis = 0> (p, f) "
        "y = Reshape(x, s)",
        "s = Concat <axis = 0> (m, f) y = Reshape(x, s)",
    ),
    ("(float[N,4] x) => (float[A,B] y)", "s = Concat <axis = 0> (k, f) y = Expand(x, s)", EYE),
    (
        "(float[N,4] x) => (float[A,B] y)",
        "s = Concat <axis = 0> (k, f) r = Reshape(x, s) y = Neg(r)",
        "s = Concat <axis = 0> (k, f) n = Neg(x) y = Reshape(n, s)",
    ),
    (
        "(float[N,M,4] x) => (float[A,B,C] y) <int64[3] t = {0, 1, 4}>",
        "n = Neg(x) y = Reshape(n, t)",
        "r = Reshape(x, t) y = Neg(r)",
    ),
    (
        "(float[N,1,4] x) => (float[A,B,C] y) <int64[3] t = {-1, 2, 2}>",
        "s = Concat <axis = 0> (o, o, f) r = Reshape(x, s) y = Reshape(r, t)",
        "y = Reshape(x, t)",
    ),
)
ONLY_RUN: Final = (
    # of 2^32 + 2 rows, two rows are made
    (
        "(float[N,4] x) => (float[A,B] y)",
        "s = Concat <axis = 0> (k, m) y = Reshape(x, s)",
        "y = Identity(x)",
    ),
    # the result may fail where the original does not
    ("(float[N,4] x) => (float[A,B] y)", EYE, "s = Concat <axis = 0> (k, f) y = Reshape(x, s)"),
    ("(float[N,4] x) => (float[A,B] y)", EYE, "s = Concat <axis = 0> (k, f) y = Expand(x, s)"),
    (
        "(float[N,4] x) => (float[A,B] y)",
        "s = Concat <axis = 0> (k, f) y = Expand(x, s)",
        "s = Concat <axis = 0> (k, f) y = Reshape(x, s)",
    ),
    # a branch that may never run
    (
        "(float[N,4] x, bool c) => (float[A,B] y)",
        "y = If (c) <then_branch = t () => (float[N,4] p) { s = Concat <axis = 0> (k, f) "
        "p = Reshape(x, s) }, else_branch = e () => (float[N,4] q) { q = Identity(x) }>",
        EYE,
    ),
    # two of its sizes are integers
    (
        "(float[N,4] x) => (float[A,B] y)",
        "e = Shape <start = 1> (x) u = Add(k, e) s = Concat <axis = 0> (k, u) y = Reshape(x, s)",
        EYE,
    ),
    # a size of 1 becomes 2
    (
        "(float[N] x) => (float[A] y)",
        "u = Add(k, k) y = Expand(x, u)",
        EYE,
    ),
    # a row becomes several
    (
        "(float[N,4] x, float[1,4] w) => (float[A,B] y)",
        "s = Concat <axis = 0> (k, f) y = Expand(w, s)",
        "y = Identity(w)",
    ),
    # the second size does not have to be 1
    (
        "(float[N,M,4] x) => (float[A,B,C] y) <int64[3] t = {0, -1, 4}, int64[3] u = {0, 1, 4}>",
        "n = Neg(x) y = Reshape(n, t)",
        "r = Reshape(x, u) y = Neg(r)",
    ),
    (
        "(float[N,M,4] x) => (float[A,B,C] y) <int64[3] t = {0, 1, 4}, int64[3] u = {0, 2, 2}>",
        "n = Neg(x) y = Reshape(n, t)",
        "r = Reshape(x, u) y = Neg(r)",
    ),
)


def _proof(signature: str, before: str, after: str) -> Proof:
    head, _, constants = signature.partition(" <")
    constants = f"{FOUR}, {constants}" if constants else f"{FOUR}>"
    first, second = (
        parse(f"g {head} <{constants} {{ {CONVERTED} {text} }}", 18) for text in (before, after)
    )
    return prove_models(first, second)


@pytest.mark.parametrize(("signature", "before", "after"), PROVED)
def test_what_the_original_requires_of_integers(signature: str, before: str, after: str) -> None:
    assert _proof(signature, before, after).grade == "same bits"


@pytest.mark.parametrize(("signature", "before", "after"), ONLY_RUN)
def test_what_the_original_does_not_require(signature: str, before: str, after: str) -> None:
    assert not _proof(signature, before, after).is_proved


LSTM: Final = (
    "(float[L,N,3] x, float[1,8,3] w, float[1,8,2] r) => (float[A,B,C,D] y) "
    "<int64[1] o = {1}, int64[1] h = {2}, float z = {0}, float u = {1}>"
)


def _lstm_proof(value: str) -> Proof:
    before = (
        "d = Shape <start = 1, end = 2> (x) i = Cast <to = 6> (d) k = Cast <to = 7> (i) "
        f"s = Concat <axis = 0> (o, k, h) e = Expand({value}, s) "
        'y = LSTM <hidden_size = 2> (x, w, r, "", "", e, e)'
    )
    after = "y = LSTM <hidden_size = 2> (x, w, r)"
    first, second = (parse(f"g {LSTM} {{ {text} }}", 18) for text in (before, after))
    return prove_models(first, second)


def test_states_of_a_converted_size() -> None:
    assert _lstm_proof("z").grade == "same bits"
    assert not _lstm_proof("u").is_proved
