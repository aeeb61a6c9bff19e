"""Options of commands as fields of frozen dataclasses: a field has name, type, default and help.

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
from xoptim.api.advice import Advice
from xoptim.diagnose.explanation import abridged, suggestion
from xoptim.verification import is_provider

from .help import HelpfulCommand

_UNITS: Final = {"": 1.0, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "ms": 1e-3}
_OPTION: Final = "option"
THREADS: Final = click.IntRange(0, 1024)
_PROVIDERS: Final = ("cpu", "cuda", "openvino", "qnn", "webgpu", "tensorrt")
_PROVIDER_HELP: Final = f"Execution provider to run on: {', '.join(_PROVIDERS)}"


_METAVARS: Final = {click.IntRange: "N", click.FloatRange: "NUMBER"}
"""Short words for values in the help, instead of click's long ones."""


def option(text: str, *names: str, **settings: Any) -> Any:
    """A field that is an option.

    A field that is not made by this function is a group of options: its default factory is a
    dataclass.

    Args:
        text: the help. click adds the default value, unless it is empty.
        *names: the names, such as ``-o`` and ``--output``; by default, the name of the field.
        **settings: further arguments of ``click.option``.
    """
    empty_value = (
        ()
        if settings.get("multiple")
        else False
        if settings.get("is_flag")
        else 0
        if settings.get("count")
        else None
    )
    default = settings.get("default", empty_value)
    metavar = _METAVARS.get(type(settings.get("type")))
    appearance = {"help": text, "show_default": bool(default), "metavar": metavar}
    return field(default=default, metadata={_OPTION: (names, {**appearance, **settings})})


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


def percentage(value: str | float) -> float:
    """A share such as ``5%`` or ``5``, as the number of percent.

    A number below 1 needs the percent sign: some users mean 5 % by 0.05.
    """
    text = str(value).strip()
    try:
        number = float(text.removesuffix("%"))
    except ValueError:
        number = math.nan
    if not 0 <= number <= 100:
        raise click.BadParameter(f"{abridged(text)} is not a percentage from 0 to 100, such as 5%")
    if 0 < number < 1 and not text.endswith("%"):
        percents = f"{number:.4g}% or {100 * number:.4g}%"
        raise click.BadParameter(f"{abridged(text)} has no percent sign: write {percents}")
    return number


def choice(text: str, *words: str) -> Any:
    """A field that is one of some words, by default the first."""
    return option(text, type=click.Choice(words), default=words[0])


def repeated(text: str, *names: str, **settings: Any) -> Any:
    """A field with all values of an option that a command line may repeat."""
    return option(text, *names, multiple=True, **settings)


def command(
    title: str,
    /,
    *,
    kind: type[click.Command] = HelpfulCommand,
    extra: bool = False,
    **arguments: Any,
) -> Callable[[Callable[..., Any]], click.Command]:
    """Make a command from a function whose parameters with dataclasses are the options.

    Args:
        title: the name of the command.
        kind: the class of the command.
        extra: whether the command accepts words beyond its arguments.
        **arguments: the type of each argument, or its settings for ``click.Argument``.
    """

    def make(function: Callable[..., Any]) -> click.Command:
        hints = get_type_hints(function)
        groups = {name: hint for name, hint in hints.items() if is_dataclass(hint)}

        @wraps(function)
        def callback(**values: Any) -> Any:
            context = {"context": click.get_current_context()} if "context" in hints else {}
            words = {name: values[name] for name in arguments}
            return function(
                **context,
                **words,
                **{name: _instance(group, values) for name, group in groups.items()},
            )

        params: list[click.Parameter] = [
            click.Argument([name], **(kind if isinstance(kind, dict) else {"type": kind}))
            for name, kind in arguments.items()
        ]
        params += (_click_option(entry) for group in groups.values() for entry in _options(group))
        return click.command(
            title, cls=kind, params=params, context_settings={"allow_extra_args": extra}
        )(callback)

    return make


def names_of(kind: type[Any]) -> list[str]:
    """The names of the options of a dataclass, including its groups."""
    return [entry.name for entry in _options(kind)]


def common(kind: type[Any], choices: Any) -> dict[str, Any]:
    """The values of the fields of ``choices`` that ``kind`` has, too: arguments for ``kind``."""
    names = {entry.name for entry in fields(choices)}
    return {
        entry.name: getattr(choices, entry.name) for entry in fields(kind) if entry.name in names
    }


def _options(kind: Any) -> Iterator[Field[Any]]:
    for entry in fields(kind):
        if _OPTION in entry.metadata:
            yield entry
        elif entry.default_factory is not MISSING:
            yield from _options(entry.default_factory)


class _Option(click.Option):
    """An option whose messages use its name on the command line or in Python."""

    def get_error_hint(self, ctx: click.Context | None) -> str:
        """The names in a message about a wrong value."""
        word = str(Advice(_word_of(self)))
        return super().get_error_hint(ctx) if word.startswith("--") else f"'{word}'"


def _word_of(param: click.Parameter) -> str:
    """The long name of an option, without dashes."""
    return next(text for text in param.opts if text.startswith("--"))[2:]


def _click_option(entry: Field[Any]) -> click.Option:
    names, settings = entry.metadata[_OPTION]
    word = entry.name.replace("_", "-")
    derived = f"--{word}/--no-{word}" if entry.default is True else f"--{word}"
    return _Option([entry.name, *(names or (derived,))], **settings)


def _instance(kind: Any, values: Mapping[str, Any]) -> Any:
    """An object of a dataclass with the values of its options. Other fields have defaults."""
    own = {entry.name: values[entry.name] for entry in fields(kind) if _OPTION in entry.metadata}
    groups = {
        entry.name: entry.default_factory
        for entry in fields(kind)
        if entry.default_factory is not MISSING
    }
    return kind(**own, **{name: _instance(group, values) for name, group in groups.items()})


def refuse_idle(reasons: Mapping[str, str]) -> None:
    """Raise `click.UsageError` for an option on the command line that has no effect.

    Settings are not refused: they apply to many command lines, of which some do not use them. A
    reason is the end of the sentence ``--atol has no effect ...``.
    """
    context = click.get_current_context()
    for name, reason in reasons.items():
        if context.get_parameter_source(name) is ParameterSource.COMMANDLINE:
            raise click.UsageError(f"{_text_of(name, context)} has no effect {reason}; remove it")


def _text_of(name: str, context: click.Context) -> str:
    """The option of a parameter as the command line writes it."""
    param = next(entry for entry in context.command.params if entry.name == name)
    if context.params[name] is False:
        return next(text for text in param.secondary_opts if text.startswith("--"))
    return str(Advice(_word_of(param)))


def _operator_set(value: str | int) -> int | str:
    """A version of the operator set of ONNX, or ``newest``."""
    try:
        return "newest" if value == "newest" else int(value)
    except ValueError:
        raise click.BadParameter(f"{value!r} is neither a number nor `newest`") from None


def known_provider(value: str) -> str:
    """The name of an execution provider to optimize for. This machine may lack the provider."""
    if not is_provider(value):
        hint = suggestion(value, _PROVIDERS, f"use one of {', '.join(_PROVIDERS)}")
        raise click.BadParameter(f"unknown execution provider {abridged(value)}; {hint}")
    return value


def json_option(text: str = "Print JSON.") -> Any:
    """The option ``--json``."""
    return flag(text, "--json")


def quiet_option() -> Any:
    """The option ``--quiet`` of a command that prints its result in any case."""
    return flag("Print no progress.", "-q", "--quiet")


def provider_option(text: str = f"{_PROVIDER_HELP}.", **settings: Any) -> Any:
    """The option ``--provider`` with one provider."""
    return option(text, default="cpu", **settings)


def providers_option(text: str = f"{_PROVIDER_HELP} (repeatable).") -> Any:
    """The option ``--provider`` with several providers."""
    return repeated(text, default=("cpu",))


def known_target(value: str) -> str:
    """The name of a target."""
    try:
        return targets.named(value).name if value else ""
    except XoptimError as error:
        raise click.BadParameter(str(error)) from None


_TARGET_HELP: Final = "Fit MODEL to a target: webgpu, qnn, openvino, cuda, tensorrt, onnx, ..."


def target_option(text: str = _TARGET_HELP) -> Any:
    """The option ``--target``."""
    return option(text, default="", type=known_target, metavar="NAME")


def opset_option() -> Any:
    """The option ``--opset``."""
    text = "Convert MODEL to this operator set: a number, or `newest`."
    return option(text, type=_operator_set, metavar="N|newest")
