"""Other ways to write a pattern, for the same matcher: chains, rules in text, tuples, functions."""

from xoptim.dialects.chain import ChainPattern, ChainRegistry
from xoptim.dialects.local import local_rewriter
from xoptim.dialects.shortcuts import OpRemove, OpSub, PatternSub

__all__ = ["ChainPattern", "ChainRegistry", "OpRemove", "OpSub", "PatternSub", "local_rewriter"]
