"""Limits of the code: lengths of files and functions, parameters, prints, environment reads."""

import ast
import inspect
from collections.abc import Iterator

from tests.meta.sources import Source, in_one_process, sources
from xoptim import EasyPatternOptimization, GraphBuilder, installed_patterns

pytestmark = in_one_process

FILE_LINES = 500
FUNCTION_LINES = 50
PARAMETERS = 8
PUBLIC_METHODS = 40
EASY_SHARE = 0.7
ENVIRONMENT = "xoptim/engine/environment.py"
MAY_PRINT = ("cli", "examples", "benchmarks")

Function = ast.FunctionDef | ast.AsyncFunctionDef


def functions(source: Source) -> Iterator[Function]:
    """All functions and methods of a file."""
    for node in source.nodes:
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield node


def parameters(function: Function) -> int:
    """Number of named parameters, ``self`` and ``cls`` not counted."""
    arguments = function.args
    named = [a.arg for a in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)]
    return len(named) - (named[:1] in (["self"], ["cls"]))


def length(node: ast.AST) -> int:
    """Number of lines, decorators not included."""
    assert isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef))
    assert node.end_lineno is not None
    return node.end_lineno - node.lineno + 1


def test_files_are_short() -> None:
    shipped = sources("xoptim", "patterns", "cli", "benchmarks")
    assert not [f"{s.path}: {s.lines} lines" for s in shipped if s.lines > FILE_LINES]


def test_functions_are_short() -> None:
    long = [
        (s.path, f.name, length(f))
        for s in sources("xoptim", "patterns", "cli", "benchmarks")
        for f in functions(s)
        if length(f) > FUNCTION_LINES
    ]
    assert not long


def test_functions_take_few_parameters() -> None:
    many = [
        (s.path, f.name, parameters(f))
        for s in sources()
        for f in functions(s)
        if parameters(f) > PARAMETERS
    ]
    assert not many


def test_only_the_command_line_prints() -> None:
    calls = [
        f"{source.path}:{node.lineno}"
        for source in sources()
        if source.path.split("/")[0] not in MAY_PRINT
        for node in source.nodes
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id in ("print", "pprint")
    ]
    assert not calls


def test_the_environment_is_read_in_one_place() -> None:
    readers = {
        source.path
        for source in sources("xoptim", "patterns", "cli")
        for node in source.nodes
        if (isinstance(node, ast.Attribute) and node.attr in ("environ", "environb", "getenv"))
        or (
            isinstance(node, ast.ImportFrom)
            and node.module == "os"
            and any("env" in a.name for a in node.names)
        )
    }
    setters = {
        "xoptim/__init__.py": "one for onnxruntime",
        "xoptim/system/machine.py": "one for child processes",
    }
    caches = "xoptim/system/cache.py"  # the folder of the user, as the system names it
    assert readers <= {
        ENVIRONMENT,
        caches,
        *setters,
    }, f"others read none, and set {' and '.join(setters.values())}"


def test_the_builder_is_no_palace() -> None:
    public = [
        name
        for name, value in inspect.getmembers(GraphBuilder)
        if not name.startswith("_") and callable(value)
    ]
    assert len(public) <= PUBLIC_METHODS


def test_most_patterns_are_declarative() -> None:
    patterns = list(installed_patterns().values())
    easy = [cls for cls in patterns if issubclass(cls, EasyPatternOptimization)]
    assert patterns
    assert len(easy) >= EASY_SHARE * len(patterns)


def test_how_lines_and_parameters_are_counted() -> None:
    text = """@cached
def f(self, a, *rest, b, **more):
    # why
    return a
"""
    tree = ast.parse(text)
    counted = [(parameters(f), length(f)) for f in functions(Source("", text, tree))]
    assert counted == [(2, 3)]
