"""The settings files that a command uses: the file of the folder overrides the user's own file."""

from collections.abc import Sequence
from pathlib import Path
from typing import Final

import click

from xoptim import XoptimError
from xoptim.system.files import is_own
from xoptim.verification.runs.revision import Revision, root_of

from .settings import (
    Commands,
    NamedSettings,
    Settings,
    defaults_of,
    nearest_settings,
    read_content,
    read_settings,
)
from .terminal import say
from .trust import trusted

_JUDGE: Final = "check"
"""The command that judges a change of a project, whose settings may be part of the change."""


def settings_of(
    named: NamedSettings, command: str, words: Sequence[str], commands: Commands
) -> list[Settings]:
    """The settings that a command uses, the strongest first. Warns of settings that are ignored.

    A file of ``--config`` is the only one. ``words`` are the words after the name of the command.
    """
    if named.path is not None:
        return [read_settings(named.path, commands)]
    if named.is_off:
        return []
    user = user_settings(commands)
    revision = _revision(words, commands[_JUDGE], user) if command == _JUDGE else ""
    settings = _at_revision(revision, commands) if revision else folder_settings(commands)
    if settings is None or (user is not None and settings.path == user.path.resolve()):
        return [] if user is None else [user]
    if command in commands:
        settings, warnings = trusted(settings, commands[command], command)
        for warning in warnings:
            say(f"xopt: warning: {warning}", err=True)
    return [settings] if user is None else [settings, user]


def folder_settings(commands: Commands) -> Settings | None:
    """The settings of the current folder, or of the nearest folder around it."""
    nearest = nearest_settings()
    if nearest is None:
        return None
    path, table = nearest
    return Settings(path, str(path), defaults_of(table, path, str(path), commands))


def user_file() -> Path | None:
    """The user's own settings file, ``None`` when there is none.

    A path that is not a regular file of this user is ignored, with a warning.
    """
    path = Path(click.get_app_dir("xoptim")) / "xoptim.toml"
    # A relative path would name a file of the current folder, whoever wrote it.
    if not path.is_absolute() or not path.exists():
        return None
    if path.is_file() and is_own(path):
        return path
    say(f"xopt: warning: {path} is ignored: it is not a regular file of yours", err=True)
    return None


def user_settings(commands: Commands) -> Settings | None:
    """The settings of the user's own file."""
    path = user_file()
    return None if path is None else read_settings(path, commands)


def _revision(words: Sequence[str], command: click.Command, user: Settings | None) -> str:
    """The value of ``--against`` on a command line, else in the user's settings; empty for none."""
    context = click.Context(command, info_name=_JUDGE, resilient_parsing=True)
    values, _, _ = command.make_parser(context).parse_args(list(words))
    default = "" if user is None else user.defaults[_JUDGE].get("against", "")
    return str(values.get("against") or default)


def _at_revision(revision: str, commands: Commands) -> Settings | None:
    """The settings of the folder at a revision, if git tracks the folder.

    Settings in the working tree are ignored, as they are part of the change that is checked.
    """
    root = root_of(Path.cwd())
    if root is None:
        return folder_settings(commands)
    try:
        commit = Revision(root, revision)
    except XoptimError:
        return None  # the check reports the error

    def read(path: Path) -> bytes | None:
        if not path.is_relative_to(root):
            return read_content(path)
        return commit.read(path.relative_to(root).as_posix())

    nearest = nearest_settings(read)
    if nearest is None:
        return None
    path, table = nearest
    if not path.is_relative_to(root):
        return Settings(path, str(path), defaults_of(table, path, str(path), commands))
    name = f"{revision}:{path.relative_to(root).as_posix()}"
    return Settings(path, name, defaults_of(table, path, name, commands), revision)
