"""Other ways to write patterns stand on public names, and nothing stands on them."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import onnx
import pytest

from tests.meta.sources import Source, sources
from tests.meta.test_floors import imports
from tests.support import parse

PUBLIC = (
    "xoptim.match",
    "xoptim.match.extending",
    "xoptim.catalogue.extending",
    "xoptim.operators",
)
"""What a pack may import that adds another way to write patterns; and `xoptim.facts`."""
USERS = ("xoptim/__init__.py", "xoptim/api/rules.py", "xoptim/facts/public_names.py")
"""Where public names come from the dialects: the first and the last only name them."""


def private(source: Source) -> Iterator[str]:
    """Imports of a dialect that are not public."""
    for line, module in imports(source):
        is_public = module in PUBLIC or module.startswith(("xoptim.facts.", "xoptim.dialects"))
        if module.split(".")[0] == "xoptim" and not is_public:
            yield f"{source.path}:{line} imports {module}"


def test_dialects_use_public_names() -> None:
    dialects = [s for s in sources("xoptim") if s.path.startswith("xoptim/dialects/")]
    assert len(dialects) > 5
    assert not [wrong for source in dialects for wrong in private(source)]


@pytest.mark.parametrize(
    ("module", "count"), [("xoptim.match.easy", 1), ("xoptim.match", 0), ("xoptim.graph.node", 1)]
)
def test_imports_of_private_modules_are_found(module: str, count: int) -> None:
    text = f"from {module} import name"
    assert len(list(private(Source("xoptim/dialects/a.py", text, ast.parse(text))))) == count


def test_only_public_names_come_from_dialects() -> None:
    users = {
        source.path
        for source in sources("xoptim", "patterns", "cli")
        if not source.path.startswith("xoptim/dialects/")
        for _, module in imports(source)
        if module.startswith("xoptim.dialects")
    }
    assert users <= {*USERS}


WITHOUT = """
import pkgutil, sys
from importlib import import_module
import xoptim
sys.modules["xoptim.dialects"] = None
libraries = ("olive", "model_explorer", "__main__")
for module in pkgutil.walk_packages(xoptim.__path__, "xoptim.", onerror=lambda _: None):
    is_part = module.name.startswith(("xoptim.dialects", "xoptim.api.rules"))
    if not is_part and not any(name in module.name for name in libraries):
        import_module(module.name)
from xoptim.cli.main import run
sys.exit(run(sys.argv[1:]))
"""
"""Imports everything else, and runs a command line."""


@pytest.mark.slow
def test_nothing_else_needs_dialects(tmp_path: Path) -> None:
    model = tmp_path / "model.onnx"
    onnx.save(parse("agraph (float[2] x) => (float[2] y) { t = Neg(x) y = Neg(t) }"), model)
    words = [sys.executable, "-c", WITHOUT, str(model), "--json", "--no-config"]
    end = subprocess.run(words, capture_output=True, text=True, check=False)
    assert (end.returncode, end.stderr) == (0, "")
    assert (tmp_path / "model.opt.onnx").exists()
