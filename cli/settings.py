"""Settings of the command in ``xoptim.toml``, or in the table ``tool.xoptim`` of
``pyproject.toml``.
"""

import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeAlias

import click
from click.core import ParameterSource

from xoptim.diagnose.explanation import meant
from xoptim.system.reading import read_file
from xoptim.verification import EXTENSIONS

_FILES: Final = ("xoptim.toml", "pyproject.toml")
_MAX_BYTES: Final = 1 << 20
_MAX_LINE: Final = 10_000
_SETTINGS: Final = "xopt-settings"
"""The key under which the context of a command has its settings."""
_OF_ONE_MODEL: Final = frozenset(("output", "in-place", "help"))
"""Options that make sense for one model only."""
_EXTENDS: Final = {"batch": "optimize"}
"""Commands that use the settings of another command as well."""

Commands: TypeAlias = Mapping[str, click.Command]
Defaults: TypeAlias = "Mapping[str, Mapping[str, Any]]"
"""Values of the parameters of each command."""


@dataclass(frozen=True, slots=True)
class Settings:
    """The settings of a file, as defaults of the options of each command.

    Attributes:
        path: the file; relative paths in it start from its folder.
        name: the file as messages name it.
        defaults: values by command and parameter.
        revision: the git revision that the file was read from, if any.
    """

    path: Path
    name: str
    defaults: Defaults
    revision: str = ""

    @property
    def short_name(self) -> str:
        """The name of a file in the current folder, else the path."""
        is_here = self.path.parent == Path.cwd() and not self.revision
        return self.path.name if is_here else self.name


class NamedSettings(NamedTuple):
    """The words of a command line about settings files.

    Attributes:
        path: the file of ``--config``.
        is_off: whether settings files are ignored, except the file of ``--config``.
    """

    path: Path | None
    is_off: bool


def place_of(error: click.ClickException) -> str:
    """The beginning of a message about a bad value of a settings file: the name of the file.

    Empty for other errors.
    """
    if not isinstance(error, click.BadParameter) or error.ctx is None or error.param is None:
        return ""
    source = source_of(error.ctx, error.param.name or "")
    return "" if source is None else f"{source.name}: "


def source_of(context: click.Context, name: str) -> Settings | None:
    """The settings that gave a parameter its value; ``None`` when no settings file did."""
    if context.get_parameter_source(name) is not ParameterSource.DEFAULT_MAP:
        return None
    layers: list[Settings] = context.meta[_SETTINGS]
    return next(layer for layer in layers if name in layer.defaults[context.info_name or ""])


def taken_from(arguments: list[str]) -> tuple[list[str], NamedSettings]:
    """The command line without ``--config`` and ``--no-config``, and their values.

    Raises `click.UsageError` when ``--config`` names no file, or one that does not exist.
    """
    end = arguments.index("--") if "--" in arguments else len(arguments)
    words, arguments_after = iter(arguments[:end]), arguments[end:]
    remaining: list[str] = []
    file: str | None = None
    is_off = False
    for word in words:
        if word == "--no-config":
            is_off = True
        elif word == "--config":
            file = next(words, "")
        elif word.startswith("--config="):
            file = word.removeprefix("--config=")
        else:
            remaining.append(word)
    if file is None:
        return [*remaining, *arguments_after], NamedSettings(None, is_off)
    if not file:
        raise click.UsageError("--config needs a file")
    if not Path(file).exists():
        raise click.UsageError(f"--config {file!r}: no such file")
    return [*remaining, *arguments_after], NamedSettings(Path(file), is_off)


def read_content(path: Path) -> bytes | None:
    """The content of a settings file, ``None`` when there is no file.

    Raises `click.UsageError` when the file cannot be read. A ``pyproject.toml`` that cannot be read
    gives ``None`` instead: it belongs to other programs, too, and they report the error.
    """
    return _content(path) if path.is_file() else None


def _content(path: Path) -> bytes | None:
    try:
        return read_file(path, _MAX_BYTES)
    except (OSError, ValueError) as error:
        if path.name == "pyproject.toml":
            return None
        reason = getattr(error, "strerror", None) or error
        raise click.UsageError(f"cannot read settings from {str(path)!r}: {reason}") from error


def nearest_settings(
    read: Callable[[Path], bytes | None] = read_content,
) -> tuple[Path, Mapping[str, Any]] | None:
    """The nearest settings file, in the current folder or a parent folder, and its table.

    ``None`` when there is no such file. ``read`` gives the content of a file, if the file exists.
    """
    try:
        folder = Path.cwd()
    except FileNotFoundError:  # the current folder was removed
        return None
    for place in (folder, *folder.parents):
        for name in _FILES:
            path = place / name
            content = read(path)
            table = None if content is None else _table(path, content)
            if table is not None:
                return path, table
    return None


def read_settings(path: Path, commands: Commands) -> Settings:
    """The settings of a file. Raises `click.UsageError` when the file cannot be read."""
    content = _content(path)
    table = None if content is None else _table(path, content)
    if table is None:
        raise click.UsageError(f"{str(path)!r} has no table [tool.xoptim]")
    return Settings(path, str(path), defaults_of(table, path, str(path), commands))


def defaults_of(table: Mapping[str, Any], path: Path, name: str, commands: Commands) -> Defaults:
    """The values in a table, by command and parameter.

    A top-level key applies to all commands with an option of this name. A table with the name of a
    command applies to this command and to commands that extend it. Raises `click.UsageError`, with
    the ``name`` of the file, when a key is not the name of an option.
    """
    options = {name: _options(command) for name, command in commands.items()}
    everywhere = {
        key: value
        for key, value in table.items()
        if not (key in commands and isinstance(value, dict))
    }
    names = {key for params in options.values() for key in params}
    for key, value in everywhere.items():
        if isinstance(value, dict) and key not in names:
            raise click.UsageError(f"{name}: there is no command {key!r}{meant(key, commands)}")
        _check(key, names, name)
    defaults: dict[str, dict[str, Any]] = {}
    for command, params in options.items():
        own = table.get(command)
        # An option may have the name of a command, such as verify, and a value that is no table.
        own = own if isinstance(own, dict) else {}
        for key in own:
            _check(key, params.keys(), name, command)
        base = table.get(_EXTENDS.get(command, ""), {})
        values = {
            key: value for key, value in {**everywhere, **base, **own}.items() if key in params
        }
        defaults[command] = {
            params[key].name or key: _value(params[key], value, path, name, key)
            for key, value in values.items()
        }
    return defaults


def _table(path: Path, content: bytes) -> Mapping[str, Any] | None:
    """The table of settings in a file.

    ``None`` when ``pyproject.toml`` has no such table, or cannot be parsed.
    """
    try:
        text = content.decode("utf-8")
        # The time of tomllib grows with the square of the number of parts of a key.
        if max(map(len, text.splitlines()), default=0) > _MAX_LINE:
            raise ValueError(f"a line has more than {_MAX_LINE:,} characters")
        document = tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        if path.name == "pyproject.toml":
            return None  # the file belongs to other programs, which report the error
        is_deep = isinstance(error, RecursionError)
        reason = "it is nested too deeply" if is_deep else error
        raise click.UsageError(f"cannot read settings from {str(path)!r}: {reason}") from error
    if path.name != "pyproject.toml":
        return document
    tools = document.get("tool")
    own = tools.get("xoptim") if isinstance(tools, dict) else None
    return own if isinstance(own, dict) else None


def _options(command: click.Command) -> dict[str, click.Option]:
    """The options of a command by their long name without dashes.

    A pair such as ``--verify/--no-verify`` has its first name.
    """
    options = [parameter for parameter in command.params if isinstance(parameter, click.Option)]
    by_name = {
        next((text for text in option.opts if text.startswith("--")), "")[2:]: option
        for option in options
    }
    return {name: option for name, option in by_name.items() if name and name not in _OF_ONE_MODEL}


def _check(key: str, names: Any, name: str, command: str = "") -> None:
    if key not in names:
        lacking = f"`xopt {command}` has no" if command else "no command has an"
        raise click.UsageError(f"{name}: {lacking} option --{key}{meant(key, names)}")


def _value(option: click.Option, value: Any, path: Path, name: str, key: str) -> Any:
    """A value of a settings file in the form of the command line."""
    items = value if option.multiple and isinstance(value, list) else [value]
    if not all(_suits(option, item) for item in items):
        kind = "true or false" if option.is_flag else "a string or a number"
        raise click.UsageError(f"{name}: {key} must be {kind}, not {value!r}")
    if isinstance(value, bool):
        return value
    texts = [_text(option, item, path) for item in items]
    return texts if option.multiple else texts[0]


def _suits(option: click.Option, value: Any) -> bool:
    """Whether an option accepts values of this type; true counts one ``-v``."""
    if isinstance(value, bool):
        return option.is_flag or option.count
    return not option.is_flag and not isinstance(value, (list, dict))


def _text(option: click.Option, value: Any, path: Path) -> str:
    """A value as text.

    A relative path starts from the folder of the settings, in whatever folder the command runs.
    """
    is_file = isinstance(option.type, click.Path) and value != EXTENSIONS
    return str(path.parent / value) if is_file and isinstance(value, str) and value else str(value)


def use(context: click.Context, settings: list[Settings], command: str) -> None:
    """Set the defaults of a command from ``settings``, whose first entry is the strongest."""
    context.meta[_SETTINGS] = settings
    merged: dict[str, Any] = {}
    for layer in reversed(settings):
        merged |= layer.defaults.get(command, {})
    context.default_map = {command: merged}


def used_settings(context: click.Context) -> str | None:
    """The settings files that a command uses, for its summary; the strongest first."""
    return ", ".join(layer.name for layer in context.meta.get(_SETTINGS, ())) or None
