"""The page of the site about odd and hostile inputs, from the tests."""

from importlib import import_module
from types import ModuleType

from tests.hostile.cases import Case

THEMES = {
    "Files": "test_files",
    "External data": "test_external_data",
    "Other inputs": "test_inputs",
    "Graphs": "test_graphs",
    "Damaged parts": "test_damage",
    "Names": "test_names",
    "Texts and numbers": "test_texts",
    "Subgraphs": "test_subgraphs",
    "Types": "test_types",
    "Versions and domains": "test_versions",
    "Local functions": "test_functions",
    "Sizes": "test_sizes",
    "Targets and interruptions": "test_targets",
}
WITHOUT_ROWS = {"test_git", "test_mcp", "test_new_pattern", "test_shell"}
"""Tests of repositories, tools, generated code and shells, which are no inputs of `xopt MODEL`."""
HEAD = """# Odd and hostile inputs

The table lists how `xopt` handles odd, damaged and hostile models. It is written from the tests in
`tests/hostile`, one test a row; {count} rows. Every refusal is one line on standard error and exit
code 2, and all files are left unchanged. A fault of onnxruntime that ends the process, as for a
Split of fewer parts than results, is one line too, on Linux, and the exit code is 128 plus the
number of the signal. Where a reason quotes onnxruntime, onnxruntime cannot run the original model;
with `--strict` nothing is written then.
"""


def rows(module: ModuleType) -> list[Case]:
    """The rows of a theme, in order."""
    return [
        *getattr(module, "CASES", ()),
        *(value.row for value in vars(module).values() if hasattr(value, "row")),
    ]


def page() -> str:
    """The page."""
    tables = {title: rows(import_module(f"tests.hostile.{name}")) for title, name in THEMES.items()}
    parts = [HEAD.format(count=sum(map(len, tables.values())))]
    for title, cases in tables.items():
        lines = [f"| {case.id} | {_cell(case.what)} | {_cell(case.does)} |\n" for case in cases]
        parts.append(
            f"\n## {title}\n\n| id | input | behaviour of `xopt` |\n|---|---|---|\n{''.join(lines)}"
        )
    return "".join(parts)


def _cell(words: str) -> str:
    return words.replace("|", "\\|").replace("<", "&lt;").replace("*", "\\*")
