"""Programs of sizes: nodes that compute nothing but sizes, replaced by the fewest that compute the
same.
"""

from xoptim.passes.sizes.shortening import SizeProgram

__all__ = ["SizeProgram"]
