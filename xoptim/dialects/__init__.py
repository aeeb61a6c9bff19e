"""Other ways to write a pattern: chains, rules in text, tuples, functions.

All lowered onto the matcher.
"""

from xoptim.dialects.chain import ChainPattern, ChainRegistry
from xoptim.dialects.local import local_rewriter
from xoptim.dialects.shortcuts import OpRemove, OpSub, PatternSub

__all__ = ["ChainPattern", "ChainRegistry", "OpRemove", "OpSub", "PatternSub", "local_rewriter"]
