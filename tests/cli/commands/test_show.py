"""``xopt show``."""

import pytest

from tests.cli.command import Xopt
from xoptim.catalogue.selection import resolve


@pytest.mark.parametrize("name", ["TransposeTranspose", "TransposeTransposePattern"])
def test_show(xopt: Xopt, name: str) -> None:
    outcome = xopt("show", name)
    assert (outcome.code, outcome.err) == (0, "")
    lines = outcome.out.splitlines()
    assert lines[0] == "TransposeTransposePattern"
    assert lines[1].startswith("Transpose(Transpose(x)) → ")
    assert "phase canonicalize, exactness exact, opset 1+, provider any" in lines
    first = lines.index("example 1, opset 18")
    assert lines[first + 1].startswith("  before  agraph (")
    assert lines[first + 2].startswith("  after   agraph (")


def test_show_a_preset(xopt: Xopt) -> None:
    outcome = xopt("show", "default")
    assert outcome.code == 0
    assert {cls.__name__ for cls in resolve("default")} <= set(outcome.out.splitlines())
