"""``xopt MODEL --rewrite FILE``."""

import re
from pathlib import Path

import pytest

from tests.cli.command import Xopt, files, types_in, write
from tests.dialects.rules import pair

POWERS = """agraph (float[n] x) => (float[n] z) <float two = {2}, float
  three = {3}> { y = Pow(x, two) z = Pow(y, three) }"""
SIN = "agraph (float[n] x) => (float[n] y) { y = Sinh(x) }"
EXAMPLES = Path(__file__).parents[2] / "examples" / "rules"


def rules(name: str, *pairs: tuple[str, str, str]) -> Path:
    """A file of rules that replace one operator by another."""
    path = Path(name)
    path.write_text(
        "".join(
            pair(
                f"match (x) => (y) {{ y = {a} (x) }}", f"replace (x) => (y) {{ y = {b} (x) }}"
            ).replace('"R"', f'"{rule}"')
            for rule, a, b in pairs
        )
    )
    return path


def test_rules_of_a_file(xopt: Xopt) -> None:
    write(POWERS)
    outcome = xopt(
        "model.onnx", "--rewrite", EXAMPLES / "square.onnxtxt", "--patterns", "", "--json"
    )
    assert outcome.code == 0
    assert outcome.json["patterns"] == {"SquareToMul": 1}
    assert outcome.json["exactness"] == "rounding"
    assert outcome.json["verification"][0]["status"] == "equal"
    assert types_in("model.opt.onnx") == ["Mul", "Pow"]


def test_rules_run_next_to_the_patterns(xopt: Xopt) -> None:
    write(
        "agraph (float[a,b] x) => (float[a,b] y) { t = Transpose(x) u = Transpose(t) "
        "y = Softsign(u) }"
    )
    rules("r.onnxtxt", ("Halves", "Softsign", "Tanh"))
    assert xopt("model.onnx", "--rewrite", "r.onnxtxt", "--no-verify").code == 0
    assert types_in("model.opt.onnx") == ["Tanh"]
    assert xopt("model.onnx", "--rewrite", "r.onnxtxt", "--drop", "Halves", "--no-verify").code == 0
    assert types_in("model.opt.onnx") == ["Softsign"]


def test_wrong_rules_are_found_out(xopt: Xopt) -> None:
    write(SIN)
    rules("r.onnxtxt", ("Wrong", "Sinh", "Cosh"))
    outcome = xopt("model.onnx", "--rewrite", "r.onnxtxt", "--strict")
    assert outcome.code == 1
    assert ": Wrong" in outcome.err
    assert files() == {"model.onnx", "r.onnxtxt"}


def test_the_order_of_rules_and_files(xopt: Xopt) -> None:
    write(SIN)
    rules("one.onnxtxt", ("Z", "Sinh", "Cosh"), ("Y", "Sinh", "Sin"))
    rules("two.onnxtxt", ("A", "Sinh", "Cos"), ("B", "Cosh", "Tan"))
    for words, expected in ((("one", "two"), "Tan"), (("two", "one"), "Cos")):
        options = [word for name in words for word in ("--rewrite", f"{name}.onnxtxt")]
        assert xopt("model.onnx", *options, "--no-verify", "-q").code == 0
        assert types_in("model.opt.onnx") == [expected]


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("match (x) => (y) {\n  y = Abs (x; }", "r.onnxtxt:2:13: expected ')'"),
        (
            pair("match (x) => (y) { y = Abs (x) }", "replace (x) => (y) { y = Abss (x) }"),
            "r.onnxtxt:4:22: no operator 'Abss'",
        ),
        (
            pair("match (x) => (y) { y = Abs (x) }").replace('"R"', '"Cast"'),
            "r.onnxtxt:2: 'Cast' is the name of an installed pattern",
        ),
        (None, "r.onnxtxt: cannot read the rules: No such file or directory"),
    ],
)
def test_errors_come_before_the_model_is_read(
    xopt: Xopt, monkeypatch: pytest.MonkeyPatch, text: str | None, error: str
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise AssertionError("the model was read")

    write(SIN)
    if text is not None:
        Path("r.onnxtxt").write_text(text)
    monkeypatch.setattr("xoptim.optimizing.verified.GraphBuilder", fail)
    assert xopt("model.onnx", "--rewrite", "r.onnxtxt").error.startswith(error)
    assert "model.opt.onnx" not in files()


def test_two_rules_of_one_name(xopt: Xopt) -> None:
    write(SIN)
    rules("r.onnxtxt", ("Z", "Sinh", "Cosh"))
    error = xopt("model.onnx", "--rewrite", "r.onnxtxt", "--rewrite", "r.onnxtxt").error
    assert re.match(r"r\.onnxtxt:2:1: .*'Z' .* r\.onnxtxt:2$", error)


def test_refusals_name_the_file(xopt: Xopt) -> None:
    write(POWERS)
    outcome = xopt(
        "model.onnx",
        "--rewrite",
        EXAMPLES / "square.onnxtxt",
        "--patterns",
        "",
        "-vv",
        "--no-verify",
    )
    assert outcome.code == 0
    assert "SquareToMul refused" in outcome.out
    assert "square.onnxtxt:10)" in outcome.out
