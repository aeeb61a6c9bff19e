"""Modules that stand for other packages while a block runs."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any
from unittest.mock import patch

import xoptim


@contextmanager
def standing_in(name: str, **functions: Callable[..., Any]) -> Iterator[None]:
    """Let ``import name`` give a module with these functions, in all threads.

    The package need not be installed.
    """
    module = ModuleType(name)
    for function_name, function in functions.items():
        setattr(module, function_name, function)
    module.__version__ = f"xoptim {xoptim.__version__}"  # type: ignore[attr-defined]
    with patch.dict(sys.modules, {name: module}):
        yield
