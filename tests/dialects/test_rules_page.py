"""The page about rules is true: its snippets run, its tables are complete."""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from tests.dialects.rules import RELU, pair
from tests.support import parse, run, types
from xoptim import database, optimize, parse_rules
from xoptim.cli.main import run as xopt
from xoptim.dialects import filters
from xoptim.dialects.text import SETTINGS
from xoptim.facts.errors import TextRuleError

PAGE = (Path(__file__).parents[2] / "docs" / "rules.md").read_text(encoding="utf-8")
MODEL = """agraph (float[batch,3] x) => (float[batch,3] y) <float two = {2}>
{
    a = Pow (x, two)  b = HardSigmoid <alpha = 0.3> (a)  c = Relu (b)  d = Cos (c)  e = Sqrt (d)
      f = Mul (e, e)
    g = Sinh (f)  h = Asinh (g)  i = Exp (h)  j = Log (i)  y = Relu (j)
}"""


@pytest.fixture(autouse=True)
def _playground(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(filters, "_REGISTERED", {})
    onnx.save(parse(MODEL), "model.onnx")
    (text,) = blocks("onnx")
    Path("rules.onnxtxt").write_text(text, encoding="utf-8")
    before = database().names()
    yield
    for name in database().names() - before:
        database().unregister(name)


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)


def test_shell_snippets(capsys: pytest.CaptureFixture[str]) -> None:
    lines = [
        shlex.split(line, comments=True) for block in blocks("sh") for line in block.splitlines()
    ]
    assert len(lines) == 2
    for words in lines:
        assert words[0] == "xopt"
        assert xopt([*words[1:], "-v"]) == 0
        captured = capsys.readouterr()
        assert captured.err == ""
        assert {"SquareToMul", "HardSigmoidRelu"} <= set(re.findall(r"\w+", captured.out))


def test_python_snippets() -> None:
    session: dict[str, Any] = {}
    first, second, third = blocks("python")
    exec(compile(first, "rules.md", "exec"), session)
    text = pair("match (x) => (y) { y = Relu (x) ok = filter.longer <than = 2> (x) }")
    (longer,) = parse_rules(text)
    graph = "agraph (float[2,%d] x) => (float[2,%d] y) { y = Relu(x) }"
    assert [types(optimize(parse(graph % (n, n)), patterns=[longer])) for n in (2, 3)] == [
        ["Relu"],
        ["Neg"],
    ]
    exec(compile(second, "rules.md", "exec"), session)
    made = session["smaller"]
    assert {"Pow", "Sqrt"}.isdisjoint(types(made))
    exec(compile(third, "rules.md", "exec"), session)
    assert {"Sinh", "Asinh"}.isdisjoint(types(session["smaller"]))
    rewritten = types(session["rewritten"])
    assert rewritten[-1] == "Max"
    assert {"Exp", "Log"}.isdisjoint(rewritten)
    assert {"Sinh", "Sqrt", "Pow"} <= set(rewritten)
    x = {"x": np.array([[0.5, 1, 1.5]], np.float32)}
    for model in (session["smaller"], session["rewritten"]):
        np.testing.assert_allclose(run(model, x)[0], run(session["model"], x)[0], rtol=1e-4)


def _first_cells(heading: str) -> list[str]:
    section = PAGE.split(f"## {heading}\n", 1)[1].split("\n## ", 1)[0]
    return re.findall(r"^\| (`.*?) \|", section, re.MULTILINE)


def test_all_filters_are_explained() -> None:
    rows = _first_cells("Conditions")
    assert [re.findall(r"\w+", row)[0] for row in rows] == list(filters.BUILT_IN)
    for row in rows:
        parse_rules(
            pair(_asks(row.strip("`").replace(", ...", ""))).replace(
                "replace (x)", "replace <alpha> (a, b, x)"
            )
        )


def _asks(condition: str) -> str:
    return (
        "match <alpha> (a, b, x) => (y) { y = c.Elu <alpha = @alpha> (a, b, x)  "
        f"ok = filter.{condition} }}"
    )


def test_all_settings_are_explained() -> None:
    assert sorted(
        name for row in _first_cells("Settings") for name in re.findall(r"\w+", row)
    ) == sorted(SETTINGS)
    defaults = dict(re.findall(r"^\| `(\w+)` \| `\"?(\w+)\"?` \|", PAGE, re.MULTILINE))
    (rule,) = parse_rules(pair(RELU.replace("f ", "match ", 1)))
    assert defaults.pop("keep_names") == "0"
    assert {name: getattr(rule, name) for name in defaults} == defaults
    assert len(defaults) == 4


def test_the_error_on_the_page() -> None:
    (text,) = blocks("onnx")
    text = text.replace("Mul (x, x)", "Mul (x, x;")
    with pytest.raises(TextRuleError) as caught:
        parse_rules(text, "rules.onnxtxt")
    (shown,) = re.findall(r"`(rules.onnxtxt:.*?)`", PAGE)
    assert str(caught.value) == shown
