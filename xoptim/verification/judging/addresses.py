"""Functions that a command line names: ``package.module:function``."""

import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

from xoptim.verification.errors import ChoiceError


def function_at(address: str) -> Callable[..., Any]:
    """Import the function at an address; the current folder is searched as well.

    Raises `ChoiceError` when there is none.
    """
    package, _, name = address.partition(":")
    if not package or package.startswith(".") or not name:
        raise ChoiceError(f"{address!r} is not of the form package.module:function")
    if "" not in sys.path and str(Path.cwd()) not in sys.path:
        sys.path.insert(0, str(Path.cwd()))
    try:
        function: Callable[..., Any] = getattr(import_module(package), name)
    except ImportError as error:
        raise ChoiceError(f"{package} cannot be imported: {error}") from error
    except AttributeError as error:
        raise ChoiceError(f"{package} has no function {name!r}") from error
    if not callable(function):
        raise ChoiceError(f"{address} is not a function")
    return function
