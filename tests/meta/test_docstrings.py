"""What docstrings name exists: parameters under *Args*, attributes under *Attributes*, exceptions
under *Raises*.
"""

import ast
import builtins
import importlib
import inspect
import pkgutil
import re
import textwrap
from collections.abc import Iterator
from functools import cache
from typing import NamedTuple, TypeAlias

import pytest

from tests.meta.sources import Source, in_one_process, sources
from xoptim.integrations.mcp.arguments import OptimizeArguments

pytestmark = in_one_process

Function: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef
PRODUCT = ("xoptim", "patterns", "cli")


class Place(NamedTuple):
    """A class or function with a docstring.

    Attributes:
        source: its file.
        name: its name in the module, with the classes around it.
        node: its definition.
    """

    source: Source
    name: str
    node: ast.ClassDef | Function


def entries(docstring: str, section: str) -> list[str]:
    """The names of a section of a docstring, in order."""
    found = re.search(rf"^{section}:\n((?:[ ]+.*\n|\n)*)", docstring + "\n", re.MULTILINE)
    if found is None:
        return []
    body = textwrap.dedent(found[1])
    heads = re.findall(r"^(?=\S)((?:.|\n(?=\s))*)", body, re.MULTILINE)
    names = [
        re.sub(r"[`*]", "", name).strip()
        for head in heads
        for name in re.sub(r"\n\s+", " ", head).partition(":")[0].split(",")
    ]
    return [name for name in names if name]


def places(source: Source) -> Iterator[Place]:
    """The documented classes and functions of a file."""

    def visit(node: ast.AST, prefix: str) -> Iterator[Place]:
        for child in ast.iter_child_nodes(node):
            inner = prefix
            if isinstance(child, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                inner = f"{prefix}{child.name}."
                if ast.get_docstring(child):
                    yield Place(source, inner[:-1], child)
            yield from visit(child, inner)

    return visit(source.tree, "")


@cache
def product() -> tuple[Place, ...]:
    """All places of the product."""
    return tuple(place for source in sources(*PRODUCT) for place in places(source))


PASSED_ON = {"Tools.optimize": OptimizeArguments}
"""The classes that take all keywords of a function, by its name."""


def parameters(function: Function) -> set[str]:
    """The names of the parameters of a function."""
    arguments = function.args
    return {
        arg.arg
        for arg in (
            *arguments.posonlyargs,
            *arguments.args,
            *arguments.kwonlyargs,
            *filter(None, (arguments.vararg, arguments.kwarg)),
        )
    }


def assigned(node: ast.ClassDef) -> set[str]:
    """The attributes that a class definition sets: in its body, and of ``self`` in its methods."""
    names = set()
    for inner in ast.walk(node):
        if isinstance(inner, ast.Attribute) and isinstance(inner.ctx, ast.Store):
            if isinstance(inner.value, ast.Name) and inner.value.id in ("self", "cls"):
                names.add(inner.attr)
        elif isinstance(inner, ast.AnnAssign) and isinstance(inner.target, ast.Name):
            names.add(inner.target.id)
        elif isinstance(inner, ast.Assign):
            names |= {target.id for target in inner.targets if isinstance(target, ast.Name)}
        elif isinstance(inner, ast.FunctionDef | ast.AsyncFunctionDef):
            names.add(inner.name)
    return names


def loaded(place: Place) -> type:
    """The class of a place."""
    path = place.source.path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
    module = path if path.startswith("xoptim") else f"xoptim.{path}"
    value: object = importlib.import_module(module)
    for part in place.name.split("."):
        value = getattr(value, part)
    assert isinstance(value, type)
    return value


def attributes(place: Place) -> set[str]:
    """The attributes of a class, and of all that it inherits from."""
    assert isinstance(place.node, ast.ClassDef)
    names = assigned(place.node)
    if place.node.bases:
        for base in inspect.getmro(loaded(place))[1:]:
            names |= vars(base).keys() | inspect.get_annotations(base).keys()
            for other in product():
                if isinstance(other.node, ast.ClassDef) and other.node.name == base.__name__:
                    names |= assigned(other.node)
    return names


def constructor(place: Place) -> set[str]:
    """The parameters with which a class is called."""
    assert isinstance(place.node, ast.ClassDef)
    own = [
        node
        for node in place.node.body
        if isinstance(node, ast.FunctionDef) and node.name in ("__init__", "__new__")
    ]
    if own:
        return set().union(*map(parameters, own))
    return set(inspect.signature(loaded(place)).parameters)


@cache
def exceptions() -> frozenset[str]:
    """The names of all exceptions of Python and of the product."""
    names = {
        name
        for name, value in vars(builtins).items()
        if isinstance(value, type) and issubclass(value, BaseException)
    }
    bases = {
        place.node.name: {ast.unparse(base).rpartition(".")[2] for base in place.node.bases}
        for place in product()
        if isinstance(place.node, ast.ClassDef)
    }
    while more := {name for name, of in bases.items() if of & names} - names:
        names |= more
    return frozenset(names)


def is_exception(name: str) -> bool:
    """Whether an exception exists; one of another package has its path."""
    if "." not in name:
        return name in exceptions()
    try:
        value = pkgutil.resolve_name(name)
    except (ImportError, AttributeError, ValueError):
        return False
    return isinstance(value, type) and issubclass(value, BaseException)


def absent(place: Place) -> Iterator[str]:
    """The names of a docstring that do not exist."""
    text = ast.get_docstring(place.node) or ""
    for section in ("Args", "Attributes", "Raises"):
        names = entries(text, section)
        if not names:
            continue
        if section == "Raises":
            missing = [name for name in names if not is_exception(name)]
        else:
            if isinstance(place.node, ast.ClassDef):
                known = (attributes if section == "Attributes" else constructor)(place)
            else:
                known = parameters(place.node) if section == "Args" else set()
                if place.name in PASSED_ON:
                    known |= inspect.signature(PASSED_ON[place.name]).parameters.keys()
            missing = [name for name in names if name not in known]
        yield from (f"{place.source.path}: {place.name}: {section}: {name}" for name in missing)


def test_what_docstrings_name_exists() -> None:
    assert len(product()) > 1000
    assert [fault for place in product() for fault in absent(place)] == []


@pytest.mark.parametrize(
    ("section", "names"),
    [("Args", ["x", "y", "z"]), ("Raises", ["ValueError", "a.b.Error"]), ("Attributes", [])],
)
def test_the_names_of_a_section(section: str, names: list[str]) -> None:
    text = """One line.

    More: not a section.

    Args:
        x: what it is: so
            and on.
        y, *z: two of them,
            in a long text: on two lines.

    Raises:
        ValueError,
            a.b.Error: when
    """
    assert entries(inspect.cleandoc(text), section) == names


def test_a_name_that_does_not_exist_is_a_fault() -> None:
    text = '''
class Base:
    """A base.

    Args:
        made: of what.
        absent: nothing.

    Attributes:
        size: set by a method.
        none: by nobody.
    """

    def __init__(self, made):
        self.size = made

    def work(self, x, *more):
        """Work.

        Args:
            x, y: numbers.

        Raises:
            ValueError: always.
            NoSuchError: never.
            onnx.checker.ValidationError: often.
            onnx.checker.NoError: seldom.
        """
'''
    source = Source("a.py", text, ast.parse(text))
    faults = [fault for place in places(source) for fault in absent(place)]
    assert [fault.removeprefix("a.py: ") for fault in faults] == [
        "Base: Args: absent",
        "Base: Attributes: none",
        "Base.work: Args: y",
        "Base.work: Raises: NoSuchError",
        "Base.work: Raises: onnx.checker.NoError",
    ]
