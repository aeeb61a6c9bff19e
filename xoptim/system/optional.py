"""Modules of the standard library that only some systems have; ``None`` elsewhere."""

from importlib import import_module
from importlib.util import find_spec
from typing import Any


def module_of(name: str) -> Any:
    """A module, or ``None`` where the system lacks it."""
    return import_module(name) if find_spec(name) else None


fcntl = module_of("fcntl")
msvcrt = module_of("msvcrt")
resource = module_of("resource")
