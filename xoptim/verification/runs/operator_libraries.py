"""Libraries of custom operators, which onnxruntime loads from files."""

from __future__ import annotations

import importlib
from functools import cache
from pathlib import Path
from typing import Final

from xoptim.facts.lazy import lazy_module
from xoptim.verification.errors import ChoiceError

ort = lazy_module("onnxruntime")
EXTENSIONS: Final = "onnxruntime-extensions"
_PACKAGES: Final = {EXTENSIONS: "onnxruntime_extensions"}
"""Packages that give the path of their library by a function ``get_library_path``."""


def library_file(name: str) -> str:
    """The file of a library, by its path or by the package ``onnxruntime-extensions``.

    Raises `ChoiceError` when there is no such file or package, or onnxruntime cannot load it.
    """
    module = _PACKAGES.get(name.replace("_", "-"))
    if module is not None:
        try:
            path: str = importlib.import_module(module).get_library_path()
        except ImportError as error:
            raise ChoiceError(f"the package {name} is not installed: pip install {name}") from error
        return path
    if not Path(name).is_file():
        raise ChoiceError(f"there is no custom operator library {name!r}")
    file = str(Path(name).resolve())
    reason = _objection(file)
    if reason:
        raise ChoiceError(f"onnxruntime cannot load the custom operator library {name!r}: {reason}")
    return file


@cache
def _objection(file: str) -> str:
    """The reason why onnxruntime cannot load a library; empty when it can."""
    try:
        ort.SessionOptions().register_custom_ops_library(file)
    except Exception as error:  # onnxruntime has no common base class
        return " ".join(str(error).rpartition(f"{file}: ")[2].split())
    return ""
