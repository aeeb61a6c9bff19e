"""Environments of other versions of onnxruntime; nothing is installed here."""

import subprocess
import sys
from pathlib import Path

import pytest

from xoptim.bench import environments
from xoptim.bench.environments import InstallError, check_version, python_with_onnxruntime
from xoptim.system.machine import python_in

Done = subprocess.CompletedProcess[str]


class Commands:
    """Stands for the commands of an installation, and records them."""

    def __init__(self) -> None:
        self.calls: list[list[str]] = []
        self.output = ""

    def __call__(self, command: list[str], **_: object) -> Done:
        self.calls.append(command)
        if "venv" in command:
            python = python_in(Path(command[-1]))
            python.parent.mkdir(parents=True)
            python.touch()
        return Done(command, int(bool(self.output) and "pip" in command), self.output, "")


@pytest.fixture
def commands(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Commands:
    stand_in = Commands()
    monkeypatch.setattr("subprocess.run", stand_in)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return stand_in


def kept(folder: Path) -> list[str]:
    return sorted(path.name for path in (folder / "xoptim" / "onnxruntime").iterdir())


def test_an_environment_is_made_once(commands: Commands, tmp_path: Path) -> None:
    python = python_with_onnxruntime("1.30")
    assert python.is_file()
    assert python_with_onnxruntime("1.30") == python
    venv, pip = commands.calls
    assert venv[1:4] == ["-I", "-m", "venv"]
    assert pip[-2:] == ["onnxruntime==1.30.*", "numpy"], "the newest patch"
    assert kept(tmp_path) == [f"1.30-{sys.implementation.cache_tag}"]
    assert python_with_onnxruntime("1.30.1") != python
    assert commands.calls[-1][-2] == "onnxruntime==1.30.1"


@pytest.mark.parametrize("version", ["1.33rc1", "1.33.dev20260101", "1.33.0rc1"])
def test_a_version_before_a_release_is_exact(commands: Commands, version: str) -> None:
    python_with_onnxruntime(version)
    assert commands.calls[-1][-2] == f"onnxruntime=={version}"


@pytest.mark.parametrize("lost", ["complete", "python"])
def test_an_incomplete_environment_is_made_again(commands: Commands, lost: str) -> None:
    python = python_with_onnxruntime("1.30")
    folder = python.parents[1]
    (folder / "complete" if lost == "complete" else python).unlink()
    assert python_with_onnxruntime("1.30") == python
    assert python.is_file()
    assert len(commands.calls) == 4


def test_another_process_may_be_faster(
    commands: Commands, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def run(command: list[str], **options: object) -> Done:
        if "pip" in command and len(commands.calls) == 1:
            python_with_onnxruntime("1.30")
        return commands(command, **options)

    monkeypatch.setattr("subprocess.run", run)
    assert python_with_onnxruntime("1.30").is_file()
    assert kept(tmp_path) == [f"1.30-{sys.implementation.cache_tag}"]


VERSIONS = """ERROR: Could not find a version that satisfies the requirement (from versions: {})
ERROR: No matching distribution found for onnxruntime==9.9.*
"""
REASONS = {
    VERSIONS.format("1.30.0, 1.31.0, 1.32.0"): r" 1\.30\.0, 1\.31\.0, 1\.32\.0$",
    VERSIONS.format("none"): "package index .*network",
    "Collecting\nERROR: No space left on device\n": "ERROR: No space left on device$",
}


@pytest.mark.parametrize(("output", "reason"), REASONS.items())
def test_an_installation_that_fails(
    commands: Commands, tmp_path: Path, output: str, reason: str
) -> None:
    commands.output = output
    with pytest.raises(InstallError, match=rf"onnxruntime 9\.9: .*{reason}"):
        python_with_onnxruntime("9.9")
    assert kept(tmp_path) == []


def test_no_place_for_it(commands: Commands, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(environments, "cache_folder", lambda: None)
    with pytest.raises(InstallError, match="XDG_CACHE_HOME"):
        python_with_onnxruntime("1.30")
    monkeypatch.setattr(environments, "cache_folder", lambda: Path("/dev/null"))
    with pytest.raises(InstallError, match="'/dev/null"):
        python_with_onnxruntime("1.30")
    assert commands.calls == []


def test_an_installation_that_takes_too_long(
    commands: Commands, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stopped(*_: object, **__: object) -> Done:
        raise subprocess.TimeoutExpired("pip", 1)

    monkeypatch.setattr("subprocess.run", stopped)
    with pytest.raises(InstallError, match=r"onnxruntime 1\.30 .*too long"):
        python_with_onnxruntime("1.30")


@pytest.mark.parametrize("text", ["1", "1.30.x", "1.30 --pre", "latest", "", "../1.30", "1.٣"])
def test_what_is_no_version(text: str) -> None:
    with pytest.raises(ValueError, match="not a version"):
        check_version(text)


@pytest.mark.parametrize("text", ["1.30", "1.30.1", "1.33.0rc1", "1.33.0.dev20260101"])
def test_versions(text: str) -> None:
    assert check_version(text) == text
