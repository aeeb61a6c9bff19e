"""Inputs of unknown rank."""

from __future__ import annotations

from typing import Final

import pytest

from tests.support import parse
from xoptim.proof.proving import Proof, prove_models

SIZE: Final = "(float[] x) => (int64[A] y) <int64 i = {0}, int64[1] o = {0}, int64[1] k = {1}>"
SAME: Final = (
    (SIZE, "s = Shape(x) g = Gather(s, i) y = Unsqueeze(g, o)", "s = Shape(x) y = Gather(s, o)"),
    ("(float[] x) => (float[] y)", "y = Cast <to = 1> (x)", "y = Identity(x)"),
    ("(float16[] x) => (float16[] y)", "a = Cast <to = 1> (x) y = Cast <to = 10> (a)",
     "y = Identity(x)"),
)  # fmt: skip
ONLY_RUN: Final = (
    (SIZE, "s = Shape(x) g = Gather(s, i) y = Unsqueeze(g, o)", "s = Shape(x) y = Gather(s, k)"),
    (SIZE, "s = Shape(x) g = Gather(s, i) y = Unsqueeze(g, o)",
     "s = Shape <start = 1> (x) y = Gather(s, o)"),
    # a scalar has no first size
    (SIZE, "y = Identity(k)", "s = Shape(x) z = Gather(s, o) y = Identity(k)"),
    ("(float[] x) => (float[] y)", "a = Cast <to = 10> (x) y = Cast <to = 1> (a)",
     "y = Identity(x)"),
    ("(float[] x, float[] z) => (float[] y)", "y = Identity(x)", "y = Identity(z)"),
    ("(float[] x, float[2] z) => (float[] y)", "y = Identity(x)", "y = Identity(z)"),
    ("(float[] x) => (float[] y)", "y = Identity(x)", "y = Transpose(x)"),
    ("(float[] x, int64[A] s) => (float[] y)", "y = Identity(x)", "y = Reshape(x, s)"),
    ("(float[] x) => (float[] y)", "y = Identity(x)", "y = Softmax(x)"),
)  # fmt: skip


def _proof(signature: str, before: str, after: str) -> Proof:
    first, second = (parse(f"g {signature} {{ {text} }}", 18) for text in (before, after))
    return prove_models(first, second)


@pytest.mark.parametrize(("signature", "before", "after"), SAME)
def test_equal_for_all_ranks(signature: str, before: str, after: str) -> None:
    assert _proof(signature, before, after).grade == "same bits"


@pytest.mark.parametrize(("signature", "before", "after"), ONLY_RUN)
def test_different_for_some_rank(signature: str, before: str, after: str) -> None:
    assert not _proof(signature, before, after).is_proved
