from tests.support import parse
from tests.verification.reasons import named_source
from xoptim.verification import VerificationOptions, verify_models
from xoptim.verification.inputs.feeding import ReferenceRun
from xoptim.verification.inputs.reference import run_reference

LENGTH = "=> (int64 y) { y = SequenceLength(items) }"
HEAD = "agraph (float[2] x, optional(float[2]) a, optional(float[2]) b, optional(float[2]) c)"
PRESENT = f"""{HEAD} => (bool p, bool q, bool r) {{ p = OptionalHasElement(a)
q = OptionalHasElement(b) r = OptionalHasElement(c) }}"""


def runs_of(text: str, source: str, **options: object) -> list[ReferenceRun]:
    runs = run_reference(parse(text), VerificationOptions(**options)).runs  # type: ignore[arg-type]
    return [run for run in runs if run.source == source]


def lengths(run: ReferenceRun, name: str = "items") -> list[int]:
    """The sizes of the first axes of the items of a sequence."""
    value = run.feeds[name]
    assert isinstance(value, list)
    return [item.shape[0] for item in value]


def test_sequences_of_several_lengths() -> None:
    runs = runs_of(f"agraph (seq(float[2]) items) {LENGTH}", "items")
    assert [len(lengths(run)) for run in runs] == [0, 1, 3, 6]


def test_each_sequence_changes_alone() -> None:
    runs = runs_of(f"agraph (seq(float[2]) items, seq(float[2]) other) {LENGTH}", "items")
    pairs = [(len(lengths(run)), len(lengths(run, "other"))) for run in runs]
    assert pairs[4:] == [(0, 2), (3, 2), (2, 0), (2, 3)]


def test_items_differ_in_axes_without_a_name() -> None:
    runs = runs_of(f"agraph (seq(float[?,2]) items) {LENGTH}", "items")
    assert [len(set(lengths(run))) for run in runs[4:]] == [2, 3, 3]
    named = runs_of(f"agraph (seq(float[n,2]) items) {LENGTH}", "items")
    assert all(len(set(lengths(run))) <= 1 for run in named)


def test_lengths_that_the_original_refuses_are_skipped() -> None:
    text = """agraph (seq(float[2]) items) => (float[2] y) <int64 place = {1}>
    { y = SequenceAt(items, place) }"""
    assert [len(lengths(run)) for run in runs_of(text, "items")] == [3, 6]
    assert verify_models(parse(text), parse(text)).ok


def test_optional_inputs_are_absent() -> None:
    runs = runs_of(PRESENT, "absent")
    absent = [{name for name, value in run.feeds.items() if value is None} for run in runs]
    assert absent == [{"a"}, {"b"}, {"c"}, {"a", "b", "c"}, {"b", "c"}, {"a", "c"}, {"a", "b"}]


def test_one_optional_input_is_absent_once() -> None:
    text = "agraph (optional(float[2]) a) => (bool p) { p = OptionalHasElement(a) }"
    assert [run.feeds for run in runs_of(text, "absent")] == [{"a": None}]


def test_other_models_get_no_such_runs() -> None:
    text = "agraph (float[n] x) => (float[n] y) { y = Relu(x) }"
    assert not runs_of(text, "items")
    assert not runs_of(text, "absent")


def test_the_message_names_the_inputs() -> None:
    before = parse("agraph (optional(float[2]) a) => (bool p) { p = OptionalHasElement(a) }")
    after = parse(
        "agraph (optional(float[2]) a) => (bool p) { h = OptionalHasElement(a) n = Not(h) "
        "p = Or(h, n) }"
    )
    report = verify_models(before, after)
    assert (report.status, named_source(report)) == ("different", "absent")
    before, after = (
        parse(f"agraph (seq(float[2]) items) => (int64 y) <int64 two = {{2}}> {{ {nodes} }}")
        for nodes in ("y = SequenceLength(items)", "n = SequenceLength(items) y = Min(two, n)")
    )
    assert named_source(verify_models(before, after)) == "items"
