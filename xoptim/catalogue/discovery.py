"""Find the installed patterns, and operators that packs describe: the built-in catalogue and the
packs of third parties, all by entry point.
"""

import importlib
import logging
import pkgutil
from collections.abc import Iterable, Iterator
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Final, NamedTuple

from xoptim.catalogue.cached import cached_patterns, sources_of, write_cache
from xoptim.catalogue.entries import loaded
from xoptim.catalogue.query import class_of
from xoptim.facts.errors import PatternError, UnknownPatternError
from xoptim.facts.words import meant
from xoptim.match.deferred import DeferredPattern
from xoptim.match.rewrite import Rewrite
from xoptim.operators.registry import add_operators
from xoptim.system.collection import collection_paused

logger = logging.getLogger("xoptim")
GROUP = "xoptim.patterns"
OPERATORS_GROUP = "xoptim.operators"
CATALOGUE: Final = "xoptim.patterns"
"""The package of the built-in catalogue."""
BUILT_IN: Final = (
    EntryPoint("builtin", CATALOGUE, GROUP),
    EntryPoint("repeated", "xoptim.passes.repeated", GROUP),
    EntryPoint("shape_arithmetic", "xoptim.passes.shape_arithmetic", GROUP),
)
"""The rewrites of xoptim. They are stated here, since a frozen application has no metadata of
packages.
"""


class InstalledPattern(NamedTuple):
    """A pattern, and the name of its pack: empty for the built-in catalogue."""

    item: type[Rewrite] | DeferredPattern
    pack: str


@cache
def installed_patterns() -> dict[str, type[Rewrite]]:
    """All patterns by name, in alphabetical order.

    A pack that cannot be imported is skipped with a warning. Of two patterns with the same name the
    built-in one is used, else the one of the pack whose name is first in alphabetical order.
    """
    return {name: class_of(loaded(pattern.item)) for name, pattern in installed().items()}


@cache
def installed() -> dict[str, InstalledPattern]:
    """As `installed_patterns`, with patterns that are not imported yet."""
    patterns: dict[str, InstalledPattern] = {}
    with collection_paused():
        for pack in packs():
            for item in _rewrites_of(pack):
                pattern = InstalledPattern(item, "" if pack in BUILT_IN else pack.name)
                if patterns.setdefault(item.name(), pattern).item is not item:
                    logger.warning(
                        "pattern %s of pack %r is ignored: another pattern has that name",
                        item.name(),
                        pack.name,
                    )
    return dict(sorted(patterns.items()))


def packs() -> list[EntryPoint]:
    """The entry points of all rewrites, those of xoptim first."""
    others = [entry for entry in entry_points(group=GROUP) if entry not in BUILT_IN]
    return [*BUILT_IN, *sorted(others, key=lambda entry: (entry.name, entry.value))]


def operator_packs() -> dict[str, EntryPoint]:
    """The installed packs that describe custom operators, by name."""
    packs = sorted(entry_points(group=OPERATORS_GROUP), key=lambda e: (e.name, e.value))
    return {pack.name: pack for pack in reversed(packs)}


@cache
def use_pack(pack: str) -> None:
    """Use the custom operators that an installed pack describes, until the process ends.

    Raises `UnknownPatternError` when no pack of this name describes operators, and `PatternError`
    when its operators cannot be used.
    """
    installed_packs = operator_packs()
    if pack not in installed_packs:
        hint = meant(pack, installed_packs)
        raise UnknownPatternError(f"no installed pack {pack!r} describes operators{hint}")
    try:
        add_operators(installed_packs[pack].load())
    except Exception as error:  # the pack's own code
        raise PatternError(f"the operators of pack {pack!r} cannot be used: {error}") from error


def refresh() -> None:
    """Look for patterns again at the next call."""
    installed_patterns.cache_clear()
    installed.cache_clear()


def _rewrites_of(entry: EntryPoint) -> Iterable[type[Rewrite] | DeferredPattern]:
    """The rewrites of a pack."""
    if entry.value == CATALOGUE:
        return _built_in(entry)
    try:
        return patterns_of(entry.load())
    except Exception as error:  # a broken third-party pack must not break the optimizer
        if entry in BUILT_IN:  # a defect of xoptim
            raise
        logger.warning("pattern pack %r cannot be loaded: %s", entry.name, error)
        return ()


def _built_in(entry: EntryPoint) -> Iterable[type[Rewrite] | DeferredPattern]:
    """The rewrites of the built-in catalogue, from the cache if that is valid."""
    spec = find_spec(entry.module)
    folders = spec.submodule_search_locations if spec is not None else None
    folder = Path(next(iter(folders))) if folders else None
    if folder is None or not folder.is_dir():  # in an archive
        return patterns_of(entry.load())
    sources = sources_of(folder)
    cached = cached_patterns(folder, sources)
    if cached is not None:
        return cached
    rewrites = patterns_of(entry.load())
    write_cache(folder, sources, rewrites)
    return rewrites


def patterns_of(module: ModuleType) -> list[type[Rewrite]]:
    """The patterns defined in a module, or in all modules of a package."""
    return [
        value
        for part in _modules(module)
        for value in vars(part).values()
        if isinstance(value, type)
        and issubclass(value, Rewrite)
        and value.__module__ == part.__name__
        and not value.__name__.startswith("_")
    ]


def _modules(module: ModuleType) -> Iterator[ModuleType]:
    """A module, and those in it if it is a package."""
    yield module
    if hasattr(module, "__path__"):
        for info in pkgutil.walk_packages(module.__path__, f"{module.__name__}."):
            yield importlib.import_module(info.name)
