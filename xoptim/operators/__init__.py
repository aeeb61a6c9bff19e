"""Facts about operators, one module per family, which registers them when it is imported."""

from importlib import import_module
from pkgutil import iter_modules

from xoptim.facts.shapes import Info as Info
from xoptim.operators.costs import passes as passes
from xoptim.operators.inference.shared import like as like
from xoptim.operators.protocols import (
    Indices as Indices,
    Lengths as Lengths,
    NodeContext as NodeContext,
    Results as Results,
)
from xoptim.operators.registry import Operator as Operator, Trait as Trait

for _module in iter_modules(__path__):
    import_module(f"{__name__}.{_module.name}")
