"""Limits of the code: lengths of files, classes and functions, parameters, prints, environment reads, forms of patterns."""

import ast
import inspect
from collections.abc import Iterator
from statistics import median

import pytest

from tests.meta.sources import Source, in_one_process, sources
from xoptim import EasyPatternOptimization, GraphBuilder, installed_patterns
from xoptim.engine.engine import Engine, Rounds
from xoptim.engine.run import Optimizer, Rewriting

pytestmark = in_one_process

FILE_LINES = 500
CLASS_LINES = 200
FUNCTION_LINES = 50
LOOP_LINES = 50
ENGINE_LINES = 150
PARAMETERS = 8
PUBLIC_METHODS = 40
PATTERN_CODE_LINES = 16
EASY_SHARE = 0.7
CODE_LINES_OF = {"TransposeTransposePattern": 12, "MatMulAddPattern": 16, "GeluPattern": 12, "FastGeluPattern": 12}
"""Patterns that show how short a pattern can be; the last two are the approximation of Gelu by Tanh."""
ENOUGH = 10
"""Number of patterns from which the limits on medians apply."""
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


def code_lines(node: ast.ClassDef, text: str) -> int:
    """Number of lines of a class that contain code, without docstrings, comments, blank lines, examples and their texts."""
    lines = text.splitlines()
    skipped: set[int] = set()
    for inner in ast.walk(node):
        is_string = isinstance(inner, ast.Expr) and isinstance(inner.value, ast.Constant) and isinstance(inner.value.value, str)
        if is_string or _is_part_of_examples(inner, node):
            skipped.update(range(inner.lineno, (inner.end_lineno or 0) + 1))  # type: ignore[attr-defined]
    assert node.end_lineno is not None
    kept = [lines[n - 1].strip() for n in range(node.lineno, node.end_lineno + 1) if n not in skipped]
    return sum(bool(line) and not line.startswith("#") for line in kept)


def _is_part_of_examples(inner: ast.AST, node: ast.ClassDef) -> bool:
    targets = [each.id for each in inner.targets if isinstance(each, ast.Name)] if isinstance(inner, ast.Assign) else []
    return inner in node.body and any(name == "examples" or name.startswith("_") for name in targets)


def test_files_are_short() -> None:
    assert not [f"{s.path}: {s.lines} lines" for s in sources() if s.lines > FILE_LINES]


def test_classes_are_short() -> None:
    long = [
        f"{source.path}: {node.name} has {length(node)} lines"
        for source in sources()
        for node in ast.walk(source.tree)
        if isinstance(node, ast.ClassDef) and length(node) > CLASS_LINES
    ]
    assert not long


def test_functions_are_short() -> None:
    long = [(s.path, f.name, length(f)) for s in sources() for f in functions(s) if length(f) > FUNCTION_LINES]
    assert not long


def test_functions_take_few_parameters() -> None:
    many = [(s.path, f.name, parameters(f)) for s in sources() for f in functions(s) if parameters(f) > PARAMETERS]
    assert not many


def test_only_the_command_line_prints() -> None:
    calls = [
        f"{source.path}:{node.lineno}"
        for source in sources()
        if source.path.split("/")[0] not in MAY_PRINT
        for node in source.nodes
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("print", "pprint")
    ]
    assert not calls


def test_the_environment_is_read_in_one_place() -> None:
    readers = {
        source.path
        for source in sources("xoptim", "patterns", "cli")
        for node in source.nodes
        if (isinstance(node, ast.Attribute) and node.attr in ("environ", "environb", "getenv"))
        or (isinstance(node, ast.ImportFrom) and node.module == "os" and any("env" in a.name for a in node.names))
    }
    setters = {"xoptim/__init__.py": "one for onnxruntime", "xoptim/system/machine.py": "one for child processes"}
    assert readers <= {ENVIRONMENT, *setters}, f"others read none, and set {' and '.join(setters.values())}"


@pytest.mark.parametrize("main", [Optimizer.run, Rewriting._run_stage, Engine.run, Engine._loop, Rounds.run])
def test_the_loop_can_be_read_at_a_glance(main: object) -> None:
    assert len(inspect.getsource(main).splitlines()) <= LOOP_LINES  # type: ignore[arg-type]


def test_the_engine_is_small() -> None:
    assert len(inspect.getsource(Engine).splitlines()) <= ENGINE_LINES


def test_the_builder_is_no_palace() -> None:
    public = [name for name, value in inspect.getmembers(GraphBuilder) if not name.startswith("_") and callable(value)]
    assert len(public) <= PUBLIC_METHODS


def _pattern_classes() -> dict[str, int]:
    """Code lines of the pattern classes of the built-in catalogue."""
    names = {cls.__name__ for cls in installed_patterns().values()}
    return {
        node.name: code_lines(node, source.text)
        for source in sources("patterns")
        for node in source.tree.body
        if isinstance(node, ast.ClassDef) and node.name in names
    }


def test_patterns_are_short() -> None:
    classes = _pattern_classes()
    if len(classes) >= ENOUGH:
        assert median(classes.values()) <= PATTERN_CODE_LINES


@pytest.mark.parametrize(("name", "most"), CODE_LINES_OF.items())
def test_patterns_that_show_how_little_it_takes(name: str, most: int) -> None:
    assert _pattern_classes()[name] <= most


def test_most_patterns_are_declarative() -> None:
    patterns = list(installed_patterns().values())
    if len(patterns) >= ENOUGH:
        assert sum(issubclass(cls, EasyPatternOptimization) for cls in patterns) >= EASY_SHARE * len(patterns)


def test_how_lines_and_parameters_are_counted() -> None:
    text = '''class A:
    """A class."""

    kind = 1

    def f(self, a, *rest, b, **more):
        """A method."""
        # why
        return a

    _text = ""
    examples = (
        _text,
    )
'''
    tree = ast.parse(text)
    node = tree.body[0]
    assert isinstance(node, ast.ClassDef)
    assert code_lines(node, text) == 4
    assert [parameters(f) for f in functions(Source("", text, tree))] == [2]
    assert length(node) == 14
