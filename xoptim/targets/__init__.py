"""Targets: the runtimes and devices for a model, and the nodes that an execution provider takes."""

from typing import TYPE_CHECKING

from xoptim.facts.lazy import on_demand

if TYPE_CHECKING:
    from xoptim.targets.bisect import Failing as Failing, smallest_failing as smallest_failing
    from xoptim.targets.oracle import place as place
    from xoptim.targets.placement import PlacedNode as PlacedNode, Placement as Placement
    from xoptim.targets.process import PlacementError as PlacementError
    from xoptim.targets.registry import (
        UnknownTargetError as UnknownTargetError,
        every as every,
        named as named,
    )
    from xoptim.targets.state import TargetState as TargetState, state_of as state_of
    from xoptim.targets.target import Needs as Needs, Target as Target
else:
    __getattr__ = on_demand(__name__)

__all__ = [
    "Failing",
    "Needs",
    "PlacedNode",
    "Placement",
    "PlacementError",
    "Target",
    "TargetState",
    "UnknownTargetError",
    "every",
    "named",
    "place",
    "smallest_failing",
    "state_of",
]
