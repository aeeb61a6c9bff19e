"""Errors that a user may see. Each message is one line that says what to do."""


class XoptimError(Exception):
    """Base of all errors raised on purpose."""


class ModelError(XoptimError):
    """The model cannot be read, or it is not valid."""


class MissingWeightsError(ModelError):
    """The file of external weights is missing or too short."""


class AssumptionError(XoptimError, ValueError):
    """An assumption cannot be parsed, contradicts another one or the model, or names a dimension or
    input that does not exist.
    """


class UnstoppableError(XoptimError):
    """A kernel of onnxruntime did not end in time and is still running: the process must not wait
    for its threads.
    """


class RewriteError(XoptimError):
    """A rewrite would break the graph; no part of it was applied."""


class Declined(RewriteError):  # noqa: N818 - not an error of the pattern
    """A pattern detected, while it built its replacement, that it does not apply: no defect."""


class PatternError(XoptimError, TypeError):
    """A pattern is declared wrongly. The message begins with ``FILE:LINE``."""


class BudgetError(XoptimError):
    """The optimization was stopped: it would not end, or a rewrite removed the result that the
    environment variable ``PATTERNNOREMOVE`` names.
    """


class UnknownPatternError(XoptimError):
    """A name in a selection is not the name of a pattern, a preset or a tag."""


class TextRuleError(XoptimError):
    """A rule in text form cannot be used. The message begins with ``FILE:LINE:COLUMN``."""
