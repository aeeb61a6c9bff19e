"""A graph is changed only by its verbs, a rewrite is made only by an edit, and only the edit undoes
changes.
"""

import ast
import re
from collections.abc import Iterator

import pytest

from tests.meta.sources import Source, in_one_process, sources

pytestmark = in_one_process

TABLES = ("definitions", "facts", "references")
"""The tables of a graph."""
TABLE_OWNERS = ("xoptim/graph/graph.py", "xoptim/graph/references.py", "xoptim/graph/edit.py")
"""Files that may access the tables of a graph; others call its verbs."""
NODE_OWNERS = ("xoptim/graph/", "xoptim/match/easy.py")
"""Files that set operands and results of nodes: the verbs, and code for nodes that are not in a
graph yet.
"""
TRANSACTION = "xoptim/graph/edit.py"
UNDOING = re.compile(r"undo|roll_?back|restore|revert|put_back|take_back|forget")


def tables_touched(source: Source) -> Iterator[str]:
    """The places that name a table of a graph."""
    for node in source.nodes:
        if isinstance(node, ast.Attribute) and node.attr in TABLES and not _is_call_of_text(node):
            yield f"{source.path}:{node.lineno} .{node.attr}"


def _is_call_of_text(node: ast.Attribute) -> bool:
    """Whether the attribute is that of a call in a rule written in text: the names to which it
    refers.
    """
    return (
        node.attr == "references" and isinstance(node.value, ast.Name) and node.value.id == "call"
    )


def node_fields_set(source: Source) -> Iterator[str]:
    """The places that assign operands or results."""
    for node in source.nodes:
        if (
            isinstance(node, ast.Attribute)
            and isinstance(node.ctx, ast.Store)
            and node.attr in ("input", "output")
        ):
            yield f"{source.path}:{node.lineno} .{node.attr} = ..."


def undos(source: Source) -> Iterator[str]:
    """Functions whose names suggest an undo, and handlers that catch every exception, which only an
    undo needs.
    """
    for node in source.nodes:
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and UNDOING.search(node.name):
            yield f"{source.path}:{node.lineno} {node.name}"
        if isinstance(node, ast.ExceptHandler) and (
            node.type is None or ast.unparse(node.type) == "BaseException"
        ):
            yield (
                f"{source.path}:{node.lineno} except {'' if node.type is None else 'BaseException'}"
            )


def test_tables_are_private_to_the_graph() -> None:
    everywhere = sources("xoptim", "patterns", "cli")
    touched = {source.path: list(tables_touched(source)) for source in everywhere}
    assert not [found for path in touched if path not in TABLE_OWNERS for found in touched[path]]
    assert all(touched[path] for path in TABLE_OWNERS), "an owner that does not need its right"


def test_nodes_in_a_graph_change_by_its_verbs() -> None:
    others = [
        source
        for source in sources("xoptim", "patterns", "cli")
        if not source.path.startswith(NODE_OWNERS)
    ]
    assert not [found for source in others for found in node_fields_set(source)]


def test_only_the_transaction_undoes_anything() -> None:
    rooms = ("xoptim/graph/", "xoptim/match/", "xoptim/engine/", "patterns/")
    changing = [source for source in sources("xoptim", "patterns") if source.path.startswith(rooms)]
    found = {place.partition(":")[0] for source in changing for place in undos(source)}
    assert found == {TRANSACTION, "xoptim/graph/atomic_write.py"}, "the second one writes files"


@pytest.mark.parametrize(
    ("text", "check", "count"),
    [
        ("graph.facts.learn(name, info)", tables_touched, 1),
        ("body.references.outer = None", tables_touched, 1),
        ("learn = graph.learn", tables_touched, 0),
        ("call.references", tables_touched, 0),
        ("node.input = (a, b)", node_fields_set, 1),
        ("node.input, node.output = a, b", node_fields_set, 2),
        ("x = node.input", node_fields_set, 0),
        ("def _undo(): pass", undos, 1),
        ("try:\n    f()\nexcept BaseException:\n    g()", undos, 1),
        ("try:\n    f()\nexcept ValueError:\n    g()", undos, 0),
    ],
)
def test_such_places_are_found(text: str, check: object, count: int) -> None:
    assert callable(check)
    assert len(list(check(Source("a.py", "", ast.parse(text))))) == count
