"""Run git without the programs that a repository's configuration names (hooks, pager, fsmonitor):
the ``.git/config`` of an unpacked archive is not trusted.
"""

import os
import subprocess
import sys
from pathlib import Path
from typing import Final

from xoptim.system.machine import environment_with

_COMMAND: Final = (
    "--no-pager",
    "--literal-pathspecs",
    *("-c", "core.fsmonitor=false"),
    *("-c", f"core.hooksPath={os.devnull}"),
)
"""Options with which git starts no monitor, hook or pager."""
_ENVIRONMENT: Final = {
    # A partial clone fetches a missing object by a program that its configuration names. Git before
    # 2.45 ignores the first variable; the second one permits a protocol that does not exist.
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_ALLOW_PROTOCOL": "none",
    "GIT_OPTIONAL_LOCKS": "0",
}


def program(name: str) -> str | None:
    """The path of a program in a folder of PATH, ``None`` when there is none.

    The current folder, in which Windows looks first, does not count.
    """
    ending = ".exe" if sys.platform == "win32" else ""
    paths = (
        os.path.join(folder, name + ending)
        for folder in os.get_exec_path()
        if os.path.isabs(folder)
    )
    return next((path for path in paths if os.path.isfile(path) and os.access(path, os.X_OK)), None)


def git(folder: Path, *args: str) -> bytes:
    """The output of a git command in a folder.

    The command must not convert files, as ``checkout`` and ``cat-file --filters`` do: these run
    filters. Raises `FileNotFoundError` when git is not installed, and
    `subprocess.CalledProcessError` when the command fails.
    """
    path = program("git")
    if path is None:
        raise FileNotFoundError("git is not installed")
    return subprocess.run(
        [path, *_COMMAND, "-C", str(folder), *args],
        capture_output=True,
        check=True,
        stdin=subprocess.DEVNULL,
        env=environment_with(**_ENVIRONMENT),
    ).stdout
