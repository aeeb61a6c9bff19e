"""Compute repeated operations of one level together: equal nodes become one node on stacked
operands.
"""

from xoptim.passes.repeated.stacking import Repeated, RepeatedOnCpu

__all__ = ["Repeated", "RepeatedOnCpu"]
