import re
from collections.abc import Callable

import numpy as np
import onnx
import pytest

from tests.passes.opsets.lowered import check, reason
from tests.passes.opsets.raised import numbers
from tests.support import load, parse, text_of
from xoptim.facts.errors import ModelError
from xoptim.graph.export import export_model
from xoptim.graph.load import load_model
from xoptim.passes.opsets import lowering
from xoptim.passes.opsets.adapters import Judgement
from xoptim.passes.opsets.changes import operators, versions
from xoptim.passes.opsets.lowering import (
    LOWERINGS,
    OLDEST,
    check_target,
    judge_lowering,
    lower_model,
    plan_lowering,
)

STEPS = [
    (op_type, version)
    for op_type in operators()
    for version in versions(op_type)
    if version > OLDEST
]
NEW = {(op_type, versions(op_type)[0]) for op_type in operators()}
RELU = "agraph (float[n] x) => (float[n] y) { y = Relu (x) }"


def is_hole(judged: Callable[[str, int], Judgement], op_type: str, version: int) -> bool:
    """Whether a change is refused for its operator set alone, without a reason of its own."""
    return judged(op_type, version).refusal.startswith(f"operator set {version} ")


def test_every_change_of_every_operator_has_a_way_back_or_a_reason() -> None:
    """Types only, additions with defaults, an adapter, or a refusal that was written by hand."""
    assert [step for step in STEPS if is_hole(judge_lowering, *step)] == []


def test_the_changes_that_are_refused() -> None:
    refused = {step for step in STEPS if judge_lowering(*step).refusal}
    assert refused - NEW == {("GroupNormalization", 21), ("Scan", 9), ("Scan", 11)}


def test_each_adapter_is_for_a_change() -> None:
    assert set(LOWERINGS) <= set(STEPS)


def test_a_change_that_nobody_reviewed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lowering, "LOWERINGS", {})
    judged = judge_lowering.__wrapped__
    assert is_hole(judged, "Squeeze", 13)
    assert is_hole(judged, "Pad", 19), "a value more"
    assert is_hole(judged, "Flatten", 11), "operands that were invalid"
    assert judged("Relu", 14) == Judgement()
    assert judged("AveragePool", 19) == Judgement(), "the attribute must have its default"


def test_operators_that_stay_as_they_are() -> None:
    feeds = {"x": numbers(3)}
    assert check(RELU, 24, 7, feeds) == ["Relu"]
    text = "agraph (float[2,3,4] x) => (float[a,b,c] y) { y = Transpose <perm = [0, 2, 1]> (x) }"
    assert check(text, 25, 7, {"x": numbers(2, 3, 4)}) == ["Transpose"]


def test_types_that_the_older_set_does_not_have() -> None:
    text = RELU.replace("float[n]", "int32[n]")
    assert re.search(r"Relu .*'y' .* 13: .*operand .*tensor\(int32\) .* 13$", reason(text, 14, 13))
    text = "agraph (seq(float[n]) x) => (seq(float[n]) y) { y = Identity (x) }"
    assert "seq(tensor(float))" in reason(text, 14, 13)


def test_additions() -> None:
    text = (
        "agraph (float[2,2,3] x, float[1,4,3] w, float[1,4,4] r) => (float[a,b,c,d] y) "
        "{ y = RNN <hidden_size = 4, layout = 0> (x, w, r) }"
    )
    feeds = {"x": numbers(2, 2, 3), "w": numbers(1, 4, 3), "r": numbers(1, 4, 4)}
    assert check(text, 14, 13, feeds) == ["RNN"]
    assert " layout " in reason(text.replace("layout = 0", "layout = 1"), 14, 13)
    text = (
        "agraph (float[1,1,4,4] x) => (float[a,b,c,d] y, int64[a,b,c,d] i) { "
        "y, i = MaxPool <kernel_shape = [2, 2]> (x) }"
    )
    assert "result Indices" in reason(text, 8, 7)
    unread = text.replace(", int64[a,b,c,d] i)", ")")
    assert check(unread, 8, 7, {"x": numbers(1, 1, 4, 4)}) == ["MaxPool"]


def test_an_operator_that_the_older_set_does_not_have() -> None:
    text = "agraph (float[n] x) => (float[n] y) { [g] y = Gelu (x) }"
    assert re.match(r"node 'g' \(Gelu\) .* 17: the set ", reason(text, 20, 17))


NESTED = """agraph (float[2,3] x, bool c) => (float[a,b] y) <int64[1] i = {1}>
{ y = If (c) <then_branch = one () => (float[a,b] p) { p = ReduceMean (x, i) },
              else_branch = two () => (float[a,b] q) { q = ReduceMax (x, i) }> }"""


def test_subgraphs() -> None:
    for given in (True, False):
        feeds = {"x": numbers(2, 3), "c": np.array(given)}
        assert check(NESTED, 18, 13, feeds) == ["If", "ReduceMean", "ReduceMax"]


def test_local_functions() -> None:
    text = """agraph (float[2,3] x) => (float[a,b] y) { y = own.f (x) }
    <domain: "own", opset_import: ["" : 18]> f (x) => (y)
    { i = Constant <value_ints = [1]> () y = ReduceMean (x, i) }"""
    model = load(text, 18, domains={"own": 1})
    assert lower_model(model, 13) == 1
    after = export_model(model)
    assert [entry.version for entry in after.functions[0].opset_import if not entry.domain] == [13]
    assert after.ir_version == 8, "older versions of the format have no functions"
    onnx.checker.check_model(after)
    refused = text.replace(
        "i = Constant <value_ints = [1]> () y = ReduceMean (x, i)", "y = Gelu (x)"
    ).replace("18]", "20]")
    assert re.search(r"\bGelu\b.*'f' .* 13", reason(refused, 20, 13, domains={"own": 1}))


@pytest.mark.parametrize(("target", "expected"), [(17, 8), (13, 7), (9, 4), (7, 4)])
def test_the_version_of_the_file_format(target: int, expected: int) -> None:
    model = load(RELU, 24, ir_version=11)
    lower_model(model, target)
    assert export_model(model).ir_version == expected


def test_a_version_of_the_file_format_that_stays() -> None:
    older = load(RELU, 24, ir_version=3)
    lower_model(older, 17)
    assert export_model(older).ir_version == 3
    text = (
        "agraph (float[n] x, float8e4m3fn[n] z) => (float[n] y, float8e4m3fn[n] w) { y = Relu (x) "
        "w = own.F (z) }"
    )
    newer = load(text, 24, ir_version=11, domains={"own": 1})
    lower_model(newer, 17)
    assert export_model(newer).ir_version == 11


def test_a_plan_changes_nothing() -> None:
    model = load(NESTED, 18)
    before = text_of(model)
    found = plan_lowering(model, 13)
    assert len(found.plan.calls) == 2
    assert found.error() is None
    assert text_of(model) == before


def test_sets_to_which_no_model_is_lowered() -> None:
    model = load(RELU, 18)
    for target, expected in ((6, " 7 .* 6$"), (20, " 18, .* 20$")):
        with pytest.raises(ModelError, match=expected):
            check_target(model, target)
    trained = parse(RELU, 18)
    trained.training_info.add()
    with pytest.raises(ModelError, match="training graphs"):
        lower_model(load_model(trained), 17)


def test_operators_of_other_domains_stay() -> None:
    text = "agraph (float[n] x) => (float[n] y) { y = com.microsoft.QuickGelu (x) }"
    assert check(text, 18, 13, {"x": numbers(3)}, domains={"com.microsoft": 1}) == ["QuickGelu"]


def test_a_local_function_that_hides_an_operator() -> None:
    text = """agraph (float[a,b,c] x) => (int64[n] y) { y = Shape <start = 1> (x) z = Slice (y) }
    <opset_import: ["" : 18]> Slice (x) => (y) { y = Identity (x) }"""
    assert "the name Slice" in reason(text, 18, 13)
