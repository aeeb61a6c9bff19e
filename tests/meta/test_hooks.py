"""The action of GitHub and the hooks of pre-commit run as they would be run: the shell of the steps
with the inputs as environment, the entry of a hook with file names.
"""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import Any

import onnx
import pytest
import yaml

from tests.meta.sources import ROOT
from tests.support import parse

ACTION: Any = yaml.safe_load((ROOT / "action.yml").read_text(encoding="utf-8"))
HOOKS: Any = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text(encoding="utf-8"))
LARGE = "agraph (float[n,3] x) => (float[n,3] y) { a = Neg(x) b = Neg(a) y = Relu(b) }"
SMALL = "agraph (float[n,3] x) => (float[n,3] y) { y = Relu(x) }"
OTHER = "agraph (float[n,3] x) => (float[n,3] y) { y = Abs(x) }"
BASH = ("bash", "--noprofile", "--norc", "-eo", "pipefail", "-c")
"""The shell of a step, as GitHub runs it."""
with_bash = pytest.mark.skipif(
    sys.platform == "win32" or shutil.which("bash") is None, reason="there is no bash"
)
with_git = pytest.mark.skipif(shutil.which("git") is None, reason="there is no git")


def environment(**more: str) -> dict[str, str]:
    """The environment in which `xopt` of this installation is found."""
    path = os.pathsep.join((sysconfig.get_path("scripts"), os.environ["PATH"]))
    return {**os.environ, "PATH": path, **more}


def run(words: list[str], folder: Path, **more: str) -> subprocess.CompletedProcess[str]:
    """Run a program in a folder."""
    return subprocess.run(
        words,
        cwd=folder,
        env=environment(**more),
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=120,
        check=False,
    )


def git(folder: Path, *words: str) -> str:
    """Run git in a folder, whatever the settings of the user."""
    who = ["-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false"]
    done = run(["git", *who, *words], folder, GIT_CONFIG_GLOBAL=os.devnull)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with two models, one in a folder of its own."""
    onnx.save(parse(SMALL), tmp_path / "small.onnx")
    (tmp_path / "sub dir").mkdir()
    onnx.save(parse(LARGE), tmp_path / "sub dir" / "large model.onnx")
    return tmp_path


def check(folder: Path, **inputs: str) -> subprocess.CompletedProcess[str]:
    """Run the last step of the action with some inputs; others have their defaults."""
    step = ACTION["runs"]["steps"][-1]
    given = {name: str(each["default"]) for name, each in ACTION["inputs"].items()}
    assert inputs.keys() <= given.keys()
    given |= inputs
    values = {name: _filled(text, given) for name, text in step["env"].items()}
    return run([*BASH, step["run"]], folder, **values)


def _filled(text: str, inputs: dict[str, str]) -> str:
    """A value of the environment with the inputs that it refers to."""
    return re.sub(r"\$\{\{ inputs\.([\w-]+) \}\}", lambda found: inputs[found[1]], text)


@with_bash
def test_the_action_checks_all_models(folder: Path) -> None:
    done = check(folder)
    assert done.returncode == 1, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0].startswith("ok  small.onnx: ")
    assert lines[1].startswith("::error file=sub dir/large model.onnx,title=xopt check")


@with_bash
@pytest.mark.slow
def test_the_action_takes_its_inputs(folder: Path) -> None:
    assert check(folder, **{"max-shrink": "70%"}).returncode == 0
    assert check(folder, models="*.onnx").returncode == 0
    done = check(folder, models="sub*/*.onnx", options="--json --provider cpu")
    assert done.returncode == 1
    assert [each["ok"] for each in json.loads(done.stdout)] == [False]
    done = check(folder, options="--sarif")
    assert len(json.loads(done.stdout)["runs"][0]["results"]) == 1


@with_bash
@pytest.mark.parametrize(
    ("inputs", "text"),
    [
        ({"models": "**/*.none"}, "no model is called **/*.none"),
        ({"max-shrink": ""}, "no check is chosen"),
        ({"max-larger": "5%"}, "max-larger and max-slower need against"),
    ],
)
def test_the_action_needs_models_and_a_check(
    folder: Path, inputs: dict[str, str], text: str
) -> None:
    done = check(folder, **inputs)
    assert (done.returncode, done.stdout.strip()) == (2, text)


@with_bash
def test_inputs_of_the_action_are_no_commands(folder: Path) -> None:
    done = check(folder, models="$(touch made) *.onnx", options="$(touch made)")
    assert done.returncode != 0
    assert not (folder / "made").exists()


@with_bash
def test_names_of_models_are_no_options_of_the_action(folder: Path) -> None:
    onnx.save(parse(SMALL), folder / "--json.onnx")
    done = check(folder, models="*.onnx")
    assert done.returncode == 0, done.stderr
    assert [line.split(":")[0] for line in done.stdout.splitlines()] == [
        "ok  --json.onnx",
        "ok  small.onnx",
    ]


@with_bash
@with_git
@pytest.mark.slow
def test_the_action_compares_with_a_revision(folder: Path) -> None:
    git(folder, "init", "--quiet")
    git(folder, "add", ".")
    git(folder, "commit", "--quiet", "-m", "models")
    same = {"max-shrink": "", "against": "HEAD"}
    assert check(folder, **same).returncode == 0
    onnx.save(parse(OTHER), folder / "small.onnx")
    done = check(folder, **same)
    assert done.returncode == 1
    assert "::error file=small.onnx," in done.stdout


WORKFLOW: Any = yaml.safe_load(
    (ROOT / "examples/pipelines/check_models.yml").read_text(encoding="utf-8")
)
"""The workflow to copy."""


def test_the_workflow_to_copy_has_inputs_of_the_action() -> None:
    assert _inputs_of_the_workflow().keys() <= ACTION["inputs"].keys()


def _inputs_of_the_workflow() -> dict[str, str]:
    (step,) = [
        step for step in WORKFLOW["jobs"]["check"]["steps"] if "/xoptim@" in step.get("uses", "")
    ]
    inputs: dict[str, str] = step["with"]
    return {name: text.replace("${{ github.base_ref }}", "main") for name, text in inputs.items()}


@with_bash
@with_git
@pytest.mark.slow
def test_the_workflow_to_copy_runs(folder: Path) -> None:
    """As a script, in a pull request that changes, enlarges and adds models."""
    onnx.save(parse(SMALL), folder / "sub dir" / "large model.onnx")
    git(folder, "init", "--quiet", "-b", "main")
    git(folder, "add", ".")
    git(folder, "commit", "--quiet", "-m", "models")
    git(folder, "update-ref", "refs/remotes/origin/main", "HEAD")
    inputs = _inputs_of_the_workflow()
    inputs["options"] = "--seconds 0.1"
    unchanged = check(folder, **inputs)
    assert unchanged.returncode == 0, unchanged.stdout + unchanged.stderr
    grown = parse(SMALL)
    grown.doc_string = "x" * 1000
    onnx.save(grown, folder / "small.onnx")
    onnx.save(parse(OTHER), folder / "sub dir" / "large model.onnx")
    onnx.save(parse(LARGE), folder / "new.onnx")
    changed = check(folder, **inputs)
    assert changed.returncode == 1
    titles = re.findall(r"^::error file=(.*?),title=xopt check%3A (.*?)::", changed.stdout, re.M)
    assert {
        ("new.onnx", "max-shrink"),
        ("small.onnx", "max-larger"),
        ("sub dir/large model.onnx", "against"),
    } <= {*titles}


@with_bash
def test_the_action_installs_itself(tmp_path: Path) -> None:
    """By the python that the step before it set up, here one that tells its arguments."""
    step = ACTION["runs"]["steps"][-2]
    assert step["env"] == {"ACTION": "${{ github.action_path }}"}
    python = tmp_path / "python"
    python.write_text('#!/bin/sh\nprintf "%s\\n" "$@"\n', encoding="utf-8")
    python.chmod(0o755)
    path = os.pathsep.join((str(tmp_path), os.environ["PATH"]))
    done = run([*BASH, step["run"]], tmp_path, ACTION="/an action", PATH=path)
    assert done.stdout.splitlines() == ["-P", "-m", "pip", "install", "--quiet", "/an action"]


def test_hooks_run_on_models_only() -> None:
    assert [each["id"] for each in HOOKS] == ["xopt-shrink", "xopt-same"]
    for hook in HOOKS:
        assert re.search(hook["files"], "models/a.onnx")
        assert not re.search(hook["files"], "models/a.onnx.data")
        assert hook["language"] == "python"
        assert hook["require_serial"]


@with_git
@pytest.mark.slow
@pytest.mark.parametrize("hook", HOOKS, ids=lambda hook: hook["id"])
def test_the_entry_of_a_hook(folder: Path, hook: dict[str, Any]) -> None:
    """With file names as pre-commit appends them; it passes, fails, and does not change files."""
    git(folder, "init", "--quiet", "--initial-branch", "main")
    git(folder, "add", ".")
    git(folder, "commit", "--quiet", "-m", "models")
    words = [*shlex.split(hook["entry"]), *hook["args"]]
    assert run([*words, "small.onnx"], folder).returncode == 0
    onnx.save(parse(OTHER), folder / "small.onnx")
    onnx.save(parse(LARGE), folder / "new.onnx")
    failing = "new.onnx" if hook["id"] == "xopt-shrink" else "small.onnx"
    before = git(folder, "status", "--porcelain")
    done = run([*words, "small.onnx", "new.onnx"], folder)
    assert done.returncode == 1, done.stderr
    failed = [line for line in done.stdout.splitlines() if line.startswith("failed  ")]
    assert [line.split(":")[0] for line in failed] == [f"failed  {failing}"]
    assert git(folder, "status", "--porcelain") == before


@with_git
@pytest.mark.slow
def test_pre_commit_runs_the_hooks(folder: Path) -> None:
    """With the programs of this environment in place of one that it would install."""
    pytest.importorskip("pre_commit")
    git(folder, "init", "--quiet", "--initial-branch", "main")
    hooks = [{**hook, "language": "system"} for hook in HOOKS]
    config = {"repos": [{"repo": "local", "hooks": hooks}]}
    (folder / ".pre-commit-config.yaml").write_text(yaml.safe_dump(config), encoding="utf-8")
    git(folder, "add", ".")
    git(folder, "commit", "--quiet", "-m", "models")
    words = [sys.executable, "-m", "pre_commit"]
    manifest = str(ROOT / ".pre-commit-hooks.yaml")
    assert run([*words, "validate-manifest", manifest], folder).returncode == 0
    home = str(folder / ".cache")
    done = run([*words, "run", "--all-files"], folder, PRE_COMMIT_HOME=home)
    assert done.returncode == 1, done.stderr
    states = re.findall(r"(?m)^ONNX models .*?\.+(Passed|Failed)$", done.stdout)
    assert states == ["Failed", "Passed"]
    assert "failed  sub dir/large model.onnx: " in done.stdout
