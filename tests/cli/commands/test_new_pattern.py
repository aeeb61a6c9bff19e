"""``xopt new-pattern`` in any folder."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.command import Xopt, files, write


def test_a_pattern_in_the_current_folder(xopt: Xopt) -> None:
    assert xopt("new-pattern", "AbsAbsPattern") == (0, "abs_abs.py\n", "")
    assert "class AbsAbsPattern(EasyPatternOptimization):" in Path("abs_abs.py").read_text(
        encoding="utf-8"
    )
    assert xopt("new-pattern", "AbsAbsPattern").error == "'abs_abs.py' exists; nothing was written"


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
    assert (
        xopt("new-pattern", "AbsAbsPattern", "--family", "..").error
        == "there is no family '..'; the families are logic"
    )


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("AbsAbs",), "'AbsAbs' is not a class name such as ReluReluPattern"),
        (("AbsAbs", "--pack", "acme"), "'AbsAbs' is not a class name such as ReluReluPattern"),
        (
            ("AbsAbsPattern", "--pack", "12"),
            "'12' cannot be the name of a package",
        ),
        (("AbsAbsPattern", "--pack", "there"), "'there' exists; nothing was written"),
        (
            ("AbsAbsPattern", "--pack", "new", "--family", "logic"),
            "--family and --pack exclude each other",
        ),
        (("AbsAbsPattern", "--from", "gone.onnx", "--nodes", "a"), "cannot read 'gone.onnx'"),
    ],
)
def test_requests_that_are_refused(xopt: Xopt, words: tuple[str, ...], message: str) -> None:
    Path("there").mkdir()
    assert message in xopt("new-pattern", *words).error
    assert files() == {"there"}


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
