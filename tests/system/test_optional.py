"""Modules that only some systems have."""

import math

from xoptim.system.optional import module_of


def test_modules() -> None:
    assert module_of("math") is math
    assert module_of("a_module_of_another_system") is None
