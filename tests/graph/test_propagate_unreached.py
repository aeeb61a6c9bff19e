import numpy as np
import pytest

from tests.passes.test_fold import reasons
from tests.support import parse, run, same_results, types
from xoptim.api.optimizing import optimize
from xoptim.engine.events import Event

BRANCHES = (
    "agraph (float[2,3] x, bool c) => (float[a,b] y) <int64[1] one = {{1}}> {{ "
    "y = If(c) < then_branch = yes () => (float[d,e] p) {{ {body} }}, else_branch = no () "
    "=> (float[2,3] q) {{ q = Neg(x) }}> }}"
)


@pytest.mark.parametrize(
    "body",
    [
        "m = Neg(one) k = Sub(one, m) s = Concat<axis = 0>(m, k, k, m) p = Reshape(x, s)",
        "k = Add(one, one) p = Squeeze(x, k)",
        "k = Add(one, one) p = Tile(x, k)",
        "k = Add(one, one) s = Concat<axis = 0>(k, k) p, r = Split<axis = 1>(x, s)",
        "m = Neg(one) k = ConstantOfShape(m) p = Add(k, x)",
        (
            "e = Cast<to = 1>(one) k = Sub(e, e) s = Concat<axis = 0>(k, k) n = Neg(s) "
            "p = Resize(x, , n)"
        ),
        "m = Sub(one, one) n = Sub(m, one) s = Concat<axis = 0>(n, one) p = Resize(x, , , s)",
        # the node that fails comes later
        (
            "z = Squeeze(one) k = Sub(z, z) r = Range(k, z, z) t = Cast<to = 1>(r) u = Add(t, t) "
            "w = Exp(u) v = Concat<axis = 0>(w, w) p = Add(x, v)"
        ),
    ],
)
def test_a_branch_that_is_never_taken_stays_loadable(body: str) -> None:
    """A runtime that infers the shapes of a branch with such a constant refuses the model."""
    heard: list[Event] = []
    before = parse(BRANCHES.format(body=body))
    after = optimize(before, on_event=heard.append, strict=True)
    same_results(before, after, {"x": np.ones((2, 3), np.float32), "c": np.array(False)})
    assert any("for certain" in reason for reason in reasons(heard))


def test_a_branch_that_may_be_taken_is_folded() -> None:
    body = "m = Neg(one) k = Sub(one, m) s = Concat<axis = 0>(m, k) p = Reshape(x, s)"
    before = parse(BRANCHES.format(body=body))
    after = optimize(before)
    branch = next(a.g for a in after.graph.node[0].attribute if a.name == "then_branch")
    assert [node.op_type for node in branch.node] == ["Reshape"]
    for taken in (False, True):
        same_results(before, after, {"x": np.ones((2, 3), np.float32), "c": np.array(taken)})


def test_a_constant_around_such_a_branch_is_left() -> None:
    before = parse(
        "agraph (float[2,3] x, bool c) => (float[a,b] y) <int64[1] one = {1}> { k = Add(one, one) "
        "y = If(c) < then_branch = yes () "
        "=> (float[d,e] p) { p = Tile(x, k) }, else_branch = no () => (float[2,3] q) { "
        "q = Neg(x) }> }"
    )
    same_results(
        before,
        optimize(before, strict=True),
        {"x": np.ones((2, 3), np.float32), "c": np.array(False)},
    )


NEUTRAL = {
    "copy": "k = Identity({v})",
    "product": "k = Mul({v}, one)",
    "sum": "k = Add(zero, {v})",
    "conversion": "k = Cast<to = 7>({v})",
    "part": "k = Concat<axis = 0>({v})",
    "twice": "n = Neg({v}) k = Neg(n)",
    "axis": "u = Unsqueeze({v}, zero) k = Squeeze(u, zero)",
    "branch": (
        "k = If(c) <then_branch = s () => (int64[n] v) {{ v = Identity({v}) }}, "
        "else_branch = t () => (int64[n] w) {{ w = Identity({v}) }}>"
    ),
}
FAILING = {
    "bad": "p = Reshape(x, k)",
    "two": "p = Squeeze(x, k)",
    "fives": "p, r = Split<axis = 1>(x, k)",
}


@pytest.mark.parametrize("maker", NEUTRAL)
@pytest.mark.parametrize("outside", [True, False], ids=["around the branch", "in the branch"])
def test_a_copy_of_a_constant_stays_in_front_of_a_node_that_is_never_reached(
    maker: str, outside: bool
) -> None:
    """Without the neutral operator the node reads a stored constant, and runtimes refuse to load
    the model.
    """
    for name, reader in FAILING.items():
        nodes = NEUTRAL[maker].format(v=name)
        around, inside = (nodes, reader) if outside else ("", f"{nodes} {reader}")
        before = parse(
            "agraph (float[2,3] x, bool c) "
            "=> (float[a,b] y) <int64[1] one = {1}, int64[1] zero = {0}, int64[1] two = {2}, "
            f"int64[4] bad = {{-1, 2, 2, -1}}, int64[2] fives = {{5, 5}}> {{ {around} "
            "y = If(c) < then_branch = yes () "
            f"=> (float[d,e] p) {{ {inside} }}, else_branch = no () => (float[2,3] q) {{ "
            "q = Neg(x) }> }"
        )
        once = optimize(before, strict=True)
        same_results(before, once, {"x": np.ones((2, 3), np.float32), "c": np.array(False)})
        assert optimize(once, strict=True) == once


def test_a_shape_to_solve_next_to_an_empty_axis_stays_computed() -> None:
    """Onnxruntime solves for it at run time, but refuses to load it."""
    before = parse(
        "agraph (float[a,3] x) => (float[b,c] y) <int64[1] o = {0}, int64[1] m = {-1}> "
        "{ t = Concat<axis = 0>(o, m) y = Reshape<allowzero = 1>(x, t) }"
    )
    same_results(before, optimize(before, strict=True), {"x": np.ones((0, 3), np.float32)})


def test_axes_of_a_pad_in_32_bits_stay_computed() -> None:
    """Onnxruntime runs such a Pad, but refuses to load it with constant axes."""
    before = parse(
        "agraph (float[a,3] x) => (float[a,5] y) <int64[2] p = {1, 1}, int64[1] k = {1}> "
        "{ t = Cast<to = 6>(k) y = Pad(x, p, , t) }"
    )
    same_results(before, optimize(before, strict=True), {"x": np.ones((2, 3), np.float32)})


def test_a_shape_that_is_an_attribute() -> None:
    before = parse(
        "agraph (float[2,2] x) => (float[2,2] y) <float[4] k = {1, 2, 3, 4}> "
        "{ t = Neg(k) r = Reshape<shape = [2, 2]>(t) y = Gemm(x, r, r) }",
        1,
    )
    assert types(optimize(before, strict=True)) == ["Gemm"]


def test_constants_of_the_main_graph_are_folded() -> None:
    """The nodes of the main graph all run, so that a model with such a node is of no use."""
    before = parse(
        "agraph (float[2,3] x) => (float[a,b] y) <int64[1] one = {1}> { k = Add(one, one) "
        "y = Tile(x, k) }"
    )
    assert types(optimize(before)) == ["Tile"]
    with pytest.raises(Exception, match="Tile"):
        run(before, {"x": np.ones((2, 3), np.float32)})
