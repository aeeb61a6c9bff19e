"""The settings that take effect in a settings file that the command line does not name.

Such a file is found in the current folder or a parent folder. Somebody else may have written the
file, even if it belongs to the user. Files come with archives and clones, or another user puts one
into ``/tmp``. A setting that loads code or writes a file never takes effect in such a file. A
setting that weakens the verification takes effect in the user's project only, and is shown with the
result.
"""

import shlex
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import click
from onnx import TensorProto

from xoptim import UnknownPatternError, select
from xoptim.system.files import is_own
from xoptim.verification import ComparisonRules

from .options import percentage
from .settings import Settings

_ROOTS: Final = (".git", "pyproject.toml")
_PROMISES: Final = ("exact", "rounding")
"""The grades of exactness for which results are compared exactly, or within rounding."""
_DEFAULTS: Final = ComparisonRules().tolerance(TensorProto.FLOAT)
_MAX_CHARACTERS: Final = 200
"""Maximum number of characters of an option that a warning repeats with its value."""

_LOADS: Final = "it loads code"
NEVER: Final[Mapping[str, str]] = {
    **dict.fromkeys(("custom_op_lib", "rewrite", "against_torch", "scheduler"), _LOADS),
    **dict.fromkeys(("report", "html", "pack", "certificate", "into"), "it writes files"),
    "against": "it decides which changes are noticed",
}
"""Parameters that a file cannot set if the command line does not name it, with the reasons."""
_JUDGED: Final[Mapping[str, str]] = dict.fromkeys(
    ("feeds", "test_data"), "the change that is checked may have replaced it"
)
"""Further such parameters, if the settings are read from a revision to check a change."""


def trusted(settings: Settings, command: click.Command, name: str) -> tuple[Settings, list[str]]:
    """The trusted settings of a file, and warnings about its other settings of the command."""
    never = {**NEVER, **(_JUDGED if settings.revision else {})}
    doubt = "" if settings.revision else distrust(settings.path)
    trusted_values = {
        owner: {
            key: value
            for key, value in values.items()
            if not _is_never(key, value, never) and not (doubt and _needs_trust(key, value))
        }
        for owner, values in settings.defaults.items()
    }
    defaults = settings.defaults.get(name, {})
    ignored = {
        param.name: param
        for param in command.params
        if param.name in defaults and param.name not in trusted_values[name]
    }
    warnings = [
        f"{settings.short_name}: {_word(param)[2:]} is ignored, since "
        f"{never.get(key, _LOADS)}; type {_typed(param, defaults[key])} if you trust it"
        for key, param in ignored.items()
        if _is_never(key, defaults[key], never)
    ]
    doubtful = [
        _word(param)[2:]
        for key, param in ignored.items()
        if not _is_never(key, defaults[key], never)
    ]
    if doubtful:
        listed = f"{', '.join(doubtful)} {'is' if len(doubtful) == 1 else 'are'} ignored"
        warnings.append(
            f"{settings.short_name}: {listed}: {doubt}; --config {settings.path} uses it"
        )
    return replace(settings, defaults=trusted_values), warnings


def _is_never(name: str, value: Any, never: Mapping[str, str]) -> bool:
    """Whether a value of a parameter never counts. A metric with ``:`` is a function: code."""
    return name in never or (name == "metric" and ":" in str(value))


def distrust(path: Path) -> str:
    """The reason why a settings file does not belong to the user's project, as a sentence.

    Empty for a file of the project.
    """
    root = project_root()
    if root is None or not path.parent.is_relative_to(root):
        return "the file is outside the current project, a folder with .git or pyproject.toml"
    return "" if is_own(path) else "the file belongs to another user"


def project_root() -> Path | None:
    """The nearest folder with ``.git``, from the current folder upwards.

    Without such a folder, the nearest folder with ``pyproject.toml``.
    """
    folder = Path.cwd()
    places = (
        place for name in _ROOTS for place in (folder, *folder.parents) if (place / name).exists()
    )
    return next(places, None)


def loosened(name: str, value: Any) -> bool:
    """Whether a value of a parameter makes a comparison of models weaker."""
    return name in _LOOSENING and _LOOSENING[name](value)


def _needs_trust(name: str, value: Any) -> bool:
    return loosened(name, value) or (name in _ACCEPTING and _ACCEPTING[name](value))


def _word(param: click.Parameter) -> str:
    """The option of a parameter, such as ``--dim``."""
    return next(text for text in param.opts if text.startswith("--"))


def _typed(param: click.Parameter, value: Any) -> str:
    """The words of a command line that set an option, quoted for a shell."""
    values = map(str, value if isinstance(value, list) else [value])
    if isinstance(param.type, click.Path):
        values = map(_from_here, values)
    text = " ".join(f"{_word(param)} {shlex.quote(word)}" for word in values)
    return text if len(text) <= _MAX_CHARACTERS else f"{_word(param)} with its value"


def _from_here(path: str) -> str:
    """A path, relative to the current folder if it is inside."""
    folder = Path.cwd()
    return str(Path(path).relative_to(folder)) if Path(path).is_relative_to(folder) else path


def _always(_: Any) -> bool:
    return True


def _is_on(value: Any) -> bool:
    return value is not False


def _is_off(value: Any) -> bool:
    return value is not True


def _is_above(limit: float) -> Callable[[Any], bool]:
    """A function that says whether a value is above ``limit``, or is not a number."""

    def check(value: Any) -> bool:
        try:
            return not float(value) <= limit
        except ValueError:
            return True

    return check


def _is_loose_tolerance(value: Any) -> bool:
    """Whether an error above the default is allowed, for all outputs or for one."""
    texts = value if isinstance(value, (list, tuple)) else [value]
    try:
        return any(percentage(str(text).rpartition("=")[2]) > 1 for text in texts)
    except click.BadParameter:
        return True  # the option reports the bad value


def _selects_loosely(value: Any) -> bool:
    """Whether words select patterns after which results are compared less strictly."""
    try:
        rewrites = select("+".join(value) if isinstance(value, list) else value)
    except UnknownPatternError:
        return False  # the option reports the unknown word
    return any(rewrite.exactness not in _PROMISES for rewrite in rewrites)


_LOOSENING: Final[Mapping[str, Callable[[Any], bool]]] = {
    "verify": _is_off,
    **dict.fromkeys(("fewer_inputs", "tf32"), _is_on),
    "rtol": _is_above(_DEFAULTS.rtol),
    "atol": _is_above(_DEFAULTS.atol),
    "tolerance": _is_loose_tolerance,
    **dict.fromkeys(("ulp", "metric", "drop_output", "run_limit", "verify_budget"), _always),
    **dict.fromkeys(("dims", "feeds", "test_data"), _always),
}
"""Functions that say whether the value of a parameter makes a comparison weaker.

The summary shows such values.
"""
_ACCEPTING: Final[Mapping[str, Callable[[Any], bool]]] = {
    **dict.fromkeys(
        ("assume", "precision", "genai", "max_shrink", "max_larger", "max_slower"), _always
    ),
    "assume_from_model": _is_on,
    **dict.fromkeys(("patterns", "include"), _selects_loosely),
}
"""Functions that say whether the value of a parameter accepts results that the default refuses.

The summary shows the effect of such values.
"""
