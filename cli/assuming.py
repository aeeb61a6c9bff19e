"""The option ``--assume``, and assumptions that do not fit a model."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from xoptim import OptimizationOptions, XoptimError
from xoptim.api.preparing import Source, fitting_assumptions

from .options import repeated


def _assumption(value: str) -> str:
    """An assumption about sizes or values."""
    try:
        OptimizationOptions(assume=(value,))
    except XoptimError as error:
        raise click.BadParameter(str(error)) from None
    return value


def assume_option() -> Any:
    """The option ``--assume``."""
    text = "Assume something of sizes or values: 'past >= 1', 'n % 8 == 0', finite, 'bool(mask)', nothing (repeatable)."
    return repeated(text, type=_assumption, metavar="TEXT")


def fitting(model: Path | Source, texts: Sequence[str], *, always: bool = False) -> tuple[str, ...]:
    """The assumptions of the command line, or of a settings file where they fit a model; with ``always`` only those that fit.

    Others are left out, with a warning for each: settings are for many models.
    """
    is_setting = click.get_current_context().get_parameter_source("assume") is ParameterSource.DEFAULT_MAP
    if not texts or not (always or is_setting):
        return tuple(texts)
    kept, reasons = fitting_assumptions(model if isinstance(model, Source) else Source(model), texts)
    for reason in reasons:
        click.echo(f"xopt: warning: {reason}; it is left out", err=True)
    return tuple(kept)
