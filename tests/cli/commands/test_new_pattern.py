"""``xopt new-pattern`` in any folder."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.command import Xopt, write


def test_a_pattern_in_the_current_folder(xopt: Xopt) -> None:
    assert xopt("new-pattern", "AbsAbsPattern") == (0, "abs_abs.py\n", "")
    text = Path("abs_abs.py").read_text(encoding="utf-8")
    assert "class AbsAbsPattern(" in text
    assert "'abs_abs.py'" in xopt("new-pattern", "AbsAbsPattern").error
    assert Path("abs_abs.py").read_text(encoding="utf-8") == text


def test_a_pattern_of_nodes(xopt: Xopt) -> None:
    write("agraph (float[a] x) => (float[a] y) { t = Abs(x) y = Exp(t) }")
    assert xopt("new-pattern", "FusedPattern", "--from", "model.onnx", "--nodes", "t,y").code == 0
    assert "g.op.Exp" in Path("fused.py").read_text(encoding="utf-8")


def test_a_family_of_the_repository(xopt: Xopt) -> None:
    Path("patterns/logic").mkdir(parents=True)
    Path("patterns/logic/__init__.py").touch()
    assert (
        xopt("new-pattern", "AbsAbsPattern", "--family", "logic").out
        == f"{Path('patterns/logic/abs_abs.py')}\n"
    )
    error = xopt("new-pattern", "AbsAbsPattern", "--family", "..").error
    assert "'..'" in error
    assert error.endswith(" logic")


@pytest.mark.slow
def test_a_package_passes_its_own_test(xopt: Xopt) -> None:
    outcome = xopt("new-pattern", "AbsAbsPattern", "--pack", "acme-patterns")
    assert outcome.code == 0
    assert [Path(line).name for line in outcome.out.splitlines()] == [
        "pyproject.toml", "__init__.py", "test_patterns.py", "abs_abs.py",
    ]  # fmt: skip
    words = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests"]
    environment = {**os.environ, "PYTHONPATH": "."}
    done = subprocess.run(
        words, cwd="acme-patterns", env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout
    assert "2 passed" in done.stdout
