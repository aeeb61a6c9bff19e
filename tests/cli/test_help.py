"""The help of commands: the options that are needed most, and all of them in groups."""

import re

import click
import pytest

from tests.cli.command import Xopt, runner
from xoptim.cli.commands import COMMANDS
from xoptim.cli.help import GROUPS

LARGE = [
    *("apply", "batch", "bench", "bisect", "check", "diff", "extract"),
    *("optimize", "tune", "verify"),
]
"""Commands with too many options for one list."""


@pytest.fixture
def xopt(capsys: pytest.CaptureFixture[str]) -> Xopt:
    """Runs a command line."""
    return runner(capsys)


def options_of(command: str) -> list[click.Option]:
    """The options of a command, without those of the help."""
    return [param for param in COMMANDS[command].params if isinstance(param, click.Option)]


def listed(text: str) -> list[str]:
    """The lines of a help that begin with an option."""
    return [line for line in text.splitlines() if line.startswith("  -")]


@pytest.mark.parametrize("command", LARGE)
def test_help_lists_ten_options_on_a_line_each(xopt: Xopt, command: str) -> None:
    text = xopt(command, "--help").out
    _, _, options = text.partition("\nOptions:\n")
    lines = options.splitlines()
    assert 8 <= len(lines) <= 12
    assert lines == listed("\n".join(lines))
    assert lines[-2:] == [
        line for line in lines if re.search(r"--help-all +Show all|--help +Show this", line)
    ]


@pytest.mark.parametrize("command", LARGE)
def test_help_all_lists_every_option_in_groups(xopt: Xopt, command: str) -> None:
    text = xopt(command, "--help-all").out
    words = {word for line in listed(text) for word in re.findall(r"--[\w-]+", line)}
    assert {name for option in options_of(command) for name in option.opts[-1:]} <= words
    groups = re.split(r"(?m)^(?=\S.*:$)", text)[1:]
    assert all(len(listed(group)) <= 8 for group in groups if not group.startswith("Other"))
    assert len(groups) > 3


@pytest.mark.parametrize("command", sorted({*COMMANDS} - {*LARGE}))
def test_a_command_with_few_options_lists_all(xopt: Xopt, command: str) -> None:
    text = xopt(command, "--help").out
    assert all(name in text for option in options_of(command) for name in option.opts)
    assert "--help-all" not in text
    assert xopt(command, "--help-all") == (0, text, "")


def test_groups_name_options_that_exist_once() -> None:
    names = [name for group in GROUPS.values() for name in group]
    existing = {option.name for command in COMMANDS for option in options_of(command)}
    assert len(names) == len(set(names))
    assert set(names) <= existing
    optimizing = {option.name for option in options_of("optimize")}
    assert optimizing - set(names) == set()


def test_fast_has_a_help_of_its_own_title(xopt: Xopt) -> None:
    text = xopt("fast", "--help").out
    assert text.startswith("Usage: xopt fast ")
    assert "--fast" not in text
    assert xopt("optimize", "--help").out.startswith("Usage: xopt optimize ")
