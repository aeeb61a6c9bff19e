"""Repositories whose configuration names programs, as an unpacked archive may contain one."""

import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.command import RELU, TRANSPOSES, Xopt, write
from tests.support import values_in
from xoptim.system.git import git, program

pytestmark = [
    pytest.mark.skipif(shutil.which("git") is None, reason="there is no git"),
    pytest.mark.skipif(sys.platform == "win32", reason="the programs are scripts of a shell"),
]

ATTRIBUTES = "* filter=evil diff=evil\n"
PROGRAMS = (
    "alias.cat-file",
    "alias.ls-tree",
    "alias.rev-parse",
    "core.alternateRefsCommand",
    "core.askPass",
    "core.editor",
    "core.fsmonitor",
    "core.gitProxy",
    "core.pager",
    "core.sshCommand",
    "credential.helper",
    "diff.evil.command",
    "diff.evil.textconv",
    "diff.external",
    "filter.evil.clean",
    "filter.evil.process",
    "filter.evil.smudge",
    "gpg.program",
    "pager.cat-file",
    "pager.ls-tree",
    "pager.rev-parse",
    "remote.origin.uploadpack",
)
"""Settings of git whose values are command lines."""


def plain_git(*words: str) -> str:
    own = ("-c", "user.name=n", "-c", "user.email=e@x")
    done = subprocess.run(["git", *own, *words], check=True, capture_output=True, text=True)
    return done.stdout.strip()


def commit() -> None:
    plain_git("init", "-q", "-b", "main")
    plain_git("add", ".")
    plain_git("commit", "-q", "-m", "models")


@pytest.fixture
def marker(tmp_path: Path) -> Path:
    """A file that exists when a program ran that the repository in the current folder names."""
    ran = tmp_path / "ran"
    evil = tmp_path / "evil.sh"
    evil.write_text(f"#!/bin/sh\ntouch '{ran}'\n")
    evil.chmod(0o755)
    write(TRANSPOSES)
    commit()
    hooks = tmp_path / "hooks"
    hooks.mkdir()
    for name in ("post-checkout", "post-index-change", "reference-transaction"):
        shutil.copy(evil, hooks / name)
    Path(".gitattributes").write_text(ATTRIBUTES)
    Path(".git/info/attributes").write_text(ATTRIBUTES)
    for name in PROGRAMS:
        plain_git("config", name, str(evil))
    plain_git("config", "core.hooksPath", str(hooks))
    plain_git("config", "protocol.ext.allow", "always")
    plain_git("config", "remote.origin.url", f"ext::{evil}")
    assert not ran.exists()
    return ran


def test_the_programs_run_where_git_converts(marker: Path) -> None:
    """The repository is as hostile as the next tests assume."""
    subprocess.run(
        ["git", "cat-file", "--filters", "main:./model.onnx"], check=False, capture_output=True
    )
    assert marker.exists()


def test_no_program_of_a_repository_runs(xopt: Xopt, marker: Path) -> None:
    write(RELU.replace("[batch,4]", "[a,b]"))
    outcome = xopt("check", "model.onnx", "--against", "main")
    assert (outcome.code, outcome.err) == (0, "")
    assert " main: equal" in outcome.out
    assert not marker.exists()


def test_nothing_is_fetched_by_a_program(xopt: Xopt, marker: Path) -> None:
    """An object is missing, as in a partial clone."""
    plain_git("config", "remote.origin.promisor", "true")
    plain_git("config", "extensions.partialClone", "origin")
    plain_git("config", "core.repositoryFormatVersion", "1")
    blob = git(Path(), "rev-parse", "main:model.onnx").decode().strip()
    Path(".git/objects", blob[:2], blob[2:]).unlink()
    words = ["git", "cat-file", "blob", blob]
    subprocess.run(words, check=False, capture_output=True)
    assert marker.exists(), "git itself runs it"
    marker.unlink()
    error = xopt("check", "model.onnx", "--against", "main").error
    assert "'model.onnx' at 'main' " in error
    assert not marker.exists()


def test_a_revision_is_not_an_option(xopt: Xopt) -> None:
    write(TRANSPOSES)
    commit()
    error = xopt("check", "model.onnx", "--against=--output=stolen").error
    assert values_in(error) == ["--output=stolen"]


def test_git_in_the_current_folder_is_not_run(
    xopt: Xopt, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    write(TRANSPOSES)
    commit()
    evil = Path("git")
    evil.write_text(f"#!/bin/sh\ntouch '{tmp_path / 'ran'}'\n")
    evil.chmod(0o755)
    monkeypatch.setenv("PATH", f".{os.pathsep}{os.pathsep}{os.environ['PATH']}")
    assert xopt("check", "model.onnx", "--against", "main").code == 0
    assert not (tmp_path / "ran").exists()
    monkeypatch.setenv("PATH", ".")
    assert program("git") is None
    assert xopt("check", "model.onnx", "--against", "main").error.startswith("git ")


def test_large_files_are_read_from_the_local_storage(xopt: Xopt) -> None:
    content = write(TRANSPOSES).read_bytes()
    digest = hashlib.sha256(content).hexdigest()
    Path("model.onnx").write_text(
        f"version https://git-lfs.github.com/spec/v1\noid sha256:{digest}\nsize {len(content)}\n"
    )
    commit()
    write(RELU.replace("[batch,4]", "[a,b]"))
    missing = "'model.onnx' at 'main' is in Git LFS, and not on this machine; run `git lfs fetch"
    assert missing in xopt("check", "model.onnx", "--against", "main").error
    stored = Path(".git/lfs/objects", digest[:2], digest[2:4], digest)
    stored.parent.mkdir(parents=True)
    stored.write_bytes(b"something else")
    assert missing in xopt("check", "model.onnx", "--against", "main").error
    stored.write_bytes(content)
    assert xopt("check", "model.onnx", "--against", "main").code == 0


def test_links_at_a_revision_are_refused(xopt: Xopt) -> None:
    Path("model.onnx").symlink_to("/etc/passwd")
    commit()
    Path("model.onnx").unlink()
    write(TRANSPOSES)
    error = xopt("check", "model.onnx", "--against", "main").error
    assert values_in(error) == ["model.onnx", "main"]
