"""Entry point of the script ``xopt``."""

import sys
from importlib import import_module

from xoptim import __version__

from .guard import guarded


def main() -> None:
    """Run the command line. The version is printed before onnx and the commands are loaded, which takes most of a second."""
    if sys.argv[1:] == ["--version"]:
        print(f"xopt, version {__version__}")
        return
    guarded(lambda: import_module("xoptim.cli.main").main())
