"""Options as fields of frozen dataclasses, which give name, type, default and help once.

Options without effect are refused.
"""

import math
import string
from collections.abc import Callable, Iterator, Mapping
from dataclasses import MISSING, Field, field, fields, is_dataclass
from functools import wraps
from typing import Any, Final, get_type_hints

import click
from click.core import ParameterSource

from xoptim import XoptimError, targets
from xoptim.diagnose.explanation import abridged, suggestion
from xoptim.verification import is_provider

_UNITS: Final = {"": 1.0, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "ms": 1e-3}
_OPTION: Final = "option"
THREADS: Final = click.IntRange(0, 1024)
_PROVIDERS: Final = ("cpu", "cuda", "openvino", "qnn", "webgpu", "tensorrt")
_RUNS_ON: Final = f"Execution provider to run on: {', '.join(_PROVIDERS)}"


_METAVARS: Final = {click.IntRange: "N", click.FloatRange: "NUMBER"}
"""Words for values in the help, where click has long ones."""


def option(text: str, *names: str, **settings: Any) -> Any:
    """A field that is an option.

    A field without one is a group of options, a dataclass that its default factory names.

    Args:
        text: the help, to which click adds a default that is not empty.
        *names: such as ``-o`` and ``--output``; by default, the name of the field.
        **settings: further arguments of ``click.option``.
    """
    nothing = (
        ()
        if settings.get("multiple")
        else False
        if settings.get("is_flag")
        else 0
        if settings.get("count")
        else None
    )
    default = settings.get("default", nothing)
    metavar = _METAVARS.get(type(settings.get("type")))
    shown = {"help": text, "show_default": bool(default), "metavar": metavar}
    return field(default=default, metadata={_OPTION: (names, {**shown, **settings})})


def flag(text: str, *names: str) -> Any:
    """A field that is an option without a value."""
    return option(text, *names, is_flag=True)


def switch(text: str) -> Any:
    """A field that is on by default: ``--tag/--no-tag``."""
    return option(text, default=True)


def duration(text: str, **settings: Any) -> Any:
    """A field that is a time in seconds, such as ``30``, ``30s`` or ``2m``."""
    return option(text, type=_seconds, metavar="SECONDS", **settings)


def _seconds(value: str | float) -> float:
    text = str(value)
    number = text.rstrip(string.ascii_lowercase)
    try:
        seconds = float(number) * _UNITS[text[len(number) :]]
    except (KeyError, ValueError):
        seconds = math.nan
    if not 0 < seconds < math.inf:
        raise click.BadParameter(
            f"{abridged(text)} is not a time above 0: write 30 or 30s for seconds, 2m for minutes"
        )
    return seconds


def choice(text: str, *words: str) -> Any:
    """A field that is one of some words, by default the first."""
    return option(text, type=click.Choice(words), default=words[0])


def repeated(text: str, *names: str, **settings: Any) -> Any:
    """A field that has all values of an option that may be given several times."""
    return option(text, *names, multiple=True, **settings)


def command(
    title: str,
    /,
    *,
    kind: type[click.Command] = click.Command,
    extra: bool = False,
    **arguments: Any,
) -> Callable[[Callable[..., Any]], click.Command]:
    """Make a command of a function.

    Its parameters that are dataclasses are the options, in this order.

    ``extra``: whether the command itself looks at words beyond its arguments. ``arguments`` are
    given by name, each with its type, or with the settings of ``click.Argument``.
    """

    def make(function: Callable[..., Any]) -> click.Command:
        hints = get_type_hints(function)
        groups = {name: hint for name, hint in hints.items() if is_dataclass(hint)}

        @wraps(function)
        def called(**values: Any) -> Any:
            context = {"context": click.get_current_context()} if "context" in hints else {}
            given = {name: values[name] for name in arguments}
            return function(
                **context, **given, **{name: _made(group, values) for name, group in groups.items()}
            )

        params: list[click.Parameter] = [
            click.Argument([name], **(each if isinstance(each, dict) else {"type": each}))
            for name, each in arguments.items()
        ]
        params += (_click_option(each) for group in groups.values() for each in _options(group))
        return click.command(
            title, cls=kind, params=params, context_settings={"allow_extra_args": extra}
        )(called)

    return make


def names_of(kind: type[Any]) -> list[str]:
    """The names of the options of a dataclass, including its groups."""
    return [each.name for each in _options(kind)]


def common(kind: type[Any], choices: Any) -> dict[str, Any]:
    """The values of options that are fields of another dataclass too, by name: arguments for it."""
    names = {each.name for each in fields(choices)}
    return {each.name: getattr(choices, each.name) for each in fields(kind) if each.name in names}


def _options(kind: Any) -> Iterator[Field[Any]]:
    for each in fields(kind):
        if _OPTION in each.metadata:
            yield each
        elif each.default_factory is not MISSING:
            yield from _options(each.default_factory)


def _click_option(each: Field[Any]) -> click.Option:
    names, settings = each.metadata[_OPTION]
    word = each.name.replace("_", "-")
    derived = f"--{word}/--no-{word}" if each.default is True else f"--{word}"
    return click.Option([each.name, *(names or (derived,))], **settings)


def _made(kind: Any, values: Mapping[str, Any]) -> Any:
    """An object of a dataclass with values of its options; other fields have their defaults."""
    own = {each.name: values[each.name] for each in fields(kind) if _OPTION in each.metadata}
    groups = {
        each.name: each.default_factory
        for each in fields(kind)
        if each.default_factory is not MISSING
    }
    return kind(**own, **{name: _made(group, values) for name, group in groups.items()})


def refuse_idle(reasons: Mapping[str, str]) -> None:
    """Raise click.UsageError for an option on the command line that has no effect.

    Settings are not refused: they are for many command lines, and some have no use for them. Each
    parameter is given with the end of the sentence ``--atol has no effect ...``.
    """
    context = click.get_current_context()
    for name, reason in reasons.items():
        if context.get_parameter_source(name) is ParameterSource.COMMANDLINE:
            raise click.UsageError(f"{_text_of(name, context)} has no effect {reason}; remove it")


def _text_of(name: str, context: click.Context) -> str:
    """The option of a parameter as the command line writes it."""
    found = next(each for each in context.command.params if each.name == name)
    texts = found.secondary_opts if context.params[name] is False else found.opts
    return next(text for text in texts if text.startswith("--"))


def _operator_set(value: str | int) -> int | str:
    """A version of the operator set of ONNX, or ``newest``."""
    try:
        return "newest" if value == "newest" else int(value)
    except ValueError:
        raise click.BadParameter(f"{value!r} is neither a number nor `newest`") from None


def known_provider(value: str) -> str:
    """An execution provider to optimize for, which may be missing on this machine."""
    if not is_provider(value):
        hint = suggestion(value, _PROVIDERS, f"use one of {', '.join(_PROVIDERS)}")
        raise click.BadParameter(f"unknown execution provider {abridged(value)}; {hint}")
    return value


def json_option(text: str = "Print JSON.") -> Any:
    """The option ``--json``."""
    return flag(text, "--json")


def provider_option(text: str = f"{_RUNS_ON}.", **settings: Any) -> Any:
    """The option ``--provider`` with one provider."""
    return option(text, default="cpu", **settings)


def providers_option(text: str = f"{_RUNS_ON} (repeatable).") -> Any:
    """The option ``--provider`` with several providers."""
    return repeated(text, default=("cpu",))


def known_target(value: str) -> str:
    """The name of a target."""
    try:
        return targets.named(value).name if value else ""
    except XoptimError as error:
        raise click.BadParameter(str(error)) from None


_FITTED: Final = "Fit MODEL to a target: webgpu, qnn, openvino, cuda, tensorrt, onnx, ..."


def target_option(text: str = _FITTED) -> Any:
    """The option ``--target``."""
    return option(text, default="", type=known_target, metavar="NAME")


def opset_option() -> Any:
    """The option ``--opset``."""
    text = "Convert MODEL to this operator set: a number, or `newest`."
    return option(text, type=_operator_set, metavar="N|newest")
