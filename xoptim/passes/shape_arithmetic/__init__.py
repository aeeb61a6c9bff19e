"""Replace nodes that only compute dimensions by the fewest nodes that compute the same."""

from xoptim.passes.shape_arithmetic.shortening import ShapeArithmetic

__all__ = ["ShapeArithmetic"]
