"""Entry point of the script ``xopt``. It loads as little as possible before signals have a handler."""

import sys

from .ending import ENDING
from .exit_codes import BAD_USAGE


def main() -> None:
    """Run the command line. The version is printed before onnx and the commands are loaded, which takes most of a second."""
    ENDING.at_once()
    try:
        _run()
    except Exception as error:  # a package that is broken, or no memory for one more process
        reason = ascii(" ".join(str(error).split()))[1:-1]
        sys.stderr.write(f"xopt: error: xopt cannot start ({type(error).__name__}: {reason})\n")
        sys.exit(BAD_USAGE)


def _run() -> None:
    if sys.argv[1:] == ["--version"]:
        from xoptim import __version__

        sys.stdout.write(f"xopt, version {__version__}\n")
        return
    from .guard import guarded

    guarded(_command)


def _command() -> None:
    from .main import main as command

    command()
