"""The page about shorter forms is true: its snippets run, one after the other, and change the
models.
"""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support import parse, same_results, types
from xoptim import optimize

PAGE = (Path(__file__).parents[2] / "docs" / "rewriters.md").read_text(encoding="utf-8")
MODEL = """agraph (float[n,3] x, float[n,3] z) => (float[n,3] y) <float three = {3}, float
  one = {1}> {
  s = Add(x, z) d = Sub(s, z) p = Pow(d, three) r = Relu(p) q = Relu(r) m = Softmax(q) l = Log(m)
    y = Mul(l, one)
}"""
FOREIGN = (
    "agraph (float[n,3] x) => (float[n,3] y) { a = acme.Probe(x) b = acme.Gelu(a) "
    "y = acme.Probe(b) }"
)


@pytest.fixture
def session(capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    """All that the snippets define."""
    names: dict[str, Any] = {"model": parse(MODEL)}
    for number, snippet in enumerate(
        re.findall(r"^```python\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE), 1
    ):
        exec(compile(snippet, f"rewriters.md, snippet {number}", "exec"), names)
    assert capsys.readouterr().out == "2 rewrites\n"
    return names


def test_snippets(session: dict[str, Any]) -> None:
    before = types(session["model"])
    assert before == ["Add", "Sub", "Pow", "Relu", "Relu", "Softmax", "Log", "Mul"]
    assert types(session["smaller"]) == before[2:]
    assert types(session["cubed"]) == ["Add", "Sub", "Mul", "Mul", *before[3:]]
    assert types(session["rectified"]) == [*before[:4], *before[5:]]
    assert types(session["tidied"])[:2] == ["Mul", "Mul"]
    assert [node.op_type for node in session["builder"].nodes] == [
        "Add",
        "Sub",
        "Pow",
        "Relu",
        "Relu",
        "LogSoftmax",
    ]
    feeds = {
        "x": np.arange(6, dtype=np.float32).reshape(2, 3) / 4,
        "z": np.ones((2, 3), np.float32),
    }
    for name in ("smaller", "cubed", "rectified", "tidied"):
        same_results(session["model"], session[name], feeds)


def test_operators_of_other_domains(session: dict[str, Any]) -> None:
    after = optimize(
        parse(FOREIGN, domains={"acme": 1}), patterns=[session["no_probes"], session["fast_gelu"]]
    )
    assert [(node.domain, node.op_type) for node in after.graph.node] == [
        ("com.microsoft", "FastGelu")
    ]
