"""Programs of sizes: nodes that compute nothing but sizes, replaced by the fewest that compute the
same.
"""

from xoptim.passes.shape_arithmetic.shortening import ShapeArithmetic

__all__ = ["ShapeArithmetic"]
