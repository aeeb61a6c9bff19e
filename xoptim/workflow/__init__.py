"""The steps from a model to its verified result, in one place: the command, the API, `tune` and
batches run a `Job`.
"""

from typing import TYPE_CHECKING

from xoptim.facts.lazy import on_demand

if TYPE_CHECKING:
    from xoptim.workflow import fitting as fitting, page as page, preparing as preparing
else:
    __getattr__ = on_demand(__name__)
