"""Imports go down only: a room imports rooms below it, and none above."""

import ast
import re
from collections.abc import Iterable, Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

from tests.meta.sources import Source, in_one_process, sources

pytestmark = in_one_process

FLOORS = {
    "system": 0,
    "facts": 0,
    "operators": 1,
    "graph": 3,
    "match": 4,
    "preparation": 4,
    "passes": 5,
    "catalogue": 6,
    "dialects": 7,
    "engine": 7,
    "proof": 8,
    "verification": 8,
    "bench": 9,
    "diagnose": 9,
    "reporting": 9,
    "targets": 9,
    "api": 10,
    "batching": 10,
    "builder": 10,
    "doc": 10,
    "integrations": 10,
    "optimizing": 10,
    "precision": 10,
    "tuning": 10,
    "__init__": 10,
    "workflow": 10,
    "testing": 11,
    "scaffold": 11,
    "__main__": 12,
}
"""The floors of `docs/how-it-works.md`.

``testing`` and ``scaffold`` stand next to the public modules and may import them.
"""
OPTIONAL = ("torch", "onnxscript", "dask", "pandas", "jinja2", "igraph")
"""Third-party packages that functions import when they need them."""


def imports(source: Source) -> Iterator[tuple[int, str]]:
    """Line and full name of every module that a file imports, inside functions too.

    Relative ones start with a dot.
    """
    for node in source.nodes:
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            module = "." * node.level + (node.module or "")
            if module == "xoptim":  # from xoptim import facts
                yield from (
                    (node.lineno, f"xoptim.{a.name}" if a.name in FLOORS else module)
                    for a in node.names
                )
            else:
                yield node.lineno, module


def package_of(module: str) -> str:
    """The room of a module of the engine."""
    parts = module.split(".")
    return parts[1] if len(parts) > 1 else "__init__"


def test_every_room_has_a_floor() -> None:
    assert {source.package.partition(".")[2] for source in sources("xoptim")} == set(FLOORS)


def test_rooms_see_only_what_is_below() -> None:
    climbing = [
        f"{source.path}:{line} imports {module}"
        for source in sources("xoptim")
        for line, module in imports(source)
        if module.split(".")[0] == "xoptim"
        and _climbs(package_of(source.package), package_of(module))
    ]
    assert not climbing


def _climbs(here: str, there: str) -> bool:
    if here == there or (here, there) == ("__main__", "cli"):  # python -m xoptim is the command
        return False
    floor = FLOORS.get(there)  # the engine must not import the catalogue or the command line
    return floor is None or floor > FLOORS[here] or there == "testing"


def uses(everywhere: Iterable[Source]) -> dict[str, set[str]]:
    """The rooms and modules that each room or module of the engine imports."""
    found: dict[str, set[str]] = {}
    for source in everywhere:
        here = package_of(source.package)
        there = {
            package_of(module) for _, module in imports(source) if module.split(".")[0] == "xoptim"
        }
        found.setdefault(here, set()).update(there - {here})
    return found


def test_no_circle_of_rooms() -> None:
    """Floors exclude cycles between floors.

    Rooms on one floor must not import each other either.
    """
    found = uses(sources("xoptim"))
    assert {"engine", "optimizing"} <= found["api"]
    TopologicalSorter(found).prepare()


def test_circles_are_found() -> None:
    texts = {
        "xoptim/testing/a.py": "import xoptim.scaffold.b",
        "xoptim/scaffold/b.py": "from xoptim.testing import a",
    }
    made = uses(Source(path, text, ast.parse(text)) for path, text in texts.items())
    with pytest.raises(CycleError):
        TopologicalSorter(made).prepare()


VERIFICATION = ("errors", "runs", "options", "inputs", "judging", "verify", "functions")
"""The folders and modules of the verification: each imports only those before it."""


def upward(source: Source) -> Iterator[str]:
    """Imports of a file of the verification from a part that comes after its own."""
    here = _part(source.path.removesuffix(".py").replace("/", "."))
    for line, module in imports(source):
        there = _part(module)
        if here and there and VERIFICATION.index(there) > VERIFICATION.index(here):
            yield f"{source.path}:{line} imports {module}"


def _part(module: str) -> str:
    """The folder or module of the verification that has a module; empty for others."""
    parts = module.split(".")
    return parts[2] if parts[:2] == ["xoptim", "verification"] and len(parts) > 2 else ""


def test_parts_of_the_verification_import_one_way() -> None:
    files = [s for s in sources("xoptim") if s.path.startswith("xoptim/verification/")]
    parts = {_part(s.path.removesuffix(".py").replace("/", ".")) for s in files}
    assert parts == {*VERIFICATION, "__init__"}
    rooms = [s for s in files if not s.path.endswith("/__init__.py")]
    assert not [wrong for source in rooms for wrong in upward(source)]


@pytest.mark.parametrize(
    ("path", "module", "count"),
    [
        ("xoptim/verification/runs/session.py", "xoptim.verification.inputs.dims", 1),
        ("xoptim/verification/inputs/dims.py", "xoptim.verification.judging.compare", 1),
        ("xoptim/verification/inputs/dims.py", "xoptim.verification.options", 0),
        ("xoptim/verification/verify.py", "xoptim.verification.judging.judge", 0),
        ("xoptim/bench/rounds.py", "xoptim.verification.verify", 0),
    ],
)
def test_imports_upward_are_found(path: str, module: str, count: int) -> None:
    text = f"from {module} import name"
    assert len(list(upward(Source(path, text, ast.parse(text))))) == count


def test_rooms_name_each_other_absolutely() -> None:
    assert not [
        f"{s.path}:{line}"
        for s in sources("xoptim")
        for line, module in imports(s)
        if module.startswith(".")
    ]


def test_nothing_needs_the_testing_room() -> None:
    users = [
        s.path
        for s in sources("xoptim", "patterns", "cli")
        for _, m in imports(s)
        if package_of(m) == "testing"
    ]
    assert all(path.startswith("xoptim/testing/") for path in users)


FOR_PATTERNS = ("match", "operators", "facts")
"""The rooms that patterns may import; the view of the graph offers everything else."""


def misplaced(source: Source) -> Iterator[str]:
    """Imports that a pattern must not have."""
    for line, module in imports(source):
        if module.split(".")[0] == "xoptim" and package_of(module) not in FOR_PATTERNS:
            yield f"{source.path}:{line} imports {module}"
        if module.split(".")[0] == "patterns" or (
            module.startswith("..") and not re.fullmatch(r"\.\._[a-z]+", module)
        ):
            yield (
                f"{source.path}:{line} imports {module}: not a sibling, nor a helper that families "
                "share"
            )


def test_patterns_use_matching_operators_facts_and_each_other() -> None:
    assert not [wrong for source in sources("patterns") for wrong in misplaced(source)]


def test_patterns_import_the_view_at_all() -> None:
    """Otherwise the test above would check no imports."""
    users = [
        s.path for s in sources("patterns") for _, module in imports(s) if module == "xoptim.match"
    ]
    assert len(set(users)) > 100


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("from xoptim.graph.node import Node", 1),
        ("import xoptim.passes.fold", 1),
        ("from xoptim import passes", 1),
        ("from xoptim import Graph", 1),
        ("def f():\n    from xoptim.graph.constants import evaluate", 1),
        ("from patterns.shapes import relu", 1),
        ("from ..shapes.relu import Relu", 1),
        (
            (
                "from xoptim.match import Node\n"
                "from xoptim.facts.dims import Dim\n"
                "from xoptim.operators.registry import Trait\n"
                "from .._nodes import is_op\n"
                "from ._a import b"
            ),
            0,
        ),
    ],
)
def test_imports_that_a_pattern_must_not_have_are_found(text: str, count: int) -> None:
    assert len(list(misplaced(Source("patterns/a.py", text, ast.parse(text))))) == count


def test_reports_start_no_optimization() -> None:
    starting = [
        f"{source.path}:{line} imports {module}"
        for source in sources("xoptim")
        if source.path.startswith("xoptim/reporting/") or source.path.endswith("/report.py")
        for line, module in imports(source)
        if module in ("xoptim.engine.run", "xoptim.engine.engine")
        or package_of(module) == "optimizing"
    ]
    assert not starting


def test_helpers_of_patterns_stand_next_to_those_that_use_them() -> None:
    """A helper that only one family uses is in the folder of the family."""
    users: dict[str, set[str]] = {}
    for source in sources("patterns"):
        for _, module in imports(source):
            if module.startswith("..") or (module.startswith(".") and source.path.count("/") == 1):
                users.setdefault(module.lstrip("."), set()).add(source.path.rpartition("/")[0])
    shared = {Path(s.path).stem for s in sources("patterns") if s.path.count("/") == 1} - {
        "__init__"
    }
    assert {name for name in shared if len(users.get(name, ())) < 2} == set()


def test_command_line_uses_the_public_api_and_the_verification() -> None:
    allowed = {
        "__init__",
        "builder",
        "doc",
        "optimizing",
        "precision",
        "api",
        "integrations",
        "verification",
        "batching",
        "bench",
        "diagnose",
        "proof",
        "reporting",
        "tuning",
        "scaffold",
        "system",
        "workflow",
        "targets",
        "cli",
    }
    wrong = [
        f"{source.path}:{line} imports {module}"
        for source in sources("cli")
        for line, module in imports(source)
        if (module.split(".")[0] == "xoptim" and package_of(module) not in allowed)
        or module.split(".")[0] == "cli"
    ]
    assert not wrong


def test_imports_inside_functions_are_of_optional_packages() -> None:
    inner = [
        f"{source.path}:{line} imports {module}"
        for source in sources("xoptim", "patterns", "cli")
        for function in source.nodes
        if isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef))
        for line, module in imports(Source(source.path, "", ast.Module(function.body, [])))
        if module.split(".")[0] not in OPTIONAL
    ]
    assert not inner


@pytest.mark.parametrize(
    ("here", "there", "climbs"),
    [
        ("match", "graph", False),
        ("graph", "match", True),
        ("facts", "facts", False),
        ("builder", "testing", True),
        ("testing", "builder", False),
        ("match", "patterns", True),
        ("engine", "__init__", True),
    ],
)
def test_what_climbing_means(here: str, there: str, climbs: bool) -> None:
    assert _climbs(here, there) is climbs


def test_imports_are_found_everywhere() -> None:
    text = (
        "from xoptim import match, Node\n"
        "def f():\n"
        "    from .a import b\n"
        "    import xoptim.graph.node\n"
    )
    found = sorted(imports(Source("", text, ast.parse(text))))
    assert found == [(1, "xoptim"), (1, "xoptim.match"), (3, ".a"), (4, "xoptim.graph.node")]
