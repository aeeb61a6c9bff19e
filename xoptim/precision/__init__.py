"""Fewer bits, within an error that the user allows: which products are rounded, and what that
gives.
"""

from typing import TYPE_CHECKING

from xoptim.system.lazy import on_demand

if TYPE_CHECKING:
    from xoptim.precision import lowering as lowering, static as static
else:
    __getattr__ = on_demand(__name__)
