"""Repeated operations of one level, computed once together: equal nodes side by side become one node on stacked operands."""

from xoptim.repeated.fold import Repeated

__all__ = ["Repeated"]
