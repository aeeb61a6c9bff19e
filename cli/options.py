"""Options of commands as fields of frozen dataclasses: one place gives the name, the type, the default and the help of each."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import Field, field, fields
from functools import wraps
from typing import Any, Final

import click

from xoptim import OptimizationOptions
from xoptim.validate import is_provider

POSITIVE: Final = click.FloatRange(min=0, min_open=True)
_OPTION: Final = "option"


def option(text: str, *names: str, **settings: Any) -> Any:
    """A field that is an option; a field without one is a group of options, a dataclass that its default factory names.

    Args:
        text: the help.
        *names: such as ``-o`` and ``--output``; by default, the name of the field.
        **settings: further arguments of ``click.option``.
    """
    nothing = () if settings.get("multiple") else False if settings.get("is_flag") else 0 if settings.get("count") else None
    return field(default=settings.get("default", nothing), metadata={_OPTION: (names, {"help": text, **settings})})


def flag(text: str, *names: str) -> Any:
    """A field that is an option without a value."""
    return option(text, *names, is_flag=True)


def with_options(
    kind: type[Any], name: str = "choices", *, without: Collection[str] = ()
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Add the options of a dataclass to a command, which is called with an object of it.

    Args:
        kind: the dataclass.
        name: the parameter of the command that takes the object.
        without: names of options that the command lacks; their fields have the default.
    """

    def add(command: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(command)
        def called(*given: Any, **values: Any) -> Any:
            own = {each.name: values.pop(each.name) for each in kept}
            return command(*given, **{name: _made(kind, own)}, **values)

        for each in reversed(kept):
            names, settings = each.metadata[_OPTION]
            called = click.option(each.name, *(names or (f"--{each.name.replace('_', '-')}",)), **settings)(called)
        return called

    kept = [each for each in _options(kind) if each.name not in without]
    return add


def names_of(kind: type[Any]) -> list[str]:
    """The names of the options of a dataclass, those of its groups included."""
    return [each.name for each in _options(kind)]


def _options(kind: Any) -> Iterator[Field[Any]]:
    for each in fields(kind):
        if _OPTION in each.metadata:
            yield each
        else:
            yield from _options(each.default_factory)


def _made(kind: Any, values: Mapping[str, Any]) -> Any:
    """An object of a dataclass; options without a value have their default."""
    given: dict[str, Any] = {}
    for each in fields(kind):
        if _OPTION not in each.metadata:
            given[each.name] = _made(each.default_factory, values)
        elif each.name in values:
            given[each.name] = values[each.name]
    return kind(**given)


def _operator_set(value: str | int) -> int | str:
    """A version of the operator set of ONNX, or ``newest``."""
    try:
        return "newest" if value == "newest" else int(value)
    except ValueError:
        raise click.BadParameter(f"{value!r} is neither a number nor `newest`") from None


def _known_provider(value: str) -> str:
    """An execution provider to optimize for, which may be missing on this machine."""
    if not is_provider(value):
        raise click.BadParameter(f"onnxruntime has no execution provider {value!r} on any machine; cpu and cuda are usual")
    return value


def growth(value: str | int) -> str:
    """Bytes that folding may add."""
    try:
        OptimizationOptions(max_growth=value)
    except ValueError as error:
        raise click.BadParameter(str(error)) from None
    return str(value)


def json_option(text: str = "Print JSON.") -> Any:
    """The option ``--json``."""
    return flag(text, "--json")


def provider_option(text: str = "cpu or cuda.", **settings: Any) -> Any:
    """The option ``--provider`` with one provider."""
    return option(text, default="cpu", show_default=True, **settings)


def providers_option(text: str = "cpu or cuda (repeatable).") -> Any:
    """The option ``--provider`` with several providers."""
    return option(text, multiple=True, default=("cpu",), show_default=True)


def target_provider_option(text: str = "Provider to optimize for.") -> Any:
    """The option ``--provider`` with one provider, which may be missing on this machine."""
    return provider_option(text, type=_known_provider, metavar="TEXT")


def opset_option() -> Any:
    """The option ``--opset``."""
    text = "Raise MODEL to this operator set of ONNX first: a number, or `newest`."
    return option(text, type=_operator_set, metavar="N|newest")


def verify_option() -> Any:
    """The options ``--verify`` and ``--no-verify``."""
    return option("Run both models and compare.", "--verify/--no-verify", default=True, show_default=True)
