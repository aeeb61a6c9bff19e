"""The options about assumptions."""

import re
from pathlib import Path

import numpy as np
import onnx
import pytest

from tests.cli.command import Xopt, files, types_in, write
from tests.support import values_in

MASKED = (
    "agraph (float[b,s,2,4] x, float[b,2,t,4] k, float[b,2,t,4] v, float[b,1,s,t] mask) "
    "=> (float[b,2,s,4] y) { q = Transpose <perm = [0, 2, 1, 3]> (x) "
    "p = Transpose <perm = [0, 1, 3, 2]> (k) a = MatMul(q, p) e = Add(a, mask) "
    "w = Softmax <axis = -1> (e) y = MatMul(w, v) }"
)
KNOWN = ("--assume", "t >= 1", "--assume", "finite(mask)")
WORDS = "t >= 1, finite(mask)"


def entry(path: str = "model.opt.onnx") -> list[str]:
    return [
        each.value for each in onnx.load(path).metadata_props if each.key == "xoptim.assumptions"
    ]


def test_a_model_is_optimized_under_assumptions(xopt: Xopt) -> None:
    write(MASKED, opset=23)
    hints = xopt("model.onnx", "--dry-run").out
    assert " --assume 't >= 1' --assume 'finite(mask)'" in hints
    outcome = xopt("model.onnx", *KNOWN)
    assert (outcome.code, outcome.err) == (0, "")
    assert f"assumed       {WORDS}" in outcome.out
    assert "Attention" in types_in("model.opt.onnx")
    assert entry() == ["t >= 1; finite(mask)"]
    assert xopt("model.onnx", *KNOWN, "--json", "--dry-run").json["assumptions"] == WORDS.split(
        ", "
    )
    assert xopt("stats", "model.opt.onnx", "--json").json["assumptions"] == WORDS.split(", ")
    assert f"assumptions   {WORDS}" in xopt("stats", "model.opt.onnx").out
    xopt("model.opt.onnx", "-o", "again.onnx")
    assert Path("again.onnx").read_bytes() == Path("model.opt.onnx").read_bytes()


def test_values_that_break_an_assumption(xopt: Xopt) -> None:
    write(MASKED, opset=23)
    xopt("model.onnx", *KNOWN)
    trust = "--assume-from-model"
    assert xopt("verify", "model.onnx", "model.opt.onnx", trust).code == 0
    outcome = xopt("verify", "model.onnx", "model.opt.onnx", trust, "--dim", "t=0")
    assert outcome.error.endswith(" t >= 1")
    np.savez("feeds.npz", mask=np.full((1, 1, 1, 2), -np.inf, np.float32))
    refused = xopt("verify", "model.onnx", "model.opt.onnx", trust, "--feeds", "feeds.npz")
    assert values_in(refused.error) == ["mask"]
    assert refused.error.endswith(" finite(mask)")
    assert (
        xopt(
            "verify", "model.onnx", "model.onnx", "--feeds", "feeds.npz", "--assume", "finite(mask)"
        ).code
        == 2
    )
    assert xopt("model.onnx", *KNOWN, "--feeds", "feeds.npz").code == 2


@pytest.mark.usefixtures("bad_patterns")
def test_a_wrong_rewrite_is_found_under_assumptions(xopt: Xopt) -> None:
    write(
        "agraph (float[n] x, float[m] z) => (float[n] y, float[m] w) { t = Neg(x) r = Relu(t) "
        "y = Abs(r) w = Neg(z) }"
    )
    known = ("--assume", "n >= 2", "--assume", "m % 4 == 0", "--assume", "finite(z)")
    outcome = xopt("bisect", "model.onnx", "--patterns", "default+WrongRelu", *known)
    assert (outcome.code, types_in("model.bisect.onnx")) == (1, ["Relu"])
    for more in ((), ("--check", "each")):
        healed = xopt("model.onnx", "--patterns", "default+WrongRelu", *known, *more)
        assert healed.code == 0
        assert "WrongRelu" in healed.err
        assert "Relu" in types_in("model.opt.onnx")
        assert entry() == ["m % 4 == 0; n >= 2; finite(z)"]


def test_guards(xopt: Xopt) -> None:
    write(MASKED, opset=23)
    outcome = xopt("model.onnx", *KNOWN, "--guard")
    assert (outcome.code, outcome.err) == (0, "")
    assert "unguarded" not in outcome.out
    assert {"assumed: t >= 1", "assumed: finite(mask)"} <= {
        node.name for node in onnx.load("model.opt.onnx").graph.node
    }


@pytest.mark.parametrize(
    ("text", "end"),
    [
        ("past = 1", "=="),
        ("pst >= 1", "'pst'; its dynamic dimensions are b, s, t"),
        ("finite(msk)", "'msk'; its inputs are x, k, v, mask"),
        ("finit", "'finite'?"),
    ],
)
def test_assumptions_that_cannot_be_used(xopt: Xopt, text: str, end: str) -> None:
    write(MASKED, opset=23)
    assert end in xopt("model.onnx", "--assume", text).error
    assert files() == {"model.onnx"}


def test_assumptions_that_do_not_fit_are_dropped(xopt: Xopt) -> None:
    write(MASKED, opset=23)
    outcome = xopt("model.onnx", *KNOWN, "--assume", "pst >= 1", "--assume-fitting")
    (warning,) = outcome.warnings
    assert (outcome.code, values_in(warning)) == (0, ["pst >= 1", "pst"])
    assert warning.endswith("it is ignored")
    assert entry() == ["t >= 1; finite(mask)"]


def test_one_of_many_models_lacks_a_size(xopt: Xopt) -> None:
    Path("models").mkdir()
    write(MASKED, "models/masked.onnx", opset=23)
    write("agraph (float[n] x) => (float[n] y) { y = Neg(x) }", "models/other.onnx")
    assert xopt("batch", "models", "-o", "out", "-j", "1", *KNOWN).code == 0
    assert (entry("out/masked.onnx"), entry("out/other.onnx")) == (["t >= 1; finite(mask)"], [])


def test_settings(xopt: Xopt) -> None:
    write(MASKED, opset=23)
    Path(".git").mkdir()
    Path("xoptim.toml").write_text('assume = ["t >= 1", "finite(mask)"]\n')
    assert xopt("model.onnx").code == 0
    assert entry() == ["t >= 1; finite(mask)"]
    write("agraph (float[n] x) => (float[n] y) { y = Neg(x) }", "other.onnx")
    for words in (
        ("other.onnx",),
        ("verify", "other.onnx", "other.onnx"),
        ("explain", "other.onnx", "NegNeg"),
    ):
        outcome = xopt(*words)
        assert outcome.code == 0, "settings are for many models"
        assert outcome.err.count("it is ignored") == 2
    Path("xoptim.toml").write_text('assume = ["t = 1"]\n')
    assert re.search("xoptim.toml: .*'--assume'", xopt("model.onnx").error)


def test_explanations_under_assumptions(xopt: Xopt) -> None:
    write(MASKED, opset=23)
    words = ("explain", "model.onnx", "Attention")
    assert "--assume 't >= 1' " in xopt(*words).out
    assert "--assume 'finite(mask)' " in xopt(*words, "--assume", "t >= 1").out
    assert "1 matches" in xopt(*words, *KNOWN).out


@pytest.mark.usefixtures("brief")
def test_guarded_models_are_measured_on_values_that_pass(xopt: Xopt) -> None:
    write("agraph (float[n,m] x) => (float[n,m] y) { t = Neg(x) y = Exp(t) }")
    known = ("--assume", "m % 7 == 5", "--assume", "sorted(x)")
    outcome = xopt(
        "model.onnx", *known, "--guard", "--benchmark", "--only-if-faster", "--include", "extra"
    )
    assert (outcome.code, outcome.err) == (0, "")
    assert (
        "assumed: m % 7 == 5"
        in xopt("bench", "model.onnx", "model.opt.onnx", "--seconds", "0.1").err
    )
    assert (
        xopt(
            "bench", "model.onnx", "model.opt.onnx", "--seconds", "0.1", "--assume-from-model"
        ).code
        == 0
    )


def test_tuning_keeps_them(xopt: Xopt) -> None:
    write(MASKED, opset=23)
    assert xopt("tune", "model.onnx", "--budget", "1", *KNOWN, "--json").code == 0
    assert "pst" in xopt("tune", "model.onnx", "--budget", "1", "--assume", "pst >= 1").error


def test_the_default_set_is_switched_off(xopt: Xopt) -> None:
    write(
        "agraph (float[n] x) => (float[n] y) <int64[1] s = {0}, int64[1] e = {2147483647}> { "
        "t = Slice(x, s, e) y = Neg(t) }"
    )
    xopt("model.onnx")
    assert (types_in("model.opt.onnx"), entry()) == (["Neg"], [])
    for words, left in ((("nothing",), ["Slice", "Neg"]), (("nothing", "open_ends"), ["Neg"])):
        assert (
            xopt("model.onnx", *(word for text in words for word in ("--assume", text))).code == 0
        )
        assert (types_in("model.opt.onnx"), entry()) == (left, ["; ".join(words)])
