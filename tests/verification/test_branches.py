import itertools

import numpy as np
import onnx
import pytest

from tests.support import parse, values_in
from tests.verification.reasons import named_source
from xoptim.verification import VerificationOptions, verify_models
from xoptim.verification.inputs.branches import counting
from xoptim.verification.runs.session import Session

NESTED = """agraph (float[n] x, int64 trips) => (float[n] y, float[m] sums) <float zero = {0}, bool
  go = {1}> {
    total = ReduceSum <keepdims = 0> (x)
    positive = Greater(total, zero)
    a = If (positive)
        <then_branch = t () => (float[n] u) {
            not = Not(positive)
            u = If (not) <then_branch = tt () => (float[n] v) { v = Neg(x) },
                          else_branch = te () => (float[n] w) { w = Identity(x) }>
        }, else_branch = e () => (float[n] z) { z = Abs(x) }>
    y, sums = Loop (trips, go, a) <body = b (int64 i, bool k, float[n] p) => (bool k2, float[n] p2,
      float r) {
        k2 = Identity(k)
        d = Greater(i, i)
        p2 = If (d) <then_branch = lt () => (float[n] v3) { v3 = Neg(p) },
                     else_branch = le () => (float[n] w3) { w3 = Identity(p) }>
        r = ReduceSum <keepdims = 0> (p2) }>
    }"""


@pytest.mark.parametrize(
    ("values", "trips", "counts"),
    [
        ([1, 2], 0, [1, 0, 1, 0, 0, 0, 0]),
        ([1, 2], 3, [1, 0, 1, 0, 3, 0, 3]),
        ([-1, -2], 1, [0, 0, 0, 1, 1, 0, 1]),
    ],
)
def test_counts_of_nested_subgraphs(values: list[float], trips: int, counts: list[int]) -> None:
    counted = counting(parse(NESTED))
    assert counted is not None
    onnx.checker.check_model(counted.proto)
    feeds = {"x": np.array(values, np.float32), "trips": np.array(trips)}
    (found,) = Session(counted.proto).run(feeds)
    assert isinstance(found, np.ndarray)
    assert found.tolist() == counts
    assert [(body.owner, body.name) for body in counted.bodies][:4] == [
        ("a", "then_branch"),
        ("u", "then_branch"),
        ("u", "else_branch"),
        ("a", "else_branch"),
    ]
    assert [body.is_counted for body in counted.bodies] == [
        False,
        False,
        False,
        False,
        True,
        False,
        False,
    ]


def test_counts_of_a_scan() -> None:
    model = parse("""agraph (float[n] x, float[1] s) => (float[1] last, float[n,1] each) {
            last, each = Scan <num_scan_inputs = 1, body = b (float[1] a, float e) => (float[1] t,
              float[1] f)
                { t = Add(a, e) f = Identity(t) }> (s, x) }""")
    counted = counting(model)
    assert counted is not None
    feeds = {"x": np.ones(5, np.float32), "s": np.zeros(1, np.float32)}
    (found,) = Session(counted.proto).run(feeds)
    assert isinstance(found, np.ndarray)
    assert found.tolist() == [5]


def test_a_model_without_subgraphs_has_nothing_to_count() -> None:
    assert counting(parse("agraph (float[n] x) => (float[n] y) { y = Neg(x) }")) is None


def test_a_branch_that_no_value_reaches_is_named() -> None:
    text = """agraph (float[n] x) => (float[n] y) <float
      low = {{-1}}> {{ a = Abs(x) s = ReduceSum <keepdims = 0> (a)
        never = Less(s, low)
        y = If (never) <then_branch = t () => (float[n] u) {{ u = Neg(x) }},
                        else_branch = e () => (float[n] v) {{ v = {op}(x) }}> }}"""
    model = parse(text.format(op="Relu"))
    report = verify_models(model, model)
    assert report.ok
    (missed,) = (note for note in report.notes if note.startswith("never ran: "))
    assert values_in(missed) == ["then", "y"]
    assert verify_models(model, parse(text.format(op="Abs"))).status == "different"


def test_a_branch_behind_a_threshold_runs() -> None:
    text = """agraph (float[n] x) => (float[n] y) <float
      limit = {{12345}}> {{ s = ReduceSum <keepdims = 0> (x)
        large = Greater(s, limit)
        y = If (large) <then_branch = t () => (float[n] u) {{ u = {op}(x) }},
                        else_branch = e () => (float[n] v) {{ v = Relu(x) }}> }}"""
    report = verify_models(parse(text.format(op="Neg")), parse(text.format(op="Identity")))
    assert report.status == "different"
    assert verify_models(
        parse(text.format(op="Neg")),
        parse(text.format(op="Identity")),
        VerificationOptions(extremes=False),
    ).ok


def chained(count: int) -> onnx.ModelProto:
    """A model of some If, each of which negates the result of the one before or takes its absolute
    value.
    """
    node = "{0} = If (c) <then_branch = t{0} () => (float[n] u{0}) {{ u{0} = Neg({1}) }}, "
    node += "else_branch = e{0} () => (float[n] v{0}) {{ v{0} = Abs({1}) }}>"
    names = ["x", *(f"y{number}" for number in range(count))]
    nodes = " ".join(node.format(second, first) for first, second in itertools.pairwise(names))
    return parse(f"agraph (float[n] x, bool c) => (float[n] {names[-1]}) {{ {nodes} }}")


def test_all_of_many_branches_are_counted() -> None:
    counted = counting(chained(130))
    assert counted is not None
    session = Session(counted.proto)
    for condition in (True, False):
        (found,) = session.run({"x": np.ones(2, np.float32), "c": np.array(condition)})
        assert np.asarray(found).tolist() == [int(condition), int(not condition)] * 130
    assert len(counted.bodies) == 260
    assert verify_models(chained(130), chained(130)).notes == ()


def test_more_branches_than_can_be_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("branches", "reach"):
        monkeypatch.setattr(f"xoptim.verification.inputs.{module}.MAX_BODIES", 8)
    model = chained(5)
    assert counting(model) is None
    assert counting(chained(4)) is not None
    report = verify_models(model, model)
    assert report.ok
    limit = "it is not known which of 10 branches and loop bodies ran: at most 8 are counted"
    assert limit in report.notes
    assert report.uncounted == limit
    assert report.strict_objection == limit


NEVER = """agraph (float[n] x) => (float[n] y) <float low = {-1}> {
    a = Abs(x) s = ReduceSum <keepdims = 0> (a) never = Less(s, low)
    y = If (never) <then_branch = t () => (float[n] u) { u = Neg(x) },
                    else_branch = e () => (float[n] v) { v = Relu(x) }> }"""


def test_what_no_run_reached_is_part_of_the_verdict() -> None:
    report = verify_models(parse(NEVER), parse(NEVER))
    assert report.ok
    (missed,) = report.unreached
    assert values_in(missed) == ["then", "y"]
    assert missed in report.strict_objection
    assert report.to_json()["unreached"] == [missed]


def test_branches_of_given_values_are_counted() -> None:
    text = """agraph (float[n] x, bool c) => (float[n] y) {
        y = If (c) <then_branch = t () => (float[n] u) { u = Neg(x) },
                    else_branch = e () => (float[n] v) { v = Relu(x) }> }"""
    values = {"x": np.ones(3, np.float32), "c": np.array(True)}
    report = verify_models(parse(text), parse(text), VerificationOptions(feeds=values))
    (missed,) = report.unreached
    assert values_in(missed) == ["else", "y"]
    assert verify_models(parse(text), parse(text)).unreached == ()


def test_branches_are_counted_with_a_tolerance_of_the_caller() -> None:
    report = verify_models(parse(NEVER), parse(NEVER), VerificationOptions(rtol=1e-3))
    assert len(report.unreached) == 1


def test_branches_of_local_functions_are_counted() -> None:
    model = parse(NEVER.replace("agraph", "g"))
    body = onnx.helper.make_function(
        "own", "F", ["x"], ["y"], [], model.opset_import, attributes=[]
    )
    low = onnx.helper.make_node("Constant", [], ["low"], value=model.graph.initializer[0])
    body.node.extend([low, *model.graph.node])
    call = onnx.helper.make_node("F", ["x"], ["y"], domain="own")
    graph = onnx.helper.make_graph([call], "g", model.graph.input, model.graph.output)
    opsets = [*model.opset_import, onnx.helper.make_opsetid("own", 1)]
    calling = onnx.helper.make_model(
        graph, functions=[body], opset_imports=opsets, ir_version=model.ir_version
    )
    report = verify_models(calling, calling)
    assert report.ok
    assert len(report.unreached) == 1


def test_numbers_of_trips_are_notes_only() -> None:
    text = """agraph (float[n] x) => (float[n] y) <int64 most = {3}, bool go = {1}> {
        s = Size(x) one = Div(s, s) trips = Mul(one, most)
        y = Loop (trips, go, x) <body = b (int64 i, bool k, float[n] p) => (bool k2, float[n] p2)
            { k2 = Identity(k) p2 = Neg(p) }> }"""
    report = verify_models(parse(text), parse(text), VerificationOptions(dims={"n": 4}))
    assert any("one trip of Loop 'y'" in note for note in report.notes)
    assert report.unreached == ()
    assert report.strict_objection == ""


def test_optional_inputs_are_left_out() -> None:
    text = """agraph (optional(float[n]) x) => (float[m] y) <float[2] d = {{1, {}}}> {{
        h = OptionalHasElement(x)
        y = If (h) <then_branch = t () => (float[n] u) {{ e = OptionalGetElement(x) u = Neg(e) }},
                    else_branch = e () => (float[k] v) {{ v = Identity(d) }}> }}"""
    assert verify_models(parse(text.format(2)), parse(text.format(2))).unreached == ()
    report = verify_models(parse(text.format(2)), parse(text.format(3)))
    assert (report.status, named_source(report)) == ("different", "absent")


def test_branches_of_models_in_sections_are_not_counted() -> None:
    report = verify_models(parse(NEVER), parse(NEVER), VerificationOptions(sections=True))
    assert report.ok
    assert report.uncounted
    assert report.uncounted in report.notes
