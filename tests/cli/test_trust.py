"""Settings files that were not named: what needs trust counts only in the user's own file, in the
project.
"""

import os
from pathlib import Path

import click
import pytest

from tests.cli.command import RELU, TRANSPOSES, Xopt, types_in, write
from xoptim.cli.commands import COMMANDS
from xoptim.cli.trust import GUARDED

BAD = "agraph (float[n] x) => (float[n] y) { t = Neg(x) y = Relu(t) }"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, in one with a settings file that switches verification off."""
    (tmp_path / "xoptim.toml").write_text("verify = false\npatterns = 'Cast'\n")
    inner = tmp_path / "around" / "here"
    inner.mkdir(parents=True)
    monkeypatch.chdir(inner)
    write(TRANSPOSES)
    return tmp_path


def test_verification_is_not_switched_off_from_elsewhere(xopt: Xopt, folder: Path) -> None:
    found = xopt("model.onnx", "--json")
    assert len(found.json["verification"]) == 1
    assert found.warnings == [
        f"{folder / 'xoptim.toml'}: verify is ignored: the file is outside the current project, a "
        f"folder with .git or pyproject.toml; --config {folder / 'xoptim.toml'} uses it"
    ]
    assert types_in("model.opt.onnx") == [
        "Transpose",
        "Transpose",
        "Relu",
    ], "the other settings count"
    assert found.json["settings_file"] == str(folder / "xoptim.toml")
    assert f"settings      {folder / 'xoptim.toml'}" in xopt("model.onnx").out
    assert xopt("stats", "model.onnx").err == "", "nothing was ignored"


@pytest.mark.parametrize("root", [".git", "pyproject.toml"])
@pytest.mark.parametrize("place", ["", "around", "around/here"])
def test_files_in_the_project(xopt: Xopt, folder: Path, root: str, place: str) -> None:
    (folder / place / root).write_text("")
    outcome = xopt("model.onnx", "--json")
    is_inside = place == ""
    assert len(outcome.json["verification"]) == (not is_inside)
    assert len(outcome.warnings) == (not is_inside)


def test_the_nearest_repository_is_the_project(xopt: Xopt, folder: Path) -> None:
    (folder / ".git").mkdir()
    (folder / "around" / "pyproject.toml").write_text("")
    assert xopt("model.onnx", "--json").json["verification"] == [], "a package in a repository"


def test_files_of_other_users(xopt: Xopt, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / ".git").mkdir()
    assert xopt("model.onnx", "--json").json["verification"] == []
    uid = os.stat(folder / "xoptim.toml").st_uid
    monkeypatch.setattr(os, "getuid", lambda: uid + 1, raising=False)
    found = xopt("model.onnx", "--json")
    assert len(found.json["verification"]) == 1
    assert "verify is ignored: the file belongs to another user" in found.warnings[0]


def test_a_file_that_is_named_counts(xopt: Xopt, folder: Path) -> None:
    found = xopt("model.onnx", "--json", "--config", str(folder / "xoptim.toml"))
    assert (found.err, found.json["verification"]) == ("", [])


@pytest.mark.parametrize(
    ("text", "words", "ignored"),
    [
        ("custom-op-lib = 'evil.so'", ("model.onnx",), "custom-op-lib"),
        (
            "[optimize]\ncustom-op-lib = ['evil.so']",
            ("batch", ".", "-o", "out", "-j", "1"),
            "custom-op-lib",
        ),
        (
            "custom-op-lib = 'evil.so'",
            ("bench", "model.onnx", "--seconds", "0.01"),
            "custom-op-lib",
        ),
        ("rewrite = 'rules.onnxtxt'", ("model.onnx",), "rewrite"),
        ("report = '.bashrc'", ("model.onnx",), "report"),
        ("scheduler = 'tcp://evil:1'", ("batch", ".", "-o", "out", "-j", "1"), "scheduler"),
        ("assume = ['n == 3']", ("model.onnx",), "assume"),
        ("assume-from-model = true", ("verify", "model.onnx", "model.onnx"), "assume-from-model"),
        ("rtol = 1e9\natol = 1e9", ("verify", "model.onnx", "model.onnx"), "rtol, atol"),
        ("ulp = 1000000", ("verify", "model.onnx", "model.onnx"), "ulp"),
        ("run-limit = 1e-6", ("model.onnx",), "run-limit"),
        ("dim = 'batch=1'\nverify-budget = 1e-6", ("model.onnx",), "verify-budget, dim"),
        ("fewer-inputs = true", ("verify", "model.onnx", "model.onnx"), "fewer-inputs"),
        ("drop-output = 'y'", ("model.onnx",), "drop-output"),
        ("max-shrink = 100", ("check", "model.onnx"), "max-shrink"),
        ("precision = 'int8'\ntolerance = '99%'", ("model.onnx",), "precision, tolerance"),
        ("include = ['approximate']", ("model.onnx",), "include"),
        ("patterns = 'default+finite'", ("model.onnx",), "patterns"),
    ],
)
def test_all_that_needs_trust(
    xopt: Xopt,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    text: str,
    words: tuple[str, ...],
    ignored: str,
) -> None:
    (tmp_path / "xoptim.toml").write_text(text)
    Path("here").mkdir()
    monkeypatch.chdir("here")
    write(RELU)
    outcome = xopt(*words)
    assert outcome.code == 0
    (warning,) = [line for line in outcome.err.splitlines() if line.startswith("xopt: warning: ")]
    assert sorted(
        warning.partition("xoptim.toml: ")[2]
        .partition(" is ignored")[0]
        .partition(" are ignored")[0]
        .split(", ")
    ) == (sorted(ignored.split(", ")))
    assert not (tmp_path / ".bashrc").exists()


def test_settings_that_need_none(xopt: Xopt, tmp_path: Path) -> None:
    (tmp_path / "xoptim.toml").write_text(
        "patterns = 'default+onnxruntime'\n"
        "include = ['onnxruntime']\n"
        "verify = true\n"
        "strict = true\n"
        "tf32 = false\n"
        "seed = 3\n"
    )
    write(RELU)
    assert xopt("model.onnx").err == ""


def test_names_are_options() -> None:
    names = {
        each.name
        for command in COMMANDS.values()
        for each in command.params
        if isinstance(each, click.Option)
    }
    assert names >= GUARDED.keys()


def test_files_to_read_and_write_need_trust() -> None:
    """Only the folder of a new package does not."""
    harmless = {"output", "model", "pack"}
    paths = {
        each.name
        for command in COMMANDS.values()
        for each in command.params
        if isinstance(each, click.Option)
        and (isinstance(each.type, click.Path) or "FILE" in (each.metavar or ""))
    }
    assert paths - harmless <= GUARDED.keys()


def test_files_in_settings_are_relative_to_them(xopt: Xopt, folder: Path) -> None:
    """The current folder may be a downloaded one, with a library of that name."""
    (folder / ".git").mkdir()
    (folder / "xoptim.toml").write_text("custom-op-lib = 'ops.so'\n")
    Path("ops.so").write_text("not a library")
    assert str(folder / "ops.so") in xopt("model.onnx").error
    (folder / "xoptim.toml").write_text("custom-op-lib = 'onnxruntime-extensions'\n")
    assert xopt("model.onnx").error.startswith(
        "the package onnxruntime-extensions is not installed"
    )
