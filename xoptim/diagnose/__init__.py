"""Diagnosis: why a pattern does not apply, which rewrite changes a result, and small models that
reproduce it.
"""

from typing import TYPE_CHECKING

from xoptim.facts.lazy import on_demand

if TYPE_CHECKING:
    from xoptim.diagnose import each as each, hints as hints, unfit as unfit
else:
    __getattr__ = on_demand(__name__)
