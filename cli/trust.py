"""Which settings count in a file that was not named: git's rule after CVE-2022-24765.

A settings file is found in the current folder or around it, where another user may have put it: a
downloaded folder, ``/tmp``.
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, TypeAlias

from xoptim import UnknownPatternError, select
from xoptim.system.files import is_own

_ROOTS: Final = (".git", "pyproject.toml")
_PROMISES: Final = ("exact", "rounding")
"""The grades of patterns for which results are compared strictly."""

Defaults: TypeAlias = "Mapping[str, Mapping[str, Any]]"
"""Values of the parameters of each command."""


def distrust(path: Path) -> str:
    """The reason why a settings file is not the user's own, as a sentence; empty when it is."""
    root = project_root()
    if root is None or not path.parent.is_relative_to(root):
        return "the file is outside the current project, a folder with .git or pyproject.toml"
    return "" if is_own(path) else "the file belongs to another user"


def project_root() -> Path | None:
    """The nearest folder around the current one with ``.git``, else the nearest one with
    ``pyproject.toml``.
    """
    folder = Path.cwd()
    places = (
        place for name in _ROOTS for place in (folder, *folder.parents) if (place / name).exists()
    )
    return next(places, None)


def without_guarded(defaults: Defaults) -> tuple[dict[str, dict[str, Any]], dict[str, list[str]]]:
    """The settings without those that need trust, and the names of these, by command."""
    ignored = {
        command: [
            name for name, value in values.items() if name in GUARDED and GUARDED[name](value)
        ]
        for command, values in defaults.items()
    }
    kept = {
        command: {name: value for name, value in values.items() if name not in ignored[command]}
        for command, values in defaults.items()
    }
    return kept, ignored


def _always(_: Any) -> bool:
    return True


def _is_on(value: Any) -> bool:
    return value is not False


def _is_off(value: Any) -> bool:
    return value is not True


def _loosens(value: Any) -> bool:
    """Whether words select patterns after which results are compared less strictly."""
    try:
        chosen = select("+".join(value) if isinstance(value, list) else value)
    except UnknownPatternError:
        return False  # the option reports it
    return any(rewrite.exactness not in _PROMISES for rewrite in chosen)


GUARDED: Final[Mapping[str, Callable[[Any], bool]]] = {
    # They run code, or are a file to write.
    **dict.fromkeys(
        ("custom_op_lib", "rewrite", "scheduler", "report", "html", "against_torch"), _always
    ),
    # They compare less, or less strictly.
    "verify": _is_off,
    **dict.fromkeys(("assume_from_model", "fewer_inputs", "tf32"), _is_on),
    **dict.fromkeys(("patterns", "include"), _loosens),
    **dict.fromkeys(("assume", "atol", "rtol", "ulp", "metric", "precision", "tolerance"), _always),
    **dict.fromkeys(
        ("dims", "drop_output", "feeds", "test_data", "run_limit", "verify_budget"), _always
    ),
    **dict.fromkeys(("against", "genai", "max_shrink"), _always),
}
"""Whether the value of a parameter needs trust; for parameters with some values that do."""
