"""Inference of shapes, types and values from the operators."""

from importlib import import_module
from pkgutil import iter_modules

# Importing a module registers its formulas.
for _module in iter_modules(__path__):
    import_module(f"{__name__}.{_module.name}")
