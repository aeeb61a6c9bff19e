"""The libraries of the report, which are optional."""

from importlib.util import find_spec
from typing import Final

from xoptim.facts.errors import XoptimError

_NEEDED: Final = ("igraph", "jinja2")


class MissingLibraryError(XoptimError):
    """A library of the report is not installed."""


def check_libraries() -> None:
    """Raise `MissingLibraryError` unless the libraries of the report are installed."""
    missing = [name for name in _NEEDED if find_spec(name) is None]
    if missing:
        raise MissingLibraryError(
            f'the report needs {" and ".join(missing)}: pip install "xoptim[report]"'
        )
