"""Each integration is a folder of its own, and stands on the public API."""

import ast
from collections.abc import Iterator

import pytest

from tests.meta.sources import ROOT, Source, sources
from tests.meta.test_floors import imports

FOLDERS = ("genai", "mcp", "model_explorer", "olive", "onnx_ir", "torch")
EXEMPT = "torch"
"""Compares inside of models, with the internals of verification."""
API = ("xoptim", "xoptim.reporting", "xoptim.targets", "xoptim.verification")
"""Packages whose names integrations import; and `xoptim.api`, facts and the operating system."""
PARTS = ("xoptim.api.", "xoptim.facts.", "xoptim.system.", "xoptim.integrations.stand_ins")


def folder_of(path: str) -> str:
    """The integration that a file belongs to."""
    return path.removeprefix("xoptim/integrations/").partition("/")[0]


def private(source: Source) -> Iterator[str]:
    """Imports of an integration that are neither its own nor public."""
    own = f"xoptim.integrations.{folder_of(source.path)}"
    for line, module in imports(source):
        is_public = module in API or module.startswith(PARTS)
        if module.split(".")[0] == "xoptim" and not is_public and not module.startswith(own):
            yield f"{source.path}:{line} imports {module}"


def integrations() -> list[Source]:
    """The files of the integrations that stand on the public API."""
    files = [s for s in sources("xoptim") if s.path.startswith("xoptim/integrations/")]
    return [source for source in files if folder_of(source.path) != EXEMPT]


def test_each_integration_is_a_folder() -> None:
    packages = (ROOT / "xoptim" / "integrations").glob("*/__init__.py")
    assert {path.parent.name for path in packages} == {*FOLDERS}
    modules = {folder_of(source.path) for source in integrations()} - {*FOLDERS}
    assert modules == {"__init__.py", "onnxsim.py", "onnxslim.py", "stand_ins.py"}


def test_integrations_use_the_public_api() -> None:
    assert not [wrong for source in integrations() for wrong in private(source)]


@pytest.mark.parametrize(
    ("module", "count"),
    [
        ("xoptim.graph.load", 1),
        ("xoptim.verification.judging.report", 1),
        ("xoptim.integrations.genai", 1),
        ("xoptim.integrations.mcp.files", 0),
        ("xoptim.api.preparing", 0),
        ("xoptim", 0),
    ],
)
def test_imports_of_private_modules_are_found(module: str, count: int) -> None:
    text = f"from {module} import name"
    source = Source("xoptim/integrations/mcp/a.py", text, ast.parse(text))
    assert len(list(private(source))) == count
