"""Proofs: both sides of a rewrite compared for all sizes, as normal forms of their elements."""

from typing import TYPE_CHECKING

from xoptim.facts.lazy import on_demand

if TYPE_CHECKING:
    from xoptim.proof import certificate as certificate, checking as checking, observer as observer
else:
    __getattr__ = on_demand(__name__)
