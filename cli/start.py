"""Entry point of the script ``xopt``.

The module imports as little as possible before signals have a handler.
"""

import os
import sys
from collections.abc import Callable
from importlib import import_module

from xoptim.system.signals import ENDING

from .exit_codes import BAD_USAGE


def main() -> None:
    """Run the command line.

    ``xopt --version`` is answered before onnx and the commands are imported, which takes most of a
    second.
    """
    begin(_run)


def begin(function: Callable[[], object]) -> None:
    """Call a function in a process whose signals have no handler yet.

    A signal ends the process at once; an error ends it with one line.
    """
    ENDING.at_once(lambda word: _say(f"{word}; nothing was written"))
    try:
        function()
    except Exception as error:  # a broken package, or no memory for another process
        _say(f"xopt cannot start ({type(error).__name__}: {' '.join(str(error).split())})")
        sys.exit(BAD_USAGE)


def _run() -> None:
    if sys.argv[1:] == ["--version"]:
        sys.stdout.write(f"xopt, version {import_module('xoptim').__version__}\n")
        return
    import_module("xoptim.cli.guard").guarded(lambda: import_module("xoptim.cli.main").main())


def _say(text: str) -> None:
    os.write(2, b"xopt: error: " + text.encode("ascii", "backslashreplace") + b"\n")
