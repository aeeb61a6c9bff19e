"""Texts about settings that weaken a comparison of models, to print with the result."""

from collections.abc import Iterator
from typing import Any

import click
from click.core import ParameterSource

from .settings import source_of
from .terminal import say
from .trust import loosened

_TYPED = ("rtol", "atol", "ulp", "tolerance")
"""Parameters that are also shown if they come from the command line."""
_QUANTIZING = ("tolerance", "metric")
"""Parameters without effect if the model is not quantized."""


def loosened_text() -> str:
    """Words after a result, such as ``, with rtol 1e30 from pyproject.toml``; empty for none."""
    texts = list(_texts(_TYPED))
    return f", with {', '.join(texts)}" if texts else ""


def warn_of_loosened() -> None:
    """Warn of settings from files that weaken a comparison, if no line of a result shows them."""
    texts = list(_texts(()))
    if texts:
        say(f"xopt: warning: weaker verification: {', '.join(texts)}", err=True)


def _texts(typed: tuple[str, ...]) -> Iterator[str]:
    """Each option that weakens the comparison, with its value, and the file if one sets it."""
    context = click.get_current_context()
    for param in context.command.params:
        name = param.name or ""
        if name in _QUANTIZING and context.params.get("precision", "") is None:
            continue
        settings = source_of(context, name)
        word = next((text[2:] for text in param.opts if text.startswith("--")), "")
        if settings is not None:
            value = settings.defaults[context.info_name or ""][name]
            if loosened(name, value):
                yield f"{word} {_shown(value)} from {settings.short_name}"
        elif name in typed and context.get_parameter_source(name) is ParameterSource.COMMANDLINE:
            value = context.params[name]
            if loosened(name, value):
                yield f"{word} {_shown(value)}"


def _shown(value: Any) -> str:
    """A value as a settings file or a command line has it."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return f"{value:g}"
    return " ".join(map(str, value)) if isinstance(value, (list, tuple)) else str(value)
