"""Errors that a user may meet. Each message is one line that says what to do."""

from __future__ import annotations


class XoptimError(Exception):
    """Base of all errors raised on purpose."""


class ModelError(XoptimError):
    """The model cannot be read, or it is not valid."""


class RewriteError(XoptimError):
    """A rewrite would break the graph; nothing of it was applied."""


class Declined(RewriteError):  # noqa: N818 - nothing is wrong
    """A rewrite found out, while it was made, that it does not apply here; nothing of it was applied, and nothing is wrong."""


class BudgetError(XoptimError):
    """The loop was stopped because it made no progress towards a fixed point."""


class UnknownPatternError(XoptimError):
    """A name in a selection is not the name of a pattern, a preset or a tag."""


class TextRuleError(XoptimError):
    """A rule in text form cannot be used. The message begins with ``FILE:LINE:COLUMN``."""
