"""Assumptions in the metadata of a model: the author of the file wrote them, so they hold only
where the caller says so.
"""

import json
from pathlib import Path
from typing import Any

import onnx
import pytest

from tests.cli.command import Xopt, types_in, write
from tests.support import types
from xoptim import GraphBuilder, diff_values, infer, optimize, optimize_file, verify
from xoptim.facts.assumptions import ENTRY

SQUARE = "agraph (float[n] x) => (float[n] y) { y = Mul(x, x) }"
SAME = "agraph (float[n] x) => (float[n] y) { y = Identity(x) }"
SIZES = "agraph (float[n] x) => (int64[1] y) { s = Shape(x) y = Neg(s) }"
TRUST = "--assume-from-model"
UNUSED = "the assumptions in the metadata are not used: {}; --assume-from-model uses them"


def entry(path: str | Path) -> list[str]:
    return [each.value for each in onnx.load(path).metadata_props if each.key == ENTRY]


def write_with(text: str, name: str, assumptions: str) -> Path:
    path = write(text, name)
    model = onnx.load(path)
    model.metadata_props.add(key=ENTRY, value=assumptions)
    onnx.save(model, path)
    return path


def frozen(path: str = "model.opt.onnx") -> bool:
    return "Shape" not in types_in(path)


def test_a_model_does_not_choose_how_it_is_judged(xopt: Xopt) -> None:
    write(SQUARE, "a.onnx")
    write_with(SAME, "b.onnx", "bool(x)")
    outcome = xopt("verify", "a.onnx", "b.onnx")
    assert outcome.code == 3
    assert UNUSED.format("'bool(x)'") in outcome.out
    assert "--assume 'bool(x)' " in outcome.out
    found = xopt("verify", "a.onnx", "b.onnx", "--json")
    assert found.code == 3
    assert [(each["status"], each["cause"], each["assumptions"]) for each in found.json] == [
        ("not verified", "assumptions", [])
    ]
    for words in ((TRUST,), ("--assume", "bool(x)")):
        outcome = xopt("verify", "a.onnx", "b.onnx", *words)
        assert outcome.code == 0
        assert "assumed: bool(x)" in outcome.out
        assert xopt("verify", "a.onnx", "b.onnx", *words, "--json").json[0]["assumptions"] == [
            "bool(x)"
        ]
    assert xopt("verify", "b.onnx", "a.onnx").code == 3, "nor does the original"


def test_equal_models_are_equal_whatever_they_list(xopt: Xopt) -> None:
    write(SQUARE, "a.onnx")
    write_with(SQUARE, "b.onnx", "bool(x); n == 3")
    outcome = xopt("verify", "a.onnx", "b.onnx")
    assert outcome.code == 0
    assert UNUSED.format("'n == 3', 'bool(x)'") in outcome.out
    assert (
        UNUSED.format("'bool(x)'") in xopt("verify", "a.onnx", "b.onnx", "--assume", "n == 3").out
    )
    assert (
        "not used"
        not in xopt("verify", "a.onnx", "b.onnx", "--assume", "n == 3", "--assume", "bool(x)").out
    )


def test_no_assumption_explains_another_signature(xopt: Xopt) -> None:
    write(SQUARE, "a.onnx")
    write_with("agraph (float[n] x) => (float[n] z) { z = Mul(x, x) }", "b.onnx", "bool(x)")
    assert xopt("verify", "a.onnx", "b.onnx").code == 1


def test_sizes_are_frozen_only_if_the_caller_says_so(xopt: Xopt) -> None:
    write_with(SIZES, "model.onnx", "n == 3")
    outcome = xopt("model.onnx")
    assert (outcome.code, frozen()) == (0, False)
    assert outcome.warnings == [UNUSED.format("'n == 3'")]
    assert "assumed" not in outcome.out
    assert entry("model.opt.onnx") == ["n == 3"], "a record of how it was made"
    assert xopt("model.onnx", "--json", "--dry-run").json["assumptions"] == []
    outcome = xopt("model.onnx", TRUST)
    assert (outcome.code, outcome.err, frozen()) == (0, "", True)
    assert "assumed       n == 3" in outcome.out
    assert xopt("model.onnx", TRUST, "--json", "--dry-run").json["assumptions"] == ["n == 3"]
    assert xopt("model.onnx", "--assume", "n == 3").err == "", "they are given"
    assert xopt("model.onnx", "--assume", "n == 4").code == 0, (
        "they do not contradict what is not used"
    )
    assert "cannot hold" in xopt("model.onnx", "--assume", "n == 4", TRUST).error


@pytest.mark.usefixtures("bad_patterns")
def test_metadata_of_the_original_excuse_no_wrong_rewrite(xopt: Xopt) -> None:
    write_with(
        "agraph (float[n] x) => (float[n] y) { t = Neg(x) y = Relu(t) }", "model.onnx", "n >= 1"
    )
    outcome = xopt("model.onnx", "--patterns", "WrongRelu", "--strict")
    assert outcome.code == 1
    assert xopt("bisect", "model.onnx", "--patterns", "WrongRelu").code == 1


def test_shapes_are_inferred(xopt: Xopt) -> None:
    write_with(
        "agraph (float[n] x) => (float[k] y) { t = Neg(x) y = Abs(t) }", "model.onnx", "n == 3"
    )
    outcome = xopt("extract", "model.onnx", "-o", "out.onnx")
    assert outcome.warnings == [UNUSED.format("'n == 3'")]
    assert onnx.load("out.onnx").graph.value_info[0].type.tensor_type.shape.dim[0].dim_param == "n"
    assert xopt("extract", "model.onnx", "-o", "out.onnx", TRUST).err == ""
    assert onnx.load("out.onnx").graph.value_info[0].type.tensor_type.shape.dim[0].dim_value == 3


def test_models_are_compared_everywhere(xopt: Xopt) -> None:
    write(SQUARE, "a.onnx")
    write_with(SAME, "b.onnx", "bool(x)")
    quick = ("--seconds", "0.01")
    assert xopt("bench", "a.onnx", "b.onnx", *quick).code == 3
    measured = xopt("bench", "a.onnx", "b.onnx", *quick, TRUST)
    assert measured.code == 0
    assert "assumed: bool(x)" in measured.out
    assert xopt("bench", "a.onnx", "b.onnx", *quick, TRUST, "--json").json["assumptions"] == [
        "bool(x)"
    ]
    assert xopt("diff", "a.onnx", "b.onnx", "--html", "page.html").code == 3
    assert (
        "assumed       bool(x)"
        in xopt("diff", "a.onnx", "b.onnx", "--html", "page.html", TRUST).out
    )
    values = xopt("diff", "--values", "a.onnx", "b.onnx")
    assert (values.code, values.warnings) == (1, [UNUSED.format("'bool(x)'")])
    values = xopt("diff", "--values", "a.onnx", "b.onnx", TRUST)
    assert values.code == 0
    assert values.out.startswith("assumed: bool(x)\n")
    assert xopt("diff", "--values", "a.onnx", "b.onnx", "--assume", "bool(x)").code == 0


def test_tuning_batches_and_checks(xopt: Xopt) -> None:
    Path("models").mkdir()
    write_with(SIZES, "models/model.onnx", "n == 3")
    for trust, expected in (((), []), ((TRUST,), ["n == 3"])):
        assert xopt("batch", "models", "-o", "out", "-j", "1", *trust).code == 0
        assert frozen("out/model.onnx") == bool(trust)
        (line,) = Path("out/results.jsonl").read_text().splitlines()
        assert json.loads(line)["assumptions"] == expected
        found = xopt(
            "tune", "models/model.onnx", "-o", "tuned.onnx", "--budget", "1", *trust, "--json"
        )
        assert (found.code, found.json["assumptions"]) == (0, expected)
    assert xopt("check", "models/model.onnx", "--max-shrink", "10%").code == 0
    found = xopt("check", "models/model.onnx", "--max-shrink", "10%", TRUST)
    assert (found.code, found.out.rstrip().endswith("; assumed: n == 3")) == (1, True)
    assert xopt("check", "models/model.onnx", TRUST, "--json").json[0]["assumptions"] == ["n == 3"]
    assert "assumed: n == 3" in xopt("bisect", "models/model.onnx", TRUST).out


@pytest.mark.parametrize("options", [("--matches",), ()])
def test_patterns_that_need_them(xopt: Xopt, options: tuple[str, ...]) -> None:
    text = (
        "agraph (int64[n,m] x) => (int64[n] y) <int64[1] a = {1}> { "
        "y = ReduceMax <keepdims = 0> (x, a) }"
    )
    write_with(text, "model.onnx", "sorted(x); m >= 1")
    words = ("explain", "model.onnx", "SortedReduce", *options, "--json")
    plain, trusting = xopt(*words), xopt(*words, TRUST)
    if not options:
        assert (plain.json["assumptions"], trusting.json["assumptions"]) == (
            [],
            ["m >= 1", "sorted(x)"],
        )
        without, found = plain.json["explanations"], trusting.json["explanations"]
    else:
        without, found = plain.json, trusting.json
    assert [each["status"] for each in without] == ([] if options else ["refused"])
    assert [each["status"] for each in found] == ["matches"]
    assert plain.warnings == [UNUSED.format("'m >= 1', 'sorted(x)'")]
    assert trusting.err == ""
    listed = xopt("explain", "model.onnx", "SortedReduce", *options, TRUST)
    assert "assumed: m >= 1, sorted(x)" in listed.out
    assert xopt("apply", "model.onnx", "SortedReduce", "--at", "y", "-o", "out.onnx").code == 1
    applied = xopt("apply", "model.onnx", "SortedReduce", "--at", "y", "-o", "out.onnx", TRUST)
    assert applied.code == 0
    assert "assumed       m >= 1, sorted(x)" in applied.out


def test_statistics_list_what_a_model_says(xopt: Xopt) -> None:
    write_with(SIZES, "model.onnx", "n == 3")
    for words in ((), (TRUST,)):
        assert xopt("stats", "model.onnx", "--json", *words).json["assumptions"] == ["n == 3"]
    assert xopt("stats", "model.onnx", "--json").json["inputs"] == {"x": "float[n]"}
    assert xopt("stats", "model.onnx", "--json", TRUST).json["inputs"] == {"x": "float[3]"}


def test_dumps(xopt: Xopt, monkeypatch: pytest.MonkeyPatch) -> None:
    text = (
        "agraph (int64[n,m] x) => (int64[n] y) <int64[1] a = {1}> { "
        "y = ReduceMax <keepdims = 0> (x, a) }"
    )
    write(text)
    monkeypatch.setenv("DUMPPATTERNS", "dumps")
    assert (
        xopt(
            "model.onnx",
            "--assume",
            "sorted(x)",
            "--assume",
            "m >= 1",
            "--patterns",
            "SortedReduce",
        ).code
        == 0
    )
    monkeypatch.delenv("DUMPPATTERNS")
    plain: Any = xopt("replay", "dumps", "--json").json
    assert {each["status"] for each in plain} == {"not verified"}
    assert {each["status"] for each in xopt("replay", "dumps", TRUST, "--json").json} == {"equal"}


def test_python(tmp_path: Path) -> None:
    square, same = write(SQUARE, "a.onnx"), write_with(SAME, "b.onnx", "bool(x)")
    sizes = write_with(SIZES, "sizes.onnx", "n == 3")
    assert verify(square, same).cause == "assumptions"
    assert verify(square, same, assume_from_model=True).assumptions == ("bool(x)",)
    assert len(diff_values(square, same)) == 1
    assert not diff_values(square, same, assume_from_model=True)
    assert types(optimize(sizes)) == ["Shape", "Neg"]
    assert types(optimize(sizes, assume_from_model=True)) == ["Constant"]
    assert GraphBuilder(sizes).model.assumptions.texts == ()
    assert GraphBuilder(sizes, assume_from_model=True).model.assumptions.texts == ("n == 3",)
    assert infer(sizes).graph.value_info == infer(write(SIZES, "plain.onnx")).graph.value_info
    optimize_file(sizes, tmp_path / "out.onnx")
    assert (frozen(str(tmp_path / "out.onnx")), entry(tmp_path / "out.onnx")) == (False, ["n == 3"])


def test_long_metadata_are_short_lines(xopt: Xopt) -> None:
    write_with(SIZES, "model.onnx", "; ".join(f"n >= {i}; x{i} >= 1" for i in range(99)))
    assert xopt("model.onnx").warnings == [UNUSED.format("'n >= 98'")], (
        "sizes that the model lacks do not count"
    )
    write_with(SIZES, "model.onnx", "n >= 1" * 9999)
    (warning,) = xopt("model.onnx").warnings
    assert "xoptim.assumptions is ignored" in warning
    assert len(warning) < 300
    inputs = ", ".join(f"float[n{i}] x{i}" for i in range(20))
    write_with(
        f"agraph ({inputs}) => (float[n0] y) {{ y = Neg(x0) }}",
        "model.onnx",
        "; ".join(f"n{i} >= 1" for i in range(20)),
    )
    (warning,) = xopt("model.onnx").warnings
    assert "'n15 >= 1' and 12 more; " in warning
