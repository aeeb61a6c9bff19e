"""Libraries of operators that onnxruntime loads beside its own."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Final

from xoptim.validate.errors import ChoiceError

_PACKAGES: Final = {"onnxruntime-extensions": "onnxruntime_extensions"}
"""Packages that give the path of their library by a function ``get_library_path``."""


def library_file(name: str) -> str:
    """The file of a library.

    Args:
        name: the file, or the name of a package that has one: ``onnxruntime-extensions``.

    Raises:
        ChoiceError: there is no such file or package.
    """
    module = _PACKAGES.get(name.replace("_", "-"))
    if module is not None:
        try:
            found: str = importlib.import_module(module).get_library_path()
        except ImportError as error:
            raise ChoiceError(f"the package {name} is not installed: pip install {name}") from error
        return found
    if not Path(name).is_file():
        raise ChoiceError(f"there is no library of operators {name!r}")
    return str(Path(name).resolve())
