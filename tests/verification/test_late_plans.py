import numpy as np

from tests.support import parse
from tests.verification.reasons import named_source
from xoptim.verification import VerificationOptions, verify_models
from xoptim.verification.inputs.feeding import ReferenceRun
from xoptim.verification.inputs.late_plans import has_loops
from xoptim.verification.inputs.reference import run_reference

LOOP = """agraph (int64 count, float[2] x) => (float[2] y) <bool go = {1}, int64 bound = {@}>
{ y = Loop(count, go, x) <body = b (int64 i, bool g, float[2] s) => (bool more, float[2] r)
{ more = Identity(g) m = Min(i, bound) f = Cast <to = 1> (m) r = Add(x, f) }> }"""
SCAN = """agraph (float[t,2] x, float[n] z) => (float[2] end, float[t,2] y, float[n] w)
<float[2] start = {0, 0}> { w = Relu(z) end, y = Scan <num_scan_inputs = 1, body = b
(float[2] s, float[2] e) => (float[2] m, float[2] r) { m = Add(s, e) r = Identity(m) }>
(start, x) }"""


def late_runs(text: str, **options: object) -> list[ReferenceRun]:
    runs = run_reference(parse(text), VerificationOptions(**options)).runs  # type: ignore[arg-type]
    return [run for run in runs if run.source == "iterations"]


def counts_of(text: str) -> list[int]:
    return [int(np.asarray(run.feeds["count"])) for run in late_runs(text)]


def test_loops_make_many_iterations() -> None:
    assert counts_of(LOOP.replace("@", "5")) == [40, 300]


def test_loops_go_beyond_the_largest_number() -> None:
    assert counts_of(LOOP.replace("@", "500")) == [40, 300, 503]
    assert counts_of(LOOP.replace("@", "99999")) == [40, 300]


def test_only_axes_of_scans_grow() -> None:
    runs = late_runs(SCAN)
    assert [run.sizes["t"] for run in runs] == [40, 300]
    assert {run.sizes["n"] for run in runs} < {*range(10)}


def test_chosen_sizes_are_kept() -> None:
    assert not late_runs(SCAN, dims={"t": 3})


def test_expensive_bodies_make_few_iterations() -> None:
    text = """agraph (int64 count, float[300,300] x) => (float[300,300] y) <bool go = {1}>
    { y = Loop(count, go, x) <body = b (int64 i, bool g, float[300,300] s)
    => (bool more, float[300,300] r) { more = Identity(g) r = MatMul(s, x) }> }"""
    assert not late_runs(text)


def test_approximations_make_few_iterations() -> None:
    assert not late_runs(LOOP.replace("@", "5"), exactness="approximate")


def test_a_loop_over_an_axis() -> None:
    text = """agraph (float[t,2] x) => (float[2] y) <bool go = {1}, float[2] start = {0, 0},
    int64 zero = {0}> { k = Shape(x) count = Gather(k, zero) y = Loop(count, go, start) <body =
    b (int64 i, bool g, float[2] s) => (bool more, float[2] r)
    { more = Identity(g) e = Gather(x, i) r = Max(s, e) }> }"""
    assert [run.sizes["t"] for run in late_runs(text)] == [40, 300]


def test_models_without_loops_get_no_such_runs() -> None:
    text = "agraph (float[n] x) => (float[n] y) { y = Relu(x) }"
    assert not late_runs(text)
    assert not has_loops([parse(text)])
    assert has_loops([parse(text), parse(SCAN)])


def test_the_message_names_the_loops() -> None:
    before, after = (parse(LOOP.replace("@", bound)) for bound in ("256", "99999"))
    report = verify_models(before, after)
    assert (report.status, named_source(report)) == ("different", "iterations")
