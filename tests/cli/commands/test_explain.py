"""``xopt explain``: a condition broken on purpose is reported first."""

import linecache
import re
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.cli.command import TRANSPOSES, Xopt, files, write
from tests.dialects.rules import pair
from tests.support import values_in
from xoptim.verification.runs.plugins import Plugin

_ROOTS = (
    "float three = {3}, float c = {0.044715}, float k = {0.7978846}, float one = {1}, float half = "
    "{0.5}"
)
_GELU = (
    "h = Mul(x, half) p = Pow(x, three) q = Mul(p, c) s = Add(x, q) t = Mul(s, k) u = Tanh(t) "
    "v = Add(u, one) y = Mul(h, v)"
)
_MATMUL_MUL = (
    "float[4] c = {1, 2, 3, 4}, int64[4] s = {0, 0, 2, 2}, float half = {0.5}> { t = MatMul(x, w) "
    "u = Add(t, c) v = Reshape(u, s) z = Transpose <perm = [0, 1, 3, 2]> (v) y = Mul(z, half)"
)


class Broken(NamedTuple):
    """A model in which one condition of a pattern does not hold, next to decoys that fail earlier.

    Attributes:
        pattern: name of the pattern.
        text: the model.
        reason: what is wrong.
        culprit: a result of the node at which the condition fails.
        line: what stands in the line of the condition.
        opset: version of the standard operator set.
    """

    pattern: str
    text: str
    reason: str
    culprit: str
    line: str
    opset: int = 18


BROKEN = {
    "a nudged literal": Broken(
        "GeluErf",
        "agraph (float[a,b] x) => (float[a,b] y, float[a,b] y2, "
        "float[a,b] y3) <float s = {1.4152}, float one = {1}, float half = {0.5}> { y2 = Erf(x) "
        "z = Exp(x) w = Erf(z) y3 = Add(w, one) d = Div(x, s) e = Erf(d) p = Add(e, one) "
        "m = Mul(x, p) y = Mul(m, half) }",
        "'s' is not the constant 1.4142135623730951",
        "d",
        "g.op.Div(x, math.sqrt(2))",
        20,
    ),
    "another attribute": Broken(
        "LayerNormalization",
        "agraph (float[a,4] x) => (float[a,4] y, float[b,4] y2, float[a,4] y3) <float two = {2}, "
        "float e = {0.001}, int64[1] i = {-1}, int64[1] j = {0}> { r = Relu(x) y3 = Sqrt(r) "
        "m = ReduceMean(x, j) d = Sub(x, m) q = Pow(d, two) v = ReduceMean(q, i) w = Add(v, e) "
        "s = Sqrt(w) y = Div(d, s) y2 = ReduceMean(r, j) }",
        "attribute axes=[0] does not fit",
        "m",
        "g.op.ReduceMean(x, axes=",
    ),
    "another type": Broken(
        "MatMulAdd",
        "agraph (int32[n,4] x, int32[4,3] w, float[n,4] u, float[4,3] v) "
        "=> (int32[n,3] y, float[n,3] y2, float[n,3] y3) <int32[3] b = {1, 2, 3}> { "
        "k = MatMul(u, v) y2 = Relu(k) t = MatMul(x, w) y = Add(b, t) l = MatMul(u, v) "
        "y3 = Neg(l) }",
        "the type int32 of 'x' does not fit",
        "t",
        "operand_types = ",
    ),
    "a second reader": Broken(
        "HardSwish",
        "agraph (float[a,b] x) => (float[a,b] y, float[a,b] y2, float[a,b] y3) "
        "<float three = {3}, float zero = {0}, float six = {6}> { y3 = Clip(x, zero, six) "
        "t = Add(x, three) u = Clip(t, zero, six) v = Mul(x, u) y = Div(v, six) y2 = Neg(t) }",
        "an intermediate result is read elsewhere",
        "t",
        "g.op.Clip(g.op.Add(x, 3.0)",
    ),
    "an output in between": Broken(
        "SigmoidExp",
        "agraph (float[a,b] x) => (float[a,b] y, float[a,b] n, float[a,b] y2) <float one = {1}> { "
        "f = Relu(x) g = Exp(f) y2 = Add(g, one) n = Neg(x) e = Exp(n) s = Add(one, e) "
        "y = Div(one, s) }",
        "an intermediate result is read elsewhere",
        "n",
        "power = Exp (negative)",
    ),
    "operands in another order": Broken(
        "LogSoftmaxExp",
        "agraph (float[a,b] x) => (float[a,b] y, float[a,b] y2, "
        "float[a,b] y3) <int64[1] i = {-1}> { o = Neg(x) y2 = Log(o) h = ReduceSum(x, i) "
        "r = Log(h) y3 = Sub(x, r) m = ReduceMax(x, i) d = Sub(m, x) e = Exp(d) "
        "s = ReduceSum(e, i) l = Log(s) y = Sub(d, l) }",
        "'x' is not produced by ReduceMax",
        "d",
        "g.op.Sub(x, g.op.ReduceMax(x, axes=axes))",
    ),
    "an unknown shape": Broken(
        "ReshapeGemmReshape",
        "agraph (float[] x, float[4,3] w, float[3] b, float[n,4] f2) => (float[] y, float[n,3] y2) "
        "<int64[2] s = {-1, 4}, int64[3] t = {-1, 5, 3}> { g = Gemm(f2, w, b) y2 = Relu(g) "
        "f = Reshape(x, s) p = Gemm(f, w, b) y = Reshape(p, t) }",
        "the shapes are unknown, or no axes are merged",
        "f",
        "the shapes are unknown",
    ),
    "another operator": Broken(
        "FastGelu",
        f"agraph (float[a,b] x) => (float[a,b] y, float[a,b] y2, float[a,b] y3) <{_ROOTS}> {{ "
        "y2 = Tanh(x) f = Mul(x, k) g = Tanh(f) "
        f"y3 = Add(g, one) {_GELU.replace('Pow(x, three)', 'Exp(x)')} }}",
        "expected Mul, found Exp",
        "p",
        "g.op.Mul(g.op.Mul(x, x), x)",
    ),
    "an operand that is not constant": Broken(
        "MatMulMul",
        "agraph (float[a,b,2] x, float h, float[2,4] w) "
        f"=> (float[a,b,2,2] y, float[a,b,2] y2, float[4] y3) <{_MATMUL_MUL} y2 = Mul(x, "
        "h) r = Relu(c) y3 = Mul(c, r) }",
        "not from linear layers only, or a result in between has other consumers",
        "t",
        "return self.none(layer or node,",
    ),
    "an old operator set": Broken(
        "Gelu",
        f"agraph (float[a,b] x) => (float[a,b] y, float[a,b] y2) <{_ROOTS}> {{ "
        f"y2 = Tanh(x) {_GELU} }}",
        "min_opset 20, the model has 18",
        "u",
        "min_opset = 20",
    ),
    "a missing piece": Broken(
        "GathersSplit",
        "agraph (float[a,2] x, int64 n) "
        "=> (float[a,1] y, float[a,1] z, float[a] y2) <int64 i = {0}, int64 j = {-1}, "
        "int64[1] k = {-1}> { y2 = Gather <axis = 1> (x, n) p = Gather <axis = 1> (x, i) "
        "q = Gather <axis = 1> (x, n) y = Unsqueeze(p, k) z = Unsqueeze(q, k) }",
        "an index has no Gather, or the axis has no static size",
        "p",
        "an index has no Gather",
    ),
    "axes in another order": Broken(
        "TransposeReduce",
        "agraph (float[2,3,4,5] x) => (float[2,5,4] y, float[2,3,4] y2) <int64[1] k = {-1}> { "
        "y2 = ReduceMean <keepdims = 0> (x, k) t = Transpose <perm = [0, 3, 2, 1]> (x) "
        "y = ReduceMean <keepdims = 0> (t, k) }",
        "the Transpose reorders the axes that remain",
        "y",
        "the Transpose reorders the axes that remain",
    ),
}


@pytest.mark.parametrize("case", BROKEN.values(), ids=BROKEN)
def test_the_broken_condition_comes_first(xopt: Xopt, case: Broken) -> None:
    write(case.text, opset=case.opset, domains={"com.microsoft": 1})
    outcome = xopt("explain", "model.onnx", case.pattern)
    assert (outcome.code, outcome.err) == (0, "")
    found, decoy, *_ = xopt("explain", "model.onnx", case.pattern, "--json").json["explanations"]
    assert (found["status"], decoy["status"]) == ("refused", "refused")
    assert decoy["progress"] < found["progress"]
    assert found["reason"] == case.reason
    assert case.culprit in found["culprit"]["outputs"]
    lines = linecache.getlines(found["file"])[found["line"] - 1 :]
    assert case.line in "".join(line.strip() for line in lines[:3])
    first = outcome.out.splitlines()[0]
    assert first.startswith(f"{case.pattern} refused at #")
    assert case.reason in first
    assert f"{found['file']}:{found['line']}" in first
    assert f"{case.culprit!r}" in first


def test_decoys_follow_in_a_table(xopt: Xopt) -> None:
    write(BROKEN["another operator"].text)
    lines = xopt("explain", "model.onnx", "FastGelu").out.splitlines()
    assert [line.strip() for line in lines[1:3]] == ["'x' float[a,b]", "'p' float[a,b]"]
    assert re.split(r"\s{2,}", lines[4].strip()) == [
        "node",
        "reached",
        "reason",
        "failed at",
        "condition",
    ]
    assert [line.split()[1] for line in lines[5:7]] == ["Tanh", "Tanh"]
    assert values_in(lines[-1]) == ["3", "3"]


def test_values_are_told(xopt: Xopt) -> None:
    write(BROKEN["a nudged literal"].text, opset=20)
    (value,) = xopt("explain", "model.onnx", "GeluErf", "--at", "e", "--json").json["explanations"][
        0
    ]["values"]
    assert value == {
        "name": "s",
        "dtype": "float",
        "shape": [],
        "is_constant": True,
        "value": 1.4152,
    }
    assert "    's' float[] = 1.4152" in xopt("explain", "model.onnx", "GeluErf").out.splitlines()


def test_what_else_was_tried(xopt: Xopt) -> None:
    write(BROKEN["a nudged literal"].text, opset=20)
    (found,) = xopt("explain", "model.onnx", "GeluErf", "--at", "e", "--json").json["explanations"]
    assert found["others"]
    shown = xopt("explain", "model.onnx", "GeluErf", "--at", "e", "-v").out
    assert all(other["reason"] in shown for other in found["others"])
    assert any(other["reason"].endswith("Div") for other in found["others"])


def test_limits(xopt: Xopt) -> None:
    nodes = " ".join(f"t{i + 1} = Transpose(t{i})" for i in range(14))
    write(f"agraph (float[a,b] t0) => (float[a,b] y) {{ {nodes} y = Relu(t14) }}")
    words = ("explain", "model.onnx", "TransposeTranspose")
    assert values_in(xopt(*words).out.splitlines()[-1]) == ["14", "1", "13", "4", "--all"]
    for options, count in ((("--limit", "2"), 2), (("--all",), 14)):
        assert len(xopt(*words, *options, "--json").json["explanations"]) == count
    assert xopt(*words[:2], "NotNot", "--json").json["explanations"] == []


def test_after_other_patterns(xopt: Xopt) -> None:
    write(
        "agraph (float[a,b] x) => (float[a,b] y) { b = Cast <to = 9> (x) c = Not(b) t = Not(c) "
        "u = Cast <to = 1> (t) y = Add(x, u) }"
    )
    words = ("explain", "model.onnx", "NotNot")
    for options, count in (((), 1), (("--after", "default"), 0), (("--after", ""), 1)):
        assert len(xopt(*words, *options, "--matches", "--json").json) == count
        statuses = [
            each["status"] for each in xopt(*words, *options, "--json").json["explanations"]
        ]
        assert statuses.count("matches") == count
    assert "'defualt'" in xopt(*words, "--after", "defualt").error


@pytest.mark.parametrize(
    ("words", "names"),
    [
        (("NotNott",), ["NotNott", "NotNot"]),
        (("default",), ["default"]),
        (("TransposeTranspose", "--at", "tt"), ["tt", "t"]),
        (("TransposeTranspose", "--at", "#3"), ["#3", "0", "2"]),
    ],
)
def test_bad_requests(xopt: Xopt, words: tuple[str, ...], names: list[str]) -> None:
    write(TRANSPOSES)
    others = ("apply", ("-o", "out.onnx")) if "--at" in words else ("explain", ("--matches",))
    for command, options in (("explain", ()), others):
        error = xopt(command, "model.onnx", *words, *options).error
        assert values_in(error)[: len(names)] == names
    assert files() == {"model.onnx"}


def test_no_model(xopt: Xopt) -> None:
    for words in (
        ("explain", "gone.onnx", "NotNot"),
        ("explain", "gone.onnx", "NotNot", "--matches"),
        ("apply", "gone.onnx", "NotNot", "--at", "x", "-o", "y.onnx"),
    ):
        assert "'gone.onnx'" in xopt(*words).error


@pytest.mark.usefixtures("bad_patterns")
def test_a_pattern_that_raises(xopt: Xopt) -> None:
    write("agraph (float[a,b] x) => (float[a,b] y) { y = Relu(x) }")
    first = xopt("explain", "model.onnx", "Failing").out.splitlines()[0]
    assert first.startswith("Failing failed at #0 Relu 'y': ")
    assert "bad_patterns.py:" in first
    error = "ZeroDivisionError"
    assert error in first
    assert error in xopt("explain", "model.onnx", "Failing", "--matches").error
    assert error in xopt("apply", "model.onnx", "Failing", "--at", "y", "-o", "out.onnx").error


def test_rules_of_a_file(xopt: Xopt) -> None:
    write("agraph (float[a] x) => (float[a] y) { t = Neg(x) u = Abs(t) y = Neg(u) }")
    rule = pair("match (x) => (y) { t = Neg (x) y = Neg (t) }").replace('"R"', '"Twice"')
    Path("rules.onnxtxt").write_text(rule)
    words = ("explain", "model.onnx", "Twice", "--rewrite", "rules.onnxtxt")
    first = xopt(*words, "--at", "y").out.splitlines()[0]
    assert first.index("Neg") < first.index("Abs") < first.index("rules.onnxtxt:")
    assert xopt(*words, "--matches", "--json").json == []


def test_a_pass_explains_its_groups(xopt: Xopt) -> None:
    write(
        "agraph (float[n,4] x, float[n,4] z) => (float[n,4] y, float[n,4] v) { y = Relu(x) "
        "v = Relu(z) }"
    )
    outcome = xopt("explain", "model.onnx", "repeated")
    assert (outcome.code, outcome.err) == (0, "")
    first, *_, second, last = outcome.out.splitlines()
    assert first.startswith("Repeated refused at #0 Relu 'y': ")
    assert "RepeatedOnCpu: " in second
    assert values_in(last) == ["2", "2"]
    (only,) = xopt("explain", "model.onnx", "Repeated", "--json").json["explanations"]
    assert [place["outputs"] for place in only["matched"]] == [["y"], ["v"]]


TWO_GATHERS = "<int64 i = {1}, int64[1] k = {1}> { t = Gather <axis = 1> (x, i) y = Unsqueeze(t, k)"
ADVICE = {
    "another reader": (
        f"agraph (float[a,b,c] x) => (float[a,1,c] y, float[a,c] z) {TWO_GATHERS} z = Relu(t) }}",
        "GatherUnsqueeze",
        "'t' is read by #2 Relu 'z'",
    ),
    "a subgraph": (
        (
            f"agraph (float[a,b,c] x, bool c) => (float[a,1,c] y, float[] z) {TWO_GATHERS} "
            "z = If (c) <then_branch = p () => (float[] u) { u = Relu(t) }, else_branch = q () "
            "=> (float[] v) { v = Neg(t) }> }"
        ),
        "GatherUnsqueeze",
        "'t' is read by #2 If 'z'",
    ),
    "an output": (
        f"agraph (float[a,b,c] x) => (float[a,1,c] y, float[a,c] t) {TWO_GATHERS} }}",
        "GatherUnsqueeze",
        "'t' is an output of the model; `--drop-output t` removes it",
    ),
    "a default": (
        f"agraph (float[a,b,c] x, int64 i) => (float[a,1,c] y) {TWO_GATHERS} }}",
        "GatherUnsqueeze",
        "'i' is an initializer and a graph input, so a caller may override it",
    ),
    "an old operator set and a constant": (
        (
            "agraph (float[a] x) => (float[a] y) <float s = {1.5}, float one = {1}, "
            "float half = {0.5}> { d = Div(x, s) e = Erf(d) p = Add(e, one) m = Mul(x, p) "
            "y = Mul(m, half) }"
        ),
        "GeluErf",
        "`--opset 20` converts the model; also: 's' is not the constant 1.4142135623730951",
    ),
    "a provider": (
        "agraph (float[a,4] x, float[4] s) => (float[a,4] y) { y = LayerNormalization(x, s) }",
        "SkipLayerNormalization",
        "`--provider cuda` optimizes for it; also: ",
    ),
    "a function": (
        (
            "agraph (float[a,b] x) => (float[b,a] y) { t = local.f(x) y = Transpose <perm = [1, 0]>"
            ' (t) } <domain: "local", opset_import: ["" : 18]> f (p) => (q) { q = Transpose(p) }'
        ),
        "TransposeTranspose",
        "local::f is a local function; `--inline` inlines its calls",
    ),
}


@pytest.mark.parametrize(("text", "pattern", "advice"), ADVICE.values(), ids=ADVICE)
def test_the_advice_follows(xopt: Xopt, text: str, pattern: str, advice: str) -> None:
    write(text, domains={"local": 1})
    found, *_ = xopt("explain", "model.onnx", pattern, "--json").json["explanations"]
    assert found["advice"].startswith(advice)
    assert f"    {found['advice']}" in xopt("explain", "model.onnx", pattern).out.splitlines()


def test_an_operator_of_another_domain_is_named(xopt: Xopt) -> None:
    write(
        "agraph (float[a,b] x) => (float[a,b] y) { t = acme.Transpose(x) "
        "y = Transpose <perm = [1, 0]> (t) }",
        domains={"acme": 1},
    )
    assert " acme::Transpose at #0 " in xopt("explain", "model.onnx", "TransposeTranspose").out


def test_a_pattern_that_matches_says_so_first(xopt: Xopt) -> None:
    write("agraph (float[a,b] x) => (float[a,b] y) { t = Transpose(x) y = Transpose(t) }")
    lines = xopt("explain", "model.onnx", "TransposeTranspose").out.splitlines()
    assert lines[0].startswith("TransposeTranspose matches at #1 Transpose 'y'; ")
    assert any(line.startswith("`--after default` ") for line in lines)


def test_a_pattern_that_is_not_on_by_default_says_so(xopt: Xopt) -> None:
    text = "agraph (float[a,b] x) => (float[a,b] y) { s = Sigmoid(x) y = Mul(x, s) }"
    write(text)
    names = ["default", "--include QuickGelu"]
    lines = xopt("explain", "model.onnx", "QuickGelu").out.splitlines()
    assert names in [values_in(line) for line in lines]


def test_json_lists_the_assumptions_in_force(xopt: Xopt) -> None:
    write("agraph (float[a,b] x) => (float[a,b] y) { t = Transpose(x) y = Transpose(t) }")
    words = ("explain", "model.onnx", "TransposeTranspose", "--json")
    assert xopt(*words).json["assumptions"] == []
    found = xopt(*words, "--assume", "a >= 2").json
    assert found["assumptions"] == ["a >= 2"]
    assert len(found["explanations"]) == 2


def test_who_took_a_match(xopt: Xopt) -> None:
    """The pattern itself, another one, or cleaning; by position too, although the node is gone."""
    write(
        "agraph (float[a,b] x) => (float[a,b] y, float[a,b] z) { t = Transpose(x) y = Transpose(t) "
        "p = Transpose(x) z = Transpose(p) }"
    )
    after = ("--after", "TransposeTranspose")
    found = xopt("explain", "model.onnx", "TransposeTranspose", *after, "--json").json[
        "explanations"
    ]
    assert [(each["status"], each["anchor"]["position"], each["reason"]) for each in found] == [
        ("taken", 1, "it was applied"),
        ("taken", 3, "cleanup, constant folding or merging removed one of its nodes"),
    ]
    out = xopt("explain", "model.onnx", "MovementChain", *after, "--at", "t").out.splitlines()
    assert out[0].startswith("MovementChain matched at #1 Transpose 'y' ")
    assert ": TransposeTranspose" in out[0]
    assert out[-1].endswith("; 1 taken")
    error = xopt("explain", "model.onnx", "TransposeTranspose", *after, "--at", "nothing").error
    assert "'nothing'" in error


def test_a_pattern_that_is_dropped_for_a_target(xopt: Xopt) -> None:
    path = write(TRANSPOSES)
    lines = xopt("explain", path, "SmoothedNormalization", "--target", "webgpu").out.splitlines()
    expected = "SmoothedNormalization is dropped for webgpu: known to be faster on cpu only"
    assert lines[0] == expected
    lines = xopt("explain", path, "SmoothedNormalization", "--target", "cpu").out.splitlines()
    assert lines[0] == "SmoothedNormalization is used for cpu"
    found = xopt("explain", path, "TransposeTranspose", "--target", "webgpu", "--json").json
    assert found["target"] == ["TransposeTranspose is used for webgpu"]
    assert "target" not in xopt("explain", path, "TransposeTranspose", "--json").json
    for target, expected in (
        ("cpu", "is dropped for cpu: it is for cuda only"),
        ("webgpu", "is dropped for webgpu: it is for cuda only"),
        ("cuda", "is used for cuda"),
    ):
        found = xopt("explain", path, "SkipLayerNormalization", "--target", target, "--json").json
        assert found["target"] == [f"SkipLayerNormalization {expected}"]
    found = xopt("explain", path, "Float16Compute", "--target", "cpu", "--json").json
    assert found["target"] == []


GELUS = "agraph (float[n,4] x) => (float[n,4] y) { t = com.microsoft.Gelu(x) y = Relu(t) }"


def test_a_lowering_that_a_target_needs(xopt: Xopt, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(GELUS, domains={"com.microsoft": 1})

    def first(target: str) -> str:
        return xopt("explain", path, "LowerGelu", "--target", target).out.splitlines()[0]

    assert first("onnx") == "LowerGelu is needed: onnx does not take com.microsoft::Gelu 't'"
    assert first("cpu") == "LowerGelu is not needed: cpu takes every node that it could replace"
    monkeypatch.setattr(Plugin, "is_installed", False)
    expected = (
        "LowerGelu replaces nodes that webgpu does not take; these are unknown: webgpu is not "
        "installed: pip install 'xoptim[webgpu]'"
    )
    assert first("webgpu") == expected


def test_examples_are_proved(xopt: Xopt) -> None:
    outcome = xopt("explain", "MatMulAddMul", "--prove")
    premises = "(sizes from 0, constants within 8 * 2^-24)"
    line = f"over real numbers, constants folded {premises}"
    assert (outcome.code, outcome.out) == (0, f"example 1: {line}\nexample 2: {line}\n")
    sides = xopt("explain", "TransposeTranspose", "--prove", "-v").out.splitlines()[:3]
    assert "same bits" in sides[0]
    assert sides[1:] == ["    before Relu(x[i0, i1])", "    after  Relu(x[i0, i1])"]
