# mypy: disable-error-code="no-any-return"
"""The verification as a part of the library: what `optimize(verify=...)` and `verify` give and
raise.
"""

import errno
import logging
import os
import re
from dataclasses import MISSING, fields
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

import xoptim
from tests.diagnose.test_bisect import right_for
from tests.support import parse, types
from xoptim import (
    DifferentModelError,
    EasyPatternOptimization,
    ModelPass,
    NotVerifiedError,
    OptimizationOptions,
    OptimizationReport,
    VerificationError,
    VerificationOptions,
    XoptimError,
    optimize,
    verify,
)
from xoptim.diagnose.each import EachCheck
from xoptim.engine.events import Application
from xoptim.engine.options import OptimizationChanges
from xoptim.graph.model import Model
from xoptim.graph.node import Node
from xoptim.match import PatternBuilder, PatternRewriter, Symbol
from xoptim.optimizing import verified
from xoptim.optimizing.plans import Plan, VerifyPlan
from xoptim.verification import ChoiceError, run_reference
from xoptim.verification.options import VerificationChanges

MODEL = (
    "agraph (float[N,3] x) => (float[N,3] y) { a = Neg(x) b = Neg(a) c = Exp(b) d = Relu(c) "
    "y = Sin(d) }"
)
UNKNOWN = "agraph (float[N,3] x) => (float[N,3] y) { a = acme.Frobnicate(x) y = Identity(a) }"


class WrongReluPattern(EasyPatternOptimization):
    """Relu(x) → Exp(x), which it is not"""

    def match_pattern(self, g: PatternBuilder, x: Symbol) -> Symbol:
        return g.op.Relu(x)

    def apply_pattern(self, g: PatternRewriter, x: str) -> Any:
        return g.op.Exp(x)


def test_proved(caplog: pytest.LogCaptureFixture) -> None:
    reports: list[OptimizationReport] = []
    result = optimize(parse(MODEL), verify=True, report=reports.append)
    assert types(result) == ["Exp", "Relu", "Sin"]
    (verification,) = reports[0].verification
    assert verification.ok
    assert verification.providers == ("cpu",)
    assert {"random", "wide", "odd"} <= {run.source for run in verification.runs}
    assert reports[0].dropped == ()
    assert caplog.messages == []


def test_nothing_is_proved_unless_asked() -> None:
    reports: list[OptimizationReport] = []
    optimize(parse(MODEL), report=reports.append)
    assert reports[0].verification == ()
    assert types(optimize(parse(MODEL), patterns=WrongReluPattern)) == [
        "Neg",
        "Neg",
        "Exp",
        "Exp",
        "Sin",
    ]
    assert optimize(parse(UNKNOWN, domains={"acme": 1})).graph.node


def test_a_wrong_pattern_is_dropped(caplog: pytest.LogCaptureFixture) -> None:
    reports: list[OptimizationReport] = []
    with caplog.at_level(logging.WARNING, "xoptim"):
        result = optimize(
            parse(MODEL), patterns=["default", WrongReluPattern], verify=True, report=reports.append
        )
    assert types(result) == ["Exp", "Relu", "Sin"]
    (message,) = caplog.messages
    assert re.match("pattern WrongRelu .*dropped", message)
    assert [culprit.name for culprit in reports[0].dropped] == ["WrongRelu"]
    assert [report.status for report in reports[0].verification] == ["equal"]


class FactorOfOnePattern(EasyPatternOptimization):
    """Mul(x, factor) → x, which holds where the factor is 1"""

    def match_pattern(self, g: PatternBuilder, x: Symbol, factor: Symbol) -> Symbol:
        return g.op.Mul(x, factor)

    def apply_pattern(self, g: PatternRewriter, x: str, factor: str) -> Any:
        return g.op.Identity(x)


FACTORS = """agraph (float[N,3] x) => (float[N,3] y) <float one = {1}, float two = {2}> {
    a = Mul(x, one) b = Sin(a) c = Mul(b, two) y = Relu(c) }"""


def test_rewrites_that_are_not_proved_are_undone() -> None:
    plan = Plan(verify=VerifyPlan(refuses_unproved=True, whole=False))
    options = OptimizationOptions(patterns=[FactorOfOnePattern, WrongReluPattern])
    result = verified.optimize_verified(parse(FACTORS), options, plan)
    proofs = result.proofs
    assert proofs is not None
    assert proofs.unproved == []
    refused = [(step.pattern, step.anchor) for step in proofs.refused]
    assert sorted(refused) == [("FactorOfOne", "c"), ("WrongRelu", "y")]
    assert re.match(r"2 rewrites .*\(FactorOfOne, WrongRelu\)$", proofs.refusals())
    assert result.report.applied == {"FactorOfOne": 1}
    assert types(result.proto) == ["Sin", "Mul", "Relu"]


def test_unproved_rewrites_stay_unless_they_are_refused() -> None:
    options = OptimizationOptions(patterns=[WrongReluPattern])
    plan = Plan(verify=VerifyPlan(proves=True, whole=False))
    result = verified.optimize_verified(parse(FACTORS), options, plan)
    assert result.proofs is not None
    assert len(result.proofs.unproved) == 1
    assert result.report.applied == {"WrongRelu": 1}


class UnprovedPass(ModelPass):
    """Sin → Cos, which it is not"""

    def run(self, model: Model) -> int:
        nodes = model.graph.of_type("Sin")
        for node in nodes:
            position = node.previous
            model.graph.remove(node)
            model.graph.insert(Node("Cos", node.input, node.output), position)
        return len(nodes)


def test_a_pass_that_is_not_proved_is_dropped() -> None:
    plan = Plan(verify=VerifyPlan(refuses_unproved=True, whole=False))
    options = OptimizationOptions(patterns=[UnprovedPass])
    result = verified.optimize_verified(parse(FACTORS), options, plan)
    assert result.proofs is not None
    assert [step.pattern for step in result.proofs.refused] == ["UnprovedPass"]
    assert "Cos" not in types(result.proto)


class ExpOrLinearPattern(EasyPatternOptimization):
    """Relu(x) → x, which holds where x is positive"""

    def match_pattern(self, g: PatternBuilder, x: Symbol) -> Symbol:
        return g.op.Relu(x)

    def apply_pattern(self, g: PatternRewriter, x: str) -> Any:
        return g.op.Identity(x)


SEVERAL = (
    "agraph (float[N,3] x) => (float[N,3] y) { a = Exp(x) b = Relu(a) c = Sin(b) d = Relu(c) "
    "e = Exp(d) y = Relu(e) }"
)


def test_a_rewrite_that_is_wrong_at_one_node_is_not_applied_there(
    caplog: pytest.LogCaptureFixture,
) -> None:
    reports: list[OptimizationReport] = []
    with caplog.at_level(logging.WARNING, "xoptim"):
        result = optimize(
            parse(SEVERAL), patterns=[ExpOrLinearPattern], verify=True, report=reports.append
        )
    assert types(result) == ["Exp", "Sin", "Relu", "Exp"]
    (message,) = caplog.messages
    assert "not applied there" in message
    assert [culprit.result for culprit in reports[0].dropped] == ["d"]
    assert [report.status for report in reports[0].verification] == ["equal"]


def test_a_rewrite_that_is_wrong_at_several_nodes_is_dropped(
    caplog: pytest.LogCaptureFixture,
) -> None:
    model = parse(SEVERAL.replace("b = Relu(a) c = Sin(b)", "s = Neg(a) b = Relu(s) c = Add(b, s)"))
    with caplog.at_level(logging.WARNING, "xoptim"):
        result = optimize(model, patterns=[ExpOrLinearPattern], verify=True)
    assert types(result).count("Relu") == 3
    (message,) = caplog.messages
    assert "is dropped" in message


def test_what_differs_is_an_error() -> None:
    reports: list[OptimizationReport] = []
    with pytest.raises(DifferentModelError, match=r"'y' .*N=2") as caught:
        optimize(
            parse(MODEL), patterns=WrongReluPattern, verify=True, strict=True, report=reports.append
        )
    assert isinstance(caught.value, (VerificationError, XoptimError))
    assert caught.value.report.status == "different"
    assert caught.value.report is reports[0].verification[0]
    assert types(caught.value.model) == ["Neg", "Neg", "Exp", "Exp", "Sin"]


def test_nothing_left_to_leave_out_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verified, "MOST_CULPRITS", 0)
    with pytest.raises(DifferentModelError):
        optimize(parse(MODEL), patterns=WrongReluPattern, verify=True)


def test_what_cannot_be_judged_is_an_error_with_the_model() -> None:
    with pytest.raises(NotVerifiedError, match="the original") as caught:
        optimize(parse(UNKNOWN, domains={"acme": 1}), verify=True)
    assert caught.value.report.cause == "load"
    assert types(caught.value.model) == ["Frobnicate"]
    with pytest.raises(ChoiceError, match=r"input 'x' .*shape"):
        optimize(parse(MODEL), verify=VerificationOptions(feeds={"x": np.ones((2, 4), np.float32)}))


def test_options_of_the_proof() -> None:
    reports: list[OptimizationReport] = []
    checks = VerificationOptions(dims={"N": 5}, assignments=1)
    optimize(parse(MODEL), verify=checks, report=reports.append)
    assert [dict(run.dims) for run in reports[0].verification[0].runs] == [{"N": 5}]
    with pytest.raises(xoptim.XoptimError, match="provider 'none'"):
        optimize(parse(MODEL), provider="none", verify=True)


def weighted() -> onnx.ModelProto:
    model = parse("agraph (float[N,64] x) => (float[N,64] y) { v = Identity(w) y = MatMul(x, v) }")
    model.graph.initializer.append(
        numpy_helper.from_array(np.random.default_rng(0).standard_normal((64, 64), np.float32), "w")
    )
    return model


def test_every_kind_of_model(tmp_path: Path) -> None:
    import onnx_ir as ir

    model = weighted()
    onnx.save(
        model, tmp_path / "m.onnx", save_as_external_data=True, location="w.bin", size_threshold=0
    )
    path = tmp_path / "m.onnx"
    for given in (weighted(), path, str(path), weighted().SerializeToString(), ir.load(path)):
        result = optimize(given, verify=True)
        expected = onnx.ModelProto if isinstance(given, (str, Path)) else type(given)
        assert isinstance(result, expected)
        assert verify(given, path).ok
        assert verify(path, given).ok
    # weights next to a protobuf are looked for where the options say
    light = onnx.load(path, load_external_data=False)
    assert verify(light, light, original_dir=tmp_path, optimized_dir=tmp_path).ok


def test_leaving_out_with_weights_in_a_file(tmp_path: Path) -> None:
    import onnx_ir as ir

    model = weighted()
    model.graph.node.append(onnx.helper.make_node("Relu", ["y"], ["z"]))
    model.graph.output[0].name = "z"
    onnx.save(
        model, tmp_path / "m.onnx", save_as_external_data=True, location="w.bin", size_threshold=0
    )
    for given in (tmp_path / "m.onnx", ir.load(tmp_path / "m.onnx")):
        reports: list[OptimizationReport] = []
        optimize(given, patterns=WrongReluPattern, verify=True, report=reports.append)
        assert [culprit.name for culprit in reports[0].dropped] == ["WrongRelu"]


def test_verify() -> None:
    same = verify(parse(MODEL), optimize(parse(MODEL)), exactness="exact")
    assert same.ok
    wrong = optimize(parse(MODEL), patterns=WrongReluPattern)
    assert verify(parse(MODEL), wrong).status == "different"
    assert verify(parse(MODEL), wrong, VerificationOptions(atol=1e9, rtol=0)).ok
    assert {run.dims["N"] for run in verify(parse(MODEL), wrong, dims={"N": 1}).runs} == {1}
    with pytest.raises(xoptim.ModelError, match=os.strerror(errno.ENOENT)):
        verify("nowhere.onnx", parse(MODEL))


@pytest.mark.parametrize(
    ("options", "changes"),
    [(OptimizationOptions, OptimizationChanges), (VerificationOptions, VerificationChanges)],
)
def test_keywords_are_the_fields_of_the_options(options: Any, changes: Any) -> None:
    accepted = {
        name: getattr(kind, "__forward_arg__", kind)
        for name, kind in changes.__annotations__.items()
    }
    # an argument of its own
    own = [(field.name, field.type) for field in fields(options) if field.name != "target"]
    assert own == list(accepted.items())
    assert not changes.__required_keys__
    assert all(
        f.default is not MISSING or f.default_factory is not MISSING for f in fields(options)
    )


@pytest.mark.slow
def test_a_pattern_that_is_still_wrong_after_one_node_is_dropped(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Each rewrite is right on the recorded run, and wrong at other sizes."""
    model = parse(SEVERAL.replace("e = Exp(d) y = Relu(e)", "e = Cos(d) y = Relu(e)"))
    rows = np.asarray(run_reference(model, VerificationOptions()).runs[0].feeds["x"]).shape[0]
    pattern = right_for(rows)
    with caplog.at_level(logging.WARNING, "xoptim"):
        result = optimize(model, patterns=[pattern], verify=True)
    assert types(result).count("Relu") == types(model).count("Relu")
    first, second = caplog.messages
    assert "not applied there" in first
    assert re.match("pattern RightFor: .*dropped", second)


def test_unproved_rewrites_are_suspected_first(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    checked: list[str] = []
    check = EachCheck.__call__

    def note(self: EachCheck, application: Application) -> None:
        checked.append(application.pattern.name())
        check(self, application)

    monkeypatch.setattr(EachCheck, "__call__", note)
    options = OptimizationOptions(patterns=[FactorOfOnePattern, WrongReluPattern])
    plan = Plan(verify=VerifyPlan(proves=True))
    model = FACTORS.replace("two = {2}", "two = {1}")
    result = verified.optimize_verified(parse(model), options, plan)
    assert [culprit.name for culprit in result.dropped] == ["WrongRelu"]
    assert result.dropped[0].evidence.endswith(" not proved")
    assert checked == ["WrongRelu"]
    assert "is dropped" in caplog.text
