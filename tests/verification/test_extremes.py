"""Sizes above the constants of a model, and empty axes: a rewrite that holds in between only is
found.
"""

import re
from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from tests.support import parse
from xoptim.verification import (
    RunError,
    Session,
    VerificationOptions,
    VerificationReport,
    verify_models,
)
from xoptim.verification.errors import RunStoppedError
from xoptim.verification.inputs import reference as search, work
from xoptim.verification.inputs.dims import Sizes, input_specs
from xoptim.verification.inputs.extremes import ExtremeSizes
from xoptim.verification.inputs.feeding import ReferenceRun, RunPlan, run_plan
from xoptim.verification.inputs.sized import SizedModel
from xoptim.verification.inputs.work import RunBudget, Work
from xoptim.verification.runs.ports import Value

SAME = "agraph (float[batch,seq] x) => (float[batch,m] y) { y = Identity(x) }"
SLICED = """agraph (float[batch,seq] x) => (float[batch,m] y) <int64[1] z = {0}, int64[1]
  e = {512}, int64[1] one = {1}>
    { y = Slice(x, z, e, one) }"""

LEAST = [{"batch": 1, "seq": 1}, {"batch": 1, "seq": 6}, {"batch": 2, "seq": 1}]
RELATED = [
    {"batch": 5, "seq": 9},
    {"batch": 6, "seq": 6},
    {"batch": 3, "seq": 6},
    {"batch": 2, "seq": 512},
]
"""Odd sizes, equal ones, twice each other, and the end of a Slice."""
SQUEEZED = "agraph (float[batch,1,seq] x) => (float y) <int64[1] a = {1}> { y = Squeeze(x, a) }"


def shapeless(text: str) -> onnx.ModelProto:
    """A model that does not declare the shape of its output."""
    model = parse(text)
    model.graph.output[0].type.Clear()
    return model


def check(
    original: str | onnx.ModelProto, other: str | onnx.ModelProto, **options: Any
) -> VerificationReport:
    model, result = (parse(each) if isinstance(each, str) else each for each in (original, other))
    return verify_models(model, result, VerificationOptions(**options))


def sizes(report: VerificationReport) -> list[dict[str, int]]:
    """The assignments of sizes that were tried, in order."""
    return [dict(each) for each in dict.fromkeys(tuple(run.dims.items()) for run in report.runs)]


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
        {"batch": 1, "seq": 518},
        *LEAST,
        *RELATED,
    ]


@pytest.mark.parametrize(
    "condition",
    [
        "e = Equal(a, b)",
        "r = Mod(a, seven) e = Equal(r, zero)",
        "t = Add(a, a) e = Equal(t, b)",
        "p = Mul(a, b) q = Mod(p, two) e = Equal(q, one)",
    ],
    ids=["equal sizes", "a multiple", "twice as long", "odd sizes"],
)
def test_sizes_that_stand_in_a_relation(condition: str) -> None:
    text = f"""agraph (float[N,M] x) => (float[N,M] y)
    <int64 zero = {{0}}, int64 one = {{1}}, int64 two = {{2}}, int64 seven = {{7}}>
    {{ s = Shape(x) a, b = Split <axis = 0, num_outputs = 2> (s) {condition} g = Greater(a, one)
    c = And(e, g) n = Neg(x) y = Where(c, n, x) }}"""
    assert (
        check(text, "agraph (float[N,M] x) => (float[N,M] y) { y = Identity(x) }").status
        == "different"
    )


@pytest.mark.parametrize(
    "text",
    [
        # a length that is clipped, as a whole number and as a float
        """agraph (float[batch,seq] x) => (int64 y) <int64 most = {300}, int64 one = {1}>
           { s = Shape(x) n = Gather(s, one) y = Min(n, most) }""",
        """agraph (float[batch,seq] x) => (int64 y) <float most = {300}, float least = {1}, int64
          one = {1}>
           { s = Shape(x) n = Gather(s, one) f = Cast<to = 1>(n) c = Clip(f, least, most)
             y = Cast<to = 7>(c) }""",
        """agraph (float[batch,seq] x) => (int64 y)
          { s = Shape(x) one = Constant<value_int = 1>() n = Gather(s, one)
           most = Constant<value = int64 {300}>() y = Min(n, most) }""",
    ],
)
def test_a_bound_that_is_dropped(text: str) -> None:
    bare = (
        "agraph (float[batch,seq] x) => (int64 y) <int64 one = {1}> { s = Shape(x) "
        "y = Gather(s, one) }"
    )
    assert check(text, bare).status == "different"
    assert check(text, bare, extremes=False).ok


def table(length: int, body: str) -> onnx.ModelProto:
    """A model that reads positions from a table, and so runs with at most as many as it has."""
    model = parse(
        "agraph (float[batch,seq,4] x) "
        f"=> (float[batch,m,4] y) <int64 z = {{0}}, int64 one = {{1}}> {{ {body} }}"
    )
    numbers = np.arange(4 * length, dtype=np.float32).reshape(length, 4)
    ends = [
        numpy_helper.from_array(np.array([n]), name)
        for name, n in (("first", 0), ("last", 50), ("axis", 1), ("step", 1))
    ]
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
        { s = Shape <start = 2, end = 3> (x) t = Shape <start = 0, end = 2> (x)
          r = Concat<axis = 0>(t, s, last)
        y = Reshape(x, r) }"""
    solved = (
        "agraph (float[2,3,w,4] x) => (float[2,3,w,m] y) <int64[4] r = {0, 0, 0, -1}> { "
        "y = Reshape(x, r) }"
    )
    report = check(original, solved)
    assert report.status == "different"
    assert "w=0" in report.reason
    assert check(original, solved, extremes=False).ok
    assert check(solved, solved).ok  # it does not run on an empty axis, which says nothing
    assert all(run.dims["w"] for run in check(solved, solved).runs)


def test_axes_of_length_one() -> None:
    """A Squeeze of all axes of length 1, and an operand that is expanded, differ in this run only.

    Totals cover the rest.
    """
    squeezed = "agraph (float[batch,1,seq] x) => (float y) { y = Squeeze(x) }", SQUEEZED
    report = check(*(shapeless(text) for text in squeezed))
    assert report.status == "different"
    assert "batch=1, seq=1" in report.reason
    assert check(*(shapeless(text) for text in squeezed), extremes=False).ok
    text = """agraph (float[batch,past,4] past, float[batch,seq,4] x,
      float[batch,total] mask) => (float[batch,total,4] y)
        { a = Concat<axis = 1>(past, x) s = Shape(mask) t = Shape(a) y = Identity(a) }"""
    assert {"batch": 1, "past": 1, "seq": 1, "total": 2} in sizes(check(text, text))


def test_leading_axes_are_not_empty() -> None:
    """The verification makes the assumptions of the rewrites; an empty batch is tried only on
    request.
    """
    original = """agraph (float[batch,seq,4] x) => (float[batch,m] y) <int64[1] z = {0}, int64[1]
      one = {1}, int64[1] two = {2},
        int64[1]
          four = {4}> { s = Shape(x) b = Slice(s, z, one) q = Slice(s, one, two) m = Mul(q, four)
        r = Concat<axis = 0>(b, m) y = Reshape(x, r) }"""
    solved = (
        "agraph (float[batch,seq,4] x) => (float[batch,m] y) <int64[2] r = {0, -1}> { "
        "y = Reshape(x, r) }"
    )
    assert check(original, solved).ok
    assert check(original, solved, dims={"batch": 0}).status == "different"


def test_the_first_step_of_a_decoder() -> None:
    text = """agraph (float[batch,past,4] past, float[batch,seq,4] x,
      float[batch,total] mask) => (float[batch,total,4] y)
        { a = Concat<axis = 1>(past, x) s = Shape(mask) t = Shape(a) y = Identity(a) }"""
    report = check(text, text)
    assert {"batch": 2, "past": 0, "seq": 6, "total": 6} in sizes(report)


def test_no_evidence_comes_from_empty_outputs() -> None:
    text = "agraph (float[1,1,N] x) => (float[1,1,N] y) { z = Sub(x, x) y = Div(z, z) }"
    report = check(text, text)
    assert {"N": 0} in sizes(report)
    assert report.status == "not verified"
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
        <int64[1] first = {{0}}, float[1,4,1] r = {{1, 1, 1, 1}}, float[1,4,2] w = {{1, 1, 1, 1, 1,
          1, 1, 1}}> {{ {body} }}"""
    )
    for value in model.graph.output:
        value.type.Clear()
    report = check(model, model)
    assert report.ok, report.reason
    assert all(size for run in sizes(report) for size in run.values())
    harmless = parse("agraph (float[1,1,a,2] x) => (float[1,1,a,2] y) { y = Neg(x) }")
    assert {"a": 0} in sizes(check(harmless, harmless))


def test_a_run_that_costs_too_much_is_omitted(monkeypatch: pytest.MonkeyPatch) -> None:
    assert len(sizes(check(SLICED, SLICED))) == 6 + len(RELATED)
    monkeypatch.setattr(search, "_PROBE_BYTES", 1000)
    report = check(SLICED, SLICED)
    small = [{"batch": 2, "seq": 6}, {"batch": 3, "seq": 9}]
    assert sizes(report) == [*small, *LEAST, *RELATED[:-1]]
    assert [dict(each.dims) for each in report.skipped] == [{"batch": 1, "seq": 518}]
    assert report.to_json()["skipped"][0]["dims"] == {"batch": 1, "seq": 518}
    assert re.search(r"batch=1, seq=518 .* 0\.0 MiB ", report.notes[0])
    monkeypatch.undo()
    report = check(SLICED, SLICED, budget=0.0)
    assert sizes(report) == [{"batch": 2, "seq": 6}]
    assert len(report.runs) == 2
    assert re.search("budget .* 0 s", report.notes[0])


def test_a_run_that_takes_longer_than_planned_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing else is run then."""
    run = run_plan
    late: list[RunPlan] = []

    def stopped(session: Session, plan: RunPlan, limit: float | None = None) -> ReferenceRun:
        if plan.sizes["seq"] not in (6, 9):
            late.append(plan)
            raise RunError("stopped")
        return run(session, plan)

    def spend(self: RunBudget, _: float) -> None:
        self.spent = 9.0 if late else self.spent

    monkeypatch.setattr(search, "run_plan", stopped)
    monkeypatch.setattr(RunBudget, "spend", spend)
    report = check(SLICED, SLICED)
    assert report.ok
    assert len(report.runs) == 2
    assert len(late) == 1
    assert re.search(r"batch=1, seq=518 .*stopped after 5 s, .*\(budget\)", report.notes[0])


def test_the_budget_counts_for_further_values(monkeypatch: pytest.MonkeyPatch) -> None:
    """The time to make values counts as well."""
    everything = check(SLICED, SLICED)
    spent = iter([0.0] * 3)
    monkeypatch.setattr(
        RunBudget, "spend", lambda self, _: setattr(self, "spent", next(spent, 9.0))
    )
    report = check(SLICED, SLICED)
    assert report.ok
    assert len(report.runs) == 4 < len(everything.runs)
    assert re.search("not begun: .* 5 s", report.skipped[-1].reason)


def test_a_model_that_does_not_end_is_run_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Other values and sizes may take as long."""
    tried: list[RunPlan] = []

    def stopped(session: Session, plan: RunPlan, limit: float | None = None) -> ReferenceRun:
        tried.append(plan)
        raise RunStoppedError("it was stopped")

    monkeypatch.setattr(search, "run_plan", stopped)
    model = parse("agraph (int64[n] i, float[n] x) => (float[n] y) { y = Neg(x) }")
    for more in ({}, {"dims": {"n": 3}}):
        report = check(model, model, **more)
        assert (report.status, report.cause) == ("not verified", "run")
        assert report.reason.endswith("the original: it was stopped")
    assert len(tried) == 2


def test_counting_branches_takes_part_of_the_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    model = parse(
        """agraph (float[n] x) => (float y) <float big = {1e9}> { s = ReduceMax<keepdims=0>(x)
        c = Greater(s, big) y = If(c) <then_branch = t () => (float p) { p = Neg(s) },
        else_branch = e () => (float q) { q = Abs(s) }> }"""
    )
    limits: list[float | None] = []
    run = Session.run

    def noted(self: Session, feeds: Mapping[str, Value], limit: float | None = None) -> list[Value]:
        limits.append(limit)
        return run(self, feeds, limit)

    monkeypatch.setattr(Session, "run", noted)
    assert check(model, model).ok
    counted = len(limits)
    monkeypatch.setattr(RunBudget, "is_spent", property(lambda self: len(limits) > 20))
    limits.clear()
    assert check(model, model).ok
    assert len(limits) < counted


def test_a_loop_that_does_not_end_is_stopped_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first run tells what runs take; here, a negative limit lets the loop run forever."""
    limits: list[float | None] = []

    def noted(session: Session, plan: RunPlan, limit: float | None = None) -> ReferenceRun:
        limits.append(limit)
        return run_plan(session, plan, limit)

    monkeypatch.setattr(search, "run_plan", noted)
    monkeypatch.setattr(work, "_MIN_SECONDS", 0.1)
    model = parse(
        """agraph (float[a] x, float lim) => (float y) <float h = {0.5}, bool go = {1}>
        { s = ReduceSum<keepdims=0>(x) e = Abs(s) y = Loop(, go, e)
        <body = b (int64 i, bool c, float v) => (bool d,
          float w) { w = Mul(v, h) d = Greater(w, lim) }> }"""
    )
    assert check(model, model).ok
    assert limits[0] is None
    assert all(limit is not None and limit < 100 for limit in limits[1:])


def test_the_vocabulary_is_not_a_length() -> None:
    """A token may be any row of a table at any length; a position is at most the length."""
    text = """agraph (int64[batch,seq] ids) => (float[batch,seq,4] y) <int64 z = {0}, int64
      one = {1}>
        { t = Gather(words, ids) s = Shape(ids) n = Gather(s, one) i = Range(z, n, one)
          p = Gather(places, i)
          a = Add(t, p) y = MatMul(a, w) }"""
    model = parse(text)
    shapes = {"words": (9000, 4), "places": (80, 4), "w": (4, 4)}
    model.graph.initializer.extend(
        numpy_helper.from_array(np.ones(s, np.float32), n) for n, s in shapes.items()
    )
    report = check(model, model)
    assert report.ok
    assert sizes(report)[2] == {"batch": 1, "seq": 70}
    assert not report.skipped


def large(
    model: onnx.ModelProto, base: Sizes, fixed: Sizes | None = None
) -> list[list[list[Sizes]]]:
    sized = SizedModel(model, None)
    return ExtremeSizes(input_specs(model), [sized], base, fixed or {}, Work(sized).of).large()


def test_the_cheapest_axis_grows() -> None:
    """One token after a long past passes the bound of all positions.

    The batch and the sides of images stay.
    """
    model = parse(
        """agraph (float[batch,past,4] past, float[batch,seq,4] x, float[batch,total] mask,
          float[n,h,w,3] i) => (float y)
        <int64[1] z = {0}, int64[1] k = {100}, int64[1] one = {1}>
        { a = Concat <axis = 1> (past, x) q = MatMul(x, x2) r = MatMul(q, x2)
          y = Slice(a, z, k, one) }"""
    )
    model.graph.initializer.append(numpy_helper.from_array(np.ones((4, 4), np.float32), "x2"))
    base = {"batch": 2, "past": 3, "seq": 6, "total": 9, "n": 2, "h": 32, "w": 48}
    axes = large(model, base)
    assert [rung[0] for rung in axes[0]] == [
        base | {"past": 83, "total": 89},
        base | {"past": 99, "total": 105},
    ]
    assert len(axes) == 1
    # if it does not run alone
    assert axes[0][1][1] == base | {"past": 99, "seq": 102, "total": 201, "h": 128, "w": 144}
    assert large(model, base, base) == []


def test_one_axis_grows_at_a_time() -> None:
    model = parse(
        """agraph (float[batch,seq] x) => (float y) <int64[2] z = {0, 0}, int64[2]
          e = {40, 70}> { y = Slice(x, z, e) }"""
    )
    axes = large(model, {"batch": 2, "seq": 6})
    assert [rungs[-1][0] for rungs in axes] == [{"batch": 50, "seq": 6}, {"batch": 2, "seq": 86}]
    assert [dict(run.dims) for run in check(model, model).runs[2:4]] == [
        {"batch": 50, "seq": 6},
        {"batch": 1, "seq": 86},
    ]


def test_axes_without_a_name() -> None:
    model = parse(
        "agraph (float[?,?] x) => (float y) <int64[2] z = {0, 0}, int64[2] e = {9999, 70}> { "
        "y = Slice(x, z, e) }"
    )
    report = check(model, model, dims={"x:0": 2})
    assert {"x:0": 2, "x:1": 86} in sizes(report)


def test_images_that_a_window_moves_over_are_not_empty() -> None:
    """ONNX gives the result a size below 1 then.

    The past of a decoder in the same model is still tried empty.
    """
    head = (
        "agraph (float[batch,c,height,width] x, float[batch,h,past_length,d] past) "
        "=> (float[b,c,m,n] y, float[b,h,k,d] z)"
    )
    base = {"batch": 2, "c": 3, "height": 8, "width": 8, "h": 2, "past_length": 5, "d": 4}
    empties = []
    for operator in ("Abs(x)", "AveragePool <kernel_shape = [3, 3]> (x)"):
        model = parse(f"{head} {{ y = {operator} z = Neg(past) }}")
        found = ExtremeSizes(input_specs(model), [SizedModel(model, None)], base, {}, len).empty()
        empties.append([{name for name, size in sizes.items() if not size} for sizes in found])
    assert {"past_length"} in empties[0]
    assert any({"height", "width"} <= names for names in empties[0])
    assert empties[1] == [{"past_length"}]


@pytest.mark.slow
@pytest.mark.parametrize(("opset", "is_told"), [(12, False), (13, True)])
def test_an_end_where_nothing_can_be_told_says_nothing(opset: int, is_told: bool) -> None:
    """The larger the size, the more a rounding error is magnified.

    What holds at ordinary sizes counts. Since operator set 13, a run in float64 tells more.
    """
    head = (
        "agraph (float[batch,seq] x) => (float[batch,m] y) <int64[1] z = {0}, int64[1] e = {512}, "
        "int64[1] one = {1}>"
    )
    factor = "d = Shape(x) s = Gather(d, one) n = Cast <to = 1> (s) c = Slice(x, z, e, one)"
    original = f"{head} {{ {factor} p = Mul(n, n) q = Mul(p, n) t = Mul(c, q) y = Sin(t) }}"
    other = f"{head} {{ {factor} p = Mul(c, n) q = Mul(p, n) t = Mul(q, n) y = Sin(t) }}"
    report = check(parse(original, opset), parse(other, opset), exactness="rounding")
    assert report.status == "equal", report.reason
    assert any(run.is_probe and not run.comparisons[0].ok for run in report.runs)
    is_untold = any(re.search("sensitive .*batch=", note) for note in report.notes)
    assert is_untold != is_told
    wrong = parse(original.replace("Sin", "Cos"), opset)
    assert check(parse(original, opset), wrong, exactness="rounding").status == "different"


@pytest.mark.slow
def test_a_run_too_sensitive_to_be_compared_leaves_the_others() -> None:
    """Of two runs on usual values, one is close and one too sensitive: 1.5 to the power of 40 times
    what Sin reads.

    Older operator sets do not run in double, which would decide.
    """
    head = (
        "agraph (float[batch,seq] x) => (float[batch,m] y) <int64[1] z = {0}, int64[1] e = {512}, "
        "int64[1] one = {1}>"
    )
    power = (
        "i = Constant <value_int = 1> () h = Shape(x) s = Gather(h, i) n = Cast <to = 1> (s) "
        "c = Slice(x, z, e, one) six = Constant <value_float = 6.0> () "
        "k = Constant <value_float = 40.0> () d = Div(n, six) r = Pow(d, k)"
    )
    original = parse(f"{head} {{ {power} p = Mul(c, r) q = Mul(p, six) y = Sin(q) }}", 12)
    other = parse(f"{head} {{ {power} p = Mul(c, six) q = Mul(p, r) y = Sin(q) }}", 12)
    report = check(original, other, exactness="rounding")
    assert report.status == "equal", report.reason
    assert any(re.search("sensitive .*batch=", note) for note in report.notes)
    usual = [run for run in report.runs if not run.is_probe]
    assert [run.accepts(c) for run in usual for c in run.comparisons] == [True, False]
    wrong = parse(f"{head} {{ {power} p = Mul(c, six) q = Mul(p, r) y = Cos(q) }}", 12)
    assert check(original, wrong, exactness="rounding").status == "different"


@pytest.mark.slow
def test_a_difference_under_optimizations_that_rounding_makes_is_a_doubt() -> None:
    """It is as large without the optimizations, where values in double show that it is rounding."""
    head = (
        "agraph (float[batch,seq] x) => (float[batch,m] y) <int64[1] z = {0}, int64[1] e = {512}, "
        "int64[1] one = {1}>"
    )
    power = (
        "s = Shape <start = 1, end = 2> (x) n = Cast <to = 1> (s) c = Slice(x, z, e, one) "
        "k = Constant <value_float = 8.0> ()"
    )
    original = f"{head} {{ {power} r = Pow(n, k) p = Mul(c, r) q = Mul(p, n) y = Sin(q) }}"
    other = f"{head} {{ {power} r = Pow(n, k) p = Mul(c, n) q = Mul(p, r) y = Sin(q) }}"
    report = check(original, other, exactness="rounding")
    assert (report.status, report.cause) == ("not verified", "evidence")
    assert "rounding" in report.reason
