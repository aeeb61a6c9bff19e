"""Code is not repeated: no run of equal lines stands in two places."""

import ast
from collections import defaultdict
from collections.abc import Iterable, Iterator

import pytest

from tests.meta.sources import Source, in_one_process, sources

pytestmark = in_one_process

LINES = 5
"""Number of equal lines in a row from which they are a repetition.

A statement is one line, however it is wrapped.
"""
LITERAL = (ast.Constant, ast.Tuple, ast.List, ast.expr_context)


def code(source: Source) -> list[tuple[int, str]]:
    """Number and text of each statement, without white space and comments; of one that holds
    others, the text before them.

    Imports, decorators, docstrings and names for plain data, such as the metadata of a pattern, are
    left out.
    """
    rows = source.text.splitlines()
    statements = sorted(
        (n for n in source.nodes if isinstance(n, ast.stmt)), key=lambda n: (n.lineno, n.col_offset)
    )
    found = []
    for node in statements:
        if isinstance(node, (ast.Import, ast.ImportFrom)) or _is_data(node):
            continue
        inner: list[ast.stmt] = getattr(node, "body", [])
        last = max(node.lineno, inner[0].lineno - 1) if inner else node.end_lineno
        found.append(
            (
                node.lineno,
                "".join(
                    "".join(row.split("# ")[0].split()) for row in rows[node.lineno - 1 : last]
                ),
            )
        )
    return found


def _is_data(node: ast.stmt) -> bool:
    value = node.value if isinstance(node, (ast.Expr, ast.Assign)) else None
    return value is not None and all(isinstance(each, LITERAL) for each in ast.walk(value))


def repetitions(files: Iterable[Source]) -> Iterator[str]:
    """The places of each run of `LINES` equal statements that stands more than once in some
    files.
    """
    places: dict[tuple[str, ...], list[str]] = defaultdict(list)
    for source in files:
        lines = code(source)
        for start in range(len(lines) - LINES + 1):
            run = lines[start : start + LINES]
            places[tuple(text for _, text in run)].append(f"{source.path}:{run[0][0]}")
    return (" = ".join(where) for where in places.values() if len(where) > 1)


def test_nothing_is_written_twice() -> None:
    assert not list(repetitions(sources("xoptim", "cli", "patterns")))


FIRST = """
def f(x):
    a = x + 1
    b = g(a)
    if b:
        b = a * b
    return h(b)
"""
WRAPPED = """
@cache
def other(x):
    'Text.'
    a = x + 1  # one more

    b = g(
        a
    )
    if b:
        import c
        b = a * b
    return h(b)
"""
DATA_ONLY = "phase = 'a'\ntags = ('a', 'b')\nleast = 1\nmost = None\nnames = [\n    'a',\n]\n"


@pytest.mark.parametrize(
    ("text", "count"),
    [
        (WRAPPED, 1),
        (WRAPPED.replace("a * b", "a + b"), 0),
        (FIRST.replace("a * b", "a + b") * 2, 2),
        ("import a\n" * 9, 0),
        (DATA_ONLY * 2, 0),
        ("a = b\n" * 6, 1),
    ],
)
def test_how_lines_are_compared(text: str, count: int) -> None:
    files = [
        Source(f"{number}.py", each, ast.parse(each)) for number, each in enumerate((FIRST, text))
    ]
    assert len(list(repetitions(files))) == count
