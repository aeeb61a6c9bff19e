"""If, Loop, Scan, SequenceMap."""

from collections.abc import Sequence

import numpy as np
import pytest
from onnx import TensorProto

from tests.operators.inference.context import infer
from tests.operators.inference.nested import check_model
from tests.operators.inference.oracle import tensor
from tests.support import node_of, parse, run
from xoptim import optimize
from xoptim.facts.dims import SymbolicDim, fresh, named
from xoptim.facts.shapes import UNKNOWN, Info
from xoptim.graph.load import load_model

N, M = named("n"), named("m")
F32 = np.float32


def anonymous(info: Info) -> list[bool]:
    assert info.shape is not None
    return [isinstance(d, SymbolicDim) and d.is_anonymous for d in info.shape]


def zeros(*shape: int) -> np.ndarray:
    return np.zeros(shape, dtype=F32)


def test_if_keeps_what_both_branches_agree_on() -> None:
    text = """g (bool c, float[n, 3, m] x) => (y) {
        y = If (c) <
            then_branch = a () => (u)
              { s = Constant <value = int64[1] {2}> () u = Split <axis = 2> (x) },
            else_branch = b () => (v) { v = Neg (x) }
        >
    }"""
    text = text.replace(
        "s = Constant <value = int64[1] {2}> () u = Split <axis = 2> (x)",
        "u = Concat <axis = 2> (x, x)",
    )
    info = check_model(text, [{"c": np.array(c), "x": zeros(2, 3, 4)} for c in (True, False)])[0]
    assert info.shape is not None
    assert info.shape[:2] == (N, 3)
    assert anonymous(info) == [False, False, True]


def test_if_with_other_ranks_and_captured_values() -> None:
    text = """g (bool c, float[n, 3] x) => (y, z) {
        y, z = If (c) <
            then_branch = a () => (u, p) { u = ReduceSum <keepdims = 0> (x) p = Relu (x) },
            else_branch = b () => (v, q) { v = Neg (x) q = Abs (x) }
        >
    }"""
    infos = check_model(text, [{"c": np.array(c), "x": zeros(2, 3)} for c in (True, False)])
    assert infos == [Info(TensorProto.FLOAT), tensor("n", 3)]


def test_if_with_a_known_condition_is_one_branch() -> None:
    text = """g (float[n, 3] x) => (y) {
        r = Shape (x)
        k = Size (r)
        two = Constant <value = int64 {2}> ()
        c = Equal (k, two)
        y = If (c) <
            then_branch = a () => (u) { u = Concat <axis = 0> (x, x) },
            else_branch = b () => (v) { v = Neg (x) }
        >
    }"""
    assert check_model(text, [{"x": zeros(4, 3)}])[0].shape == (N * 2, 3)


def test_if_of_malformed_branches() -> None:
    def then_branch(_: object) -> list[Info]:
        return [tensor("n"), tensor("n")]

    def else_branch(_: object) -> list[Info]:
        return [tensor("n", dtype=7)]

    bodies = {"then_branch": then_branch, "else_branch": else_branch}
    assert infer("If", [UNKNOWN], bodies=bodies, num_outputs=2) == [UNKNOWN, UNKNOWN]
    assert infer("If", [UNKNOWN], num_outputs=2) == [UNKNOWN, UNKNOWN]
    assert infer("If", [UNKNOWN], bodies={"then_branch": then_branch}) == [UNKNOWN]


LOOP = """g (int64 k, float[n, 3] x, float[m] y) => (p, q, r) {
    t = Constant <value = bool {1}> ()
    p, q, r = Loop (k, %s, x, y) <body = b (int64 i, bool go, float[a, b2] u, float[c] v) => (more,
      uu, vv, w) {
        more = %s
        uu = Relu (u)
        vv = Concat <axis = 0> (v, y)
        w = ReduceSum <keepdims = 0> (uu, i)
    }>
}"""


@pytest.mark.parametrize(
    ("condition", "more", "exact"),
    [
        ("", "Identity (go)", True),
        ("", "Less (i, k)", False),
        ("t", "Identity (go)", True),
        ("t", "Identity (t)", True),
        ("t", "Less (i, k)", False),
    ],
)
def test_loop(condition: str, more: str, exact: bool) -> None:
    text = LOOP % (condition, more)
    feeds = [{"k": np.array(k), "x": zeros(2, 3), "y": zeros(5)} for k in (1, 2)]
    infos = check_model(text.replace("w = ReduceSum <keepdims = 0> (uu, i)", "w = Neg (uu)"), feeds)
    assert infos[0] == tensor("n", 3)
    assert anonymous(infos[1]) == [True]
    assert infos[2].shape is not None
    assert infos[2].shape[1:] == (N, 3)
    assert isinstance(infos[2].shape[0], SymbolicDim)
    # The number of iterations is M where nothing else ends the loop; M itself is an input here.
    fixed = text.replace("int64 k, ", "").replace(
        "t = Const", "k = Constant <value = int64 {4}> () t = Const"
    )
    fixed = fixed.replace("w = ReduceSum <keepdims = 0> (uu, i)", "w = Neg (uu)")
    trips = (check_model(fixed, [{"x": zeros(2, 3), "y": zeros(5)}], strict=exact)[2].shape or ())[
        0
    ]
    assert (trips == 4) is exact


def test_loop_over_a_dimension() -> None:
    text = """g (float[n, 3] x) => (r) {
        s = Shape <start = 0, end = 1> (x)
        z = Constant <value_ints = [0]> ()
        k = Squeeze (s, z)
        t = Constant <value = bool {1}> ()
        r = Loop (k, t) <body = b (int64 i, bool go) => (go, w) { w = Gather (x, i) }>
    }"""
    text = text.replace("=> (go, w) { w", "=> (more, w) { more = Identity (go) w")
    assert check_model(text, [{"x": zeros(4, 3)}, {"x": zeros(1, 3)}])[0] == tensor("n", 3)


def test_loop_that_changes_a_rank() -> None:
    text = """g (int64 k, float[n] x) => (p) {
        t = Constant <value = bool {1}> ()
        z = Constant <value_ints = [0]> ()
        p = Loop (k, t, x) <body = b (int64 i, bool go, float u) => (more, uu) {
            more = Identity (go)
            uu = Unsqueeze (u, z)
        }>
    }""".replace("float u)", "u)")
    assert check_model(text, [{"k": np.array(k), "x": zeros(3)} for k in (0, 2)], strict=False) == [
        Info(1)
    ]


def test_loop_whose_dimensions_depend_on_each_other() -> None:
    """The second value changes only after the first one has: one round is not enough."""
    text = """g (int64 k, float[n] x, float[n] y) => (p, q) {
        t = Constant <value = bool {1}> ()
        p, q = Loop (k, t, x, y) <body = b (int64 i, bool go, float[a] u, float[c] v) => (more, uu,
          vv) {
            more = Identity (go)
            uu = Concat <axis = 0> (u, x)
            vv = Identity (u)
        }>
    }"""
    infos = check_model(text, [{"k": np.array(k), "x": zeros(3), "y": zeros(3)} for k in (0, 1, 3)])
    assert [anonymous(info) for info in infos] == [[True], [True]]
    assert infos[0].shape != infos[1].shape


def test_loop_counter_loses_its_value() -> None:
    text = """g (int64 k) => (p) {
        t = Constant <value = bool {1}> ()
        one = Constant <value = int64 {1}> ()
        p = Loop (k, t, one) <body = b (int64 i, bool go, int64 u) => (more, uu) {
            more = Identity (go)
            uu = Add (u, one)
        }>
    }"""
    assert check_model(text, [{"k": np.array(k)} for k in (0, 5)]) == [Info(TensorProto.INT64, ())]


def test_loop_that_never_settles() -> None:
    """A body that answers differently each time: its facts are given up in the end."""

    def body(given: Sequence[Info | None] | None) -> list[Info]:
        first = (given or [])[2] or UNKNOWN
        return [Info(9), Info(1 if first.dtype != 1 else 7, (*(first.shape or ()), fresh()))]

    initial = tensor("n", 3)
    assert infer("Loop", [UNKNOWN, None, initial], bodies={"body": body}) == [UNKNOWN]


def test_loop_of_malformed_nodes() -> None:
    assert infer("Loop", []) == [UNKNOWN]
    assert infer("Loop", [UNKNOWN, UNKNOWN, tensor("n")], num_outputs=2)[1] == UNKNOWN


@pytest.mark.parametrize("opset", [9, 11, 16])
def test_scan(opset: int) -> None:
    text = """g (float[3] h, float[n, 3] x, float[m, n] z) => (p, q, r) {
        p, q, r = Scan <num_scan_inputs = 2, scan_input_axes = [0, 1], scan_output_axes = [1, 0],
            scan_input_directions = [0, 1], body = b (float[3] u, float[3] a, float[m] c) => (uu, v,
              w) {
            uu = Add (u, a)
            v = Neg (c)
            w = Concat <axis = 0> (u, c)
        }> (h, x, z)
    }"""
    feeds = [{"h": zeros(3), "x": zeros(n, 3), "z": zeros(2, n)} for n in (1, 4)]
    infos = check_model(text, feeds, opset=opset)
    assert infos == [tensor(3), Info(1, (M, N)), Info(1, (N, M + 3))]


def test_scan_keeps_the_shape_of_carried_values() -> None:
    """The definition of the operator asks for it, so it need not follow from the body."""
    text = """g (float[m] h, float[n, c] x) => (p, q) {
        p, q = Scan <num_scan_inputs = 1, body = b (float[m] u, float[c] a) => (uu, v) {
            uu = Add (u, a)
            v = Identity (uu)
        }> (h, x)
    }"""
    infos = check_model(text, [{"h": zeros(3), "x": zeros(4, 3)}], opset=16)
    assert infos[0] == tensor("m")
    assert infos[1].rank == 2


def test_scan_with_negative_axes() -> None:
    text = """g (float[m, n] x) => (r) {
        r = Scan <num_scan_inputs = 1, scan_input_axes = [-1], scan_output_axes = [-1],
            body = b (float[m] a) => (w) { w = Neg (a) }> (x)
    }"""
    assert check_model(text, [{"x": zeros(2, 5)}], opset=11)[0] == tensor("m", "n")


def test_batched_scan() -> None:
    text = """g (float[b, 3] h, float[b, n, 3] x) => (p, q) {
        p, q = Scan <num_scan_inputs = 1, body = s (float[3] u, float[3] a) => (uu, v) {
            uu = Add (u, a)
            v = Concat <axis = 0> (u, a)
        }> ( , h, x)
    }"""
    infos = check_model(text, [{"h": zeros(2, 3), "x": zeros(2, 4, 3)}], opset=8)
    assert infos == [tensor("b", 3), tensor("b", "n", 6)]


def test_scan_of_malformed_nodes() -> None:
    assert infer("Scan", [tensor("n")]) == [UNKNOWN]
    assert infer("Scan", [tensor("n")], {"num_scan_inputs": 5}) == [UNKNOWN]
    assert infer("Scan", [tensor("n")], {"num_scan_inputs": 1, "scan_input_axes": [4]}) == [UNKNOWN]


def test_sequence_map() -> None:
    text = """g (float[n, 3] x, float[m, 3] y, float[3] z) => (seq(float) r, float one) {
        s = SequenceConstruct (x, y)
        k = Constant <value = int64 {0}> ()
        r = SequenceMap <body = b (float[a, 3] u, float[3] v) => (float[a,
          3] w) { w = Add (u, v) }> (s, z)
        one = SequenceAt (r, k)
    }"""
    infos = check_model(text, [{"x": zeros(2, 3), "y": zeros(5, 3), "z": zeros(3)}], strict=False)
    assert infos[0].container == "sequence"
    assert anonymous(infos[1]) == [True, False]


@pytest.mark.parametrize("declared", ["n", "2"])
def test_a_body_may_declare_the_sizes_of_the_first_iteration(declared: str) -> None:
    """onnxruntime ignores the declaration, so the sizes are not those in later iterations."""
    model = parse(
        """agraph (float[n,3] x, int64 k) => (y, z) <bool t = {1}> {
        y, z = Loop (k, t, x) <body = b (int64 i, bool go, float[SIZE,3] u) => (more, uu, w) {
            more = Identity (go)
            uu = Concat <axis = 0> (u, x)
            w = Shape (u)
        }>
    }""".replace("SIZE", declared)
    )
    body = node_of(load_model(model).graph, "Loop").bodies["body"]
    assert anonymous(body.info_of("u")) == [True, False]
    feeds = {"x": zeros(2, 3), "k": np.array(2)}
    for expected, result in zip(run(model, feeds), run(optimize(model), feeds), strict=True):
        np.testing.assert_array_equal(result, expected)


def test_nested_loops_and_branches() -> None:
    text = """g (int64 k, bool c, float[n, 3] x) => (p) {
        t = Constant <value = bool {1}> ()
        p = Loop (k, t, x) <body = b (int64 i, bool go, float[a, d] u) => (more, uu) {
            more = Identity (go)
            uu = If (c) <
                then_branch = f () => (v) { v = Concat <axis = 0> (u, x) },
                else_branch = h () => (w) { w = Relu (u) }
            >
        }>
    }"""
    feeds = [{"k": np.array(2), "c": np.array(c), "x": zeros(2, 3)} for c in (True, False)]
    assert anonymous(check_model(text, feeds)[0]) == [True, False]
