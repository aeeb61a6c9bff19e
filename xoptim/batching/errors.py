"""Errors of a whole batch; the outcome of one model is in its record."""

from __future__ import annotations

from xoptim.facts.errors import XoptimError


class BatchError(XoptimError):
    """A batch cannot begin, or cannot go on: nothing to optimize, two models with one result, or a folder in use."""
