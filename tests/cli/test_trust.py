"""Settings files that were not named: code never counts, and what weakens the verification only in
the project.
"""

import os
from pathlib import Path
from typing import Any, Final

import click
import pytest

from tests.cli.command import RELU, TRANSPOSES, Xopt, types_in, write
from xoptim.cli.commands import COMMANDS
from xoptim.cli.trust import NEVER, loosened

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
    (warning,) = found.warnings
    assert warning.startswith(f"{folder / 'xoptim.toml'}: verify is ignored: ")
    assert f" --config {folder / 'xoptim.toml'} " in warning
    assert types_in("model.opt.onnx") == [
        "Transpose",
        "Transpose",
        "Relu",
    ], "the other settings count"
    assert found.json["settings_file"] == str(folder / "xoptim.toml")
    assert xopt("model.onnx").summary["settings"] == str(folder / "xoptim.toml")
    assert xopt("stats", "model.onnx").err == "", "nothing was ignored"


@pytest.mark.parametrize("root", [".git", "pyproject.toml"])
@pytest.mark.parametrize("place", ["", "around", "around/here"])
def test_files_in_the_project(xopt: Xopt, folder: Path, root: str, place: str) -> None:
    (folder / place / root).write_text("")
    outcome = xopt("model.onnx", "--json")
    is_inside = place == ""
    assert len(outcome.json["verification"]) == (not is_inside)
    (warning,) = outcome.warnings
    assert ("verify false" in warning, "verify is ignored" in warning) == (
        is_inside,
        not is_inside,
    )


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
    assert found.json["verification"] == []
    (warning,) = found.warnings
    assert warning.endswith(f": verify false from {folder / 'xoptim.toml'}")


@pytest.mark.parametrize(
    ("text", "words", "ignored"),
    [
        ("assume = ['n == 3']", ("model.onnx",), "assume"),
        ("assume-from-model = true", ("verify", "model.onnx", "model.onnx"), "assume-from-model"),
        ("rtol = 1e9\natol = 1e9", ("verify", "model.onnx", "model.onnx"), "rtol, atol"),
        ("ulp = 1000000", ("verify", "model.onnx", "model.onnx"), "ulp"),
        ("run-limit = 1e-6", ("model.onnx",), "run-limit"),
        ("dim = 'batch=1'\nverify-budget = 1e-6", ("model.onnx",), "verify-budget, dim"),
        ("fewer-inputs = true", ("verify", "model.onnx", "model.onnx"), "fewer-inputs"),
        ("drop-output = 'y'", ("model.onnx",), "drop-output"),
        ("max-shrink = 100", ("check", "model.onnx"), "max-shrink"),
        ("metric = 'rms'", ("model.onnx",), "metric"),
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


BATCH = ("batch", ".", "-o", "out", "-j", "1")


@pytest.mark.parametrize(
    ("text", "words", "option", "typed"),
    [
        ("custom-op-lib = 'evil.so'", ("model.onnx",), "custom-op-lib", "evil.so"),
        ("[optimize]\ncustom-op-lib = ['evil.so']", BATCH, "custom-op-lib", "evil.so"),
        (
            "custom-op-lib = 'evil.so'",
            ("bench", "model.onnx", "--seconds", "0.01"),
            "custom-op-lib",
            "evil.so",
        ),
        ("custom-op-lib = 'evil.so'", ("check", "model.onnx"), "custom-op-lib", "evil.so"),
        (
            "custom-op-lib = 'evil.so'",
            ("verify", "model.onnx", "model.onnx"),
            "custom-op-lib",
            "evil.so",
        ),
        ("rewrite = 'rules.txt'", ("model.onnx",), "rewrite", "rules.txt"),
        ("rewrite = 'rules.txt'", BATCH, "rewrite", "rules.txt"),
        (
            "against-torch = 'evil:make'",
            ("verify", "model.onnx", "model.onnx"),
            "against-torch",
            "evil:make",
        ),
        ("report = '.bashrc'", ("model.onnx",), "report", ".bashrc"),
        ("html = '.bashrc'", ("diff", "model.onnx", "model.onnx"), "html", ".bashrc"),
        ("scheduler = 'tcp://evil:1'", BATCH, "scheduler", "tcp://evil:1"),
        ("against = 'HEAD'", ("check", "model.onnx"), "against", "HEAD"),
        ("pack = 'p'", ("new-pattern", "AbsAbsPattern"), "pack", "p"),
    ],
)
def test_code_and_files_are_never_named_by_a_folder(
    xopt: Xopt,
    tmp_path: Path,
    text: str,
    words: tuple[str, ...],
    option: str,
    typed: str,
) -> None:
    """The folder is the user's project, as a clone and an unpacked archive are."""
    (tmp_path / ".git").mkdir()
    for name in ("xoptim.toml", "pyproject.toml"):
        table = text.replace("[optimize]", "[tool.xoptim.optimize]")
        is_project = name == "pyproject.toml"
        prefix = "[tool.xoptim]\n" if is_project and not table.startswith("[") else ""
        path = tmp_path / name
        path.write_text(f"{prefix}{table}" if is_project else text)
        write(RELU)
        outcome = xopt(*words)
        path.unlink()
        assert outcome.code == 0, outcome
        warnings = [each for each in outcome.err.splitlines() if "warning" in each]
        (warning,) = (each.removeprefix("xopt: warning: ") for each in warnings)
        start = f"{name}: {option} is ignored, since it "
        assert warning.startswith(start)
        assert f" --{option} {typed} " in warning
        assert not (tmp_path / ".bashrc").exists()
        Path("abs_abs.py").unlink(missing_ok=True)


def test_a_value_to_type_is_quoted(xopt: Xopt) -> None:
    Path("xoptim.toml").write_text("custom-op-lib = ['/a b; rm x', \"/'\\u001b[0m\"]")
    write(RELU)
    (warning,) = xopt("model.onnx").warnings
    assert " --custom-op-lib '/a b; rm x' --custom-op-lib '/'\"'\"'\\x1b[0m' " in warning
    Path("xoptim.toml").write_text(f"custom-op-lib = '{'a' * 5000}'")
    (warning,) = xopt("model.onnx").warnings
    assert len(warning) < 300


def test_names_are_options() -> None:
    names = {
        each.name
        for command in COMMANDS.values()
        for each in command.params
        if isinstance(each, click.Option)
    }
    assert names >= NEVER.keys()


READ: Final = {
    "feeds": "numbers",
    "test_data": "numbers",
    "genai": "a JSON file",
    "model": "the model of a pattern",
    "family": "the name of a folder in the current one",
}
"""Files and folders that a folder may name, with what is read from them."""


def test_options_that_may_load_code_or_write() -> None:
    """A new option with a file, an address or a function must be sorted."""
    words = ("FILE", "FOLDER", "ADDRESS", "FUNCTION")
    paths = {
        each.name
        for command in COMMANDS.values()
        for each in command.params
        if isinstance(each, click.Option)
        and (
            isinstance(each.type, click.Path) or any(word in (each.metavar or "") for word in words)
        )
    }
    assert paths - {"output"} == READ.keys() | NEVER.keys() - {"against"}


@pytest.mark.parametrize(
    ("name", "value", "is_loose"),
    [
        ("rtol", "1e30", True),
        ("rtol", "1e-9", False),
        ("atol", "nan", True),
        ("tolerance", "1%", False),
        ("tolerance", "0.5", True),
        ("tolerance", "1", False),
        ("tolerance", ["y=1%", "z=2"], True),
        ("ulp", "1", True),
        ("verify", True, False),
        ("seed", "3", False),
    ],
)
def test_what_makes_a_comparison_weaker(name: str, value: Any, is_loose: bool) -> None:
    assert loosened(name, value) == is_loose


def test_files_in_settings_are_relative_to_them(xopt: Xopt, folder: Path) -> None:
    """The current folder may be a downloaded one, with a file of that name."""
    (folder / ".git").mkdir()
    (folder / "xoptim.toml").write_text("feeds = 'x.npz'\n")
    Path("x.npz").write_text("not an archive")
    assert str(folder / "x.npz") in xopt("model.onnx").error
    named = ("--config", str(folder / "xoptim.toml"))
    (folder / "xoptim.toml").write_text("custom-op-lib = 'onnxruntime-extensions'\n")
    assert "onnxruntime-extensions" in xopt("model.onnx", *named).error
