"""Optimize one model: `GraphBuilder`, and the verification of the result."""

from typing import TYPE_CHECKING

from xoptim.facts.lazy import on_demand

if TYPE_CHECKING:
    from xoptim.optimizing import suspect as suspect
else:
    __getattr__ = on_demand(__name__)
