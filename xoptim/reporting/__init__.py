"""The report: one HTML file with the figures of an optimization, both graphs, and every rewrite."""

from typing import TYPE_CHECKING

from xoptim.facts.lazy import on_demand

if TYPE_CHECKING:
    from xoptim.reporting.drawing import Drawing as Drawing, DrawnNode as DrawnNode, draw as draw
    from xoptim.reporting.links import (
        FOLDED as FOLDED,
        KEPT as KEPT,
        REPLACED as REPLACED,
        Journal as Journal,
        Links as Links,
        RewriteStep as RewriteStep,
        link as link,
    )
else:
    __getattr__ = on_demand(__name__)
