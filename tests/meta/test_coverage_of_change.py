"""Changed lines that no test runs are found, unless they say why."""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from lab.coverage_of_change import changed_lines, main

pytestmark = pytest.mark.skipif(shutil.which("git") is None, reason="there is no git")

BEFORE = """def sign(x):
    if x < 0:
        return -1
    return 1
"""
AFTER = """def sign(x):
    if x < 0:
        return -1
    if x == 0:
        return 0
    if x > 1e9:
        return 2{excuse}
    return 1


def other():
    pass  # not covered:
"""
DIFF = """diff --git a/cli/a.py b/cli/a.py
--- a/cli/a.py
+++ b/cli/a.py
@@ -3 +3,2 @@ def sign(x):
-    return 1
+    return 2
++++ b/other.py
@@ -9,2 +10,0 @@
-    x
-    y
--- a/xoptim/gone.py
+++ /dev/null
@@ -1,3 +0,0 @@
-x
"""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Path]:
    """Makes a checkout with a changed module, and runs it under coverage."""

    def git(*words: str) -> None:
        command = ["git", "-c", "user.name=n", "-c", "user.email=e@x", *words]
        subprocess.run(command, cwd=tmp_path, check=True, capture_output=True)

    def make(after: str) -> Path:
        module = tmp_path / "xoptim" / "signs.py"
        module.parent.mkdir()
        (module.parent / "__init__.py").touch()
        module.write_text(BEFORE)
        (tmp_path / "run.py").write_text("from xoptim.signs import sign\nsign(0), sign(5)\n")
        git("init", "-q")
        git("add", ".")
        git("commit", "-qm", "first")
        module.write_text(after)
        words = ["coverage", "run", "--branch", "--source", "xoptim", "run.py"]
        # these tests may run under coverage themselves
        environment = {k: v for k, v in os.environ.items() if not k.startswith("COV")}
        command = [sys.executable, "-m", *words]
        subprocess.run(command, cwd=tmp_path, env=environment, check=True)
        monkeypatch.chdir(tmp_path)
        return tmp_path

    return make


def test_lines_of_a_diff() -> None:
    """A line that begins like a head of a file is one of the file, and what is removed is none."""
    assert changed_lines(DIFF) == {"cli/a.py": {3, 4}}


def test_a_line_that_no_test_runs(
    project: Callable[[str], Path], capsys: pytest.CaptureFixture[str]
) -> None:
    """An unchanged line does not count, nor a comment without a reason."""
    root = project(AFTER.format(excuse=""))
    assert main(["HEAD"], root) == 1
    assert capsys.readouterr().out.splitlines() == [
        "xoptim/signs.py:7: not covered: return 2",
        "xoptim/signs.py:12: not covered: pass  # not covered:",
        "8 changed lines in 1 files, 2 not covered",
    ]


def test_an_excuse(project: Callable[[str], Path], capsys: pytest.CaptureFixture[str]) -> None:
    text = AFTER.format(excuse="  # not covered: no model is that large").replace(
        "# not covered:\n", "# not covered: nobody calls it\n"
    )
    assert main(["HEAD"], project(text)) == 0
    assert "8 changed lines in 1 files, 0 not covered" in capsys.readouterr().out


def test_data_that_lack_a_file(
    project: Callable[[str], Path], capsys: pytest.CaptureFixture[str]
) -> None:
    root = project(AFTER.format(excuse=""))
    (root / "cli").mkdir()
    (root / "cli" / "new.py").write_text("x = 1\n")
    subprocess.run(["git", "add", "cli"], cwd=root, check=True)
    assert main(["HEAD"], root) == 2
    assert "the data lack cli/new.py, which changed" in capsys.readouterr().err
    assert main(["HEAD", "--data", "absent"], root) == 2
    with pytest.raises(SystemExit, match="git diff absent: "):
        main(["absent"], root)
