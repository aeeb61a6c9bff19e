"""Modules that stand for other packages while a block runs."""

import logging
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import ModuleType
from typing import Any, Final

import xoptim

_LOGGER: Final = logging.getLogger("xoptim")


@contextmanager
def standing_in(name: str, **functions: Callable[..., Any]) -> Iterator[None]:
    """Let ``import name`` give a module with these functions, in all threads.

    The package need not be installed.
    """
    module = ModuleType(name)
    for function_name, function in functions.items():
        setattr(module, function_name, function)
    module.__version__ = f"xoptim {xoptim.__version__}"  # type: ignore[attr-defined]
    previous = sys.modules.get(name)
    sys.modules[name] = module
    try:
        yield
    finally:  # modules that were imported meanwhile stay
        sys.modules.pop(name, None)
        if previous is not None:
            sys.modules[name] = previous


def refuse(package: str, arguments: Mapping[str, Any]) -> None:
    """Raise `ValueError` for the first argument with a true value.

    Args:
        package: the package that xoptim stands for.
        arguments: values by their names in the message.
    """
    for name, value in arguments.items():
        if value:
            raise ValueError(f"xoptim in place of {package} does not support {name}")


def warn_of_ignored(package: str, names: Sequence[str]) -> None:
    """Name arguments without effect in one warning, if there are any."""
    if names:
        _LOGGER.warning("xoptim in place of %s ignores %s", package, ", ".join(sorted(names)))
