"""What is known about operators, one module a family.

Importing a module of a family registers its operators.
"""

from importlib import import_module
from pkgutil import iter_modules

for _module in iter_modules(__path__):
    import_module(f"{__name__}.{_module.name}")
