"""Environments of other versions of onnxruntime, made on demand and kept in the cache folder."""

import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from xoptim.facts.errors import XoptimError
from xoptim.system.cache import cache_folder
from xoptim.system.machine import environment_with, python_in, this_python
from xoptim.system.reading import make_own_folder

_VERSION: Final = re.compile(r"\d+\.\d+(\.\d+)?((a|b|rc|\.dev)\d+)?", re.ASCII)
_MINOR_VERSION: Final = re.compile(r"\d+\.\d+", re.ASCII)
_OFFERED: Final = re.compile(r"from versions: ([^)]*)\)")
_MAX_OFFERED: Final = 6
"""Maximum number of existing versions that a message names."""
_MAX_SECONDS: Final = 1800.0
"""Seconds after which an installation is stopped."""
_DONE: Final = "complete"
"""File in a complete environment."""


class InstallError(XoptimError):
    """Another version of onnxruntime cannot be installed."""


def check_version(text: str) -> str:
    """The text, if it is a version of onnxruntime such as ``1.30`` or ``1.30.1``.

    Raises `ValueError` otherwise.
    """
    if _VERSION.fullmatch(text) is None:
        raise ValueError(f"{text!r} is not a version such as 1.30 or 1.30.1")
    return text


def python_with_onnxruntime(version: str) -> Path:
    """The Python of an environment that has this version of onnxruntime, and numpy.

    A version of two numbers, such as ``1.30``, stands for its newest patch. The environment is made
    with ``venv`` and ``pip`` at the first call, in the cache folder of the user, and used again
    after that.

    Raises `InstallError` when there is no such version, no network, or no place for it.
    """
    caches = cache_folder()
    if caches is None:
        raise InstallError("there is no cache folder for other versions; set XDG_CACHE_HOME")
    folder = caches / "onnxruntime" / f"{version}-{sys.implementation.cache_tag}"
    python = python_in(folder)
    if (folder / _DONE).is_file() and python.exists():
        return python
    try:
        make_own_folder(folder.parent)
        _make(folder, version)
    except OSError as error:
        reason = error.strerror or str(error)
        raise InstallError(f"cannot make an environment in {str(folder)!r}: {reason}") from error
    return python


def _make(folder: Path, version: str) -> None:
    """Make an environment next to its place, and move it there when it is complete."""
    draft = Path(tempfile.mkdtemp(prefix=f".{folder.name}-", dir=folder.parent))
    try:
        _run(version, [this_python(), "-I", "-m", "venv", str(draft)])
        pip = [str(python_in(draft)), "-I", "-m", "pip", "--disable-pip-version-check"]
        options = ["--quiet", "--no-input", "--only-binary", ":all:", "--retries", "1"]
        _run(version, [*pip, "install", *options, _requirement(version), "numpy"])
        (draft / _DONE).touch()
        if not (folder / _DONE).is_file() or not python_in(folder).exists():
            shutil.rmtree(folder, ignore_errors=True)
        try:
            draft.rename(folder)
        except OSError:
            if not (folder / _DONE).is_file():  # else, another process was faster
                raise
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def _requirement(version: str) -> str:
    return f"onnxruntime=={version}{'.*' if _MINOR_VERSION.fullmatch(version) else ''}"


def _run(version: str, command: Sequence[str]) -> None:
    """Run a step of an installation; raises `InstallError` when it fails."""
    try:
        result = subprocess.run(
            command,
            env=environment_with(PYTHONSAFEPATH="1"),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_MAX_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise InstallError(f"installing onnxruntime {version} took too long") from None
    if result.returncode:
        raise InstallError(
            f"cannot install onnxruntime {version}: {_reason(f'{result.stdout}{result.stderr}')}"
        )


def _reason(output: str) -> str:
    """The reason why an installation failed, in one line, from the output of the command."""
    match = _OFFERED.search(output)
    if match is not None:
        versions = [text for text in match[1].split(", ") if text not in ("", "none")]
        if versions:
            names = ", ".join(versions[-_MAX_OFFERED:])
            return f"there is no such version for this Python; the newest are {names}"
        return "the package index cannot be reached; check the network, or the settings of pip"
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    errors = [line for line in lines if line.lower().startswith("error")] or lines
    return errors[-1] if errors else "the command gives no reason"
