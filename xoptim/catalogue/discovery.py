"""Find the installed patterns: the built-in catalogue and the packs of third parties, all by entry
point.
"""

import importlib
import logging
import pkgutil
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from types import ModuleType

from xoptim.match.rewrite import Rewrite

logger = logging.getLogger("xoptim")
GROUP = "xoptim.patterns"


@cache
def installed_patterns() -> dict[str, type[Rewrite]]:
    """All patterns by name, in alphabetical order.

    A pack that cannot be imported is skipped with a warning. Of two patterns with the same name the
    built-in one is used, else the one of the pack whose name is first in alphabetical order.
    """
    found: dict[str, type[Rewrite]] = {}
    for entry in sorted(entry_points(group=GROUP), key=lambda e: (not _is_own(e), e.name, e.value)):
        try:
            for cls in patterns_of(entry.load()):
                if found.setdefault(cls.name(), cls) is not cls:
                    logger.warning(
                        "pattern %s of pack %r is hidden by another of that name",
                        cls.name(),
                        entry.name,
                    )
        except Exception as error:  # a broken third-party pack must not break the optimizer
            if _is_own(entry):  # the built-in catalogue: a defect of xoptim
                raise
            logger.warning("pattern pack %r cannot be loaded: %s", entry.name, error)
    return dict(sorted(found.items()))


def _is_own(entry: EntryPoint) -> bool:
    return entry.value.partition(".")[0] == "xoptim"


def patterns_of(module: ModuleType) -> list[type[Rewrite]]:
    """The patterns defined in a module, or in all modules of a package."""
    modules = [module]
    if hasattr(module, "__path__"):
        found = pkgutil.walk_packages(module.__path__, f"{module.__name__}.")
        modules.extend(importlib.import_module(info.name) for info in found)
    return [
        value
        for each in modules
        for value in vars(each).values()
        if isinstance(value, type)
        and issubclass(value, Rewrite)
        and value.__module__ == each.__name__
        and not value.__name__.startswith("_")
    ]
