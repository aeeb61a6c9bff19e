"""A graph is changed only by its verbs, a rewrite is made only by an edit, and only the edit undoes changes."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

import pytest

from tests.meta.sources import Source, in_one_process, sources

pytestmark = in_one_process

TABLE_OWNERS = ("xoptim/graph/graph.py",)
"""Files that may access the table of facts of a graph; others call its verbs."""
NODE_OWNERS = ("xoptim/graph/", "xoptim/match/easy.py")
"""Files that set operands and results of nodes: the verbs, and code for nodes that are not in a graph yet."""
TRANSACTION = "xoptim/graph/edit.py"
UNDOING = re.compile(r"undo|roll_?back|restore|revert|put_back|take_back|forget")


def facts_touched(source: Source) -> Iterator[str]:
    """The places that name the table of facts."""
    for node in source.nodes:
        if isinstance(node, ast.Attribute) and node.attr in ("_facts", "infos", "computed_constants") and not _is_own(node):
            yield f"{source.path}:{node.lineno} .{node.attr}"


def _is_own(node: ast.Attribute) -> bool:
    """Whether an attribute of that name belongs to an object other than a graph."""
    return node.attr == "infos" and isinstance(node.value, ast.Name) and node.value.id in ("self", "invariant")


def node_fields_set(source: Source) -> Iterator[str]:
    """The places that assign operands or results."""
    for node in source.nodes:
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store) and node.attr in ("input", "output"):
            yield f"{source.path}:{node.lineno} .{node.attr} = ..."


def undos(source: Source) -> Iterator[str]:
    """Functions whose names suggest an undo, and handlers that catch every exception, which only an undo needs."""
    for node in source.nodes:
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and UNDOING.search(node.name):
            yield f"{source.path}:{node.lineno} {node.name}"
        if isinstance(node, ast.ExceptHandler) and (node.type is None or ast.unparse(node.type) == "BaseException"):
            yield f"{source.path}:{node.lineno} except {'' if node.type is None else 'BaseException'}"


def test_facts_are_private_to_the_graph() -> None:
    everywhere = sources("xoptim", "patterns", "cli")
    assert not [found for source in everywhere if source.path not in TABLE_OWNERS for found in facts_touched(source)]


def test_nodes_in_a_graph_change_by_its_verbs() -> None:
    others = [source for source in sources("xoptim", "patterns", "cli") if not source.path.startswith(NODE_OWNERS)]
    assert not [found for source in others for found in node_fields_set(source)]


def test_only_the_transaction_undoes_anything() -> None:
    rooms = ("xoptim/graph/", "xoptim/match/", "xoptim/optimize/", "patterns/")
    changing = [source for source in sources("xoptim", "patterns") if source.path.startswith(rooms)]
    found = {place.partition(":")[0] for source in changing for place in undos(source)}
    assert found == {TRANSACTION, "xoptim/graph/save.py"}, "the second one writes files"


@pytest.mark.parametrize(
    ("text", "check", "count"),
    [
        ("graph.infos[name] = 1", facts_touched, 1),
        ("graph._facts.set(name, info)", facts_touched, 1),
        ("self.infos = []", facts_touched, 0),
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
