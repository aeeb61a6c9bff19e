"""Options that are described by dataclasses."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import click
import pytest
from click.testing import CliRunner
from xoptim.cli.options import command, flag, names_of, option, repeated, switch


@dataclass(frozen=True)
class _Inner:
    size: int | None = option("Size.", type=int)
    tags: tuple[str, ...] = repeated("A tag.", "--tag")


@dataclass(frozen=True)
class _Outer:
    dry_run: bool = flag("Do nothing.")
    inner: _Inner = field(default_factory=_Inner)
    check: bool = switch("Check.")
    fixed: int = 3


@dataclass(frozen=True)
class _Further:
    last: str = option("Last.", default="z")


@command("try", model=click.Path(path_type=Path))
def _try(model: Path, choices: _Outer, further: _Further) -> None:
    """Try MODEL."""
    click.echo(f"{model} {choices} {further}")


def test_a_command_is_given_objects() -> None:
    done = CliRunner().invoke(_try, ["m", "--dry-run", "--size", "2", "--tag", "a", "--tag", "b", "--no-check"])
    inner = _Inner(size=2, tags=("a", "b"))
    assert done.output == f"m {_Outer(True, inner, False)} {_Further()}\n"


def test_defaults_are_those_of_the_objects() -> None:
    assert CliRunner().invoke(_try, ["m"]).output == f"m {_Outer()} {_Further()}\n"
    assert _Outer() == _Outer(False, _Inner(None, ()), True, 3)


def test_names_and_help_come_in_the_order_of_the_fields() -> None:
    assert names_of(_Outer) == ["dry_run", "size", "tags", "check"]
    text = CliRunner().invoke(_try, ["--help"]).output
    places = [
        text.index(word) for word in ("Try MODEL.", "--dry-run", "--size", "--tag", "--check / --no-check", "[default: check]")
    ]
    assert places == sorted(places)


@pytest.mark.parametrize("words", [["m", "--fixed", "2"], ["m", "--size", "x"], []])
def test_other_words_are_refused(words: list[str]) -> None:
    assert CliRunner().invoke(_try, words).exit_code == 2
