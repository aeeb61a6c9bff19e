"""Every package that a module imports is a dependency, or belongs to an extra."""

import ast
import re
import sys
import tomllib
from collections.abc import Iterator

from tests.meta.sources import ROOT

DISTRIBUTIONS = {
    "dask": "distributed",
    "google": "protobuf",
    "huggingface_hub": "huggingface-hub",
    "ml_dtypes": "ml-dtypes",
    "model_explorer": "ai-edge-model-explorer",
    "onnx_ir": "onnx-ir",
}
"""Distributions by the package that they install, where the names differ."""
HOSTS = {"_typeshed", "dacite", "olive"}
"""Packages of type checkers, and of programs that load xoptim as their plug-in."""
_LAZY = ("import_module", "lazy_module")


def imported(source: str) -> Iterator[str]:
    """The modules that a module imports, also when it is asked for them."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and not node.level:
            yield node.module or ""
        elif isinstance(node, ast.Call) and getattr(node.func, "id", "") in _LAZY:
            words = (word.value for word in node.args if isinstance(word, ast.Constant))
            yield from (word for word in words if isinstance(word, str))


def packages() -> set[str]:
    """The packages of others that xoptim imports."""
    names: set[str] = set()
    for folder in ("xoptim", "cli", "patterns"):
        for path in (ROOT / folder).rglob("*.py"):
            modules = imported(path.read_text(encoding="utf-8"))
            names |= {module.partition(".")[0] for module in modules}
    return names - sys.stdlib_module_names - {"xoptim", ""}


def test_every_import_is_declared() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    own = [words for name, words in extras.items() if name not in ("test", "site")]
    declared = {
        re.split(r"[<>=\[; ]", text)[0]
        for words in (project["dependencies"], *own)
        for text in words
    }
    wanted = {DISTRIBUTIONS.get(name, name) for name in packages() - HOSTS}
    assert {"onnx", "numpy", "protobuf"} <= wanted
    assert wanted <= declared
