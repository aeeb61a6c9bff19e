"""Nodes that fail in a run that breaks an assumption."""

from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest

from tests.support import parse
from xoptim import GraphBuilder, optimize, verify
from xoptim.passes.guards import KEY

TEXT = (
    "agraph (float[b,p,w] x, float[b,?,w] z, int64[b,t] mask, float[b,n] u) "
    "=> (float[b,q,w] y, int64[b,t] k) { c = Concat <axis = 1> (x, z) y = Neg(c) k = Neg(mask) }"
)


def values(p: int = 2, w: int = 8, z: int = 1, t: int = 5, **others: Any) -> dict[str, np.ndarray]:
    feeds: dict[str, np.ndarray] = {
        "x": np.ones((1, p, w), np.float32),
        "z": np.ones((1, z, w), np.float32),
        "mask": np.ones((1, t), np.int64),
        "u": np.eye(1, 3, dtype=np.float32),
    }
    return feeds | {name: np.array(value, feeds[name].dtype) for name, value in others.items()}


@pytest.mark.parametrize(
    ("text", "good", "bad"),
    [
        ("p >= 1", [values(p=1)], [values(p=0)]),
        ("2 <= p <= 3", [values(p=2), values(p=3)], [values(p=1), values(p=4)]),
        ("w % 8 == 3", [values(w=11)], [values()]),
        ("z:1 <= 4", [values(z=0), values(z=4)], [values(z=5)]),
        ("t == p + 2*n - 3", [values()], [values(t=4)]),
        (
            "bool(mask)",
            [values(mask=[[0, 1]]), values(t=0)],
            [values(mask=[[0, 2]]), values(mask=[[-1]])],
        ),
        ("ones(mask)", [values(), values(t=0)], [values(mask=[[0, 1]]), values(mask=[[2]])]),
        ("p == 0 or w == 8", [values(p=0, w=3), values()], [values(w=3)]),
        (
            "right_padded(mask)",
            [values(mask=[[1, 0], [1, 1]])],
            [values(mask=[[0, 0]]), values(mask=[[1, 0, 1]])],
        ),
        ("sorted(mask)", [values(mask=[[-3, 5, 5]])], [values(mask=[[1, 2], [2, 1]])]),
        (
            "unit(u)",
            [values()],
            [values(u=[[1, 1, 0]]), values(u=[[0, 0, 0]]), values(u=[[np.nan, 0, 0]])],
        ),
        (
            "finite(u)",
            [values(p=0)],
            [values(u=[[np.nan]]), values(u=[[-np.inf]]), values(u=[[0, -0.0]])],
        ),
        ("finite", [values()], [values(x=[[[np.inf] * 8]])]),
    ],
)
def test_runs_that_break_an_assumption_fail(
    text: str, good: list[dict[str, Any]], bad: list[dict[str, Any]]
) -> None:
    before = parse(TEXT)
    after = optimize(before, assume=[text], guard=True, verify=True)
    onnx.checker.check_model(after)
    session = onnxruntime.InferenceSession(
        after.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    for feeds in good:
        np.testing.assert_array_equal(session.run(["k"], feeds)[0], -feeds["mask"])
    for feeds in bad:
        with pytest.raises(Exception, match="assumed: ") as error:
            session.run(None, feeds)
        assert f"'assumed: {text}'" in str(error.value)


def test_guards_are_written_again() -> None:
    before, assumed = parse(TEXT), ["p >= 1", "t == p + n", "finite(u)", "nothing"]
    reports: list[Any] = []
    first = optimize(before, assume=assumed, guard=True, report=reports.append)
    assert reports[0].unguarded == ()
    again = optimize(first, assume_from_model=True)
    assert again.SerializeToString() == first.SerializeToString()
    plain = [node.op_type for node in optimize(before, assume=assumed).graph.node]
    assert plain == [
        node.op_type
        for node in first.graph.node
        if not any(p.key == KEY for p in node.metadata_props)
    ]
    assert verify(before, first, assume_from_model=True).ok
    more = optimize(first, assume=["w >= 8"], assume_from_model=True)
    assert {"assumed: w >= 8", "assumed: p >= 1"} <= {node.name for node in more.graph.node}


def test_guards_stay_where_what_they_check_is_not_assumed() -> None:
    first = optimize(parse(TEXT), assume=["p >= 1"], guard=True)
    again = optimize(first, verify=True)
    assert "assumed: p >= 1" in {node.name for node in again.graph.node}
    session = onnxruntime.InferenceSession(
        again.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    session.run(None, values(p=1))
    with pytest.raises(Exception, match="assumed: p >= 1"):
        session.run(None, values(p=0))


def test_shapes_are_known_behind_guards() -> None:
    first = optimize(parse(TEXT), assume=["p >= 1"], guard=True)
    builder = GraphBuilder(first, assume_from_model=True)
    builder.optimize()
    assert str(builder.get_shape("y")[1]).startswith("p + ")


def test_what_cannot_be_guarded() -> None:
    reports: list[Any] = []
    text = "agraph (float[p] x, float[n] y) => (float[p] z, float[n] w) { z = Neg(x) w = Neg(y) }"
    optimize(parse(text), assume=["p == n//2", "p >= 1"], guard=True, report=reports.append)
    optimize(parse(text, 10), assume=["p >= 1"], guard=True, report=reports.append)
    optimize(
        parse("agraph (float[p] x) => (float z) <float z = {1}> { }"),
        assume=["p >= 1"],
        guard=True,
        report=reports.append,
    )
    assert [report.unguarded for report in reports] == [("p == n//2",), ("p >= 1",), ("p >= 1",)]
