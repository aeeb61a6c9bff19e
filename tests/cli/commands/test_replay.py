"""``xopt replay``."""

import re
from pathlib import Path

import pytest

from tests.cli.command import TRANSPOSES, Xopt, files, write


@pytest.fixture
def dumps(monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder that `DUMPPATTERNS` names."""
    monkeypatch.setenv("DUMPPATTERNS", "dumps")
    return Path("dumps")


def test_equal(xopt: Xopt, dumps: Path) -> None:
    write(TRANSPOSES)
    assert xopt("model.onnx").code == 0
    outcome = xopt("replay", dumps)
    assert (outcome.code, outcome.err) == (0, "")
    lines = outcome.out.splitlines()
    assert lines[0].split() == ["dump", "verdict", "difference", "reason"]
    assert lines[1].split() == ["00000_TransposeTranspose", "equal", "0"]
    assert lines[2] == "1 rewrite: 1 equal"
    (found,) = xopt("replay", "dumps", "--json").json
    assert (found["pattern"], found["status"], found["report"]["exactness"]) == (
        "TransposeTranspose",
        "equal",
        "exact",
    )
    assert files() == {"model.onnx", "model.opt.onnx", "dumps"}


def test_proofs(xopt: Xopt, dumps: Path) -> None:
    write(TRANSPOSES)
    assert xopt("model.onnx").code == 0
    outcome = xopt("replay", dumps, "--prove")
    assert outcome.code == 0
    title, line, _ = outcome.out.splitlines()
    assert title.split() == ["dump", "verdict", "difference", "proof", "reason"]
    assert line.split() == ["00000_TransposeTranspose", "equal", "0", "same", "bits"]
    (dump,) = xopt("replay", "dumps", "--prove", "--json").json
    assert dump["proof"] == "same bits"


@pytest.mark.usefixtures("bad_patterns")
def test_a_wrong_rewrite_is_not_proved(xopt: Xopt, dumps: Path) -> None:
    write("agraph (float[a] x) => (float[a] y) { y = Relu(x) }")
    assert xopt("model.onnx", "--patterns", "WrongRelu", "--strict").code == 1
    (dump,) = xopt("replay", dumps, "--prove", "--json").json
    assert dump["proof"].startswith("only run: ")


@pytest.mark.usefixtures("bad_patterns")
def test_different(xopt: Xopt, dumps: Path) -> None:
    write("agraph (float[a] x) => (float[a] y) { y = Relu(x) }")
    assert xopt("model.onnx", "--patterns", "WrongRelu", "--strict").code == 1
    outcome = xopt("replay", dumps)
    assert outcome.code == 1
    assert re.search(r"00000_WrongRelu +different +\S+ +output 'y'", outcome.out)
    (dumps / "00001_Half.txt").write_text("")
    assert xopt("replay", dumps).code == 1


def test_operators_that_cannot_be_run(xopt: Xopt, dumps: Path) -> None:
    head = '<domain: "FooNeg", opset_import: ["": 18, "acme": 1]>'
    Path("rules.onnxtxt").write_text(
        f"{head} match (x) => (y) {{ t = Neg (x) y = acme.Foo (t) }} "
        f"{head} replace (x) => (y) {{ y = acme.Bar (x) }}"
    )
    write("agraph (float[4] x) => (y) { t = Neg(x) y = acme.Foo(t) }", domains={"acme": 1})
    assert xopt("model.onnx", "--rewrite", "rules.onnxtxt", "--no-verify").code == 0
    outcome = xopt("replay", dumps)
    assert outcome.code == 3
    assert "acme:Foo(-1)" in outcome.out
    assert outcome.out.splitlines()[-1] == "1 rewrite: 1 not verified"


def test_damaged(xopt: Xopt, dumps: Path) -> None:
    write(TRANSPOSES)
    xopt("model.onnx")
    next(dumps.glob("*.after.onnx")).write_bytes(b"\x00")
    outcome = xopt("replay", dumps)
    assert outcome.code == 2
    (line,) = outcome.err.splitlines()
    assert line.startswith("xopt: error: 1 of 1 ")
    assert "damaged" in outcome.out
