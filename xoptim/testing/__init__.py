"""Checks for patterns, also of third-party packs: examples, and models that almost match.

They do not need pytest::

    from xoptim.testing import check_pattern

    check_pattern(MyPattern)
"""

from xoptim.catalogue.discovery import patterns_of as patterns_of
from xoptim.testing.canonical import canonical as canonical
from xoptim.testing.feeds import make_all_feeds as make_all_feeds
from xoptim.testing.harness import check_example as check_example
from xoptim.testing.numbers import Numbers as Numbers, same_numbers as same_numbers
from xoptim.testing.perturbations import (
    check_near_misses as check_near_misses,
    check_pattern as check_pattern,
    near_misses as near_misses,
)
from xoptim.testing.variant import (
    Variant as Variant,
    optimize_alone as optimize_alone,
    parse as parse,
)
