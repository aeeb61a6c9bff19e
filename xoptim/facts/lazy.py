"""Modules, and names of packages, that are imported at their first use."""

import sys
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from importlib import import_module
from types import ModuleType
from typing import Any

from xoptim.facts.public_names import PUBLIC_NAMES
from xoptim.system.collection import collection_paused


class _LazyModule(ModuleType):
    """Represents a module until the first access to an attribute, and delegates to the module from
    then on.

    Unlike with ``importlib.util.LazyLoader``, it is not in ``sys.modules``: code that walks all
    loaded modules would trigger the import, and before Python 3.12 two threads could meet a
    half-initialized module.
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
    """A stand-in for a module that is imported at the first access to an attribute.

    That access raises ``ImportError`` when the module is not installed, so that a missing package
    matters only to code that uses it.
    """
    return _LazyModule(name)


def on_demand(package: str) -> Callable[[str], Any]:
    """The ``__getattr__`` of a package that imports a name when it is asked for.

    The package lists its names as imports for type checkers, from which ``make docs`` writes
    `PUBLIC_NAMES`::

        if TYPE_CHECKING:
            from package.module import name as name
            from package import another_module as another_module
        else:
            __getattr__ = on_demand(__name__)
    """

    def get(name: str) -> Any:
        if name.startswith("__") or name not in _places(package):
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        module, original = _places(package)[name]
        with collection_paused():  # modules make many objects that stay
            if module == package:
                return import_module(f"{package}.{original}")
            value = getattr(import_module(module), original)
        setattr(sys.modules[package], name, value)
        return value

    return get


def exports(package: str) -> list[str]:
    """The names that a package imports on demand."""
    return list(_places(package))


@cache
def _places(package: str) -> dict[str, tuple[str, str]]:
    """The names that a package imports on demand, each with its module and its name there."""
    return dict(_exports(PUBLIC_NAMES[package]))


def _exports(names: Mapping[str, str]) -> Iterator[tuple[str, tuple[str, str]]]:
    for module, words in names.items():
        for word in words.split():
            original, _, name = word.partition(":")
            yield name or original, (module, original)
