"""Settings of the command in ``xoptim.toml``, or in the table ``tool.xoptim`` of
``pyproject.toml``.
"""

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import click
from click.core import ParameterSource

from xoptim.diagnose.explanation import meant
from xoptim.system.reading import read_file
from xoptim.verification import EXTENSIONS

_FILES: Final = ("xoptim.toml", "pyproject.toml")
_MAX_BYTES: Final = 1 << 20
_MAX_LINE: Final = 10_000
SETTINGS: Final = "xopt-settings"
"""The name under which the context of a command has the file."""
_OF_ONE_MODEL: Final = frozenset(("output", "in-place", "help"))
"""Options that make sense for one model only."""
_EXTENDS: Final = {"batch": "optimize"}
"""Commands for which the settings of another one count too."""


def place_of(error: click.ClickException) -> str:
    """The settings file that gave a bad value, as the beginning of the message.

    Empty for other errors.
    """
    if (
        not isinstance(error, click.BadParameter)
        or error.ctx is None
        or error.param is None
        or error.param.name is None
    ):
        return ""
    is_setting = error.ctx.get_parameter_source(error.param.name) is ParameterSource.DEFAULT_MAP
    return f"{error.ctx.meta[SETTINGS]}: " if is_setting else ""


def taken_from(arguments: list[str]) -> tuple[list[str], Path | None, bool]:
    """The command line without ``--config`` and ``--no-config``, the settings file to use, and
    whether it was named.

    Raises `click.UsageError` when a file is missing from ``--config``, or it does not exist.
    """
    end = arguments.index("--") if "--" in arguments else len(arguments)
    words, rest = iter(arguments[:end]), arguments[end:]
    kept: list[str] = []
    wanted: str | None = None
    is_off = False
    for word in words:
        if word == "--no-config":
            is_off = True
        elif word == "--config":
            wanted = next(words, "")
        elif word.startswith("--config="):
            wanted = word.removeprefix("--config=")
        else:
            kept.append(word)
    if wanted is None:
        return [*kept, *rest], None if is_off else settings_file(), False
    if not wanted:
        raise click.UsageError("--config needs a file")
    if not Path(wanted).exists():
        raise click.UsageError(f"--config {wanted!r}: no such file")
    return [*kept, *rest], Path(wanted), True


def settings_file() -> Path | None:
    """The file of settings in the current folder, or in the nearest one around it.

    ``None`` when there is none.
    """
    try:
        folder = Path.cwd()
    except FileNotFoundError:  # it was removed
        return None
    for place in (folder, *folder.parents):
        for name in _FILES:
            path = place / name
            if path.is_file() and _table(path) is not None:
                return path
    return None


def read_settings(path: Path, commands: Mapping[str, click.Command]) -> dict[str, dict[str, Any]]:
    """The settings of a file as defaults of the options of each command.

    A name at the top concerns all commands that have an option of this name; a table with the name
    of a command, that one, and those that extend it. Raises `click.UsageError` when a name is not
    the name of an option, or the file cannot be read.
    """
    table = _table(path)
    if table is None:
        raise click.UsageError(f"{str(path)!r} has no table [tool.xoptim]")
    options = {name: _options(command) for name, command in commands.items()}
    everywhere = {
        key: value
        for key, value in table.items()
        if not (key in commands and isinstance(value, dict))
    }
    known = {key for each in options.values() for key in each}
    for key, value in everywhere.items():
        if isinstance(value, dict) and key not in known:
            raise click.UsageError(f"{path}: there is no command {key!r}{meant(key, commands)}")
        _check(key, known, path)
    defaults: dict[str, dict[str, Any]] = {}
    for name, mine in options.items():
        own = table.get(name)
        # an option may have the name of a command: verify
        own = own if isinstance(own, dict) else {}
        for key in own:
            _check(key, mine.keys(), path, name)
        base = table.get(_EXTENDS.get(name, ""), {})
        chosen = {key: value for key, value in {**everywhere, **base, **own}.items() if key in mine}
        defaults[name] = {
            mine[key].name or key: _value(mine[key], value, path, key)
            for key, value in chosen.items()
        }
    return defaults


def _table(path: Path) -> dict[str, Any] | None:
    """The settings of a file, ``None`` when a project file has none."""
    try:
        text = read_file(path, _MAX_BYTES).decode("utf-8")
        # tomllib takes quadratic time in the parts of a key
        if max(map(len, text.splitlines()), default=0) > _MAX_LINE:
            raise ValueError(f"a line has more than {_MAX_LINE:,} characters")
        content = tomllib.loads(text)
    except (OSError, ValueError, RecursionError) as error:
        if path.name == "pyproject.toml":
            return None  # it belongs to other programs, which report it
        is_deep = isinstance(error, RecursionError)
        reason = "it is nested too deeply" if is_deep else getattr(error, "strerror", None) or error
        raise click.UsageError(f"cannot read settings from {str(path)!r}: {reason}") from error
    if path.name != "pyproject.toml":
        return content
    tools = content.get("tool")
    found = tools.get("xoptim") if isinstance(tools, dict) else None
    return found if isinstance(found, dict) else None


def _options(command: click.Command) -> dict[str, click.Option]:
    """The options of a command by their name without dashes; of a pair such as
    ``--verify/--no-verify``, the first.
    """
    options = [parameter for parameter in command.params if isinstance(parameter, click.Option)]
    found = {
        next((text for text in option.opts if text.startswith("--")), "")[2:]: option
        for option in options
    }
    return {name: option for name, option in found.items() if name and name not in _OF_ONE_MODEL}


def _check(key: str, known: Any, path: Path, command: str = "") -> None:
    if key not in known:
        lacking = f"`xopt {command}` has no" if command else "no command has an"
        raise click.UsageError(f"{path}: {lacking} option --{key}{meant(key, known)}")


def _value(option: click.Option, value: Any, path: Path, key: str) -> Any:
    """A value in the form that an option has when it is written on the command line."""
    if option.multiple:
        return [
            _text(option, each, path) for each in (value if isinstance(value, list) else [value])
        ]
    if isinstance(value, (list, dict)) or (option.is_flag and not isinstance(value, bool)):
        raise click.UsageError(
            f"{path}: {key} must be {'true or false' if option.is_flag else 'one value'}, not "
            f"{value!r}"
        )
    return value if isinstance(value, bool) else _text(option, value, path)


def _text(option: click.Option, value: Any, path: Path) -> str:
    """A value as text.

    A file is relative to the folder of the settings, wherever the command runs.
    """
    is_file = isinstance(option.type, click.Path) and value != EXTENSIONS
    return str(path.parent / value) if is_file and isinstance(value, str) and value else str(value)


def used_settings(context: click.Context) -> str | None:
    """The settings file that a command uses, for its summary."""
    path = context.meta.get(SETTINGS)
    return None if path is None else str(path)
