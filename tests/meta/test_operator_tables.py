"""What is known about operators is stated once, in `xoptim.operators`: no other module has a table
of it.

Rules for single operators, such as the adapters of operator sets, map names to functions; they are
not counted.
"""

import ast
from collections.abc import Iterator

import onnx

from tests.meta.sources import Source, in_one_process, sources
from xoptim.operators.registry import OPERATORS

pytestmark = in_one_process

NAMES = {schema.name for schema in onnx.defs.get_all_schemas()} | {name for _, name in OPERATORS}
ENGINE, CATALOGUE = 12, 20
"""The largest numbers of operators in a collection of the engine, and of a pattern, which may name
the operators that it handles.
"""
REASONS = {
    "xoptim/passes/opsets/adapters_early.py": "what changed in the first operator sets",
    "xoptim/testing/vary_attributes.py": "near misses that need no operands of other types",
    "xoptim/testing/vary_constants.py": "near misses that are no wrong rewrites",
    "xoptim/verification/inputs/size_bounds.py": "how the search for sizes follows arithmetic",
}
"""Files of the engine with a larger collection, and what it states."""
Collection = ast.Set | ast.List | ast.Tuple | ast.Dict


def operators(node: ast.AST) -> set[str]:
    """The names of operators among the texts of a collection."""
    texts = (part.value for part in ast.walk(node) if isinstance(part, ast.Constant))
    return {text for text in texts if isinstance(text, str) and text.split("::")[-1] in NAMES}


def is_rules(node: Collection) -> bool:
    """Whether a dictionary maps names to functions or other objects."""
    if not isinstance(node, ast.Dict):
        return False
    values = (value for key, value in zip(node.keys, node.values, strict=True) if key is not None)
    return any(
        isinstance(part, (ast.Name, ast.Attribute, ast.Lambda, ast.Call)) and not _is_fixed(part)
        for value in values
        for part in ast.walk(value)
    )


def _is_fixed(node: ast.AST) -> bool:
    """Whether a name stands for fixed data."""
    return isinstance(node, ast.Name) and node.id.lstrip("_").isupper()


def collections(node: ast.AST) -> Iterator[Collection]:
    """The outermost collections that hold no rules."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, (ast.Set, ast.List, ast.Tuple, ast.Dict)) and not is_rules(child):
            yield child
        else:
            yield from collections(child)


def largest(source: Source) -> int:
    """The largest number of operators in one collection of a file."""
    return max((len(operators(node)) for node in collections(source.tree)), default=0)


def test_tables_of_operators_are_in_one_place() -> None:
    engine = [s for s in sources("xoptim") if not s.path.startswith("xoptim/operators/")]
    long = {source.path for source in engine if largest(source) > ENGINE}
    assert long == set(REASONS), "state it as a facet of the operators, or say why not"


def test_patterns_name_few_operators() -> None:
    assert [s.path for s in sources("patterns") if largest(s) > CATALOGUE] == []


def test_how_operators_are_counted() -> None:
    text = """
ROUNDS = frozenset(("Add", *("Mul", "Sub"), "no operator"))
SLOTS = {**dict.fromkeys(("Gather", "GatherND"), 1), "com.microsoft::Gelu": (0, "axis")}
RULES = {"Add": lambda x: -x, "Mul": negate}
"""
    counts = [len(operators(node)) for node in collections(ast.parse(text))]
    assert counts == [3, 3]
