"""Modules, and names of packages, that are imported when they are asked for."""

import ast
import sys
from collections.abc import Callable, Iterator
from functools import cache
from importlib import import_module
from importlib.abc import InspectLoader
from importlib.util import find_spec
from types import ModuleType
from typing import Any

from xoptim.system.collection import collection_paused


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
            self._module = module = import_module(self.__name__)
        return getattr(module, attribute)

    def __dir__(self) -> list[str]:  # imports the module: completion in a shell needs its names
        return dir(import_module(self.__name__))

    def __repr__(self) -> str:
        return f"<lazy module {self.__name__!r}>"


def lazy_module(name: str) -> ModuleType:
    """A stand-in for a module that is imported at the first access to an attribute, by whichever
    thread comes first.

    That access raises ``ImportError`` when the module is not installed, so that a missing package
    matters only to code that uses it.
    """
    return _LazyModule(name)


def on_demand(package: str) -> Callable[[str], Any]:
    """The ``__getattr__`` of a package that imports a name when it is asked for.

    The package lists its names once, as imports for type checkers::

        if TYPE_CHECKING:
            from package.module import name as name
            from package import another_module as another_module
        else:
            __getattr__ = on_demand(__name__)
    """

    @cache
    def places() -> dict[str, tuple[str, str]]:
        return dict(_exports(package))

    def get(name: str) -> Any:
        if name.startswith("__") or name not in places():
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        module, original = places()[name]
        with collection_paused():  # modules make many objects that stay
            if module == package:
                return import_module(f"{package}.{original}")
            value = getattr(import_module(module), original)
        setattr(sys.modules[package], name, value)
        return value

    return get


def exports(package: str) -> list[str]:
    """The names that a package imports on demand."""
    return [name for name, _ in _exports(package)]


def _exports(package: str) -> Iterator[tuple[str, tuple[str, str]]]:
    """The names that a package imports for type checkers, each with its module and name there."""
    spec = find_spec(package)
    assert spec is not None
    assert isinstance(spec.loader, InspectLoader)
    source = spec.loader.get_source(package)
    for statement in ast.parse(source or "").body:
        if not isinstance(statement, ast.If):
            continue
        for imported in statement.body:
            if isinstance(imported, ast.ImportFrom):
                for alias in imported.names:
                    yield alias.asname or alias.name, (imported.module or "", alias.name)
