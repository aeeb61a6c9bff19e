"""Messages name options as their readers know them: each is an `Advice`, and exists."""

import ast
import inspect
import re
from collections.abc import Iterator
from dataclasses import fields
from typing import Any

import pytest

import xoptim
from tests.meta.sources import Source, in_one_process, sources
from xoptim.api import pairing
from xoptim.cli.commands import COMMANDS
from xoptim.facts.advice import _ARGUMENTS as ARGUMENTS, _SHARED as SHARED

pytestmark = in_one_process

OPTION = re.compile(r"(?<![\w-])--[a-z][a-z-]+")
COMMAND_LINE = re.compile(r"\b(xopt|model-explorer|pip|git|netron)( |$)|com\.microsoft")
"""A complete command line is the same for every reader."""
RUNNING = (
    "xoptim/integrations/",
    "xoptim/batching/job.py",
    "xoptim/bench/environments.py",
    "xoptim/reporting/reports_facts.py",
    "xoptim/system/git.py",
    "xoptim/verification/runs/revision.py",
    "xoptim/scaffold/stubs.py",
    "xoptim/facts/advice.py",
)
"""Modules that run a command or read its words."""


def _texts(source: Source) -> Iterator[tuple[int, str]]:
    """The string constants of a file with their lines, without docstrings."""
    comments = {
        id(statement.value)
        for node in source.nodes
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef))
        for statement in node.body
        if isinstance(statement, ast.Expr)
    }
    constants = (node for node in source.nodes if isinstance(node, ast.Constant))
    for node in constants:
        if isinstance(node.value, str) and id(node) not in comments:
            yield node.lineno, node.value


def _options(source: Source) -> list[str]:
    return [
        f"{source.path}:{line} {text!r}"
        for line, text in _texts(source)
        if OPTION.search(text) and not COMMAND_LINE.search(text)
    ]


def test_no_message_names_an_option_of_the_command() -> None:
    assert not [
        wrong
        for source in sources("xoptim", "patterns")
        if not source.path.startswith(RUNNING)
        for wrong in _options(source)
    ]


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ('x = "give some with --feeds"', 1),
        ('x = f"{n}; --fix {n} fixes it"', 1),
        ('"""Makes what --fix makes."""', 0),
        ('x = "`xopt MODEL --external-data` stores them"', 0),
        ('x = "a -- b"', 0),
    ],
)
def test_options_in_messages_are_found(text: str, count: int) -> None:
    assert len(_options(Source("a.py", text, ast.parse(text)))) == count


def _advised() -> set[str]:
    """The options that are named in the sources."""
    return {
        str(node.args[0].value)
        for source in sources("xoptim", "patterns", "cli")
        for node in source.nodes
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id == "Advice"
        and isinstance(node.args[0], ast.Constant)
    }


def test_options_exist() -> None:
    words = {
        word.removeprefix("--")
        for command in COMMANDS.values()
        for param in command.params
        for word in (*param.opts, *param.secondary_opts)
    }
    advised = _advised()
    assert {"fix", "assume", "feeds"} <= advised
    assert {SHARED.get(option, option) for option in {*advised, *ARGUMENTS}} <= words


OWNERS: dict[str, Any] = {"prepare": xoptim.Preparation, "pair": pairing.pair}
"""Functions that are not public, and those whose arguments are the fields of a class."""


def test_arguments_exist_in_python() -> None:
    kinds = (xoptim.OptimizationOptions, xoptim.VerificationOptions)
    own = {entry.name for kind in kinds for entry in fields(kind)} | {"inline", "verify", "target"}
    for option, argument in ARGUMENTS.items():
        owner = OWNERS.get(argument.owner) or getattr(xoptim, argument.owner, None)
        if owner is None:
            assert argument.name in own, option
        else:
            names = inspect.signature(owner).parameters
            assert argument.name in names or not argument.name, option
