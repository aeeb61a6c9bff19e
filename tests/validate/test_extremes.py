"""Sizes above the constants of a model, and empty axes: a rewrite that holds in between only is found."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from tests.support import parse
from xoptim.validate import ValidationOptions, ValidationReport, reference, validate
from xoptim.validate.dims import input_specs
from xoptim.validate.extremes import Ends, written_sizes

SAME = "agraph (float[batch,seq] x) => (float[batch,m] y) { y = Identity(x) }"
SLICED = """agraph (float[batch,seq] x) => (float[batch,m] y) <int64[1] z = {0}, int64[1] e = {512}, int64[1] one = {1}>
    { y = Slice(x, z, e, one) }"""


def check(original: str | onnx.ModelProto, other: str | onnx.ModelProto, **options: Any) -> ValidationReport:
    model, result = (parse(each) if isinstance(each, str) else each for each in (original, other))
    return validate(model, result, ValidationOptions(**options))


def sizes(report: ValidationReport) -> list[dict[str, int]]:
    return [dict(run.dims) for run in report.runs]


def test_a_slice_that_is_dropped() -> None:
    report = check(SLICED, SAME)
    assert report.status == "different"
    assert "shape" in report.reason
    assert check(SLICED, SAME, extremes=False).ok
    assert check(SLICED, SAME, assignments=1).ok
    assert check(SLICED, SAME, dims={"seq": 40}).ok  # other sizes are not tried
    same = check(SLICED, SLICED)
    assert same.ok
    assert same.notes == ()
    assert sizes(same) == [
        {"batch": 2, "seq": 6},
        {"batch": 3, "seq": 9},
        {"batch": 514, "seq": 518},
    ]


@pytest.mark.parametrize(
    "text",
    [
        # a length that is clipped, as a whole number and as a float
        """agraph (float[batch,seq] x) => (int64 y) <int64 most = {300}, int64 one = {1}>
           { s = Shape(x) n = Gather(s, one) y = Min(n, most) }""",
        """agraph (float[batch,seq] x) => (int64 y) <float most = {300}, float least = {1}, int64 one = {1}>
           { s = Shape(x) n = Gather(s, one) f = Cast<to = 1>(n) c = Clip(f, least, most) y = Cast<to = 7>(c) }""",
        """agraph (float[batch,seq] x) => (int64 y) { s = Shape(x) one = Constant<value_int = 1>() n = Gather(s, one)
           most = Constant<value = int64 {300}>() y = Min(n, most) }""",
    ],
)
def test_a_bound_that_is_dropped(text: str) -> None:
    bare = "agraph (float[batch,seq] x) => (int64 y) <int64 one = {1}> { s = Shape(x) y = Gather(s, one) }"
    assert check(text, bare).status == "different"
    assert check(text, bare, extremes=False).ok


def table(length: int, body: str) -> onnx.ModelProto:
    """A model that reads positions from a table, and so runs with at most as many as it has."""
    model = parse(f"agraph (float[batch,seq,4] x) => (float[batch,m,4] y) <int64 z = {{0}}, int64 one = {{1}}> {{ {body} }}")
    numbers = np.arange(4 * length, dtype=np.float32).reshape(length, 4)
    ends = [numpy_helper.from_array(np.array([n]), name) for name, n in (("first", 0), ("last", 50), ("axis", 1), ("step", 1))]
    model.graph.initializer.extend([numpy_helper.from_array(numbers, "w"), *ends])
    return model


def test_as_many_positions_as_there_are() -> None:
    body = "s = Shape(x) n = Gather(s, one) i = Range(z, n, one) p = Gather(w, i) a = Add(x, p)"
    original = table(64, f"{body} y = Slice(a, first, last, axis, step)")
    report = check(original, original)
    assert report.ok
    assert max(run.dims["seq"] for run in report.runs) in range(51, 65)
    assert check(original, table(64, f"{body} y = Identity(a)")).status == "different"


def test_an_empty_axis() -> None:
    original = """agraph (float[2,3,w,4] x) => (float[2,3,w,m] y) <int64[1] last = {4}>
        { s = Shape <start = 2, end = 3> (x) t = Shape <start = 0, end = 2> (x) r = Concat<axis = 0>(t, s, last)
        y = Reshape(x, r) }"""
    solved = "agraph (float[2,3,w,4] x) => (float[2,3,w,m] y) <int64[4] r = {0, 0, 0, -1}> { y = Reshape(x, r) }"
    report = check(original, solved)
    assert report.status == "different"
    assert "w=0" in report.reason
    assert check(original, solved, extremes=False).ok
    assert check(solved, solved).ok  # it does not run on an empty axis, which says nothing
    assert all(run.dims["w"] for run in check(solved, solved).runs)


def test_leading_axes_are_not_empty() -> None:
    """The proof makes the assumptions of the rewrites; an empty batch is tried only on request."""
    original = """agraph (float[batch,seq,4] x) => (float[batch,m] y) <int64[1] z = {0}, int64[1] one = {1}, int64[1] two = {2},
        int64[1] four = {4}> { s = Shape(x) b = Slice(s, z, one) q = Slice(s, one, two) m = Mul(q, four)
        r = Concat<axis = 0>(b, m) y = Reshape(x, r) }"""
    solved = "agraph (float[batch,seq,4] x) => (float[batch,m] y) <int64[2] r = {0, -1}> { y = Reshape(x, r) }"
    assert check(original, solved).ok
    assert check(original, solved, dims={"batch": 0}).status == "different"


def test_the_first_step_of_a_decoder() -> None:
    text = """agraph (float[batch,past,4] past, float[batch,seq,4] x, float[batch,total] mask) => (float[batch,total,4] y)
        { a = Concat<axis = 1>(past, x) s = Shape(mask) t = Shape(a) y = Identity(a) }"""
    report = check(text, text)
    assert {"batch": 2, "past": 0, "seq": 6, "total": 6} in sizes(report)


def test_no_evidence_comes_from_empty_outputs() -> None:
    text = "agraph (float[1,1,N] x) => (float[1,1,N] y) { z = Sub(x, x) y = Div(z, z) }"
    report = check(text, text)
    assert {"N": 0} in sizes(report)
    assert report.status == "not validated"
    assert "finite" in report.reason


@pytest.mark.parametrize(
    "body",
    [
        't = Identity(x) y = Einsum<equation = "ijkl,ijkl->kl">(x, t)',
        "u = Squeeze(x, first) y = LSTM<hidden_size = 1>(u, w, r)",
        "s = Shape(x) six = Constant<value_ints = [6, 6, 6, 6]>() y = Div(six, s)",
        "s = Shape(x) six = Constant<value_ints = [6, 6, 6, 6]>() y = Mod(six, s)",
    ],
)
def test_an_axis_is_not_empty_where_the_process_could_end(body: str) -> None:
    model = parse(
        f"""agraph (float[1,1,a,2] x) => (float y)
        <int64[1] first = {{0}}, float[1,4,1] r = {{1, 1, 1, 1}}, float[1,4,2] w = {{1, 1, 1, 1, 1, 1, 1, 1}}> {{ {body} }}"""
    )
    for value in model.graph.output:
        value.type.Clear()
    report = check(model, model)
    assert report.ok, report.reason
    assert all(size for run in sizes(report) for size in run.values())
    harmless = parse("agraph (float[1,1,a,2] x) => (float[1,1,a,2] y) { y = Neg(x) }")
    assert {"a": 0} in sizes(check(harmless, harmless))


def test_what_costs_too_much_is_not_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    assert len(check(SLICED, SLICED).runs) == 3
    monkeypatch.setattr(reference, "_PROBE_SECONDS", 0.0)
    monkeypatch.setattr(reference, "_CHEAP_BYTES", 0)
    assert len(check(SLICED, SLICED).runs) == 2
    monkeypatch.undo()
    monkeypatch.setattr(reference, "_PROBE_BYTES", 100_000)
    assert sizes(check(SLICED, SLICED))[2] == {"batch": 2, "seq": 518}  # the length alone
    monkeypatch.setattr(reference, "_PROBE_BYTES", 1000)
    assert len(check(SLICED, SLICED).runs) == 2


def test_lengths_grow_together() -> None:
    model = parse(
        """agraph (float[batch,past,4] past, float[batch,seq,4] x, float[batch,total] mask, float[a:0,h,w,3] i) => (float y)
        <int64[1] k = {100}> { y = Identity(x) }""".replace("a:0", "n")
    )
    base = {"batch": 2, "past": 3, "seq": 6, "total": 9, "n": 2, "h": 32, "w": 48}
    ends = Ends(input_specs(model), model, base, {})
    assert [rung[1] for rung in ends.large()] == [
        {"batch": 2, "past": 99, "seq": 102, "total": 201, "n": 2, "h": 128, "w": 144},
        {"batch": 2, "past": 115, "seq": 118, "total": 233, "n": 2, "h": 144, "w": 160},
    ]
    assert [rung[0]["batch"] for rung in ends.large()] == [98, 114]
    assert next(iter(ends.empty())) == {**base, "past": 0, "total": 6}
    fixed = Ends(input_specs(model), model, base, base)
    assert fixed.large() == []
    assert list(fixed.empty()) == []


def test_images_that_a_window_moves_over_are_not_empty() -> None:
    """ONNX gives the result a size below 1 then; the past of a decoder in the same model is still tried empty."""
    head = "agraph (float[batch,c,height,width] x, float[batch,h,past_length,d] past) => (float[b,c,m,n] y, float[b,h,k,d] z)"
    base = {"batch": 2, "c": 3, "height": 8, "width": 8, "h": 2, "past_length": 5, "d": 4}
    empties = []
    for operator in ("Abs(x)", "AveragePool <kernel_shape = [3, 3]> (x)"):
        model = parse(f"{head} {{ y = {operator} z = Neg(past) }}")
        found = Ends(input_specs(model), model, base, {}).empty()
        empties.append([{name for name, size in sizes.items() if not size} for sizes in found])
    assert {"past_length"} in empties[0]
    assert any({"height", "width"} <= names for names in empties[0])
    assert empties[1] == [{"past_length"}]


def test_the_numbers_that_a_model_is_written_for() -> None:
    model = parse(
        """agraph (float[n] x, bool b) => (float[n] y) <int64[3] a = {7, -1, 9223372036854775807}, float f = {0.5}>
        { c = Constant<value_ints = [11, 12]>() y = If(b)
          <then_branch = t () => (float[n] p) { d = Constant<value_int = 13>() p = local.f(x) },
           else_branch = e () => (float[n] q) { q = Clip<max = 14.5>(x) }> }
        <domain: "local", opset_import: ["" : 18]> f (u) => (v) { k = Constant<value_int = 17>() v = Neg(u) }""",
        domains={"local": 1},
    )
    assert written_sizes(model) == [7, 11, 12, 13, 15, 17]


@pytest.mark.slow
def test_an_end_where_nothing_can_be_told_says_nothing() -> None:
    """The larger the size, the more a rounding error is magnified; what holds at ordinary sizes counts."""
    head = "agraph (float[batch,seq] x) => (float[batch,m] y) <int64[1] z = {0}, int64[1] e = {512}, int64[1] one = {1}>"
    factor = "s = Shape <start = 1, end = 2> (x) n = Cast <to = 1> (s) c = Slice(x, z, e, one)"
    original = f"{head} {{ {factor} p = Mul(n, n) q = Mul(p, n) t = Mul(c, q) y = Sin(t) }}"
    other = f"{head} {{ {factor} p = Mul(c, n) q = Mul(p, n) t = Mul(q, n) y = Sin(t) }}"
    report = check(original, other, exactness="rounding")
    assert report.status == "equal", report.reason
    assert report.runs[-1].is_probe
    assert not report.runs[-1].comparisons[0].ok
    assert any(note.startswith("outputs are too sensitive to be compared with batch=") for note in report.notes)
    wrong = f"{head} {{ {factor} p = Mul(n, n) q = Mul(p, n) t = Mul(c, q) y = Cos(t) }}"
    assert check(original, wrong, exactness="rounding").status == "different"
