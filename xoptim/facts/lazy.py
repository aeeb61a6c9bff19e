"""Modules that are imported at the first access to an attribute."""

import importlib
from types import ModuleType
from typing import Any


class _LazyModule(ModuleType):
    """Represents a module until the first access to an attribute, and delegates to the module from
    then on.

    It is not put into ``sys.modules`` (``importlib.util.LazyLoader`` would): code that walks all
    loaded modules would trigger the import, and before Python 3.12 two threads could meet a
    half-initialized module. Here the import itself, hence its lock, is Python's own.
    """

    _module: ModuleType | None = None

    def __getattr__(self, attribute: str) -> Any:
        module = self._module
        if module is None:
            self._module = module = importlib.import_module(self.__name__)
        return getattr(module, attribute)

    def __dir__(self) -> list[str]:  # imports the module: completion in a shell needs its names
        return dir(importlib.import_module(self.__name__))

    def __repr__(self) -> str:
        return f"<lazy module {self.__name__!r}>"


def lazy_module(name: str) -> ModuleType:
    """A stand-in for a module that is imported at the first access to an attribute, by whichever
    thread comes first.

    That access raises ``ImportError`` when the module is not installed, so that a missing package
    matters only to code that uses it.
    """
    return _LazyModule(name)
