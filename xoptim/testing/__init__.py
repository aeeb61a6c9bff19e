"""Checks for patterns, also of third-party packs: examples, and models that almost match. pytest is not required.

from xoptim.testing import check_example, check_near_misses

for example in MyPattern.examples:
    check_example(MyPattern, example)
    check_near_misses(MyPattern, example)
"""

from xoptim.catalogue.discovery import patterns_of
from xoptim.testing.canonical import canonical
from xoptim.testing.feeds import make_all_feeds
from xoptim.testing.harness import check_example
from xoptim.testing.numbers import Numbers, same_numbers
from xoptim.testing.perturbations import check_near_misses, near_misses
from xoptim.testing.variant import Variant, optimize_alone, parse

__all__ = [
    "Numbers",
    "Variant",
    "canonical",
    "check_example",
    "check_near_misses",
    "make_all_feeds",
    "near_misses",
    "optimize_alone",
    "parse",
    "patterns_of",
    "same_numbers",
]
