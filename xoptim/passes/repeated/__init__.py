"""Repeated operations of one level, computed once together: equal nodes side by side become one
node on stacked operands.
"""

from xoptim.passes.repeated.stacking import Repeated, RepeatedOnCpu

__all__ = ["Repeated", "RepeatedOnCpu"]
