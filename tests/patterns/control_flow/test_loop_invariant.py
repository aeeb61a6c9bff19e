"""Loops that may not run at all, names that clash, and what is known behind a loop."""

from typing import Any

import numpy as np
import pytest

import xoptim
from tests.support import parse, run, types

_X = np.array([1, 2, 3], np.float32)


@pytest.mark.parametrize(
    ("inside", "feeds"),
    [
        ("q = Div(k, l) r = Cast <to = 1> (q)", {"k": np.array(3), "l": np.array(0)}),
        ("r = Gather(z, k)", {"k": np.array(9), "l": np.array(0)}),
        ("r = Reshape(z, u)", {"k": np.array(3), "l": np.array(0)}),
    ],
)
def test_a_loop_that_does_not_run_raises_no_error(inside: str, feeds: dict[str, Any]) -> None:
    model = parse(
        "agraph (float[3] x, float[3] z, int64 n, int64 k, int64 l) "
        "=> (float[a] y) <int64[1] u = {2}, int64[1] o = {0}> { "
        "y = Loop(n, , x) < body = round (int64 i, bool d, float[a] s) "
        f"=> (bool e, float[a] t) {{ e = Identity(d) {inside} t = Add(s, r) }}> }}"
    )
    after = xoptim.optimize(model, strict=True)
    for before in (model, after):
        (y,) = run(before, {"x": _X, "z": _X, "n": np.array(0), **feeds})
        np.testing.assert_array_equal(y, _X)


def test_the_sizes_of_an_empty_stack_stay() -> None:
    model = parse(
        "agraph (float[3] x, float[3] z, int64 n) => (float[a,b] y) { p, y = Loop(n, , x) < "
        "body = round (int64 i, bool d, float[c] s) => (bool e, float[c] t, float[c] u) "
        "{ e = Identity(d) t = Identity(s) m = Neg(z) u = Add(s, m) }> }"
    )
    feeds = {"x": _X, "z": _X, "n": np.array(0)}
    (before,), (after,) = run(model, feeds), run(xoptim.optimize(model, strict=True), feeds)
    assert before.shape == after.shape


def test_results_get_names_that_no_other_subgraph_has() -> None:
    model = parse(
        "agraph (float[3] x, bool c) => (float[3] y, float[3] z) { y = If(c) < "
        "then_branch = yes () => (float[3] p) { t = Exp(x) p = Relu(t) }, "
        "else_branch = no () => (float[3] q) { t = Exp(x) q = Neg(t) }> z = If(c) < "
        "then_branch = yes2 () => (float[3] p) { t = Sin(x) p = Relu(t) }, "
        "else_branch = no2 () => (float[3] q) { t = Cos(x) q = Neg(t) }> }"
    )
    after = xoptim.optimize(model, strict=True)
    assert types(after) == ["Exp", "If", "If"]
    for flag in (False, True):
        feeds = {"x": _X, "c": np.array(flag)}
        np.testing.assert_array_equal(run(model, feeds), run(after, feeds))
