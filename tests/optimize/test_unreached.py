from __future__ import annotations

import numpy as np
import pytest

from tests.optimize.test_fold import reasons
from tests.support import parse, run, same_results, types
from xoptim.optimize.events import Event
from xoptim.optimizing import optimize

BRANCHES = (
    "agraph (float[2,3] x, bool c) => (float[a,b] y) <int64[1] one = {{1}}> {{ y = If(c) < "
    "then_branch = yes () => (float[d,e] p) {{ {body} }}, else_branch = no () => (float[2,3] q) {{ q = Neg(x) }}> }}"
)


@pytest.mark.parametrize(
    "body",
    [
        "m = Neg(one) k = Sub(one, m) s = Concat<axis = 0>(m, k, k, m) p = Reshape(x, s)",
        "k = Add(one, one) p = Squeeze(x, k)",
        "k = Add(one, one) p = Tile(x, k)",
        "k = Add(one, one) s = Concat<axis = 0>(k, k) p, r = Split<axis = 1>(x, s)",
        "m = Neg(one) k = ConstantOfShape(m) p = Add(k, x)",
        # the node that fails comes later
        "z = Squeeze(one) k = Sub(z, z) r = Range(k, z, z) t = Cast<to = 1>(r) u = Add(t, t) w = Exp(u) "
        "v = Concat<axis = 0>(w, w) p = Add(x, v)",
    ],
)
def test_a_branch_that_is_never_taken_stays_loadable(body: str) -> None:
    """A runtime that infers the shapes of a branch with such a constant refuses the model."""
    heard: list[Event] = []
    before = parse(BRANCHES.format(body=body))
    after = optimize(before, on_event=heard.append, strict=True)
    same_results(before, after, {"x": np.ones((2, 3), np.float32), "c": np.array(False)})
    assert any("would fail for certain" in reason for reason in reasons(heard))


def test_a_branch_that_may_be_taken_is_folded() -> None:
    body = "m = Neg(one) k = Sub(one, m) s = Concat<axis = 0>(m, k) p = Reshape(x, s)"
    before = parse(BRANCHES.format(body=body))
    after = optimize(before)
    branch = next(a.g for a in after.graph.node[0].attribute if a.name == "then_branch")
    assert [node.op_type for node in branch.node] == ["Reshape"]
    for taken in (False, True):
        same_results(before, after, {"x": np.ones((2, 3), np.float32), "c": np.array(taken)})


def test_constants_of_the_main_graph_are_folded() -> None:
    """The nodes of the main graph all run, so that a model with such a node is of no use."""
    before = parse("agraph (float[2,3] x) => (float[a,b] y) <int64[1] one = {1}> { k = Add(one, one) y = Tile(x, k) }")
    assert types(optimize(before)) == ["Tile"]
    with pytest.raises(Exception, match="Tile"):
        run(before, {"x": np.ones((2, 3), np.float32)})
