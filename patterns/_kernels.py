"""Whether the provider that a graph is optimized for has kernels for the operators that a fusion makes: `xoptim.match.runs`."""

from xoptim.match import runs

__all__ = ["runs"]
