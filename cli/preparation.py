"""Options that change a model before it is optimized."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from xoptim import OptimizationOptions, Preparation, XoptimError
from xoptim.api.advice import Advice
from xoptim.api.preparing import Source, assumed_of, fitting_assumptions
from xoptim.diagnose.explanation import abridged, whole_number

from .options import flag, option, repeated
from .terminal import say
from .verification import named_parts


def _assumption(value: str) -> str:
    """An assumption about sizes or values."""
    try:
        OptimizationOptions(assume=(value,))
    except XoptimError as error:
        raise click.BadParameter(str(error)) from None
    return value


def assume_option() -> Any:
    """The option ``--assume``."""
    text = (
        "Assume a condition: 'past >= 1', 'n % 8 == 0', finite (no NaN or infinity), 'bool(mask)' "
        "(0 and 1 only) (repeatable)."
    )
    return repeated(text, type=_assumption, metavar="TEXT")


def assume_from_model_option() -> Any:
    """The option ``--assume-from-model``."""
    return flag("Also use the assumptions in the metadata of MODEL.")


def assumes_by_settings() -> bool:
    """Whether the assumptions come from a settings file, which applies to many models."""
    return click.get_current_context().get_parameter_source("assume") is ParameterSource.DEFAULT_MAP


def fitting(model: Path | Source, texts: Sequence[str], *, always: bool = False) -> tuple[str, ...]:
    """The assumptions for a model.

    All assumptions of a command line are returned. Assumptions of a settings file, and with
    ``always`` of a command line, are dropped with a warning if they do not fit the model.
    """
    if not texts or not (always or assumes_by_settings()):
        return tuple(texts)
    assumptions, reasons = fitting_assumptions(
        model if isinstance(model, Source) else Source(model), texts
    )
    for reason in reasons:
        say(f"xopt: warning: {reason}; it is ignored", err=True)
    return tuple(assumptions)


def in_force(texts: Sequence[str], *models: Path, from_model: bool) -> list[str]:
    """The assumptions in force for models, in addition to the default set."""
    if not texts and not from_model:
        return []
    assumed = (assumed_of(Source(model).proto, texts, from_model=from_model) for model in models)
    return list(dict.fromkeys(text for facts in assumed for text in facts.texts))


def print_assumed(texts: Sequence[str], *models: Path, from_model: bool) -> None:
    """Print the assumptions in force for models in addition to the default set, if any."""
    assumptions = in_force(texts, *models, from_model=from_model)
    if assumptions:
        say(f"assumed: {', '.join(assumptions)}")


def fix_option() -> Any:
    """The option ``--fix``."""
    return repeated(
        "Fix dimensions by name (batch=1,seq=128), or the shape of an input (x=1,3,224,224).",
        metavar="NAME=SIZE",
    )


@dataclass(frozen=True)
class Changes:
    """The options that change inputs, outputs and sizes."""

    fix: tuple[str, ...] = fix_option()
    free: str = option(
        "Make the first dimension of all inputs dynamic, and call it NAME.",
        default="",
        metavar="NAME",
    )
    drop_output: tuple[str, ...] = repeated("Remove an output (repeatable).", metavar="NAME")
    keep_output: tuple[str, ...] = repeated(
        "Make an intermediate value an output (repeatable).", metavar="NAME"
    )
    rename: tuple[str, ...] = repeated("Rename an input or output (repeatable).", metavar="OLD=NEW")
    strip: bool = flag("Remove doc strings and metadata.")

    def read(self) -> Preparation:
        """The changes. Raises `click.UsageError` for a text that cannot be read."""
        return Preparation(
            free=self.free,
            fix=sizes_of(self.fix),
            drop_outputs=self.drop_output,
            keep_outputs=self.keep_output,
            rename=dict(_names(part) for text in self.rename for part in named_parts(text)),
            strip=self.strip,
        )


def sizes_of(texts: Sequence[str]) -> dict[str, list[int]]:
    """The sizes of ``--fix``, as ``batch=1,seq=128`` and ``x=1,3,224,224``.

    A part without ``=`` is one more size of the preceding name.
    """
    sizes: dict[str, list[int]] = {}
    for text in texts:
        name = ""
        for part in text.split(","):
            prefix, equals, size = part.rpartition("=")
            name = prefix if equals else name
            if equals and name in sizes:
                raise click.UsageError(f"{Advice('fix')} {name} is given twice")
            number = whole_number(size)
            if not name or number is None:
                raise click.UsageError(
                    f"{Advice('fix')} {abridged(text)}: write it as NAME=SIZE, such as "
                    "batch=1,seq=128 or x=1,3,224,224"
                )
            if number == 0:
                raise click.UsageError(
                    f"{Advice('fix')} {abridged(part)}: a fixed size is at least 1"
                )
            sizes.setdefault(name, []).append(number)
    return sizes


def _names(text: str) -> tuple[str, str]:
    old, equals, new = text.partition("=")
    if not equals or not old or not new:
        raise click.UsageError(f"--rename {text!r}: write it as OLD=NEW")
    return old, new
