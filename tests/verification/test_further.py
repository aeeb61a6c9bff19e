import numpy as np
import pytest
from onnx import numpy_helper

from tests.support import parse
from xoptim.verification import VerificationOptions, verify_models
from xoptim.verification.inputs.feeding import ReferenceRun
from xoptim.verification.inputs.reference import run_reference

READERS = (
    "z = Sqrt(x)",
    "z = Pow(x, two)",
    "z = Div(two, x)",
    "z = Acos(x)",
    "b = Cast <to = 9> (x) z = Cast <to = 1> (b)",
)


def runs_of(text: str, **options: object) -> list[ReferenceRun]:
    return run_reference(parse(text), VerificationOptions(**options)).runs  # type: ignore[arg-type]


@pytest.mark.parametrize("reader", READERS)
def test_a_reader_does_not_narrow_what_is_fed(reader: str) -> None:
    head = f"agraph (float[n,4] x) => (float[n,4] y, float[n,4] z) <float two = {{2}}> {{ {reader}"
    before, after = parse(f"{head} y = Relu(x) }}"), parse(f"{head} y = Identity(x) }}")
    assert verify_models(before, after).status == "different"
    assert verify_models(before, before).ok


def test_some_runs_follow_what_readers_prefer() -> None:
    runs = runs_of(
        "agraph (float[n,4] x, int64[n,4] attention_mask) => (float[n,4] y) { s = Sqrt(x) "
        "m = Cast <to = 1> (attention_mask) y = Mul(s, m) }"
    )
    usual, free = (
        next(run for run in runs if run.source == source) for source in ("random", "free")
    )
    assert np.all(np.asarray(usual.feeds["x"]) > 0)
    assert np.isin(np.asarray(usual.feeds["attention_mask"]), (0, 1)).all()
    assert np.any(np.asarray(free.feeds["x"]) < 0)
    assert not np.isin(np.asarray(free.feeds["attention_mask"]), (0, 1)).all()
    assert not np.asarray(free.feeds["attention_mask"])[0].any()  # a row that is masked whole


def test_integers_that_divide_are_never_zero() -> None:
    runs = runs_of("agraph (int64[n,4] x) => (int64[n,4] y) <int64 six = {6}> { y = Div(six, x) }")
    assert any(run.source == "free" for run in runs)
    assert all(np.all(np.asarray(run.feeds["x"]) != 0) for run in runs)
    assert any(np.any(np.asarray(run.feeds["x"]) < 0) for run in runs)


@pytest.mark.parametrize(
    ("signature", "body", "name"),
    [
        ("float[n] x, int64[1] s, int64[1] e", "y = Slice(x, s, e)", "s"),
        ("float[1] x, int64[2] s", "y = Expand(x, s)", "s"),
        ("float[n,m] x, int64[2] s", "y = Tile(x, s)", "s"),
        ("float[n,m] x, int64 s", "y = Trilu(x, s)", "s"),
        ("float[n,m] x, int64[1] s", "y, i = TopK(x, s)", "s"),
        ("float[n,m] x, int64[2] s", "y = Reshape(x, s)", "s"),
        ("float[n,m] x, int64[4] s", "y = Pad(x, s)", "s"),
        ("float[n,m] x, int64[1] s", "y = ReduceSum(x, s)", "s"),
        ("float[n] x, int64[k] s", "y = Gather(x, s)", "s"),
    ],
)
def test_operands_that_are_inputs_vary(signature: str, body: str, name: str) -> None:
    runs = runs_of(f"agraph ({signature}) => (float[k] y) {{ {body} }}")
    seen = {tuple(np.asarray(run.feeds[name]).reshape(-1).tolist()) for run in runs}
    assert len(seen) > 1
    assert (
        any(min(numbers, default=0) < 0 for numbers in seen)
        or "Expand" in body
        or "Tile" in body
        or "TopK" in body
    )


def test_the_condition_of_a_loop_varies() -> None:
    runs = runs_of("""agraph (int64 count, bool go, float[2] x) => (float[2] y)
        { y = Loop(count, go, x) <body = b (int64 i, bool c, float[2] a) => (bool d, float[2] r)
            { d = Identity(c) r = Add(a, x) }> }""")
    assert {
        (int(np.asarray(run.feeds["count"])) == 0, bool(np.asarray(run.feeds["go"])))
        for run in runs
    } >= {
        (False, True),
        (True, True),
        (False, False),
    }


def test_numbers_near_bounds_that_only_the_result_has() -> None:
    before = parse("agraph (float n) => (float y) { y = Identity(n) }")
    after = parse("agraph (float n) => (float y) <float top = {32767}> { y = Min(n, top) }")
    assert verify_models(before, after).status == "different"
    sizes = parse(
        "agraph (float[n] x) => (float[k] y) <int64[1] z = {0}, int64[1] e = {1000}> { "
        "y = Slice(x, z, e) }"
    )
    assert (
        verify_models(
            parse("agraph (float[n] x) => (float[k] y) { y = Identity(x) }"), sizes
        ).status
        == "different"
    )


def test_each_row_of_a_short_table_is_read() -> None:
    def table(last: float) -> object:
        model = parse("agraph (int64[n] i) => (float[n] y) { y = Gather(t, i) }")
        model.graph.initializer.append(
            numpy_helper.from_array(np.array([1, 2, 3, last], np.float32), "t")
        )
        return model

    assert verify_models(table(4), table(5)).status == "different"  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("signature", "body"),
    [
        ("float[n,4] x, bool[n] c", "none = And(c, off) y = Compress <axis = 0> (x, none)"),
        ("float[n,4] x", "a = Sub(x, x) y = Div(a, a)"),
    ],
    ids=["nothing selected", "only NaN"],
)
def test_an_output_without_a_compared_element_is_not_verified(signature: str, body: str) -> None:
    model = parse(f"agraph ({signature}) => (float[k] y) <bool off = {{0}}> {{ {body} }}")
    model.graph.output[0].type.Clear()
    report = verify_models(model, model)
    assert (report.status, report.cause) == ("not verified", "evidence")


def test_a_number_that_a_sequence_gives_is_compared() -> None:
    """Unlike the outputs above, which have no declared type either."""
    signature = "agraph (seq(float[n]) s) => (int64 y)"
    length = parse(f"{signature} {{ y = SequenceLength(s) }}")
    length.graph.output[0].type.Clear()
    report = verify_models(length, length)
    assert report.ok
    compared = [comparison for run in report.runs for comparison in run.comparisons]
    assert compared
    assert {comparison.output for comparison in compared} == {"y"}
    assert all(comparison.judged for comparison in compared)
    longer = parse(f"{signature} <int64 one = {{1}}> {{ n = SequenceLength(s) y = Add(n, one) }}")
    assert verify_models(length, longer).status == "different"


def test_nothing_is_varied_where_all_values_are_given() -> None:
    runs = runs_of(
        "agraph (float[n] x) => (float[n] y) { y = Sqrt(x) }", feeds={"x": np.ones(3, np.float32)}
    )
    assert [run.source for run in runs] == ["given"]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("y = Clip(x, , high)", "y = Identity(x)"),
        ("y = Max(x, zero)", "c = Greater(x, zero) y = Where(c, x, zero)"),
        (
            "c = Less(x, high) y = Where(c, x, zero)",
            "c = LessOrEqual(x, high) y = Where(c, x, zero)",
        ),
        ("r = Round(x) y = Identity(r)", "a = Add(x, half) y = Floor(a)"),
    ],
    ids=["large numbers", "NaN", "a bound", "halves"],
)
def test_a_few_other_numbers_are_run_where_runs_take_long(
    before: str, after: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("xoptim.verification.inputs.reference.SHORT", 0)
    head = """agraph (float[n,64] x) => (float[n,64] y) <float zero = {0}, float half = {0.5},
    float high = {50}>"""
    first, second = (parse(f"{head} {{ {body} }}") for body in (before, after))
    assert verify_models(first, second).status == "different"
    assert verify_models(first, first).ok
    assert verify_models(first, second, VerificationOptions(exactness="approximate")).ok


def test_few_runs_are_added_where_runs_take_long(monkeypatch: pytest.MonkeyPatch) -> None:
    text = """agraph (float[n,4] x) => (float[n,4] y) <float low = {-9}, float high = {50}>
    { y = Clip(x, low, high) }"""
    many = runs_of(text)
    monkeypatch.setattr("xoptim.verification.inputs.reference.SHORT", 0)
    few = runs_of(text)
    assert [run.source for run in few].count("far") == 1
    assert [run.source for run in few].count("odd") == 1
    assert len(few) < len(many) / 2
