"""The environment variables of the seed document."""

from pathlib import Path
from typing import Any

import pytest

from tests.engine.rules import NegNegPattern, chain, renaming
from tests.support import parse, types
from xoptim.api.optimizing import optimize
from xoptim.engine.environment import DebugSettings, read_environment
from xoptim.engine.options import OptimizationOptions
from xoptim.facts.errors import BudgetError, UnknownPatternError, XoptimError
from xoptim.optimizing.builder import GraphBuilder

TEXT = chain("Neg", "Neg", "Exp")


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({}, {}),
        ({"LOG_PATTERN_OPTIMIZE": "10"}, {"verbose": 10}),
        ({"LOG_PATTERN_OPTIMIZE": ""}, {}),
        ({"PATTERN": "TransposeTransposePattern, Cast"}, {"patterns": ("TransposeTranspose", "Cast")}),
        ({"PATTERN": " , "}, {}),
        ({"DROPPATTERN": "TransposeTransposePattern,Cast"}, {"drop": ("TransposeTranspose", "Cast")}),
        ({"TransposeTransposePattern": "10"}, {"levels": {"TransposeTranspose": 10}}),
        ({"MyOwnPattern": "5", "OtherPattern": "text", "HOME": "3"}, {"levels": {"MyOwn": 5}}),
        ({"DUMPPATTERNS": "folder"}, {"dump": Path("folder")}),
        ({"PATTERNNOREMOVE": "output_0"}, {"keep": "output_0"}),
        ({"PATTERNSTEP": "1"}, {"step": True}),
        ({"PATTERNSTEP": "True"}, {"step": True}),
        ({"PATTERNSTEP": "true"}, {"step": True}),
        ({"PATTERNSTEP": "0"}, {}),
        ({"PATTERNSTEP": "yes"}, {}),
    ],
)
def test_reading(variables: dict[str, str], expected: dict[str, Any]) -> None:
    assert read_environment(variables) == DebugSettings(**expected)


@pytest.mark.parametrize(("variable", "text"), [("LOG_PATTERN_OPTIMIZE", "much"), ("TransposeTransposePattern", "on")])
def test_what_is_no_number(variable: str, text: str) -> None:
    with pytest.raises(XoptimError, match=f"{variable}='{text}' is not a number"):
        read_environment({variable: text})


def gr(patterns: Any = NegNegPattern) -> GraphBuilder:
    return GraphBuilder(parse(TEXT), optimization_options=OptimizationOptions(patterns=patterns))


def test_it_is_read_once_when_options_are_made(monkeypatch: pytest.MonkeyPatch) -> None:
    options = OptimizationOptions()
    monkeypatch.setenv("PATTERNSTEP", "1")
    assert not options.debug.step
    assert OptimizationOptions().debug.step
    given = DebugSettings()
    assert OptimizationOptions(debug=given).debug is given


@pytest.mark.parametrize("name", ["NegNeg", "NegNegPattern"])
def test_dropping_a_pattern(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DROPPATTERN", f"{name},TransposeTransposePattern")
    assert types(gr().to_onnx()) == ["Neg", "Neg", "Exp"]
    assert types(optimize(parse(TEXT), patterns=[NegNegPattern])) == ["Neg", "Neg", "Exp"]


@pytest.mark.parametrize("name", ["NegNeg", "NegNegPattern"])
def test_more_about_one_pattern(name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("PATTERN", name)
    gr([NegNegPattern, renaming("Exp", "Log")]).optimize()
    output = capsys.readouterr().out
    assert "applied NegNeg" in output
    assert "ExpToLog" not in output


@pytest.mark.parametrize("variable", ["NegNegPattern", "LOG_PATTERN_OPTIMIZE"])
def test_more_by_number(variable: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv(variable, "10")
    gr([NegNegPattern, renaming("Exp", "Log")]).optimize()
    output = capsys.readouterr().out
    assert "applied NegNeg" in output
    assert ("applied ExpToLog" in output) == (variable == "LOG_PATTERN_OPTIMIZE")


@pytest.mark.parametrize("variable", ["PATTERN", "DROPPATTERN"])
def test_names_that_nobody_knows(variable: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(variable, "TransposTranspose")
    with pytest.raises(
        UnknownPatternError, match=f"{variable}: unknown pattern 'TransposTranspose'; did you mean 'TransposeTranspose'"
    ):
        gr().optimize()


def test_dumping(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("DUMPPATTERNS", str(tmp_path / "dump"))
    gr().optimize()
    assert len(list((tmp_path / "dump").glob("*NegNeg*.onnx"))) == 2


def test_names_that_must_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATTERNNOREMOVE", "t1")
    with pytest.raises(BudgetError, match="PATTERNNOREMOVE: pattern NegNeg removes result 't1'"):
        gr().optimize()


def test_one_step_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATTERNSTEP", "1")
    builder = gr([NegNegPattern, renaming("Exp", "Log")])
    rows = builder.optimize()
    applied = [row["iteration"] for row in rows if row["pattern"].startswith("apply_")]
    assert len(applied) == len(set(applied)) == 2
    assert types(builder.to_onnx(optimize=False)) == ["Log"]
