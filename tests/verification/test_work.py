"""The work of a run, and the budget of the runs: by operations, never by the clock."""

import pytest

from tests.support import parse
from xoptim.verification.inputs.sized import SizedModel
from xoptim.verification.inputs.work import NODE, RunBudget, Work


def work(text: str, opset: int = 23, **sizes: int) -> int:
    return Work(SizedModel(parse(text, opset, domains={"com.microsoft": 1}), None)).of(sizes)


def test_products_count_their_operations() -> None:
    text = "agraph (float[n,k] x, float[k,m] w) => (float[n,m] y) { y = MatMul(x, w) }"
    assert work(text, n=2, k=100, m=3) == NODE + 2 * 2 * 100 * 3 + 16 * 6
    assert work(text, n=4, k=100, m=3) - NODE == 2 * (work(text, n=2, k=100, m=3) - NODE)


def test_attention_counts_the_scores_that_it_does_not_write() -> None:
    text = (
        "agraph (float[1,4,s,8] q, float[1,4,s,8] k, float[1,4,s,8] v) => (float[1,4,s,8] y) { "
        "y = Attention(q, k, v) }"
    )
    assert work(text, s=1000) > 90 * work(text, s=100)
    past = """agraph (float[1,4,s,8] q, float[1,4,s,8] k, float[1,4,s,8] v, float[1,4,p,8] c,
      float[1,4,p,8] d)
        => (float[1,4,s,8] y, float[1,4,t,8] e,
          float[1,4,t,8] f) { y, e, f = Attention(q, k, v, , c, d) }"""
    assert 4 * work(past, s=1, p=2000) < work(past, s=100, p=2000)
    assert work(past, s=1, p=2000) > work(past, s=1, p=1000)


def test_loops_count_their_iterations() -> None:
    text = """agraph (float[s,4] x) => (float[4] y, float[s,4] z) <float[4] i = {0, 0, 0, 0}> {
        y, z = Scan <num_scan_inputs = 1, body = b (float[4] h, float[4] u) => (float[4] g,
          float[4] o)
        { g = Add(h, u) o = Neg(g) }> (i, x) }"""
    assert work(text, s=100) > 8 * work(text, s=10)
    for axis in (1, -1):
        last = text.replace("[s,4]", "[4,s]").replace("num_", f"scan_input_axes = [{axis}], num_")
        assert work(last, s=100) > 8 * work(last, s=10)
    batch = text.replace("[s,4]", "[b,s,4]").replace("float[4] y", "float[b,4] y")
    batch = batch.replace("float[4] i = {0, 0, 0, 0}", "float[1,4] i = {0, 0, 0, 0}")
    batch = batch.replace("(i, x)", "(, i, x)")
    assert work(batch, 8, b=1, s=100) > 8 * work(batch, 8, b=1, s=10)


def test_an_unknown_axis_is_as_long_as_the_longest() -> None:
    text = (
        "agraph (float[n,4] x) => (float y) { t = com.microsoft.Unknown(x) "
        "y = Compress <axis = 0> (x, t) }"
    )
    assert work(text, n=50) >= 16 * 200


MILLION = 10**6


def test_the_budget_is_kept_by_estimates() -> None:
    budget = RunBudget(10.0)
    # without a run there is no estimate, and nothing would be compared
    assert budget.allows(10**15)
    budget.charge(1000 * MILLION, 1.0)
    assert budget.estimate(5000 * MILLION) == 5.0
    assert budget.allows(9000 * MILLION)
    assert not budget.allows(9001 * MILLION)
    budget.spend(4.0)
    assert not budget.allows(9000 * MILLION)
    assert budget.allows(5000 * MILLION)


def test_the_budget_follows_the_first_run() -> None:
    budget = RunBudget()
    assert budget.limit == 5.0
    budget.charge(1000 * MILLION, 3.0)
    assert budget.limit == 15.0
    budget.charge(1000 * MILLION, 6.0)
    assert budget.limit == 15.0
    assert budget.allows(1000 * MILLION)
    assert not budget.allows(1001 * MILLION)


def test_a_short_run_tells_little_about_long_ones() -> None:
    budget = RunBudget()
    budget.charge(10, 0.001)
    assert budget.estimate(10**9) == pytest.approx(0.2)
    budget.charge(10, 0.1)  # on a busy machine
    assert budget.estimate(10**9) == pytest.approx(0.2)
    budget.charge(10**9, 1.0)
    assert budget.estimate(10**9) == 1.0
